/* Redis as a step of a call, from a real client to a real server. The service has the shape of
 * grpc.health.v1.Health; what it is asked for stands in the request.
 */
#include <check.h>
#include <grpc/health/v1/health.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/redis.h"
#include "runtime/server.h"
#include "tests/support/redis_server.h"
#include "tests/support/rpc_client.h"

#define CHECK "/grpc.health.v1.Health/Check"

static struct redis_server *redis_server;
static struct redis *redis;
static struct server *server;
static struct rpc_client *client;
static struct asking *asking;
static int decoded;

/* --- the service ------------------------------------------------------------------------------ */

static struct redis_script twice = {.name = "twice",
				    .source = "return redis.call('INCRBY', KEYS[1], 2 * ARGV[1])"};

struct frame {
	long long number;
};

static enum status number_decode(struct call *call, const redisReply *reply)
{
	struct frame *frame = call_frame(call);

	decoded++;
	if (reply->type != REDIS_REPLY_INTEGER)
		return STATUS_DATA_LOSS;
	frame->number = reply->integer;
	return STATUS_OK;
}

static enum step check_counted(struct call *call, enum status status)
{
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	struct frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return call_fail(call, status, "it was not counted");
	response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)frame->number;
	return call_reply(call, &response);
}

static enum step check_begin(struct call *call)
{
	const Grpc__Health__V1__HealthCheckRequest *request = call_request(call);
	const char *command[] = {"INCR", "n"}, *text[] = {"GET", "n"}, *script[] = {"n", "1"};
	size_t command_sizes[] = {4, 1}, text_sizes[] = {3, 1}, script_sizes[] = {1, 1};

	if (strcmp(request->service, "script") == 0)
		return redis_script(redis, call, &twice, 1,
				    (struct redis_args){2, script, script_sizes}, number_decode,
				    check_counted);
	if (strcmp(request->service, "text") == 0)
		return redis_command(redis, call, (struct redis_args){2, text, text_sizes},
				     number_decode, check_counted);
	return redis_command(redis, call, (struct redis_args){2, command, command_sizes},
			     number_decode, check_counted);
}

static const struct method check_method = {
	.name = "Check", .begin = check_begin, .frame_size = sizeof(struct frame)};
static const struct method *const methods[] = {&check_method, NULL};
static const struct service service = {&grpc__health__v1__health__descriptor, methods, NULL};

/* --- asking it -------------------------------------------------------------------------------- */

static void set_up(void)
{
	char target[32];

	log_start("test", LOG_ERROR);
	redis_server = redis_server_start(NULL);
	redis = redis_create(rpc_client_loop(),
			     &(struct redis_options){.url = redis_server_url(redis_server)});
	server = server_create(rpc_client_loop(),
			       &(struct server_options){.address = "127.0.0.1:0"});
	server_add(server, &service);
	ck_assert_int_eq(server_start(server), STATUS_OK);
	snprintf(target, sizeof(target), "127.0.0.1:%d", server_port(server));
	client = rpc_client_create(target);
	while (!redis_connected(redis))
		rpc_client_run_ms(5);
}

static void drained(void *context)
{
	*(bool *)context = true;
}

static void tear_down(void)
{
	bool done = false;

	asking_free(asking);
	server_drain(server, 1000, drained, &done);
	while (!done)
		rpc_client_run_ms(5);
	rpc_client_free(client);
	server_destroy(server);
	redis_destroy(redis);
	rpc_client_end();
	redis_server_free(redis_server);
}

/* The number it was answered, or -status. */
static int ask(const char *what, int64_t timeout_ms)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	Grpc__Health__V1__HealthCheckResponse *response;

	request.service = (char *)(uintptr_t)what;
	if (asking)
		asking_free(asking);
	asking = rpc_client_ask(client, CHECK, &request, timeout_ms);
	response = asking_wait(asking, &grpc__health__v1__health_check_response__descriptor);
	return response ? (int)response->status : -(int)asking_status(asking);
}

START_TEST(a_step_is_answered)
{
	ck_assert_int_eq(ask("command", 1000), 1);
	ck_assert_int_eq(ask("script", 1000), 3);
	ck_assert_int_eq(ask("command", 1000), 4);
	ck_assert_int_eq(decoded, 3);
}
END_TEST

START_TEST(what_cannot_be_decoded_has_the_decoders_status)
{
	ck_assert_int_eq(ask("command", 1000), 1);
	ck_assert_int_eq(ask("text", 1000), -STATUS_DATA_LOSS);
}
END_TEST

START_TEST(an_error_of_redis_is_not_decoded)
{
	redis_server_ask(redis_server, "SET n letters");
	ck_assert_int_eq(ask("command", 1000), -STATUS_INTERNAL);
	ck_assert_int_eq(decoded, 0);
}
END_TEST

START_TEST(a_call_does_not_wait_longer_than_its_deadline)
{
	ck_assert_int_eq(ask("command", 1000), 1);
	redis_server_pause(redis_server);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(ask(i % 2 ? "script" : "command", 100), -STATUS_DEADLINE_EXCEEDED);
	rpc_client_run_ms(100);
	ck_assert_int_eq(redis_in_flight(redis), 5);

	redis_server_resume(redis_server);
	/* The late ones ran (1 + 2 + 1 + 2 + 1), but nobody decoded them. */
	ck_assert_int_eq(ask("command", 1000), 9);
	ck_assert_int_eq(decoded, 2);
	ck_assert_int_eq(redis_in_flight(redis), 0);
}
END_TEST

START_TEST(without_redis_a_call_fails_at_once)
{
	redis_server_kill(redis_server);
	while (redis_connected(redis))
		rpc_client_run_ms(5);
	ck_assert_int_eq(ask("command", 5000), -STATUS_UNAVAILABLE);
	ck_assert_int_eq(ask("script", 5000), -STATUS_UNAVAILABLE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_step");
	TCase *test = tcase_create("redis_step");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	tcase_add_checked_fixture(test, set_up, tear_down);
	suite_add_tcase(suite, test);
	tcase_add_test(test, a_step_is_answered);
	tcase_add_test(test, what_cannot_be_decoded_has_the_decoders_status);
	tcase_add_test(test, an_error_of_redis_is_not_decoded);
	tcase_add_test(test, a_call_does_not_wait_longer_than_its_deadline);
	tcase_add_test(test, without_redis_a_call_fails_at_once);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
