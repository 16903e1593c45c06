/* OrderService.WatchOrder: the order as it is, then at every change, until it has reached its end.
 *
 *     begin ──► read ──► sent ──► woken ──┐
 *                ▲                        │
 *                └────────────────────────┘
 *
 * The watch is in the table before the first read, so no change falls between. What is sent is
 * always read anew: several changes at once are one message. An order that does not exist yet
 * is waited for.
 */
#include "services/order/service.h"
#include "services/order/watches.h"

#define DEADLINE_MS 3600000 /* for callers that bring none */
#define RETRY_MS 1000

struct watch_order {
	struct watch watch;
	struct order order;	/* set when read */
	enum order_status sent; /* 0: nothing yet */
};

static enum step watch_order_read(struct call *call, enum status status);
static enum step watch_order_sent(struct call *call, enum status status);
static enum step watch_order_woken(struct call *call, enum status status);

static enum step watch_order_begin(struct call *call)
{
	const Stampede__Order__V1__WatchOrderRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct watch_order *watch = call_frame(call);
	int64_t order_id;
	enum step refused;

	if (!order_id_read(call, request->order_id, &order_id, &refused))
		return refused;
	if (!watches_add(service->watches, &watch->watch, order_id))
		return call_fail_retry(call, STATUS_RESOURCE_EXHAUSTED, RETRY_MS,
				       "too many orders are being watched");
	return store_get(service->store, call, order_id, &watch->order, watch_order_read);
}

static enum step watch_order_end(struct call *call, enum status status)
{
	struct order_service *service = call_service(call);
	struct watch_order *watch = call_frame(call);

	watches_remove(service->watches, &watch->watch);
	if (status == STATUS_OK)
		return call_finish(call);
	return call_fail_retry(call, status, RETRY_MS, "order '%lld' is not watched any more",
			       (long long)watch->watch.order_id);
}

static enum step watch_order_read(struct call *call, enum status status)
{
	struct order_service *service = call_service(call);
	struct watch_order *watch = call_frame(call);
	Stampede__Order__V1__WatchOrderResponse response;
	struct order_message order;

	if (status != STATUS_OK && status != STATUS_NOT_FOUND)
		return watch_order_end(call, status);
	if (status == STATUS_NOT_FOUND || watch->order.status == watch->sent)
		return watches_wait(service->watches, call, &watch->watch, watch_order_woken);
	watch->sent = watch->order.status;
	stampede__order__v1__watch_order_response__init(&response);
	order_to_message(&watch->order, &order);
	response.order = &order.message;
	return call_send(call, &response, watch_order_sent);
}

static enum step watch_order_sent(struct call *call, enum status status)
{
	struct order_service *service = call_service(call);
	struct watch_order *watch = call_frame(call);

	if (status != STATUS_OK || order_is_final(&watch->order))
		return watch_order_end(call, status);
	return watches_wait(service->watches, call, &watch->watch, watch_order_woken);
}

static enum step watch_order_woken(struct call *call, enum status status)
{
	struct order_service *service = call_service(call);
	struct watch_order *watch = call_frame(call);

	if (status != STATUS_OK)
		return watch_order_end(call, status);
	watch->watch.changed = false;
	return store_get(service->store, call, watch->watch.order_id, &watch->order,
			 watch_order_read);
}

const struct method watch_order_method = {.name = "WatchOrder",
					  .begin = watch_order_begin,
					  .frame_size = sizeof(struct watch_order),
					  .flags = METHOD_WAITS,
					  .deadline_default_ms = DEADLINE_MS};
