/* Purchases: see reserves.h.
 *
 *     request ─┬─ the sale is known to be sold out, and this is no repeat ─► SOLD_OUT, from memory
 *              └─ joins its sale's batch ─► end of the round: ReserveMany ─► each result to its buyer
 *
 * Nothing is decoded on the way: a ReserveRequest's bytes are a field of ReserveManyRequest, and a result's bytes are a
 * ReserveResponse. While all calls allowed are under way, batches wait and fill; so the slower inventory is, the more
 * it is given at a time. Why a local answer is sound: gateway/README.md.
 */
#include "gateway/reserves.h"

#include <assert.h>
#include <stdlib.h>

#include "gateway/backends.h"
#include "gateway/seen.h"
#include "gateway/sold_outs.h"
#include "gateway/unary.h"
#include "gateway/wire.h"
#include "runtime/utf8.h"

#define ENTRY_SIZE_MAX 512     /* a longer request goes alone, so that no batch grows too large */
#define RESERVE_SIZE_MAX 60000 /* more than inventory reads */
#define TABLE_SIZE 256
#define FREE_MAX 64
#define OUTCOME_SOLD_OUT 2

static const char reserve_rpc[] = "/stampede.inventory.v1.InventoryService/Reserve";
static const char reserve_many_rpc[] = "/stampede.inventory.v1.InventoryService/ReserveMany";

struct text {
	const char *at;
	size_t size;
};

/* ReserveRequest: sale_id = 1, user_id = 2, quantity = 3, request_id = 4. */
struct reservation {
	struct text sale_id, user_id, request_id;
	int32_t quantity;
};

struct entry {
	struct visit visit;
	struct batch *batch;
};

struct batch {
	struct rpc rpc;
	struct trace trace;
	struct reserves *owner;
	struct text sale_id;
	uint64_t hash;
	struct arena arena;
	struct buffer bytes; /* a ReserveManyRequest */
	int64_t deadline_us;
	int count;
	struct batch *next;	  /* that waits, or is free */
	struct batch *table_next; /* that may still be joined */
	struct entry entries[];
};

struct reserves {
	struct gateway *gateway;
	struct channel_method *method;
	struct batch *table[TABLE_SIZE];
	struct batch *waiting, **waiting_end;
	struct batch *free;
	int free_count, in_flight, entries_waiting;
	struct loop_hook hook;
	struct seen *seen;
	int64_t settled_us;	/* until then retries of before our start may come */
	struct buffer sold_out; /* the answer */
	struct arena arena;
	struct counter *local, *batches, *batched;
};

/* --- what is asked -------------------------------------------------------------------------------- */

static bool reservation_read(const uint8_t *at, size_t size, struct reservation *ret)
{
	const uint8_t *end = at + size;
	struct wire_field field;

	*ret = (struct reservation){{"", 0}, {"", 0}, {"", 0}, 0};
	while (at < end) {
		struct text text;

		if (!wire_next(&at, end, &field))
			return false;
		text = (struct text){(const char *)field.bytes, field.size};
		if (field.number == 1 && field.type == WIRE_BYTES)
			ret->sale_id = text;
		else if (field.number == 2 && field.type == WIRE_BYTES)
			ret->user_id = text;
		else if (field.number == 3 && field.type == WIRE_VARINT)
			ret->quantity = (int32_t)field.value;
		else if (field.number == 4 && field.type == WIRE_BYTES)
			ret->request_id = text;
	}
	return true;
}

static uint64_t text_hash(uint64_t hash, struct text text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = (hash ^ (unsigned char)text.at[i]) * 1099511628211u;
	return hash;
}

static uint64_t hash_finish(uint64_t hash)
{
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdu;
	return hash ^ hash >> 33;
}

/* --- answers from memory -------------------------------------------------------------------------- */

static bool is_identifier(struct text text)
{
	if (!text.size || text.size > 64)
		return false;
	for (size_t i = 0; i < text.size; i++) {
		if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
			return false;
	}
	return true; /* UTF-8 it is already */
}

/* What inventory would refuse, it shall refuse itself. */
static bool is_well_formed(const struct reservation *asked)
{
	return is_identifier(asked->user_id) && is_identifier(asked->request_id) &&
	       asked->quantity >= 1 && asked->quantity <= 1000;
}

/* May this request have been made before, and have got its units then? */
static bool may_be_repeat(struct reserves *reserves, const struct visit *visit, uint64_t hash,
			  bool own_id)
{
	const char *attempt;

	if (own_id)
		return false;
	attempt = http_header(visit->exchange, "Stampede-Attempt");
	if (attempt && strcmp(attempt, "1") == 0)
		return false;
	return attempt || visit->started_us < reserves->settled_us ||
	       seen_maybe(reserves->seen, hash);
}

/* --- batches -------------------------------------------------------------------------------------- */

static struct batch **table_place(struct reserves *reserves, uint64_t hash)
{
	return &reserves->table[(hash >> 20) % TABLE_SIZE];
}

static void table_remove(struct reserves *reserves, struct batch *batch)
{
	struct batch **place = table_place(reserves, batch->hash);

	while (*place && *place != batch)
		place = &(*place)->table_next;
	if (*place)
		*place = batch->table_next;
}

static struct batch *batch_find(struct reserves *reserves, struct text sale_id, uint64_t hash)
{
	struct batch *batch = *table_place(reserves, hash);

	while (batch && (batch->hash != hash || batch->sale_id.size != sale_id.size ||
			 memcmp(batch->sale_id.at, sale_id.at, sale_id.size) != 0))
		batch = batch->table_next;
	return batch;
}

static void batch_done(struct rpc *rpc);

static struct batch *batch_take(struct reserves *reserves)
{
	size_t entries = (size_t)reserves->gateway->settings->batch_max;
	struct batch *batch = reserves->free;

	if (batch) {
		reserves->free = batch->next;
		reserves->free_count--;
		return batch;
	}
	batch = calloc(1, sizeof(*batch) + entries * sizeof(struct entry));
	assert(batch);
	arena_init(&batch->arena, NULL, 0);
	return batch;
}

static struct batch *batch_open(struct reserves *reserves, struct text sale_id, uint64_t hash)
{
	struct batch *batch = batch_take(reserves), **place = table_place(reserves, hash);
	bool good;

	batch->owner = reserves;
	batch->hash = hash;
	batch->count = 0;
	batch->deadline_us = 0;
	batch->next = NULL;
	buffer_init(&batch->bytes, &batch->arena, 4096, SIZE_MAX);
	batch->sale_id.at = arena_memdup(&batch->arena, sale_id.at, sale_id.size);
	batch->sale_id.size = sale_id.size;
	good = buffer_byte(&batch->bytes, 1 << 3 | WIRE_BYTES) &&
	       wire_write_bytes(&batch->bytes, sale_id.at, sale_id.size);
	assert(good);
	(void)good;
	batch->table_next = *place;
	*place = batch;
	*reserves->waiting_end = batch;
	reserves->waiting_end = &batch->next;
	return batch;
}

static void batch_close(struct batch *batch)
{
	struct reserves *reserves = batch->owner;

	arena_reset(&batch->arena);
	if (reserves->free_count == FREE_MAX) {
		free(batch);
		return;
	}
	batch->next = reserves->free;
	reserves->free = batch;
	reserves->free_count++;
}

static void batch_send(struct batch *batch)
{
	struct reserves *reserves = batch->owner;

	if (batch->count < reserves->gateway->settings->batch_max) /* a full one has been removed */
		table_remove(reserves, batch);
	reserves->entries_waiting -= batch->count;
	reserves->in_flight++;
	reserves->batches->value++;
	reserves->batched->value += (uint64_t)batch->count;
	batch->trace = trace_child(&batch->entries[0].visit.trace);
	batch->rpc = (struct rpc){
		.method = reserves->method,
		.request = grpc_slice_from_copied_buffer((char *)batch->bytes.bytes,
							 batch->bytes.size),
		.deadline_us = batch->deadline_us,
		.trace = &batch->trace,
		.done = batch_done,
	};
	rpc_start(&batch->rpc);
}

static void batches_send(struct loop_hook *hook)
{
	struct reserves *reserves = container_of(hook, struct reserves, hook);

	while (reserves->waiting &&
	       reserves->in_flight < reserves->gateway->settings->batches_max) {
		struct batch *batch = reserves->waiting;

		reserves->waiting = batch->next;
		if (!reserves->waiting)
			reserves->waiting_end = &reserves->waiting;
		batch_send(batch);
	}
}

/* The buyer has left; the reservation goes on, as nobody knows how far it has come. */
static void entry_gone(struct http_exchange *exchange, void *context)
{
	struct entry *entry = context;

	(void)exchange;
	entry->visit.exchange = NULL;
}

static void batch_add(struct batch *batch, const struct visit *visit, const uint8_t *bytes,
		      size_t size)
{
	struct reserves *reserves = batch->owner;
	struct entry *entry = &batch->entries[batch->count++];
	bool good = buffer_byte(&batch->bytes, 2 << 3 | WIRE_BYTES) &&
		    wire_write_bytes(&batch->bytes, bytes, size);

	assert(good);
	(void)good;
	entry->visit = *visit;
	entry->batch = batch;
	http_set_context(visit->exchange, entry, entry_gone);
	if (visit->deadline_us > batch->deadline_us)
		batch->deadline_us = visit->deadline_us;
	if (batch->count == reserves->gateway->settings->batch_max)
		table_remove(reserves, batch);
	reserves->entries_waiting++;
	loop_defer(reserves->gateway->loop, LOOP_GATHER, &reserves->hook);
}

/* --- results -------------------------------------------------------------------------------------- */

/* ReserveResult: response = 1, error = 2. ReserveResponse: outcome = 1. */
static void result_answer(struct batch *batch, const struct entry *entry,
			  const struct wire_field *result)
{
	struct wire_field part, outcome = {0};

	if (!wire_find(result->bytes, result->size, 1, WIRE_BYTES, &part)) {
		if (!entry->visit.exchange)
			return;
		if (wire_find(result->bytes, result->size, 2, WIRE_BYTES, &part))
			visit_answer_status(&entry->visit, part.bytes, part.size);
		else
			visit_refuse(&entry->visit, STATUS_INTERNAL, "inventory gave no result");
		return;
	}
	(void)wire_find(part.bytes, part.size, 1, WIRE_VARINT, &outcome);
	if (outcome.value == OUTCOME_SOLD_OUT)
		sold_outs_noticed(batch->owner->gateway->sold_outs, batch->sale_id.at,
				  batch->sale_id.size);
	if (entry->visit.exchange)
		visit_answer_message(&entry->visit, part.bytes, part.size);
}

static int results_answer(struct batch *batch)
{
	const uint8_t *at = GRPC_SLICE_START_PTR(batch->rpc.response);
	const uint8_t *end = at + GRPC_SLICE_LENGTH(batch->rpc.response);
	struct wire_field result;
	int answered = 0;

	while (at < end && answered < batch->count && wire_next(&at, end, &result)) {
		if (result.number == 1 && result.type == WIRE_BYTES)
			result_answer(batch, &batch->entries[answered++], &result);
	}
	return answered;
}

static void batch_done(struct rpc *rpc)
{
	static const struct rpc_error missing = {STATUS_INTERNAL, "inventory gave too few results",
						 NULL, 0};
	struct batch *batch = container_of(rpc, struct batch, rpc);
	struct reserves *reserves = batch->owner;
	bool good = rpc->error.status == STATUS_OK;
	int answered = good ? results_answer(batch) : 0;

	for (; answered < batch->count; answered++) {
		const struct visit *visit = &batch->entries[answered].visit;

		if (visit->exchange)
			visit_answer_error(visit, good ? &missing : &rpc->error);
	}
	reserves->in_flight--;
	rpc_release(rpc);
	batch_close(batch);
	if (reserves->waiting)
		loop_defer(reserves->gateway->loop, LOOP_GATHER, &reserves->hook);
}

/* --- what others call ----------------------------------------------------------------------------- */

bool reserves_route(const struct reserves *reserves, const struct edge_route *route)
{
	(void)reserves;
	return route->route->rpc == reserve_rpc || strcmp(route->route->rpc, reserve_rpc) == 0;
}

void reserves_start(struct reserves *reserves, const struct visit *visit, const uint8_t *bytes,
		    size_t size, bool own_id)
{
	struct reservation asked;
	struct batch *batch;
	uint64_t sale_hash, hash;

	if (size > RESERVE_SIZE_MAX) {
		http_respond_error(visit->exchange, 413, "the reservation is too large");
		return;
	}
	if (size > ENTRY_SIZE_MAX || visit->deadlined || !reservation_read(bytes, size, &asked)) {
		unary_start(visit, bytes, size);
		return;
	}
	sale_hash = text_hash(14695981039346656037u, asked.sale_id);
	hash = hash_finish(text_hash(sale_hash, asked.request_id));
	if (sold_outs_has(reserves->gateway->sold_outs, asked.sale_id.at, asked.sale_id.size) &&
	    is_well_formed(&asked) && !may_be_repeat(reserves, visit, hash, own_id)) {
		reserves->local->value++;
		visit_answer_static(visit, 200, (char *)reserves->sold_out.bytes,
				    reserves->sold_out.size);
		return;
	}
	if (reserves->entries_waiting >= reserves->gateway->settings->waiting_max) {
		visit_refuse_retry(visit, STATUS_RESOURCE_EXHAUSTED, 1000000,
				   "too many reservations are waiting");
		return;
	}
	seen_add(reserves->seen, hash);
	sale_hash = hash_finish(sale_hash);
	batch = batch_find(reserves, asked.sale_id, sale_hash);
	if (!batch)
		batch = batch_open(reserves, asked.sale_id, sale_hash);
	batch_add(batch, visit, bytes, size);
}

/* --- life ----------------------------------------------------------------------------------------- */

static void sold_out_make(struct reserves *reserves)
{
	static const uint8_t bytes[] = {1 << 3 | WIRE_VARINT, OUTCOME_SOLD_OUT};
	const struct gateway *gateway = reserves->gateway;
	struct transcode_error error;
	bool good;

	arena_init(&reserves->arena, NULL, 0);
	buffer_init(&reserves->sold_out, &reserves->arena, 256, SIZE_MAX);
	good = wire_to_json(
		gateway->schema,
		schema_message(gateway->schema, "stampede.inventory.v1.ReserveResponse"),
		&gateway->transcoding, bytes, sizeof(bytes), &reserves->sold_out, &error);
	assert(good);
	(void)good;
}

struct reserves *reserves_create(struct gateway *gateway)
{
	struct reserves *reserves = calloc(1, sizeof(*reserves));
	struct metrics *metrics = gateway->process->metrics;

	assert(reserves);
	reserves->gateway = gateway;
	reserves->method = channel_method(backends_channel(gateway->backends, reserve_many_rpc),
					  reserve_many_rpc);
	reserves->waiting_end = &reserves->waiting;
	reserves->hook.run = batches_send;
	reserves->seen = seen_create();
	reserves->settled_us =
		loop_now_us(gateway->loop) + gateway->settings->sold_out_settle_ms * 1000;
	sold_out_make(reserves);
	reserves->local = metrics_counter(metrics, "stampede_gateway_sold_out_local_total",
					  "SOLD_OUT answers given from memory.", NULL);
	reserves->batches = metrics_counter(metrics, "stampede_gateway_batches_total",
					    "ReserveMany calls.", NULL);
	reserves->batched = metrics_counter(metrics, "stampede_gateway_batched_total",
					    "Reservations sent in them.", NULL);
	return reserves;
}

/* After the channels: that has ended every call. What never was sent is dropped with its exchange. */
void reserves_destroy(struct reserves *reserves)
{
	struct batch *batch;

	if (!reserves)
		return;
	assert(!reserves->in_flight);
	loop_defer_cancel(reserves->gateway->loop, LOOP_GATHER, &reserves->hook);
	while ((batch = reserves->waiting)) {
		reserves->waiting = batch->next;
		for (int i = 0; i < batch->count; i++) {
			if (batch->entries[i].visit.exchange)
				http_set_context(batch->entries[i].visit.exchange, NULL, NULL);
		}
		arena_reset(&batch->arena);
		free(batch);
	}
	while ((batch = reserves->free)) {
		reserves->free = batch->next;
		free(batch);
	}
	seen_destroy(reserves->seen);
	arena_reset(&reserves->arena);
	free(reserves);
}
