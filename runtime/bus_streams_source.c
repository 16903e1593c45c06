/* One partition of a Redis Streams topic: its lease, reading it, committing.
 *
 *     claim ─► held: XREAD from the position ─► handler ─► commit: the group's position moves ─►
 * XREAD …
 *
 * A consumer group is kept for its position alone: XREAD reads from it, and commit.lua moves it by
 * XGROUP SETID after the handler is done. XREADGROUP would mark records as delivered when they are
 * read: a reader that has lost its lease, but whose blocking read still waits in Redis, would take
 * records away from the new owner and out of order. A plain read takes nothing, so the lease need
 * be right only where the position moves, and the script checks it there. It also writes nothing:
 * no entry per record in the pending list and in the AOF. What was read but not committed when a
 * consumer dies is read again by the next owner.
 *
 * The lease is renewed with every tick; when that fails for 3 s, we stop before another may begin.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/bus_lua.h"
#include "runtime/bus_streams.h"
#include "runtime/clock.h"
#include "runtime/log.h"

/* The end of our own clock's lease comes before Redis's. */
#define LEASE_MARGIN_MS 200
#define READ_BLOCK_MS 1000
#define READ_GRACE_MS 3000
#define TRIM_EVERY_US 1000000
/* What is done within this time shares a commit; a crash repeats at most so much. */
#define COMMIT_AFTER_US 25000
#define ID_MAX 48

static struct redis_script claim_script = {"bus_claim", (const char *)bus_lua_bus_claim_lua, ""};
static struct redis_script commit_script = {"bus_commit", (const char *)bus_lua_bus_commit_lua, ""};
static struct redis_script release_script = {"bus_release", (const char *)bus_lua_bus_release_lua,
					     ""};

static struct streams_source *streams_source(struct bus_source *source)
{
	return container_of(source, struct streams_source, source);
}

static struct bus *streams_source_bus(const struct streams_source *streams)
{
	return streams->source.consumer->bus;
}

static struct redis *streams_source_redis(const struct streams_source *streams)
{
	return streams_bus(streams_source_bus(streams))->redis;
}

static struct bus_position position_parse(const char *id)
{
	struct bus_position position = {0, 0};
	char *end;

	position.major = strtoull(id, &end, 10);
	if (*end == '-')
		position.minor = strtoull(end + 1, NULL, 10);
	return position;
}

static bool position_before(struct bus_position a, struct bus_position b)
{
	return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static size_t position_format(struct bus_position position, char id[ID_MAX])
{
	return (size_t)snprintf(id, ID_MAX, "%" PRIu64 "-%" PRIu64, position.major, position.minor);
}

/* --- the lease --------------------------------------------------------------------------- */

static void streams_source_stop_reading(struct streams_source *streams)
{
	timer_stop(&streams->read_again);
	if (streams->read_sent)
		redis_forget(&streams->read);
	streams->read_sent = false;
}

static void streams_source_lost(struct streams_source *streams, const char *why)
{
	const struct bus_consumer *consumer = streams->source.consumer;

	log_event(LOG_WARN, "bus_lease_lost", log_text("stream", streams->key),
		  log_text("group", consumer->group), log_text("why", why));
	streams_source_stop_reading(streams);
	streams->dirty = false;
	bus_source_lose(&streams->source);
	bus_close_check(consumer->bus);
}

void streams_source_check_lease(struct streams_source *streams)
{
	if (streams->source.held && clock_monotonic_us() >= streams->held_until_us)
		streams_source_lost(streams, "it could not be renewed in time");
}

static void streams_claimed(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_source *streams = container_of(op, struct streams_source, claim);
	struct bus_source *source = &streams->source;
	bool mine;

	streams->claiming = false;
	if (status != STATUS_OK || reply->elements != 4) {
		streams->lag = -1;
		return;
	}
	streams->lag = reply->element[3]->integer;
	mine = reply->element[0]->integer;
	if (streams->claiming_lease && !mine && source->held) {
		streams_source_lost(streams, "another member has it");
		return;
	}
	if (!mine)
		return;
	streams->held_until_us =
		streams->claimed_us + (STREAMS_LEASE_MS - LEASE_MARGIN_MS) * INT64_C(1000);
	if (source->held) {
		/* Behind what it confirmed: Redis came back without it. Begin where it stands now. */
		if (!streams->committing && !streams->dirty &&
		    position_before(position_parse(reply->element[1]->str), streams->done))
			streams_source_lost(streams, "the position went backwards");
		return;
	}
	if (!streams->desired || streams_source_bus(streams)->closing) {
		streams_source_release(streams);
		return;
	}
	streams->cursor = streams->done = position_parse(reply->element[1]->str);
	streams->done_count = reply->element[2]->integer;
	streams->dirty = false;
	bus_source_take(source);
}

static void streams_send_commit(struct streams_source *streams);

void streams_source_claim(struct streams_source *streams)
{
	struct bus_source *source = &streams->source;
	bool lease = source->held ||
		     (streams->desired && !source->held && !streams_source_bus(streams)->closing);
	char ttl[16];
	const char *values[] = {streams->key, streams->lease,
				streams_source_bus(streams)->options.client_id, ttl,
				source->consumer->group};
	size_t sizes[5];

	if (streams->claiming)
		return;
	if (source->held && !streams->desired) {
		bus_source_leave(source);
		lease = source->held;
	}
	snprintf(ttl, sizeof(ttl), "%d", lease ? STREAMS_LEASE_MS : 0);
	for (int i = 0; i < 5; i++)
		sizes[i] = strlen(values[i]);
	streams->claiming = true;
	streams->claiming_lease = lease;
	streams->claimed_us = clock_monotonic_us();
	streams->claim = (struct redis_op){.done = streams_claimed};
	redis_send_script(streams_source_redis(streams), &streams->claim, &claim_script, 2,
			  (struct redis_args){5, values, sizes});
	if (streams->dirty && !streams->committing)
		streams_send_commit(streams);
}

/* The arguments of a commit of what is done. */
struct streams_commit_args {
	char id[ID_MAX], count[24];
	const char *values[7];
	size_t sizes[7];
};

static struct redis_args streams_commit_args(struct streams_source *streams,
					     struct streams_commit_args *args)
{
	bool trim = clock_monotonic_us() - streams->trimmed_us >= TRIM_EVERY_US;

	if (trim)
		streams->trimmed_us = clock_monotonic_us();
	position_format(streams->done, args->id);
	snprintf(args->count, sizeof(args->count), "%" PRId64, streams->done_count);
	args->values[0] = streams->key;
	args->values[1] = streams->lease;
	args->values[2] = streams_source_bus(streams)->options.client_id;
	args->values[3] = streams->source.consumer->group;
	args->values[4] = args->id;
	args->values[5] = args->count;
	args->values[6] = trim ? "1" : "0";
	for (int i = 0; i < 7; i++)
		args->sizes[i] = strlen(args->values[i]);
	return (struct redis_args){7, args->values, args->sizes};
}

/* What is done is committed first, whether or not a commit is on its way. */
void streams_source_release(struct streams_source *streams)
{
	struct streams_bus *bus = streams_bus(streams_source_bus(streams));
	struct streams_commit_args args;
	const char *id = bus->bus.options.client_id;
	const char *values[] = {streams->lease, id};
	size_t sizes[] = {strlen(streams->lease), strlen(id)};

	streams_source_stop_reading(streams);
	if (streams->dirty)
		streams_say(bus, &commit_script, 2, streams_commit_args(streams, &args));
	streams->dirty = false;
	streams_say(bus, &release_script, 1, (struct redis_args){2, values, sizes});
}

void streams_leave(struct bus_source *source)
{
	streams_source_release(streams_source(source));
}

/* --- committing -------------------------------------------------------------------------- */

static void streams_committed(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_source *streams = container_of(op, struct streams_source, commit);

	streams->committing = false;
	if (!streams->source.held)
		return;
	if (status != STATUS_OK) {
		streams->dirty = true; /* again with the next tick */
	} else if (!reply->integer) {
		streams_source_lost(streams, "another member has it");
	}
}

static void streams_send_commit(struct streams_source *streams)
{
	struct streams_commit_args args;

	streams->committing = true;
	streams->dirty = false;
	streams->commit = (struct redis_op){.done = streams_committed};
	redis_send_script(streams_source_redis(streams), &streams->commit, &commit_script, 2,
			  streams_commit_args(streams, &args));
}

void streams_source_commit_now(struct streams_source *streams)
{
	if (!streams->dirty)
		return;
	if (!streams->committing)
		streams_send_commit(streams);
	else /* one at a time */
		timer_start_us(&streams_bus(streams_source_bus(streams))->commit_soon,
			       COMMIT_AFTER_US);
}

/* Soon, together with others: a write of its own for each batch would cost Redis a sync each. */
void streams_commit(struct bus_source *source, struct bus_position position, int count)
{
	struct streams_source *streams = streams_source(source);
	struct timer *soon = &streams_bus(source->consumer->bus)->commit_soon;

	streams->done = position;
	if (streams->done_count >= 0)
		streams->done_count += count;
	streams->dirty = true;
	if (!timer_started(soon))
		timer_start_us(soon, COMMIT_AFTER_US);
}

/* --- reading ----------------------------------------------------------------------------- */

static bool reply_is(const redisReply *name, char letter)
{
	return name->len == 1 && name->str[0] == letter;
}

/* Field by field; what is unknown is left out. */
static void streams_decode_record(struct bus_chunk *chunk, struct bus_record *record,
				  int64_t *ret_due_ms, const redisReply *fields)
{
	for (size_t i = 0; i + 1 < fields->elements; i += 2) {
		const redisReply *name = fields->element[i], *value = fields->element[i + 1];

		if (reply_is(name, 'k')) {
			record->key = arena_memdup(&chunk->arena, value->str, value->len);
			record->key_size = value->len;
		} else if (reply_is(name, 'v')) {
			record->value = (const uint8_t *)arena_memdup(&chunk->arena, value->str,
								      value->len);
			record->value_size = value->len;
		} else if (reply_is(name, 't')) {
			(void)trace_parse(value->str, &record->trace); /* wrong: none */
		} else if (reply_is(name, 'a')) {
			record->attempt = atoi(value->str);
		} else if (reply_is(name, 'd')) {
			*ret_due_ms = atoll(value->str);
		} else if (reply_is(name, 'r')) {
			snprintf(record->reason, sizeof(record->reason), "%s", value->str);
		}
	}
}

/* [[stream, [[id, [field, value, …]], …]]] */
static struct bus_chunk *streams_decode(struct streams_source *streams, const redisReply *reply)
{
	const redisReply *entries = reply->element[0]->element[1];
	int count = (int)entries->elements;
	struct bus_chunk *chunk = bus_chunk_create(count);

	if (streams->source.tier)
		chunk->due_ms = arena_zalloc(&chunk->arena, (size_t)count * sizeof(*chunk->due_ms));
	for (int i = 0; i < count; i++) {
		const redisReply *entry = entries->element[i];
		struct bus_record *record = &chunk->records[i];
		int64_t due_ms = 0;

		*record = (struct bus_record){.topic = streams->source.consumer->topic_name,
					      .key = "",
					      .value = (const uint8_t *)"",
					      .attempt = 1};
		chunk->positions[i] = position_parse(entry->element[0]->str);
		if (entry->element[1]->type == REDIS_REPLY_ARRAY)
			streams_decode_record(chunk, record, &due_ms, entry->element[1]);
		if (chunk->due_ms)
			chunk->due_ms[i] = due_ms;
	}
	chunk->count = count;
	streams->cursor = chunk->positions[count - 1];
	return chunk;
}

/* A retry topic is looked at a few times within its delay: early enough for every record. */
static int64_t streams_poll_us(const struct bus_source *source)
{
	int64_t delay_us = source->consumer->retry_delays_ms[source->tier - 1] * 1000 / 4;

	return delay_us < 10000 ? 10000 : delay_us > 1000000 ? 1000000 : delay_us;
}

/* Times of the next reads are multiples of the pace, so that partitions are read together and what
 * is done about their batches (a transaction, a commit) can be shared. */
static void streams_read_some(struct streams_source *streams, struct bus_chunk *chunk)
{
	const struct bus_consumer *consumer = streams->source.consumer;

	if (consumer->pace_us && chunk->count < consumer->batch_max)
		streams->read_not_before_us =
			(clock_monotonic_us() / consumer->pace_us + 1) * consumer->pace_us;
	bus_source_read(&streams->source, chunk);
}

static void streams_was_read(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_source *streams = container_of(op, struct streams_source, read);
	struct bus_source *source = &streams->source;

	streams->read_sent = false;
	if (!source->held || !source->reading)
		return;
	if (status != STATUS_OK)
		timer_start_us(&streams->read_again, BUS_AGAIN_US);
	else if (reply->type == REDIS_REPLY_ARRAY && reply->elements)
		streams_read_some(streams, streams_decode(streams, reply));
	else if (source->tier)
		timer_start_us(&streams->read_again, streams_poll_us(source));
	else
		bus_source_read(source, NULL);
}

static void streams_send_read(struct streams_source *streams)
{
	const struct bus_source *source = &streams->source;
	char count[16], block[16], id[ID_MAX];
	const char *values[] = {"XREAD", "COUNT",   count,	  "BLOCK",
				block,	 "STREAMS", streams->key, id};
	size_t sizes[] = {5, 5, 0, 5, 0, 7, strlen(streams->key), 0};
	struct redis *redis = source->tier ? streams_source_redis(streams) : streams->reader;

	sizes[2] = (size_t)snprintf(count, sizeof(count), "%d", source->consumer->batch_max);
	sizes[4] = (size_t)snprintf(block, sizeof(block), "%d", READ_BLOCK_MS);
	sizes[7] = position_format(streams->cursor, id);
	streams->read_sent = true;
	streams->read = (struct redis_op){.done = streams_was_read};
	if (source->tier) {
		/* It shares the main connection: no waiting. */
		memmove(values + 3, values + 5, 3 * sizeof(*values));
		memmove(sizes + 3, sizes + 5, 3 * sizeof(*sizes));
		redis_send(redis, &streams->read, (struct redis_args){6, values, sizes});
		return;
	}
	streams->read.deadline_us =
		clock_monotonic_us() + (READ_BLOCK_MS + READ_GRACE_MS) * INT64_C(1000);
	redis_send(redis, &streams->read, (struct redis_args){8, values, sizes});
}

static void streams_read_again(struct timer *timer)
{
	struct streams_source *streams = container_of(timer, struct streams_source, read_again);

	if (streams->source.held && streams->source.reading && !streams->read_sent)
		streams_send_read(streams);
}

static void streams_reader_connected(void *self, const char *run_id)
{
	struct streams_source *streams = self;

	(void)run_id;
	if (timer_started(&streams->read_again))
		timer_start_us(&streams->read_again, 0);
}

void streams_read(struct bus_source *source)
{
	struct streams_source *streams = streams_source(source);
	const struct bus *bus = source->consumer->bus;
	int64_t wait_us;

	assert(!streams->read_sent);
	if (!source->tier && !streams->reader) {
		streams->reader = redis_create(
			bus->loop, &(struct redis_options){.url = bus->options.url,
							   .metrics = bus->options.metrics,
							   .role = "bus-reader",
							   .connected = streams_reader_connected,
							   .self = streams});
		assert(streams->reader); /* the bus has one by the same URL */
		timer_start_us(&streams->read_again, BUS_AGAIN_US);
		return;
	}
	wait_us = source->tier ? 0 : streams->read_not_before_us - clock_monotonic_us();
	if (wait_us > 0)
		timer_start_us(&streams->read_again, wait_us);
	else
		streams_send_read(streams);
}

/* --- life -------------------------------------------------------------------------------- */

struct streams_source *streams_source_create(struct streams_consumer *consumer, int partition,
					     int tier)
{
	struct streams_source *streams = calloc(1, sizeof(*streams));
	struct bus_consumer *common = &consumer->consumer;
	const struct bus_topic *topic = tier ? common->next_topics[tier - 1] : common->topic;

	assert(streams);
	streams_key(streams->key, topic, partition);
	snprintf(streams->lease, sizeof(streams->lease), "%s:lease:%s", streams->key,
		 common->group);
	streams->lag = -1;
	timer_init(&streams->read_again, common->bus->loop, streams_read_again);
	bus_source_init(&streams->source, common, tier);
	return streams;
}

void streams_source_free(struct streams_source *streams)
{
	redis_destroy(streams->reader);
	timer_stop(&streams->read_again);
	bus_source_free(&streams->source);
	free(streams);
}
