/* The bus on Redis Streams: connection, topics, publishing. Consuming: bus_streams_consumer.c.
 *
 * Every publish is an XADD; those of a round leave in one write. While Redis is away they fail at
 * once. Keys of one partition share a hash tag, so that its scripts stay in one slot of a Redis
 * Cluster.
 */
#include "runtime/bus_streams.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"

struct streams_bus *streams_bus(struct bus *bus)
{
	return container_of(bus, struct streams_bus, bus);
}

/* --- topics ------------------------------------------------------------------------------ */

void streams_key(char key[STREAMS_KEY_MAX], const struct bus_topic *topic, int partition)
{
	if (topic->single)
		snprintf(key, STREAMS_KEY_MAX, "bus:{%s}", topic->name);
	else
		snprintf(key, STREAMS_KEY_MAX, "bus:{%s.%d}", topic->name, partition);
}

static void streams_topic_keys(struct streams_topic *streams)
{
	struct bus_topic *topic = streams->topic;

	streams->keys = realloc(streams->keys, (size_t)topic->partitions * STREAMS_KEY_MAX);
	assert(streams->keys);
	for (int i = 0; i < topic->partitions; i++)
		streams_key(streams->keys[i], topic, i);
}

static void streams_topic_found(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_topic *streams = container_of(op, struct streams_topic, op);
	struct bus_topic *topic = streams->topic;

	/* Nothing: ours is the number now. */
	if (status == STATUS_OK && reply->type == REDIS_REPLY_STRING) {
		int partitions = atoi(reply->str);

		if (partitions > 0 && partitions <= 1024)
			topic->partitions = partitions;
		else
			status = STATUS_INTERNAL;
	}
	if (status == STATUS_OK)
		streams_topic_keys(streams);
	bus_topic_opened(topic, status);
}

static void streams_open(struct bus_topic *topic)
{
	struct streams_topic *streams = topic->internal;
	char key[STREAMS_KEY_MAX + 16], partitions[16];
	const char *values[] = {"SET", key, partitions, "NX", "GET"};
	size_t sizes[] = {3, 0, 0, 2, 3};

	if (!streams) {
		streams = topic->internal = calloc(1, sizeof(*streams));
		assert(streams);
		streams->topic = topic;
	}
	if (topic->single) {
		streams_topic_keys(streams);
		bus_topic_opened(topic, STATUS_OK);
		return;
	}
	sizes[1] = (size_t)snprintf(key, sizeof(key), "bus:{%s}:partitions", topic->name);
	sizes[2] = (size_t)snprintf(partitions, sizeof(partitions), "%d", topic->partitions);
	streams->op = (struct redis_op){.done = streams_topic_found};
	redis_send(streams_bus(topic->bus)->redis, &streams->op,
		   (struct redis_args){5, values, sizes});
}

/* --- publishing -------------------------------------------------------------------------- */

struct streams_publish {
	struct redis_op op;
	struct bus_topic *topic;
	struct bus_publish *publish;
};

static void streams_published(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_publish *record = container_of(op, struct streams_publish, op);
	struct bus_topic *topic = record->topic;
	struct bus_publish *publish = record->publish;

	(void)reply;
	free(record);
	bus_published(topic, publish, status);
}

static void streams_publish(struct bus_topic *topic, struct bus_publish *publish,
			    const struct bus_message *message)
{
	const struct streams_topic *streams = topic->internal;
	struct streams_publish *record = malloc(sizeof(*record));
	const char *key =
		streams->keys[bus_partition(message->key, message->key_size, topic->partitions)];
	char trace[TRACE_TEXT_SIZE], attempt[16], due[24];
	const char *values[20] = {"XADD", key, "*", "k", message->key, "v", message->value};
	size_t sizes[20] = {4, strlen(key), 1, 1, message->key_size, 1, message->value_size};
	int count = 7;

	assert(record);
	if (message->trace) {
		trace_format(message->trace, trace);
		values[count] = "t", sizes[count++] = 1;
		values[count] = trace, sizes[count++] = TRACE_TEXT_SIZE - 1;
	}
	if (message->attempt) {
		values[count] = "a", sizes[count++] = 1;
		values[count] = attempt;
		sizes[count++] = (size_t)snprintf(attempt, sizeof(attempt), "%d", message->attempt);
		values[count] = "d", sizes[count++] = 1;
		values[count] = due;
		sizes[count++] = (size_t)snprintf(due, sizeof(due), "%" PRId64, message->due_ms);
		values[count] = "r", sizes[count++] = 1;
		values[count] = message->reason ? message->reason : "";
		sizes[count] = strlen(values[count]);
		count++;
	}
	for (int i = 0; i < count; i++) {
		if (!values[i])
			values[i] = "";
	}
	*record = (struct streams_publish){
		.op = {.done = streams_published}, .topic = topic, .publish = publish};
	redis_send(streams_bus(topic->bus)->redis, &record->op,
		   (struct redis_args){count, values, sizes});
}

/* --- the connection ---------------------------------------------------------------------- */

static void streams_connected(void *self, const char *run_id)
{
	struct streams_bus *streams = self;

	(void)run_id;
	bus_set_up(&streams->bus, true);
	for (struct bus_consumer *consumer = streams->bus.consumers; consumer;
	     consumer = consumer->next)
		streams_consumer_connected(consumer);
}

static void streams_disconnected(void *self)
{
	struct streams_bus *streams = self;

	/* It may come back empty: ask again how many partitions there are. */
	for (struct bus_topic *topic = streams->bus.topics; topic; topic = topic->next)
		topic->ready = topic->ready && topic->single;
	bus_set_up(&streams->bus, false);
}

/* All consumers' positions at a time: they share one write, and so one sync of Redis. */
static void streams_commit_all(struct timer *timer)
{
	struct streams_bus *streams = container_of(timer, struct streams_bus, commit_soon);

	for (struct bus_consumer *consumer = streams->bus.consumers; consumer;
	     consumer = consumer->next)
		streams_consumer_commit(consumer);
}

/* --- the end ----------------------------------------------------------------------------- */

/* One of the commands that a close waits for was answered. */
void streams_goodbye(struct streams_bus *streams)
{
	if (--streams->goodbyes == 0)
		bus_closed(&streams->bus);
}

static void streams_close(struct bus *bus)
{
	struct streams_bus *streams = streams_bus(bus);

	streams->goodbyes = 1;
	for (struct bus_consumer *consumer = bus->consumers; consumer; consumer = consumer->next)
		streams_consumer_close(consumer);
	streams_goodbye(streams);
}

static void streams_abort(struct bus *bus)
{
	struct streams_bus *streams = streams_bus(bus);

	bus->closing = bus->farewell = true;
	timer_stop(&streams->commit_soon);
	redis_destroy(streams->redis);
	streams->redis = NULL;
}

static void streams_destroy(struct bus *bus)
{
	struct streams_bus *streams = streams_bus(bus);
	struct bus_consumer *consumer;

	if (streams->redis)
		streams_abort(bus);
	while ((consumer = bus->consumers)) {
		bus->consumers = consumer->next;
		streams_consumer_free(consumer);
	}
	for (struct bus_topic *topic = bus->topics; topic; topic = topic->next) {
		struct streams_topic *internal = topic->internal;

		if (internal)
			free(internal->keys);
		free(internal);
	}
	bus_free_parts(bus);
	free(streams);
}

struct bus *bus_streams_create(struct loop *loop, const struct bus_options *options)
{
	static const struct bus_ops ops = {.open = streams_open,
					   .publish = streams_publish,
					   .consume = streams_consume,
					   .start = streams_start,
					   .read = streams_read,
					   .commit = streams_commit,
					   .leave = streams_leave,
					   .close = streams_close,
					   .abort = streams_abort,
					   .destroy = streams_destroy};
	struct streams_bus *streams = calloc(1, sizeof(*streams));

	assert(streams);
	bus_init(&streams->bus, &ops, loop, options);
	timer_init(&streams->commit_soon, loop, streams_commit_all);
	streams->redis = redis_create(
		loop, &(struct redis_options){.url = options->url,
					      /* Forwards and commits come on top. */
					      .in_flight_max = streams->bus.options.publish_max * 2,
					      .metrics = options->metrics,
					      .role = "bus",
					      .connected = streams_connected,
					      .disconnected = streams_disconnected,
					      .self = streams});
	if (!streams->redis) {
		bus_free_parts(&streams->bus);
		free(streams);
		return NULL;
	}
	return &streams->bus;
}
