/* The suite: figures and limits, several consumers, ends and outages. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/bus/suite_internal.h"

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
	struct bench *bench = bench_create(suite_server->url(), "one");
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
		.url = suite_server->url(), .client_id = "one", .publish_max = 100});

	bench_wait_up(bench);
	for (int i = 0; i < 150; i++)
		bench_publish(bench, suite_topic, i, 1);
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
	struct child *one = start_consumer("one", "delay_ms=10");
	struct child *two = start_consumer("two", "delay_ms=10");
	struct bench *bench = bench_create(suite_server->url(), "producer");
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
	struct bench *bench = bench_create(suite_server->url(), "first");
	struct bus_consumer_options options = group("g");
	struct taker *first, *second;

	bench_wait_up(bench);
	first = taker_create(bench, &options, NULL);
	for (int i = 0; i < 10000; i++)
		bench_publish(bench, suite_topic, i, KEYS);
	bench_run_ms(bench, 20);
	bench_close(bench);
	ck_assert_int_eq(bench->under_way, 0);
	ck_assert_int_eq(bench->ok, 10000);
	bench_free(bench);

	bench = bench_create(suite_server->url(), "second");
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
	struct bench *bench = bench_create(suite_server->url(), "first");
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

	bench = bench_create(suite_server->url(), "second");
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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);
	int number = 0;

	bench_wait_up(bench);
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 50; i++)
			bench_publish(bench, suite_topic, number++, KEYS);
		bench_run_ms(bench, 5);
		if (round == 20)
			suite_server->kill();
		if (round == 40)
			suite_server->resume();
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

	suite_server->kill();
	bench = bench_create(suite_server->url(), "one");
	taker = taker_create(bench, &options, NULL);
	bench_publish(bench, suite_topic, 0, 1);
	ck_assert(bench_settle(bench));
	ck_assert_int_eq(bench->lost, 1);
	ck_assert(!bus_up(bench->bus));
	suite_server->resume();
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
	struct bench *bench = bench_create(suite_server->url(), "one");
	struct bus_consumer_options options = group("g");
	struct taker *taker = taker_create(bench, &options, NULL);

	bench_wait_up(bench);
	publish_range(bench, 0, 10, 1);
	ck_assert(taker_wait(bench, taker, 10, TAKEOVER_MS));
	suite_server->kill();
	bench_publish(bench, suite_topic, 10, 1);
	bench_run_ms(bench, 100);
	bench_close(bench);
	ck_assert_int_eq(bench->under_way, 0);
	bench_free(bench);
	free(taker);
	suite_server->resume();
}
END_TEST

START_TEST(goes_on_when_the_server_has_forgotten_all)
{
	struct bench *bench;
	struct bus_consumer_options options = group("g");
	struct taker *taker;

	if (!suite_server->forget)
		return;
	bench = bench_create(suite_server->url(), "one");
	taker = taker_create(bench, &options, NULL);
	bench_wait_up(bench);
	publish_range(bench, 0, 1000, KEYS);
	ck_assert(taker_wait(bench, taker, 1000, TAKEOVER_MS));
	bench_run_ms(bench, 100);
	suite_server->forget();
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

void suite_add_ends(TCase *test)
{
	tcase_add_test(test, tells_the_backlog);
	tcase_add_test(test, refuses_more_than_it_was_told_to_hold);
	tcase_add_test(test, consumers_share_partitions_and_take_over);
	tcase_add_test(test, loses_nothing_when_closed);
	tcase_add_test(test, waits_for_the_handler_when_closed);
	tcase_add_test(test, keeps_its_word_when_the_server_is_killed);
	tcase_add_test(test, starts_before_the_server);
	tcase_add_test(test, closes_while_the_server_is_away);
	tcase_add_test(test, goes_on_when_the_server_has_forgotten_all);
}
