/* The bus on Kafka: the producer, the loop's side of librdkafka, the shutdown.
 *
 *     librdkafka's threads ─► queues ─► eventfd ─► loop: serve every queue until it is empty ─►
 * callbacks
 *
 * The producer is idempotent and waits for all replicas; a record it cannot bring within 10 s
 * fails. Its fatal errors end the process: librdkafka cannot go on after them, a new process can.
 */
#include "runtime/bus_kafka.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/log.h"

#define TICK_US 1000000
#define TICK_DOWN_US 200000
#define CLOSE_TICK_US 20000
#define PURGE_MS 1000

struct kafka_wake {
	uv_poll_t poll;
	int fd;
	struct kafka_bus *kafka;
};

struct kafka_bus *kafka_bus(struct bus *bus)
{
	return container_of(bus, struct kafka_bus, bus);
}

enum status kafka_status(rd_kafka_resp_err_t error)
{
	switch (error) {
	case RD_KAFKA_RESP_ERR_NO_ERROR:
		return STATUS_OK;
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
	case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
		return STATUS_INVALID_ARGUMENT;
	case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
	case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
		return STATUS_PERMISSION_DENIED;
	case RD_KAFKA_RESP_ERR__QUEUE_FULL:
		return STATUS_RESOURCE_EXHAUSTED;
	default:
		return STATUS_UNAVAILABLE;
	}
}

void kafka_fatal(rd_kafka_t *handle)
{
	char text[512];
	rd_kafka_resp_err_t error = rd_kafka_fatal_error(handle, text, sizeof(text));

	if (!error)
		return;
	log_event(LOG_ERROR, "kafka_fatal", log_text("code", rd_kafka_err2name(error)),
		  log_text("error", text));
	abort();
}

/* --- publishing -------------------------------------------------------------------------- */

static rd_kafka_headers_t *kafka_headers(const struct bus_message *message)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
	char text[TRACE_TEXT_SIZE];

	assert(headers);
	if (message->trace) {
		trace_format(message->trace, text);
		rd_kafka_header_add(headers, "traceparent", -1, text, TRACE_TEXT_SIZE - 1);
	}
	if (message->attempt) {
		snprintf(text, sizeof(text), "%d", message->attempt);
		rd_kafka_header_add(headers, "attempt", -1, text, -1);
		snprintf(text, sizeof(text), "%" PRId64, message->due_ms);
		rd_kafka_header_add(headers, "due", -1, text, -1);
		rd_kafka_header_add(headers, "reason", -1, message->reason ? message->reason : "",
				    -1);
	}
	return headers;
}

static void kafka_publish(struct bus_topic *topic, struct bus_publish *publish,
			  const struct bus_message *message)
{
	struct kafka_bus *kafka = kafka_bus(topic->bus);
	const struct kafka_topic *internal = topic->internal;
	rd_kafka_headers_t *headers =
		message->trace || message->attempt ? kafka_headers(message) : NULL;
	rd_kafka_vu_t arguments[] = {
		{.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = internal->handle},
		{.vtype = RD_KAFKA_VTYPE_PARTITION,
		 .u.i32 = bus_partition(message->key, message->key_size, topic->partitions)},
		{.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		{.vtype = RD_KAFKA_VTYPE_KEY,
		 .u.mem = {.ptr = (void *)message->key, .size = message->key_size}},
		{.vtype = RD_KAFKA_VTYPE_VALUE,
		 .u.mem = {.ptr = (void *)message->value, .size = message->value_size}},
		{.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = publish},
		{.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
	};
	size_t count = sizeof(arguments) / sizeof(arguments[0]) - (headers ? 0 : 1);
	rd_kafka_error_t *error;

	/* The report knows neither: `internal` and `next` are ours while it is under way. */
	publish->internal = topic;
	kafka->in_producer++;
	error = rd_kafka_produceva(kafka->producer, arguments, count);
	if (!error)
		return;
	kafka->in_producer--;
	if (headers)
		rd_kafka_headers_destroy(headers);
	topic->failed->value++;
	bus_refuse_later(topic->bus, publish, kafka_status(rd_kafka_error_code(error)));
	if (rd_kafka_error_is_fatal(error))
		kafka_fatal(kafka->producer);
	rd_kafka_error_destroy(error);
}

static void kafka_reported(struct kafka_bus *kafka, rd_kafka_event_t *event)
{
	const rd_kafka_message_t *message;

	while ((message = rd_kafka_event_message_next(event))) {
		struct bus_publish *publish = message->_private;
		struct bus_topic *topic = publish->internal;

		kafka->in_producer--;
		if (message->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
		    message->err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
			topic->ready = false; /* deleted under us: the next publish makes it anew */
		bus_published(topic, publish, kafka_status(message->err));
	}
}

/* --- events ------------------------------------------------------------------------------ */

static void kafka_failed(struct kafka_bus *kafka, rd_kafka_event_t *event)
{
	rd_kafka_resp_err_t error = rd_kafka_event_error(event);

	if (error == RD_KAFKA_RESP_ERR__FATAL)
		kafka_fatal(kafka->producer);
	else if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && !kafka->bus.farewell)
		bus_set_up(&kafka->bus, false);
}

static void kafka_serve_producer(struct kafka_bus *kafka, int wait_ms)
{
	rd_kafka_event_t *event;

	while ((event = rd_kafka_queue_poll(kafka->events, wait_ms))) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
			kafka_reported(kafka, event);
		else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			kafka_failed(kafka, event);
		rd_kafka_event_destroy(event);
	}
}

static void kafka_serve(struct loop_hook *hook)
{
	struct kafka_bus *kafka = container_of(hook, struct kafka_bus, serve);

	kafka_serve_producer(kafka, 0);
	for (struct bus_consumer *consumer = kafka->bus.consumers; consumer;
	     consumer = consumer->next)
		kafka_consumer_serve(kafka_consumer(consumer));
}

void kafka_serve_later(struct kafka_bus *kafka)
{
	loop_defer(kafka->bus.loop, LOOP_GATHER, &kafka->serve);
}

static void kafka_woken(uv_poll_t *poll, int status, int events)
{
	struct kafka_wake *wake = container_of(poll, struct kafka_wake, poll);
	uint64_t times;

	(void)status;
	(void)events;
	if (read(wake->fd, &times, sizeof(times)) < 0)
		return; /* somebody was faster */
	loop_busy(wake->kafka->bus.loop);
	kafka_serve_later(wake->kafka);
}

void kafka_watch(struct kafka_bus *kafka, rd_kafka_queue_t *queue)
{
	static const uint64_t once = 1;

	rd_kafka_queue_io_event_enable(queue, kafka->wake->fd, &once, sizeof(once));
}

static void kafka_close_step(struct kafka_bus *kafka);

static void kafka_tick(struct timer *timer)
{
	struct kafka_bus *kafka = container_of(timer, struct kafka_bus, tick);

	kafka_serve_later(kafka);
	if (kafka->bus.farewell) {
		kafka_close_step(kafka);
		return;
	}
	kafka_probe(kafka);
	for (struct bus_consumer *consumer = kafka->bus.consumers; consumer;
	     consumer = consumer->next)
		kafka_consumer_tick(kafka_consumer(consumer));
	timer_start_us(timer, kafka->bus.up ? TICK_US : TICK_DOWN_US);
}

void kafka_tick_soon(struct kafka_bus *kafka)
{
	if (!kafka->bus.farewell)
		timer_start_us(&kafka->tick, 0);
}

/* --- the end ----------------------------------------------------------------------------- */

static void kafka_close_step(struct kafka_bus *kafka)
{
	bool left = true;

	for (struct bus_consumer *consumer = kafka->bus.consumers; consumer;
	     consumer = consumer->next)
		left = kafka_consumer_close(kafka_consumer(consumer)) && left;
	if (left && !kafka->bus.is_closed)
		bus_closed(&kafka->bus);
	else if (!left)
		timer_start_us(&kafka->tick, CLOSE_TICK_US);
}

static void kafka_close(struct bus *bus)
{
	timer_start_us(&kafka_bus(bus)->tick, 0);
}

static void kafka_abort(struct bus *bus)
{
	struct kafka_bus *kafka = kafka_bus(bus);

	bus->closing = bus->farewell = true;
	timer_stop(&kafka->tick);
	rd_kafka_purge(kafka->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	for (int i = 0; kafka->in_producer && i < PURGE_MS / 10; i++)
		kafka_serve_producer(kafka, 10);
}

static void kafka_wake_closed(uv_handle_t *handle)
{
	free(container_of((uv_poll_t *)handle, struct kafka_wake, poll));
}

static void kafka_destroy(struct bus *bus)
{
	struct kafka_bus *kafka = kafka_bus(bus);
	struct bus_consumer *consumer;

	kafka_abort(bus);
	kafka_admin_destroy(kafka->admin);
	while ((consumer = bus->consumers)) {
		bus->consumers = consumer->next;
		kafka_consumer_free(kafka_consumer(consumer));
	}
	for (struct bus_topic *topic = bus->topics; topic; topic = topic->next) {
		struct kafka_topic *internal = topic->internal;

		if (topic->waiting)
			bus_topic_opened(topic, STATUS_UNAVAILABLE);
		if (internal)
			rd_kafka_topic_destroy(internal->handle);
		free(internal);
	}
	rd_kafka_queue_io_event_enable(kafka->events, -1, NULL, 0);
	rd_kafka_queue_destroy(kafka->events);
	rd_kafka_destroy(kafka->producer);
	uv_poll_stop(&kafka->wake->poll);
	close(kafka->wake->fd);
	uv_close((uv_handle_t *)&kafka->wake->poll, kafka_wake_closed);
	loop_defer_cancel(bus->loop, LOOP_GATHER, &kafka->serve);
	bus_free_parts(bus);
	kafka_config_free(kafka->config);
	free(kafka);
}

/* --- making it --------------------------------------------------------------------------- */

static bool kafka_producer_create(struct kafka_bus *kafka)
{
	static const char *const ours[] = {"enable.idempotence",
					   "true",
					   "acks",
					   "all",
					   "linger.ms",
					   "1",
					   "message.timeout.ms",
					   "10000",
					   "queue.buffering.max.messages",
					   "10000000",
					   NULL};
	rd_kafka_conf_t *conf = kafka_config_conf(kafka->config, ours);
	char error[512];

	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
	kafka->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
	if (kafka->producer)
		return true;
	/* Which properties clash; the text names them without their values. */
	log_event(LOG_ERROR, "kafka_properties_refused", log_text("error", error));
	rd_kafka_conf_destroy(conf);
	return false;
}

static void kafka_wake_create(struct kafka_bus *kafka)
{
	int failed;

	kafka->wake = calloc(1, sizeof(*kafka->wake));
	assert(kafka->wake);
	kafka->wake->kafka = kafka;
	kafka->wake->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert(kafka->wake->fd >= 0);
	failed = uv_poll_init(loop_uv(kafka->bus.loop), &kafka->wake->poll, kafka->wake->fd);
	assert(!failed);
	uv_poll_start(&kafka->wake->poll, UV_READABLE, kafka_woken);
}

struct bus *bus_kafka_create(struct loop *loop, const struct bus_options *options)
{
	static const struct bus_ops ops = {.open = kafka_open,
					   .publish = kafka_publish,
					   .consume = kafka_consume,
					   .start = kafka_start,
					   .read = kafka_read,
					   .commit = kafka_commit,
					   .leave = kafka_leave,
					   .close = kafka_close,
					   .abort = kafka_abort,
					   .destroy = kafka_destroy};
	struct kafka_bus *kafka = calloc(1, sizeof(*kafka));

	assert(kafka);
	bus_init(&kafka->bus, &ops, loop, options);
	kafka->config = kafka_config_create(options->url, kafka->bus.options.client_id);
	if (!kafka->config || !kafka_producer_create(kafka)) {
		kafka_config_free(kafka->config);
		bus_free_parts(&kafka->bus);
		free(kafka);
		return NULL;
	}
	kafka->serve.run = kafka_serve;
	timer_init(&kafka->tick, loop, kafka_tick);
	kafka_wake_create(kafka);
	kafka->events = rd_kafka_queue_get_main(kafka->producer);
	kafka_watch(kafka, kafka->events);
	kafka->admin = kafka_admin_create(kafka);
	timer_start_us(&kafka->tick, 0);
	return &kafka->bus;
}
