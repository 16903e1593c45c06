/* What a bus promises (runtime/bus.h), one test a promise. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/log.h"
#include "tests/integration/bus/suite_internal.h"

const struct bus_server *suite_server;
char suite_topic[64];

static void set_up(void)
{
	struct timespec now;

	suite_server->before();
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(suite_topic, sizeof(suite_topic), "topic-%ld%09ld", (long)now.tv_sec, now.tv_nsec);
	log_start("test", getenv("BUS_TEST_LOG") ? LOG_DEBUG : LOG_ERROR);
}

static void tear_down(void)
{
	suite_server->after();
}

struct bus_consumer_options group(const char *name)
{
	return (struct bus_consumer_options){.topic = suite_topic, .group = name};
}

struct child *start_consumer(const char *client, const char *option)
{
	return child_start((const char *[]){"consume", suite_server->url(), client, suite_topic,
					    "g", option, NULL});
}

void publish_range(struct bench *bench, int from, int to, int keys)
{
	/* The test may have waited elsewhere: the loop's clock is brought up to date. */
	bench_run_ms(bench, 1);
	for (int i = from; i < to; i++)
		bench_publish(bench, suite_topic, i, keys);
	ck_assert(bench_settle(bench));
	ck_assert_int_eq(bench->lost, 0);
}

int bus_suite_run(const struct bus_server *under_test)
{
	Suite *suite = suite_create(under_test->name);
	TCase *test = tcase_create("promises");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_server = under_test;
	tcase_set_timeout(test, 120);
	tcase_add_checked_fixture(test, set_up, tear_down);
	suite_add_tcase(suite, test);
	suite_add_order(test);
	suite_add_retries(test);
	suite_add_ends(test);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
