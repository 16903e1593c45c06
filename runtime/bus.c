/* The bus's front: topics, limits, and the order of a shutdown. See bus.h, and bus_delivery.c for
 * consuming.
 *
 *     bus_publish() ─► topic ready? ─yes─► the implementation publishes ─► bus_published() ─► done
 *                          └─no─► waits, copied, while the implementation opens the topic
 *
 * A topic that cannot be opened fails whatever waits for it; the next publish tries anew.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus_internal.h"
#include "runtime/log.h"

struct bus_waiting {
	struct bus_waiting *next;
	struct bus_publish *publish;
	struct bus_message message;
	struct trace trace;
	char bytes[]; /* key, value, reason */
};

struct bus *bus_create(struct loop *loop, const struct bus_options *options)
{
	if (strncmp(options->url, "kafka://", 8) == 0)
		return bus_kafka_create(loop, options);
	return bus_streams_create(loop, options);
}

static void bus_refuse(struct loop_hook *hook);
static void bus_grace_over(struct timer *timer);

void bus_init(struct bus *bus, const struct bus_ops *ops, struct loop *loop,
	      const struct bus_options *options)
{
	bus->ops = ops;
	bus->loop = loop;
	bus->options = *options;
	bus->options.url = strdup(options->url);
	bus->options.client_id = strdup(options->client_id ? options->client_id : "stampede");
	if (bus->options.partitions <= 0)
		bus->options.partitions = 4;
	if (bus->options.publish_max <= 0)
		bus->options.publish_max = 100000;
	bus->refused_end = &bus->refused;
	bus->refuse.run = bus_refuse;
	timer_init(&bus->grace, loop, bus_grace_over);
}

/* What bus_init() and the functions below made; the implementation frees the rest. */
void bus_free_parts(struct bus *bus)
{
	struct bus_topic *topic;

	timer_stop(&bus->grace);
	bus->closed = NULL;
	bus_refuse(&bus->refuse);
	loop_defer_cancel(bus->loop, LOOP_GATHER, &bus->refuse);
	while ((topic = bus->topics)) {
		bus->topics = topic->next;
		assert(!topic->waiting);
		free(topic);
	}
	free((char *)bus->options.url);
	free((char *)bus->options.client_id);
}

void bus_destroy(struct bus *bus)
{
	if (bus)
		bus->ops->destroy(bus);
}

bool bus_up(const struct bus *bus)
{
	return bus->up;
}

void bus_set_up(struct bus *bus, bool up)
{
	if (bus->up == up)
		return;
	bus->up = up;
	log_event(up ? LOG_INFO : LOG_WARN, up ? "bus_up" : "bus_down",
		  log_text("url", log_url(bus->options.url)));
	if (bus->options.state)
		bus->options.state(bus->options.self, up);
}

int bus_partition(const void *key, size_t key_size, int partitions)
{
	const uint8_t *bytes = key;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < key_size; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (int)(hash % (uint32_t)partitions);
}

/* --- topics ------------------------------------------------------------------------------ */

struct bus_topic *bus_topic(struct bus *bus, const char *name, bool single)
{
	struct bus_topic *topic;
	char labels[BUS_NAME_MAX + 16];

	for (topic = bus->topics; topic; topic = topic->next) {
		if (strcmp(topic->name, name) == 0)
			return topic;
	}
	topic = calloc(1, sizeof(*topic));
	assert(topic && strlen(name) < sizeof(topic->name));
	topic->bus = bus;
	strcpy(topic->name, name);
	topic->single = single;
	topic->partitions = single ? 1 : bus->options.partitions;
	topic->waiting_end = &topic->waiting;
	snprintf(labels, sizeof(labels), "topic=\"%s\"", name);
	topic->published = metrics_counter(bus->options.metrics, "stampede_bus_published_total",
					   "Records the bus confirmed", labels);
	topic->failed = metrics_counter(bus->options.metrics, "stampede_bus_publish_failed_total",
					"Records the bus did not confirm", labels);
	topic->next = bus->topics;
	bus->topics = topic;
	return topic;
}

void bus_topic_open(struct bus_topic *topic)
{
	if (topic->ready || topic->opening)
		return;
	topic->opening = true;
	topic->bus->ops->open(topic);
}

/* Keeps a copy until the topic is ready. */
static void bus_topic_wait(struct bus_topic *topic, struct bus_publish *publish,
			   const struct bus_message *message)
{
	size_t reason_size = message->reason ? strlen(message->reason) + 1 : 0;
	struct bus_waiting *waiting =
		malloc(sizeof(*waiting) + message->key_size + message->value_size + reason_size);
	char *bytes;

	assert(waiting);
	waiting->publish = publish;
	waiting->message = *message;
	waiting->next = NULL;
	bytes = waiting->bytes;
	if (message->key_size)
		memcpy(bytes, message->key, message->key_size);
	waiting->message.key = bytes;
	bytes += message->key_size;
	if (message->value_size)
		memcpy(bytes, message->value, message->value_size);
	waiting->message.value = bytes;
	bytes += message->value_size;
	if (message->reason)
		waiting->message.reason = memcpy(bytes, message->reason, reason_size);
	if (message->trace) {
		waiting->trace = *message->trace;
		waiting->message.trace = &waiting->trace;
	}
	*topic->waiting_end = waiting;
	topic->waiting_end = &waiting->next;
}

void bus_refuse_later(struct bus *bus, struct bus_publish *publish, enum status status)
{
	publish->internal = (void *)(intptr_t)status;
	publish->next = NULL;
	*bus->refused_end = publish;
	bus->refused_end = &publish->next;
	loop_defer(bus->loop, LOOP_GATHER, &bus->refuse);
}

/* Forwards have no topic of the caller's. */
static bool bus_is_forward(const struct bus_publish *publish)
{
	return !publish->topic;
}

void bus_topic_opened(struct bus_topic *topic, enum status status)
{
	struct bus *bus = topic->bus;
	struct bus_waiting *waiting, *next = topic->waiting;

	topic->opening = false;
	topic->ready = status == STATUS_OK;
	topic->waiting = NULL;
	topic->waiting_end = &topic->waiting;
	while ((waiting = next)) {
		next = waiting->next;
		if (topic->ready) {
			bus->ops->publish(topic, waiting->publish, &waiting->message);
		} else {
			/* Perhaps still inside bus_publish(). */
			topic->failed->value++;
			bus_refuse_later(bus, waiting->publish, status);
		}
		free(waiting);
	}
}

/* --- publishing -------------------------------------------------------------------------- */

/* What the hook does at the end of a round: refusals, and the last word of a close. */
static void bus_refuse(struct loop_hook *hook)
{
	struct bus *bus = container_of(hook, struct bus, refuse);
	struct bus_publish *publish, *next = bus->refused;

	bus->refused = NULL;
	bus->refused_end = &bus->refused;
	while ((publish = next)) {
		enum status status = (enum status)(intptr_t)publish->internal;

		next = publish->next;
		if (!bus_is_forward(publish))
			bus->under_way--;
		publish->done(publish, status);
	}
	if (bus->closing)
		bus_close_check(bus);
	if (bus->is_closed && bus->closed) {
		void (*closed)(void *context) = bus->closed;

		bus->closed = NULL;
		closed(bus->closed_context); /* may free the bus */
	}
}

void bus_published(struct bus_topic *topic, struct bus_publish *publish, enum status status)
{
	struct bus *bus = topic->bus;

	if (status == STATUS_OK)
		topic->published->value++;
	else
		topic->failed->value++;
	if (!bus_is_forward(publish))
		bus->under_way--;
	publish->done(publish, status);
	if (bus->closing)
		bus_close_check(bus);
}

void bus_send(struct bus_topic *topic, struct bus_publish *publish,
	      const struct bus_message *message)
{
	if (topic->ready) {
		topic->bus->ops->publish(topic, publish, message);
		return;
	}
	bus_topic_wait(topic, publish, message);
	bus_topic_open(topic);
}

void bus_publish(struct bus *bus, struct bus_publish *publish)
{
	const struct bus_message message = {.key = publish->key,
					    .key_size = publish->key_size,
					    .value = publish->value,
					    .value_size = publish->value_size,
					    .trace = publish->trace};

	assert(publish->topic && publish->done);
	bus->under_way++;
	if (bus->closing)
		bus_refuse_later(bus, publish, STATUS_UNAVAILABLE);
	else if (bus->under_way > bus->options.publish_max)
		bus_refuse_later(bus, publish, STATUS_RESOURCE_EXHAUSTED);
	else
		bus_send(bus_topic(bus, publish->topic, false), publish, &message);
}

/* A publish that a call waits for; it outlives the call. */
struct call_publish {
	struct bus_publish publish;
	struct wait wait;
};

static void call_published(struct bus_publish *publish, enum status status)
{
	struct call_publish *waiting = container_of(publish, struct call_publish, publish);

	wait_finish(&waiting->wait, status);
	free(waiting);
}

enum step call_publish(struct call *call, struct bus *bus, const char *topic, const char *key,
		       size_t key_size, const void *value, size_t value_size, call_then *then)
{
	struct call_publish *waiting = calloc(1, sizeof(*waiting));

	assert(waiting);
	waiting->publish = (struct bus_publish){.topic = topic,
						.key = key,
						.key_size = key_size,
						.value = value,
						.value_size = value_size,
						.trace = call_trace(call),
						.done = call_published};
	bus_publish(bus, &waiting->publish);
	return call_await(call, &waiting->wait, NULL, then);
}

/* --- closing ----------------------------------------------------------------------------- */

void bus_closed(struct bus *bus)
{
	/* By the hook: an implementation may be in the middle of something. */
	bus->is_closed = true;
	timer_stop(&bus->grace);
	loop_defer(bus->loop, LOOP_GATHER, &bus->refuse);
}

static void bus_grace_over(struct timer *timer)
{
	struct bus *bus = container_of(timer, struct bus, grace);

	log_event(LOG_WARN, "bus_close_forced", log_number("unconfirmed", bus->under_way));
	bus->farewell = true;
	bus->ops->abort(bus);
	bus_closed(bus);
}

void bus_close_check(struct bus *bus)
{
	if (!bus->closing || bus->farewell || bus->under_way || bus->refused)
		return;
	for (struct bus_consumer *consumer = bus->consumers; consumer; consumer = consumer->next) {
		for (struct bus_source *source = consumer->sources; source; source = source->next) {
			if (!bus_source_quiet(source))
				return;
		}
	}
	bus->farewell = true;
	bus->ops->close(bus);
}

void bus_close(struct bus *bus, int64_t grace_ms, void (*closed)(void *context), void *context)
{
	assert(!bus->closing);
	bus->closing = true;
	bus->closed = closed;
	bus->closed_context = context;
	timer_start_us(&bus->grace, grace_ms * 1000);
	/* By the hook: `closed` must not run inside this call. */
	loop_defer(bus->loop, LOOP_GATHER, &bus->refuse);
}
