/* stampede-order: reservations become orders and go through their states. See README.md. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/process.h"
#include "services/order/consume.h"
#include "services/order/events.h"
#include "services/order/relay.h"
#include "services/order/service.h"
#include "services/order/watches.h"

static const struct setting settings[] = {
	SETTING_URL(struct order_settings, redis, "STAMPEDE_REDIS", "redis://127.0.0.1:6379",
		    "Redis, where the bus is if STAMPEDE_BUS does not say otherwise"),
	SETTING_URL(struct order_settings, bus, "STAMPEDE_BUS", "",
		    "the bus: kafka://host:port,… or a Redis URL; empty: STAMPEDE_REDIS"),
	SETTING_TEXT(struct order_settings, data, "STAMPEDE_DATA", "./data",
		     "folder of the order database"),
	SETTING_TEXT(struct order_settings, inventory, "STAMPEDE_INVENTORY", "127.0.0.1:7001",
		     "gRPC target of inventory"),
	SETTING_TEXT(struct order_settings, scheduler, "STAMPEDE_SCHEDULER", "127.0.0.1:7004",
		     "gRPC target of the scheduler"),
	SETTING_NUMBER(struct order_settings, lanes, "STAMPEDE_LANES", "4", 1, OUTBOX_LANES_MAX,
		       "lanes events travel in; all services must agree"),
	SETTING_NUMBER(struct order_settings, batch_max, "STAMPEDE_ORDER_BATCH_MAX", "128", 1,
		       10000, "records taken off the bus at a time"),
	SETTING_NUMBER(struct order_settings, watchers_max, "STAMPEDE_WATCHERS_MAX", "4096", 1,
		       100000, "WatchOrder streams at a time"),
	SETTING_NUMBER(struct order_settings, jobs_max, "STAMPEDE_ORDER_JOBS_MAX", "10000", 16,
		       1000000, "reads and writes that may wait for the database"),
	SETTING_END};

static const struct method *const methods[] = {
	&get_order_method,    &list_orders_method,	&watch_order_method, &pay_order_method,
	&cancel_order_method, &summarize_orders_method, &get_backlog_method, NULL};

static struct service service = {.descriptor = &stampede__order__v1__order_service__descriptor,
				 .methods = methods};

static void store_state(void *self, bool up, const char *reason)
{
	struct order_service *order = self;

	health_set(order->database, up, up ? "" : reason);
	if (up)
		relay_kick(order->relay);
}

static void store_wrote(void *self, struct outbox_record *records)
{
	struct order_service *order = self;

	relay_take(order->relay, records);
}

static void store_changed(void *self, int64_t order_id, enum order_status status)
{
	struct order_service *order = self;

	(void)status;
	watches_notify(order->watches, order_id);
}

static bool order_start(struct process *process)
{
	const struct order_settings *mine = process->settings;
	struct order_service *order = calloc(1, sizeof(*order));

	assert(order);
	process->self = order;
	order->settings = mine;
	order->loop = process->loop;
	order->metrics = process->metrics;
	order->database = health_part(process->health, "database");
	order->bus = health_part(process->health, "bus");
	order->watches = watches_create((int)mine->watchers_max, process->metrics);
	order->relay = relay_create(order);
	order->consume = consume_create(order);
	order->events = events_create(order, process->instance);
	if (!order->events)
		return false;
	order->store = store_create(process->loop,
				    &(struct store_options){.folder = mine->data,
							    .lanes = (int)mine->lanes,
							    .jobs_queue = EVENTS_TOPIC_UNPAID,
							    .jobs_max = (int)mine->jobs_max,
							    .metrics = process->metrics,
							    .state = store_state,
							    .written = store_wrote,
							    .changed = store_changed,
							    .self = order});
	service.self = order;
	process_serve(process, &service);
	return true;
}

static void order_drain(struct process *process)
{
	struct order_service *order = process->self;

	watches_close(order->watches);
}

static void order_closed(void *context)
{
	process_stopped(context);
}

/* Batches in hand are committed: nothing writes any more but the removal of what was handed on. */
static void order_quiet(void *context)
{
	struct process *process = context;
	struct order_service *order = process->self;

	order->stopping = true;
	relay_close(order->relay);
	store_close(order->store, order_closed, process);
}

static void order_stop(struct process *process)
{
	struct order_service *order = process->self;

	events_close(order->events, order_quiet, process);
}

static void order_free(struct process *process)
{
	struct order_service *order = process->self;

	if (!order)
		return;
	relay_destroy(order->relay);
	events_destroy(order->events);
	consume_destroy(order->consume);
	store_destroy(order->store);
	watches_destroy(order->watches);
	free(order);
}

static const struct process_spec spec = {.name = "order",
					 .grpc_port = 7002,
					 .settings = settings,
					 .settings_size = sizeof(struct order_settings),
					 .start = order_start,
					 .drain = order_drain,
					 .stop = order_stop,
					 .free = order_free};

int main(int argc, char **argv)
{
	return process_main(argc, argv, &spec);
}
