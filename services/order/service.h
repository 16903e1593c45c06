/* The order service's parts, as its methods see them: what call_service() gives. */
#pragma once

#include "runtime/call.h"
#include "runtime/health.h"
#include "runtime/metrics.h"
#include "services/order/order.h"
#include "services/order/store.h"

struct order_settings {
	const char *redis, *bus;
	const char *data, *inventory, *scheduler;
	int64_t lanes, batch_max, watchers_max, jobs_max;
};

struct order_service {
	const struct order_settings *settings;
	struct loop *loop;
	struct metrics *metrics;
	struct store *store;
	struct events *events;
	struct relay *relay;
	struct consume *consume;
	struct watches *watches;
	struct health_part *database, *bus;
	bool stopping; /* nothing new goes into the store */
};

extern const struct method get_order_method, list_orders_method, watch_order_method,
	pay_order_method, cancel_order_method, summarize_orders_method, get_backlog_method;

/* A field that names an order: true, or false with *ret_step as the refusal. */
bool order_id_read(struct call *call, const char *text, int64_t *ret_order_id, enum step *ret_step);
/* How a call ends when the store did not do what it asked for. */
enum step store_failed(struct call *call, enum status status, const char *order_id) MUST_USE;
