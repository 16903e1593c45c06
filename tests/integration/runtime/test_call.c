/* Calls from both ends: a server and a client on one loop. The service is grpc.health.v1.Health's shape with
 * handlers of our own; what it is asked for stands in the request.
 */
#include <check.h>
#include <grpc/health/v1/health.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/channel.h"
#include "runtime/clock.h"
#include "runtime/server.h"

#define CALLS_MAX 4
#define GUARD_MS 10000

static struct loop *loop;
static struct server *server;
static struct channel *channel;
static struct channel_method *check_method_handle, *watch_method_handle, *unknown_handle;
static int abandoned, continued;
static enum status continued_with;
static char trace_seen[33];

/* --- the service ------------------------------------------------------------------------------------ */

struct frame {
	struct wait wait;
	int sent;
};
static struct frame *held;

static void frame_abandon(struct wait *wait)
{
	(void)wait;
	abandoned++;
	held = NULL;
}

static enum step answer(struct call *call)
{
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

	response.status = 1;
	return call_reply(call, &response);
}

static enum step check_continued(struct call *call, enum status status)
{
	continued++;
	continued_with = status;
	return status == STATUS_OK ? answer(call) : call_fail(call, status, "it was not held");
}

static enum step check_begin(struct call *call)
{
	const Grpc__Health__V1__HealthCheckRequest *request = call_request(call);
	struct frame *frame = call_frame(call);
	enum step step;

	trace_id_format(call_trace(call), trace_seen);
	if (!strcmp(request->service, "fail"))
		return call_fail_retry(call, STATUS_UNAVAILABLE, 1500, "not %s", "now");
	if (!strcmp(request->service, "refuse"))
		return call_refuse(call, "service", "is no good");
	if (!strcmp(request->service, "sleep"))
		return call_sleep(call, 20, check_continued);
	if (!strcmp(request->service, "later")) {
		step = call_await(call, &frame->wait, NULL, check_continued);
		wait_finish_later(&frame->wait, STATUS_OK);
		return step;
	}
	if (!strcmp(request->service, "hold")) {
		held = frame;
		return call_await(call, &frame->wait, frame_abandon, check_continued);
	}
	return answer(call);
}

static enum step watch_begin(struct call *call);

static enum step watch_sent(struct call *call, enum status status)
{
	struct frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return call_fail(call, status, "gone");
	if (frame->sent == 3)
		return call_finish(call);
	return watch_begin(call);
}

static enum step watch_left(struct call *call, enum status status)
{
	continued++;
	continued_with = status;
	return call_fail(call, status, "gone");
}

static enum step watch_begin(struct call *call)
{
	const Grpc__Health__V1__HealthCheckRequest *request = call_request(call);
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	struct frame *frame = call_frame(call);

	if (!strcmp(request->service, "hold"))
		return call_await(call, &frame->wait, frame_abandon, watch_left);
	response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)frame->sent++;
	return call_send(call, &response, watch_sent);
}

static const struct method check = {.name = "Check",
				    .begin = check_begin,
				    .frame_size = sizeof(struct frame),
				    .flags = METHOD_WAITS,
				    .request_max = 1000};
static const struct method watch = {
	.name = "Watch", .begin = watch_begin, .frame_size = sizeof(struct frame)};
static const struct method *const methods[] = {&check, &watch, NULL};
static const struct service service = {.descriptor = &grpc__health__v1__health__descriptor,
				       .methods = methods};

/* --- the client ------------------------------------------------------------------------------------- */

struct asked {
	struct rpc rpc;
	bool over;
	int status;
	char message[128];
	unsigned char details[256];
	size_t details_size;
};

static void guard_fired(struct timer *timer)
{
	(void)timer;
	ck_abort_msg("nothing happened in time");
}

static void asked_done(struct rpc *rpc)
{
	struct asked *asked = container_of(rpc, struct asked, rpc);

	asked->over = true;
	asked->status = (int)rpc->error.status;
	snprintf(asked->message, sizeof(asked->message), "%s",
		 rpc->error.message ? rpc->error.message : "");
	asked->details_size = rpc->error.details_size;
	if (rpc->error.details)
		memcpy(asked->details, rpc->error.details, rpc->error.details_size);
	rpc_release(rpc);
	loop_stop(loop);
}

static void ask_bytes(struct asked *asked, struct channel_method *method, grpc_slice request,
		      int64_t timeout_ms, const struct trace *trace)
{
	*asked = (struct asked){.rpc = {.method = method,
					.request = request,
					.deadline_us = clock_monotonic_us() + timeout_ms * 1000,
					.trace = trace,
					.done = asked_done}};
	rpc_start(&asked->rpc);
}

static void ask(struct asked *asked, const char *what, int64_t timeout_ms)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

	request.service = (char *)what;
	ask_bytes(asked, check_method_handle, rpc_pack(&request), timeout_ms, NULL);
}

static void run_until(const bool *over)
{
	struct timer guard;

	timer_init(&guard, loop, guard_fired);
	timer_start_us(&guard, GUARD_MS * 1000);
	while (!*over)
		loop_run(loop);
	timer_stop(&guard);
}

static void nap_over(struct timer *timer)
{
	(void)timer;
	loop_stop(loop);
}

static void run_for_ms(int64_t ms)
{
	struct timer nap;

	timer_init(&nap, loop, nap_over);
	timer_start_us(&nap, ms * 1000);
	while (timer_started(&nap))
		loop_run(loop);
}

static void set_up(void)
{
	char target[64];

	abandoned = continued = 0;
	held = NULL;
	loop = loop_create();
	server = server_create(
		loop, &(struct server_options){.address = "127.0.0.1:0", .calls_max = CALLS_MAX});
	server_add(server, &service);
	ck_assert_int_eq(server_start(server), STATUS_OK);
	snprintf(target, sizeof(target), "127.0.0.1:%d", server_port(server));
	channel = channel_create(loop, &(struct channel_options){.target = target});
	check_method_handle = channel_method(channel, "/grpc.health.v1.Health/Check");
	watch_method_handle = channel_method(channel, "/grpc.health.v1.Health/Watch");
	unknown_handle = channel_method(channel, "/grpc.health.v1.Health/Nothing");
}

static bool drained;

static void on_drained(void *context)
{
	(void)context;
	drained = true;
	loop_stop(loop);
}

static void tear_down(void)
{
	channel_destroy(channel);
	drained = false;
	server_drain(server, 100, on_drained, NULL);
	run_until(&drained);
	ck_assert_int_eq(server_calls_active(server), 0);
	server_destroy(server);
	loop_destroy(loop);
}

/* --- tests ------------------------------------------------------------------------------------------ */

START_TEST(answers_a_call)
{
	struct asked asked;

	ask(&asked, "now", 5000);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_OK);
	ask(&asked, "sleep", 5000);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_OK);
	ask(&asked, "later", 5000);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_OK);
	ck_assert_int_eq(continued, 2);
}
END_TEST

START_TEST(carries_the_details_of_a_failure)
{
	/* google.rpc.Status{code: 14, message: "not now", details: [RetryInfo{1 s, 500,000,000 ns}]} */
	static const char type[] = "type.googleapis.com/google.rpc.RetryInfo";
	static const unsigned char retry[] = {0x0a, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 1};
	struct asked asked;

	ask(&asked, "fail", 5000);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_UNAVAILABLE);
	ck_assert_str_eq(asked.message, "not now");
	ck_assert_ptr_nonnull(memmem(asked.details, asked.details_size, type, strlen(type)));
	ck_assert_ptr_nonnull(memmem(asked.details, asked.details_size, retry, sizeof(retry)));
}
END_TEST

START_TEST(names_the_field_it_refuses)
{
	struct asked asked;

	ask(&asked, "refuse", 5000);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(asked.message, "service: is no good");
	ck_assert_ptr_nonnull(memmem(asked.details, asked.details_size, "BadRequest", 10));
}
END_TEST

START_TEST(ends_a_wait_at_the_deadline_once)
{
	struct asked asked;

	ask(&asked, "hold", 50);
	run_until(&asked.over);
	run_for_ms(50);
	ck_assert_int_eq(asked.status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(abandoned, 1);
	ck_assert_int_eq(continued, 1);
}
END_TEST

START_TEST(tells_a_waiting_handler_that_its_caller_left)
{
	struct asked asked;

	ask(&asked, "hold", 5000);
	while (!held)
		run_for_ms(5);
	rpc_cancel(&asked.rpc);
	run_until(&asked.over);
	run_for_ms(50);
	ck_assert_int_eq(asked.status, STATUS_CANCELLED);
	ck_assert_int_eq(continued_with, STATUS_CANCELLED);
	ck_assert_int_eq(abandoned, 1);
	ck_assert_int_eq(continued, 1);
}
END_TEST

START_TEST(continues_when_the_wait_is_finished)
{
	struct asked asked;

	ask(&asked, "hold", 5000);
	while (!held)
		run_for_ms(5);
	wait_finish(&held->wait, STATUS_OK);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_OK);
	ck_assert_int_eq(abandoned, 0);
	ck_assert_int_eq(continued, 1);
}
END_TEST

START_TEST(refuses_at_once_when_all_calls_are_taken)
{
	struct asked asked[CALLS_MAX], more;

	for (int i = 0; i < CALLS_MAX; i++)
		ask(&asked[i], "hold", 300);
	while (server_calls_active(server) < CALLS_MAX)
		run_for_ms(5);
	ask(&more, "now", 5000);
	run_until(&more.over);
	ck_assert_int_eq(more.status, STATUS_RESOURCE_EXHAUSTED);
	for (int i = 0; i < CALLS_MAX; i++)
		run_until(&asked[i].over);
	/* Their deadlines end them on both sides, not at the same moment. */
	while (server_calls_active(server))
		run_for_ms(5);
	ask(&more, "now", 5000);
	run_until(&more.over);
	ck_assert_int_eq(more.status, STATUS_OK);
}
END_TEST

START_TEST(answers_unknown_methods_unimplemented)
{
	struct asked asked;

	ask_bytes(&asked, unknown_handle, grpc_empty_slice(), 5000, NULL);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_UNIMPLEMENTED);
	ck_assert_ptr_nonnull(strstr(asked.message, "/grpc.health.v1.Health/Nothing"));
}
END_TEST

START_TEST(refuses_what_is_not_the_message)
{
	static const char garbage[] = "\x0a\xff garbage", bad_utf8[] = "\x0a\x02\xc3\x28";
	char large[1200] = {0x0a, (char)0xad, 0x09};
	struct asked asked;

	ask_bytes(&asked, check_method_handle,
		  grpc_slice_from_copied_buffer(garbage, sizeof(garbage) - 1), 5000, NULL);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_INVALID_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(asked.message, "grpc.health.v1.HealthCheckRequest"));

	ask_bytes(&asked, check_method_handle,
		  grpc_slice_from_copied_buffer(bad_utf8, sizeof(bad_utf8) - 1), 5000, NULL);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_INVALID_ARGUMENT);
	ck_assert_str_eq(asked.message, "service: is not valid UTF-8");

	memset(large + 3, 'x', sizeof(large) - 3);
	ask_bytes(&asked, check_method_handle, grpc_slice_from_copied_buffer(large, sizeof(large)),
		  5000, NULL);
	run_until(&asked.over);
	ck_assert_int_eq(asked.status, STATUS_RESOURCE_EXHAUSTED);
}
END_TEST

START_TEST(continues_the_callers_trace)
{
	struct trace trace = trace_make();
	struct asked asked;
	char expected[33];

	trace_id_format(&trace, expected);
	ask_bytes(&asked, check_method_handle, grpc_empty_slice(), 5000, &trace);
	run_until(&asked.over);
	ck_assert_str_eq(trace_seen, expected);
}
END_TEST

/* --- streams ----------------------------------------------------------------------------------------- */

struct watched {
	struct rpc_stream stream;
	unsigned char bytes[16];
	size_t count;
	bool over;
	int status;
};

static void watched_message(struct rpc_stream *stream, grpc_slice message)
{
	struct watched *watched = container_of(stream, struct watched, stream);

	watched->bytes[watched->count++] =
		GRPC_SLICE_LENGTH(message) ? GRPC_SLICE_START_PTR(message)[1] : 0;
	rpc_stream_next(stream);
}

static void watched_done(struct rpc_stream *stream)
{
	struct watched *watched = container_of(stream, struct watched, stream);

	watched->over = true;
	watched->status = (int)stream->error.status;
	rpc_stream_release(stream);
	loop_stop(loop);
}

static void start_watch(struct watched *watched, const char *what)
{
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

	request.service = (char *)what;
	*watched = (struct watched){.stream = {.method = watch_method_handle,
					       .request = rpc_pack(&request),
					       .message = watched_message,
					       .done = watched_done}};
	rpc_stream_start(&watched->stream);
}

START_TEST(streams_messages_in_order)
{
	struct watched watched;

	start_watch(&watched, "three");
	run_until(&watched.over);
	ck_assert_int_eq(watched.status, STATUS_OK);
	ck_assert_uint_eq(watched.count, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(watched.bytes[i], i);
}
END_TEST

START_TEST(tells_a_stream_that_its_caller_left)
{
	struct watched watched;

	start_watch(&watched, "hold");
	while (!server_calls_active(server))
		run_for_ms(5);
	rpc_stream_cancel(&watched.stream);
	run_until(&watched.over);
	run_for_ms(50);
	ck_assert_int_eq(watched.status, STATUS_CANCELLED);
	ck_assert_int_eq(continued_with, STATUS_CANCELLED);
	ck_assert_int_eq(server_calls_active(server), 0);
}
END_TEST

/* --- drain -------------------------------------------------------------------------------------------- */

START_TEST(a_drain_waits_for_calls_and_then_ends_them)
{
	struct asked asked;

	ask(&asked, "hold", 5000);
	while (!held)
		run_for_ms(5);
	drained = false;
	server_drain(server, 100, on_drained, NULL);
	run_for_ms(20);
	ck_assert(!drained);
	ck_assert_int_eq(abandoned, 0);
	run_until(&drained);
	run_until(&asked.over);
	ck_assert_int_eq(continued_with, STATUS_UNAVAILABLE);
	ck_assert_int_eq(abandoned, 1);
	channel_destroy(channel);
	server_destroy(server);
	loop_destroy(loop);
}
END_TEST

START_TEST(a_closed_channel_tells_those_who_wait)
{
	struct asked asked;

	ask(&asked, "hold", 5000);
	while (!held)
		run_for_ms(5);
	channel_destroy(channel);
	ck_assert(asked.over);
	ck_assert_int_eq(asked.status, STATUS_CANCELLED);
	channel = NULL;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("call");
	TCase *usual = tcase_create("calls"), *drain = tcase_create("drain");
	SRunner *runner = srunner_create(suite);
	int failed;

	/* gRPC starts threads: no fork after it, and every test makes its own loop. */
	srunner_set_fork_status(runner, CK_NOFORK);
	tcase_add_checked_fixture(usual, set_up, tear_down);
	tcase_add_checked_fixture(drain, set_up, NULL);
	tcase_set_timeout(usual, 60);
	tcase_add_test(usual, answers_a_call);
	tcase_add_test(usual, carries_the_details_of_a_failure);
	tcase_add_test(usual, names_the_field_it_refuses);
	tcase_add_test(usual, ends_a_wait_at_the_deadline_once);
	tcase_add_test(usual, tells_a_waiting_handler_that_its_caller_left);
	tcase_add_test(usual, continues_when_the_wait_is_finished);
	tcase_add_test(usual, refuses_at_once_when_all_calls_are_taken);
	tcase_add_test(usual, answers_unknown_methods_unimplemented);
	tcase_add_test(usual, refuses_what_is_not_the_message);
	tcase_add_test(usual, continues_the_callers_trace);
	tcase_add_test(usual, streams_messages_in_order);
	tcase_add_test(usual, tells_a_stream_that_its_caller_left);
	tcase_add_test(usual, a_closed_channel_tells_those_who_wait);
	tcase_add_test(drain, a_drain_waits_for_calls_and_then_ends_them);
	suite_add_tcase(suite, usual);
	suite_add_tcase(suite, drain);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
