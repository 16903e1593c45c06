/* OrderService.GetOrder: one order as it is now.
 *
 *     begin ──► read ──► reply
 */
#include "services/order/service.h"

struct get_order {
	struct order order; /* set when read */
};

static enum step get_order_read(struct call *call, enum status status);

static enum step get_order_begin(struct call *call)
{
	const Stampede__Order__V1__GetOrderRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct get_order *get = call_frame(call);
	int64_t order_id;
	enum step refused;

	if (!order_id_read(call, request->order_id, &order_id, &refused))
		return refused;
	return store_get(service->store, call, order_id, &get->order, get_order_read);
}

static enum step get_order_read(struct call *call, enum status status)
{
	const Stampede__Order__V1__GetOrderRequest *request = call_request(call);
	struct get_order *get = call_frame(call);
	Stampede__Order__V1__GetOrderResponse response;

	if (status != STATUS_OK)
		return store_failed(call, status, request->order_id);
	stampede__order__v1__get_order_response__init(&response);
	response.order = order_message_make(&get->order, call_arena(call));
	return call_reply(call, &response);
}

const struct method get_order_method = {
	.name = "GetOrder", .begin = get_order_begin, .frame_size = sizeof(struct get_order)};
