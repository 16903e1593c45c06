/* See outbox.h. Runs on the database thread; knows neither SQL nor the bus. */
#include "services/order/outbox.h"

#include <assert.h>
#include <inttypes.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stampede/scheduler/v1/scheduler.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 1024

static struct outbox_record *record_create(enum outbox_kind kind, int lane)
{
	struct outbox_record *record = calloc(1, sizeof(*record));

	assert(record);
	record->kind = kind;
	record->lane = lane;
	return record;
}

static void record_reserve(struct outbox_record *record, size_t more)
{
	if (record->size + more <= record->room)
		return;
	if (!record->room)
		record->room = ROOM_FIRST;
	while (record->size + more > record->room)
		record->room *= 2;
	record->bytes = realloc(record->bytes, record->room);
	assert(record->bytes);
}

struct outbox_record *outbox_record_make(enum outbox_kind kind, int lane, const void *bytes,
					 size_t size)
{
	struct outbox_record *record = record_create(kind, lane);

	record_reserve(record, size);
	if (size)
		memcpy(record->bytes, bytes, size);
	record->size = size;
	return record;
}

void outbox_record_free(struct outbox_record *record)
{
	if (!record)
		return;
	free(record->bytes);
	free(record);
}

void outbox_records_free(struct outbox_record *list)
{
	struct outbox_record *next;

	for (; list; list = next) {
		next = list->next;
		outbox_record_free(list);
	}
}

void outbox_init(struct outbox *outbox, int lanes, const char *jobs_queue)
{
	assert(lanes >= 1 && lanes <= OUTBOX_LANES_MAX);
	*outbox = (struct outbox){.lanes = lanes, .jobs_queue = jobs_queue};
	outbox->closed_end = &outbox->closed;
}

static void outbox_close(struct outbox *outbox, struct outbox_record **at)
{
	if (!*at)
		return;
	*outbox->closed_end = *at;
	outbox->closed_end = &(*at)->next;
	*at = NULL;
}

/* Appends `message` as one more element of the record's repeated field `field` (below 16). */
static void record_append(struct outbox *outbox, struct outbox_record **at, int field,
			  const void *message)
{
	struct outbox_record *record = *at;
	size_t size = protobuf_c_message_get_packed_size(message), rest = size;

	record_reserve(record, 6 + size);
	record->bytes[record->size++] = (uint8_t)(field << 3 | 2);
	for (; rest >= 0x80; rest >>= 7)
		record->bytes[record->size++] = (uint8_t)(rest | 0x80);
	record->bytes[record->size++] = (uint8_t)rest;
	record->size += protobuf_c_message_pack(message, record->bytes + record->size);
	record->entries++;
	if (record->size >= OUTBOX_RECORD_SIZE_MAX || record->entries == OUTBOX_ENTRIES_MAX)
		outbox_close(outbox, at);
}

void outbox_add_change(struct outbox *outbox, const struct order *order, int previous)
{
	int lane = order_lane(order->order_id, outbox->lanes);
	struct order_message message;
	Stampede__Events__V1__OrderChanged change;

	if (!outbox->events[lane])
		outbox->events[lane] = record_create(OUTBOX_EVENTS, lane);
	order_to_message(order, &message);
	stampede__events__v1__order_changed__init(&change);
	change.previous = (Stampede__Order__V1__OrderStatus)previous;
	change.order = &message.message;
	record_append(outbox, &outbox->events[lane], 1, &change);
}

/* PublishBatchRequest.queue, once for the record. */
static struct outbox_record *jobs_create(const char *queue)
{
	struct outbox_record *record = record_create(OUTBOX_JOBS, 0);
	Stampede__Scheduler__V1__PublishBatchRequest request;

	stampede__scheduler__v1__publish_batch_request__init(&request);
	request.queue = (char *)queue;
	record_reserve(record, protobuf_c_message_get_packed_size(&request.base));
	record->size = protobuf_c_message_pack(&request.base, record->bytes);
	return record;
}

/* Orders of one lane whose time to pay ends at about the same time: one job when closed. */
struct outbox_unpaid {
	int count;
	int64_t first_ms, last_ms; /* the earliest and the latest pay_by */
	int64_t order_ids[OUTBOX_UNPAID_MAX];
};

static bool unpaid_fits(const struct outbox_unpaid *unpaid, int64_t pay_by_ms)
{
	return pay_by_ms >= unpaid->last_ms - OUTBOX_UNPAID_SPREAD_MS &&
	       pay_by_ms <= unpaid->first_ms + OUTBOX_UNPAID_SPREAD_MS;
}

/* The orders become a job, due when the last of them is. An order is placed in one transaction
 * only, so its id names the job: a record sent twice makes it once. */
static void unpaid_close(struct outbox *outbox, int lane, int at)
{
	struct outbox_unpaid **open = outbox->unpaid[lane], *unpaid = open[at];
	Stampede__Events__V1__UnpaidOrders orders;
	Stampede__Scheduler__V1__Job job;
	Stampede__Scheduler__V1__Target target;
	Google__Protobuf__Timestamp due_at;
	uint8_t payload[OUTBOX_UNPAID_MAX * sizeof(int64_t) + 8];
	char job_id[64], key[ORDER_ID_TEXT_SIZE];

	if (!outbox->jobs)
		outbox->jobs = jobs_create(outbox->jobs_queue);
	stampede__events__v1__unpaid_orders__init(&orders);
	orders.order_ids = unpaid->order_ids;
	orders.n_order_ids = (size_t)unpaid->count;
	snprintf(job_id, sizeof(job_id), "unpaid-%" PRId64 "-%d", unpaid->order_ids[0],
		 unpaid->count);
	order_id_format(lane, key);
	google__protobuf__timestamp__init(&due_at);
	due_at.seconds = unpaid->last_ms / 1000;
	due_at.nanos = (int32_t)(unpaid->last_ms % 1000) * 1000000;
	stampede__scheduler__v1__target__init(&target);
	target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_TOPIC;
	target.topic = (char *)outbox->jobs_queue;
	stampede__scheduler__v1__job__init(&job);
	job.job_id = job_id;
	job.due_at = &due_at;
	job.target = &target;
	job.key = key;
	job.payload.data = payload;
	job.payload.len = protobuf_c_message_pack(&orders.base, payload);
	record_append(outbox, &outbox->jobs, 2, &job);
	free(unpaid);
	for (; at + 1 < OUTBOX_UNPAID_OPEN_MAX; at++)
		open[at] = open[at + 1];
	open[OUTBOX_UNPAID_OPEN_MAX - 1] = NULL;
}

void outbox_add_job(struct outbox *outbox, const struct order *order)
{
	int lane = order_lane(order->order_id, outbox->lanes), at = 0;
	struct outbox_unpaid **open = outbox->unpaid[lane], *unpaid;

	while (at < OUTBOX_UNPAID_OPEN_MAX && open[at] && !unpaid_fits(open[at], order->pay_by_ms))
		at++;
	if (at == OUTBOX_UNPAID_OPEN_MAX) {
		unpaid_close(outbox, lane, 0);
		at--;
	}
	unpaid = open[at];
	if (!unpaid) {
		unpaid = open[at] = malloc(sizeof(*unpaid));
		assert(unpaid);
		unpaid->count = 0;
		unpaid->first_ms = unpaid->last_ms = order->pay_by_ms;
	}
	if (order->pay_by_ms < unpaid->first_ms)
		unpaid->first_ms = order->pay_by_ms;
	if (order->pay_by_ms > unpaid->last_ms)
		unpaid->last_ms = order->pay_by_ms;
	unpaid->order_ids[unpaid->count++] = order->order_id;
	if (unpaid->count == OUTBOX_UNPAID_MAX)
		unpaid_close(outbox, lane, at);
}

void outbox_add_release(struct outbox *outbox, const char *sale_id, const char *user_id,
			const char *order_id)
{
	struct outbox_record *record = record_create(OUTBOX_RELEASE, 0);
	Stampede__Inventory__V1__ReleaseRequest request;

	stampede__inventory__v1__release_request__init(&request);
	request.sale_id = (char *)sale_id;
	request.user_id = (char *)user_id;
	request.order_id = (char *)order_id;
	record_reserve(record, protobuf_c_message_get_packed_size(&request.base));
	record->size = protobuf_c_message_pack(&request.base, record->bytes);
	record->entries = 1;
	outbox_close(outbox, &record);
}

struct outbox_record *outbox_take(struct outbox *outbox)
{
	struct outbox_record *records;

	for (int lane = 0; lane < outbox->lanes; lane++) {
		outbox_close(outbox, &outbox->events[lane]);
		while (outbox->unpaid[lane][0])
			unpaid_close(outbox, lane, 0);
	}
	outbox_close(outbox, &outbox->jobs);
	records = outbox->closed;
	outbox->closed = NULL;
	outbox->closed_end = &outbox->closed;
	return records;
}

void outbox_free(struct outbox *outbox)
{
	outbox_records_free(outbox_take(outbox));
}
