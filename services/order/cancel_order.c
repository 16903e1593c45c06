/* OrderService.CancelOrder: PENDING to CANCELLED, once; inventory gets the units back by the event.
 *
 *     begin ──► moved ──► reply
 */
#include "services/order/service.h"

struct cancel_order {
	struct move move;
};

static enum step cancel_order_moved(struct call *call, enum status status);

static enum step cancel_order_begin(struct call *call)
{
	const Stampede__Order__V1__CancelOrderRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct cancel_order *cancel = call_frame(call);
	enum step refused;

	if (!order_id_read(call, request->order_id, &cancel->move.order_id, &refused))
		return refused;
	if ((int)request->reason < CANCEL_NONE || (int)request->reason > CANCEL_UNPAID)
		return call_refuse(call, "reason", "%d is no CancelReason", (int)request->reason);
	cancel->move.to = ORDER_CANCELLED;
	cancel->move.cancel_reason =
		request->reason ? (enum cancel_reason)request->reason : CANCEL_BUYER;
	cancel->move.payment_reference = "";
	return store_move_one(service->store, call, &cancel->move, cancel_order_moved);
}

static enum step cancel_order_moved(struct call *call, enum status status)
{
	const Stampede__Order__V1__CancelOrderRequest *request = call_request(call);
	struct cancel_order *cancel = call_frame(call);
	Stampede__Order__V1__CancelOrderResponse response;

	if (status != STATUS_OK)
		return store_failed(call, status, request->order_id);
	if (cancel->move.moved == MOVED_NOT_FOUND)
		return store_failed(call, STATUS_NOT_FOUND, request->order_id);
	if (cancel->move.moved == MOVED_REFUSED)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "ORDER_NOT_PENDING",
					"order '%s' is %s and cannot be cancelled",
					request->order_id,
					order_status_name(cancel->move.order.status));
	stampede__order__v1__cancel_order_response__init(&response);
	response.order = order_message_make(&cancel->move.order, call_arena(call));
	response.changed = cancel->move.moved == MOVED_NOW;
	return call_reply(call, &response);
}

const struct method cancel_order_method = {.name = "CancelOrder",
					   .begin = cancel_order_begin,
					   .frame_size = sizeof(struct cancel_order)};
