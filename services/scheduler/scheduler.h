/* What the files of the scheduler share: its parts, its settings, its methods. */
#pragma once

#include "runtime/process.h"
#include "services/scheduler/callbacks.h"
#include "services/scheduler/engine.h"
#include "services/scheduler/events.h"
#include "services/scheduler/store.h"

struct scheduler_settings {
	const char *redis, *bus;
	int64_t lease_ms; /* of what this process delivers itself */
	int64_t retry_ms; /* before a failed callback's second try; then doubled */
	int64_t retry_max_ms;
	int64_t callbacks_max; /* under way, for each queue */
	int64_t channels_max;  /* addresses of callbacks kept connected */
	int64_t queues_max;
};

struct scheduler {
	struct store *store;
	struct events *events;
	struct callbacks *callbacks;
	struct engine *engine;
	struct health_part *redis_part, *bus_part;
	struct service service;
	struct process *process;
};

extern const struct method publish_method, publish_batch_method, cancel_method, reschedule_method,
	get_job_method, lease_method, acknowledge_method;

/* Redis is away, or the like: nothing is known to have happened, the same request may come again.
 */
enum step scheduler_fail(struct call *call, enum status status, const char *what) MUST_USE;
