/* The loop: see loop.h for the round.
 *
 * Who may call grpc_completion_queue_next() is the one thing the two threads share: `lent` says
 * that the helper has the queue. The loop gives it by a semaphore post and gets it back, with one
 * event, by the async handle; both order the memory between them.
 */
#include "runtime/loop.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/timers.h"

#define EVENTS_PER_ROUND_MAX 128

struct loop {
	uv_loop_t uv;
	grpc_completion_queue *queue;
	int64_t now_us;
	bool busy, stopping, asleep;
	struct loop_hook *hooks[LOOP_PHASES], **hooks_end[LOOP_PHASES];
	struct timers timers;
	uv_timer_t alarm; /* ends the wait when the nearest timer is due */
	atomic_uint_fast64_t rounds;

	uv_thread_t helper;
	uv_sem_t lend;
	bool lent, helper_quits;
	atomic_bool returned;
	grpc_event event; /* what the helper came back with */

	uv_async_t wake;
	_Atomic(struct mail *) mail; /* newest first */
};

static void loop_gave_back(struct loop *loop);

static void helper_main(void *arg)
{
	struct loop *loop = arg;

	for (;;) {
		uv_sem_wait(&loop->lend);
		if (loop->helper_quits)
			return;
		loop->event = grpc_completion_queue_next(loop->queue,
							 gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		atomic_store(&loop->returned, true);
		uv_async_send(&loop->wake);
	}
}

static void loop_deliver(struct loop *loop)
{
	struct mail *newest = atomic_exchange(&loop->mail, NULL), *oldest = NULL, *mail;

	while ((mail = newest)) {
		newest = mail->next;
		mail->next = oldest;
		oldest = mail;
	}
	while ((mail = oldest)) {
		oldest = mail->next;
		mail->deliver(mail);
	}
}

static void loop_woken(uv_async_t *wake)
{
	struct loop *loop = container_of(wake, struct loop, wake);

	loop_busy(loop);
	if (atomic_exchange(&loop->returned, false))
		loop_gave_back(loop);
	loop_deliver(loop);
}

static void loop_alarm(uv_timer_t *alarm)
{
	/* All that is wanted is that the wait ends; if it has not begun yet, libuv, with no timer left, would
	 * wait for ever. */
	uv_stop(alarm->loop);
}

struct loop *loop_create(void)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int failed;

	assert(loop);
	grpc_init();
	loop->queue = grpc_completion_queue_create_for_next(NULL);
	for (int phase = 0; phase < LOOP_PHASES; phase++)
		loop->hooks_end[phase] = &loop->hooks[phase];
	loop->now_us = clock_monotonic_us();
	failed = uv_loop_init(&loop->uv);
	assert(!failed);
	failed = uv_async_init(&loop->uv, &loop->wake, loop_woken);
	assert(!failed);
	uv_timer_init(&loop->uv, &loop->alarm);
	failed = uv_sem_init(&loop->lend, 0);
	assert(!failed);
	failed = uv_thread_create(&loop->helper, helper_main, loop);
	assert(!failed);
	return loop;
}

uv_loop_t *loop_uv(struct loop *loop)
{
	return &loop->uv;
}

grpc_completion_queue *loop_queue(struct loop *loop)
{
	return loop->queue;
}

int64_t loop_now_us(const struct loop *loop)
{
	return loop->now_us;
}

uint64_t loop_rounds(const struct loop *loop)
{
	return atomic_load_explicit(&loop->rounds, memory_order_relaxed);
}

void loop_busy(struct loop *loop)
{
	loop->busy = true;
	/* What ends the wait runs before the next round: its clock must not be that of before the wait. */
	if (loop->asleep) {
		loop->asleep = false;
		loop->now_us = clock_monotonic_us();
	}
}

void loop_post(struct loop *loop, struct mail *mail)
{
	struct mail *newest = atomic_load(&loop->mail);

	do {
		mail->next = newest;
	} while (!atomic_compare_exchange_weak(&loop->mail, &newest, mail));
	if (!newest)
		uv_async_send(&loop->wake);
}

/* --- the queue -------------------------------------------------------------------------------- */

static void loop_event(grpc_event event)
{
	struct tag *tag = event.tag;

	if (event.type == GRPC_OP_COMPLETE)
		tag->done(tag, event.success);
}

static void loop_gave_back(struct loop *loop)
{
	loop->lent = false;
	loop_event(loop->event);
}

static void loop_drain_queue(struct loop *loop)
{
	for (int i = 0; i < EVENTS_PER_ROUND_MAX; i++) {
		grpc_event event = grpc_completion_queue_next(
			loop->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);

		if (event.type != GRPC_OP_COMPLETE)
			return;
		loop->busy = true;
		loop_event(event);
	}
}

/* --- hooks ------------------------------------------------------------------------------------ */

void loop_defer(struct loop *loop, enum loop_phase phase, struct loop_hook *hook)
{
	if (hook->waits)
		return;
	hook->waits = true;
	hook->next = NULL;
	*loop->hooks_end[phase] = hook;
	loop->hooks_end[phase] = &hook->next;
}

void loop_defer_cancel(struct loop *loop, enum loop_phase phase, struct loop_hook *hook)
{
	struct loop_hook **at = &loop->hooks[phase];

	if (!hook->waits)
		return;
	while (*at != hook)
		at = &(*at)->next;
	*at = hook->next;
	if (!hook->next)
		loop->hooks_end[phase] = at;
	hook->waits = false;
}

static bool loop_hooks_wait(const struct loop *loop)
{
	return loop->hooks[LOOP_GATHER] || loop->hooks[LOOP_FLUSH];
}

/* Runs what waits now; a hook that a hook registers for its own or an earlier phase runs in the
 * next round. */
static void loop_run_hooks(struct loop *loop)
{
	for (int phase = 0; phase < LOOP_PHASES; phase++) {
		struct loop_hook *last = loop->hooks[phase] ? container_of(loop->hooks_end[phase],
									   struct loop_hook, next)
							    : NULL;
		bool more = last;

		while (more) {
			struct loop_hook *hook = loop->hooks[phase];

			more = hook && hook != last;
			if (!hook)
				break;
			loop_defer_cancel(loop, (enum loop_phase)phase, hook);
			hook->run(hook);
		}
	}
}

/* --- the round -------------------------------------------------------------------------------- */

/* Nothing to do: wait for libuv, the helper waiting for gRPC. */
static void loop_sleep(struct loop *loop)
{
	int64_t next_us = timers_next_us(&loop->timers);

	if (!loop->lent) {
		loop->lent = true;
		uv_sem_post(&loop->lend);
	}
	if (next_us >= 0) {
		int64_t delay_us = next_us - clock_monotonic_us();

		/* It repeats, since libuv runs due timers before it waits: one that came due on
		 * the way there would not end the wait. */
		uv_update_time(&loop->uv);
		uv_timer_start(&loop->alarm, loop_alarm,
			       delay_us > 0 ? (uint64_t)(delay_us + 999) / 1000 : 0, 1);
	}
	loop->asleep = true;
	uv_run(&loop->uv, UV_RUN_ONCE);
	loop->asleep = false;
	uv_timer_stop(&loop->alarm);
}

static void loop_round(struct loop *loop)
{
	loop->now_us = clock_monotonic_us();
	loop->busy = false;
	atomic_fetch_add_explicit(&loop->rounds, 1, memory_order_relaxed);
	if (!loop->lent)
		loop_drain_queue(loop);
	if (timers_fire(&loop->timers, loop->now_us))
		loop->busy = true;
	if (loop_hooks_wait(loop))
		loop_run_hooks(loop);
	uv_run(&loop->uv, UV_RUN_NOWAIT);
	if (!loop->busy && !loop_hooks_wait(loop) && !loop->stopping)
		loop_sleep(loop);
}

void loop_run(struct loop *loop)
{
	loop->stopping = false;
	while (!loop->stopping)
		loop_round(loop);
}

void loop_stop(struct loop *loop)
{
	loop->stopping = true;
	uv_async_send(&loop->wake);
}

static void loop_queue_shutdown(struct loop *loop)
{
	grpc_event event;

	grpc_completion_queue_shutdown(loop->queue);
	if (loop->lent) {
		while (!atomic_load(&loop->returned))
			uv_sleep(1);
		loop_event(loop->event);
		if (loop->event.type == GRPC_QUEUE_SHUTDOWN)
			return;
	}
	while ((event = grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC),
						   NULL))
		       .type != GRPC_QUEUE_SHUTDOWN)
		loop_event(event);
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	loop_queue_shutdown(loop);
	loop->helper_quits = true;
	uv_sem_post(&loop->lend);
	uv_thread_join(&loop->helper);
	grpc_completion_queue_destroy(loop->queue);
	loop_deliver(loop);
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_close((uv_handle_t *)&loop->alarm, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	uv_loop_close(&loop->uv);
	uv_sem_destroy(&loop->lend);
	timers_free(&loop->timers);
	free(loop);
	grpc_shutdown_blocking();
}

/* --- timers ----------------------------------------------------------------------------------- */

void timer_init(struct timer *timer, struct loop *loop, void (*fire)(struct timer *timer))
{
	*timer = (struct timer){.fire = fire, .loop = loop};
}

void timer_start_us(struct timer *timer, int64_t delay_us)
{
	/* Not loop_now_us(): a long round must not make timers early. */
	timers_set(&timer->loop->timers, timer,
		   clock_monotonic_us() + (delay_us > 0 ? delay_us : 0));
}

void timer_stop(struct timer *timer)
{
	if (timer->index)
		timers_remove(&timer->loop->timers, timer);
}

bool timer_started(const struct timer *timer)
{
	return timer->index;
}
