/* Which server is the master.
 *
 *     Sentinel 1 ─ does not answer, or does not know ─► Sentinel 2 ─► … ─► found
 *
 * Each has 500 ms. The master's claim is checked by the connection itself (its ROLE): a Sentinel
 * may be late.
 */
#include "runtime/redis_sentinel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/redis_link.h"

#define ANSWER_MAX_US 500000

struct redis_sentinel {
	struct loop *loop;
	const struct redis_url *url;
	unsigned first;
	int asked;
	redis_sentinel_found *found;
	void *self;
	struct redis_link *link;
	struct timer timer;
	char reason[320];
};

static void sentinel_next(struct redis_sentinel *sentinel);

static void sentinel_end(struct redis_sentinel *sentinel, const struct redis_address *address)
{
	timer_stop(&sentinel->timer);
	if (sentinel->link)
		redis_link_close(sentinel->link);
	sentinel->found(sentinel->self, address, sentinel->reason);
	free(sentinel);
}

/* This one is of no use: on to the next, if there is one. */
static void sentinel_failed(struct redis_sentinel *sentinel, const char *reason)
{
	const struct redis_url *url = sentinel->url;
	unsigned index = (sentinel->first + (unsigned)sentinel->asked) % (unsigned)url->count;

	snprintf(sentinel->reason, sizeof(sentinel->reason), "Sentinel %.100s:%d: %.150s",
		 url->addresses[index].host, url->addresses[index].port, reason);
	timer_stop(&sentinel->timer);
	if (sentinel->link)
		redis_link_close(sentinel->link);
	sentinel->link = NULL;
	if (++sentinel->asked == url->count)
		sentinel_end(sentinel, NULL);
	else
		sentinel_next(sentinel);
}

static void sentinel_answered(redisAsyncContext *context, void *data, void *context_data)
{
	struct redis_sentinel *sentinel = data ? ((struct redis_link *)context->data)->self : NULL;
	struct redis_address address = {0};
	const redisReply *reply = data;

	(void)context_data;
	if (!sentinel)
		return;
	if (reply->type == REDIS_REPLY_ERROR) {
		sentinel_failed(sentinel, reply->str);
	} else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
		   reply->element[0]->type != REDIS_REPLY_STRING ||
		   reply->element[1]->type != REDIS_REPLY_STRING) {
		sentinel_failed(sentinel, "knows no master of that name");
	} else {
		snprintf(address.host, sizeof(address.host), "%s", reply->element[0]->str);
		address.port = atoi(reply->element[1]->str);
		if (address.port > 0)
			sentinel_end(sentinel, &address);
		else
			sentinel_failed(sentinel, "names no usable port");
	}
}

static void sentinel_opened(void *self)
{
	struct redis_sentinel *sentinel = self;
	const struct redis_url *url = sentinel->url;
	redisAsyncContext *context = sentinel->link->context;

	/* The password is the servers'; a Sentinel may have none and refuses it then, which does no
	 * harm. */
	if (*url->user)
		redisAsyncCommand(context, NULL, NULL, "AUTH %s %s", url->user, url->password);
	else if (*url->password)
		redisAsyncCommand(context, NULL, NULL, "AUTH %s", url->password);
	redisAsyncCommand(context, sentinel_answered, NULL, "SENTINEL get-master-addr-by-name %s",
			  url->master);
}

static void sentinel_closed(void *self, const char *reason)
{
	struct redis_sentinel *sentinel = self;

	sentinel->link = NULL;
	sentinel_failed(sentinel, reason);
}

static void sentinel_late(struct timer *timer)
{
	sentinel_failed(container_of(timer, struct redis_sentinel, timer), "no answer in 500 ms");
}

static void sentinel_next(struct redis_sentinel *sentinel)
{
	const struct redis_url *url = sentinel->url;
	unsigned index = (sentinel->first + (unsigned)sentinel->asked) % (unsigned)url->count;

	timer_start_us(&sentinel->timer, ANSWER_MAX_US);
	sentinel->link = redis_link_open(sentinel->loop, &(struct redis_link_options){
								 .address = &url->addresses[index],
								 .attempt = sentinel->first,
								 .opened = sentinel_opened,
								 .closed = sentinel_closed,
								 .self = sentinel,
							 });
}

struct redis_sentinel *redis_sentinel_ask(struct loop *loop, const struct redis_url *url,
					  unsigned attempt, redis_sentinel_found *found, void *self)
{
	struct redis_sentinel *sentinel = calloc(1, sizeof(*sentinel));

	assert(sentinel);
	sentinel->loop = loop;
	sentinel->url = url;
	sentinel->first = attempt;
	sentinel->found = found;
	sentinel->self = self;
	timer_init(&sentinel->timer, loop, sentinel_late);
	sentinel_next(sentinel);
	return sentinel;
}

void redis_sentinel_cancel(struct redis_sentinel *sentinel)
{
	timer_stop(&sentinel->timer);
	if (sentinel->link)
		redis_link_close(sentinel->link);
	free(sentinel);
}
