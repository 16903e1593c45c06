/* Lock.TryAcquire: take the lock if it is free now and nobody waits; say who holds it otherwise. */
#include "services/lock/lock.h"

struct try_acquire {
	struct holding holding; /* set when tried */
};

static enum step try_acquire_tried(struct call *call, enum status status);

static enum step try_acquire_begin(struct call *call)
{
	const Stampede__Lock__V1__TryAcquireRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	struct try_acquire *try = call_frame(call);
	struct asker asker = {
		.name = request->name, .owner = request->owner, .request_id = request->request_id};
	const char *field, *wrong = lock_asker_wrong(&asker, &field);

	if (wrong)
		return call_refuse(call, field, "%s", wrong);
	if (!lock_lease_read(request->lease, &asker.lease_ms))
		return call_refuse(call, "lease", LEASE_RULE);
	return store_try_acquire(lock->store, call, &asker, &try->holding, try_acquire_tried);
}

static enum step try_acquire_tried(struct call *call, enum status status)
{
	const Stampede__Lock__V1__TryAcquireRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	const struct try_acquire *try = call_frame(call);
	Stampede__Lock__V1__TryAcquireResponse response;

	if (status != STATUS_OK)
		return lock_fail(call, status, "it is unknown whether the lock was acquired");
	stampede__lock__v1__try_acquire_response__init(&response);
	response.acquired = try->holding.yes;
	response.grant = lock_grant(call_arena(call), request->name, &try->holding);
	(response.acquired ? lock->granted : lock->refused)->value++;
	return call_reply(call, &response);
}

const struct method try_acquire_method = {
	.name = "TryAcquire", .begin = try_acquire_begin, .frame_size = sizeof(struct try_acquire)};
