/* Consuming: from a partition's records to the handler and back. See struct bus_source for the
 * path.
 *
 * Each partition has at most one batch with the handler and one read ahead, and only when the last
 * read was full: while a small batch is handled, more gathers into the next. A record that failed
 * is first published to the next topic, then the position is committed: a crash in between repeats
 * it, nothing loses it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus_internal.h"
#include "runtime/clock.h"
#include "runtime/log.h"

/* A failed record on its way to the next topic. */
struct bus_forward {
	struct bus_publish publish;
	struct bus_source *source;
	struct bus_record *record;
	bool confirmed;
};

struct bus_chunk *bus_chunk_create(int records_max)
{
	struct bus_chunk *chunk = malloc(sizeof(*chunk));

	assert(chunk);
	memset(chunk, 0, offsetof(struct bus_chunk, first));
	arena_init(&chunk->arena, chunk->first, sizeof(chunk->first));
	chunk->records = arena_alloc(&chunk->arena, (size_t)records_max * sizeof(*chunk->records));
	chunk->positions =
		arena_alloc(&chunk->arena, (size_t)records_max * sizeof(*chunk->positions));
	return chunk;
}

void bus_chunk_free(struct bus_chunk *chunk)
{
	if (!chunk)
		return;
	arena_reset(&chunk->arena);
	free(chunk);
}

static void bus_source_wake(struct timer *timer);
static void bus_forward_send(struct bus_source *source);

void bus_source_init(struct bus_source *source, struct bus_consumer *consumer, int tier)
{
	source->consumer = consumer;
	source->tier = tier;
	timer_init(&source->timer, consumer->bus->loop, bus_source_wake);
	source->next = consumer->sources;
	consumer->sources = source;
}

void bus_source_free(struct bus_source *source)
{
	timer_stop(&source->timer);
	bus_chunk_free(source->current);
	bus_chunk_free(source->ahead);
	source->current = source->ahead = NULL;
}

bool bus_source_quiet(const struct bus_source *source)
{
	return source->state == BUS_SOURCE_IDLE || source->state == BUS_SOURCE_WAITS;
}

/* --- reading and handing out ------------------------------------------------------------- */

static bool bus_source_reads(const struct bus_source *source)
{
	const struct bus_chunk *current = source->current;

	if (!source->held || source->leaving || source->reading || source->ahead ||
	    source->consumer->bus->closing)
		return false;
	return !current || (!source->orphan && source->state == BUS_SOURCE_HANDED &&
			    current->count == source->consumer->batch_max);
}

static void bus_source_want(struct bus_source *source)
{
	if (!bus_source_reads(source))
		return;
	source->reading = true;
	source->consumer->bus->ops->read(source);
}

/* How many records from `next` on are due; when none, *ret_delay_us tells how long the first is
 * not. */
static int bus_chunk_due(const struct bus_chunk *chunk, int64_t *ret_delay_us)
{
	int64_t now_ms;
	int i = chunk->next;

	if (!chunk->due_ms)
		return chunk->count - i;
	now_ms = clock_wall_ms();
	while (i < chunk->count && chunk->due_ms[i] <= now_ms)
		i++;
	if (i == chunk->next)
		*ret_delay_us = (chunk->due_ms[i] - now_ms) * 1000;
	return i - chunk->next;
}

/* Hands out what is due of `current`, or waits. */
static void bus_source_hand(struct bus_source *source)
{
	struct bus_consumer *consumer = source->consumer;
	struct bus_chunk *chunk = source->current;
	int64_t delay_us = 0;
	int count = bus_chunk_due(chunk, &delay_us);

	if (consumer->bus->closing || source->leaving) {
		source->state = BUS_SOURCE_WAITS; /* for good */
		return;
	}
	if (!count) {
		source->state = BUS_SOURCE_WAITS;
		timer_start_us(&source->timer, delay_us);
		return;
	}
	source->state = BUS_SOURCE_HANDED;
	source->batch = (struct bus_batch){.consumer = consumer,
					   .records = chunk->records + chunk->next,
					   .count = count,
					   .internal = source};
	consumer->batches->value++;
	bus_source_want(source);
	consumer->options.batch(consumer->options.self, &source->batch);
}

/* Nothing is handed out: goes on with what was read ahead, or reads. */
static void bus_source_proceed(struct bus_source *source)
{
	struct bus *bus = source->consumer->bus;

	source->state = BUS_SOURCE_IDLE;
	source->orphan = false;
	if (source->leaving) {
		bus_source_lose(source);
		bus->ops->leave(source);
		return;
	}
	if (source->held && source->ahead) {
		source->current = source->ahead;
		source->ahead = NULL;
		bus_source_hand(source);
		return;
	}
	bus_source_want(source);
}

void bus_source_read(struct bus_source *source, struct bus_chunk *chunk)
{
	source->reading = false;
	if (!source->held || source->leaving || source->consumer->bus->closing || !chunk ||
	    !chunk->count) {
		bus_chunk_free(chunk);
		if (!source->leaving)
			bus_source_want(source);
		return;
	}
	if (source->current) {
		source->ahead = chunk;
		return;
	}
	source->current = chunk;
	bus_source_hand(source);
}

static void bus_source_wake(struct timer *timer)
{
	struct bus_source *source = container_of(timer, struct bus_source, timer);

	if (source->state == BUS_SOURCE_FORWARDING)
		bus_forward_send(source);
	else if (source->state == BUS_SOURCE_WAITS)
		bus_source_hand(source);
}

/* --- ownership --------------------------------------------------------------------------- */

void bus_source_take(struct bus_source *source)
{
	source->held = true;
	source->leaving = false;
	bus_source_want(source);
}

void bus_source_lose(struct bus_source *source)
{
	source->held = source->leaving = source->reading = false;
	bus_chunk_free(source->ahead);
	source->ahead = NULL;
	if (source->state == BUS_SOURCE_HANDED || source->state == BUS_SOURCE_FORWARDING) {
		source->orphan = true;
		return;
	}
	timer_stop(&source->timer);
	source->state = BUS_SOURCE_IDLE;
	bus_chunk_free(source->current);
	source->current = NULL;
}

void bus_source_leave(struct bus_source *source)
{
	if (!source->held || source->leaving)
		return;
	source->leaving = true;
	if (!bus_source_quiet(source))
		return; /* bus_source_proceed() sees to it */
	bus_source_lose(source);
	source->consumer->bus->ops->leave(source);
}

/* --- what the handler says --------------------------------------------------------------- */

static struct bus_source *bus_batch_source(struct bus_batch *batch)
{
	struct bus_source *source = batch->internal;

	assert(source && source->state == BUS_SOURCE_HANDED && &source->batch == batch);
	return source;
}

void bus_batch_fail_value(struct bus_batch *batch, int index, const char *reason, const void *value,
			  size_t value_size)
{
	struct bus_source *source = bus_batch_source(batch);
	struct bus_record *record;

	assert(index >= 0 && index < batch->count);
	record = &batch->records[index];
	record->failed = true;
	snprintf(record->reason, sizeof(record->reason), "%s", reason ? reason : "");
	record->value = (const uint8_t *)arena_memdup(&source->current->arena, value, value_size);
	record->value_size = value_size;
}

void bus_batch_fail(struct bus_batch *batch, int index, const char *reason)
{
	struct bus_record *record;

	(void)bus_batch_source(batch);
	assert(index >= 0 && index < batch->count);
	record = &batch->records[index];
	record->failed = true;
	snprintf(record->reason, sizeof(record->reason), "%s", reason ? reason : "");
}

/* The batch is handled and what failed of it is safe elsewhere. */
static void bus_source_committed(struct bus_source *source)
{
	struct bus_consumer *consumer = source->consumer;
	struct bus_chunk *chunk = source->current;
	int count = source->batch.count;

	consumer->consumed->value += (uint64_t)count;
	chunk->next += count;
	chunk->forwards = NULL;
	consumer->bus->ops->commit(source, chunk->positions[chunk->next - 1], count);
	if (chunk->next < chunk->count && source->held && !source->leaving) {
		bus_source_hand(source);
		return;
	}
	bus_chunk_free(chunk);
	source->current = NULL;
	bus_source_proceed(source);
}

/* Given back by a handler that was slower than the lease: another member has it now. */
static void bus_source_orphaned(struct bus_source *source)
{
	bus_chunk_free(source->current);
	source->current = NULL;
	bus_source_proceed(source);
}

/* After this attempt: the next topic's tier, or retries + 1 for the dead letter. */
static int bus_record_next_tier(const struct bus_consumer *consumer,
				const struct bus_record *record)
{
	return record->attempt <= consumer->retries ? record->attempt : consumer->retries + 1;
}

static void bus_forward_done(struct bus_publish *publish, enum status status)
{
	struct bus_forward *forward = container_of(publish, struct bus_forward, publish);
	struct bus_source *source = forward->source;
	struct bus_consumer *consumer = source->consumer;
	struct bus_chunk *chunk = source->current;

	forward->confirmed = status == STATUS_OK;
	if (forward->confirmed) {
		bool dead = bus_record_next_tier(consumer, forward->record) > consumer->retries;

		(dead ? consumer->dead : consumer->retried)->value++;
		if (dead) {
			log_event(LOG_ERROR, "bus_dead_letter",
				  log_text("topic", consumer->topic_name),
				  log_text("group", consumer->group),
				  log_text("reason", forward->record->reason));
			if (consumer->options.dead)
				consumer->options.dead(consumer->options.self, forward->record);
		}
	}
	if (--chunk->forwards_left)
		return;
	for (int i = 0; i < chunk->forwards_count; i++) {
		if (!chunk->forwards[i].confirmed) {
			timer_start_us(&source->timer, BUS_AGAIN_US);
			return;
		}
	}
	if (source->orphan)
		bus_source_orphaned(source);
	else
		bus_source_committed(source);
	bus_close_check(consumer->bus);
}

/* Sends what is not confirmed yet. */
static void bus_forward_send(struct bus_source *source)
{
	struct bus_consumer *consumer = source->consumer;
	struct bus_chunk *chunk = source->current;

	if (source->orphan) {
		bus_source_orphaned(source);
		bus_close_check(consumer->bus);
		return;
	}
	chunk->forwards_left = 1; /* ours, so that none ends it while we send */
	for (int i = 0; i < chunk->forwards_count; i++) {
		struct bus_forward *forward = &chunk->forwards[i];
		const struct bus_record *record = forward->record;
		int tier = bus_record_next_tier(consumer, record);
		bool retry = tier <= consumer->retries;
		struct bus_message message = {
			.key = record->key,
			.key_size = record->key_size,
			.value = record->value,
			.value_size = record->value_size,
			.trace = record->trace.trace_id[0] || record->trace.trace_id[15]
					 ? &record->trace
					 : NULL,
			.attempt = record->attempt + (retry ? 1 : 0),
			.due_ms = retry ? clock_wall_ms() + consumer->retry_delays_ms[tier - 1] : 0,
			.reason = record->reason};

		if (forward->confirmed)
			continue;
		chunk->forwards_left++;
		forward->publish = (struct bus_publish){.done = bus_forward_done};
		bus_send(consumer->next_topics[tier - 1], &forward->publish, &message);
	}
	chunk->forwards_left--;
}

void bus_batch_done(struct bus_batch *batch)
{
	struct bus_source *source = bus_batch_source(batch);
	struct bus_consumer *consumer = source->consumer;
	struct bus_chunk *chunk = source->current;
	int failed = 0;

	for (int i = 0; i < batch->count; i++)
		failed += batch->records[i].failed;
	if (source->orphan) {
		bus_source_orphaned(source);
	} else if (!failed) {
		bus_source_committed(source);
	} else {
		chunk->forwards =
			arena_zalloc(&chunk->arena, (size_t)failed * sizeof(*chunk->forwards));
		chunk->forwards_count = 0;
		for (int i = 0; i < batch->count; i++) {
			if (!batch->records[i].failed)
				continue;
			chunk->forwards[chunk->forwards_count++] = (struct bus_forward){
				.source = source, .record = &batch->records[i]};
		}
		source->state = BUS_SOURCE_FORWARDING;
		bus_forward_send(source);
	}
	bus_close_check(consumer->bus);
}

void bus_batch_again(struct bus_batch *batch, int64_t delay_ms)
{
	struct bus_source *source = bus_batch_source(batch);
	struct bus *bus = source->consumer->bus;

	for (int i = 0; i < batch->count; i++)
		batch->records[i].failed = false;
	if (source->orphan || source->leaving) {
		bus_source_orphaned(source);
	} else {
		source->state = BUS_SOURCE_WAITS;
		timer_start_us(&source->timer, delay_ms * 1000);
	}
	bus_close_check(bus);
}

/* --- consumers --------------------------------------------------------------------------- */

static double bus_read_backlog(void *self)
{
	return (double)bus_backlog(self);
}

static double bus_read_dead_letters(void *self)
{
	return (double)bus_dead_letters(self);
}

static void bus_consumer_metrics(struct bus_consumer *consumer)
{
	struct metrics *metrics = consumer->bus->options.metrics;
	char labels[2 * BUS_NAME_MAX + 32];

	snprintf(labels, sizeof(labels), "topic=\"%s\",group=\"%s\"", consumer->topic_name,
		 consumer->group);
	consumer->consumed = metrics_counter(metrics, "stampede_bus_consumed_total",
					     "Records handled and committed", labels);
	consumer->batches = metrics_counter(metrics, "stampede_bus_batches_total",
					    "Batches handed to the handler", labels);
	consumer->retried = metrics_counter(metrics, "stampede_bus_retried_total",
					    "Records sent to a retry topic", labels);
	consumer->dead = metrics_counter(metrics, "stampede_bus_dead_letters_total",
					 "Records given up", labels);
	metrics_gauge_read(metrics, "stampede_bus_backlog",
			   "Records published and not yet committed; -1: unknown", labels,
			   bus_read_backlog, consumer);
	metrics_gauge_read(metrics, "stampede_bus_dead_letters",
			   "Records in the dead letter topic; -1: unknown", labels,
			   bus_read_dead_letters, consumer);
}

struct bus_consumer *bus_consume(struct bus *bus, const struct bus_consumer_options *options)
{
	static const int64_t delays_ms[BUS_RETRIES_MAX] = {5000, 10000, 30000};
	struct bus_consumer *consumer = bus->ops->consume(bus);
	char name[BUS_NAME_MAX];

	assert(options->topic && options->group && options->batch);
	/* The longest name made of them is <topic>.<group>.retry-1. */
	assert(strlen(options->topic) + strlen(options->group) + 10 < BUS_NAME_MAX);
	assert(options->retries_max <= BUS_RETRIES_MAX);
	for (const struct bus_consumer *other = bus->consumers; other; other = other->next)
		assert(strcmp(other->topic_name, options->topic) ||
		       strcmp(other->group, options->group)); /* one client, one member */
	consumer->bus = bus;
	consumer->options = *options;
	strcpy(consumer->topic_name, options->topic);
	strcpy(consumer->group, options->group);
	consumer->batch_max = options->batch_max > 0 ? options->batch_max : 256;
	consumer->pace_us =
		options->pace_ms < 0 ? 0 : (options->pace_ms ? options->pace_ms : 5) * 1000;
	consumer->retries = options->retries_max < 0	? 0
			    : options->retries_max == 0 ? BUS_RETRIES_MAX
							: options->retries_max;
	consumer->backlog = consumer->dead_letters = -1;
	consumer->topic = bus_topic(bus, options->topic, false);
	for (int i = 0; i <= consumer->retries; i++) {
		if (i < consumer->retries)
			snprintf(name, sizeof(name), "%.70s.%.70s.retry-%d", options->topic,
				 options->group, i + 1);
		else
			snprintf(name, sizeof(name), "%.70s.%.70s.dead", options->topic,
				 options->group);
		consumer->next_topics[i] = bus_topic(bus, name, true);
		if (i < BUS_RETRIES_MAX)
			consumer->retry_delays_ms[i] = options->retry_delays_ms[i] > 0
							       ? options->retry_delays_ms[i]
							       : delays_ms[i];
	}
	bus_consumer_metrics(consumer);
	consumer->next = bus->consumers;
	bus->consumers = consumer;
	bus->ops->start(consumer);
	return consumer;
}

int64_t bus_backlog(const struct bus_consumer *consumer)
{
	return consumer->backlog;
}

int64_t bus_dead_letters(const struct bus_consumer *consumer)
{
	return consumer->dead_letters;
}
