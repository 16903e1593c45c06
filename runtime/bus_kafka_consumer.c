/* Consuming Kafka: one librdkafka consumer for a topic and its retry topics, group <topic>.<group>.
 *
 *     topics ready ─► subscribe ─► assigned: each partition has a queue of its own ─► read ─►
 * handler ─► commit
 *
 * A partition that is not read fills its queue up to librdkafka's bound, then is not fetched: so a
 * retry topic waits for its records' time, and a slow handler for itself. When partitions are taken
 * away, what is with the handler is left to the new owner; a commit that comes too late is refused
 * by the broker (its generation is over).
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus_kafka.h"
#include "runtime/log.h"

/* What is done within this time shares a commit; a crash repeats at most so much. */
#define COMMIT_AFTER_US 25000

struct kafka_consumer *kafka_consumer(struct bus_consumer *consumer)
{
	return container_of(consumer, struct kafka_consumer, consumer);
}

static struct kafka_source *kafka_source(struct bus_source *source)
{
	return container_of(source, struct kafka_source, source);
}

static const char *kafka_source_topic(const struct kafka_source *kafka)
{
	const struct bus_consumer *consumer = kafka->source.consumer;
	int tier = kafka->source.tier;

	return tier ? consumer->next_topics[tier - 1]->name : consumer->topic_name;
}

/* --- partitions come and go -------------------------------------------------------------- */

static struct kafka_source *kafka_source_find(struct kafka_consumer *kafka, const char *topic,
					      int32_t partition)
{
	struct bus_consumer *consumer = &kafka->consumer;
	struct kafka_source *found;
	int tier = 0;

	for (struct bus_source *source = consumer->sources; source; source = source->next) {
		found = kafka_source(source);
		if (found->partition == partition && strcmp(kafka_source_topic(found), topic) == 0)
			return found;
	}
	for (int i = 0; i < consumer->retries; i++) {
		if (strcmp(consumer->next_topics[i]->name, topic) == 0)
			tier = i + 1;
	}
	found = calloc(1, sizeof(*found));
	assert(found);
	found->partition = partition;
	bus_source_init(&found->source, consumer, tier);
	return found;
}

static void kafka_source_stop(struct kafka_source *kafka)
{
	if (!kafka->queue)
		return;
	rd_kafka_queue_io_event_enable(kafka->queue, -1, NULL, 0);
	rd_kafka_queue_destroy(kafka->queue);
	kafka->queue = NULL;
	kafka->dirty = false;
	bus_source_lose(&kafka->source);
}

static void kafka_assigned(struct kafka_consumer *kafka,
			   const rd_kafka_topic_partition_list_t *parts)
{
	struct kafka_bus *bus = kafka_bus(kafka->consumer.bus);

	/* Before anything is fetched: none may come by the common queue. */
	for (int i = 0; i < parts->cnt; i++) {
		const rd_kafka_topic_partition_t *part = &parts->elems[i];
		struct kafka_source *source =
			kafka_source_find(kafka, part->topic, part->partition);

		source->queue =
			rd_kafka_queue_get_partition(kafka->handle, part->topic, part->partition);
		assert(source->queue);
		rd_kafka_queue_forward(source->queue, NULL);
		kafka_watch(bus, source->queue);
	}
	rd_kafka_assign(kafka->handle, parts);
	for (int i = 0; i < parts->cnt; i++)
		bus_source_take(
			&kafka_source_find(kafka, parts->elems[i].topic, parts->elems[i].partition)
				 ->source);
}

static void kafka_send_commit(struct kafka_consumer *kafka);

static void kafka_rebalanced(rd_kafka_t *handle, rd_kafka_resp_err_t what,
			     rd_kafka_topic_partition_list_t *parts, void *opaque)
{
	struct kafka_consumer *kafka = opaque;

	log_event(LOG_INFO, "kafka_rebalanced", log_text("topic", kafka->consumer.topic_name),
		  log_text("what", rd_kafka_err2name(what)),
		  log_number("partitions", parts ? parts->cnt : 0));
	if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS && !kafka->consumer.bus->closing) {
		kafka_assigned(kafka, parts);
		return;
	}
	/* What is done goes out while the generation is still ours. */
	kafka_send_commit(kafka);
	for (struct bus_source *source = kafka->consumer.sources; source; source = source->next)
		kafka_source_stop(kafka_source(source));
	rd_kafka_assign(handle, NULL);
}

void kafka_leave(struct bus_source *source)
{
	(void)source; /* only Redis Streams' members leave of themselves */
}

/* --- committing -------------------------------------------------------------------------- */

/* Also while one is under way: they are answered in order. */
static void kafka_send_commit(struct kafka_consumer *kafka)
{
	rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(8);

	for (struct bus_source *source = kafka->consumer.sources; source; source = source->next) {
		struct kafka_source *done = kafka_source(source);

		if (!done->dirty)
			continue;
		done->dirty = false;
		rd_kafka_topic_partition_list_add(offsets, kafka_source_topic(done),
						  done->partition)
			->offset = done->done;
	}
	if (offsets->cnt && !rd_kafka_commit(kafka->handle, offsets, 1))
		kafka->committing++;
	rd_kafka_topic_partition_list_destroy(offsets);
}

static void kafka_commit_now(struct timer *timer)
{
	struct kafka_consumer *kafka = container_of(timer, struct kafka_consumer, commit_soon);

	if (!kafka->committing)
		kafka_send_commit(kafka);
}

static void kafka_commit_soon(struct kafka_consumer *kafka)
{
	if (!timer_started(&kafka->commit_soon))
		timer_start_us(&kafka->commit_soon, COMMIT_AFTER_US);
}

static void kafka_committed(rd_kafka_t *handle, rd_kafka_resp_err_t error,
			    rd_kafka_topic_partition_list_t *offsets, void *opaque)
{
	struct kafka_consumer *kafka = opaque;

	(void)handle;
	kafka->committing--;
	for (int i = 0; error && offsets && i < offsets->cnt; i++) {
		struct kafka_source *source = kafka_source_find(kafka, offsets->elems[i].topic,
								offsets->elems[i].partition);

		/* Again, unless a later one is waiting or the partition is another's. */
		source->dirty = source->source.held;
	}
	if (error)
		log_event(LOG_WARN, "kafka_commit_failed",
			  log_text("topic", kafka->consumer.topic_name),
			  log_text("error", rd_kafka_err2name(error)));
	else
		kafka_commit_soon(kafka);
}

/* One request at a time for all partitions; what becomes done meanwhile goes with the next. */
void kafka_commit(struct bus_source *source, struct bus_position position, int count)
{
	struct kafka_source *kafka = kafka_source(source);
	struct kafka_consumer *consumer = kafka_consumer(source->consumer);

	(void)count;
	kafka->done = (int64_t)position.major + 1;
	kafka->dirty = true;
	kafka_commit_soon(consumer);
}

/* --- reading ----------------------------------------------------------------------------- */

static const char *kafka_header(const rd_kafka_headers_t *headers, const char *name)
{
	const void *value;
	size_t size;

	/* librdkafka closes header values with a zero byte. */
	if (rd_kafka_header_get_last(headers, name, &value, &size))
		return NULL;
	return value;
}

static void kafka_decode_headers(const rd_kafka_message_t *message, struct bus_record *record,
				 int64_t *ret_due_ms)
{
	rd_kafka_headers_t *headers;
	const char *value;

	if (rd_kafka_message_headers(message, &headers))
		return;
	if ((value = kafka_header(headers, "traceparent")))
		(void)trace_parse(value, &record->trace); /* wrong: none */
	if ((value = kafka_header(headers, "attempt")))
		record->attempt = atoi(value);
	if ((value = kafka_header(headers, "due")))
		*ret_due_ms = atoll(value);
	if ((value = kafka_header(headers, "reason")))
		snprintf(record->reason, sizeof(record->reason), "%s", value);
}

static void kafka_decode(struct kafka_source *kafka, struct bus_chunk *chunk,
			 const rd_kafka_message_t *message)
{
	struct bus_record *record = &chunk->records[chunk->count];
	int64_t due_ms = 0;

	*record = (struct bus_record){.topic = kafka->source.consumer->topic_name,
				      .key_size = message->key_len,
				      .value_size = message->len,
				      .attempt = 1};
	record->key = arena_memdup(&chunk->arena, message->key, message->key_len);
	record->value =
		(const uint8_t *)arena_memdup(&chunk->arena, message->payload, message->len);
	kafka_decode_headers(message, record, &due_ms);
	if (chunk->due_ms)
		chunk->due_ms[chunk->count] = due_ms;
	chunk->positions[chunk->count++].major = (uint64_t)message->offset;
}

static struct bus_chunk *kafka_decode_all(struct kafka_source *kafka, rd_kafka_message_t **messages,
					  int count)
{
	struct bus_chunk *chunk = bus_chunk_create(count);

	if (kafka->source.tier)
		chunk->due_ms = arena_zalloc(&chunk->arena, (size_t)count * sizeof(*chunk->due_ms));
	for (int i = 0; i < count; i++) {
		if (!messages[i]->err)
			kafka_decode(kafka, chunk, messages[i]);
		else
			log_event(LOG_WARN, "kafka_partition_error",
				  log_text("topic", kafka_source_topic(kafka)),
				  log_number("partition", kafka->partition),
				  log_text("error", rd_kafka_err2name(messages[i]->err)));
		rd_kafka_message_destroy(messages[i]);
	}
	return chunk;
}

/* What has come already; if nothing has, the queue's event asks again. */
static void kafka_source_read(struct kafka_source *kafka)
{
	int max = kafka->source.consumer->batch_max;
	rd_kafka_message_t **messages = kafka_consumer(kafka->source.consumer)->messages;
	ssize_t count = rd_kafka_consume_batch_queue(kafka->queue, 0, messages, (size_t)max);

	if (count > 0)
		bus_source_read(&kafka->source, kafka_decode_all(kafka, messages, (int)count));
}

void kafka_read(struct bus_source *source)
{
	kafka_serve_later(kafka_bus(source->consumer->bus));
}

void kafka_consumer_serve(struct kafka_consumer *kafka)
{
	rd_kafka_message_t *message;

	if (!kafka->handle)
		return;
	while ((message = rd_kafka_consumer_poll(kafka->handle, 0))) {
		/* Records come by their partitions' queues. */
		assert(message->err);
		if (message->err == RD_KAFKA_RESP_ERR__FATAL)
			kafka_fatal(kafka->handle);
		log_event(LOG_INFO, "kafka_consumer", log_text("topic", kafka->consumer.topic_name),
			  log_text("error", rd_kafka_err2name(message->err)));
		rd_kafka_message_destroy(message);
	}
	for (struct bus_source *source = kafka->consumer.sources; source; source = source->next) {
		if (kafka_source(source)->queue && source->reading)
			kafka_source_read(kafka_source(source));
	}
}

/* --- life -------------------------------------------------------------------------------- */

struct bus_consumer *kafka_consume(struct bus *bus)
{
	struct kafka_consumer *kafka = calloc(1, sizeof(*kafka));

	assert(kafka);
	timer_init(&kafka->commit_soon, bus->loop, kafka_commit_now);
	kafka->probed_backlog = kafka->probed_dead = -1;
	return &kafka->consumer;
}

void kafka_start(struct bus_consumer *consumer)
{
	kafka_consumer_tick(kafka_consumer(consumer));
}

static bool kafka_topics_ready(const struct bus_consumer *consumer)
{
	bool ready = consumer->topic->ready;

	bus_topic_open(consumer->topic);
	for (int i = 0; i <= consumer->retries; i++) {
		bus_topic_open(consumer->next_topics[i]);
		ready = ready && consumer->next_topics[i]->ready;
	}
	return ready;
}

static void kafka_subscribe(struct kafka_consumer *kafka)
{
	const struct bus_consumer *consumer = &kafka->consumer;
	rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(4);
	rd_kafka_resp_err_t error;

	kafka->all = rd_kafka_topic_partition_list_new(16);
	rd_kafka_topic_partition_list_add(topics, consumer->topic_name, RD_KAFKA_PARTITION_UA);
	rd_kafka_topic_partition_list_add_range(kafka->all, consumer->topic_name, 0,
						consumer->topic->partitions - 1);
	for (int i = 0; i < consumer->retries; i++) {
		const struct bus_topic *topic = consumer->next_topics[i];

		rd_kafka_topic_partition_list_add(topics, topic->name, RD_KAFKA_PARTITION_UA);
		rd_kafka_topic_partition_list_add_range(kafka->all, topic->name, 0,
							topic->partitions - 1);
	}
	error = rd_kafka_subscribe(kafka->handle, topics);
	assert(!error);
	rd_kafka_topic_partition_list_destroy(topics);
}

static void kafka_consumer_connect(struct kafka_consumer *kafka)
{
	struct kafka_bus *bus = kafka_bus(kafka->consumer.bus);
	char group[2 * BUS_NAME_MAX], error[512];
	const char *const ours[] = {"group.id",
				    group,
				    "enable.auto.commit",
				    "false",
				    "enable.auto.offset.store",
				    "false",
				    "auto.offset.reset",
				    "earliest",
				    "partition.assignment.strategy",
				    "range",
				    "session.timeout.ms",
				    "6000",
				    "heartbeat.interval.ms",
				    "1500",
				    "fetch.wait.max.ms",
				    "500",
				    "fetch.error.backoff.ms",
				    "100",
				    "queued.max.messages.kbytes",
				    "16384",
				    NULL};
	rd_kafka_conf_t *conf;

	snprintf(group, sizeof(group), "%s.%s", kafka->consumer.topic_name, kafka->consumer.group);
	conf = kafka_config_conf(bus->config, ours);
	rd_kafka_conf_set_opaque(conf, kafka);
	rd_kafka_conf_set_rebalance_cb(conf, kafka_rebalanced);
	rd_kafka_conf_set_offset_commit_cb(conf, kafka_committed);
	kafka->handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof(error));
	if (!kafka->handle) {
		/* Properties that suit producers and not consumers; nothing that waiting would
		 * mend. */
		log_event(LOG_ERROR, "kafka_properties_refused", log_text("error", error));
		abort();
	}
	kafka->messages = calloc((size_t)kafka->consumer.batch_max, sizeof(rd_kafka_message_t *));
	assert(kafka->messages);
	rd_kafka_poll_set_consumer(kafka->handle);
	kafka->queue = rd_kafka_queue_get_consumer(kafka->handle);
	kafka_watch(bus, kafka->queue);
	kafka_subscribe(kafka);
}

void kafka_consumer_tick(struct kafka_consumer *kafka)
{
	if (!kafka->handle && !kafka->consumer.bus->closing && kafka_topics_ready(&kafka->consumer))
		kafka_consumer_connect(kafka);
}

bool kafka_consumer_close(struct kafka_consumer *kafka)
{
	if (!kafka->handle)
		return true;
	if (!kafka->closing) {
		rd_kafka_error_t *error;

		kafka_send_commit(kafka);
		if (kafka->committing)
			return false;
		kafka->closing = true;
		error = rd_kafka_consumer_close_queue(kafka->handle, kafka->queue);
		if (error) {
			rd_kafka_error_destroy(error);
			return true;
		}
	}
	return rd_kafka_consumer_closed(kafka->handle);
}

void kafka_consumer_free(struct kafka_consumer *kafka)
{
	struct bus_source *source;

	timer_stop(&kafka->commit_soon);
	while ((source = kafka->consumer.sources)) {
		kafka->consumer.sources = source->next;
		kafka_source_stop(kafka_source(source));
		bus_source_free(source);
		free(kafka_source(source));
	}
	if (kafka->handle) {
		rd_kafka_queue_io_event_enable(kafka->queue, -1, NULL, 0);
		rd_kafka_queue_destroy(kafka->queue);
		rd_kafka_destroy_flags(kafka->handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
		rd_kafka_topic_partition_list_destroy(kafka->all);
	}
	free(kafka->messages);
	free(kafka);
}
