/* The bus: due jobs go out as JobsFired, one record for each topic and key of a take. */
#pragma once

#include "runtime/bus.h"
#include "services/scheduler/store.h"

struct events;

struct events_options {
	const char *url, *instance;
	struct metrics *metrics;
	void (*up)(void *self, bool up);
	void *self;
};
/* NULL, with the reason logged, when the URL is malformed. */
struct events *events_create(struct loop *loop, const struct events_options *options);
void events_close(struct events *events, void (*closed)(void *context), void *context);
void events_destroy(struct events *events);
bool events_up(const struct events *events);

/* One record under way: the deliveries it carries wait for the bus's word. */
struct firing {
	struct bus_publish publish;	/* its topic, key and value are gone once it is under way */
	struct settlement *settlements; /* the engine's */
	void *context;
	void (*done)(struct firing *firing, enum status status); /* owns the firing again */
};

/* Groups the jobs and publishes them in the order in which they are due. `settlements` has one
 * entry for each delivery; each record's entries come back with its firing. A delivery that is no
 * job comes back in a firing of its own with STATUS_DATA_LOSS, at once. */
void events_fire(struct events *events, const char *queue, const struct delivery *deliveries,
		 size_t count, struct settlement **settlements,
		 void (*done)(struct firing *firing, enum status status), void *context);
