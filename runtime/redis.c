/* Redis: commands over one pipelined connection.
 *
 *     redis_send ─► hiredis's buffer ─► one write a round ─► … reply ─► done
 *         │                                  └─ deadline ─► done; the late reply is dropped
 *         └─ not connected, too many ─► told at the end of the round
 *
 * An op's internal part lives as long as a reply is awaited; the op itself may leave it earlier
 * (deadline, redis_forget()). Ops with the default deadline stand in one list in the order of their
 * deadlines behind one timer, so that the usual command touches no heap; the others have a timer
 * each. The connection is dropped when ops time out and nothing at all has come for three timeouts.
 */
#include "runtime/redis_internal.h"

#include <assert.h>
#include <hiredis/async.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/log.h"
#include "runtime/redis_error.h"
#include "runtime/redis_tls.h"

#define IN_FLIGHT_MAX 100000
#define TIMEOUT_MS 2000
#define SPARE_MAX 4096
#define SPARE_BUFFER_MAX 65536
#define QUIET_TIMEOUTS 3

static void redis_ready(void *self, const char *run_id);
static void redis_lost(void *self);
static void redis_tell(struct loop_hook *hook);
static void redis_expire(struct timer *timer);
static void op_replied(redisAsyncContext *context, void *reply, void *data);

static struct redis_op_internal *list_first(struct redis_list *list)
{
	/* The analyser does not see that what is freed has left its list. */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	return redis_list_empty(list) ? NULL
				      : container_of(list->next, struct redis_op_internal, list);
}

/* --- making ----------------------------------------------------------------------------------- */

static void figures_init(struct redis_figures *figures, struct metrics *metrics, const char *role)
{
	char labels[96];

	snprintf(labels, sizeof(labels), "role=\"%.64s\"", role);
	figures->metrics = metrics;
	figures->commands = metrics_counter(metrics, "stampede_redis_commands_total",
					    "Commands sent to Redis.", labels);
	figures->reconnects = metrics_counter(metrics, "stampede_redis_reconnects_total",
					      "Connections made after the first.", labels);
	figures->in_flight = metrics_gauge(metrics, "stampede_redis_in_flight",
					   "Commands whose reply is awaited.", labels);
	figures->connected = metrics_gauge(metrics, "stampede_redis_connected",
					   "1 while the connection can be used.", labels);
	figures->latency = metrics_histogram(metrics, "stampede_redis_latency_seconds",
					     "From sending a command to its reply.", labels);
}

static void figures_error(struct redis *redis, enum status status)
{
	struct redis_figures *figures = &redis->figures;
	char labels[128];

	if (!figures->errors[status]) {
		snprintf(labels, sizeof(labels), "role=\"%.64s\",code=\"%s\"", redis->role,
			 status_name(status));
		figures->errors[status] =
			metrics_counter(figures->metrics, "stampede_redis_errors_total",
					"Commands that ended with another status than OK.", labels);
	}
	figures->errors[status]->value++;
}

static bool redis_understand(struct redis *redis, const struct redis_options *options)
{
	const char *reason;

	if (!redis_url_parse(options->url, &redis->url, &reason)) {
		log_event(LOG_ERROR, "redis_url_malformed", log_text("role", redis->role),
			  log_text("error", reason));
		return false;
	}
	if (!redis->url.tls)
		return true;
	redis->tls = redis_tls_create(options->tls_ca, &reason);
	if (!redis->tls)
		log_event(LOG_ERROR, "redis_tls_unusable", log_text("role", redis->role),
			  log_text("ca", options->tls_ca ? options->tls_ca : "the system's"),
			  log_text("error", reason));
	return redis->tls;
}

static void redis_free(struct redis *redis)
{
	while (redis->spare) {
		struct redis_op_internal *internal = redis->spare;

		redis->spare = internal->spare;
		redis_buffer_free(&internal->command);
		free(internal);
	}
	redis_subscriber_free(redis->subscriber);
	redis_buffer_free(&redis->buffer);
	redis_tls_destroy(redis->tls);
	free(redis->url_text);
	free(redis->role);
	free(redis);
}

struct redis *redis_create(struct loop *loop, const struct redis_options *options)
{
	struct redis *redis = calloc(1, sizeof(*redis));

	assert(redis && options->url);
	/* hiredis writes without MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	redis->loop = loop;
	redis->options = *options;
	redis->role = strdup(options->role ? options->role : "main");
	redis->url_text = strdup(options->url);
	assert(redis->role && redis->url_text);
	if (!redis->options.in_flight_max)
		redis->options.in_flight_max = IN_FLIGHT_MAX;
	redis->timeout_us = (options->timeout_ms ? options->timeout_ms : TIMEOUT_MS) * 1000;
	redis_list_init(&redis->waiting);
	redis_list_init(&redis->timed);
	redis_list_init(&redis->failed);
	timer_init(&redis->expiry, loop, redis_expire);
	redis->tell.run = redis_tell;
	if (!redis_understand(redis, options)) {
		redis_free(redis);
		return NULL;
	}
	figures_init(&redis->figures, options->metrics, redis->role);
	redis->connection = (struct redis_connection){
		.loop = loop,
		.url = &redis->url,
		.url_text = redis->url_text,
		.tls = redis->tls,
		.role = redis->role,
		.self = redis,
		.ready = redis_ready,
		.lost = redis_lost,
	};
	redis_connection_start(&redis->connection);
	return redis;
}

bool redis_connected(const struct redis *redis)
{
	return redis->connection.is_ready;
}

int redis_in_flight(const struct redis *redis)
{
	return redis->in_flight;
}

const char *redis_error_text(const struct redis *redis)
{
	return redis->error_text ? redis->error_text : "";
}

void redis_enter(struct redis *redis)
{
	redis->running++;
}

void redis_leave(struct redis *redis)
{
	if (--redis->running == 0 && redis->destroyed)
		redis_free(redis);
}

/* --- ops -------------------------------------------------------------------------------------- */

static struct redis_op_internal *internal_take(struct redis *redis)
{
	struct redis_op_internal *internal = redis->spare;

	if (internal) {
		redis->spare = internal->spare;
		redis->spare_count--;
		return internal;
	}
	internal = calloc(1, sizeof(*internal));
	assert(internal);
	return internal;
}

static void internal_give(struct redis *redis, struct redis_op_internal *internal)
{
	if (redis && redis->spare_count < SPARE_MAX && internal->command.room <= SPARE_BUFFER_MAX) {
		internal->spare = redis->spare;
		redis->spare = internal;
		redis->spare_count++;
		return;
	}
	redis_buffer_free(&internal->command);
	free(internal);
}

/* Parts op and internal; the op may be used anew by its `done`. */
static struct redis_op *op_part(struct redis_op_internal *internal)
{
	struct redis_op *op = internal->op;

	assert(op);
	redis_list_remove(&internal->list);
	timer_stop(&internal->timer);
	internal->op = NULL;
	op->internal = NULL;
	return op;
}

static void op_finish(struct redis_op_internal *internal, enum status status,
		      const redisReply *reply)
{
	struct redis_op *op = op_part(internal);

	if (status != STATUS_OK)
		figures_error(internal->redis, status);
	op->done(op, status, reply);
}

static void op_late(struct timer *timer)
{
	struct redis_op_internal *internal = container_of(timer, struct redis_op_internal, timer);
	struct redis *redis = internal->redis;

	redis_enter(redis);
	op_finish(internal, STATUS_DEADLINE_EXCEEDED, NULL);
	redis_leave(redis);
}

static struct redis_op_internal *op_fail(struct redis_op_internal *internal, enum status status)
{
	struct redis *redis = internal->redis;

	internal->status = status;
	redis_list_append(&redis->failed, &internal->list);
	loop_defer(redis->loop, LOOP_GATHER, &redis->tell);
	return NULL;
}

struct redis_op_internal *redis_begin(struct redis *redis, struct redis_op *op)
{
	struct redis_op_internal *internal = internal_take(redis);

	assert(op->done && !op->internal);
	op->internal = internal;
	internal->redis = redis;
	internal->op = op;
	internal->sent_us = loop_now_us(redis->loop);
	internal->sequence = ++redis->sequence;
	internal->kind = REDIS_PLAIN;
	internal->timer = (struct timer){0};

	if (!redis->connection.is_ready)
		return op_fail(internal, STATUS_UNAVAILABLE);
	if (redis->in_flight >= redis->options.in_flight_max)
		return op_fail(internal, STATUS_RESOURCE_EXHAUSTED);
	if (op->deadline_us && op->deadline_us <= internal->sent_us)
		return op_fail(internal, STATUS_DEADLINE_EXCEEDED);
	return internal;
}

static bool op_write(struct redis_op_internal *internal, const struct redis_buffer *command)
{
	struct redis *redis = internal->redis;

	if (!redis->connection.is_ready ||
	    redisAsyncFormattedCommand(redis->connection.link->context, op_replied, internal,
				       command->bytes, command->size) != REDIS_OK)
		return false;
	if (redis->in_flight++ == 0)
		redis->quiet_us = loop_now_us(redis->loop);
	redis->figures.commands->value++;
	redis->figures.in_flight->value = redis->in_flight;
	return true;
}

void redis_dispatch(struct redis_op_internal *internal, const struct redis_buffer *command)
{
	struct redis *redis = internal->redis;
	struct redis_op *op = internal->op;

	if (!op_write(internal, command)) {
		op_fail(internal, STATUS_UNAVAILABLE);
		return;
	}
	if (op->deadline_us) {
		redis_list_append(&redis->timed, &internal->list);
		timer_init(&internal->timer, redis->loop, op_late);
		timer_start_us(&internal->timer, op->deadline_us - internal->sent_us);
		return;
	}
	internal->deadline_us = internal->sent_us + redis->timeout_us;
	redis_list_append(&redis->waiting, &internal->list);
	if (!timer_started(&redis->expiry))
		timer_start_us(&redis->expiry, redis->timeout_us);
}

bool redis_dispatch_again(struct redis_op_internal *internal, const struct redis_buffer *command)
{
	struct redis *redis = internal->redis;

	internal->sequence = ++redis->sequence;
	return op_write(internal, command);
}

static void silent_replied(redisAsyncContext *context, void *reply, void *data)
{
	(void)context;
	(void)reply;
	(void)data;
}

void redis_dispatch_silently(struct redis *redis, struct redis_args args)
{
	redis_write_command(&redis->buffer, args);
	if (redis->connection.is_ready)
		(void)redisAsyncFormattedCommand(redis->connection.link->context, silent_replied,
						 NULL, redis->buffer.bytes, redis->buffer.size);
}

static bool args_are_wait(struct redis_args args)
{
	return (args.sizes[0] == 4 && strncasecmp(args.values[0], "WAIT", 4) == 0) ||
	       (args.sizes[0] == 7 && strncasecmp(args.values[0], "WAITAOF", 7) == 0);
}

void redis_send(struct redis *redis, struct redis_op *op, struct redis_args args)
{
	struct redis_op_internal *internal = redis_begin(redis, op);

	if (!internal)
		return;
	if (args_are_wait(args)) {
		internal->kind = REDIS_WAIT;
		redis_write_command(&internal->command, args);
		redis_dispatch(internal, &internal->command);
		return;
	}
	redis_write_command(&redis->buffer, args);
	redis_dispatch(internal, &redis->buffer);
}

void redis_forget(struct redis_op *op)
{
	struct redis_op_internal *internal = op->internal;
	bool failed;

	if (!internal)
		return;
	failed = internal->status != STATUS_OK;
	internal->status = STATUS_OK;
	op_part(internal);
	/* Otherwise its reply is still awaited. */
	if (failed)
		internal_give(internal->redis, internal);
}

/* --- replies ---------------------------------------------------------------------------------- */

/* A second life for what a missing script has spoilt. */
static bool op_again(struct redis_op_internal *internal, const redisReply *reply)
{
	struct redis *redis = internal->redis;

	if (internal->kind == REDIS_SCRIPT)
		return reply->type == REDIS_REPLY_ERROR &&
		       strncmp(reply->str, "NOSCRIPT", 8) == 0 && redis_script_reload(internal);
	/* It has waited for less than the caller meant. */
	return internal->kind == REDIS_WAIT && internal->sequence <= redis->reloaded &&
	       redis_dispatch_again(internal, &internal->command);
}

static enum status op_translate(struct redis *redis, const redisReply *reply)
{
	enum status status;

	if (!reply)
		return STATUS_UNAVAILABLE;
	if (reply->type != REDIS_REPLY_ERROR)
		return STATUS_OK;
	redis->error_text = reply->str;
	status = redis_error_status(reply->str);
	if (status == STATUS_INTERNAL)
		log_event(LOG_ERROR, "redis_error", log_text("role", redis->role),
			  log_text("error", reply->str));
	return status;
}

static void op_replied(redisAsyncContext *context, void *data, void *internal_data)
{
	struct redis_op_internal *internal = internal_data;
	struct redis_link *link = context->data;
	const redisReply *reply = data;
	struct redis *redis = internal->redis;
	enum status status;
	bool demoted;

	/* The link outlives us: everybody was told by redis_lost() or redis_destroy(). */
	if (!link->self) {
		internal_give(NULL, internal);
		return;
	}
	redis->quiet_us = loop_now_us(redis->loop);
	redis->figures.in_flight->value = --redis->in_flight;
	if (!internal->op || (reply && op_again(internal, reply))) {
		if (!internal->op)
			internal_give(redis, internal);
		return;
	}
	histogram_record_us(redis->figures.latency, redis->quiet_us - internal->sent_us);

	redis_enter(redis);
	status = op_translate(redis, reply);
	op_finish(internal, status, status == STATUS_OK ? reply : NULL);
	redis->error_text = NULL;
	demoted = status == STATUS_UNAVAILABLE && reply && redis->url.sentinel &&
		  strncmp(reply->str, "READONLY", 8) == 0;
	internal_give(redis, internal);
	if (demoted && redis->connection.is_ready)
		redis_connection_drop(&redis->connection, "the server is a replica now");
	redis_leave(redis);
}

/* Tells those that failed before they were sent; who fails meanwhile is told in the next round. */
static void redis_tell_failed(struct redis *redis)
{
	uint64_t last = redis->sequence;
	struct redis_op_internal *internal;

	while ((internal = list_first(&redis->failed)) && internal->sequence <= last) {
		enum status status = internal->status;

		internal->status = STATUS_OK;
		op_finish(internal, status, NULL);
		internal_give(redis, internal);
	}
}

static void redis_tell(struct loop_hook *hook)
{
	struct redis *redis = container_of(hook, struct redis, tell);

	redis_enter(redis);
	redis_tell_failed(redis);
	redis_leave(redis);
}

static void redis_expire(struct timer *timer)
{
	struct redis *redis = container_of(timer, struct redis, expiry);
	int64_t now_us = loop_now_us(redis->loop);
	struct redis_op_internal *internal;
	bool late = false;

	redis_enter(redis);
	while ((internal = list_first(&redis->waiting)) && internal->deadline_us <= now_us) {
		op_finish(internal, STATUS_DEADLINE_EXCEEDED, NULL);
		late = true;
	}
	if (late && redis->connection.is_ready && redis->in_flight &&
	    now_us - redis->quiet_us >= QUIET_TIMEOUTS * redis->timeout_us)
		redis_connection_drop(&redis->connection,
				      "nothing was received for three timeouts");
	if ((internal = list_first(&redis->waiting)))
		timer_start_us(&redis->expiry, internal->deadline_us - now_us);
	redis_leave(redis);
}

/* --- the connection --------------------------------------------------------------------------- */

static void redis_ready(void *self, const char *run_id)
{
	struct redis *redis = self;

	redis_scripts_forget(redis);
	redis->figures.connected->value = 1;
	if (redis->connection.attempts > 1)
		redis->figures.reconnects->value++;
	redis_enter(redis);
	if (redis->options.connected)
		redis->options.connected(redis->options.self, run_id);
	redis_leave(redis);
}

/* Everything under way has no answer, and will have none. */
static void redis_fail_all(struct redis *redis)
{
	struct redis_op_internal *internal;

	while ((internal = list_first(&redis->waiting)) || (internal = list_first(&redis->timed)))
		op_finish(internal, STATUS_UNAVAILABLE, NULL);
	redis->in_flight = 0;
	redis->figures.in_flight->value = 0;
}

static void redis_lost(void *self)
{
	struct redis *redis = self;

	redis->figures.connected->value = 0;
	redis_enter(redis);
	redis_fail_all(redis);
	if (!redis->destroyed && redis->options.disconnected)
		redis->options.disconnected(redis->options.self);
	redis_leave(redis);
}

void redis_destroy(struct redis *redis)
{
	if (!redis)
		return;
	assert(!redis->destroyed);
	redis->destroyed = true;
	redis_enter(redis);
	redis_subscriber_stop(redis->subscriber);
	redis->connection.is_ready = false;
	redis->figures.connected->value = 0;
	redis_fail_all(redis);
	while (!redis_list_empty(&redis->failed))
		redis_tell_failed(redis);
	redis_connection_stop(&redis->connection);
	loop_defer_cancel(redis->loop, LOOP_GATHER, &redis->tell);
	timer_stop(&redis->expiry);
	redis_leave(redis);
}
