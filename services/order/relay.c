/* See relay.h.
 *
 *     commit ──► relay_take() ──► lane: one send under way ──► confirmed ──► removed later
 *     start, overflow ──► sweep ───┘
 *
 * A lane sends one thing at a time, so its order stays whatever fails; what queues up
 * meanwhile travels as one record (repeated fields may be appended). A send that fails is
 * repeated with growing pauses. Memory is bounded: beyond HELD_MAX records are left in the
 * database and swept when there is room.
 */
#include "services/order/relay.h"

#include <assert.h>
#include <stampede/scheduler/v1/scheduler.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus.h"
#include "runtime/channel.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "services/order/events.h"
#include "services/order/service.h"

#define HELD_MAX (16 << 20)	/* bytes of records in memory */
#define MERGED_MAX (256 * 1024) /* bytes of one record on the bus */
#define SWEEP_MAX 64		/* records read at a time */
#define REMOVE_MAX 1024		/* ids of one removal */
#define REMOVE_AFTER_MS 20	/* so that removals share transactions */
#define JOBS_PACE_MS 50		/* between calls of the scheduler: jobs are due much later */
#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 5000
#define RPC_TIMEOUT_MS 5000

/* One line of records, sent one after the other. */
struct relay_lane {
	struct relay *relay;
	enum outbox_kind kind;
	int number;
	struct outbox_record *first, **end;
	int sending;  /* records in the send under way; 0: none */
	bool careful; /* the last send was refused: one record at a time */
	bool full;    /* there was more than fitted into it */
	struct bus_publish publish;
	struct rpc rpc;
	struct timer retry; /* runs: nothing is sent before it fires */
	int64_t retry_ms;
	struct counter *sent, *failures, *given_up;
};

struct relay {
	struct order_service *service;
	struct channel *scheduler, *inventory;
	struct channel_method *publish_batch, *release;
	struct relay_lane lanes[OUTBOX_LANES_MAX + 2]; /* jobs, releases, then events */
	int lanes_count;
	size_t held;
	int64_t taken_id; /* the youngest record in memory, or handed on */
	bool current;	  /* nothing younger than it lies in the database alone */
	bool missed;	  /* something was left there while sweeping */
	bool sweeping, closing;
	struct outbox_reading reading;
	struct timer sweep_again, remove_soon;
	struct outbox_removal removal;
	bool removing;
	int64_t *confirmed; /* ids to be removed */
	int confirmed_count, confirmed_room;
	uint8_t merged[MERGED_MAX + OUTBOX_RECORD_SIZE_MAX * 2];
};

static void lane_send(struct relay_lane *lane);
static void relay_sweep(struct relay *relay);
static void relay_remove(struct relay *relay);

/* --- removing what was handed on ------------------------------------------------------------ */

static void relay_removed(struct outbox_removal *removal)
{
	struct relay *relay = container_of(removal, struct relay, removal);

	relay->removing = false;
	if (removal->job.status == STATUS_OK) {
		relay->confirmed_count -= removal->count;
		memmove(relay->confirmed, relay->confirmed + removal->count,
			(size_t)relay->confirmed_count * sizeof(*relay->confirmed));
	}
	free(removal->ids);
	if (relay->confirmed_count && !relay->closing)
		timer_start_us(&relay->remove_soon,
			       (removal->job.status == STATUS_OK ? REMOVE_AFTER_MS : RETRY_MAX_MS) *
				       1000);
}

static void relay_remove(struct relay *relay)
{
	struct outbox_removal *removal = &relay->removal;
	int count = relay->confirmed_count < REMOVE_MAX ? relay->confirmed_count : REMOVE_MAX;
	size_t size = (size_t)count * sizeof(*removal->ids);

	if (relay->removing || !count)
		return;
	timer_stop(&relay->remove_soon);
	relay->removing = true;
	removal->ids = malloc(size);
	assert(removal->ids);
	memcpy(removal->ids, relay->confirmed, size);
	removal->count = count;
	removal->done = relay_removed;
	store_remove(relay->service->store, removal);
}

static void relay_remove_now(struct timer *timer)
{
	relay_remove(container_of(timer, struct relay, remove_soon));
}

static void relay_confirm(struct relay *relay, int64_t id)
{
	if (relay->confirmed_count == relay->confirmed_room) {
		relay->confirmed_room = relay->confirmed_room * 2 + 64;
		relay->confirmed = realloc(relay->confirmed, (size_t)relay->confirmed_room *
								     sizeof(*relay->confirmed));
		assert(relay->confirmed);
	}
	relay->confirmed[relay->confirmed_count++] = id;
	if (!relay->removing && !relay->closing && !timer_started(&relay->remove_soon))
		timer_start_us(&relay->remove_soon, REMOVE_AFTER_MS * 1000);
}

/* --- a lane --------------------------------------------------------------------------------- */

static void lane_sent(struct relay_lane *lane, enum status status)
{
	struct relay *relay = lane->relay;

	if (status == STATUS_OK) {
		lane->retry_ms = 0;
		lane->careful = false;
		for (; lane->sending; lane->sending--) {
			struct outbox_record *record = lane->first;

			assert(record);
			lane->first = record->next;
			if (!lane->first)
				lane->end = &lane->first;
			lane->sent->value += (uint64_t)record->entries;
			relay->held -= record->size;
			if (record->id) /* not the first half of one */
				relay_confirm(relay, record->id);
			outbox_record_free(record);
		}
		if (!relay->current && !relay->sweeping && relay->held < HELD_MAX / 2)
			relay_sweep(relay);
		if (lane->kind == OUTBOX_JOBS && !lane->full && !relay->closing)
			timer_start_us(&lane->retry, JOBS_PACE_MS * 1000);
		lane_send(lane);
		return;
	}
	lane->sending = 0;
	lane->failures->value++;
	lane->retry_ms = lane->retry_ms ? lane->retry_ms * 2 : RETRY_MIN_MS;
	if (lane->retry_ms > RETRY_MAX_MS)
		lane->retry_ms = RETRY_MAX_MS;
	if (!relay->closing)
		timer_start_us(&lane->retry, lane->retry_ms * 1000);
}

static void lane_retry(struct timer *timer)
{
	lane_send(container_of(timer, struct relay_lane, retry));
}

static void lane_published(struct bus_publish *publish, enum status status)
{
	lane_sent(container_of(publish, struct relay_lane, publish), status);
}

static bool status_is_refusal(enum status status)
{
	return status == STATUS_INVALID_ARGUMENT || status == STATUS_FAILED_PRECONDITION ||
	       status == STATUS_ALREADY_EXISTS || status == STATUS_OUT_OF_RANGE;
}

/* The first half of a record's jobs becomes a record before it; only the rest stands for both in
 * the database. */
static void lane_split(struct relay_lane *lane)
{
	struct outbox_record *rest = lane->first, *half;
	Stampede__Scheduler__V1__PublishBatchRequest *request =
		stampede__scheduler__v1__publish_batch_request__unpack(NULL, rest->size,
								       rest->bytes);
	Stampede__Scheduler__V1__PublishBatchRequest part;
	uint8_t *merged = lane->relay->merged;

	assert(request && request->n_jobs == (size_t)rest->entries);
	part = *request;
	part.n_jobs = request->n_jobs / 2;
	half = outbox_record_make(OUTBOX_JOBS, 0, merged,
				  protobuf_c_message_pack(&part.base, merged));
	half->entries = (int)part.n_jobs;
	part.jobs += part.n_jobs;
	part.n_jobs = request->n_jobs - part.n_jobs;
	lane->relay->held += half->size;
	lane->relay->held -= rest->size;
	rest->size = protobuf_c_message_pack(&part.base, rest->bytes); /* less than there was */
	rest->entries = (int)part.n_jobs;
	lane->relay->held += rest->size;
	half->next = rest;
	lane->first = half;
	stampede__scheduler__v1__publish_batch_request__free_unpacked(request, NULL);
}

/* The receiver will never take it. One bad job must not hold up all others: it is looked for by
 * halving what was sent, and given up alone. */
static void lane_refused(struct relay_lane *lane)
{
	bool alone = lane->sending == 1;

	lane->failures->value++;
	if (alone && lane->first->entries == 1) {
		lane->given_up->value++;
		lane_sent(lane, STATUS_OK);
		return;
	}
	lane->sending = 0;
	lane->careful = true;
	if (alone)
		lane_split(lane);
	lane_send(lane);
}

static void lane_answered(struct rpc *rpc)
{
	struct relay_lane *lane = container_of(rpc, struct relay_lane, rpc);
	enum status status = rpc->error.status;

	if (lane->kind == OUTBOX_RELEASE && status == STATUS_NOT_FOUND)
		status = STATUS_OK; /* nothing was reserved, or it was released */
	if (status_is_refusal(status))
		log_event(LOG_ERROR,
			  lane->kind == OUTBOX_JOBS ? "unpaid_job_refused" : "release_refused",
			  log_text("code", status_name(status)),
			  log_text("message", rpc->error.message),
			  log_number("entries", lane->first->entries));
	rpc_release(rpc);
	if (status_is_refusal(status))
		lane_refused(lane);
	else
		lane_sent(lane, status);
}

/* How many records from the front go out together. */
static size_t lane_gather(struct relay_lane *lane)
{
	uint8_t *merged = lane->relay->merged;
	size_t size = 0,
	       size_max = lane->kind == OUTBOX_EVENTS ? MERGED_MAX : OUTBOX_RECORD_SIZE_MAX;
	int entries = 0;

	lane->full = false;
	for (struct outbox_record *record = lane->first; record; record = record->next) {
		bool fits = size + record->size <= size_max &&
			    (lane->kind == OUTBOX_EVENTS ||
			     (lane->kind == OUTBOX_JOBS &&
			      entries + record->entries <= OUTBOX_ENTRIES_MAX));

		lane->full = lane->sending && (lane->careful || !fits);
		if (lane->full || record->size > sizeof(lane->relay->merged) - size)
			break;
		memcpy(merged + size, record->bytes, record->size);
		size += record->size;
		entries += record->entries;
		lane->sending++;
	}
	assert(lane->sending); /* no record is larger than the room */
	return size;
}

static void lane_send(struct relay_lane *lane)
{
	struct relay *relay = lane->relay;
	size_t size;

	if (!lane->first || lane->sending || relay->closing || timer_started(&lane->retry))
		return;
	size = lane_gather(lane);
	if (lane->kind == OUTBOX_EVENTS) {
		lane->publish = (struct bus_publish){
			.value = relay->merged, .value_size = size, .done = lane_published};
		events_publish(relay->service->events, &lane->publish, lane->number);
		return;
	}
	lane->rpc = (struct rpc){
		.method = lane->kind == OUTBOX_JOBS ? relay->publish_batch : relay->release,
		.request = grpc_slice_from_copied_buffer((const char *)relay->merged, size),
		.deadline_us = clock_monotonic_us() + RPC_TIMEOUT_MS * 1000,
		.done = lane_answered};
	rpc_start(&lane->rpc);
}

/* --- taking records in ---------------------------------------------------------------------- */

static struct relay_lane *relay_lane(struct relay *relay, const struct outbox_record *record)
{
	if (record->kind == OUTBOX_JOBS)
		return &relay->lanes[0];
	if (record->kind == OUTBOX_RELEASE)
		return &relay->lanes[1];
	/* Fewer lanes than when it was written: the same order still meets the same lane. */
	return &relay->lanes[2 + record->lane % (relay->lanes_count - 2)];
}

static void relay_append(struct relay *relay, struct outbox_record *record)
{
	struct relay_lane *lane = relay_lane(relay, record);

	record->next = NULL;
	*lane->end = record;
	lane->end = &record->next;
	relay->held += record->size;
	relay->taken_id = record->id;
}

void relay_take(struct relay *relay, struct outbox_record *records)
{
	struct outbox_record *next;

	for (; records; records = next) {
		next = records->next;
		if (records->id <= relay->taken_id) { /* the sweep was faster */
			outbox_record_free(records);
		} else if (relay->current && relay->held < HELD_MAX) {
			relay_append(relay, records);
		} else {
			relay->current = false;
			relay->missed = true;
			outbox_record_free(records);
		}
	}
	for (int i = 0; i < relay->lanes_count; i++)
		lane_send(&relay->lanes[i]);
}

static void relay_swept(struct outbox_reading *reading)
{
	struct relay *relay = container_of(reading, struct relay, reading);
	struct outbox_record *next;

	relay->sweeping = false;
	for (struct outbox_record *record = reading->ret_records; record; record = next) {
		next = record->next;
		relay_append(relay, record);
	}
	if (relay->closing)
		return;
	if (reading->job.status != STATUS_OK) {
		timer_start_us(&relay->sweep_again, RETRY_MIN_MS * 1000);
	} else if (reading->ret_count == SWEEP_MAX || relay->missed) {
		if (relay->held < HELD_MAX)
			relay_sweep(relay);
	} else {
		relay->current = true;
	}
	for (int i = 0; i < relay->lanes_count; i++)
		lane_send(&relay->lanes[i]);
}

static void relay_sweep(struct relay *relay)
{
	if (relay->sweeping || relay->current || relay->closing)
		return;
	timer_stop(&relay->sweep_again);
	relay->sweeping = true;
	relay->missed = false;
	relay->reading = (struct outbox_reading){
		.after_id = relay->taken_id, .max = SWEEP_MAX, .done = relay_swept};
	store_read_outbox(relay->service->store, &relay->reading);
}

static void relay_sweep_again(struct timer *timer)
{
	relay_sweep(container_of(timer, struct relay, sweep_again));
}

void relay_kick(struct relay *relay)
{
	for (int i = 0; i < relay->lanes_count; i++) {
		timer_stop(&relay->lanes[i].retry);
		lane_send(&relay->lanes[i]);
	}
	relay_sweep(relay);
}

/* --- life ----------------------------------------------------------------------------------- */

static void relay_add_lane(struct relay *relay, enum outbox_kind kind, int number)
{
	static const char *const labels[OUTBOX_KIND_COUNT] = {[OUTBOX_EVENTS] = "to=\"bus\"",
							      [OUTBOX_JOBS] = "to=\"scheduler\"",
							      [OUTBOX_RELEASE] =
								      "to=\"inventory\""};
	struct relay_lane *lane = &relay->lanes[relay->lanes_count++];
	struct metrics *metrics = relay->service->metrics;

	lane->relay = relay;
	lane->kind = kind;
	lane->number = number;
	lane->end = &lane->first;
	timer_init(&lane->retry, relay->service->loop, lane_retry);
	lane->sent = metrics_counter(metrics, "stampede_order_outbox_sent_total",
				     "Outbox entries handed on.", labels[kind]);
	lane->given_up = metrics_counter(metrics, "stampede_order_outbox_given_up_total",
					 "Outbox entries refused for good: somebody must look.",
					 labels[kind]);
	lane->failures =
		metrics_counter(metrics, "stampede_order_outbox_failures_total",
				"Attempts to hand outbox records on that failed.", labels[kind]);
}

static double read_outbox(void *self)
{
	struct relay *relay = self;

	return (double)store_outbox_entries(relay->service->store);
}

struct relay *relay_create(struct order_service *service)
{
	const struct order_settings *settings = service->settings;
	struct relay *relay = calloc(1, sizeof(*relay));

	assert(relay);
	relay->service = service;
	relay->scheduler = channel_create(service->loop,
					  &(struct channel_options){.target = settings->scheduler,
								    .metrics = service->metrics});
	relay->inventory = channel_create(service->loop,
					  &(struct channel_options){.target = settings->inventory,
								    .metrics = service->metrics});
	relay->publish_batch = channel_method(
		relay->scheduler, "/stampede.scheduler.v1.SchedulerService/PublishBatch");
	relay->release =
		channel_method(relay->inventory, "/stampede.inventory.v1.InventoryService/Release");
	relay_add_lane(relay, OUTBOX_JOBS, 0);
	relay_add_lane(relay, OUTBOX_RELEASE, 0);
	for (int lane = 0; lane < settings->lanes; lane++)
		relay_add_lane(relay, OUTBOX_EVENTS, lane);
	timer_init(&relay->sweep_again, service->loop, relay_sweep_again);
	timer_init(&relay->remove_soon, service->loop, relay_remove_now);
	metrics_gauge_read(service->metrics, "stampede_order_outbox_entries",
			   "Events, jobs and releases not yet handed on; -1: unknown.", NULL,
			   read_outbox, relay);
	return relay;
}

void relay_close(struct relay *relay)
{
	relay->closing = true;
	timer_stop(&relay->sweep_again);
	timer_stop(&relay->remove_soon);
	for (int i = 0; i < relay->lanes_count; i++)
		timer_stop(&relay->lanes[i].retry);
	relay_remove(relay);
}

void relay_destroy(struct relay *relay)
{
	if (!relay)
		return;
	relay->closing = true;
	channel_destroy(relay->scheduler);
	channel_destroy(relay->inventory);
	for (int i = 0; i < relay->lanes_count; i++)
		outbox_records_free(relay->lanes[i].first);
	free(relay->confirmed);
	free(relay);
}
