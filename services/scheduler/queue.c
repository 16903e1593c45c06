/* One queue: sleeps until its nearest deadline, then takes what is due. See engine.h.
 *
 *     heard / timer ──► turn ──► take (one under way for each target) ──► delivery.c or a leaser
 *                         └────► sleep until min(due times wanted, first lease end, 30 s)
 *
 * Times are Redis's: `heads.now_ms` plus what has passed here since. That is never ahead of Redis,
 * and the scripts compare with Redis's own clock anyway, so nothing is early.
 */
#include "services/scheduler/queue.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/clock.h"

#define LOOK_MS 30000
#define UNSURE_MS 500
#define TOPIC_IN_FLIGHT_MAX 4000
#define TOPIC_BYTES_MAX (16 << 20)

static void queue_awake(struct timer *timer);

struct queue *queue_create(struct engine *engine, const char *name)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	assert(queue);
	queue->engine = engine;
	queue->leasers_end = &queue->leasers;
	store_queue_init(engine->options.store, &queue->store, name);
	timer_init(&queue->timer, engine->loop, queue_awake);
	delivery_init(queue);
	queue_look(queue);
	return queue;
}

void queue_free(struct queue *queue)
{
	timer_stop(&queue->timer);
	delivery_free(queue);
	free(queue);
}

bool queue_idle(const struct queue *queue)
{
	const struct heads *heads = &queue->heads;

	for (int i = 0; i < TARGETS; i++) {
		if (heads->due_ms[i] >= 0 || queue->in_flight[i])
			return false;
	}
	return queue->known && !queue->store.known && !queue->store.users && !queue->leasers &&
	       heads->lease_ms < 0 && !heads->dead;
}

struct store_queue *queue_store(struct queue *queue)
{
	return &queue->store;
}

/* --- what is known --------------------------------------------------------------------------- */

static void queue_show_dead(struct queue *queue)
{
	char labels[QUEUE_NAME_MAX + 16];

	if (!queue->dead && !queue->heads.dead)
		return;
	if (!queue->dead) {
		snprintf(labels, sizeof(labels), "queue=\"%s\"", queue->store.name);
		queue->dead = metrics_gauge(
			queue->engine->options.metrics, "stampede_scheduler_dead",
			"Jobs given up, kept until cancelled or rescheduled.", labels);
	}
	queue->dead->value = queue->heads.dead;
}

void queue_heard(struct queue *queue, const struct heads *heads)
{
	queue->heads = *heads;
	queue->heard_us = clock_monotonic_us();
	queue->known = true;
	queue_show_dead(queue);
	queue_turn(queue);
}

void queue_unsure(struct queue *queue)
{
	queue->known = false;
	if (!queue->engine->stopping)
		timer_start_us(&queue->timer, UNSURE_MS * 1000);
}

static void queue_looked(struct store_take *take, enum status status,
			 const struct delivery *deliveries, size_t count)
{
	struct queue *queue = container_of(take, struct queue, look);

	(void)deliveries;
	(void)count;
	queue->looking = false;
	if (status == STATUS_OK && queue->look_again)
		queue_look(queue);
}

/* An answer on its way may be older than the reason to look: then once more. */
void queue_look(struct queue *queue)
{
	if (queue->engine->stopping)
		return;
	queue->look_again = queue->looking;
	if (queue->looking)
		return;
	queue->looking = true;
	queue->look.done = queue_looked;
	store_take(&queue->store, &queue->look, TARGETS, 0, LEASE_MIN_MS);
}

/* --- taking ---------------------------------------------------------------------------------- */

static void queue_hand_to_leaser(struct queue *queue, enum status status,
				 const struct delivery *deliveries, size_t count,
				 int64_t leases_end_ms)
{
	struct leaser *leaser = queue->leasing;

	queue->leasing = NULL;
	if (!leaser) {
		if (count)
			delivery_give_back(queue, TARGET_PULL, deliveries, count);
		return;
	}
	if (status == STATUS_OK && !count)
		return; /* it goes on waiting, first in line */
	leaser_forget(leaser);
	leaser->leased(leaser, status, deliveries, count, leases_end_ms);
}

static void queue_taken(struct store_take *take, enum status status,
			const struct delivery *deliveries, size_t count)
{
	struct queue *queue = container_of(take->queue, struct queue, store);
	enum target target = (enum target)(take - queue->takes);
	struct engine *engine = queue->engine;

	queue->taking[target] = false;
	for (size_t i = 0; i < count; i++) {
		int64_t taken_ms = take->leases_end_ms - engine->options.lease_ms;

		engine->delivered[target]->value++;
		if (target != TARGET_PULL && deliveries[i].tries == 1)
			histogram_record_us(engine->lateness,
					    (taken_ms - deliveries[i].due_ms) * 1000);
	}
	if (target == TARGET_PULL)
		queue_hand_to_leaser(queue, status, deliveries, count, take->leases_end_ms);
	else if (count && engine->stopping)
		delivery_give_back(queue, target, deliveries, count);
	else if (count)
		delivery_begin(queue, target, deliveries, count);
}

/* How many jobs for this target could be sent on their way now. */
static size_t queue_wants(const struct queue *queue, enum target target)
{
	const struct engine_options *options = &queue->engine->options;
	int64_t room;

	switch (target) {
	case TARGET_TOPIC:
		room = TOPIC_IN_FLIGHT_MAX - queue->in_flight[target];
		if (!events_up(options->events) || queue->bytes_in_flight >= TOPIC_BYTES_MAX)
			room = 0;
		break;
	case TARGET_CALLBACK:
		room = options->callbacks_max - queue->in_flight[target];
		break;
	default:
		room = queue->leasers ? (int64_t)queue->leasers->jobs_max : 0;
	}
	return room <= 0 ? 0 : room < JOBS_MAX ? (size_t)room : JOBS_MAX;
}

static void queue_take(struct queue *queue, enum target target, size_t jobs_max)
{
	int64_t lease_ms = queue->engine->options.lease_ms;

	if (target == TARGET_PULL) {
		queue->leasing = queue->leasers;
		queue->lease_untried = false;
		lease_ms = queue->leasers->lease_ms;
	}
	queue->taking[target] = true;
	queue->takes[target].done = queue_taken;
	store_take(&queue->store, &queue->takes[target], target, jobs_max, lease_ms);
}

/* --- the turn -------------------------------------------------------------------------------- */

static void queue_awake(struct timer *timer)
{
	struct queue *queue = container_of(timer, struct queue, timer);
	int64_t quiet_ms = (clock_monotonic_us() - queue->heard_us) / 1000;

	if (quiet_ms >= LOOK_MS)
		queue->known = false;
	queue_turn(queue);
}

void queue_turn(struct queue *queue)
{
	int64_t passed_ms = (clock_monotonic_us() - queue->heard_us) / 1000;
	int64_t now_ms = queue->heads.now_ms + passed_ms;
	int64_t next_ms = now_ms + LOOK_MS - passed_ms;

	if (queue->engine->stopping)
		return;
	if (queue->leasers && queue->lease_untried && !queue->taking[TARGET_PULL])
		queue_take(queue, TARGET_PULL, queue_wants(queue, TARGET_PULL));
	if (!queue->known) {
		queue_look(queue);
		return;
	}
	for (enum target target = 0; target < TARGETS; target++) {
		int64_t due_ms = queue->heads.due_ms[target];
		size_t wanted = queue_wants(queue, target);

		if (due_ms < 0 || !wanted || queue->taking[target])
			continue;
		if (due_ms <= now_ms)
			queue_take(queue, target, wanted);
		else if (due_ms < next_ms)
			next_ms = due_ms;
	}
	if (queue->heads.lease_ms >= 0) {
		if (queue->heads.lease_ms <= now_ms && !queue->looking)
			queue_look(queue);
		else if (queue->heads.lease_ms > now_ms && queue->heads.lease_ms < next_ms)
			next_ms = queue->heads.lease_ms;
	}
	timer_start_us(&queue->timer, (next_ms - now_ms) * 1000);
}

/* --- leasers --------------------------------------------------------------------------------- */

void queue_lease(struct queue *queue, struct leaser *leaser)
{
	leaser->queue = queue;
	leaser->next = NULL;
	leaser->link = queue->leasers_end;
	*queue->leasers_end = leaser;
	queue->leasers_end = &leaser->next;
	queue->lease_untried = true;
	queue_turn(queue);
}

void leaser_forget(struct leaser *leaser)
{
	struct queue *queue = leaser->queue;

	if (!queue)
		return;
	*leaser->link = leaser->next;
	if (leaser->next)
		leaser->next->link = leaser->link;
	else
		queue->leasers_end = leaser->link;
	if (queue->leasing == leaser)
		queue->leasing = NULL;
	leaser->queue = NULL;
}
