/* A connection that mends itself.
 *
 *     pause ─► ask Sentinel (if any) ─► link ─► AUTH, SELECT, INFO ─► ready … lost ─► pause
 *
 * An attempt that is not ready after 2 s is given up. The pause doubles from 50 ms to 5 s, half of
 * it random, so that a fleet does not come back in one instant. Whatever goes wrong is logged once
 * an attempt and tried again, a wrong password too: it may be put right on the server's side.
 */
#include "runtime/redis_connection.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/redis_sentinel.h"

#define ATTEMPT_MAX_US 2000000
#define ATTEMPT_AFTER_READY_MAX 2 /* 200 ms */
#define SENTINEL_CHECK_US 2000000
#define PAUSE_MIN_US 50000
#define PAUSE_MAX_US 5000000

static void connection_begin(struct redis_connection *connection);
static void connection_link(struct redis_connection *connection,
			    const struct redis_address *address);
static void connection_opened(void *self);
static void connection_ready(struct redis_connection *connection);
static void connection_check(struct redis_connection *connection);
static void connection_ended(struct redis_connection *connection, const char *reason);

/* xorshift: only for the jitter */
static int64_t connection_pause_us(struct redis_connection *connection)
{
	unsigned doublings = connection->attempt < 7 ? connection->attempt : 7;
	int64_t pause_us = (int64_t)PAUSE_MIN_US << doublings;

	if (pause_us > PAUSE_MAX_US)
		pause_us = PAUSE_MAX_US;
	connection->random ^= connection->random << 13;
	connection->random ^= connection->random >> 7;
	connection->random ^= connection->random << 17;
	return pause_us / 2 + (int64_t)(connection->random % (uint64_t)(pause_us / 2));
}

static void connection_timer(struct timer *timer)
{
	struct redis_connection *connection = container_of(timer, struct redis_connection, timer);

	if (connection->is_ready)
		connection_check(connection);
	else if (connection->link || connection->sentinel)
		redis_connection_drop(connection, "not ready within 2 s");
	else
		connection_begin(connection);
}

void redis_connection_start(struct redis_connection *connection)
{
	connection->random = (uint64_t)clock_monotonic_us() ^ (uint64_t)(uintptr_t)connection;
	connection->random |= 1;
	timer_init(&connection->timer, connection->loop, connection_timer);
	timer_start_us(&connection->timer, 0);
}

void redis_connection_stop(struct redis_connection *connection)
{
	struct redis_link *link = connection->link;

	timer_stop(&connection->timer);
	connection->is_ready = false;
	connection->link = NULL;
	if (connection->sentinel)
		redis_sentinel_cancel(connection->sentinel);
	connection->sentinel = NULL;
	if (link)
		redis_link_close(link);
}

void redis_connection_drop(struct redis_connection *connection, const char *reason)
{
	struct redis_link *link = connection->link;

	connection->link = NULL;
	if (connection->sentinel)
		redis_sentinel_cancel(connection->sentinel);
	connection->sentinel = NULL;
	/* The owner first: it lets go of its commands; we may be gone after it. */
	connection_ended(connection, reason);
	if (link)
		redis_link_close(link);
}

/* --- finding ---------------------------------------------------------------------------------- */

static void connection_found(void *self, const struct redis_address *address, const char *reason)
{
	struct redis_connection *connection = self;

	connection->sentinel = NULL;
	if (address)
		connection_link(connection, address);
	else
		connection_ended(connection, reason);
}

static void connection_begin(struct redis_connection *connection)
{
	timer_start_us(&connection->timer, ATTEMPT_MAX_US);
	connection->attempts++;
	if (connection->url->sentinel)
		connection->sentinel =
			redis_sentinel_ask(connection->loop, connection->url, connection->attempts,
					   connection_found, connection);
	else
		connection_link(connection, &connection->url->addresses[0]);
}

static void connection_closed(void *self, const char *reason)
{
	struct redis_connection *connection = self;

	connection->link = NULL;
	redis_connection_drop(connection, reason);
}

static void connection_link(struct redis_connection *connection,
			    const struct redis_address *address)
{
	connection->link =
		redis_link_open(connection->loop, &(struct redis_link_options){
							  .address = address,
							  .tls = connection->tls,
							  .attempt = connection->attempts,
							  .opened = connection_opened,
							  .closed = connection_closed,
							  .self = connection,
						  });
}

/* --- introducing ------------------------------------------------------------------------------ */

/* The connection an introduction's reply is for; NULL when it is over: also for a closed link. */
static struct redis_connection *connection_of(redisAsyncContext *context, const redisReply *reply)
{
	struct redis_link *link = context->data;

	return reply ? link->self : NULL;
}

/* Drops the connection and returns true when the reply is an error. */
static bool connection_refused(struct redis_connection *connection, const redisReply *reply,
			       const char *command)
{
	char reason[256];

	if (reply->type != REDIS_REPLY_ERROR)
		return false;
	snprintf(reason, sizeof(reason), "%s: %.200s", command, reply->str);
	redis_connection_drop(connection, reason);
	return true;
}

static void connection_authenticated(redisAsyncContext *context, void *reply, void *context_data)
{
	struct redis_connection *connection = connection_of(context, reply);

	(void)context_data;
	if (connection)
		(void)connection_refused(connection, reply, "AUTH");
}

static void connection_selected(redisAsyncContext *context, void *reply, void *context_data)
{
	struct redis_connection *connection = connection_of(context, reply);

	(void)context_data;
	if (connection)
		(void)connection_refused(connection, reply, "SELECT");
}

/* Copies the value of a line "key:value\r\n" of INFO. */
static bool info_value(const char *info, const char *key, char *ret_value, size_t room)
{
	size_t key_size = strlen(key);

	for (const char *line = info; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_size) == 0 && line[key_size] == ':') {
			size_t size = strcspn(line + key_size + 1, "\r\n");

			if (size >= room)
				return false;
			memcpy(ret_value, line + key_size + 1, size);
			ret_value[size] = 0;
			return true;
		}
	}
	return false;
}

static void connection_informed(redisAsyncContext *context, void *data, void *context_data)
{
	struct redis_connection *connection = connection_of(context, data);
	redisReply *reply = data;
	char value[16];

	(void)context_data;
	if (!connection || connection_refused(connection, reply, "INFO"))
		return;
	if (reply->type != REDIS_REPLY_STRING ||
	    !info_value(reply->str, "run_id", connection->run_id, sizeof(connection->run_id)))
		redis_connection_drop(connection, "INFO names no run_id: is this a Redis server?");
	else if (info_value(reply->str, "loading", value, sizeof(value)) && *value != '0')
		redis_connection_drop(connection, "the server is loading its data");
	else if (connection->url->sentinel &&
		 !(info_value(reply->str, "role", value, sizeof(value)) &&
		   strcmp(value, "master") == 0))
		redis_connection_drop(connection, "the server Sentinel named is no master (yet)");
	else
		connection_ready(connection);
}

static void connection_opened(void *self)
{
	struct redis_connection *connection = self;
	const struct redis_url *url = connection->url;
	redisAsyncContext *context = connection->link->context;

	/* All at once; the first to be refused ends the attempt. */
	if (*url->user)
		redisAsyncCommand(context, connection_authenticated, NULL, "AUTH %s %s", url->user,
				  url->password);
	else if (*url->password)
		redisAsyncCommand(context, connection_authenticated, NULL, "AUTH %s",
				  url->password);
	if (url->database)
		redisAsyncCommand(context, connection_selected, NULL, "SELECT %d", url->database);
	redisAsyncCommand(context, connection_informed, NULL, "INFO default");
}

static void connection_ready(struct redis_connection *connection)
{
	timer_stop(&connection->timer);
	connection->is_ready = true;
	connection->ready_us = loop_now_us(connection->loop);
	if (connection->url->sentinel)
		timer_start_us(&connection->timer, SENTINEL_CHECK_US);
	log_event(LOG_INFO, "redis_connected", log_text("role", connection->role),
		  log_text("url", log_url(connection->url_text)),
		  log_text("run_id", connection->run_id));
	connection->ready(connection->self, connection->run_id);
}

/* A master that was replaced while Sentinel could not reach it goes on taking writes, which will be
 * lost: so Sentinel is asked now and then. When no Sentinel answers, what we have is kept. */
static void connection_checked(void *self, const struct redis_address *address, const char *reason)
{
	struct redis_connection *connection = self;

	(void)reason;
	connection->sentinel = NULL;
	if (address && (address->port != connection->address.port ||
			strcmp(address->host, connection->address.host) != 0))
		redis_connection_drop(connection, "Sentinel names another master");
	else
		timer_start_us(&connection->timer, SENTINEL_CHECK_US);
}

static void connection_check(struct redis_connection *connection)
{
	connection->sentinel = redis_sentinel_ask(connection->loop, connection->url,
						  (unsigned)loop_rounds(connection->loop),
						  connection_checked, connection);
}

/* --- ending ----------------------------------------------------------------------------------- */

static void connection_ended(struct redis_connection *connection, const char *reason)
{
	bool was_ready = connection->is_ready;
	int64_t pause_us;

	assert(!connection->link && !connection->sentinel);
	/* One that is lost again and again is not tried at full speed. */
	if (was_ready && loop_now_us(connection->loop) - connection->ready_us > PAUSE_MAX_US)
		connection->attempt = 0;
	else if (was_ready && connection->attempt > ATTEMPT_AFTER_READY_MAX)
		connection->attempt = ATTEMPT_AFTER_READY_MAX;
	pause_us = connection_pause_us(connection);
	log_event(LOG_WARN, was_ready ? "redis_lost" : "redis_unreachable",
		  log_text("role", connection->role),
		  log_text("url", log_url(connection->url_text)), log_text("error", reason),
		  log_number("retry_ms", pause_us / 1000));
	connection->is_ready = false;
	connection->attempt++;
	timer_start_us(&connection->timer, pause_us);
	if (was_ready)
		connection->lost(connection->self);
}
