#include "inventory/watch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL "stampede:stock"
#define PERIOD_MS 50
#define RECHECK_MS 5000 /* a message may be lost; windows open and close without one */

/* A sale that is watched here, or was changed here and not yet told. */
struct watch {
	struct watches *watches;
	char sale_id[ID_MAX + 1];
	struct watcher *watchers;
	struct sale stock; /* without the strings */
	uint64_t version;  /* 0: not read yet */
	enum status status;
	bool dirty; /* changed here since the last PUBLISH */
	bool reading;
	struct redis_op read_op, publish_op;
	bool publishing;
	struct timer timer; /* the next PUBLISH or read is due */
	int64_t read_us, published_us;
	bool stale; /* told of a change since the last read */
	struct watch *next, **link;
};

struct watches {
	struct inventory *inventory;
	struct watch *first;
	struct redis_subscription subscription;
	int watchers;
	bool closing;
	struct gauge *count;
};

static void watch_free_if_unused(struct watch *watch)
{
	if (watch->watchers || watch->dirty || watch->reading || watch->publishing)
		return;
	timer_stop(&watch->timer);
	*watch->link = watch->next;
	if (watch->next)
		watch->next->link = watch->link;
	free(watch);
}

/* --- reading ------------------------------------------------------------------------------------- */

static void watch_tell(struct watch *watch)
{
	for (struct watcher *watcher = watch->watchers; watcher; watcher = watcher->next)
		if (watcher->waiting)
			wait_finish_later(&watcher->wait, watch->status);
}

static bool same_stock(const struct sale *a, const struct sale *b)
{
	return a->status == b->status && a->total == b->total && a->available == b->available &&
	       a->reserved == b->reserved && a->sold == b->sold && a->starts_ms == b->starts_ms &&
	       a->ends_ms == b->ends_ms;
}

static void watch_plan(struct watch *watch);

static void watch_read_done(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct watch *watch = container_of(op, struct watch, read_op);
	struct sale stock = {0};

	watch->reading = false;
	if (status == STATUS_OK)
		status = store_decode_sale(reply, &stock);
	stock.title = stock.currency = stock.etag = "";
	if (status == STATUS_OK || status == STATUS_NOT_FOUND) {
		if (status != watch->status || !watch->version ||
		    !same_stock(&stock, &watch->stock)) {
			watch->stock = stock;
			watch->status = status;
			watch->version++;
			watch_tell(watch);
		}
	} else {
		watch->stale = true; /* Redis is away: read again by and by */
	}
	watch_plan(watch);
}

static void watch_read(struct watch *watch)
{
	watch->stale = false;
	watch->reading = true;
	watch->read_us = loop_now_us(watch->watches->inventory->loop);
	store_send_get_sale(watch->watches->inventory->store, &watch->read_op, watch->sale_id);
}

/* --- telling -------------------------------------------------------------------------------------- */

static void watch_published(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct watch *watch = container_of(op, struct watch, publish_op);

	(void)status;
	(void)reply;
	watch->publishing = false;
	watch_plan(watch);
}

static void watch_publish(struct watch *watch)
{
	const char *values[] = {"PUBLISH", CHANNEL, watch->sale_id};
	size_t sizes[3];

	for (int i = 0; i < 3; i++)
		sizes[i] = strlen(values[i]);
	watch->dirty = false;
	watch->publishing = true;
	watch->published_us = loop_now_us(watch->watches->inventory->loop);
	redis_send(watch->watches->inventory->redis, &watch->publish_op,
		   (struct redis_args){3, values, sizes});
}

/* Does what is due and sets the timer for what is not. */
static void watch_plan(struct watch *watch)
{
	int64_t now_us = loop_now_us(watch->watches->inventory->loop), next_us = INT64_MAX, due_us;

	if (watch->dirty && !watch->publishing) {
		due_us = watch->published_us + PERIOD_MS * 1000;
		if (now_us >= due_us)
			watch_publish(watch);
		else
			next_us = due_us;
	}
	if (watch->watchers && !watch->reading) {
		due_us = watch->read_us + (watch->stale ? PERIOD_MS : RECHECK_MS) * 1000;
		if (now_us >= due_us)
			watch_read(watch);
		else if (due_us < next_us)
			next_us = due_us;
	}
	if (next_us != INT64_MAX)
		timer_start_us(&watch->timer, next_us - now_us);
	else
		watch_free_if_unused(watch);
}

static void watch_timer(struct timer *timer)
{
	watch_plan(container_of(timer, struct watch, timer));
}

static struct watch *watch_find(struct watches *watches, const char *sale_id, bool make)
{
	struct watch *watch = watches->first;

	while (watch && strcmp(watch->sale_id, sale_id) != 0)
		watch = watch->next;
	if (watch || !make)
		return watch;
	watch = calloc(1, sizeof(*watch));
	assert(watch);
	watch->watches = watches;
	snprintf(watch->sale_id, sizeof(watch->sale_id), "%s", sale_id);
	watch->read_op.done = watch_read_done;
	watch->publish_op.done = watch_published;
	timer_init(&watch->timer, watches->inventory->loop, watch_timer);
	watch->next = watches->first;
	watch->link = &watches->first;
	if (watch->next)
		watch->next->link = &watch->next;
	watches->first = watch;
	return watch;
}

void watches_changed(struct watches *watches, const char *sale_id)
{
	struct watch *watch = watch_find(watches, sale_id, true);

	if (watch->dirty)
		return;
	watch->dirty = true;
	watch_plan(watch);
}

static void watches_message(struct redis_subscription *subscription, const char *channel,
			    const char *data, size_t size)
{
	struct watches *watches = container_of(subscription, struct watches, subscription);
	struct watch *watch = size <= ID_MAX ? watch_find(watches, data, false) : NULL;

	(void)channel;
	if (!watch || watch->stale)
		return;
	watch->stale = true;
	watch_plan(watch);
}

/* Subscribed (again): what was said before is unknown, so all is read. */
static void watches_ready(struct redis_subscription *subscription)
{
	struct watches *watches = container_of(subscription, struct watches, subscription);
	struct watch *next;

	for (struct watch *watch = watches->first; watch; watch = next) {
		next = watch->next;
		watch->stale = true;
		watch_plan(watch);
	}
}

/* --- watchers ------------------------------------------------------------------------------------- */

enum status watcher_start(struct watches *watches, struct watcher *watcher, const char *sale_id)
{
	struct watch *watch;

	if (watches->watchers >= watches->inventory->settings->watchers_max)
		return STATUS_RESOURCE_EXHAUSTED;
	watch = watch_find(watches, sale_id, true);
	watches->count->value = ++watches->watchers;
	watcher->watch = watch;
	watcher->seen = 0;
	watcher->next = watch->watchers;
	watcher->link = &watch->watchers;
	if (watcher->next)
		watcher->next->link = &watcher->next;
	watch->watchers = watcher;
	watch_plan(watch);
	return STATUS_OK;
}

void watcher_stop(struct watcher *watcher)
{
	struct watch *watch = watcher->watch;

	if (!watch)
		return;
	*watcher->link = watcher->next;
	if (watcher->next)
		watcher->next->link = watcher->link;
	watcher->watch = NULL;
	watch->watches->count->value = --watch->watches->watchers;
	watch_free_if_unused(watch);
}

static void watcher_abandon(struct wait *wait)
{
	container_of(wait, struct watcher, wait)->waiting = false;
}

enum step watcher_next(struct watcher *watcher, struct call *call, call_then *then)
{
	struct watch *watch = watcher->watch;
	enum step step = call_await(call, &watcher->wait, watcher_abandon, then);

	watcher->waiting = true;
	if (watch->watches->closing)
		wait_finish_later(&watcher->wait, STATUS_UNAVAILABLE);
	else if (watch->version > watcher->seen)
		wait_finish_later(&watcher->wait, watch->status);
	return step;
}

const struct sale *watcher_stock(struct watcher *watcher)
{
	watcher->waiting = false;
	watcher->seen = watcher->watch->version;
	return &watcher->watch->stock;
}

/* --- life ----------------------------------------------------------------------------------------- */

struct watches *watches_create(struct inventory *inventory)
{
	struct watches *watches = calloc(1, sizeof(*watches));

	assert(watches);
	watches->inventory = inventory;
	watches->count = metrics_gauge(inventory->metrics, "stampede_stock_watchers",
				       "Open WatchStock streams.", NULL);
	watches->subscription = (struct redis_subscription){
		.channel = CHANNEL, .message = watches_message, .ready = watches_ready};
	redis_subscribe(inventory->redis, &watches->subscription);
	return watches;
}

void watches_close(struct watches *watches)
{
	watches->closing = true;
	for (struct watch *watch = watches->first; watch; watch = watch->next)
		for (struct watcher *watcher = watch->watchers; watcher; watcher = watcher->next)
			if (watcher->waiting)
				wait_finish_later(&watcher->wait, STATUS_UNAVAILABLE);
}

void watches_destroy(struct watches *watches)
{
	struct watch *watch;

	if (!watches)
		return;
	while ((watch = watches->first)) {
		watches->first = watch->next;
		timer_stop(&watch->timer);
		if (watch->reading)
			redis_forget(&watch->read_op);
		if (watch->publishing)
			redis_forget(&watch->publish_op);
		free(watch);
	}
	redis_unsubscribe(&watches->subscription);
	free(watches);
}
