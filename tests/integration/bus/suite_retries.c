/* The suite: retries and the dead letter. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/bus/suite_internal.h"

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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct trace trace = trace_make();
	struct taker *taker;
	int64_t last_us = 0;

	options.retry_delays_ms[0] = 200;
	options.retry_delays_ms[1] = 400;
	options.retry_delays_ms[2] = 600;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, suite_topic, "key", 3, "poison", 6, &trace);
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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;
	int64_t poison_us;

	options.retries_max = 1;
	options.retry_delays_ms[0] = 3000;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, suite_topic, "0", 1, "poison", 6, NULL);
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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	options.retry_delays_ms[0] = 100;
	taker = taker_create(bench, &options, fail_with_the_rest);
	bench_wait_up(bench);
	bench_publish(bench, suite_topic, 7, 1);
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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	options.retries_max = -1;
	taker = taker_create(bench, &options, fail_the_poison);
	bench_wait_up(bench);
	bench_publish_bytes(bench, suite_topic, "key", 3, "poison", 6, NULL);
	ck_assert(bench_until(bench, TAKEOVER_MS, is_dead, taker));
	ck_assert_int_eq(taker->count, 1);
	bench_free(bench);
	free(taker);
}
END_TEST

void suite_add_retries(TCase *test)
{
	tcase_add_test(test, retries_after_each_delay_then_gives_up);
	tcase_add_test(test, a_poison_record_does_not_block_its_partition);
	tcase_add_test(test, retries_with_what_is_left_of_a_record);
	tcase_add_test(test, gives_up_at_once_without_retries);
}
