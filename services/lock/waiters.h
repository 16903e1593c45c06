/* The calls of this instance that wait for a lock, and what keeps them going.
 *
 *     ask ──► granted ───────────────────────────────► the call continues
 *       └───► in line ──(message: granted)──► claim ──┘
 *                │  ▲
 *                │  └── asked again: connection or subscription was lost, instance was dropped
 *                └── the call leaves ──► leave.lua
 *
 * Nothing polls. A hand-over tells the instance whose call is next; and tells every instance with
 * waiters until when the new holder's lease runs, so that each has one timer for each such lock and
 * checks then.
 */
#pragma once

#include "services/lock/store.h"

struct waiters;
struct metrics;

struct waiters *waiters_create(struct loop *loop, struct store *store, struct metrics *metrics);
/* The calls have been answered; `stopped` runs when those that left the line have, after a second
 * at the latest. */
void waiters_stop(struct waiters *waiters, void (*stopped)(void *context), void *context);
void waiters_destroy(struct waiters *waiters);

/* Continues with STATUS_OK when the lock is held, *ret being how; STATUS_ABORTED when the same
 * owner and request have asked again elsewhere. A call that goes on earlier leaves the line, or
 * gives back what it was given. */
enum step waiters_acquire(struct waiters *waiters, struct call *call, const struct asker *asker,
			  struct holding *ret, call_then *then) MUST_USE;

/* What the store reports. */
void waiters_granted(struct waiters *waiters, const char *name, uint64_t waiter);
void waiters_replaced(struct waiters *waiters, uint64_t waiter);
void waiters_watch(struct waiters *waiters, const char *name, int64_t token, int64_t left_ms);
void waiters_dropped(struct waiters *waiters, const char *name);
void waiters_ask_again(struct waiters *waiters);
