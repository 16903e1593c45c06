/* Scheduler.Acknowledge: end leased jobs for good.
 *
 *     begin ──► acknowledged ──► reply
 *
 * A receipt names one delivery; when its lease was lost, or it was acknowledged before, the answer
 * says false and nothing happens.
 */
#include "services/scheduler/scheduler.h"

struct acknowledge {
	struct receipt *receipts;
};

static enum step acknowledge_acknowledged(struct call *call, enum status status);

static enum step acknowledge_begin(struct call *call)
{
	const Stampede__Scheduler__V1__AcknowledgeRequest *request = call_request(call);
	struct scheduler *scheduler = call_service(call);
	struct acknowledge *acknowledge = call_frame(call);
	struct queue *queue;

	if (!queue_name_valid(request->queue))
		return call_refuse(call, "queue", QUEUE_NAME_RULE);
	if (!request->n_receipts || request->n_receipts > JOBS_MAX)
		return call_refuse(call, "receipts", "must be 1 to %d receipts", JOBS_MAX);
	acknowledge->receipts =
		arena_zalloc(call_arena(call), request->n_receipts * sizeof(struct receipt));
	for (size_t i = 0; i < request->n_receipts; i++) {
		struct receipt *receipt = &acknowledge->receipts[i];

		if (!receipt_read(request->receipts[i], &receipt->delivery, &receipt->id))
			return call_refuse(call, arena_printf(call_arena(call), "receipts[%zu]", i),
					   "is not a receipt that Lease gave");
	}
	queue = engine_queue(scheduler->engine, request->queue);
	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' is not served here", request->queue);
	return store_acknowledge(queue_store(queue), call, acknowledge->receipts,
				 request->n_receipts, acknowledge_acknowledged);
}

static enum step acknowledge_acknowledged(struct call *call, enum status status)
{
	const Stampede__Scheduler__V1__AcknowledgeRequest *request = call_request(call);
	const struct acknowledge *acknowledge = call_frame(call);
	Stampede__Scheduler__V1__AcknowledgeResponse response;

	if (status != STATUS_OK)
		return scheduler_fail(call, status, "it is unknown what was acknowledged");
	stampede__scheduler__v1__acknowledge_response__init(&response);
	response.n_acknowledged = request->n_receipts;
	response.acknowledged =
		arena_alloc(call_arena(call), request->n_receipts * sizeof(protobuf_c_boolean));
	for (size_t i = 0; i < request->n_receipts; i++)
		response.acknowledged[i] = acknowledge->receipts[i].settled;
	return call_reply(call, &response);
}

const struct method acknowledge_method = {.name = "Acknowledge",
					  .begin = acknowledge_begin,
					  .frame_size = sizeof(struct acknowledge),
					  .request_max = 256 << 10};
