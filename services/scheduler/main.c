/* stampede-scheduler: jobs that fire on time and are never lost. See README.md.
 *
 *     RPCs ──► store (Redis) ◄──► engine ──► events (bus), callbacks (RPC), leasers
 *
 * Redis or the bus may be away, at the start or later: RPCs answer UNAVAILABLE, the engine goes on
 * by itself when they are back.
 */
#include "services/scheduler/scheduler.h"

#include <assert.h>
#include <stdlib.h>

#define STOP_GRACE_MS 4000 /* with what the bus may take, below STAMPEDE_STOP_MAX */
#define RETRY_AFTER_MS 500

static const struct setting settings[] = {
	SETTING_URL(struct scheduler_settings, redis, "STAMPEDE_REDIS", "redis://127.0.0.1:6379",
		    "where jobs are kept"),
	SETTING_URL(struct scheduler_settings, bus, "STAMPEDE_BUS", "",
		    "kafka://host:port,… or a Redis URL; unset: STAMPEDE_REDIS"),
	SETTING_DURATION(struct scheduler_settings, lease_ms, "STAMPEDE_SCHEDULER_LEASE", "30s",
			 500, 600000, "lease of jobs this process delivers itself"),
	SETTING_DURATION(struct scheduler_settings, retry_ms, "STAMPEDE_SCHEDULER_RETRY", "1s", 10,
			 600000, "wait before a failed callback's second try; doubled each time"),
	SETTING_DURATION(struct scheduler_settings, retry_max_ms, "STAMPEDE_SCHEDULER_RETRY_MAX",
			 "5m", 10, 86400000, "longest wait between tries"),
	SETTING_NUMBER(struct scheduler_settings, callbacks_max, "STAMPEDE_SCHEDULER_CALLBACKS_MAX",
		       "64", 1, 10000, "callbacks under way, for each queue"),
	SETTING_NUMBER(struct scheduler_settings, channels_max, "STAMPEDE_SCHEDULER_CHANNELS_MAX",
		       "64", 1, 1000, "callback addresses kept connected"),
	SETTING_NUMBER(struct scheduler_settings, queues_max, "STAMPEDE_SCHEDULER_QUEUES_MAX",
		       "1000", 1, 100000, "queues this process serves"),
	SETTING_END};

enum step scheduler_fail(struct call *call, enum status status, const char *what)
{
	if (status == STATUS_UNAVAILABLE || status == STATUS_RESOURCE_EXHAUSTED)
		return call_fail_retry(call, status, RETRY_AFTER_MS,
				       "%s: the store cannot be reached; try again", what);
	if (status == STATUS_DATA_LOSS)
		return call_fail(call, status, "%s: the job's record is damaged", what);
	return call_fail(call, status, "%s", what);
}

/* --- what the parts report ------------------------------------------------------------------- */

static void scheduler_redis_up(void *self, bool up)
{
	struct scheduler *scheduler = self;

	health_set(scheduler->redis_part, up, up ? "" : "not connected");
	if (up && scheduler->engine)
		engine_reconnected(scheduler->engine);
}

static void scheduler_bus_up(void *self, bool up)
{
	struct scheduler *scheduler = self;

	health_set(scheduler->bus_part, up, up ? "" : "not connected");
	if (up && scheduler->engine)
		engine_bus_up(scheduler->engine);
}

static void scheduler_heard(void *self, struct store_queue *queue, const struct heads *heads)
{
	engine_heard(((struct scheduler *)self)->engine, queue, heads);
}

static void scheduler_unsure(void *self, struct store_queue *queue)
{
	engine_unsure(((struct scheduler *)self)->engine, queue);
}

static void scheduler_noticed(void *self, const char *queue)
{
	struct scheduler *scheduler = self;

	engine_look(scheduler->engine, queue);
	if (!queue)
		store_list(scheduler->store);
}

static void scheduler_listed(void *self, const char *queue)
{
	(void)engine_queue(((struct scheduler *)self)->engine, queue);
}

/* --- life ------------------------------------------------------------------------------------ */

static bool scheduler_make_parts(struct scheduler *scheduler, struct process *process)
{
	const struct scheduler_settings *set = process->settings;
	struct store_options store = {.url = set->redis,
				      .instance = process->instance,
				      .metrics = process->metrics,
				      .up = scheduler_redis_up,
				      .heard = scheduler_heard,
				      .unsure = scheduler_unsure,
				      .noticed = scheduler_noticed,
				      .listed = scheduler_listed,
				      .self = scheduler};
	struct events_options events = {.url = set->bus && *set->bus ? set->bus : set->redis,
					.instance = process->instance,
					.metrics = process->metrics,
					.up = scheduler_bus_up,
					.self = scheduler};
	struct engine_options engine = {.metrics = process->metrics,
					.queues_max = (int)set->queues_max,
					.callbacks_max = (int)set->callbacks_max,
					.lease_ms = set->lease_ms,
					.retry_ms = set->retry_ms,
					.retry_max_ms = set->retry_max_ms};

	scheduler->store = store_create(process->loop, &store);
	scheduler->events = events_create(process->loop, &events);
	if (!scheduler->store || !scheduler->events)
		return false;
	scheduler->callbacks =
		callbacks_create(process->loop, process->metrics, (int)set->channels_max);
	engine.store = scheduler->store;
	engine.events = scheduler->events;
	engine.callbacks = scheduler->callbacks;
	scheduler->engine = engine_create(process->loop, &engine);
	return true;
}

static bool scheduler_start(struct process *process)
{
	static const struct method *const methods[] = {
		&publish_method, &publish_batch_method, &cancel_method,	     &reschedule_method,
		&get_job_method, &lease_method,		&acknowledge_method, NULL};
	struct scheduler *scheduler = calloc(1, sizeof(*scheduler));

	assert(scheduler);
	process->self = scheduler;
	scheduler->process = process;
	scheduler->redis_part = health_part(process->health, "redis");
	scheduler->bus_part = health_part(process->health, "bus");
	scheduler->service = (struct service){
		&stampede__scheduler__v1__scheduler_service__descriptor, methods, scheduler};
	if (!scheduler_make_parts(scheduler, process))
		return false;
	process_serve(process, &scheduler->service);
	return true;
}

static void scheduler_closed(void *context)
{
	process_stopped(context);
}

static void scheduler_settled(void *context)
{
	struct process *process = context;
	struct scheduler *scheduler = process->self;

	events_close(scheduler->events, scheduler_closed, process);
}

static void scheduler_stop(struct process *process)
{
	struct scheduler *scheduler = process->self;

	engine_stop(scheduler->engine, STOP_GRACE_MS, scheduler_settled, process);
}

static void scheduler_free(struct process *process)
{
	struct scheduler *scheduler = process->self;

	if (!scheduler)
		return;
	/* What ends here still reports to the engine, so that goes last. */
	callbacks_destroy(scheduler->callbacks);
	events_destroy(scheduler->events);
	store_destroy(scheduler->store);
	engine_destroy(scheduler->engine);
	free(scheduler);
}

int main(int argc, char **argv)
{
	static const struct process_spec spec = {.name = "scheduler",
						 .grpc_port = 7004,
						 .message_max = 4 << 20,
						 .settings = settings,
						 .settings_size = sizeof(struct scheduler_settings),
						 .start = scheduler_start,
						 .stop = scheduler_stop,
						 .free = scheduler_free};

	return process_main(argc, argv, &spec);
}
