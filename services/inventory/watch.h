/* Who watches a sale's stock, on this instance; told by Redis pub/sub when any instance changed it.
 *
 *     a change ─► (at most every 50 ms a sale) PUBLISH ─► every instance with watchers reads the stock once ─► watchers
 */
#pragma once

#include "inventory/store.h"

struct watches;
struct watches *watches_create(struct inventory *inventory);
void watches_destroy(struct watches *watches);

/* The stock of this sale has changed here; others are told soon. */
void watches_changed(struct watches *watches, const char *sale_id);

/* One watcher: embedded by the call that waits. */
struct watcher {
	struct wait wait;
	struct watch *watch; /* NULL: not watching */
	struct watcher *next, **link;
	uint64_t seen; /* the version it was sent last; 0: none */
	bool waiting;
};
/* RESOURCE_EXHAUSTED: too many watchers. */
enum status watcher_start(struct watches *watches, struct watcher *watcher,
			  const char *sale_id) MUST_USE;
void watcher_stop(struct watcher *watcher);
/* A step that continues when there is a newer stock than the watcher has seen: at once (this round) if there
 * is one already. NOT_FOUND: no such sale. */
enum step watcher_next(struct watcher *watcher, struct call *call, call_then *then) MUST_USE;
/* The stock to send now; marks it as seen. */
const struct sale *watcher_stock(struct watcher *watcher);
/* Ends all waits, at drain. */
void watches_close(struct watches *watches);
