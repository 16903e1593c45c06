/* The loop, its timers, hooks and mailbox, and the worker thread. */
#include <check.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/worker.h"

static struct loop *loop;

static void set_up(void)
{
	loop = loop_create();
}

static void tear_down(void)
{
	loop_destroy(loop);
}

#define TIMERS 500
static struct timer timers[TIMERS];
static int64_t asked_us[TIMERS], last_us;
static int fired;

static void timer_fired(struct timer *timer)
{
	int64_t now_us = clock_monotonic_us();

	ck_assert_int_ge(now_us, asked_us[timer - timers]);
	ck_assert_int_ge(asked_us[timer - timers], last_us);
	last_us = asked_us[timer - timers];
	if (++fired == TIMERS / 2)
		loop_stop(loop);
}

START_TEST(timers_fire_in_order_and_never_early)
{
	unsigned seed = 7;

	fired = 0;
	last_us = 0;
	for (int i = 0; i < TIMERS; i++) {
		int64_t delay_us = (seed = seed * 1103515245 + 12345) % 100000;

		timer_init(&timers[i], loop, timer_fired);
		timer_start_us(&timers[i], 50000);
		asked_us[i] = clock_monotonic_us() + delay_us;
		timer_start_us(&timers[i], delay_us);
		asked_us[i] = timers[i].at_us;
	}
	for (int i = 0; i < TIMERS; i += 2)
		timer_stop(&timers[i]);
	loop_run(loop);
	for (int i = 0; i < TIMERS; i++)
		ck_assert(!timer_started(&timers[i]));
}
END_TEST

static int order[8], orders;
static struct loop_hook gather, flush, cancelled;

static void ran_gather(struct loop_hook *hook)
{
	(void)hook;
	order[orders++] = 1;
	loop_defer(loop, LOOP_FLUSH, &flush);
}

static void ran_flush(struct loop_hook *hook)
{
	(void)hook;
	order[orders++] = 2;
	loop_stop(loop);
}

START_TEST(hooks_run_once_gather_before_flush)
{
	orders = 0;
	gather = flush = cancelled = (struct loop_hook){0};
	gather.run = cancelled.run = ran_gather;
	flush.run = ran_flush;
	loop_defer(loop, LOOP_FLUSH, &flush);
	loop_defer(loop, LOOP_GATHER, &cancelled);
	loop_defer(loop, LOOP_GATHER, &gather);
	loop_defer(loop, LOOP_GATHER, &gather);
	loop_defer_cancel(loop, LOOP_GATHER, &cancelled);
	loop_run(loop);
	ck_assert_int_eq(orders, 2);
	ck_assert_int_eq(order[0], 1);
	ck_assert_int_eq(order[1], 2);
}
END_TEST

#define JOBS 20000
static struct numbered {
	struct job job;
	int number, ran;
} jobs[JOBS];
static int runs, done;

static void run_jobs(void *self, struct job *list)
{
	(void)self;
	runs++;
	for (; list; list = list->next)
		container_of(list, struct numbered, job)->ran++;
}

static void job_done(struct job *job)
{
	struct numbered *mine = container_of(job, struct numbered, job);

	ck_assert_int_eq(mine->number, done++);
	ck_assert_int_eq(mine->ran, 1);
	if (done == JOBS)
		loop_stop(loop);
}

START_TEST(a_worker_runs_every_job_once_in_order_and_in_batches)
{
	struct worker *worker = worker_create(loop, "test", run_jobs, NULL);

	runs = done = 0;
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct numbered){.job.done = job_done, .number = i};
		ck_assert(worker_submit(worker, &jobs[i].job));
	}
	loop_run(loop);
	ck_assert_int_lt(runs, JOBS);
	worker_destroy(worker);
}
END_TEST

START_TEST(a_worker_refuses_more_than_its_maximum)
{
	struct worker *worker = worker_create(loop, "test", run_jobs, NULL);
	static struct numbered first = {.job.done = job_done};

	worker_set_max(worker, 0);
	ck_assert(!worker_submit(worker, &first.job));
	worker_destroy(worker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop");
	TCase *tests = tcase_create("loop");
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_fork_status(runner, CK_NOFORK);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, timers_fire_in_order_and_never_early);
	tcase_add_test(tests, hooks_run_once_gather_before_flush);
	tcase_add_test(tests, a_worker_runs_every_job_once_in_order_and_in_batches);
	tcase_add_test(tests, a_worker_refuses_more_than_its_maximum);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
