/* Scheduler.Reschedule: move a job to another time, with a definite verdict.
 *
 *     begin ──► moved ──► reply
 *
 * A time in the past means now. A dead job starts anew, its tries forgotten. May be repeated.
 */
#include "services/scheduler/scheduler.h"

#include "runtime/clock.h"

struct reschedule {
	struct moved moved; /* set when moved */
};

static enum step reschedule_moved(struct call *call, enum status status);

static enum step reschedule_begin(struct call *call)
{
	const Stampede__Scheduler__V1__RescheduleRequest *request = call_request(call);
	struct scheduler *scheduler = call_service(call);
	struct reschedule *reschedule = call_frame(call);
	struct queue *queue;
	int64_t due_ms;

	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!job_id_valid(request->job_id))
		return call_refuse(call, "job_id", JOB_ID_RULE);
	if (!request->due_at || !timestamp_read(request->due_at, &due_ms))
		return call_refuse(call, "due_at", "must be a valid time");
	if (due_ms > clock_wall_ms() + FUTURE_MAX_MS)
		return call_refuse(call, "due_at", "must be within 400 days");
	queue = engine_queue(scheduler->engine, request->queue);
	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' is not served here", request->queue);
	return store_move(queue_store(queue), call, request->job_id, due_ms, &reschedule->moved,
			  reschedule_moved);
}

static enum step reschedule_moved(struct call *call, enum status status)
{
	const struct reschedule *reschedule = call_frame(call);
	Stampede__Scheduler__V1__RescheduleResponse response;

	if (status != STATUS_OK)
		return scheduler_fail(call, status, "it is unknown whether the job was moved");
	stampede__scheduler__v1__reschedule_response__init(&response);
	response.verdict = (Stampede__Scheduler__V1__Verdict)reschedule->moved.verdict;
	if (reschedule->moved.lease_ms)
		response.lease_expires_at =
			timestamp_make(call_arena(call), reschedule->moved.lease_ms);
	return call_reply(call, &response);
}

const struct method reschedule_method = {
	.name = "Reschedule", .begin = reschedule_begin, .frame_size = sizeof(struct reschedule)};
