/* What the parts of the Redis client share: redis.c, redis_script.c, redis_subscribe.c. */
#pragma once

#include "runtime/metrics.h"
#include "runtime/redis.h"
#include "runtime/redis_connection.h"
#include "runtime/redis_list.h"
#include "runtime/redis_wire.h"

struct redis_subscriber;

enum redis_kind {
	REDIS_PLAIN,
	REDIS_SCRIPT, /* sent again as EVAL after NOSCRIPT */
	REDIS_WAIT    /* sent again when a script before it had to be */
};

/* One command under way: from redis_send() until its reply, even if nobody waits for it any more.
 */
struct redis_op_internal {
	struct redis_list list; /* of redis: waiting, timed or failed, while `op` */
	struct redis *redis;
	struct redis_op *op; /* NULL: nobody waits */
	int64_t sent_us;
	int64_t deadline_us;
	uint64_t sequence;
	enum redis_kind kind;
	enum status status; /* in `failed`: with what */
	struct redis_script *script;
	struct redis_buffer command;	 /* of a script or WAIT */
	struct timer timer;		 /* in `timed` */
	struct redis_op_internal *spare; /* the next one to use again */
};

#define REDIS_SCRIPTS_MAX 64

struct redis_figures {
	struct metrics *metrics;
	struct counter *commands, *reconnects;
	struct counter *errors[STATUS_COUNT]; /* made when first met */
	struct gauge *in_flight, *connected;
	struct histogram *latency;
};

struct redis {
	struct loop *loop;
	struct redis_options options;
	char *url_text, *role;
	struct redis_url url;
	struct redis_tls *tls;
	struct redis_connection connection;
	int64_t timeout_us;

	int in_flight; /* replies awaited */
	uint64_t sequence;
	uint64_t reloaded;	   /* the sequence at which a script was last sent again */
	int64_t quiet_us;	   /* since when replies are awaited and nothing has come */
	struct redis_list waiting; /* with the default deadline: in its order */
	struct redis_list timed;   /* each with a timer */
	struct redis_list failed;  /* to be told so at the end of the round */
	struct timer expiry;	   /* of the first of `waiting`, or earlier */
	struct loop_hook tell;

	struct redis_op_internal *spare; /* used last, used first: it is in the cache */
	int spare_count;
	struct redis_buffer buffer;
	const char *error_text;
	int running; /* callbacks under way: redis_destroy() in one frees after it */
	bool destroyed;

	const struct redis_script *loaded[REDIS_SCRIPTS_MAX]; /* on this connection; by address */
	int loaded_count;
	struct redis_subscriber *subscriber; /* NULL until the first subscription */
	struct redis_figures figures;
};

/* For redis_script.c: an internal with a deadline, or NULL when `op` has failed already (it will be
 * told). */
struct redis_op_internal *redis_begin(struct redis *redis, struct redis_op *op);
/* Hands the command over. */
void redis_dispatch(struct redis_op_internal *internal, const struct redis_buffer *command);
/* The same command's second life; false if the connection is lost. */
bool redis_dispatch_again(struct redis_op_internal *internal, const struct redis_buffer *command);
/* In front of the next command, without anybody waiting for the answer. */
void redis_dispatch_silently(struct redis *redis, struct redis_args args);

/* redis_script.c */
bool redis_script_reload(struct redis_op_internal *internal);
void redis_scripts_forget(struct redis *redis);

/* redis_subscribe.c; both take NULL. */
void redis_subscriber_stop(struct redis_subscriber *subscriber);
void redis_subscriber_free(struct redis_subscriber *subscriber);

/* Callbacks may destroy us: whoever runs one is between these two, and touches nothing after the
 * second. */
void redis_enter(struct redis *redis);
void redis_leave(struct redis *redis);
