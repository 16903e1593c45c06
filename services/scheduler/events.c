/* See events.h.
 *
 *     deliveries ──► by (topic, key) ──► JobsFired ──► bus ──► done, record by record
 *
 * A record that grows beyond RECORD_MAX is closed and another begun, so that no broker refuses it.
 */
#include "services/scheduler/events.h"

#include <assert.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MAX (512 << 10) /* bytes; Kafka's brokers take 1 MiB */
#define SLOTS 2048	       /* of a take's hash of groups: twice JOBS_MAX */

struct events {
	struct bus *bus;
};

/* A record in the making. */
struct group {
	const char *topic, *key;
	size_t size, count;
	Stampede__Events__V1__JobFired *jobs[JOBS_MAX];
	struct settlement *first, **end;
	struct group *next; /* in the order in which they were begun */
};

/* The groups of one take. */
struct groups {
	struct arena *arena;
	struct group *slots[SLOTS]; /* the open one of each topic and key */
	struct group *first, **end;
};

struct events *events_create(struct loop *loop, const struct events_options *options)
{
	struct events *events = calloc(1, sizeof(*events));
	struct bus_options bus = {.url = options->url,
				  .client_id = options->instance,
				  .metrics = options->metrics,
				  .state = options->up,
				  .self = options->self};

	assert(events);
	events->bus = bus_create(loop, &bus);
	if (!events->bus) {
		free(events);
		return NULL;
	}
	return events;
}

void events_close(struct events *events, void (*closed)(void *context), void *context)
{
	bus_close(events->bus, 4000, closed, context);
}

void events_destroy(struct events *events)
{
	if (!events)
		return;
	bus_destroy(events->bus);
	free(events);
}

bool events_up(const struct events *events)
{
	return bus_up(events->bus);
}

static void events_published(struct bus_publish *publish, enum status status)
{
	struct firing *firing = container_of(publish, struct firing, publish);

	firing->done(firing, status);
}

/* --- grouping -------------------------------------------------------------------------------- */

static struct group **groups_slot(struct groups *groups, const char *topic, const char *key)
{
	uint32_t hash = 2166136261; /* FNV-1a */

	for (const char *at = topic; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619;
	for (const char *at = key; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619;
	for (uint32_t slot = hash % SLOTS;; slot = (slot + 1) % SLOTS) {
		struct group *group = groups->slots[slot];

		if (!group || (!strcmp(group->key, key) && !strcmp(group->topic, topic)))
			return &groups->slots[slot];
	}
}

/* The open group that has room for `size` more bytes; a full one gives way to a new one. */
static struct group *groups_open(struct groups *groups, const char *topic, const char *key,
				 size_t size)
{
	struct group **slot = groups_slot(groups, topic, key), *group = *slot;

	if (group && group->size + size <= RECORD_MAX)
		return group;
	group = arena_alloc(groups->arena, sizeof(*group));
	group->topic = topic;
	group->key = key;
	group->size = group->count = 0;
	group->first = NULL;
	group->end = &group->first;
	group->next = NULL;
	*groups->end = group;
	groups->end = &group->next;
	*slot = group;
	return group;
}

static void groups_add(struct groups *groups, Stampede__Scheduler__V1__Job *job, int tries,
		       size_t size, struct settlement *settlement)
{
	const char *key = *job->key ? job->key : job->job_id;
	struct group *group = groups_open(groups, job->target->topic, key, size);
	Stampede__Events__V1__JobFired *fired = arena_alloc(groups->arena, sizeof(*fired));

	stampede__events__v1__job_fired__init(fired);
	fired->job = job;
	fired->tries = tries;
	group->jobs[group->count++] = fired;
	group->size += size;
	settlement->next = NULL;
	*group->end = settlement;
	group->end = &settlement->next;
}

/* --- firing ---------------------------------------------------------------------------------- */

static struct firing *firing_make(struct settlement *settlements,
				  void (*done)(struct firing *firing, enum status status),
				  void *context)
{
	struct firing *firing = calloc(1, sizeof(*firing));

	assert(firing);
	firing->settlements = settlements;
	firing->done = done;
	firing->context = context;
	return firing;
}

static void group_publish(struct bus *bus, struct arena *arena, const struct group *group,
			  struct firing *firing)
{
	Stampede__Events__V1__JobsFired fired;
	size_t size;
	uint8_t *value;

	stampede__events__v1__jobs_fired__init(&fired);
	fired.n_jobs = group->count;
	fired.jobs = (Stampede__Events__V1__JobFired **)group->jobs;
	size = stampede__events__v1__jobs_fired__get_packed_size(&fired);
	value = arena_alloc(arena, size);
	stampede__events__v1__jobs_fired__pack(&fired, value);
	firing->publish = (struct bus_publish){.topic = group->topic,
					       .key = group->key,
					       .key_size = strlen(group->key),
					       .value = value,
					       .value_size = size,
					       .done = events_published};
	bus_publish(bus, &firing->publish);
}

void events_fire(struct events *events, const char *queue, const struct delivery *deliveries,
		 size_t count, struct settlement **settlements,
		 void (*done)(struct firing *firing, enum status status), void *context)
{
	struct arena arena;
	struct groups *groups;

	assert(count <= JOBS_MAX);
	arena_init(&arena, NULL, 0);
	groups = arena_zalloc(&arena, sizeof(*groups));
	groups->arena = &arena;
	groups->end = &groups->first;
	for (size_t i = 0; i < count; i++) {
		const struct delivery *at = &deliveries[i];
		Stampede__Scheduler__V1__Job *job =
			record_read(&arena, queue, at->id, at->due_ms, at->record, at->record_size);

		if (job && job->target && *job->target->topic) {
			groups_add(groups, job, at->tries, at->record_size + 64, settlements[i]);
		} else {
			struct firing *firing = firing_make(settlements[i], done, context);

			settlements[i]->next = NULL;
			firing->done(firing, STATUS_DATA_LOSS);
		}
	}
	for (struct group *group = groups->first; group; group = group->next)
		group_publish(events->bus, &arena, group, firing_make(group->first, done, context));
	arena_reset(&arena);
}
