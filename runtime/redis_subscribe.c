/* Publish and subscribe: one more connection, made at the first subscription.
 *
 *     ready ─► SUBSCRIBE each channel ─► "subscribe" ─► ready(), then message() … lost ─► again
 *
 * Several subscriptions to one channel share Redis's. A channel that may not be subscribed to (ACL)
 * costs the connection: hiredis cannot tell whose the error is; it is logged and tried again, some
 * times a second.
 */
#include <assert.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/redis_internal.h"

struct redis_subscriber {
	struct redis *redis;
	struct redis_connection connection;
	char role[96];
	struct redis_subscription *first;
	struct redis_subscription *cursor; /* visited next, while callbacks run */
};

static struct redis_subscription *subscriber_find(struct redis_subscription *from, bool pattern,
						  const char *channel)
{
	for (; from; from = from->next)
		if (from->pattern == pattern && strcmp(from->channel, channel) == 0)
			return from;
	return NULL;
}

/* Runs `message`, or `ready` where it has not run, of all that subscribe to it. They may
 * subscribe, unsubscribe and destroy us. */
static void subscriber_tell(struct redis_subscriber *subscriber, bool pattern, const char *channel,
			    const char *said_on, const redisReply *data)
{
	struct redis_subscription *each = subscriber->first;

	while ((each = subscriber_find(each, pattern, channel))) {
		subscriber->cursor = each->next;
		if (data) {
			each->message(each, said_on, data->str, data->len);
		} else if (!each->confirmed) {
			each->confirmed = true;
			if (each->ready)
				each->ready(each);
		}
		each = subscriber->cursor;
	}
	subscriber->cursor = NULL;
}

static void subscriber_replied(redisAsyncContext *context, void *data, void *context_data)
{
	struct redis_link *link = context->data;
	const redisReply *reply = data;
	const redisReply *const *element;
	struct redis_subscriber *subscriber;
	const char *kind;

	(void)context_data;
	if (!reply || !link->self || reply->type != REDIS_REPLY_ARRAY || reply->elements < 3)
		return;
	subscriber = container_of((struct redis_connection *)link->self, struct redis_subscriber,
				  connection);
	element = (const redisReply *const *)reply->element;
	kind = element[0]->str;

	redis_enter(subscriber->redis);
	if (strcmp(kind, "message") == 0)
		subscriber_tell(subscriber, false, element[1]->str, element[1]->str, element[2]);
	else if (strcmp(kind, "pmessage") == 0 && reply->elements == 4)
		subscriber_tell(subscriber, true, element[1]->str, element[2]->str, element[3]);
	else if (strcmp(kind, "subscribe") == 0)
		subscriber_tell(subscriber, false, element[1]->str, NULL, NULL);
	else if (strcmp(kind, "psubscribe") == 0)
		subscriber_tell(subscriber, true, element[1]->str, NULL, NULL);
	redis_leave(subscriber->redis);
}

static void subscriber_command(struct redis_subscriber *subscriber, const char *command,
			       const char *channel)
{
	const char *values[] = {command, channel};
	size_t sizes[] = {strlen(command), strlen(channel)};

	if (subscriber->connection.is_ready)
		(void)redisAsyncCommandArgv(subscriber->connection.link->context,
					    subscriber_replied, NULL, 2, values, sizes);
}

static void subscriber_ready(void *self, const char *run_id)
{
	struct redis_subscriber *subscriber = self;
	struct redis_subscription *each;

	(void)run_id;
	for (each = subscriber->first; each; each = each->next)
		/* Once a channel: the first in the list speaks for it. */
		if (subscriber_find(subscriber->first, each->pattern, each->channel) == each)
			subscriber_command(subscriber, each->pattern ? "PSUBSCRIBE" : "SUBSCRIBE",
					   each->channel);
}

static void subscriber_lost(void *self)
{
	struct redis_subscriber *subscriber = self;

	for (struct redis_subscription *each = subscriber->first; each; each = each->next)
		each->confirmed = false;
}

static struct redis_subscriber *subscriber_create(struct redis *redis)
{
	struct redis_subscriber *subscriber = calloc(1, sizeof(*subscriber));

	assert(subscriber);
	subscriber->redis = redis;
	snprintf(subscriber->role, sizeof(subscriber->role), "%.64s subscriptions", redis->role);
	subscriber->connection = (struct redis_connection){
		.loop = redis->loop,
		.url = &redis->url,
		.url_text = redis->url_text,
		.tls = redis->tls,
		.role = subscriber->role,
		.self = subscriber,
		.ready = subscriber_ready,
		.lost = subscriber_lost,
	};
	redis_connection_start(&subscriber->connection);
	return subscriber;
}

void redis_subscriber_stop(struct redis_subscriber *subscriber)
{
	if (!subscriber)
		return;
	redis_connection_stop(&subscriber->connection);
	while (subscriber->first) {
		subscriber->first->redis = NULL;
		subscriber->first = subscriber->first->next;
	}
	subscriber->cursor = NULL;
}

void redis_subscriber_free(struct redis_subscriber *subscriber)
{
	free(subscriber);
}

void redis_subscribe(struct redis *redis, struct redis_subscription *subscription)
{
	struct redis_subscriber *subscriber;

	assert(subscription->message && !subscription->redis && !redis->destroyed);
	if (!redis->subscriber)
		redis->subscriber = subscriber_create(redis);
	subscriber = redis->subscriber;
	subscription->redis = redis;
	subscription->confirmed = false;
	subscription->next = subscriber->first;
	subscriber->first = subscription;
	/* Also when another has the channel: the answer is what makes this one ready. */
	subscriber_command(subscriber, subscription->pattern ? "PSUBSCRIBE" : "SUBSCRIBE",
			   subscription->channel);
}

void redis_unsubscribe(struct redis_subscription *subscription)
{
	struct redis *redis = subscription->redis;
	struct redis_subscriber *subscriber;
	struct redis_subscription **at;

	if (!redis)
		return;
	subscriber = redis->subscriber;
	at = &subscriber->first;
	while (*at != subscription)
		at = &(*at)->next;
	*at = subscription->next;
	if (subscriber->cursor == subscription)
		subscriber->cursor = subscription->next;
	subscription->redis = NULL;
	if (!subscriber_find(subscriber->first, subscription->pattern, subscription->channel))
		subscriber_command(subscriber,
				   subscription->pattern ? "PUNSUBSCRIBE" : "UNSUBSCRIBE",
				   subscription->channel);
}
