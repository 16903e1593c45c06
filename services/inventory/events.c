/* See events.h.
 *
 *     a batch of OrdersChanged ─► grouped by sale ─► settle.lua, up to 32 orders a script ─► all done: commit
 *
 * settle.lua changes each reservation once, so a batch that comes again changes nothing. When a script fails
 * (Redis away) the whole batch comes again.
 */
#include "inventory/events.h"

#include <assert.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/store.h"
#include "inventory/watch.h"
#include "runtime/log.h"

#define PACE_MS 10 /* order's transactions come at this pace */
#define TOPIC "orders"
#define GROUP "inventory"
#define AGAIN_MS 500

struct change {
	const char *sale_id;
	struct store_settlement settlement;
};

/* A batch in hand: each partition may have one. */
struct handling {
	struct events *events;
	struct bus_batch *batch;
	struct arena arena;
	struct change *changes;
	int count;
	struct settlement *settlements;
	int settlements_count, left;
	bool failed;
};

struct settlement {
	struct redis_op op;
	struct handling *handling;
	const char *sale_id;
	int first, count;
};

struct events {
	struct inventory *inventory;
	struct bus_consumer *consumer;
	struct counter *confirmed, *released, *unknown, *conflicts;
};

static void handling_finish(struct handling *handling)
{
	if (handling->failed)
		bus_batch_again(handling->batch, AGAIN_MS);
	else
		bus_batch_done(handling->batch);
	arena_reset(&handling->arena);
	free(handling->changes);
	free(handling);
}

static void count_verdict(struct events *events, const struct change *change, int verdict)
{
	if (verdict == STORE_CHANGED) {
		(change->settlement.confirm ? events->confirmed : events->released)->value++;
	} else if (verdict == STORE_REFUSED) {
		events->unknown->value++;
		log_event(LOG_ERROR, "reservation_unknown", log_text("sale_id", change->sale_id),
			  log_text("order_id", change->settlement.order_id));
	} else if (verdict == STORE_REFUSED_STATUS) {
		events->conflicts->value++;
		log_event(LOG_ERROR, "reservation_settled_otherwise",
			  log_text("sale_id", change->sale_id),
			  log_text("order_id", change->settlement.order_id),
			  log_text("wanted", change->settlement.confirm ? "confirm" : "release"));
	}
}

static void settled(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct settlement *settlement = container_of(op, struct settlement, op);
	struct handling *handling = settlement->handling;
	struct events *events = handling->events;
	const char *entry;

	if (status != STATUS_OK) {
		handling->failed = true;
	} else if (reply->type == REDIS_REPLY_ARRAY) {
		for (int i = 0; i < settlement->count; i++)
			count_verdict(events, &handling->changes[settlement->first + i],
				      store_settled(reply, (size_t)i, &entry));
		watches_changed(events->inventory->watches, settlement->sale_id);
	} else { /* no such sale */
		for (int i = 0; i < settlement->count; i++)
			count_verdict(events, &handling->changes[settlement->first + i],
				      STORE_REFUSED);
	}
	if (--handling->left == 0)
		handling_finish(handling);
}

static void settle(struct handling *handling, int first, int count)
{
	struct settlement *settlement = &handling->settlements[handling->settlements_count++];
	struct store_settlement list[STORE_SETTLE_MAX];

	for (int i = 0; i < count; i++)
		list[i] = handling->changes[first + i].settlement;
	*settlement = (struct settlement){.op.done = settled,
					  .handling = handling,
					  .sale_id = handling->changes[first].sale_id,
					  .first = first,
					  .count = count};
	handling->left++;
	store_send_settle(handling->events->inventory->store, &settlement->op, settlement->sale_id,
			  list, count);
}

/* Runs of one sale; changes of one order stay in order, since scripts run in the order they are sent. */
static void settle_all(struct handling *handling)
{
	const struct change *changes = handling->changes;
	int first = 0;

	handling->settlements =
		arena_alloc(&handling->arena, (size_t)handling->count * sizeof(struct settlement));
	for (int i = 1; i <= handling->count; i++) {
		if (i < handling->count && i - first < STORE_SETTLE_MAX &&
		    !strcmp(changes[i].sale_id, changes[first].sale_id))
			continue;
		settle(handling, first, i - first);
		first = i;
	}
}

static bool is_id(const char *text)
{
	size_t size = strlen(text);

	return size && size <= ID_MAX;
}

static void take_record(struct handling *handling,
			const Stampede__Events__V1__OrdersChanged *record)
{
	size_t count = (size_t)handling->count + record->n_changes;

	handling->changes = realloc(handling->changes, count * sizeof(struct change));
	assert(handling->changes || !count);
	for (size_t i = 0; i < record->n_changes; i++) {
		const Stampede__Order__V1__Order *order = record->changes[i]->order;

		if (!order || !is_id(order->sale_id) || !is_id(order->order_id) ||
		    !is_id(order->user_id) ||
		    (order->status != STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_PAID &&
		     order->status != STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_CANCELLED))
			continue; /* placed: nothing to do */
		handling->changes[handling->count++] = (struct change){
			order->sale_id,
			{order->user_id, order->order_id,
			 order->status == STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_PAID}};
	}
}

static void events_batch(void *self, struct bus_batch *batch)
{
	struct handling *handling = calloc(1, sizeof(*handling));

	assert(handling);
	handling->events = self;
	handling->batch = batch;
	arena_init(&handling->arena, NULL, 0);
	for (int i = 0; i < batch->count; i++) {
		Stampede__Events__V1__OrdersChanged *record =
			stampede__events__v1__orders_changed__unpack(
				arena_allocator(&handling->arena), batch->records[i].value_size,
				batch->records[i].value);

		if (record)
			take_record(handling, record);
		else
			bus_batch_fail(batch, i, "not an OrdersChanged");
	}
	if (handling->count)
		settle_all(handling);
	else
		handling_finish(handling);
}

static double backlog_read(void *self)
{
	struct events *events = self;

	return (double)bus_backlog(events->consumer);
}

struct events *events_create(struct inventory *inventory)
{
	struct events *events = calloc(1, sizeof(*events));
	struct metrics *metrics = inventory->metrics;

	assert(events);
	events->inventory = inventory;
	events->confirmed = metrics_counter(metrics, "stampede_reservations_settled_total",
					    "Reservations settled by events.", "to=\"confirmed\"");
	events->released = metrics_counter(metrics, "stampede_reservations_settled_total",
					   "Reservations settled by events.", "to=\"released\"");
	events->unknown = metrics_counter(metrics, "stampede_reservations_unknown_total",
					  "Events of orders whose reservation is not there.", NULL);
	events->conflicts = metrics_counter(metrics, "stampede_reservations_conflicts_total",
					    "Events that contradict a settled reservation.", NULL);
	events->consumer =
		bus_consume(inventory->bus, &(struct bus_consumer_options){.topic = TOPIC,
									   .group = GROUP,
									   .pace_ms = PACE_MS,
									   .batch = events_batch,
									   .self = events});
	metrics_gauge_read(metrics, "stampede_bus_backlog", "Records not yet consumed.",
			   "topic=\"" TOPIC "\",group=\"" GROUP "\"", backlog_read, events);
	return events;
}

/* After the bus is closed: no batch is in hand. */
void events_destroy(struct events *events)
{
	free(events);
}
