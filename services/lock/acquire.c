/* Lock.Acquire: take the lock, waiting in arrival order.
 *
 *     begin ──► acquired ──► reply
 *
 * Whoever leaves (deadline, disconnect) is out of the line at once. When the outcome is unknown
 * (UNAVAILABLE) the same request gets the same grant, or its place in line.
 */
#include "services/lock/lock.h"

struct acquire {
	struct holding holding; /* set when acquired */
};

static enum step acquire_acquired(struct call *call, enum status status);

static enum step acquire_begin(struct call *call)
{
	const Stampede__Lock__V1__AcquireRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	struct acquire *acquire = call_frame(call);
	struct asker asker = {
		.name = request->name, .owner = request->owner, .request_id = request->request_id};
	const char *field, *wrong = lock_asker_wrong(&asker, &field);

	if (wrong)
		return call_refuse(call, field, "%s", wrong);
	if (!lock_lease_read(request->lease, &asker.lease_ms))
		return call_refuse(call, "lease", LEASE_RULE);
	return waiters_acquire(lock->waiters, call, &asker, &acquire->holding, acquire_acquired);
}

static enum step acquire_acquired(struct call *call, enum status status)
{
	const Stampede__Lock__V1__AcquireRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	const struct acquire *acquire = call_frame(call);
	Stampede__Lock__V1__AcquireResponse response;

	if (status == STATUS_DEADLINE_EXCEEDED)
		return call_fail(call, status, "lock '%s' was not free in time", request->name);
	if (status == STATUS_ABORTED)
		return call_fail_reason(call, status, "ASKED_AGAIN",
					"request '%s' of owner '%s' was sent again and waits there",
					request->request_id, request->owner);
	if (status != STATUS_OK)
		return lock_fail(call, status, "it is unknown whether the lock was acquired");
	lock->granted->value++;
	stampede__lock__v1__acquire_response__init(&response);
	response.grant = lock_grant(call_arena(call), request->name, &acquire->holding);
	return call_reply(call, &response);
}

const struct method acquire_method = {.name = "Acquire",
				      .begin = acquire_begin,
				      .frame_size = sizeof(struct acquire),
				      .flags = METHOD_WAITS,
				      .deadline_default_ms = 30000};
