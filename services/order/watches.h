/* Who watches which order: a table by order id, woken when this process changes the order. */
#pragma once

#include "runtime/call.h"

struct watches;
struct metrics;

/* In the frame of the watching call, which takes it out before it ends. */
struct watch {
	struct watch *next;
	int64_t order_id;
	struct wait wait;
	bool changed; /* since it was looked at last */
};

struct watches *watches_create(int watches_max, struct metrics *metrics);
void watches_destroy(struct watches *watches);
/* False when there are watches_max already. */
bool watches_add(struct watches *watches, struct watch *watch, int64_t order_id) MUST_USE;
void watches_remove(struct watches *watches, struct watch *watch);
void watches_notify(struct watches *watches, int64_t order_id);
/* Continues when the order has changed, at once if it has already. UNAVAILABLE when the
 * process drains. */
enum step watches_wait(struct watches *watches, struct call *call, struct watch *watch,
		       call_then *then) MUST_USE;
/* The process drains: every wait ends, now and later. */
void watches_close(struct watches *watches);
