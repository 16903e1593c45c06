/* Shared streams: see watches.h.
 *
 *     join: first ─► call starts ─► message ─► each watcher ─► … ─► ended ─► each watcher
 *           later ─► last message                 the last leaves ─► cancelled
 */
#include "gateway/watches.h"

#include <assert.h>
#include <stdlib.h>

#include "gateway/backends.h"

#define TABLE_SIZE 4096
#define DEADLINE_US INT64_C(3500000000) /* below the services' own maximum of an hour */
#define EVENT_MAX (16 << 20)

struct watch {
	struct rpc_stream stream;
	struct watches *owner;
	struct watch *next, **link; /* in the table; NULL link: nobody may join any more */
	const struct edge_route *route;
	uint8_t *request;
	size_t request_size;
	struct watcher ring;	/* its watchers */
	struct watcher *cursor; /* the next to be told, while a message is given out */
	uint8_t *bytes;		/* the last message */
	size_t size, room;
	bool has_message;
	struct arena arena;
	struct buffer event; /* of the last message; size 0: not made yet */
};

struct watches {
	struct gateway *gateway;
	struct watch *table[TABLE_SIZE];
	int count;
};

static struct watch **place_of(struct watches *watches, const struct edge_route *route,
			       const uint8_t *request, size_t size)
{
	uint32_t hash = 2166136261u ^ (uint32_t)route->route->index;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ request[i]) * 16777619u;
	return &watches->table[(hash ^ hash >> 15) % TABLE_SIZE];
}

static void watch_unlink(struct watch *watch)
{
	if (!watch->link)
		return;
	*watch->link = watch->next;
	if (watch->next)
		watch->next->link = watch->link;
	watch->link = NULL;
}

static void watch_free(struct watch *watch)
{
	watch_unlink(watch);
	watch->owner->count--;
	rpc_stream_release(&watch->stream);
	arena_reset(&watch->arena);
	free(watch->request);
	free(watch->bytes);
	free(watch);
}

/* --- the stream ----------------------------------------------------------------------------------- */

static void watch_keep(struct watch *watch, grpc_slice message)
{
	size_t size = GRPC_SLICE_LENGTH(message);

	if (size > watch->room) {
		free(watch->bytes);
		watch->bytes = malloc(size);
		assert(watch->bytes);
		watch->room = size;
	}
	if (size)
		memcpy(watch->bytes, GRPC_SLICE_START_PTR(message), size);
	watch->size = size;
	watch->has_message = true;
	watch->event.size = 0;
	arena_reset(&watch->arena);
}

static void watch_message(struct rpc_stream *stream, grpc_slice message)
{
	struct watch *watch = container_of(stream, struct watch, stream);

	watch_keep(watch, message);
	for (watch->cursor = watch->ring.next; watch->cursor != &watch->ring;) {
		struct watcher *watcher = watch->cursor;

		watch->cursor = watcher->next;
		watcher->message(watcher, watch);
	}
	watch->cursor = NULL;
	rpc_stream_next(stream);
}

static void watcher_unlink(struct watcher *watcher)
{
	struct watch *watch = watcher->watch;

	if (watch->cursor == watcher)
		watch->cursor = watcher->next;
	watcher->next->previous = watcher->previous;
	watcher->previous->next = watcher->next;
	watcher->watch = NULL;
}

static void watch_done(struct rpc_stream *stream)
{
	struct watch *watch = container_of(stream, struct watch, stream);

	watch_unlink(watch); /* who joins now gets a new stream */
	while (watch->ring.next != &watch->ring) {
		struct watcher *watcher = watch->ring.next;

		watcher_unlink(watcher);
		watcher->ended(watcher, &stream->error);
	}
	watch_free(watch);
}

/* --- joining and leaving -------------------------------------------------------------------------- */

static struct watch *watch_find(struct watch *watch, const struct edge_route *route,
				const uint8_t *request, size_t size)
{
	for (; watch; watch = watch->next) {
		if (watch->route == route && watch->request_size == size &&
		    (!size || memcmp(watch->request, request, size) == 0))
			return watch;
	}
	return NULL;
}

static struct watch *watch_open(struct watches *watches, struct watch **place,
				const struct edge_route *route, const uint8_t *request, size_t size)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	assert(watch);
	watch->request = malloc(size + 1);
	assert(watch->request);
	if (size)
		memcpy(watch->request, request, size);
	watch->request_size = size;
	watch->owner = watches;
	watch->route = route;
	watch->ring.next = watch->ring.previous = &watch->ring;
	watch->next = *place;
	watch->link = place;
	if (watch->next)
		watch->next->link = &watch->next;
	*place = watch;
	watches->count++;
	arena_init(&watch->arena, NULL, 0);
	watch->stream.method = route->method;
	watch->stream.request = grpc_slice_from_copied_buffer((char *)watch->request, size);
	watch->stream.deadline_us = loop_now_us(watches->gateway->loop) + DEADLINE_US;
	watch->stream.message = watch_message;
	watch->stream.done = watch_done;
	rpc_stream_start(&watch->stream);
	return watch;
}

bool watches_join(struct watches *watches, const struct edge_route *route, const uint8_t *request,
		  size_t size, struct watcher *watcher)
{
	struct watch **place = place_of(watches, route, request, size);
	struct watch *watch = watch_find(*place, route, request, size);

	assert(!watcher->watch);
	if (!watch) {
		if (watches->count >= watches->gateway->settings->watches_max)
			return false;
		watch = watch_open(watches, place, route, request, size);
	}
	watcher->watch = watch;
	watcher->next = &watch->ring;
	watcher->previous = watch->ring.previous;
	watcher->next->previous = watcher->previous->next = watcher;
	if (watch->has_message)
		watcher->message(watcher, watch);
	return true;
}

void watches_leave(struct watcher *watcher)
{
	struct watch *watch = watcher->watch;

	if (!watch)
		return;
	watcher_unlink(watcher);
	if (watch->ring.next != &watch->ring)
		return;
	watch_unlink(watch);
	rpc_stream_cancel(&watch->stream);
}

/* --- messages ------------------------------------------------------------------------------------- */

const uint8_t *watch_bytes(const struct watch *watch, size_t *ret_size)
{
	*ret_size = watch->size;
	return watch->bytes;
}

const char *watch_event(struct watch *watch, size_t *ret_size)
{
	const struct gateway *gateway = watch->owner->gateway;
	struct transcode_error error;
	struct buffer *out = &watch->event;

	if (!out->size) {
		buffer_init(out, &watch->arena, 1024, EVENT_MAX);
		if (!buffer_text(out, "event: message\ndata: ") ||
		    !wire_to_json(gateway->schema, watch->route->route->response,
				  &gateway->transcoding, watch->bytes, watch->size, out, &error) ||
		    !buffer_text(out, "\n\n")) {
			out->size = 0;
			if (!buffer_text(out, ": a message that cannot be shown\n\n"))
				out->size = 0;
		}
	}
	*ret_size = out->size;
	return (char *)out->bytes;
}

/* --- life ----------------------------------------------------------------------------------------- */

struct watches *watches_create(struct gateway *gateway)
{
	struct watches *watches = calloc(1, sizeof(*watches));

	assert(watches);
	watches->gateway = gateway;
	return watches;
}

/* After the channels: that has ended every stream. */
void watches_destroy(struct watches *watches)
{
	if (!watches)
		return;
	assert(!watches->count);
	free(watches);
}

int watches_count(const struct watches *watches)
{
	return watches->count;
}
