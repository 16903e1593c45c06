/* The suite: order, batches, contents; what is handed over again after a death. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/bus/suite_internal.h"

/* --- order, batches, contents ------------------------------------------------------------ */

START_TEST(keeps_the_order_of_each_key)
{
	struct bench *bench = bench_create(suite_server->url(), "one");
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
	struct bench *bench = bench_create(suite_server->url(), "one");
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

/* Redis Streams paces its reads; Kafka's client has its own way. */
START_TEST(gathers_what_comes_within_a_pace_into_one_batch)
{
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;
	int batches;

	options.pace_ms = 100;
	taker = taker_create(bench, &options, NULL);
	bench_wait_up(bench);
	publish_range(bench, 0, 1, 1);
	ck_assert(taker_wait(bench, taker, 1, TAKEOVER_MS));
	batches = taker->batches;
	for (int i = 1; i <= 100; i++) {
		publish_range(bench, i, i + 1, 1);
		bench_run_ms(bench, 5);
	}
	ck_assert(taker_wait(bench, taker, 101, TAKEOVER_MS));
	taker_check_order(taker);
	if (strcmp(suite_server->name, "bus on Redis Streams") == 0) {
		ck_assert_int_ge(taker->batches - batches, 4);
		ck_assert_int_le(taker->batches - batches, 20);
	}
	bench_free(bench);
	free(taker);
}
END_TEST

START_TEST(carries_any_bytes_and_the_trace)
{
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);
	struct trace trace = trace_make();

	bench_wait_up(bench);
	bench_publish_bytes(bench, suite_topic, "k\0\r\n", 4, "v\0\xff\n", 4, &trace);
	bench_publish_bytes(bench, suite_topic, "", 0, "", 0, NULL);
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
	struct bench *bench = bench_create(suite_server->url(), "one");
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
	struct child *child = start_consumer("killed", "never=1");
	struct bench *bench = bench_create(suite_server->url(), "next");
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
	struct child *child = start_consumer("killed", "delay_ms=1000");
	struct bench *bench = bench_create(suite_server->url(), "next");
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
	struct child *child = start_consumer("sleeper", "delay_ms=2000");
	struct bench *bench = bench_create(suite_server->url(), "awake");
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

	bench = bench_create(suite_server->url(), "last");
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
	struct bench *bench = bench_create(suite_server->url(), "one");
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

void suite_add_order(TCase *test)
{
	tcase_add_test(test, keeps_the_order_of_each_key);
	tcase_add_test(test, hands_over_batches_no_longer_than_asked);
	tcase_add_test(test, gathers_what_comes_within_a_pace_into_one_batch);
	tcase_add_test(test, carries_any_bytes_and_the_trace);
	tcase_add_test(test, gives_each_group_every_record);
	tcase_add_test(test, gives_what_a_killed_consumer_had_to_the_next);
	tcase_add_test(test, commits_what_is_done_and_nothing_else);
	tcase_add_test(test, ignores_a_consumer_that_slept_too_long);
	tcase_add_test(test, hands_a_batch_over_again_when_told_so);
}
