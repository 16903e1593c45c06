/* Inventory.AdjustStock: more units, or fewer of those nobody has reserved; once per request id. */
#include "inventory/reply.h"
#include "inventory/watch.h"

#define DELTA_MAX 1000000000

static enum step adjust_stock_done(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__AdjustStockRequest *request = call_request(call);
	Stampede__Inventory__V1__AdjustStockResponse response =
		STAMPEDE__INVENTORY__V1__ADJUST_STOCK_RESPONSE__INIT;
	struct inventory *inventory = call_service(call);
	struct sale_frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, request->sale_id);
	if (frame->verdict == STORE_REFUSED)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "TOO_FEW_AVAILABLE",
					"sale '%s' has only %lld units that nobody has reserved",
					request->sale_id, (long long)frame->sale.available);
	if (frame->verdict == STORE_REFUSED_STATUS)
		return call_fail_reason(call, STATUS_ALREADY_EXISTS, "REQUEST_ID_USED",
					"request_id '%s' adjusted by another delta",
					request->request_id);
	if (frame->verdict == STORE_CHANGED)
		watches_changed(inventory->watches, request->sale_id);
	response.sale = reply_sale(call, request->sale_id, &frame->sale);
	return call_reply(call, &response);
}

static enum step adjust_stock_begin(struct call *call)
{
	const Stampede__Inventory__V1__AdjustStockRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	const char *wrong;

	if ((wrong = check_id(request->sale_id)))
		return call_refuse(call, "sale_id", "%s", wrong);
	if ((wrong = check_id(request->request_id)))
		return call_refuse(call, "request_id", "%s", wrong);
	if (!request->delta || request->delta > DELTA_MAX || request->delta < -DELTA_MAX)
		return call_refuse(call, "delta", "must be up to 1,000,000,000 and not 0");
	return store_adjust_stock(inventory->store, call, request->sale_id, request->request_id,
				  request->delta, adjust_stock_done);
}

const struct method adjust_stock_method = {.name = "AdjustStock",
					   .begin = adjust_stock_begin,
					   .frame_size = sizeof(struct sale_frame)};
