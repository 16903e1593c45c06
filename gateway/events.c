/* Server streams as server-sent events.
 *
 *     start ─► (nothing yet) ─┬─ a message, or half a second ─► open: "event: message" …, a comment each 15 s
 *                             └─ an error ─► answered with its HTTP status, as any other
 *     open ─► the stream ends ─► "event: end", or "event: error" with google.rpc.Status
 *          ─► the client leaves, or reads too slowly ─► forgotten
 */
#include "gateway/events.h"

#include <assert.h>
#include <stdlib.h>

#include "gateway/watches.h"

#define OPEN_AFTER_US 500000
#define KEEP_ALIVE_US 15000000

struct event_stream {
	struct watcher watcher;
	struct visit visit;
	struct timer timer;
	bool open;
	struct event_stream *next, *previous;
};

struct events {
	struct gateway *gateway;
	struct event_stream ring;
	struct gauge *clients;
};

static void stream_free(struct event_stream *stream)
{
	stream->visit.gateway->events->clients->value--;
	stream->next->previous = stream->previous;
	stream->previous->next = stream->next;
	timer_stop(&stream->timer);
	watches_leave(&stream->watcher);
	free(stream);
}

static void stream_gone(struct http_exchange *exchange, void *context)
{
	(void)exchange;
	stream_free(context);
}

static void stream_close(struct event_stream *stream, const char *event, size_t size)
{
	if (event)
		(void)http_stream_write(stream->visit.exchange, event, size); /* it ends anyway */
	http_stream_end(stream->visit.exchange);
	stream_free(stream);
}

static void stream_open(struct event_stream *stream)
{
	static const char hello[] = "retry: 1000\n\n";

	if (stream->open)
		return;
	stream->open = true;
	http_add_header(stream->visit.exchange, "Cache-Control", "no-cache");
	http_add_header(stream->visit.exchange, "X-Accel-Buffering", "no");
	http_stream_begin(stream->visit.exchange, "text/event-stream");
	(void)http_stream_write(stream->visit.exchange, hello, sizeof(hello) - 1); /* it is empty */
	timer_start_us(&stream->timer, KEEP_ALIVE_US);
}

/* Who reads too slowly loses the stream; EventSource connects again and gets the present state. */
static void stream_write(struct event_stream *stream, const char *text, size_t size)
{
	if (!http_stream_write(stream->visit.exchange, text, size))
		stream_close(stream, NULL, 0);
	else
		timer_start_us(&stream->timer, KEEP_ALIVE_US);
}

static void stream_message(struct watcher *watcher, struct watch *watch)
{
	struct event_stream *stream = container_of(watcher, struct event_stream, watcher);
	const char *event;
	size_t size;

	stream_open(stream);
	event = watch_event(watch, &size);
	stream_write(stream, event, size);
}

static void stream_timer(struct timer *timer)
{
	struct event_stream *stream = container_of(timer, struct event_stream, timer);

	if (stream->open)
		stream_write(stream, ":\n\n", 3);
	else
		stream_open(stream);
}

static void stream_failed(struct event_stream *stream, const struct rpc_error *error)
{
	struct arena *arena = http_arena(stream->visit.exchange);
	int64_t retry_us;
	struct buffer json = visit_error_json(stream->visit.gateway, arena, error, &retry_us);
	struct buffer event;
	bool good;

	buffer_init(&event, arena, json.size + 64, SIZE_MAX);
	good = buffer_text(&event, "event: error\ndata: ") &&
	       buffer_append(&event, json.bytes, json.size) && buffer_text(&event, "\n\n");
	(void)good;
	stream_close(stream, (char *)event.bytes, event.size);
}

static void stream_ended(struct watcher *watcher, const struct rpc_error *error)
{
	struct event_stream *stream = container_of(watcher, struct event_stream, watcher);
	static const char end[] = "event: end\ndata: {}\n\n";

	if (error->status != STATUS_OK && !stream->open) {
		visit_answer_error(&stream->visit, error);
		stream_free(stream);
	} else if (error->status != STATUS_OK) {
		stream_failed(stream, error);
	} else {
		stream_open(stream);
		stream_close(stream, end, sizeof(end) - 1);
	}
}

void events_start(const struct visit *visit, const uint8_t *request, size_t size)
{
	struct events *events = visit->gateway->events;
	struct event_stream *stream = calloc(1, sizeof(*stream));

	assert(stream);
	stream->visit = *visit;
	stream->watcher.message = stream_message;
	stream->watcher.ended = stream_ended;
	stream->next = events->ring.next;
	stream->previous = &events->ring;
	stream->next->previous = stream->previous->next = stream;
	events->clients->value++;
	timer_init(&stream->timer, visit->gateway->loop, stream_timer);
	timer_start_us(&stream->timer, OPEN_AFTER_US);
	http_set_context(visit->exchange, stream, stream_gone);
	if (watches_join(visit->gateway->watches, visit->route, request, size, &stream->watcher))
		return;
	visit_refuse_retry(visit, STATUS_RESOURCE_EXHAUSTED, 1000000,
			   "too many different streams are being watched");
	stream_free(stream);
}

/* --- life ----------------------------------------------------------------------------------------- */

struct events *events_create(struct gateway *gateway)
{
	struct events *events = calloc(1, sizeof(*events));

	assert(events);
	events->gateway = gateway;
	events->ring.next = events->ring.previous = &events->ring;
	events->clients = metrics_gauge(gateway->process->metrics, "stampede_gateway_event_streams",
					"HTTP clients that watch a stream.", NULL);
	return events;
}

void events_quiesce(struct events *events)
{
	static const struct rpc_error leaving = {STATUS_UNAVAILABLE, "the gateway is being stopped",
						 NULL, 0};

	for (struct event_stream *stream = events->ring.next, *next; stream != &events->ring;
	     stream = next) {
		next = stream->next;
		watches_leave(&stream->watcher);
		stream_ended(&stream->watcher, &leaving);
	}
}

void events_destroy(struct events *events)
{
	free(events);
}
