/* Lock.Release: give the lock up; the next in line has it at once.
 *
 * A release repeated because its answer was lost is told that the token does not hold the lock:
 * then the first one did its work.
 */
#include "services/lock/lock.h"

struct release {
	struct holding holding; /* set when released */
};

static enum step release_released(struct call *call, enum status status);

static enum step release_begin(struct call *call)
{
	const Stampede__Lock__V1__ReleaseRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	struct release *release = call_frame(call);

	if (!lock_name_valid(request->name))
		return call_refuse(call, "name", NAME_RULE);
	if (request->token <= 0)
		return call_refuse(call, "token", "must be the grant's");
	return store_release(lock->store, call, request->name, request->token, &release->holding,
			     release_released);
}

static enum step release_released(struct call *call, enum status status)
{
	const Stampede__Lock__V1__ReleaseRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	const struct release *release = call_frame(call);
	Stampede__Lock__V1__ReleaseResponse response;

	if (status != STATUS_OK)
		return lock_fail(call, status, "it is unknown whether the lock was released");
	if (!release->holding.yes)
		return lock_not_holder(call, request->name, request->token, &release->holding);
	lock->released->value++;
	stampede__lock__v1__release_response__init(&response);
	return call_reply(call, &response);
}

const struct method release_method = {
	.name = "Release", .begin = release_begin, .frame_size = sizeof(struct release)};
