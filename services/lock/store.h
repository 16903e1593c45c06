/* The locks in Redis: see lua/lock.lua for how one is kept.
 *
 * Every operation answers with how the lock stands afterwards. Nothing here waits for a lock:
 * waiters.h does.
 */
#pragma once

#include "runtime/redis.h"

#define NAME_MAX_SIZE 128
#define LEASE_MIN_MS 100
#define LEASE_MAX_MS 3600000
#define LEASE_DEFAULT_MS 30000

struct store;

/* How a lock stands. */
struct holding {
	bool yes;	    /* what was asked for is so: held by the asker, released, renewed … */
	int64_t token;	    /* the holder's; 0: free */
	int64_t expires_ms; /* by Redis's clock */
	int64_t left_ms;    /* until then, when the script ran */
	int64_t waiters;
	char owner[NAME_MAX_SIZE + 1];
};

struct store_options {
	const char *url;
	const char *instance;
	int64_t claim_ms; /* how long a hand-over waits to be claimed */
	struct metrics *metrics;
	void (*up)(void *self, bool up);
	/* Messages may have been missed: whoever waits asks again. */
	void (*unsure)(void *self);
	/* What a hand-over says to this instance: see lock.lua. */
	void (*granted)(void *self, const char *name, uint64_t waiter);
	void (*replaced)(void *self, uint64_t waiter);
	void (*watch)(void *self, const char *name, int64_t token, int64_t left_ms);
	void (*dropped)(void *self, const char *name);
	void *self;
};
/* NULL, with the reason logged, when the URL is malformed. */
struct store *store_create(struct loop *loop, const struct store_options *options);
void store_destroy(struct store *store);

/* Who asks for what. */
struct asker {
	const char *name, *owner, *request_id;
	int64_t lease_ms;
	uint64_t waiter; /* this instance's number for the call; 0: none */
};

/* --- without a call -------------------------------------------------------------------------- */

/* Embedded; `done` runs once, never inside the function that was given it. `holding` is NULL unless
 * STATUS_OK. */
struct store_op {
	struct redis_op op;
	struct store *store;
	void (*done)(struct store_op *op, enum status status, const struct holding *holding);
};
/* Takes the lock or a place in line. */
void store_acquire(struct store *store, struct store_op *op, const struct asker *asker);
void store_claim(struct store *store, struct store_op *op, const struct asker *asker);
void store_leave(struct store *store, struct store_op *op, const struct asker *asker);
void store_check(struct store *store, struct store_op *op, const char *name);

/* --- as steps -------------------------------------------------------------------------------- */

enum step store_try_acquire(struct store *store, struct call *call, const struct asker *asker,
			    struct holding *ret, call_then *then) MUST_USE;
enum step store_release(struct store *store, struct call *call, const char *name, int64_t token,
			struct holding *ret, call_then *then) MUST_USE;
enum step store_renew(struct store *store, struct call *call, const char *name, int64_t token,
		      int64_t lease_ms, struct holding *ret, call_then *then) MUST_USE;
enum step store_get(struct store *store, struct call *call, const char *name, struct holding *ret,
		    call_then *then) MUST_USE;
