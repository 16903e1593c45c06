/* OrderService.SummarizeOrders: the order side of a sale's books.
 *
 *     begin ──► counted ──► reply
 *
 * Reads every order of the sale, on the thread for long reads: about a second for a million. A
 * sale without orders (the service cannot tell it from one that does not exist) has no counts.
 */
#include "runtime/utf8.h"
#include "services/order/service.h"

struct summarize_orders {
	struct order_summary summary; /* set when counted */
};

static enum step summarize_orders_counted(struct call *call, enum status status);

static enum step summarize_orders_begin(struct call *call)
{
	const Stampede__Order__V1__SummarizeOrdersRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct summarize_orders *summarize = call_frame(call);

	if (!*request->sale_id)
		return call_refuse(call, "sale_id", "must not be empty");
	if (!utf8_identifier(request->sale_id, 1, IDENTIFIER_SIZE_MAX))
		return call_refuse(call, "sale_id",
				   "must be at most %d bytes without control characters",
				   IDENTIFIER_SIZE_MAX);
	return store_summarize(service->store, call, request->sale_id, &summarize->summary,
			       summarize_orders_counted);
}

static enum step summarize_orders_counted(struct call *call, enum status status)
{
	struct summarize_orders *summarize = call_frame(call);
	const struct order_summary *summary = &summarize->summary;
	Stampede__Order__V1__SummarizeOrdersResponse response;
	Stampede__Order__V1__StatusCount counts[ORDER_STATUS_COUNT], *list[ORDER_STATUS_COUNT];

	if (status != STATUS_OK)
		return store_failed(call, status, "");
	stampede__order__v1__summarize_orders_response__init(&response);
	response.counts = list;
	response.units_per_user_max = summary->units_per_user_max;
	for (int of = 1; of < ORDER_STATUS_COUNT; of++) {
		if (!summary->orders[of])
			continue;
		stampede__order__v1__status_count__init(&counts[of]);
		counts[of].status = (Stampede__Order__V1__OrderStatus)of;
		counts[of].orders = summary->orders[of];
		counts[of].units = summary->units[of];
		list[response.n_counts++] = &counts[of];
	}
	return call_reply(call, &response);
}

const struct method summarize_orders_method = {.name = "SummarizeOrders",
					       .begin = summarize_orders_begin,
					       .frame_size = sizeof(struct summarize_orders)};
