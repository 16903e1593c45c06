/* See outbox.h.
 *
 *     outbox_publish ──► a record a lane ──► all confirmed ──► XDEL, many at once
 *                                       └──► one failed: the entry stays for the sweeper
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
#define SWEEP_PERIOD_MS 5000
#define SWEEP_AGE_MS 5000 /* younger entries are being published by whoever wrote them */
#define SWEEP_COUNT "100"
#define SWEEP_SALES "500"
#define SWEEP_PENDING_MAX 1000
#define FIELDS 8 /* of a stream entry: four names, four values */

struct lane {
	struct bus_publish publish;
	struct publication *publication;
};

/* One entry on its way. */
struct publication {
	struct outbox *outbox;
	struct outbox_wait *wait;
	char sale_id[ID_MAX + 1], entry[ENTRY_SIZE];
	int left;
	bool failed;
	struct publication *next, **link;
	struct lane lanes[]; /* those in use */
};

struct deletion {
	struct outbox *outbox;
	struct redis_op op;
	struct deletion *next, **link;
};

struct outbox {
	struct inventory *inventory;
	struct publication *under_way, *confirmed;
	struct deletion *deletions;
	int pending;
	struct loop_hook delete_hook;
	struct timer timer;
	struct redis_op list_op; /* the sweeper: one sale after the other */
	struct redis_op read_op;
	char cursor[24];
	char **sales;
	size_t sales_count, sale_index;
	bool sweeping;
	struct counter *published, *failed, *swept;
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

/* Deletes the entries at the head of `confirmed` that are of one sale. */
static void delete_some(struct outbox *outbox)
{
	struct publication *publication = outbox->confirmed;
	struct deletion *deletion = calloc(1, sizeof(*deletion));
	char key[STORE_KEY_SIZE], sale_id[ID_MAX + 1];
	char entries[DELETE_MAX][ENTRY_SIZE];
	const char *values[DELETE_MAX + 2] = {"XDEL", key};
	size_t sizes[DELETE_MAX + 2];
	int count = 0;

	assert(deletion);
	memcpy(sale_id, publication->sale_id, sizeof(sale_id));
	store_key(key, sale_id, ":outbox");
	while (count < DELETE_MAX && (publication = outbox->confirmed) &&
	       !strcmp(publication->sale_id, sale_id)) {
		memcpy(entries[count], publication->entry, ENTRY_SIZE);
		values[count + 2] = entries[count];
		count++;
		outbox->confirmed = publication->next;
		outbox->pending--;
		free(publication);
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
}

static void delete_all(struct loop_hook *hook)
{
	struct outbox *outbox = container_of(hook, struct outbox, delete_hook);

	while (outbox->confirmed)
		delete_some(outbox);
	outbox_tell_idle(outbox);
}

/* --- publishing --------------------------------------------------------------------------------- */

static void publication_over(struct publication *publication)
{
	struct outbox *outbox = publication->outbox;
	struct outbox_wait *wait = publication->wait;
	bool failed = publication->failed;

	*publication->link = publication->next;
	if (publication->next)
		publication->next->link = publication->link;
	if (failed)
		outbox->failed->value++;
	else
		outbox->published->value++;
	if (failed || !*publication->entry) {
		outbox->pending--;
		free(publication);
	} else {
		publication->next = outbox->confirmed;
		outbox->confirmed = publication;
		loop_defer(outbox->inventory->loop, LOOP_GATHER, &outbox->delete_hook);
	}
	if (wait)
		wait->done(wait, failed ? STATUS_UNAVAILABLE : STATUS_OK);
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

static void timestamp(Google__Protobuf__Timestamp *at, int64_t ms)
{
	google__protobuf__timestamp__init(at);
	at->seconds = ms / 1000;
	at->nanos = (int32_t)(ms % 1000) * 1000000;
}

/* One reservation with the messages inside it. */
struct made {
	Stampede__Events__V1__ReservationMade event;
	Google__Protobuf__Timestamp reserved_at, pay_by;
	int lane;
};

static void make(struct made *made, const char *sale_id, const struct outbox_terms *terms,
		 const struct outbox_item *item, int lanes)
{
	stampede__events__v1__reservation_made__init(&made->event);
	made->event.order_id = (char *)item->order_id;
	made->event.sale_id = (char *)sale_id;
	made->event.user_id = (char *)item->user_id;
	made->event.quantity = item->quantity;
	made->event.request_id = (char *)item->request_id;
	made->event.amount_minor = terms->price * item->quantity;
	made->event.currency = (char *)terms->currency;
	timestamp(&made->reserved_at, item->reserved_ms);
	timestamp(&made->pay_by, item->reserved_ms + terms->pay_ms);
	made->event.reserved_at = &made->reserved_at;
	made->event.pay_by = &made->pay_by;
	made->lane = order_lane(item->order_id, lanes);
}

static void publish_lane(struct publication *publication, struct made *made, int count, int lane)
{
	Stampede__Events__V1__ReservationMade *events[RESERVE_MANY_MAX];
	Stampede__Events__V1__ReservationsMade record =
		STAMPEDE__EVENTS__V1__RESERVATIONS_MADE__INIT;
	struct lane *mine = &publication->lanes[publication->left];
	uint8_t small[16 << 10], *value = small;
	char key[12];

	record.reservations = events;
	for (int i = 0; i < count; i++)
		if (made[i].lane == lane)
			events[record.n_reservations++] = &made[i].event;
	if (!record.n_reservations)
		return;
	mine->publication = publication;
	mine->publish = (struct bus_publish){.topic = TOPIC, .key = key, .done = lane_published};
	mine->publish.key_size = (size_t)snprintf(key, sizeof(key), "%d", lane);
	mine->publish.value_size =
		stampede__events__v1__reservations_made__get_packed_size(&record);
	if (mine->publish.value_size > sizeof(small))
		value = malloc(mine->publish.value_size);
	assert(value);
	stampede__events__v1__reservations_made__pack(&record, value);
	mine->publish.value = value;
	publication->left++;
	bus_publish(publication->outbox->inventory->bus, &mine->publish);
	if (value != small)
		free(value);
}

void outbox_publish(struct outbox *outbox, const char *sale_id, const char *entry,
		    const struct outbox_terms *terms, const struct outbox_item *items, int count,
		    struct outbox_wait *wait)
{
	int lanes = (int)outbox->inventory->settings->lanes;
	struct publication *publication =
		calloc(1, sizeof(*publication) + (size_t)lanes * sizeof(struct lane));
	struct made made[RESERVE_MANY_MAX];

	assert(publication && count > 0 && count <= RESERVE_MANY_MAX);
	publication->outbox = outbox;
	publication->wait = wait;
	snprintf(publication->sale_id, sizeof(publication->sale_id), "%s", sale_id);
	snprintf(publication->entry, sizeof(publication->entry), "%s", entry);
	publication->next = outbox->under_way;
	publication->link = &outbox->under_way;
	if (publication->next)
		publication->next->link = &publication->next;
	outbox->under_way = publication;
	outbox->pending++;
	for (int i = 0; i < count; i++)
		make(&made[i], sale_id, terms, &items[i], lanes);
	for (int lane = 0; lane < lanes; lane++)
		publish_lane(publication, made, count, lane);
}

void outbox_forget(struct outbox *outbox, struct outbox_wait *wait)
{
	for (struct publication *at = outbox->under_way; at; at = at->next)
		if (at->wait == wait)
			at->wait = NULL;
}

/* --- sweeping ----------------------------------------------------------------------------------- */

static void sweep_next(struct outbox *outbox);

static void sweep_entry(struct outbox *outbox, const char *sale_id, const redisReply *entry)
{
	struct outbox_item items[RESERVE_MANY_MAX];
	const redisReply *fields = entry->element[1];
	struct outbox_terms terms;
	char *at, *lines[5];
	int count = 0;

	if (fields->type != REDIS_REPLY_ARRAY || fields->elements != FIELDS)
		return;
	terms.price = strtoll(fields->element[1]->str, NULL, 10);
	terms.currency = fields->element[3]->str;
	terms.pay_ms = strtoll(fields->element[5]->str, NULL, 10);
	/* user \n R<ms> \n O<order> \n Q<quantity> \n I<request> \n next user … */
	for (at = fields->element[7]->str; *at && count < RESERVE_MANY_MAX; count++) {
		for (int i = 0; i < 5; i++)
			if (!(lines[i] = strsep(&at, "\n")) || !at)
				return;
		items[count] = (struct outbox_item){.user_id = lines[0],
						    .order_id = lines[2] + 1,
						    .request_id = lines[4] + 1,
						    .quantity = (int)strtol(lines[3] + 1, NULL, 10),
						    .reserved_ms = strtoll(lines[1] + 1, NULL, 10)};
	}
	if (!count)
		return;
	outbox->swept->value++;
	outbox_publish(outbox, sale_id, entry->element[0]->str, &terms, items, count, NULL);
}

static void sweep_read(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct outbox *outbox = container_of(op, struct outbox, read_op);
	const char *sale_id = outbox->sales[outbox->sale_index++];

	if (status == STATUS_OK && reply->type == REDIS_REPLY_ARRAY)
		for (size_t i = 0; i < reply->elements; i++)
			sweep_entry(outbox, sale_id, reply->element[i]);
	sweep_next(outbox);
}

static void sweep_sale(struct outbox *outbox, const char *sale_id)
{
	char key[STORE_KEY_SIZE], until[24];
	const char *values[] = {"XRANGE", key, "-", until, "COUNT", SWEEP_COUNT};
	size_t sizes[6];

	store_key(key, sale_id, ":outbox");
	snprintf(until, sizeof(until), "%" PRId64, clock_wall_ms() - SWEEP_AGE_MS);
	for (int i = 0; i < 6; i++)
		sizes[i] = strlen(values[i]);
	redis_send(outbox->inventory->redis, &outbox->read_op,
		   (struct redis_args){6, values, sizes});
}

static void sweep_free_sales(struct outbox *outbox)
{
	for (size_t i = 0; i < outbox->sales_count; i++)
		free(outbox->sales[i]);
	free(outbox->sales);
	outbox->sales = NULL;
	outbox->sales_count = outbox->sale_index = 0;
}

static void sweep_listed(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct outbox *outbox = container_of(op, struct outbox, list_op);
	const redisReply *pairs;

	sweep_free_sales(outbox);
	if (status != STATUS_OK || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
		outbox->sweeping = false;
		return;
	}
	snprintf(outbox->cursor, sizeof(outbox->cursor), "%s", reply->element[0]->str);
	pairs = reply->element[1]; /* member, score, … */
	outbox->sales = calloc(pairs->elements / 2 + 1, sizeof(char *));
	assert(outbox->sales);
	for (size_t i = 0; i < pairs->elements; i += 2)
		outbox->sales[outbox->sales_count++] = strdup(pairs->element[i]->str);
	sweep_next(outbox);
}

static void sweep_list(struct outbox *outbox)
{
	const char *values[] = {"ZSCAN", STORE_SALES, outbox->cursor, "COUNT", SWEEP_SALES};
	size_t sizes[5];

	for (int i = 0; i < 5; i++)
		sizes[i] = strlen(values[i]);
	redis_send(outbox->inventory->redis, &outbox->list_op,
		   (struct redis_args){5, values, sizes});
}

static void sweep_next(struct outbox *outbox)
{
	if (outbox->sale_index < outbox->sales_count && bus_up(outbox->inventory->bus) &&
	    outbox->pending < SWEEP_PENDING_MAX) {
		sweep_sale(outbox, outbox->sales[outbox->sale_index]);
	} else if (outbox->sale_index == outbox->sales_count && strcmp(outbox->cursor, "0") != 0) {
		sweep_list(outbox);
	} else {
		outbox->sweeping = false;
		sweep_free_sales(outbox);
	}
}

void outbox_sweep(struct outbox *outbox)
{
	if (outbox->sweeping || !redis_connected(outbox->inventory->redis) ||
	    !bus_up(outbox->inventory->bus))
		return;
	outbox->sweeping = true;
	strcpy(outbox->cursor, "0");
	sweep_list(outbox);
}

static void sweep_timer(struct timer *timer)
{
	struct outbox *outbox = container_of(timer, struct outbox, timer);

	outbox_sweep(outbox);
	timer_start_us(timer, SWEEP_PERIOD_MS * 1000);
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
	outbox->delete_hook.run = delete_all;
	outbox->list_op.done = sweep_listed;
	outbox->read_op.done = sweep_read;
	outbox->published = metrics_counter(metrics, "stampede_outbox_published_total",
					    "Outbox entries the bus has confirmed.", NULL);
	outbox->failed = metrics_counter(metrics, "stampede_outbox_failed_total",
					 "Outbox entries left for the sweeper.", NULL);
	outbox->swept = metrics_counter(metrics, "stampede_outbox_swept_total",
					"Outbox entries published by the sweeper.", NULL);
	metrics_gauge_read(metrics, "stampede_outbox_pending",
			   "Outbox entries on their way to the bus.", NULL, pending_read, outbox);
	timer_init(&outbox->timer, inventory->loop, sweep_timer);
	timer_start_us(&outbox->timer, SWEEP_PERIOD_MS * 1000);
	return outbox;
}

/* After the bus and Redis are gone: nothing comes back any more. */
void outbox_destroy(struct outbox *outbox)
{
	struct publication *publication;

	if (!outbox)
		return;
	timer_stop(&outbox->timer);
	while ((publication = outbox->confirmed)) {
		outbox->confirmed = publication->next;
		free(publication);
	}
	while (outbox->deletions)
		deletion_free(outbox->deletions);
	while ((publication = outbox->under_way)) {
		outbox->under_way = publication->next;
		free(publication);
	}
	sweep_free_sales(outbox);
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
	outbox_tell_idle(outbox);
}
