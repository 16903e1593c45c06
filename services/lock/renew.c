/* Lock.Renew: start the lease anew, from now. May be repeated. */
#include "services/lock/lock.h"

struct renew {
	struct holding holding; /* set when renewed */
};

static enum step renew_renewed(struct call *call, enum status status);

static enum step renew_begin(struct call *call)
{
	const Stampede__Lock__V1__RenewRequest *request = call_request(call);
	struct lock *lock = call_service(call);
	struct renew *renew = call_frame(call);
	int64_t lease_ms;

	if (!lock_name_valid(request->name))
		return call_refuse(call, "name", NAME_RULE);
	if (request->token <= 0)
		return call_refuse(call, "token", "must be the grant's");
	if (!lock_lease_read(request->lease, &lease_ms))
		return call_refuse(call, "lease", LEASE_RULE);
	return store_renew(lock->store, call, request->name, request->token, lease_ms,
			   &renew->holding, renew_renewed);
}

static enum step renew_renewed(struct call *call, enum status status)
{
	const Stampede__Lock__V1__RenewRequest *request = call_request(call);
	const struct renew *renew = call_frame(call);
	Stampede__Lock__V1__RenewResponse response;

	if (status != STATUS_OK)
		return lock_fail(call, status, "it is unknown whether the lease was renewed");
	if (!renew->holding.yes)
		return lock_not_holder(call, request->name, request->token, &renew->holding);
	stampede__lock__v1__renew_response__init(&response);
	response.grant = lock_grant(call_arena(call), request->name, &renew->holding);
	return call_reply(call, &response);
}

const struct method renew_method = {
	.name = "Renew", .begin = renew_begin, .frame_size = sizeof(struct renew)};
