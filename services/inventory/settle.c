/* Inventory.Confirm and Inventory.Release: settle a reservation, exactly once.
 *
 *     begin ──► settled ──► reply
 *
 * settle.lua changes it only while it is reserved: a repeat changes nothing and is answered alike.
 */
#include "inventory/reply.h"
#include "inventory/watch.h"

struct settle {
	struct reservation_frame frame; /* first: the store fills it */
	const char *sale_id, *order_id;
	bool confirm;
};

static enum step settle_settled(struct call *call, enum status status);

/* Both responses look alike. */
_Static_assert(sizeof(Stampede__Inventory__V1__ConfirmResponse) ==
		       sizeof(Stampede__Inventory__V1__ReleaseResponse),
	       "one reply serves both");

static enum step settle_begin(struct call *call, const char *sale_id, const char *user_id,
			      const char *order_id, bool confirm)
{
	struct inventory *inventory = call_service(call);
	struct settle *settle = call_frame(call);
	const char *wrong;

	if ((wrong = check_id(sale_id)))
		return call_refuse(call, "sale_id", "%s", wrong);
	if ((wrong = check_id(user_id)))
		return call_refuse(call, "user_id", "%s", wrong);
	if ((wrong = check_id(order_id)))
		return call_refuse(call, "order_id", "%s", wrong);
	settle->sale_id = sale_id;
	settle->order_id = order_id;
	settle->confirm = confirm;
	return store_settle(inventory->store, call, sale_id, user_id, order_id, confirm,
			    settle_settled);
}

static enum step settle_settled(struct call *call, enum status status)
{
	struct inventory *inventory = call_service(call);
	struct settle *settle = call_frame(call);
	Stampede__Inventory__V1__ReleaseResponse response =
		STAMPEDE__INVENTORY__V1__RELEASE_RESPONSE__INIT;

	if (status != STATUS_OK)
		return reply_failure(call, status, settle->sale_id);
	if (settle->frame.verdict == STORE_REFUSED)
		return call_fail_reason(
			call, STATUS_NOT_FOUND, "NO_RESERVATION",
			"user '%s' has no reservation with order id '%s' in sale '%s'",
			settle->frame.reservation.user_id, settle->order_id, settle->sale_id);
	if (settle->frame.verdict == STORE_REFUSED_STATUS)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION,
					settle->confirm ? "RELEASED" : "CONFIRMED",
					"reservation '%s' was %s before", settle->order_id,
					settle->confirm ? "released" : "confirmed");
	if (settle->frame.verdict == STORE_CHANGED)
		watches_changed(inventory->watches, settle->sale_id);
	response.base.descriptor = call_output(call);
	response.reservation = reply_reservation(call, settle->sale_id, &settle->frame.reservation);
	response.changed = settle->frame.verdict == STORE_CHANGED;
	return call_reply(call, &response);
}

static enum step confirm_begin(struct call *call)
{
	const Stampede__Inventory__V1__ConfirmRequest *request = call_request(call);

	return settle_begin(call, request->sale_id, request->user_id, request->order_id, true);
}

static enum step release_begin(struct call *call)
{
	const Stampede__Inventory__V1__ReleaseRequest *request = call_request(call);

	return settle_begin(call, request->sale_id, request->user_id, request->order_id, false);
}

const struct method confirm_method = {
	.name = "Confirm", .begin = confirm_begin, .frame_size = sizeof(struct settle)};
const struct method release_method = {
	.name = "Release", .begin = release_begin, .frame_size = sizeof(struct settle)};
