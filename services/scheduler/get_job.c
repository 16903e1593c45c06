/* Scheduler.GetJob: a job as it stands. NOT_FOUND when it is over, or never was. */
#include "services/scheduler/scheduler.h"

struct get_job {
	struct found found; /* set when found */
};

static enum step get_job_found(struct call *call, enum status status);

static enum step get_job_begin(struct call *call)
{
	const Stampede__Scheduler__V1__GetJobRequest *request = call_request(call);
	struct scheduler *scheduler = call_service(call);
	struct get_job *get = call_frame(call);
	struct queue *queue;

	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!job_id_valid(request->job_id))
		return call_refuse(call, "job_id", JOB_ID_RULE);
	queue = engine_queue(scheduler->engine, request->queue);
	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' is not served here", request->queue);
	return store_get(queue_store(queue), call, request->job_id, &get->found, get_job_found);
}

static enum step get_job_found(struct call *call, enum status status)
{
	const Stampede__Scheduler__V1__GetJobRequest *request = call_request(call);
	const struct get_job *get = call_frame(call);
	Stampede__Scheduler__V1__GetJobResponse response;

	if (status != STATUS_OK)
		return scheduler_fail(call, status, "the job was not read");
	if (!get->found.job)
		return call_fail(call, STATUS_NOT_FOUND,
				 "queue '%s' has no job '%s': it is over, or never was",
				 request->queue, request->job_id);
	stampede__scheduler__v1__get_job_response__init(&response);
	response.job = get->found.job;
	response.status = (Stampede__Scheduler__V1__JobStatus)get->found.status;
	response.tries = get->found.tries;
	return call_reply(call, &response);
}

const struct method get_job_method = {
	.name = "GetJob", .begin = get_job_begin, .frame_size = sizeof(struct get_job)};
