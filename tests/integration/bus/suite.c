/* What a bus promises (runtime/bus.h), one test a promise. */
#include "tests/integration/bus/suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/log.h"
#include "tests/integration/bus/bench.h"

/* A group forms, or finds that a member is gone, within this. */
#define TAKEOVER_MS 30000
#define KEYS 16

static const struct bus_server *server;
static char topic[64];

static void set_up(void)
{
	struct timespec now;

	server->before();
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(topic, sizeof(topic), "topic-%ld%09ld", (long)now.tv_sec, now.tv_nsec);
	log_start("test", getenv("BUS_TEST_LOG") ? LOG_DEBUG : LOG_ERROR);
}

static void tear_down(void)
{
	server->after();
}

static struct bus_consumer_options group(const char *name)
{
	return (struct bus_consumer_options){.topic = topic, .group = name};
}

static struct child *start_consumer(const char *client, const char *option, const char *option2)
{
	return child_start((const char *[]){"consume", server->url(), client, topic, "g", option,
					    option2, NULL});
}

static void publish_range(struct bench *bench, int from, int to, int keys)
{
	for (int i = from; i < to; i++)
		bench_publish(bench, topic, i, keys);
	ck_assert(bench_settle(bench));
	ck_assert_int_eq(bench->lost, 0);
}

/* --- order, batches, contents ------------------------------------------------------------ */

START_TEST(keeps_the_order_of_each_key)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);

	bench_wait_up(bench);
	publish_range(bench, 0, 5000, KEYS);
	ck_assert(taker_wait(bench, taker, 5000, TAKEOVER_MS));
	bench_run_ms(bench, 300);
	ck_assert_int_eq(taker->count, 5000);
	taker_check_order(taker);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(hands_over_batches_no_longer_than_asked)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	bench_wait_up(bench);
	publish_range(bench, 0, 2000, KEYS);
	options.batch_max = 100;
	taker = taker_create(bench, &options, NULL);
	ck_assert(taker_wait(bench, taker, 2000, TAKEOVER_MS));
	ck_assert_int_le(taker->batch_longest, 100);
	ck_assert_int_gt(taker->batch_longest, 50);
	ck_assert_int_lt(taker->batches, 100);
	taker_check_order(taker);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(carries_any_bytes_and_the_trace)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);
	struct trace trace = trace_make();

	bench_wait_up(bench);
	bench_publish_bytes(bench, topic, "k\0\r\n", 4, "v\0\xff\n", 4, &trace);
	bench_publish_bytes(bench, topic, "", 0, "", 0, NULL);
	ck_assert(bench_settle(bench));
	ck_assert(taker_wait(bench, taker, 2, TAKEOVER_MS));
	for (int i = 0; i < 2; i++) {
		const struct taken *taken = &taker->taken[i];

		ck_assert_int_eq(taken->attempt, 1);
		if (!taken->value_size) {
			ck_assert_uint_eq(taken->key_size, 0);
			ck_assert_mem_eq(&taken->trace, &(struct trace){0}, sizeof(struct trace));
			continue;
		}
		ck_assert_uint_eq(taken->key_size, 4);
		ck_assert_mem_eq(taken->key, "k\0\r\n", 4);
		ck_assert_uint_eq(taken->value_size, 4);
		ck_assert_mem_eq(taken->value, "v\0\xff\n", 4);
		ck_assert_mem_eq(&taken->trace, &trace, sizeof(trace));
	}
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(gives_each_group_every_record)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options first = group("first"), second = group("second");
	struct taker *one = taker_create(bench, &first, NULL);
	struct taker *two;

	bench_wait_up(bench);
	publish_range(bench, 0, 500, KEYS);
	ck_assert(taker_wait(bench, one, 500, TAKEOVER_MS));
	two = taker_create(bench, &second, NULL);
	bench_run_ms(bench, 200);
	publish_range(bench, 500, 600, KEYS);
	ck_assert(taker_wait(bench, one, 600, TAKEOVER_MS));
	/* What the first group has trimmed away before the second existed is not promised; the rest is. */
	ck_assert(taker_wait(bench, two, 100, TAKEOVER_MS));
	taker_check_order(two);
	bench_free(bench);
	free(one);
	free(two);
}
END_TEST

/* --- at least once ----------------------------------------------------------------------- */

START_TEST(gives_what_a_killed_consumer_had_to_the_next)
{
	struct child *child = start_consumer("killed", "never=1", NULL);
	struct bench *bench = bench_create(server->url(), "next");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	bench_wait_up(bench);
	publish_range(bench, 0, 200, KEYS);
	ck_assert(child_wait_lines(child, "got ", 100, TAKEOVER_MS));
	child_signal(child, SIGKILL);
	taker = taker_create(bench, &options, NULL);
	ck_assert(taker_wait(bench, taker, 200, TAKEOVER_MS));
	ck_assert_int_eq(taker->count, 200);
	taker_check_order(taker);
	child_end(child);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(commits_what_is_done_and_nothing_else)
{
	struct child *child = start_consumer("killed", "delay_ms=1000", NULL);
	struct bench *bench = bench_create(server->url(), "next");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	bench_wait_up(bench);
	publish_range(bench, 0, 5, 1);
	ck_assert(child_wait_lines(child, "done ", 5, TAKEOVER_MS));
	usleep(500000); /* for the commit */
	publish_range(bench, 5, 10, 1);
	ck_assert(child_wait_lines(child, "got ", 6, TAKEOVER_MS));
	child_signal(child, SIGKILL);
	taker = taker_create(bench, &options, NULL);
	ck_assert(taker_wait(bench, taker, 5, TAKEOVER_MS));
	bench_run_ms(bench, 500);
	ck_assert_int_eq(taker->count, 5);
	ck_assert_str_eq(taker->taken[0].value, "5");
	taker_check_order(taker);
	child_end(child);
	bench_free(bench);
	free(taker);
}
END_TEST

/* A consumer that was stopped for longer than its lease handles on when it wakes, but it has no say any more. */
START_TEST(ignores_a_consumer_that_slept_too_long)
{
	struct child *child = start_consumer("sleeper", "delay_ms=2000", NULL);
	struct bench *bench = bench_create(server->url(), "awake");
	struct bus_consumer_options options = group("g");
	struct taker *taker, *last;

	bench_wait_up(bench);
	publish_range(bench, 0, 5, 1);
	ck_assert(child_wait_lines(child, "got ", 1, TAKEOVER_MS));
	child_signal(child, SIGSTOP);
	taker = taker_create(bench, &options, NULL);
	publish_range(bench, 5, 20, 1);
	ck_assert(taker_wait(bench, taker, 20, TAKEOVER_MS));
	child_signal(child, SIGCONT);
	ck_assert(child_wait_lines(child, "done ", 1, TAKEOVER_MS));
	child_signal(child, SIGTERM);
	ck_assert(child_wait_lines(child, "closed", 1, TAKEOVER_MS));
	child_end(child);
	bench_run_ms(bench, 500);
	taker_check_order(taker);
	bench_free(bench);

	bench = bench_create(server->url(), "last");
	last = taker_create(bench, &options, NULL);
	ck_assert(!taker_wait(bench, last, 1, 5000));
	bench_free(bench);
	free(taker);
	free(last);
}
END_TEST

static void held_back_twice(struct taker *taker, struct bus_batch *batch)
{
	if (taker->times++ < 2)
		bus_batch_again(batch, 100);
	else
		bus_batch_done(batch);
}

START_TEST(hands_a_batch_over_again_when_told_so)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	bench_wait_up(bench);
	publish_range(bench, 0, 20, 1);
	taker = taker_create(bench, &options, held_back_twice);
	ck_assert(taker_wait(bench, taker, 60, TAKEOVER_MS));
	bench_run_ms(bench, 300);
	ck_assert_int_eq(taker->count, 60);
	for (int i = 0; i < 60; i++) {
		ck_assert_int_eq(atoi(taker->taken[i].value), i % 20);
		ck_assert_int_eq(taker->taken[i].attempt, 1);
	}
	ck_assert_int_ge(taker->taken[20].at_us - taker->taken[0].at_us, 100000);
	bench_free(bench);
	free(taker);
}
END_TEST

/* --- retries and the dead letter --------------------------------------------------------- */

static void fail_the_poison(struct taker *taker, struct bus_batch *batch)
{
	(void)taker;
	for (int i = 0; i < batch->count; i++) {
		if (batch->records[i].value_size == 6 &&
		    memcmp(batch->records[i].value, "poison", 6) == 0)
			bus_batch_fail(batch, i, "it is poison");
	}
	bus_batch_done(batch);
}

static bool is_dead(void *context)
{
	const struct taker *taker = context;

	return taker->dead && bus_dead_letters(taker->consumer) == 1 &&
	       bus_backlog(taker->consumer) == 0;
}

START_TEST(retries_after_each_delay_then_gives_up)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct trace trace = trace_make();
	struct taker *taker;
	int64_t last_us = 0;

	options.retry_delays_ms[0] = 200;
	options.retry_delays_ms[1] = 400;
	options.retry_delays_ms[2] = 600;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, topic, "key", 3, "poison", 6, &trace);
	ck_assert(bench_settle(bench));
	ck_assert(bench_until(bench, TAKEOVER_MS, is_dead, taker));
	ck_assert_int_eq(taker->count, 4);
	for (int i = 0; i < 4; i++) {
		const struct taken *taken = &taker->taken[i];

		ck_assert_int_eq(taken->attempt, i + 1);
		ck_assert_str_eq(taken->key, "key");
		ck_assert_str_eq(taken->value, "poison");
		ck_assert_mem_eq(&taken->trace, &trace, sizeof(trace));
		if (i) /* one millisecond for clocks that are cut to it */
			ck_assert_int_ge(taken->at_us - last_us, 200000 * i - 1000);
		last_us = taken->at_us;
	}
	ck_assert_int_eq(taker->dead, 1);
	ck_assert_str_eq(taker->dead_value, "poison");
	ck_assert_str_eq(taker->dead_reason, "it is poison");
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(a_poison_record_does_not_block_its_partition)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;
	int64_t poison_us;

	options.retries_max = 1;
	options.retry_delays_ms[0] = 3000;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, topic, "0", 1, "poison", 6, NULL);
	publish_range(bench, 0, 50, 1);
	ck_assert(taker_wait(bench, taker, 51, TAKEOVER_MS));
	poison_us = taker->taken[0].at_us;
	ck_assert_str_eq(taker->taken[0].value, "poison");
	ck_assert_str_eq(taker->taken[50].value, "49");
	ck_assert_int_lt(taker->taken[50].at_us - poison_us, 2000000);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_dead, taker));
	ck_assert_int_eq(taker->count, 52);
	ck_assert_int_eq(taker_count_value(taker, "poison"), 2);
	bench_free(bench);
	free(taker);
}
END_TEST

static void fail_with_the_rest(struct taker *taker, struct bus_batch *batch)
{
	if (!taker->times++)
		bus_batch_fail_value(batch, 0, "only a part of it", "rest", 4);
	bus_batch_done(batch);
}

START_TEST(retries_with_what_is_left_of_a_record)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	options.retry_delays_ms[0] = 100;
	taker = taker_create(bench, &options, fail_with_the_rest);
	bench_wait_up(bench);
	bench_publish(bench, topic, 7, 1);
	ck_assert(taker_wait(bench, taker, 2, TAKEOVER_MS));
	ck_assert_str_eq(taker->taken[0].value, "7");
	ck_assert_str_eq(taker->taken[1].value, "rest");
	ck_assert_int_eq(taker->taken[1].attempt, 2);
	ck_assert_int_eq(taker->dead, 0);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(gives_up_at_once_without_retries)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	options.retries_max = -1;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, topic, "key", 3, "poison", 6, NULL);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_dead, taker));
	ck_assert_int_eq(taker->count, 1);
	bench_free(bench);
	free(taker);
}
END_TEST

/* --- figures and limits ------------------------------------------------------------------ */

static void hold(struct taker *taker, struct bus_batch *batch)
{
	taker->held = batch;
}

struct backlog {
	const struct taker *taker;
	int64_t wanted;
};

static bool is_backlog(void *context)
{
	const struct backlog *backlog = context;

	return bus_backlog(backlog->taker->consumer) == backlog->wanted;
}

START_TEST(tells_the_backlog)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	options.batch_max = 60;
	taker = taker_create(bench, &options, hold);
	ck_assert_int_eq(bus_backlog(taker->consumer), -1);
	bench_wait_up(bench);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_backlog, &(struct backlog){taker, 0}));
	publish_range(bench, 0, 100, 1);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_backlog, &(struct backlog){taker, 100}));
	ck_assert(taker_wait(bench, taker, 1, TAKEOVER_MS));
	taker->handle = NULL;
	bus_batch_done(taker->held);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_backlog, &(struct backlog){taker, 0}));
	ck_assert_int_eq(taker->count, 100);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(refuses_more_than_it_was_told_to_hold)
{
	struct bench *bench = bench_create_with(&(struct bus_options){
		.url = server->url(), .client_id = "one", .publish_max = 100});

	bench_wait_up(bench);
	for (int i = 0; i < 150; i++)
		bench_publish(bench, topic, i, 1);
	ck_assert(bench_settle(bench));
	ck_assert_int_eq(bench->ok, 100);
	ck_assert_int_eq(bench->lost, 50);
	bench->lost = 0;
	publish_range(bench, 150, 250, 1);
	bench_free(bench);
}
END_TEST

/* --- several consumers, ends and outages ------------------------------------------------- */

START_TEST(consumers_share_partitions_and_take_over)
{
	struct child *one = start_consumer("one", "delay_ms=10", NULL);
	struct child *two = start_consumer("two", "delay_ms=10", NULL);
	struct bench *bench = bench_create(server->url(), "producer");
	char seen[1200] = {0};
	int number = 0;

	bench_wait_up(bench);
	/* Until both have something to do. */
	while (number < 600 && !(child_lines(one, "got ") && child_lines(two, "got "))) {
		publish_range(bench, number, number + 4, KEYS);
		number += 4;
		bench_run_ms(bench, 200);
	}
	ck_assert_int_gt(child_lines(one, "got "), 0);
	ck_assert_int_gt(child_lines(two, "got "), 0);
	publish_range(bench, number, number + 200, KEYS);
	child_signal(one, SIGKILL);
	number += 200;
	publish_range(bench, number, number + 200, KEYS);
	number += 200;
	for (int i = 0, done = 0; i < 300 && done < number; i++) {
		usleep(100000);
		child_mark(one, "done ", seen, 1200);
		child_mark(two, "done ", seen, 1200);
		done = 0;
		for (int j = 0; j < number; j++)
			done += seen[j];
	}
	for (int i = 0; i < number; i++)
		ck_assert_msg(seen[i], "record %d of %d was not handled", i, number);
	child_signal(two, SIGTERM);
	child_end(one);
	child_end(two);
	bench_free(bench);
}
END_TEST

START_TEST(loses_nothing_when_closed)
{
	struct bench *bench = bench_create(server->url(), "first");
	struct bus_consumer_options options = group("g");
	struct taker *first, *second;

	bench_wait_up(bench);
	first = taker_create(bench, &options, NULL);
	for (int i = 0; i < 10000; i++)
		bench_publish(bench, topic, i, KEYS);
	bench_run_ms(bench, 20);
	bench_close(bench);
	ck_assert_int_eq(bench->under_way, 0);
	ck_assert_int_eq(bench->ok, 10000);
	bench_free(bench);

	bench = bench_create(server->url(), "second");
	second = taker_create(bench, &options, NULL);
	ck_assert(taker_wait(bench, second, 10000 - first->count, TAKEOVER_MS));
	bench_run_ms(bench, 300);
	/* Closed in order: what was handled was committed. */
	ck_assert_int_eq(second->count + first->count, 10000);
	bench_free(bench);
	free(first);
	free(second);
}
END_TEST

START_TEST(waits_for_the_handler_when_closed)
{
	struct bench *bench = bench_create(server->url(), "first");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, hold), *second;

	bench_wait_up(bench);
	publish_range(bench, 0, 1, 1);
	ck_assert(taker_wait(bench, taker, 1, TAKEOVER_MS));
	bus_close(bench->bus, 20000, (void (*)(void *))loop_stop, bench->loop);
	bench_run_ms(bench, 300);
	bus_batch_done(taker->held);
	loop_run(bench->loop); /* until it is closed */
	bench->closed = true;
	bench_free(bench);

	bench = bench_create(server->url(), "second");
	second = taker_create(bench, &options, NULL);
	ck_assert(!taker_wait(bench, second, 1, 5000));
	bench_free(bench);
	free(taker);
	free(second);
}
END_TEST

static void check_confirmed_came(struct bench *bench, const struct taker *taker)
{
	static char came[20000];

	for (int i = 0; i < taker->count; i++)
		came[atoi(taker->taken[i].value)] = 1;
	for (int i = 0; i < 20000; i++)
		ck_assert_msg(!bench->confirmed[i] || came[i], "confirmed record %d is gone", i);
}

START_TEST(keeps_its_word_when_the_server_is_killed)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);
	int number = 0;

	bench_wait_up(bench);
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 50; i++)
			bench_publish(bench, topic, number++, KEYS);
		bench_run_ms(bench, 5);
		if (round == 20)
			server->kill();
		if (round == 40)
			server->resume();
	}
	ck_assert(bench_settle(bench));
	ck_assert_int_gt(bench->ok, 100);
	bench_wait_up(bench);
	bench->lost = 0;
	publish_range(bench, number, number + 100, KEYS);
	ck_assert(taker_wait(bench, taker, bench->ok, TAKEOVER_MS));
	bench_run_ms(bench, 1000);
	check_confirmed_came(bench, taker);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(starts_before_the_server)
{
	struct bench *bench;
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	server->kill();
	bench = bench_create(server->url(), "one");
	taker = taker_create(bench, &options, NULL);
	bench_publish(bench, topic, 0, 1);
	ck_assert(bench_settle(bench));
	ck_assert_int_eq(bench->lost, 1);
	ck_assert(!bus_up(bench->bus));
	server->resume();
	bench_wait_up(bench);
	bench->lost = 0;
	publish_range(bench, 1, 11, 1);
	ck_assert(taker_wait(bench, taker, 10, TAKEOVER_MS));
	taker_check_order(taker);
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(closes_while_the_server_is_away)
{
	struct bench *bench = bench_create(server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);

	bench_wait_up(bench);
	publish_range(bench, 0, 10, 1);
	ck_assert(taker_wait(bench, taker, 10, TAKEOVER_MS));
	server->kill();
	bench_publish(bench, topic, 10, 1);
	bench_run_ms(bench, 100);
	bench_close(bench);
	ck_assert_int_eq(bench->under_way, 0);
	bench_free(bench);
	free(taker);
	server->resume();
}
END_TEST

START_TEST(goes_on_when_the_server_has_forgotten_all)
{
	struct bench *bench;
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	if (!server->forget)
		return;
	bench = bench_create(server->url(), "one");
	taker = taker_create(bench, &options, NULL);
	bench_wait_up(bench);
	publish_range(bench, 0, 1000, KEYS);
	ck_assert(taker_wait(bench, taker, 1000, TAKEOVER_MS));
	bench_run_ms(bench, 100);
	server->forget();
	publish_range(bench, 1000, 1100, KEYS);
	ck_assert(taker_wait(bench, taker, 1100, TAKEOVER_MS));
	ck_assert(bench_until(bench, TAKEOVER_MS, is_backlog, &(struct backlog){taker, 0}));
	bench_run_ms(bench, 1500);
	publish_range(bench, 1100, 1200, KEYS);
	ck_assert(taker_wait(bench, taker, 1200, TAKEOVER_MS));
	ck_assert(bench_until(bench, TAKEOVER_MS, is_backlog, &(struct backlog){taker, 0}));
	bench_free(bench);
	free(taker);
}
END_TEST

int bus_suite_run(const struct bus_server *under_test)
{
	Suite *suite = suite_create(under_test->name);
	TCase *test = tcase_create("promises");
	SRunner *runner = srunner_create(suite);
	int failed;

	server = under_test;
	tcase_set_timeout(test, 120);
	tcase_add_checked_fixture(test, set_up, tear_down);
	suite_add_tcase(suite, test);
	tcase_add_test(test, keeps_the_order_of_each_key);
	tcase_add_test(test, hands_over_batches_no_longer_than_asked);
	tcase_add_test(test, carries_any_bytes_and_the_trace);
	tcase_add_test(test, gives_each_group_every_record);
	tcase_add_test(test, gives_what_a_killed_consumer_had_to_the_next);
	tcase_add_test(test, commits_what_is_done_and_nothing_else);
	tcase_add_test(test, ignores_a_consumer_that_slept_too_long);
	tcase_add_test(test, hands_a_batch_over_again_when_told_so);
	tcase_add_test(test, retries_after_each_delay_then_gives_up);
	tcase_add_test(test, a_poison_record_does_not_block_its_partition);
	tcase_add_test(test, retries_with_what_is_left_of_a_record);
	tcase_add_test(test, gives_up_at_once_without_retries);
	tcase_add_test(test, tells_the_backlog);
	tcase_add_test(test, refuses_more_than_it_was_told_to_hold);
	tcase_add_test(test, consumers_share_partitions_and_take_over);
	tcase_add_test(test, loses_nothing_when_closed);
	tcase_add_test(test, waits_for_the_handler_when_closed);
	tcase_add_test(test, keeps_its_word_when_the_server_is_killed);
	tcase_add_test(test, starts_before_the_server);
	tcase_add_test(test, closes_while_the_server_is_away);
	tcase_add_test(test, goes_on_when_the_server_has_forgotten_all);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
