/* A real process around nothing (trivial.c): start, readiness, health, admin pages, drain, and what it says of wrong
 * settings. */
#include <arpa/inet.h>
#include <check.h>
#include <grpc/health/v1/health.pb-c.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
#define WATCHES_MAX 256

static struct service_process *process;
static struct rpc_client *client;

static void start(const char *setting, bool ready)
{
	const char *environment[] = {"STAMPEDE_TRIVIAL_SECRET=hush", setting, NULL};

	process = service_process_start(TRIVIAL_BINARY, environment, ready);
	client = rpc_client_create(service_process_target(process));
}

static void tear_down(void)
{
	rpc_client_free(client);
	service_process_free(process);
	rpc_client_end();
}

/* --- asking -------------------------------------------------------------------------------------- */

/* -1: the service is unknown. */
static int check(const char *service)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	Grpc__Health__V1__HealthCheckResponse *response;
	struct asking *asking;
	int status = -1;

	request.service = (char *)service;
	asking = rpc_client_ask(client, CHECK, &request, 5000);
	response = asking_wait(asking, &grpc__health__v1__health_check_response__descriptor);
	if (response)
		status = (int)response->status;
	else
		ck_assert_int_eq(asking_status(asking), STATUS_NOT_FOUND);
	asking_free(asking);
	return status;
}

/* The whole answer to a GET. */
static const char *get(const char *path)
{
	static char answer[64 << 10];
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port =
					      htons((uint16_t)service_process_admin_port(process)),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t size = 0;
	ssize_t got;

	ck_assert(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	dprintf(fd, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	while ((got = read(fd, answer + size, sizeof(answer) - 1 - size)) > 0)
		size += (size_t)got;
	answer[size] = 0;
	close(fd);
	return answer;
}

static void assert_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part), "no %s in: %s", part, text);
}

/* --- readiness ------------------------------------------------------------------------------------ */

START_TEST(is_ready_when_its_parts_are)
{
	start("STAMPEDE_TRIVIAL_READY_AFTER=1s", false);
	ck_assert_int_eq(check(""), NOT_SERVING);
	ck_assert_int_eq(check("readiness"), NOT_SERVING);
	ck_assert_int_eq(check("liveness"), SERVING);
	ck_assert_int_eq(check("no.such.Service"), -1);
	assert_has(get("/readyz"), "HTTP/1.1 503 ");
	assert_has(get("/readyz"), "{\"warmth\":{\"up\":false,\"reason\":\"not connected yet\"}}");
	assert_has(get("/healthz"), "HTTP/1.1 200 ");
	for (int i = 0; i < 200 && check("") != SERVING; i++)
		rpc_client_run_ms(20);
	ck_assert_int_eq(check(""), SERVING);
	assert_has(get("/readyz"), "HTTP/1.1 200 ");
	assert_has(service_process_log(process), "\"event\":\"ready\"");
}
END_TEST

START_TEST(shows_its_figures_and_settings)
{
	const char *config;

	start("STAMPEDE_DRAIN_WAIT=7s", true);
	check("");
	assert_has(get("/metrics"), "stampede_ready 1\n");
	assert_has(get("/metrics"),
		   "stampede_calls_total{method=\"grpc.health.v1.Health/Check\",code=\"OK\"} 1\n");
	config = get("/debug/config");
	assert_has(config, "\"STAMPEDE_DRAIN_WAIT\": \"7s\"");
	assert_has(config, "\"STAMPEDE_TRIVIAL_SECRET\": \"(set)\"");
	ck_assert_ptr_null(strstr(config, "hush"));
	assert_has(get("/"), "<a href=/metrics>");
	assert_has(get("/nothing"), "HTTP/1.1 404 ");
}
END_TEST

/* --- Watch ----------------------------------------------------------------------------------------- */

struct watching {
	struct rpc_stream stream;
	int statuses[8];
	int count;
	bool done;
};

static void watching_message(struct rpc_stream *stream, grpc_slice message)
{
	struct watching *watching = container_of(stream, struct watching, stream);
	Grpc__Health__V1__HealthCheckResponse *response =
		grpc__health__v1__health_check_response__unpack(NULL, GRPC_SLICE_LENGTH(message),
								GRPC_SLICE_START_PTR(message));

	ck_assert(response && watching->count < 8);
	watching->statuses[watching->count++] = (int)response->status;
	grpc__health__v1__health_check_response__free_unpacked(response, NULL);
	rpc_stream_next(stream);
}

static void watching_done(struct rpc_stream *stream)
{
	container_of(stream, struct watching, stream)->done = true;
}

static void watch(struct watching *watching, struct channel_method *method, const char *service)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

	request.service = (char *)service;
	*watching = (struct watching){.stream = {.method = method,
						 .request = rpc_pack(&request),
						 .message = watching_message,
						 .done = watching_done}};
	rpc_stream_start(&watching->stream);
}

static struct channel *watch_channel(struct channel_method **ret_method)
{
	struct channel_options options = {.target = service_process_target(process)};
	struct channel *channel = channel_create(rpc_client_loop(), &options);

	*ret_method = channel_method(channel, WATCH);
	return channel;
}

START_TEST(tells_watchers_of_every_change)
{
	struct channel_method *method;
	struct watching known, unknown;
	struct channel *channel;

	start("STAMPEDE_TRIVIAL_READY_AFTER=500ms", false);
	channel = watch_channel(&method);
	watch(&known, method, "");
	watch(&unknown, method, "no.such.Service");
	for (int i = 0; i < 200 && known.count < 2; i++)
		rpc_client_run_ms(10);
	ck_assert_int_eq(known.statuses[0], NOT_SERVING);
	ck_assert_int_eq(known.statuses[1], SERVING);
	ck_assert_int_eq(unknown.count, 1);
	ck_assert_int_eq(unknown.statuses[0], SERVICE_UNKNOWN);
	ck_assert(!unknown.done);

	/* A drain tells them, then ends them: it need not wait for them. */
	service_process_signal(process, SIGTERM);
	for (int i = 0; i < 200 && !(known.done && unknown.done); i++)
		rpc_client_run_ms(10);
	ck_assert(known.done && unknown.done);
	ck_assert_int_eq(known.count, 3);
	ck_assert_int_eq(known.statuses[2], NOT_SERVING);
	ck_assert_int_eq(known.stream.error.status, STATUS_UNAVAILABLE);
	ck_assert_int_eq(service_process_wait(process), 0);
	rpc_stream_release(&known.stream);
	rpc_stream_release(&unknown.stream);
	channel_destroy(channel);
}
END_TEST

START_TEST(refuses_watchers_beyond_its_limit)
{
	static struct watching watchings[WATCHES_MAX + 1];
	struct watching *last = &watchings[WATCHES_MAX];
	struct channel_method *method;
	struct channel *channel;
	int told = 0;

	start(NULL, true);
	channel = watch_channel(&method);
	for (int i = 0; i < WATCHES_MAX; i++)
		watch(&watchings[i], method, "");
	for (int i = 0; i < 500 && told < WATCHES_MAX; i++) {
		rpc_client_run_ms(10);
		told = 0;
		for (int j = 0; j < WATCHES_MAX; j++)
			told += watchings[j].count;
	}
	ck_assert_int_eq(told, WATCHES_MAX);
	watch(last, method, "");
	for (int i = 0; i < 200 && !last->done; i++)
		rpc_client_run_ms(10);
	ck_assert_int_eq(last->stream.error.status, STATUS_RESOURCE_EXHAUSTED);
	for (int i = 0; i < WATCHES_MAX; i++)
		rpc_stream_cancel(&watchings[i].stream);
	rpc_client_run_ms(200);
	for (int i = 0; i <= WATCHES_MAX; i++) {
		ck_assert(watchings[i].done);
		rpc_stream_release(&watchings[i].stream);
	}
	/* Those that left make room. */
	watch(last, method, "");
	for (int i = 0; i < 200 && !last->count; i++)
		rpc_client_run_ms(10);
	ck_assert_int_eq(last->count, 1);
	rpc_stream_cancel(&last->stream);
	rpc_client_run_ms(100);
	rpc_stream_release(&last->stream);
	channel_destroy(channel);
}
END_TEST

/* --- ending ---------------------------------------------------------------------------------------- */

START_TEST(drains_and_ends_well_on_sigterm)
{
	start("STAMPEDE_DRAIN_WAIT=300ms", true);
	ck_assert_int_eq(check(""), SERVING);
	service_process_signal(process, SIGTERM);
	rpc_client_run_ms(100);
	/* It still answers, and says that it will not for long. */
	ck_assert_int_eq(check(""), NOT_SERVING);
	assert_has(get("/readyz"), "HTTP/1.1 503 ");
	ck_assert_int_eq(service_process_wait(process), 0);
	assert_has(service_process_log(process), "\"event\":\"stopped\"");
}
END_TEST

START_TEST(ends_at_once_on_a_second_signal)
{
	int64_t before_us;

	start("STAMPEDE_DRAIN_WAIT=20s", true);
	service_process_signal(process, SIGTERM);
	rpc_client_run_ms(100);
	before_us = clock_monotonic_us();
	service_process_signal(process, SIGINT);
	ck_assert_int_eq(service_process_wait(process), 1);
	ck_assert_int_lt(clock_monotonic_us() - before_us, 2000000);
}
END_TEST

/* --- what keeps it from starting -------------------------------------------------------------------- */

/* Runs it with this before its name; what it printed. */
static const char *run(const char *environment, const char *arguments, int *ret_code)
{
	static char text[64 << 10], command[512];
	size_t size;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s timeout 10 %s %s 2>&1", environment, TRIVIAL_BINARY,
		 arguments);
	pipe = popen(command, "r");
	size = fread(text, 1, sizeof(text) - 1, pipe);
	text[size] = 0;
	*ret_code = WEXITSTATUS(pclose(pipe));
	return text;
}

START_TEST(names_every_wrong_setting_and_exits_78)
{
	int code;
	const char *text =
		run("STAMPEDE_LOG_LEVEL=loud STAMPEDE_DRAIN_WAIT=5 STAMPEDE_CALLS_MAX=none "
		    "STAMPEDE_GRPC_ADDRESS=7000 STAMPEDE_TLS_KEY=/x "
		    "STAMPEDE_TRIVIAL_READY_AFTER=2h",
		    "", &code);

	ck_assert_int_eq(code, 78);
	assert_has(text, "\"name\":\"STAMPEDE_LOG_LEVEL\",\"value\":\"loud\",\"allowed\":\"debug,");
	assert_has(text,
		   "\"name\":\"STAMPEDE_DRAIN_WAIT\",\"value\":\"5\",\"allowed\":\"a duration");
	assert_has(text, "\"name\":\"STAMPEDE_CALLS_MAX\"");
	assert_has(text,
		   "\"name\":\"STAMPEDE_GRPC_ADDRESS\",\"value\":\"7000\",\"allowed\":\"host:port");
	assert_has(text, "\"name\":\"STAMPEDE_TLS_CERTIFICATE\"");
	assert_has(text, "\"name\":\"STAMPEDE_TRIVIAL_READY_AFTER\",\"value\":\"2h\"");
	assert_has(text, "\"event\":\"settings_wrong\",\"count\":6");
}
END_TEST

START_TEST(says_who_holds_its_port)
{
	char environment[160], holder[64];
	const char *text;
	int code;

	start(NULL, true);
	snprintf(environment, sizeof(environment),
		 "STAMPEDE_GRPC_ADDRESS=%s STAMPEDE_ADMIN_ADDRESS=127.0.0.1:0",
		 service_process_target(process));
	text = run(environment, "", &code);
	ck_assert_int_eq(code, 1);
	snprintf(holder, sizeof(holder), "\"address\":\"%s\",\"held_by\":\"trivial (pid ",
		 service_process_target(process));
	assert_has(text, holder);
}
END_TEST

START_TEST(explains_itself)
{
	int code;

	assert_has(run("", "--help", &code), "STAMPEDE_GRPC_ADDRESS         0.0.0.0:7099");
	ck_assert_int_eq(code, 0);
	assert_has(run("", "--version", &code), "stampede-trivial ");
	ck_assert_int_eq(code, 0);
	run("", "serve", &code);
	ck_assert_int_eq(code, 64);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("process");
	TCase *served = tcase_create("served"), *alone = tcase_create("alone");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(served, 40);
	tcase_add_checked_fixture(served, NULL, tear_down);
	tcase_add_test(served, is_ready_when_its_parts_are);
	tcase_add_test(served, shows_its_figures_and_settings);
	tcase_add_test(served, tells_watchers_of_every_change);
	tcase_add_test(served, refuses_watchers_beyond_its_limit);
	tcase_add_test(served, drains_and_ends_well_on_sigterm);
	tcase_add_test(served, ends_at_once_on_a_second_signal);
	tcase_add_test(served, says_who_holds_its_port);
	tcase_add_test(alone, names_every_wrong_setting_and_exits_78);
	tcase_add_test(alone, explains_itself);
	suite_add_tcase(suite, served);
	suite_add_tcase(suite, alone);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
