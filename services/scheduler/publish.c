/* Scheduler.Publish and PublishBatch: keep jobs until they are due.
 *
 *     begin ──► remembered (a queue's first time only) ──► published ──► reply
 *
 * publish.lua keeps all jobs or none. A repeat is answered alike; an id that stands for another job
 * is ALREADY_EXISTS. When the outcome is unknown (UNAVAILABLE) the same request may be sent again.
 */
#include "services/scheduler/scheduler.h"

struct publish {
	struct store_queue *queue;
	struct record *records;
	size_t count;
	bool batch;
	struct published published; /* set when published */
};

static enum step publish_queue(struct call *call, const char *name);
static enum step publish_remembered(struct call *call, enum status status);
static enum step publish_published(struct call *call, enum status status);
static enum step publish_reply(struct call *call);

static enum step publish_begin(struct call *call)
{
	const Stampede__Scheduler__V1__PublishRequest *request = call_request(call);
	struct publish *publish = call_frame(call);
	struct fault fault;

	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!request->job)
		return call_refuse(call, "job", "must be set");
	publish->count = 1;
	publish->records = arena_alloc(call_arena(call), sizeof(struct record));
	if (!record_make(call_arena(call), request->job, request->delay, request->queue, "job.",
			 publish->records, &fault))
		return call_refuse(call, fault.field, "%s", fault.text);
	return publish_queue(call, request->queue);
}

static enum step publish_batch_begin(struct call *call)
{
	const Stampede__Scheduler__V1__PublishBatchRequest *request = call_request(call);
	struct publish *publish = call_frame(call);

	publish->batch = true;
	publish->count = request->n_jobs;
	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!publish->count || publish->count > JOBS_MAX)
		return call_refuse(call, "jobs", "must be 1 to %d jobs", JOBS_MAX);
	publish->records = arena_alloc(call_arena(call), publish->count * sizeof(struct record));
	for (size_t i = 0; i < publish->count; i++) {
		struct fault fault;
		char prefix[32];

		snprintf(prefix, sizeof(prefix), "jobs[%zu].", i);
		if (!record_make(call_arena(call), request->jobs[i], NULL, request->queue, prefix,
				 &publish->records[i], &fault))
			return call_refuse(call, fault.field, "%s", fault.text);
	}
	return publish_queue(call, request->queue);
}

static enum step publish_queue(struct call *call, const char *name)
{
	struct scheduler *scheduler = call_service(call);
	struct publish *publish = call_frame(call);
	struct queue *queue = engine_queue(scheduler->engine, name);

	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' would be one too many", name);
	publish->queue = queue_store(queue);
	if (!publish->queue->known) {
		publish->queue->users++;
		return store_remember(publish->queue, call, publish_remembered);
	}
	return store_publish(publish->queue, call, publish->records, publish->count,
			     &publish->published, publish_published);
}

static enum step publish_remembered(struct call *call, enum status status)
{
	struct publish *publish = call_frame(call);

	publish->queue->users--;
	if (status != STATUS_OK)
		return scheduler_fail(call, status, "nothing was published");
	publish->queue->known = true;
	return store_publish(publish->queue, call, publish->records, publish->count,
			     &publish->published, publish_published);
}

static enum step publish_published(struct call *call, enum status status)
{
	struct publish *publish = call_frame(call);

	if (status != STATUS_OK)
		return scheduler_fail(call, status, "it is unknown whether this was published");
	if (publish->published.conflict >= 0)
		return call_fail_reason(call, STATUS_ALREADY_EXISTS, "JOB_EXISTS",
					"job_id '%s' stands for a job with other content",
					publish->records[publish->published.conflict].id);
	return publish_reply(call);
}

static enum step publish_reply(struct call *call)
{
	const struct publish *publish = call_frame(call);
	Stampede__Scheduler__V1__PublishBatchResponse batch;
	Stampede__Scheduler__V1__PublishResponse response;

	if (!publish->batch) {
		stampede__scheduler__v1__publish_response__init(&response);
		response.job_id = (char *)publish->records[0].id;
		response.due_at = timestamp_make(call_arena(call), publish->published.due_ms);
		return call_reply(call, &response);
	}
	stampede__scheduler__v1__publish_batch_response__init(&batch);
	batch.n_job_ids = publish->count;
	batch.job_ids = arena_alloc(call_arena(call), publish->count * sizeof(char *));
	for (size_t i = 0; i < publish->count; i++)
		batch.job_ids[i] = (char *)publish->records[i].id;
	return call_reply(call, &batch);
}

const struct method publish_method = {.name = "Publish",
				      .begin = publish_begin,
				      .frame_size = sizeof(struct publish),
				      .request_max = PAYLOAD_MAX + (8 << 10)};

const struct method publish_batch_method = {.name = "PublishBatch",
					    .begin = publish_batch_begin,
					    .frame_size = sizeof(struct publish),
					    .request_max = 4 << 20};
