/* The engine's queues: a table by name, what the store tells about them, and the end. See engine.h;
 * what one queue does is in queue.c.
 */
#include "services/scheduler/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"

#define LIST_US (30 * 1000 * 1000)

static uint32_t name_slot(const char *name)
{
	uint32_t hash = 2166136261; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619;
	return hash % ENGINE_SLOTS;
}

static struct queue *engine_find(struct engine *engine, const char *name)
{
	struct queue *queue = engine->slots[name_slot(name)];

	while (queue && strcmp(queue->store.name, name))
		queue = queue->next;
	return queue;
}

/* Whoever asks for queues that do not exist must not use up the room for those that do. */
static bool engine_make_room(struct engine *engine)
{
	for (int i = 0; i < ENGINE_SLOTS; i++) {
		for (struct queue **link = &engine->slots[i]; *link; link = &(*link)->next) {
			struct queue *queue = *link;

			if (!queue_idle(queue))
				continue;
			*link = queue->next;
			queue_free(queue);
			engine->count--;
			return true;
		}
	}
	return false;
}

struct queue *engine_queue(struct engine *engine, const char *name)
{
	struct queue *queue = engine_find(engine, name), **slot;

	if (queue)
		return queue;
	if (engine->count >= engine->options.queues_max && !engine_make_room(engine))
		return NULL;
	queue = queue_create(engine, name);
	slot = &engine->slots[name_slot(name)];
	queue->next = *slot;
	*slot = queue;
	engine->count++;
	return queue;
}

static void engine_each(struct engine *engine, void (*visit)(struct queue *queue))
{
	for (int i = 0; i < ENGINE_SLOTS; i++) {
		for (struct queue *queue = engine->slots[i]; queue; queue = queue->next)
			visit(queue);
	}
}

/* Queues that another instance made and whose notice was missed. */
static void engine_list(struct timer *timer)
{
	struct engine *engine = container_of(timer, struct engine, lists);

	store_list(engine->options.store);
	timer_start_us(timer, LIST_US);
}

struct engine *engine_create(struct loop *loop, const struct engine_options *options)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	struct metrics *metrics = options->metrics;

	assert(engine);
	engine->loop = loop;
	engine->options = *options;
	engine->dice = (uint64_t)clock_monotonic_us();
	timer_init(&engine->lists, loop, engine_list);
	timer_start_us(&engine->lists, LIST_US);
	for (int i = 0; i < TARGETS; i++) {
		static const char *const labels[TARGETS] = {
			"target=\"topic\"", "target=\"callback\"", "target=\"pull\""};

		engine->delivered[i] =
			metrics_counter(metrics, "stampede_scheduler_deliveries_total",
					"Jobs handed out, each time.", labels[i]);
	}
	engine->lateness = metrics_histogram(metrics, "stampede_scheduler_lateness_seconds",
					     "From due to handed out.", NULL);
	engine->over = metrics_counter(metrics, "stampede_scheduler_settled_total",
				       "What became of deliveries.", "outcome=\"done\"");
	engine->failed = metrics_counter(metrics, "stampede_scheduler_settled_total",
					 "What became of deliveries.", "outcome=\"failed\"");
	engine->died = metrics_counter(metrics, "stampede_scheduler_settled_total",
				       "What became of deliveries.", "outcome=\"dead\"");
	engine->lost = metrics_counter(metrics, "stampede_scheduler_settled_total",
				       "What became of deliveries.", "outcome=\"lease_lost\"");
	engine->in_flight = metrics_gauge(metrics, "stampede_scheduler_in_flight",
					  "Deliveries to topics and callbacks under way.", NULL);
	return engine;
}

void engine_destroy(struct engine *engine)
{
	if (!engine)
		return;
	timer_stop(&engine->lists);
	timer_stop(&engine->grace);
	for (int i = 0; i < ENGINE_SLOTS; i++) {
		struct queue *queue;

		while ((queue = engine->slots[i])) {
			engine->slots[i] = queue->next;
			queue_free(queue);
		}
	}
	free(engine);
}

/* --- what the store reports ------------------------------------------------------------------ */

void engine_heard(struct engine *engine, struct store_queue *store, const struct heads *heads)
{
	(void)engine;
	queue_heard(container_of(store, struct queue, store), heads);
}

void engine_unsure(struct engine *engine, struct store_queue *store)
{
	(void)engine;
	queue_unsure(container_of(store, struct queue, store));
}

void engine_look(struct engine *engine, const char *name)
{
	struct queue *queue;

	if (!name) {
		engine_each(engine, queue_look);
		return;
	}
	queue = engine_queue(engine, name);
	if (queue)
		queue_look(queue);
	else
		log_event(LOG_WARN, "queue_left_out", log_text("queue", name),
			  log_number("queues_max", engine->options.queues_max));
}

static void queue_forget_known(struct queue *queue)
{
	queue->store.known = false;
	queue_look(queue);
}

void engine_reconnected(struct engine *engine)
{
	engine_each(engine, queue_forget_known);
}

void engine_bus_up(struct engine *engine)
{
	engine_each(engine, queue_look);
}

/* --- the end --------------------------------------------------------------------------------- */

static void engine_end(struct engine *engine)
{
	void (*stopped)(void *context) = engine->stopped;

	if (!stopped)
		return;
	engine->stopped = NULL;
	timer_stop(&engine->grace);
	stopped(engine->stopped_context);
}

void engine_settled(struct engine *engine, int64_t count)
{
	engine->in_flight->value -= count;
	assert(engine->in_flight->value >= 0);
	if (engine->stopping && !engine->in_flight->value)
		timer_start_us(&engine->grace, 0);
}

static void engine_grace_over(struct timer *timer)
{
	engine_end(container_of(timer, struct engine, grace));
}

void engine_stop(struct engine *engine, int64_t grace_ms, void (*stopped)(void *context),
		 void *context)
{
	engine->stopping = true;
	engine->stopped = stopped;
	engine->stopped_context = context;
	timer_stop(&engine->lists);
	timer_init(&engine->grace, engine->loop, engine_grace_over);
	timer_start_us(&engine->grace, engine->in_flight->value ? grace_ms * 1000 : 0);
}
