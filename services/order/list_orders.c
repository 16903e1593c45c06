/* OrderService.ListOrders: newest first, by sale, user and status.
 *
 *     begin ──► read ──► reply
 *
 * A page token is the last id of the page before, and a mark of the filter it belongs to: a
 * token used with another filter is refused rather than answered wrongly. One order more than
 * the page holds is read, to know whether there is a next page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/utf8.h"
#include "services/order/service.h"

#define PAGE_DEFAULT 50
#define PAGE_MAX 500
#define TOKEN_SIZE 24 /* 16 digits of the id, 8 of the mark, hexadecimal */

struct list_orders {
	struct order_filter filter;
	struct order_list list; /* set when read */
};

static enum step list_orders_read(struct call *call, enum status status);

static uint32_t mark_text(uint32_t mark, const char *text)
{
	for (; *text; text++)
		mark = (mark ^ (unsigned char)*text) * 16777619;
	return (mark ^ 0xff) * 16777619;
}

static uint32_t filter_mark(const struct order_filter *filter)
{
	uint32_t mark = 2166136261;

	mark = mark_text(mark, filter->sale_id);
	mark = mark_text(mark, filter->user_id);
	return (mark ^ (uint32_t)filter->status) * 16777619;
}

static bool token_parse(const char *token, const struct order_filter *filter,
			int64_t *ret_before_id)
{
	uint64_t id;
	uint32_t mark;

	if (strlen(token) != TOKEN_SIZE || strspn(token, "0123456789abcdef") != TOKEN_SIZE ||
	    sscanf(token, "%16" SCNx64 "%8" SCNx32, &id, &mark) != 2 || id > INT64_MAX ||
	    mark != filter_mark(filter))
		return false;
	*ret_before_id = (int64_t)id;
	return true;
}

static enum step list_orders_begin(struct call *call)
{
	const Stampede__Order__V1__ListOrdersRequest *request = call_request(call);
	struct order_service *service = call_service(call);
	struct list_orders *list = call_frame(call);
	struct order_filter *filter = &list->filter;

	if (!*request->sale_id && !*request->user_id)
		return call_refuse(call, "sale_id", "sale_id or user_id must be set");
	if (*request->sale_id && !utf8_identifier(request->sale_id, 1, IDENTIFIER_SIZE_MAX))
		return call_refuse(call, "sale_id",
				   "must be at most %d bytes without control characters",
				   IDENTIFIER_SIZE_MAX);
	if (*request->user_id && !utf8_identifier(request->user_id, 1, IDENTIFIER_SIZE_MAX))
		return call_refuse(call, "user_id",
				   "must be at most %d bytes without control characters",
				   IDENTIFIER_SIZE_MAX);
	if ((int)request->status < 0 || (int)request->status >= ORDER_STATUS_COUNT)
		return call_refuse(call, "status", "%d is no OrderStatus", (int)request->status);
	if (request->page_size < 0 || request->page_size > PAGE_MAX)
		return call_refuse(call, "page_size", "must be 0 to %d", PAGE_MAX);
	filter->sale_id = request->sale_id;
	filter->user_id = request->user_id;
	filter->status = (int)request->status;
	filter->before_id = INT64_MAX;
	filter->max = (request->page_size ? request->page_size : PAGE_DEFAULT) + 1;
	if (*request->page_token && !token_parse(request->page_token, filter, &filter->before_id))
		return call_refuse(call, "page_token",
				   "is not the next_page_token of a page with the same filter");
	return store_list(service->store, call, filter, &list->list, list_orders_read);
}

static enum step list_orders_read(struct call *call, enum status status)
{
	struct list_orders *list = call_frame(call);
	struct arena *arena = call_arena(call);
	Stampede__Order__V1__ListOrdersResponse response;
	int count = list->list.count, page = list->filter.max - 1;

	if (status != STATUS_OK)
		return store_failed(call, status, "");
	stampede__order__v1__list_orders_response__init(&response);
	if (count > page) {
		count = page;
		response.next_page_token =
			arena_printf(arena, "%016" PRIx64 "%08" PRIx32,
				     (uint64_t)list->list.orders[count - 1].order_id,
				     filter_mark(&list->filter));
	}
	response.orders = arena_alloc(arena, ((size_t)count + 1) * sizeof(void *));
	for (int i = 0; i < count; i++)
		response.orders[response.n_orders++] =
			order_message_make(&list->list.orders[i], arena);
	return call_reply(call, &response);
}

const struct method list_orders_method = {
	.name = "ListOrders", .begin = list_orders_begin, .frame_size = sizeof(struct list_orders)};
