/* The delivery engine: sees to it that due jobs go out, from all queues, on time.
 *
 *     heads (from every script) ──► one timer a queue ──► take ──► topic ─► bus ──────┐
 *                                        ▲                    ├──► callback ─► RPC ────┤
 *                                        │                    └──► pull ─► Lease       │
 *                                        └───────────── settle ◄───────────────────────┘
 *
 * Nothing polls: a queue sleeps until its nearest due time or lease end, as Redis's clock has it;
 * an earlier job moves that up at once (by the script's answer, or by a notice of another
 * instance). A look every 30 s mends what a lost notice or a dead instance left behind.
 *
 * Any number of instances may work on a queue: takes are atomic and lease what they hand out.
 */
#pragma once

#include "services/scheduler/callbacks.h"
#include "services/scheduler/events.h"
#include "services/scheduler/store.h"

struct engine;
struct queue;

struct engine_options {
	struct store *store;
	struct events *events;
	struct callbacks *callbacks;
	struct metrics *metrics;
	int queues_max;
	int callbacks_max;
	int64_t lease_ms, retry_ms, retry_max_ms;
};
struct engine *engine_create(struct loop *loop, const struct engine_options *options);
/* Takes nothing more; `stopped` runs when what is under way has been settled, after `grace_ms` at
 * the latest. */
void engine_stop(struct engine *engine, int64_t grace_ms, void (*stopped)(void *context),
		 void *context);
/* After the store is gone. */
void engine_destroy(struct engine *engine);

/* Finds or makes it; NULL when there are queues_max. */
struct queue *engine_queue(struct engine *engine, const char *name);
struct store_queue *queue_store(struct queue *queue);

/* What the store reports. */
void engine_heard(struct engine *engine, struct store_queue *queue, const struct heads *heads);
void engine_unsure(struct engine *engine, struct store_queue *queue);
/* Look at this queue, or at all (NULL). */
void engine_look(struct engine *engine, const char *queue);
/* After Redis came back: nothing is known. The bus came back: topics go on. */
void engine_reconnected(struct engine *engine);
void engine_bus_up(struct engine *engine);

/* A Lease that waits; embedded in what outlives the call or is forgotten in time. First come, first
 * served. */
struct leaser {
	size_t jobs_max;
	int64_t lease_ms;
	/* Runs once, unless forgotten; the deliveries are valid during it. */
	void (*leased)(struct leaser *leaser, enum status status, const struct delivery *deliveries,
		       size_t count, int64_t leases_end_ms);
	struct queue *queue;
	struct leaser *next, **link;
};
void queue_lease(struct queue *queue, struct leaser *leaser);
void leaser_forget(struct leaser *leaser);
