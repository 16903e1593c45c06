/* The Redis client against a real server that is killed, paused, flushed and overloaded. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/metrics.h"
#include "tests/integration/redis/client.h"
#include "tests/support/redis_server.h"

static struct redis_server *server;
static struct client client;

static struct redis_script add = {.name = "add",
				  .source = "return redis.call('INCRBY', KEYS[1], ARGV[1])"};

static void start(struct redis_options options)
{
	server = redis_server_start(NULL);
	options.url = redis_server_url(server);
	client_start(&client, options);
	client_run_until(&client, &client.connected, 1);
}

static void stop(void)
{
	client_stop(&client);
	redis_server_free(server);
}

START_TEST(commands_are_answered)
{
	struct asked asked = {0};

	start((struct redis_options){0});
	ck_assert_int_eq(client_ask(&client, &asked, "SET colour green"), STATUS_OK);
	ck_assert_int_eq(client_ask(&client, &asked, "GET colour"), STATUS_OK);
	ck_assert_str_eq(asked.text, "green");
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	ck_assert_str_eq(asked.text, "PONG");
	ck_assert_int_eq(redis_in_flight(client.redis), 0);
	stop();
}
END_TEST

START_TEST(arguments_of_any_bytes_and_size_arrive)
{
	static char large[3000000];
	const char *values[] = {"SET", "k\0\r\n", large};
	size_t sizes[] = {3, 4, sizeof(large)};
	struct asked asked = {0};

	start((struct redis_options){0});
	memset(large, 'x', sizeof(large));
	client_send(&client, &asked, "PING");
	client_run_until(&client, &asked.done, 1);
	asked.done = 0;
	redis_send(client.redis, &asked.op, (struct redis_args){3, values, sizes});
	client_run_until(&client, &asked.done, 1);
	ck_assert_int_eq(asked.status, STATUS_OK);
	ck_assert_int_eq(redis_server_ask(server, "STRLEN %b", "k\0\r\n", (size_t)4)->integer,
			 sizeof(large));
	stop();
}
END_TEST

START_TEST(errors_become_statuses)
{
	struct asked asked = {0};
	static struct redis_script broken = {.name = "broken", .source = "this is no Lua"};
	static struct redis_script refuses = {.name = "refuses",
					      .source = "return redis.error_reply('OOM no room')"};

	start((struct redis_options){0});
	ck_assert_int_eq(client_ask(&client, &asked, "LPUSH list 1"), STATUS_OK);
	ck_assert_int_eq(client_ask(&client, &asked, "GET list"), STATUS_INTERNAL);
	ck_assert_ptr_nonnull(strstr(asked.text, "WRONGTYPE"));
	client_send_script(&client, &asked, &broken, 0, "");
	client_run_until(&client, &asked.done, 1);
	ck_assert_int_eq(asked.status, STATUS_INTERNAL);
	ck_assert_ptr_nonnull(strstr(asked.text, "compiling"));
	client_send_script(&client, &asked, &refuses, 0, "");
	client_run_until(&client, &asked.done, 1);
	ck_assert_int_eq(asked.status, STATUS_RESOURCE_EXHAUSTED);
	stop();
}
END_TEST

START_TEST(a_unix_socket_serves_too)
{
	struct asked asked = {0};

	server = redis_server_start(NULL);
	client_start(&client, (struct redis_options){.url = redis_server_unix_url(server)});
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	stop();
}
END_TEST

START_TEST(the_database_of_the_url_is_selected)
{
	struct asked asked = {0};
	char url[128];

	server = redis_server_start(NULL);
	snprintf(url, sizeof(url), "redis://localhost:%d/3", redis_server_port(server));
	client_start(&client, (struct redis_options){.url = url});
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "SET here 1"), STATUS_OK);
	redis_server_ask(server, "SELECT 3");
	ck_assert_int_eq(redis_server_ask(server, "EXISTS here")->integer, 1);
	stop();
}
END_TEST

START_TEST(a_script_is_loaded_again_after_a_flush)
{
	struct asked first = {0}, waits = {0}, second = {0};

	start((struct redis_options){0});
	client_send_script(&client, &first, &add, 1, "sum 5");
	client_run_until(&client, &first.done, 1);
	ck_assert_str_eq(first.text, "5");

	redis_server_ask(server, "SCRIPT FLUSH");
	client_send_script(&client, &first, &add, 1, "sum 10");
	client_send(&client, &waits, "WAIT 0 100");
	client_send_script(&client, &second, &add, 1, "sum 100");
	client_run_until(&client, &second.done, 1);
	client_run_until(&client, &waits.done, 1);
	ck_assert_int_eq(first.status, STATUS_OK);
	ck_assert_str_eq(first.text, "15");
	ck_assert_int_eq(waits.status, STATUS_OK);
	ck_assert_str_eq(second.text, "115");
	ck_assert_int_eq(redis_in_flight(client.redis), 0);
	stop();
}
END_TEST

static int waits_counted(void)
{
	const char *stats = redis_server_ask(server, "INFO commandstats")->str;
	const char *wait = strstr(stats, "cmdstat_wait:calls=");

	return wait ? atoi(wait + strlen("cmdstat_wait:calls=")) : 0;
}

/* WAIT's answer must cover the script in front of it, even when that had to be sent again. */
START_TEST(wait_is_asked_again_behind_a_script_that_was_loaded_again)
{
	struct asked script = {0}, waits = {0};

	start((struct redis_options){0});
	client_send_script(&client, &script, &add, 1, "sum 5");
	client_send(&client, &waits, "WAIT 0 100");
	client_run_until(&client, &waits.done, 1);
	ck_assert_int_eq(waits_counted(), 1);

	redis_server_ask(server, "SCRIPT FLUSH");
	client_send_script(&client, &script, &add, 1, "sum 10");
	client_send(&client, &waits, "WAIT 0 100");
	client_run_until(&client, &waits.done, 1);
	ck_assert_str_eq(script.text, "15");
	ck_assert_int_eq(waits_counted(), 3);
	stop();
}
END_TEST

START_TEST(one_late_op_leaves_its_neighbours_alone)
{
	struct asked slow = {0}, late = {0}, patient = {0};

	start((struct redis_options){0});
	late.op.deadline_us = clock_monotonic_us() + 50000;
	patient.op.deadline_us = clock_monotonic_us() + 5000000;
	client_send(&client, &slow, "DEBUG SLEEP 0.3");
	client_send(&client, &late, "PING");
	client_send(&client, &patient, "PING");
	client_run_until(&client, &late.done, 1);
	ck_assert_int_eq(late.status, STATUS_DEADLINE_EXCEEDED);
	ck_assert_int_eq(patient.done, 0);
	ck_assert_int_eq(redis_in_flight(client.redis), 3);
	client_run_until(&client, &patient.done, 1);
	ck_assert_int_eq(slow.status, STATUS_OK);
	ck_assert_int_eq(patient.status, STATUS_OK);
	ck_assert_int_eq(late.done, 1);
	ck_assert_int_eq(client.disconnected, 0);
	ck_assert_int_eq(redis_in_flight(client.redis), 0);
	stop();
}
END_TEST

START_TEST(the_default_deadline_holds_when_the_server_is_paused)
{
	struct asked asked[3] = {0};
	int64_t begun_us;

	start((struct redis_options){.timeout_ms = 300});
	redis_server_pause(server);
	begun_us = clock_monotonic_us();
	for (int i = 0; i < 3; i++)
		client_send(&client, &asked[i], "PING");
	for (int i = 0; i < 3; i++) {
		client_run_until(&client, &asked[i].done, 1);
		ck_assert_int_eq(asked[i].status, STATUS_DEADLINE_EXCEEDED);
	}
	ck_assert_int_ge(clock_monotonic_us() - begun_us, 300000);
	ck_assert_int_lt(clock_monotonic_us() - begun_us, 2000000);
	ck_assert_int_eq(client.disconnected, 0);

	redis_server_resume(server);
	ck_assert_int_eq(client_ask(&client, &asked[0], "PING"), STATUS_OK);
	ck_assert_int_eq(client.connected, 1);
	stop();
}
END_TEST

START_TEST(a_server_that_stays_silent_is_given_up)
{
	struct asked asked = {0}, patient = {0};

	start((struct redis_options){.timeout_ms = 100});
	redis_server_pause(server);
	patient.op.deadline_us = clock_monotonic_us() + 60000000;
	client_send(&client, &patient, "PING");
	while (!client.disconnected)
		ck_assert_int_ne(client_ask(&client, &asked, "PING"), STATUS_OK);
	ck_assert(!redis_connected(client.redis));
	ck_assert_int_eq(patient.status, STATUS_UNAVAILABLE);
	ck_assert_int_eq(redis_in_flight(client.redis), 0);
	redis_server_resume(server);
	client_run_until(&client, &client.connected, 2);
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	stop();
}
END_TEST

START_TEST(commands_fail_at_once_during_an_outage)
{
	struct asked under_way = {0}, asked = {0};
	int64_t begun_us;

	start((struct redis_options){0});
	redis_server_pause(server);
	client_send(&client, &under_way, "INCR n");
	client_run_ms(&client, 20);
	redis_server_kill(server);
	client_run_until(&client, &client.disconnected, 1);
	ck_assert_int_eq(under_way.done, 1);
	ck_assert_int_eq(under_way.status, STATUS_UNAVAILABLE);

	begun_us = clock_monotonic_us();
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_UNAVAILABLE);
	ck_assert_int_lt(clock_monotonic_us() - begun_us, 1500000);
	stop();
}
END_TEST

START_TEST(a_killed_server_is_found_again_with_its_data_and_another_run_id)
{
	struct asked asked = {0};
	char run_id[64];

	start((struct redis_options){0});
	ck_assert_int_eq(client_ask(&client, &asked, "SET kept yes"), STATUS_OK);
	client_send_script(&client, &asked, &add, 1, "sum 5");
	client_run_until(&client, &asked.done, 1);
	strcpy(run_id, client.run_id);
	for (int round = 2; round < 5; round++) {
		redis_server_restart(server);
		client_run_until(&client, &client.connected, round);
		ck_assert_int_eq(client.disconnected, round - 1);
		ck_assert_str_ne(run_id, client.run_id);
		ck_assert_int_eq(client_ask(&client, &asked, "GET kept"), STATUS_OK);
		ck_assert_str_eq(asked.text, "yes");
		client_send_script(&client, &asked, &add, 1, "sum 5");
		client_run_until(&client, &asked.done, 1);
		ck_assert_int_eq(atoi(asked.text), round * 5);
		strcpy(run_id, client.run_id);
	}
	stop();
}
END_TEST

START_TEST(a_client_may_start_before_the_server)
{
	struct asked asked = {0};

	server = redis_server_start(NULL);
	redis_server_kill(server);
	client_start(&client, (struct redis_options){.url = redis_server_url(server)});
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_UNAVAILABLE);
	client_run_ms(&client, 300);
	ck_assert_int_eq(client.connected, 0);
	redis_server_restart(server);
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	stop();
}
END_TEST

START_TEST(a_hundred_thousand_commands_in_a_pipeline_keep_their_order)
{
	enum { COUNT = 100000 };
	struct asked *asked = calloc(COUNT, sizeof(*asked));
	int total = 0;

	start((struct redis_options){.timeout_ms = 20000});
	for (int i = 0; i < COUNT; i++) {
		asked[i].total = &total;
		client_send(&client, &asked[i], "INCR n");
	}
	client_run_until(&client, &total, COUNT);
	for (int i = 0; i < COUNT; i++) {
		ck_assert_int_eq(asked[i].status, STATUS_OK);
		ck_assert_int_eq(atoi(asked[i].text), i + 1);
	}
	stop();
	free(asked);
}
END_TEST

START_TEST(too_many_commands_are_refused)
{
	struct asked asked[12] = {0};
	int total = 0;

	start((struct redis_options){.in_flight_max = 10});
	for (int i = 0; i < 12; i++) {
		asked[i].total = &total;
		client_send(&client, &asked[i], "PING");
	}
	client_run_until(&client, &total, 12);
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(asked[i].status, i < 10 ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED);
	stop();
}
END_TEST

START_TEST(a_forgotten_op_is_never_called)
{
	struct asked *gone = calloc(1, sizeof(*gone));
	struct asked asked = {0};

	start((struct redis_options){0});
	client_send(&client, gone, "INCR n");
	redis_forget(&gone->op);
	free(gone);
	ck_assert_int_eq(client_ask(&client, &asked, "GET n"), STATUS_OK);
	ck_assert_str_eq(asked.text, "1");

	redis_server_kill(server);
	client_run_until(&client, &client.disconnected, 1);
	gone = calloc(1, sizeof(*gone));
	client_send(&client, gone, "INCR n");
	redis_forget(&gone->op);
	free(gone);
	client_run_ms(&client, 20);
	stop();
}
END_TEST

START_TEST(destroying_ends_what_is_under_way)
{
	struct asked sent = {0}, timed = {0}, refused = {0};

	start((struct redis_options){.in_flight_max = 2});
	redis_server_pause(server);
	timed.op.deadline_us = clock_monotonic_us() + 1000000;
	client_send(&client, &sent, "PING");
	client_send(&client, &timed, "PING");
	client_send(&client, &refused, "PING");
	stop();
	ck_assert_int_eq(sent.done + timed.done + refused.done, 3);
	ck_assert_int_eq(sent.status, STATUS_UNAVAILABLE);
	ck_assert_int_eq(timed.status, STATUS_UNAVAILABLE);
}
END_TEST

static int destroyed;

static void destroy_in_done(struct redis_op *op, enum status status, const redisReply *reply)
{
	(void)op;
	(void)status;
	(void)reply;
	redis_destroy(client.redis);
	destroyed++;
}

START_TEST(a_callback_may_destroy_the_client)
{
	const char *values[] = {"PING"};
	size_t sizes[] = {4};
	struct redis_op op = {.done = destroy_in_done};
	struct asked behind = {0};

	start((struct redis_options){0});
	redis_send(client.redis, &op, (struct redis_args){1, values, sizes});
	client_send(&client, &behind, "PING");
	client_run_until(&client, &destroyed, 1);
	ck_assert_int_eq(behind.status, STATUS_UNAVAILABLE);
	client_run_ms(&client, 20);
	loop_destroy(client.loop);
	redis_server_free(server);
}
END_TEST

/* --- chaos ------------------------------------------------------------------------------------ */

enum { CHAOS_OPS = 64 };
static struct chaos {
	struct redis_op op;
	bool under_way;
} chaos[CHAOS_OPS];
static int chaos_sent, chaos_done, chaos_well, chaos_forgotten;
static bool chaos_over;

static void chaos_send(struct chaos *one)
{
	const char *values[] = {"INCRBY", "sum", "1"};
	size_t sizes[] = {6, 3, 1};

	ck_assert(!one->under_way);
	one->under_way = true;
	one->op.deadline_us =
		random() % 2 ? 0 : loop_now_us(client.loop) + 1000 + random() % 100000;
	chaos_sent++;
	if (random() % 2)
		redis_send(client.redis, &one->op, (struct redis_args){3, values, sizes});
	else
		redis_send_script(client.redis, &one->op, &add, 1,
				  (struct redis_args){2, values + 1, sizes + 1});
}

static void chaos_replied(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct chaos *one = container_of(op, struct chaos, op), *other;

	ck_assert(one->under_way);
	ck_assert(!reply == (status != STATUS_OK));
	one->under_way = false;
	chaos_done++;
	chaos_well += status == STATUS_OK;
	if (chaos_over)
		return;
	other = &chaos[random() % CHAOS_OPS];
	if (other->under_way && random() % 50 == 0) {
		redis_forget(&other->op);
		other->under_way = false;
		chaos_forgotten++;
		chaos_send(other);
	}
	/* Somebody must take a breath while all fails at once. */
	if (!one->under_way && (status == STATUS_OK || random() % 50))
		chaos_send(one);
}

static void chaos_seed(void)
{
	for (int i = 0; i < CHAOS_OPS; i++) {
		chaos[i].op.done = chaos_replied;
		if (!chaos[i].under_way)
			chaos_send(&chaos[i]);
	}
}

START_TEST(every_op_ends_once_whatever_happens_to_the_server)
{
	int wanted;

	srandom(3);
	start((struct redis_options){.timeout_ms = 50});
	for (int round = 0; round < 40; round++) {
		chaos_seed();
		client_run_ms(&client, 5 + random() % 30);
		switch (random() % 6) {
		case 0:
			redis_server_restart(server);
			break;
		case 1:
			redis_server_kill(server);
			client_run_ms(&client, 20);
			redis_server_restart(server);
			break;
		case 2:
			redis_server_pause(server);
			client_run_ms(&client, random() % 300);
			redis_server_resume(server);
			break;
		case 3:
			redis_server_ask(server, "SCRIPT FLUSH");
			break;
		default:
			redis_server_ask(server, "CLIENT KILL TYPE normal");
		}
	}
	/* It ends well: a thousand more. */
	wanted = chaos_well + 1000;
	for (int tries = 0; chaos_well < wanted; tries++) {
		ck_assert_int_lt(tries, 1000);
		chaos_seed();
		client_run_ms(&client, 10);
	}
	chaos_over = true;
	stop();
	ck_assert_int_eq(chaos_sent, chaos_done + chaos_forgotten);
	ck_assert_int_gt(chaos_well, 1000);
	ck_assert_int_gt(client.connected, 5);
}
END_TEST

START_TEST(what_happens_is_counted)
{
	struct metrics *metrics = metrics_create();
	struct asked asked = {0};
	char *text;

	start((struct redis_options){.metrics = metrics, .role = "till"});
	for (int i = 0; i < 7; i++)
		ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	ck_assert_int_eq(client_ask(&client, &asked, "NONSENSE"), STATUS_INTERNAL);
	redis_server_restart(server);
	client_run_until(&client, &client.connected, 2);
	text = metrics_text(metrics, &(size_t){0});
	ck_assert_ptr_nonnull(strstr(text, "stampede_redis_commands_total{role=\"till\"} 8\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "stampede_redis_errors_total{role=\"till\",code=\"INTERNAL\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "stampede_redis_reconnects_total{role=\"till\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "stampede_redis_connected{role=\"till\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "stampede_redis_in_flight{role=\"till\"} 0\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "stampede_redis_latency_seconds_count{role=\"till\"} 8\n"));
	free(text);
	stop();
	metrics_destroy(metrics);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis");
	TCase *test = tcase_create("redis");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, commands_are_answered);
	tcase_add_test(test, arguments_of_any_bytes_and_size_arrive);
	tcase_add_test(test, errors_become_statuses);
	tcase_add_test(test, a_unix_socket_serves_too);
	tcase_add_test(test, the_database_of_the_url_is_selected);
	tcase_add_test(test, a_script_is_loaded_again_after_a_flush);
	tcase_add_test(test, wait_is_asked_again_behind_a_script_that_was_loaded_again);
	tcase_add_test(test, one_late_op_leaves_its_neighbours_alone);
	tcase_add_test(test, the_default_deadline_holds_when_the_server_is_paused);
	tcase_add_test(test, a_server_that_stays_silent_is_given_up);
	tcase_add_test(test, commands_fail_at_once_during_an_outage);
	tcase_add_test(test, a_killed_server_is_found_again_with_its_data_and_another_run_id);
	tcase_add_test(test, a_client_may_start_before_the_server);
	tcase_add_test(test, a_hundred_thousand_commands_in_a_pipeline_keep_their_order);
	tcase_add_test(test, too_many_commands_are_refused);
	tcase_add_test(test, a_forgotten_op_is_never_called);
	tcase_add_test(test, destroying_ends_what_is_under_way);
	tcase_add_test(test, a_callback_may_destroy_the_client);
	tcase_add_test(test, every_op_ends_once_whatever_happens_to_the_server);
	tcase_add_test(test, what_happens_is_counted);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
