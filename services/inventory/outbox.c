/* See outbox.h.
 *
 *     outbox_publish ──► gathered, at most PACE_MS ──► a record a lane ──► all confirmed ──► XDEL, many at once
 *                                                                     └──► one failed: the entries stay for the sweeper
 *
 * With appendfsync always each round trip that writes costs Redis a sync of its file, so under load a few
 * large publications are far cheaper than many small ones. After a quiet moment, and for sales that wait for
 * it, a publication goes at once.
 */
#include "inventory/outbox.h"

#include <assert.h>
#include <inttypes.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/node.h"
#include "inventory/store.h"
#include "runtime/clock.h"
#include "runtime/log.h"

#define TOPIC "reservations"
#define LANES_MAX 64
#define ENTRY_SIZE 44
#define DELETE_MAX 64
#define DELETE_PACE_MS 50
#define PACE_MS 5
#define ENTRIES_MAX 64		   /* in one publication */
#define LANE_BYTES_MAX (128 << 10) /* of one record */

struct lane {
	struct bus_publish publish;
	struct publication *publication;
	uint8_t *bytes; /* a ReservationsMade that grows */
	size_t size, room;
};

/* An entry of a sale's stream, to be deleted when it is published. */
struct entry {
	char sale_id[ID_MAX + 1], id[ENTRY_SIZE];
};

/* What goes to the bus together. */
struct publication {
	struct outbox *outbox;
	struct outbox_wait *waits;
	struct entry entries[ENTRIES_MAX];
	int entries_count, left;
	bool failed, full;
	struct publication *next, **link;
	struct lane lanes[];
};

struct deletion {
	struct outbox *outbox;
	struct redis_op op;
	struct deletion *next, **link;
};

struct outbox {
	struct inventory *inventory;
	struct publication *gathering, *under_way;
	int64_t published_us; /* when the last publication went */
	struct loop_hook publish_hook;
	struct timer publish_timer;
	struct entry *confirmed; /* to be deleted */
	size_t confirmed_count, confirmed_room;
	struct deletion *deletions;
	struct timer delete_timer;
	int pending; /* entries and waits not yet done with */
	struct counter *published, *failed;
	void (*idle)(void *context);
	void *idle_context;
};

static void outbox_tell_idle(struct outbox *outbox)
{
	void (*idle)(void *context) = outbox->idle;

	if (outbox->pending || !idle)
		return;
	outbox->idle = NULL;
	idle(outbox->idle_context);
}

/* --- deleting ----------------------------------------------------------------------------------- */

static void deletion_free(struct deletion *deletion)
{
	*deletion->link = deletion->next;
	if (deletion->next)
		deletion->next->link = deletion->link;
	free(deletion);
}

static void deleted(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct deletion *deletion = container_of(op, struct deletion, op);

	(void)reply;
	(void)status; /* what was not deleted is published again by the sweeper */
	deletion_free(deletion);
}

/* Deletes as many of the entries from `first` on as are of one sale; returns how many. */
static int delete_some(struct outbox *outbox, size_t first)
{
	const struct entry *entries = outbox->confirmed + first;
	struct deletion *deletion = calloc(1, sizeof(*deletion));
	char key[STORE_KEY_SIZE];
	const char *values[DELETE_MAX + 2] = {"XDEL", key};
	size_t sizes[DELETE_MAX + 2];
	int count = 0;

	assert(deletion);
	store_key(key, entries[0].sale_id, ":outbox");
	while (count < DELETE_MAX && first + (size_t)count < outbox->confirmed_count &&
	       !strcmp(entries[count].sale_id, entries[0].sale_id)) {
		values[count + 2] = entries[count].id;
		count++;
	}
	for (int i = 0; i < count + 2; i++)
		sizes[i] = strlen(values[i]);
	deletion->outbox = outbox;
	deletion->op.done = deleted;
	deletion->next = outbox->deletions;
	deletion->link = &outbox->deletions;
	if (deletion->next)
		deletion->next->link = &deletion->next;
	outbox->deletions = deletion;
	redis_send(outbox->inventory->redis, &deletion->op,
		   (struct redis_args){count + 2, values, sizes});
	return count;
}

static void delete_all(struct timer *timer)
{
	struct outbox *outbox = container_of(timer, struct outbox, delete_timer);

	for (size_t i = 0; i < outbox->confirmed_count;)
		i += (size_t)delete_some(outbox, i);
	outbox->pending -= (int)outbox->confirmed_count;
	outbox->confirmed_count = 0;
	outbox_tell_idle(outbox);
}

static void confirm(struct outbox *outbox, const struct entry *entry)
{
	if (outbox->confirmed_count == outbox->confirmed_room) {
		outbox->confirmed_room = outbox->confirmed_room ? outbox->confirmed_room * 2 : 64;
		outbox->confirmed =
			realloc(outbox->confirmed, outbox->confirmed_room * sizeof(struct entry));
		assert(outbox->confirmed);
	}
	outbox->confirmed[outbox->confirmed_count++] = *entry;
	if (!timer_started(&outbox->delete_timer))
		timer_start_us(&outbox->delete_timer, outbox->idle ? 0 : DELETE_PACE_MS * 1000);
}

/* --- publishing --------------------------------------------------------------------------------- */

static void publication_free(struct publication *publication)
{
	int lanes = (int)publication->outbox->inventory->settings->lanes;

	*publication->link = publication->next;
	if (publication->next)
		publication->next->link = publication->link;
	for (int i = 0; i < lanes; i++)
		free(publication->lanes[i].bytes);
	free(publication);
}

static void publication_over(struct publication *publication)
{
	struct outbox *outbox = publication->outbox;
	struct outbox_wait *wait;
	bool failed = publication->failed;

	(failed ? outbox->failed : outbox->published)->value +=
		(uint64_t)publication->entries_count;
	for (int i = 0; i < publication->entries_count && !failed; i++)
		confirm(outbox, &publication->entries[i]);
	if (failed)
		outbox->pending -= publication->entries_count;
	while ((wait = publication->waits)) {
		publication->waits = wait->next;
		outbox->pending--;
		wait->done(wait, failed ? STATUS_UNAVAILABLE : STATUS_OK);
	}
	publication_free(publication);
	outbox_tell_idle(outbox);
}

static void lane_published(struct bus_publish *publish, enum status status)
{
	struct publication *publication = container_of(publish, struct lane, publish)->publication;

	if (status != STATUS_OK)
		publication->failed = true;
	if (--publication->left == 0)
		publication_over(publication);
}

static struct publication *publication_create(struct outbox *outbox)
{
	size_t lanes = (size_t)outbox->inventory->settings->lanes;
	struct publication *publication =
		calloc(1, sizeof(*publication) + lanes * sizeof(struct lane));

	assert(publication);
	publication->outbox = outbox;
	publication->next = outbox->under_way;
	publication->link = &outbox->under_way;
	if (publication->next)
		publication->next->link = &publication->next;
	outbox->under_way = publication;
	return publication;
}

static void publish_gathered(struct outbox *outbox)
{
	int lanes = (int)outbox->inventory->settings->lanes;
	struct publication *publication = outbox->gathering;
	char key[12];

	if (!publication)
		return;
	outbox->gathering = NULL;
	outbox->published_us = loop_now_us(outbox->inventory->loop);
	timer_stop(&outbox->publish_timer);
	for (int i = 0; i < lanes; i++) {
		struct lane *lane = &publication->lanes[i];

		if (!lane->size)
			continue;
		lane->publication = publication;
		lane->publish = (struct bus_publish){
			.topic = TOPIC,
			.key = key,
			.key_size = (size_t)snprintf(key, sizeof(key), "%d", i),
			.value = lane->bytes,
			.value_size = lane->size,
			.done = lane_published};
		publication->left++;
		bus_publish(outbox->inventory->bus, &lane->publish);
	}
}

static void publish_hook(struct loop_hook *hook)
{
	publish_gathered(container_of(hook, struct outbox, publish_hook));
}

static void publish_timer(struct timer *timer)
{
	publish_gathered(container_of(timer, struct outbox, publish_timer));
}

/* At once when it is due, when somebody waits for it, or when it is large. */
static void publish_plan(struct outbox *outbox)
{
	struct publication *publication = outbox->gathering;
	int64_t due_us = outbox->published_us + PACE_MS * 1000,
		now_us = loop_now_us(outbox->inventory->loop);

	if (publication->waits || publication->full || now_us >= due_us ||
	    publication->entries_count == ENTRIES_MAX)
		loop_defer(outbox->inventory->loop, LOOP_GATHER, &outbox->publish_hook);
	else if (!timer_started(&outbox->publish_timer))
		timer_start_us(&outbox->publish_timer, due_us - now_us);
}

static void timestamp(Google__Protobuf__Timestamp *at, int64_t ms)
{
	google__protobuf__timestamp__init(at);
	at->seconds = ms / 1000;
	at->nanos = (int32_t)(ms % 1000) * 1000000;
}

/* Appends a field `reservations` to the record of its lane. */
static void lane_append(struct lane *lane, const Stampede__Events__V1__ReservationMade *event)
{
	size_t size = stampede__events__v1__reservation_made__get_packed_size(event), rest = size;
	uint8_t *at;

	if (lane->size + size + 12 > lane->room) {
		lane->room = lane->room * 2 + size + 1024;
		lane->bytes = realloc(lane->bytes, lane->room);
		assert(lane->bytes);
	}
	at = lane->bytes + lane->size;
	*at++ = 1 << 3 | 2; /* field 1, length-delimited */
	for (; rest >= 0x80; rest >>= 7)
		*at++ = (uint8_t)(rest | 0x80);
	*at++ = (uint8_t)rest;
	at += stampede__events__v1__reservation_made__pack(event, at);
	lane->size = (size_t)(at - lane->bytes);
}

static void publication_add(struct publication *publication, const char *sale_id,
			    const struct outbox_terms *terms, const struct outbox_item *item)
{
	int lanes = (int)publication->outbox->inventory->settings->lanes;
	struct lane *lane = &publication->lanes[order_lane(item->order_id, lanes)];
	Stampede__Events__V1__ReservationMade event = STAMPEDE__EVENTS__V1__RESERVATION_MADE__INIT;
	Google__Protobuf__Timestamp reserved_at, pay_by;

	timestamp(&reserved_at, item->reserved_ms);
	timestamp(&pay_by, item->reserved_ms + terms->pay_ms);
	event.order_id = (char *)item->order_id;
	event.sale_id = (char *)sale_id;
	event.user_id = (char *)item->user_id;
	event.quantity = item->quantity;
	event.request_id = (char *)item->request_id;
	event.amount_minor = terms->price * item->quantity;
	event.currency = (char *)terms->currency;
	event.reserved_at = &reserved_at;
	event.pay_by = &pay_by;
	lane_append(lane, &event);
	publication->full = publication->full || lane->size > LANE_BYTES_MAX;
}

void outbox_publish(struct outbox *outbox, const char *sale_id, const char *entry,
		    const struct outbox_terms *terms, const struct outbox_item *items, int count,
		    struct outbox_wait *wait)
{
	struct publication *publication = outbox->gathering;
	struct entry *mine;

	assert(count > 0);
	if (publication && (publication->full || publication->entries_count == ENTRIES_MAX)) {
		publish_gathered(outbox);
		publication = NULL;
	}
	if (!publication)
		publication = outbox->gathering = publication_create(outbox);
	for (int i = 0; i < count; i++)
		publication_add(publication, sale_id, terms, &items[i]);
	if (*entry) {
		mine = &publication->entries[publication->entries_count++];
		snprintf(mine->sale_id, sizeof(mine->sale_id), "%s", sale_id);
		snprintf(mine->id, sizeof(mine->id), "%s", entry);
		outbox->pending++;
	}
	if (wait) {
		wait->next = publication->waits;
		publication->waits = wait;
		outbox->pending++;
	}
	publish_plan(outbox);
}

void outbox_forget(struct outbox *outbox, struct outbox_wait *wait)
{
	for (struct publication *at = outbox->under_way; at; at = at->next)
		for (struct outbox_wait **link = &at->waits; *link; link = &(*link)->next)
			if (*link == wait) {
				*link = wait->next;
				outbox->pending--;
				return;
			}
}

/* --- life --------------------------------------------------------------------------------------- */

static double pending_read(void *self)
{
	return outbox_pending(self);
}

struct outbox *outbox_create(struct inventory *inventory)
{
	struct outbox *outbox = calloc(1, sizeof(*outbox));
	struct metrics *metrics = inventory->metrics;

	assert(outbox && inventory->settings->lanes <= LANES_MAX);
	outbox->inventory = inventory;
	outbox->publish_hook.run = publish_hook;
	timer_init(&outbox->publish_timer, inventory->loop, publish_timer);
	timer_init(&outbox->delete_timer, inventory->loop, delete_all);
	outbox->published = metrics_counter(metrics, "stampede_outbox_published_total",
					    "Outbox entries the bus has confirmed.", NULL);
	outbox->failed = metrics_counter(metrics, "stampede_outbox_failed_total",
					 "Outbox entries left for the sweeper.", NULL);
	metrics_gauge_read(metrics, "stampede_outbox_pending",
			   "Outbox entries on their way to the bus.", NULL, pending_read, outbox);
	return outbox;
}

/* After the bus and Redis are gone: nothing comes back any more. */
void outbox_destroy(struct outbox *outbox)
{
	if (!outbox)
		return;
	timer_stop(&outbox->publish_timer);
	timer_stop(&outbox->delete_timer);
	loop_defer_cancel(outbox->inventory->loop, LOOP_GATHER, &outbox->publish_hook);
	while (outbox->deletions)
		deletion_free(outbox->deletions);
	while (outbox->under_way)
		publication_free(outbox->under_way);
	free(outbox->confirmed);
	free(outbox);
}

int outbox_pending(const struct outbox *outbox)
{
	return outbox->pending;
}

void outbox_when_idle(struct outbox *outbox, void (*idle)(void *context), void *context)
{
	outbox->idle = idle;
	outbox->idle_context = context;
	publish_gathered(outbox);
	if (outbox->confirmed_count)
		timer_start_us(&outbox->delete_timer, 0);
	outbox_tell_idle(outbox);
}
