/* Scheduler.Lease: hand due jobs of a pull queue out, oldest due first; wait for the first.
 *
 *     begin ──► leased ──► reply       (max_wait, or the deadline: an empty reply)
 *
 * Callers of one instance are served in the order in which they came. Whoever leaves while jobs are
 * on their way to him gives them back at once.
 */
#include "services/scheduler/scheduler.h"

#define JOBS_AT_ONCE_MAX 1000
#define WAIT_MIN_MS 50 /* for one round trip to Redis */

struct lease {
	struct wait wait;
	struct leaser leaser;
	struct timer patience; /* max_wait */
	struct call *call;
	Stampede__Scheduler__V1__LeaseResponse response; /* filled when leased */
};

static enum step lease_leased(struct call *call, enum status status);

static void lease_forget(struct lease *lease)
{
	timer_stop(&lease->patience);
	leaser_forget(&lease->leaser);
}

static void lease_abandoned(struct wait *wait)
{
	lease_forget(container_of(wait, struct lease, wait));
}

static void lease_patience_ended(struct timer *timer)
{
	struct lease *lease = container_of(timer, struct lease, patience);

	lease_forget(lease);
	wait_finish(&lease->wait, STATUS_OK);
}

static bool lease_add(struct lease *lease, const struct delivery *delivery, int64_t leases_end_ms)
{
	const Stampede__Scheduler__V1__LeaseRequest *request = call_request(lease->call);
	struct arena *arena = call_arena(lease->call);
	Stampede__Scheduler__V1__LeasedJob *leased = arena_alloc(arena, sizeof(*leased));

	stampede__scheduler__v1__leased_job__init(leased);
	leased->job = record_read(arena, request->queue, delivery->id, delivery->due_ms,
				  delivery->record, delivery->record_size);
	if (!leased->job)
		return false;
	leased->receipt = receipt_make(arena, delivery->number, delivery->id);
	leased->tries = delivery->tries;
	leased->lease_expires_at = timestamp_make(arena, leases_end_ms);
	lease->response.jobs[lease->response.n_jobs++] = leased;
	return true;
}

static void lease_arrived(struct leaser *leaser, enum status status,
			  const struct delivery *deliveries, size_t count, int64_t leases_end_ms)
{
	struct lease *lease = container_of(leaser, struct lease, leaser);

	timer_stop(&lease->patience);
	lease->response.jobs =
		arena_alloc(call_arena(lease->call), (count + 1) * sizeof(*lease->response.jobs));
	for (size_t i = 0; i < count && status == STATUS_OK; i++) {
		if (!lease_add(lease, &deliveries[i], leases_end_ms))
			status = STATUS_DATA_LOSS;
	}
	wait_finish(&lease->wait, status);
}

/* What is wrong with the request; NULL: nothing. */
static const char *lease_read(const Stampede__Scheduler__V1__LeaseRequest *request,
			      struct leaser *leaser, int64_t *ret_wait_ms, const char **ret_field)
{
	leaser->lease_ms = LEASE_DEFAULT_MS;
	leaser->jobs_max = request->jobs_max ? (size_t)request->jobs_max : 1;
	*ret_wait_ms = -1;
	*ret_field = "queue";
	if (!queue_name_valid(request->queue))
		return QUEUE_NAME_RULE;
	*ret_field = "jobs_max";
	if (request->jobs_max < 0 || request->jobs_max > JOBS_AT_ONCE_MAX)
		return "must be 0 to 1000";
	*ret_field = "lease";
	if (request->lease && (!duration_read(request->lease, &leaser->lease_ms) ||
			       leaser->lease_ms < LEASE_MIN_MS || leaser->lease_ms > LEASE_MAX_MS))
		return "must be 100 ms to 1 h";
	*ret_field = "max_wait";
	if (request->max_wait && !duration_read(request->max_wait, ret_wait_ms))
		return "must be a valid duration";
	return NULL;
}

static enum step lease_begin(struct call *call)
{
	const Stampede__Scheduler__V1__LeaseRequest *request = call_request(call);
	struct scheduler *scheduler = call_service(call);
	struct lease *lease = call_frame(call);
	const char *wrong, *field;
	struct queue *queue;
	int64_t wait_ms;

	wrong = lease_read(request, &lease->leaser, &wait_ms, &field);
	if (wrong)
		return call_refuse(call, field, "%s", wrong);
	queue = engine_queue(scheduler->engine, request->queue);
	if (!queue)
		return call_fail_reason(call, STATUS_RESOURCE_EXHAUSTED, "TOO_MANY_QUEUES",
					"queue '%s' is not served here", request->queue);
	lease->call = call;
	lease->leaser.leased = lease_arrived;
	stampede__scheduler__v1__lease_response__init(&lease->response);
	timer_init(&lease->patience, call_loop(call), lease_patience_ended);
	queue_lease(queue, &lease->leaser);
	/* What is due now is found even by a caller who does not want to wait. */
	if (wait_ms >= 0 && wait_ms < LEASE_MAX_MS)
		timer_start_us(&lease->patience,
			       (wait_ms > WAIT_MIN_MS ? wait_ms : WAIT_MIN_MS) * 1000);
	return call_await(call, &lease->wait, lease_abandoned, lease_leased);
}

static enum step lease_leased(struct call *call, enum status status)
{
	struct lease *lease = call_frame(call);

	if (status == STATUS_DEADLINE_EXCEEDED || status == STATUS_OK)
		return call_reply(call, &lease->response);
	return scheduler_fail(call, status, "nothing was leased");
}

const struct method lease_method = {.name = "Lease",
				    .begin = lease_begin,
				    .frame_size = sizeof(struct lease),
				    .flags = METHOD_WAITS,
				    .deadline_default_ms = 30000};
