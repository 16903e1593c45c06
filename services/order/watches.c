/* See watches.h. A chained hash table of fixed size; watches are bounded, so chains stay short. */
#include "services/order/watches.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/metrics.h"

#define BUCKETS 4096 /* a power of two */

struct watches {
	struct watch *buckets[BUCKETS];
	int count, max;
	bool closing;
	struct gauge *gauge;
};

static struct watch **watches_bucket(struct watches *watches, int64_t order_id)
{
	uint64_t mixed = (uint64_t)order_id * 0x9E3779B97F4A7C15ull;

	return &watches->buckets[mixed >> 52];
}

struct watches *watches_create(int watches_max, struct metrics *metrics)
{
	struct watches *watches = calloc(1, sizeof(*watches));

	assert(watches);
	watches->max = watches_max;
	watches->gauge =
		metrics_gauge(metrics, "stampede_order_watches", "WatchOrder streams open.", NULL);
	return watches;
}

void watches_destroy(struct watches *watches)
{
	free(watches);
}

bool watches_add(struct watches *watches, struct watch *watch, int64_t order_id)
{
	struct watch **bucket = watches_bucket(watches, order_id);

	if (watches->count == watches->max)
		return false;
	watch->order_id = order_id;
	watch->next = *bucket;
	*bucket = watch;
	watches->gauge->value = ++watches->count;
	return true;
}

void watches_remove(struct watches *watches, struct watch *watch)
{
	struct watch **at = watches_bucket(watches, watch->order_id);

	while (*at != watch)
		at = &(*at)->next;
	*at = watch->next;
	watches->gauge->value = --watches->count;
}

void watches_notify(struct watches *watches, int64_t order_id)
{
	struct watch *watch, *next;

	if (!watches->count || watches->closing)
		return;
	for (watch = *watches_bucket(watches, order_id); watch; watch = next) {
		next = watch->next;
		if (watch->order_id != order_id || watch->changed)
			continue;
		watch->changed = true;
		/* Only begins to read: it takes no other watch out. */
		wait_finish(&watch->wait, STATUS_OK);
	}
}

enum step watches_wait(struct watches *watches, struct call *call, struct watch *watch,
		       call_then *then)
{
	enum step step = call_await(call, &watch->wait, NULL, then);

	if (watches->closing)
		wait_finish_later(&watch->wait, STATUS_UNAVAILABLE);
	else if (watch->changed)
		wait_finish_later(&watch->wait, STATUS_OK);
	return step;
}

void watches_close(struct watches *watches)
{
	watches->closing = true;
	for (int i = 0; i < BUCKETS; i++)
		for (struct watch *watch = watches->buckets[i]; watch; watch = watch->next)
			wait_finish_later(&watch->wait, STATUS_UNAVAILABLE);
}
