/* Inventory.GetSale and Inventory.GetStock: a sale as it is now, as a whole or its figures alone. */
#include "inventory/reply.h"

static enum step get_sale_read(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__GetSaleRequest *request = call_request(call);
	Stampede__Inventory__V1__GetSaleResponse response =
		STAMPEDE__INVENTORY__V1__GET_SALE_RESPONSE__INIT;
	struct sale_frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, request->sale_id);
	response.sale = reply_sale(call, request->sale_id, &frame->sale);
	return call_reply(call, &response);
}

static enum step get_sale_begin(struct call *call)
{
	const Stampede__Inventory__V1__GetSaleRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	const char *wrong = check_id(request->sale_id);

	if (wrong)
		return call_refuse(call, "sale_id", "%s", wrong);
	return store_get_sale(inventory->store, call, request->sale_id, get_sale_read);
}

static enum step get_stock_read(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__GetStockRequest *request = call_request(call);
	Stampede__Inventory__V1__GetStockResponse response =
		STAMPEDE__INVENTORY__V1__GET_STOCK_RESPONSE__INIT;
	struct sale_frame *frame = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, request->sale_id);
	response.stock = reply_stock(call, request->sale_id, &frame->sale);
	return call_reply(call, &response);
}

static enum step get_stock_begin(struct call *call)
{
	const Stampede__Inventory__V1__GetStockRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	const char *wrong = check_id(request->sale_id);

	if (wrong)
		return call_refuse(call, "sale_id", "%s", wrong);
	return store_get_sale(inventory->store, call, request->sale_id, get_stock_read);
}

const struct method get_sale_method = {
	.name = "GetSale", .begin = get_sale_begin, .frame_size = sizeof(struct sale_frame)};
const struct method get_stock_method = {
	.name = "GetStock", .begin = get_stock_begin, .frame_size = sizeof(struct sale_frame)};
