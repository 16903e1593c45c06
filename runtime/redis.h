/* Redis: one connection (more for subscriptions), pipelined, that mends itself.
 *
 * Commands queued in one round of the loop go out in one write. Every command has a deadline of its
 * own: one that outlives it is detached, its late reply dropped, its neighbours untouched. While
 * disconnected commands fail at once with STATUS_UNAVAILABLE (nothing is queued for later: the
 * caller knows best). A command under way when the connection is lost ends UNAVAILABLE too: it may
 * or may not have run. Reconnects with jittered exponential backoff, 50 ms to 5 s. Scripts go by
 * EVALSHA and are loaded again on NOSCRIPT without the caller noticing.
 */
#pragma once

#include <hiredis/hiredis.h>

#include "runtime/call.h"

struct redis;
struct metrics;

struct redis_options {
	/* redis://[user:password@]host:port[/db], rediss://… (TLS), unix:///path[?db=N], or
	 * sentinel://[user:password@]host:port,host:port/master-name[/db]; user (may be empty) and
	 * password percent-encoded where needed */
	const char *url;
	const char *tls_ca; /* PEM; NULL: the system's */
	int in_flight_max;  /* commands; more: RESOURCE_EXHAUSTED; 0: 100,000 */
	int64_t timeout_ms; /* the default deadline of a command; 0: 2,000 */
	struct metrics *metrics;
	const char *role; /* label in logs and metrics: "main" if NULL */
	/* Runs on the loop after each connection, before any command: `run_id` names the server
	 * process. */
	void (*connected)(void *self, const char *run_id);
	void (*disconnected)(void *self);
	void *self;
};

/* NULL, with the reason logged, only when the URL is malformed. Connects in the background. */
struct redis *redis_create(struct loop *loop, const struct redis_options *options);
/* Everything under way ends with STATUS_UNAVAILABLE. */
void redis_destroy(struct redis *redis);
bool redis_connected(const struct redis *redis);
int redis_in_flight(const struct redis *redis);

struct redis_script {
	const char *name; /* for logs and metrics */
	const char *source;
	char sha[41]; /* filled at first use */
};

/* One command's arguments: pointers and lengths, the caller's until the function returns. */
struct redis_args {
	int count;
	const char *const *values;
	const size_t *sizes;
};

/* --- without a call: batchers, relays ------------------------------------------------------------
 */

/* Zeroed and embedded by the caller; its memory stays until `done`, which runs exactly once and
 * never inside redis_send(). `reply` is NULL unless status is STATUS_OK, and valid during the call.
 * An error reply of Redis comes as a status (-NOAUTH: UNAUTHENTICATED; -LOADING, -READONLY,
 * -CLUSTERDOWN, -MASTERDOWN, -NOREPLICAS, -BUSY, -TRYAGAIN, -MISCONF: UNAVAILABLE; -OOM:
 * RESOURCE_EXHAUSTED; else INTERNAL, logged) with redis_error_text(). */
struct redis_op {
	void (*done)(struct redis_op *op, enum status status, const redisReply *reply);
	int64_t deadline_us; /* 0: the default */
	struct redis_op_internal *internal;
};
void redis_send(struct redis *redis, struct redis_op *op, struct redis_args args);
/* EVALSHA: args are keys, then arguments, without the script and the key count. */
void redis_send_script(struct redis *redis, struct redis_op *op, struct redis_script *script,
		       int keys, struct redis_args args);
/* The op is forgotten: done will not run. */
void redis_forget(struct redis_op *op);
/* The error text of the reply that `done` is being called for; "" if there was none. */
const char *redis_error_text(const struct redis *redis);

/* Several commands that must stand next to each other on the connection, e.g. EVALSHA then WAIT:
 * nothing comes between commands sent in one round without returning to the loop. Should the script
 * have to be sent again (NOSCRIPT), the WAIT behind it is asked again too. */

/* --- as a step -------------------------------------------------------------------------------- */

/* `decode` turns the reply into call_frame()/arena data; it runs only if the call still waits, and
 * its status is what `then` gets. */
typedef enum status redis_decode(struct call *call, const redisReply *reply);
enum step redis_script(struct redis *redis, struct call *call, struct redis_script *script,
		       int keys, struct redis_args args, redis_decode *decode,
		       call_then *then) MUST_USE;
enum step redis_command(struct redis *redis, struct call *call, struct redis_args args,
			redis_decode *decode, call_then *then) MUST_USE;

/* --- publish and subscribe -------------------------------------------------------------------- */

/* A subscription on a connection of its own (one for all subscriptions of a `struct redis`).
 * `message` runs for each; `ready` (may be NULL) after every (re)subscription: what was said before
 * it is unknown. */
struct redis_subscription {
	const char *channel; /* or a pattern, with glob characters, when `pattern` */
	bool pattern;
	void (*message)(struct redis_subscription *subscription, const char *channel,
			const char *data, size_t size);
	void (*ready)(struct redis_subscription *subscription);
	/* The runtime's. */
	struct redis_subscription *next;
	struct redis *redis;
	bool confirmed;
};
void redis_subscribe(struct redis *redis, struct redis_subscription *subscription);
void redis_unsubscribe(struct redis_subscription *subscription);
