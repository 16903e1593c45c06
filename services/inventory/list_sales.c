/* Inventory.ListSales: all sales in the order of their ids, page by page.
 *
 *     begin ──► ids listed ──► each read (all at once) ──► reply
 *
 * The page token is the last id of the page before.
 */
#include <string.h>

#include "inventory/reply.h"

#define PAGE_MAX 500
#define PAGE_DEFAULT 50

struct listed {
	struct redis_op op;
	struct list_sales *list;
	const char *sale_id;
	struct sale sale;
	bool found;
};

struct list_sales {
	struct wait wait;
	struct call *call; /* NULL: abandoned */
	struct listed *sales;
	size_t count, page;
	int left;
	enum status status;
	bool more;
};

static enum step list_sales_listed(struct call *call, enum status status);
static enum step list_sales_read(struct call *call, enum status status);

static enum status decode_ids(struct call *call, const redisReply *reply)
{
	struct list_sales *list = call_frame(call);

	if (reply->type != REDIS_REPLY_ARRAY)
		return STATUS_INTERNAL;
	list->more = reply->elements > list->page;
	list->count = list->more ? list->page : reply->elements;
	list->sales = arena_zalloc(call_arena(call), list->count * sizeof(struct listed));
	for (size_t i = 0; i < list->count; i++) {
		list->sales[i].list = list;
		list->sales[i].sale_id = arena_strdup(call_arena(call), reply->element[i]->str);
	}
	return STATUS_OK;
}

static enum step list_sales_begin(struct call *call)
{
	const Stampede__Inventory__V1__ListSalesRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	struct list_sales *list = call_frame(call);
	const char *values[7] = {"ZRANGEBYLEX", STORE_SALES, "-", "+", "LIMIT", "0", NULL};
	size_t sizes[7];
	const char *wrong;

	if (request->page_size < 0 || request->page_size > PAGE_MAX)
		return call_refuse(call, "page_size", "must be 1 to %d", PAGE_MAX);
	if (*request->page_token && (wrong = check_id(request->page_token)))
		return call_refuse(call, "page_token", "%s", wrong);
	list->page = request->page_size ? (size_t)request->page_size : PAGE_DEFAULT;
	if (*request->page_token)
		values[2] = arena_printf(call_arena(call), "(%s", request->page_token);
	values[6] = arena_printf(call_arena(call), "%zu", list->page + 1);
	for (int i = 0; i < 7; i++)
		sizes[i] = strlen(values[i]);
	return redis_command(inventory->redis, call, (struct redis_args){7, values, sizes},
			     decode_ids, list_sales_listed);
}

static void sale_read(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct listed *listed = container_of(op, struct listed, op);
	struct list_sales *list = listed->list;
	struct arena *arena = call_arena(list->call);

	op->done = NULL;
	if (status == STATUS_OK)
		status = store_decode_sale(reply, &listed->sale);
	listed->found = status == STATUS_OK;
	if (listed->found) {
		listed->sale.title = arena_strdup(arena, listed->sale.title);
		listed->sale.etag = arena_strdup(arena, listed->sale.etag);
		listed->sale.currency = arena_strdup(arena, listed->sale.currency);
	} else if (status != STATUS_NOT_FOUND) { /* listed, not yet made */
		list->status = status;
	}
	if (--list->left == 0)
		wait_finish(&list->wait, list->status);
}

static void list_sales_abandon(struct wait *wait)
{
	struct list_sales *list = container_of(wait, struct list_sales, wait);

	for (size_t i = 0; i < list->count; i++)
		if (list->sales[i].op.done)
			redis_forget(&list->sales[i].op);
}

static enum step list_sales_listed(struct call *call, enum status status)
{
	struct inventory *inventory = call_service(call);
	struct list_sales *list = call_frame(call);

	if (status != STATUS_OK)
		return reply_failure(call, status, "*");
	if (!list->count)
		return list_sales_read(call, STATUS_OK);
	list->call = call;
	list->left = (int)list->count;
	for (size_t i = 0; i < list->count; i++) {
		list->sales[i].op.done = sale_read;
		store_send_get_sale(inventory->store, &list->sales[i].op, list->sales[i].sale_id);
	}
	return call_await(call, &list->wait, list_sales_abandon, list_sales_read);
}

static enum step list_sales_read(struct call *call, enum status status)
{
	struct list_sales *list = call_frame(call);
	Stampede__Inventory__V1__ListSalesResponse response =
		STAMPEDE__INVENTORY__V1__LIST_SALES_RESPONSE__INIT;

	if (status != STATUS_OK)
		return reply_failure(call, status, "*");
	response.sales = arena_alloc(call_arena(call), list->count * sizeof(void *));
	for (size_t i = 0; i < list->count; i++)
		if (list->sales[i].found)
			response.sales[response.n_sales++] =
				reply_sale(call, list->sales[i].sale_id, &list->sales[i].sale);
	if (list->more)
		response.next_page_token = (char *)list->sales[list->count - 1].sale_id;
	return call_reply(call, &response);
}

const struct method list_sales_method = {
	.name = "ListSales", .begin = list_sales_begin, .frame_size = sizeof(struct list_sales)};
