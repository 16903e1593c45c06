/* The order database: what any implementation does. store_sqlite*.c is the one there is.
 *
 *     loop: jobs ──► one writer thread: all that queued up = one transaction ──► mail ──► loop:
 * written(), done() loop: reads ─► reader threads, each with a connection of its own ──────────►
 * mail ──► loop
 *
 * Nothing here blocks the loop. A transaction either happened or every job in it ends UNAVAILABLE
 * and changed nothing. While the database is down jobs fail fast, the store tries again by itself,
 * and state() tells when that changes.
 */
#pragma once

#include "runtime/call.h"
#include "runtime/worker.h"
#include "services/order/order.h"
#include "services/order/outbox.h"

struct store;
struct metrics;

struct store_options {
	const char *folder; /* made if it does not exist */
	const char *vfs;    /* NULL: the system's; tests give one that fails */
	int lanes;
	const char *jobs_queue; /* where unpaid orders are scheduled */
	int jobs_max;		/* that may queue up; more: RESOURCE_EXHAUSTED; 0: 10,000 */
	struct metrics *metrics;
	void (*state)(void *self, bool up, const char *reason);
	/* What a transaction put into the outbox, in the order of commits, before any `done` of it.
	 * The records are the receiver's. */
	void (*written)(void *self, struct outbox_record *records);
	/* An order was placed or has changed; after written(). */
	void (*changed)(void *self, int64_t order_id, enum order_status status);
	void *self;
};
/* Opens in the background. */
struct store *store_create(struct loop *loop, const struct store_options *options);
/* `closed` runs on the loop when everything under way is over, and never inside store_close().
 * Submit nothing after it. */
void store_close(struct store *store, void (*closed)(void *context), void *context);
/* When closed. */
void store_destroy(struct store *store);

/* What all jobs begin with; the implementation's. */
struct store_job {
	struct job job;
	struct store *store;
	int kind;
	enum status
		status; /* OK; UNAVAILABLE: nothing was done; RESOURCE_EXHAUSTED: too many wait */
};

/* --- placing orders ----------------------------------------------------------------------------
 */

enum placed {
	PLACED_NOW = 1,
	PLACED_BEFORE,	 /* a repeat; nothing changed */
	PLACED_CONFLICT, /* its request has another order already; nothing changed */
};
/* The caller's until `done`, which runs exactly once and never inside store_place(). Orders come
 * with all that a reservation says; status and the later times are set here. */
struct placement {
	struct store_job job;
	struct order *orders;
	int count;
	uint8_t *placed; /* enum placed for each; the caller's memory */
	void (*done)(struct placement *placement);
};
void store_place(struct store *store, struct placement *placement);

/* --- moving them through their states ------------------------------------------------------------
 */

enum moved {
	MOVED_NOW = 1,
	MOVED_BEFORE,  /* it had that status already */
	MOVED_REFUSED, /* it has another status */
	MOVED_EARLY,   /* its pay_by is later than pay_by_max_ms */
	MOVED_NOT_FOUND,
};
/* PENDING to `to`. */
struct move {
	int64_t order_id;
	enum order_status to;
	enum cancel_reason cancel_reason;
	const char *payment_reference; /* "" if none */
	int64_t pay_by_max_ms;	       /* only if pay_by is not later; 0: whenever it is */
	/* set when done */
	enum moved moved;
	struct order order; /* as it is now, unless NOT_FOUND; lives in moves->arena */
};
struct moves {
	struct store_job job;
	struct move *moves;
	int count;
	struct arena arena;
	void (*done)(struct moves *moves);
};
void store_move(struct store *store, struct moves *moves);
/* One move, as a step: `move` lies in the call's frame or arena, its order is copied to the arena.
 */
enum step store_move_one(struct store *store, struct call *call, struct move *move,
			 call_then *then) MUST_USE;

/* --- the outbox
 * ------------------------------------------------------------------------------------ */

/* Deletes records that were handed on. */
struct outbox_removal {
	struct store_job job;
	int64_t *ids;
	int count;
	void (*done)(struct outbox_removal *removal);
};
void store_remove(struct store *store, struct outbox_removal *removal);

/* Adds records of the caller's: units to be released. */
struct outbox_addition {
	struct store_job job;
	struct outbox outbox;
	void (*done)(struct outbox_addition *addition);
};
void store_add(struct store *store, struct outbox_addition *addition);

/* Reads records back, oldest first: those after `after_id`, at most `max`. */
struct outbox_reading {
	struct store_job job;
	int64_t after_id;
	int max;
	struct outbox_record *ret_records; /* the caller's */
	int ret_count;
	void (*done)(struct outbox_reading *reading);
};
void store_read_outbox(struct store *store, struct outbox_reading *reading);

/* Events, jobs and releases written and not yet removed; -1 as long as the database was never up.
 */
int64_t store_outbox_entries(const struct store *store);

/* --- reading, as steps: what they return lives in the call's arena
 * -------------------------------- */

/* NOT_FOUND when there is none. */
enum step store_get(struct store *store, struct call *call, int64_t order_id,
		    struct order *ret_order, call_then *then) MUST_USE;

struct order_filter {
	const char *sale_id, *user_id; /* "" : any; one of them is set */
	int status;		       /* 0: any */
	int64_t before_id;	       /* orders with smaller ids; newest first */
	int max;
};
struct order_list {
	struct order *orders;
	int count;
};
enum step store_list(struct store *store, struct call *call, const struct order_filter *filter,
		     struct order_list *ret_list, call_then *then) MUST_USE;

struct order_summary {
	int64_t orders[ORDER_STATUS_COUNT], units[ORDER_STATUS_COUNT];
	int64_t units_per_user_max;
};
enum step store_summarize(struct store *store, struct call *call, const char *sale_id,
			  struct order_summary *ret_summary, call_then *then) MUST_USE;
