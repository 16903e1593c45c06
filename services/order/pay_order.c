/* OrderService.PayOrder: PENDING to PAID, once.
 *
 *     begin ──► moved ──► reply
 *
 * The update names the state it starts from, so of a payment, a cancellation and the end of
 * the time to pay one wins. A repeat brings the same payment reference; another one would be a
 * second payment and is refused.
 */
#include <string.h>

#include "runtime/utf8.h"
#include "services/order/service.h"

#define REFERENCE_SIZE_MAX 128

struct pay_order {
	struct move move;
};

static enum step pay_order_moved(struct call *call, enum status status);

static enum step pay_order_begin(struct call *call)
{
	const Stampede__Order__V1__PayOrderRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct pay_order *pay = call_frame(call);
	enum step refused;

	if (!order_id_read(call, request->order_id, &pay->move.order_id, &refused))
		return refused;
	if (!utf8_identifier(request->payment_reference, 0, REFERENCE_SIZE_MAX))
		return call_refuse(call, "payment_reference",
				   "must be at most %d bytes without control characters",
				   REFERENCE_SIZE_MAX);
	pay->move.to = ORDER_PAID;
	pay->move.payment_reference = request->payment_reference;
	return store_move_one(service->store, call, &pay->move, pay_order_moved);
}

static enum step pay_order_moved(struct call *call, enum status status)
{
	const Stampede__Order__V1__PayOrderRequest *request = call_request(call);
	struct pay_order *pay = call_frame(call);
	const struct order *order = &pay->move.order;
	Stampede__Order__V1__PayOrderResponse response;

	if (status != STATUS_OK)
		return store_failed(call, status, request->order_id);
	if (pay->move.moved == MOVED_NOT_FOUND)
		return store_failed(call, STATUS_NOT_FOUND, request->order_id);
	if (pay->move.moved == MOVED_REFUSED)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "ORDER_NOT_PENDING",
					"order '%s' is %s and cannot be paid", request->order_id,
					order_status_name(order->status));
	if (strcmp(order->payment_reference, request->payment_reference) != 0)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "ORDER_PAID_OTHERWISE",
					"order '%s' was paid with another payment_reference",
					request->order_id);
	stampede__order__v1__pay_order_response__init(&response);
	response.order = order_message_make(order, call_arena(call));
	response.changed = pay->move.moved == MOVED_NOW;
	return call_reply(call, &response);
}

const struct method pay_order_method = {
	.name = "PayOrder", .begin = pay_order_begin, .frame_size = sizeof(struct pay_order)};
