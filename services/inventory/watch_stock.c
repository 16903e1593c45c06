/* Inventory.WatchStock: the stock now, and whenever it changes.
 *
 *     begin ──► news ──► sent ──► news ──► …
 */
#include "inventory/reply.h"
#include "inventory/watch.h"

static enum step watch_stock_news(struct call *call, enum status status);
static enum step watch_stock_sent(struct call *call, enum status status);

static enum step watch_stock_begin(struct call *call)
{
	const Stampede__Inventory__V1__WatchStockRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	struct watcher *watcher = call_frame(call);
	const char *wrong = check_id(request->sale_id);
	enum status status;

	if (wrong)
		return call_refuse(call, "sale_id", "%s", wrong);
	status = watcher_start(inventory->watches, watcher, request->sale_id);
	if (status != STATUS_OK)
		return call_fail_retry(call, status, 5000, "too many streams watch stock here");
	return watcher_next(watcher, call, watch_stock_news);
}

static enum step watch_stock_news(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__WatchStockRequest *request = call_request(call);
	Stampede__Inventory__V1__WatchStockResponse response =
		STAMPEDE__INVENTORY__V1__WATCH_STOCK_RESPONSE__INIT;
	struct watcher *watcher = call_frame(call);

	if (status != STATUS_OK) {
		watcher_stop(watcher);
		if (status == STATUS_UNAVAILABLE)
			return call_fail_retry(call, status, RETRY_MS,
					       "this instance is shutting down");
		return reply_failure(call, status, request->sale_id);
	}
	response.stock = reply_stock(call, request->sale_id, watcher_stock(watcher));
	return call_send(call, &response, watch_stock_sent);
}

static enum step watch_stock_sent(struct call *call, enum status status)
{
	struct watcher *watcher = call_frame(call);

	if (status != STATUS_OK) {
		watcher_stop(watcher);
		return call_fail(call, status, "the stream has ended");
	}
	return watcher_next(watcher, call, watch_stock_news);
}

const struct method watch_stock_method = {
	.name = "WatchStock", .begin = watch_stock_begin, .frame_size = sizeof(struct watcher)};
