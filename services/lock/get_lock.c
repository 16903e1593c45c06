/* Lock.GetLock: who holds the lock, and how many wait. */
#include "services/lock/lock.h"

struct get_lock {
	struct holding holding; /* set when got */
};

static enum step get_lock_got(struct call *call, enum status status);

static enum step get_lock_begin(struct call *call)
{
	const Stampede__Lock__V1__GetLockRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	struct get_lock *get = call_frame(call);

	if (!lock_name_valid(request->name))
		return call_refuse(call, "name", NAME_RULE);
	return store_get(lock->store, call, request->name, &get->holding, get_lock_got);
}

static enum step get_lock_got(struct call *call, enum status status)
{
	const Stampede__Lock__V1__GetLockRequest *request = call_request(call);
	const struct get_lock *get = call_frame(call);
	Stampede__Lock__V1__GetLockResponse response;

	if (status != STATUS_OK)
		return lock_fail(call, status, "the lock was not read");
	stampede__lock__v1__get_lock_response__init(&response);
	response.grant = lock_grant(call_arena(call), request->name, &get->holding);
	response.waiters = get->holding.waiters;
	return call_reply(call, &response);
}

const struct method get_lock_method = {
	.name = "GetLock", .begin = get_lock_begin, .frame_size = sizeof(struct get_lock)};
