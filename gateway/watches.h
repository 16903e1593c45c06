/* Server streams, shared: all who ask for the same stream with the same request hang on one call.
 *
 * That is right because our streams tell a state (first as it is, then at each change): who joins later gets the last
 * message at once. So a million buyers on a sale's page cost its service one stream a gateway.
 */
#pragma once

#include "gateway/gateway.h"
#include "runtime/channel.h"

struct watches;
struct watch;

/* Embedded by who watches. */
struct watcher {
	void (*message)(struct watcher *watcher, struct watch *watch);
	/* Once, at the end, unless it has left before. It is off the list already. */
	void (*ended)(struct watcher *watcher, const struct rpc_error *error);
	struct watch *watch; /* NULL: watches nothing */
	struct watcher *next, *previous;
};

struct watches *watches_create(struct gateway *gateway);
/* Every watcher is told the end first. */
void watches_destroy(struct watches *watches);

/* False when there are too many streams. The last message, if there is one, is given at once, inside this call. */
bool watches_join(struct watches *watches, const struct edge_route *route, const uint8_t *request,
		  size_t size, struct watcher *watcher) MUST_USE;
/* Nothing happens when it watches nothing. */
void watches_leave(struct watcher *watcher);
int watches_count(const struct watches *watches);

/* The last message: its bytes, and as an SSE event in JSON, made once for all. */
const uint8_t *watch_bytes(const struct watch *watch, size_t *ret_size);
const char *watch_event(struct watch *watch, size_t *ret_size);
