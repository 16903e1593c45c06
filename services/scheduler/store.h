/* The scheduler's data in Redis: see lua/queue.lua for how a queue is kept.
 *
 * Every script answers with the queue's heads (when the next job is due, when the next lease ends),
 * which go to the engine whatever becomes of the call that ran it. A script whose outcome is
 * unknown (connection lost, deadline) is told to the engine too: it looks again.
 */
#pragma once

#include "runtime/redis.h"
#include "services/scheduler/record.h"

struct store;

/* -1: none. */
struct heads {
	int64_t now_ms; /* Redis's clock */
	int64_t due_ms[TARGETS];
	int64_t lease_ms;
	int64_t dead;
};

#define STORE_KEYS 8
/* A queue's keys: all in one hash slot, `{q:<queue>.<shard>}`; one shard for now. Embedded by the
 * engine. */
struct store_queue {
	struct store *store;
	char name[QUEUE_NAME_MAX + 1];
	char keys[STORE_KEYS][QUEUE_NAME_MAX + 32];
	size_t keys_sizes[STORE_KEYS];
	char notice[QUEUE_NAME_MAX + 80];
	bool known; /* in the set of queues, as far as this process knows */
	int users;  /* operations under way */
};

struct store_options {
	const char *url;
	const char *instance;
	struct metrics *metrics;
	void (*up)(void *self, bool up);
	void (*heard)(void *self, struct store_queue *queue, const struct heads *heads);
	void (*unsure)(void *self, struct store_queue *queue);
	/* Another instance has made an earlier job there, or notices may have been missed (NULL).
	 */
	void (*noticed)(void *self, const char *queue);
	/* One of the known queues; after each connection, and after store_list(). */
	void (*listed)(void *self, const char *queue);
	void *self;
};

/* NULL, with the reason logged, when the URL is malformed. */
struct store *store_create(struct loop *loop, const struct store_options *options);
void store_destroy(struct store *store);
void store_queue_init(struct store *store, struct store_queue *queue, const char *name);
void store_list(struct store *store);

/* --- as steps -------------------------------------------------------------------------------- */

/* Puts a queue into the set of known queues, which must happen before its first job. */
enum step store_remember(struct store_queue *queue, struct call *call, call_then *then) MUST_USE;

struct published {
	int64_t due_ms;	  /* the first job's */
	int64_t conflict; /* index of the first job whose id is another's; -1: none */
};
enum step store_publish(struct store_queue *queue, struct call *call, const struct record *records,
			size_t count, struct published *ret, call_then *then) MUST_USE;

struct moved {
	int verdict; /* as in scheduler.proto */
	int64_t lease_ms;
};
/* `due_ms` -1: take the job back. */
enum step store_move(struct store_queue *queue, struct call *call, const char *id, int64_t due_ms,
		     struct moved *ret, call_then *then) MUST_USE;

struct found {
	Stampede__Scheduler__V1__Job *job; /* NULL: there is none */
	int status;			   /* as in scheduler.proto */
	int tries;
};
enum step store_get(struct store_queue *queue, struct call *call, const char *id, struct found *ret,
		    call_then *then) MUST_USE;

struct receipt {
	const char *id;
	int64_t delivery;
	bool settled; /* out */
};
enum step store_acknowledge(struct store_queue *queue, struct call *call, struct receipt *receipts,
			    size_t count, call_then *then) MUST_USE;

/* --- for the engine: without a call ---------------------------------------------------------- */

/* A delivery; everything is valid only while `done` runs. */
struct delivery {
	const char *id;
	const char *record;
	size_t record_size;
	int tries;
	int64_t number;
	int64_t due_ms;
};

/* Embedded; `done` runs once. With target TARGETS nothing is handed out: a look. */
struct store_take {
	struct redis_op op;
	struct store_queue *queue;
	int64_t leases_end_ms;
	void (*done)(struct store_take *take, enum status status, const struct delivery *deliveries,
		     size_t count);
};
void store_take(struct store_queue *queue, struct store_take *take, enum target target,
		size_t jobs_max, int64_t lease_ms);

enum verdict { VERDICT_OVER, VERDICT_FAILED, VERDICT_NOT_TRIED };
/* What became of one delivery. */
struct settlement {
	struct settlement *next;
	enum target target;
	int64_t number;
	int tries;
	size_t size; /* of the record */
	enum verdict verdict;
	int64_t delay_ms;
	int64_t until_us; /* after that the lease is surely lost */
	enum { SETTLED_LOST, SETTLED_DONE, SETTLED_DEAD } outcome; /* out */
	char id[JOB_ID_MAX + 1];
};
/* Embedded; at most JOBS_MAX settlements. */
struct store_settle {
	struct redis_op op;
	struct store_queue *queue;
	struct settlement *first;
	void (*done)(struct store_settle *settle, enum status status);
};
void store_settle(struct store_queue *queue, struct store_settle *settle);
