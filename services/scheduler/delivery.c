/* What happens to taken jobs: they go to the bus or to a callback, and what became of them is told
 * to Redis in batches. A job leaves Redis only after the bus's confirmation or the callback's OK.
 *
 *     begin ──► topic: events_fire() ────► fired ────┐
 *          └──► callback: callback_start() ► called ─┴──► settle (once a round) ──► settled
 *
 * A bus that is down is not a job's fault: the job goes back untried. A callback that fails is
 * tried again after retry_ms, 2 × retry_ms, … with jitter, until tries_max; then it is dead. When
 * Redis cannot be told, it is told again as long as the lease may still be ours.
 */
#include "services/scheduler/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"

#define BUS_RETRY_MS 1000
#define SETTLE_RETRY_MS 250

static void queue_settle(struct queue *queue);

/* --- settling -------------------------------------------------------------------------------- */

static struct settlement *settlement_make(struct queue *queue, enum target target,
					  const struct delivery *delivery)
{
	const struct engine *engine = queue->engine;
	struct settlement *settlement = calloc(1, sizeof(*settlement));

	assert(settlement && strlen(delivery->id) <= JOB_ID_MAX);
	strcpy(settlement->id, delivery->id);
	settlement->target = target;
	settlement->number = delivery->number;
	settlement->tries = delivery->tries;
	settlement->size = delivery->record_size;
	settlement->until_us = clock_monotonic_us() + engine->options.lease_ms * 1000;
	queue->in_flight[target]++;
	queue->bytes_in_flight += (int64_t)settlement->size;
	engine->in_flight->value++;
	return settlement;
}

static void settlement_end(struct queue *queue, struct settlement *settlement)
{
	queue->in_flight[settlement->target]--;
	queue->bytes_in_flight -= (int64_t)settlement->size;
	engine_settled(queue->engine, 1);
	free(settlement);
}

/* To be told to Redis at the end of the round. */
static void queue_add_settlement(struct queue *queue, struct settlement *settlement)
{
	settlement->next = NULL;
	*queue->unsettled_end = settlement;
	queue->unsettled_end = &settlement->next;
	loop_defer(queue->engine->loop, LOOP_GATHER, &queue->settle_hook);
}

static void settlement_count(struct engine *engine, const struct settlement *settlement)
{
	if (settlement->outcome == SETTLED_LOST)
		engine->lost->value++;
	else if (settlement->outcome == SETTLED_DEAD)
		engine->died->value++;
	else if (settlement->verdict == VERDICT_OVER)
		engine->over->value++;
	else if (settlement->verdict == VERDICT_FAILED)
		engine->failed->value++;
}

/* Those whose lease may still be ours, at the head of the list again. */
static void queue_keep_unsettled(struct queue *queue, struct settlement *first)
{
	struct settlement **link = &first, *settlement;
	int64_t now_us = clock_monotonic_us();

	while ((settlement = *link)) {
		if (settlement->until_us > now_us) {
			link = &settlement->next;
			continue;
		}
		*link = settlement->next;
		queue->engine->lost->value++;
		settlement_end(queue, settlement);
	}
	if (!first)
		return;
	*link = queue->unsettled;
	if (!queue->unsettled)
		queue->unsettled_end = link;
	queue->unsettled = first;
}

static void queue_settled(struct store_settle *settle, enum status status)
{
	struct queue *queue = container_of(settle, struct queue, settle);
	struct settlement *settlement;

	queue->settling = false;
	if (status != STATUS_OK) {
		queue_keep_unsettled(queue, settle->first);
		timer_start_us(&queue->settle_again, SETTLE_RETRY_MS * 1000);
		return;
	}
	while ((settlement = settle->first)) {
		settle->first = settlement->next;
		settlement_count(queue->engine, settlement);
		if (settlement->outcome == SETTLED_DEAD)
			log_event(LOG_WARN, "job_dead", log_text("queue", queue->store.name),
				  log_text("job_id", settlement->id),
				  log_number("tries", settlement->tries));
		settlement_end(queue, settlement);
	}
	queue_settle(queue);
}

static void queue_settle(struct queue *queue)
{
	struct settlement **end = &queue->unsettled;

	if (queue->settling || !queue->unsettled || timer_started(&queue->settle_again))
		return;
	for (int i = 0; i < JOBS_MAX && *end; i++)
		end = &(*end)->next;
	queue->settle.first = queue->unsettled;
	queue->unsettled = *end;
	*end = NULL;
	if (!queue->unsettled)
		queue->unsettled_end = &queue->unsettled;
	queue->settling = true;
	queue->settle.done = queue_settled;
	store_settle(&queue->store, &queue->settle);
}

static void queue_settle_round(struct loop_hook *hook)
{
	queue_settle(container_of(hook, struct queue, settle_hook));
}

static void queue_settle_again(struct timer *timer)
{
	queue_settle(container_of(timer, struct queue, settle_again));
}

void delivery_init(struct queue *queue)
{
	queue->unsettled_end = &queue->unsettled;
	queue->settle_hook.run = queue_settle_round;
	timer_init(&queue->settle_again, queue->engine->loop, queue_settle_again);
}

void delivery_free(struct queue *queue)
{
	struct settlement *settlement;

	timer_stop(&queue->settle_again);
	loop_defer_cancel(queue->engine->loop, LOOP_GATHER, &queue->settle_hook);
	while ((settlement = queue->unsettled)) {
		queue->unsettled = settlement->next;
		free(settlement);
	}
}

/* --- to the bus ------------------------------------------------------------------------------ */

/* The bus's own trouble, not the record's. */
static bool bus_trouble(enum status status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_DEADLINE_EXCEEDED ||
	       status == STATUS_RESOURCE_EXHAUSTED || status == STATUS_CANCELLED;
}

static int64_t engine_backoff_ms(struct engine *engine, int tries)
{
	const struct engine_options *options = &engine->options;
	int64_t delay_ms = options->retry_ms;

	for (int i = 1; i < tries && delay_ms < options->retry_max_ms; i++)
		delay_ms *= 2;
	if (delay_ms > options->retry_max_ms)
		delay_ms = options->retry_max_ms;
	engine->dice = engine->dice * 6364136223846793005u + 1442695040888963407u;
	return delay_ms / 2 + (int64_t)((engine->dice >> 33) % (uint64_t)(delay_ms / 2 + 1));
}

static void delivery_fired(struct firing *firing, enum status status)
{
	struct queue *queue = firing->context;
	struct settlement *settlement;

	if (status != STATUS_OK)
		log_event(LOG_WARN, "jobs_not_fired", log_text("queue", queue->store.name),
			  log_text("status", status_name(status)));
	while ((settlement = firing->settlements)) {
		firing->settlements = settlement->next;
		if (status == STATUS_OK) {
			settlement->verdict = VERDICT_OVER;
		} else if (bus_trouble(status)) {
			settlement->verdict = VERDICT_NOT_TRIED;
			settlement->delay_ms = BUS_RETRY_MS;
		} else {
			settlement->verdict = VERDICT_FAILED;
			settlement->delay_ms = engine_backoff_ms(queue->engine, settlement->tries);
		}
		queue_add_settlement(queue, settlement);
	}
	free(firing);
}

/* --- to a callback --------------------------------------------------------------------------- */

static void delivery_called(struct callback *callback, enum status status)
{
	struct queue *queue = callback->context;
	struct settlement *settlement = callback->settlement;

	if (status == STATUS_OK) {
		settlement->verdict = VERDICT_OVER;
	} else if (!callback->rpc.method && status == STATUS_RESOURCE_EXHAUSTED) {
		settlement->verdict = VERDICT_NOT_TRIED;
		settlement->delay_ms = BUS_RETRY_MS;
	} else {
		settlement->verdict = VERDICT_FAILED;
		settlement->delay_ms = engine_backoff_ms(queue->engine, settlement->tries);
		log_event(LOG_WARN, "callback_failed", log_text("queue", queue->store.name),
			  log_text("job_id", settlement->id),
			  log_text("status", status_name(status)),
			  log_number("tries", settlement->tries));
	}
	queue_add_settlement(queue, settlement);
	free(callback);
}

static void delivery_call(struct queue *queue, const struct delivery *delivery)
{
	const struct engine_options *options = &queue->engine->options;
	struct callback *callback = calloc(1, sizeof(*callback));

	assert(callback);
	callback->settlement = settlement_make(queue, TARGET_CALLBACK, delivery);
	callback->context = queue;
	callback->done = delivery_called;
	/* It ends before the lease does, so that no other instance calls at the same time. */
	callback_start(options->callbacks, callback, queue->store.name, delivery,
		       options->lease_ms * 5 / 6);
}

/* --- both ------------------------------------------------------------------------------------ */

void delivery_begin(struct queue *queue, enum target target, const struct delivery *deliveries,
		    size_t count)
{
	struct settlement *settlements[JOBS_MAX];

	assert(count <= JOBS_MAX);
	if (target == TARGET_CALLBACK) {
		for (size_t i = 0; i < count; i++)
			delivery_call(queue, &deliveries[i]);
		return;
	}
	for (size_t i = 0; i < count; i++)
		settlements[i] = settlement_make(queue, target, &deliveries[i]);
	events_fire(queue->engine->options.events, queue->store.name, deliveries, count,
		    settlements, delivery_fired, queue);
}

void delivery_give_back(struct queue *queue, enum target target, const struct delivery *deliveries,
			size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct settlement *settlement = settlement_make(queue, target, &deliveries[i]);

		settlement->verdict = VERDICT_NOT_TRIED;
		queue_add_settlement(queue, settlement);
	}
}
