/* Inventory.GetReservation: what became of a reservation, by order id or by request id. */
#include "inventory/reply.h"

static enum step get_reservation_read(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__GetReservationRequest *request = call_request(call);
	Stampede__Inventory__V1__GetReservationResponse response =
		STAMPEDE__INVENTORY__V1__GET_RESERVATION_RESPONSE__INIT;
	struct reservation_frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, request->sale_id);
	if (!frame->found)
		return call_fail_reason(
			call, STATUS_NOT_FOUND, "NO_RESERVATION",
			"user '%s' has no reservation with %s '%s' in sale '%s'", request->user_id,
			*request->order_id ? "order id" : "request id",
			*request->order_id ? request->order_id : request->request_id,
			request->sale_id);
	response.reservation = reply_reservation(call, request->sale_id, &frame->reservation);
	return call_reply(call, &response);
}

static enum step get_reservation_begin(struct call *call)
{
	const Stampede__Inventory__V1__GetReservationRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	const char *wrong;

	if ((wrong = check_id(request->sale_id)))
		return call_refuse(call, "sale_id", "%s", wrong);
	if ((wrong = check_id(request->user_id)))
		return call_refuse(call, "user_id", "%s", wrong);
	if (!*request->order_id == !*request->request_id)
		return call_refuse(call, "order_id", "give either order_id or request_id");
	if (*request->order_id && (wrong = check_id(request->order_id)))
		return call_refuse(call, "order_id", "%s", wrong);
	if (*request->request_id && (wrong = check_id(request->request_id)))
		return call_refuse(call, "request_id", "%s", wrong);
	return store_get_reservation(inventory->store, call, request->sale_id, request->user_id,
				     *request->order_id ? request->order_id : NULL,
				     *request->request_id ? request->request_id : NULL,
				     get_reservation_read);
}

const struct method get_reservation_method = {.name = "GetReservation",
					      .begin = get_reservation_begin,
					      .frame_size = sizeof(struct reservation_frame)};
