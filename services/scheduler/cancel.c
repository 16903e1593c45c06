/* Scheduler.Cancel: take a job back, with a definite verdict.
 *
 *     begin ──► moved ──► reply
 *
 * move.lua removes a job that waits or is dead; one in flight stays, and the answer says until
 * when. When the outcome is unknown (UNAVAILABLE), asking again gives DONE or, if it was done,
 * UNKNOWN_OR_FIRED.
 */
#include "services/scheduler/scheduler.h"

struct cancel {
	struct moved moved; /* set when moved */
};

static enum step cancel_moved(struct call *call, enum status status);

static enum step cancel_begin(struct call *call)
{
	const Stampede__Scheduler__V1__CancelRequest *request = call_request(call);
	struct scheduler *scheduler = call_service(call);
	struct cancel *cancel = call_frame(call);
	struct queue *queue;

	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!job_id_valid(request->job_id))
		return call_refuse(call, "job_id", JOB_ID_RULE);
	queue = engine_queue(scheduler->engine, request->queue);
	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' is not served here", request->queue);
	return store_move(queue_store(queue), call, request->job_id, -1, &cancel->moved,
			  cancel_moved);
}

static enum step cancel_moved(struct call *call, enum status status)
{
	const struct cancel *cancel = call_frame(call);
	Stampede__Scheduler__V1__CancelResponse response;

	if (status != STATUS_OK)
		return scheduler_fail(call, status, "it is unknown whether the job was cancelled");
	stampede__scheduler__v1__cancel_response__init(&response);
	response.verdict = (Stampede__Scheduler__V1__Verdict)cancel->moved.verdict;
	if (cancel->moved.lease_ms)
		response.lease_expires_at =
			timestamp_make(call_arena(call), cancel->moved.lease_ms);
	return call_reply(call, &response);
}

const struct method cancel_method = {
	.name = "Cancel", .begin = cancel_begin, .frame_size = sizeof(struct cancel)};
