/* stampede-inventory: sales, their stock, and the reservations that take it. */
#include <assert.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stdlib.h>

#include "inventory/events.h"
#include "inventory/node.h"
#include "inventory/outbox.h"
#include "inventory/redis_check.h"
#include "inventory/sales.h"
#include "inventory/store.h"
#include "inventory/sweeper.h"
#include "inventory/watch.h"
#include "runtime/process.h"

#define BUS_GRACE_MS 5000
#define OUTBOX_GRACE_MS 3000

static const struct setting settings[] = {
	SETTING_URL(struct inventory_settings, redis, "STAMPEDE_REDIS", "redis://127.0.0.1:6379",
		    "Redis: redis://, rediss://, unix:// or sentinel://"),
	SETTING_TEXT(struct inventory_settings, tls_ca, "STAMPEDE_REDIS_CA", "",
		     "PEM file to check Redis's certificate with; empty: the system's"),
	SETTING_URL(struct inventory_settings, bus, "STAMPEDE_BUS", "",
		    "the bus: kafka://host:port,… or a Redis URL; empty: STAMPEDE_REDIS"),
	SETTING_NUMBER(struct inventory_settings, batch_max, "STAMPEDE_BATCH_MAX", "64", 1,
		       BATCH_MAX, "reservations decided by one script at most"),
	SETTING_NUMBER(struct inventory_settings, batches_max, "STAMPEDE_BATCHES_MAX", "4", 1, 64,
		       "scripts of one sale under way at a time"),
	SETTING_NUMBER(struct inventory_settings, lanes, "STAMPEDE_LANES", "4", 1, 64,
		       "lanes events travel in; all services must agree"),
	SETTING_NUMBER(struct inventory_settings, outbox_max, "STAMPEDE_OUTBOX_MAX", "100000", 100,
		       10000000, "entries of one sale that may wait for the bus"),
	SETTING_NUMBER(struct inventory_settings, sales_max, "STAMPEDE_SALES_MAX", "4096", 16,
		       1000000, "sales this process keeps at hand"),
	SETTING_NUMBER(struct inventory_settings, watchers_max, "STAMPEDE_WATCHERS_MAX", "1024", 1,
		       100000, "WatchStock streams at a time"),
	SETTING_END};

static const struct method *const methods[] = {
	&create_sale_method, &update_sale_method,     &get_sale_method,	   &list_sales_method,
	&open_sale_method,   &pause_sale_method,      &close_sale_method,  &adjust_stock_method,
	&reserve_method,     &reserve_many_method,    &confirm_method,	   &release_method,
	&get_stock_method,   &get_reservation_method, &watch_stock_method, NULL};

static struct service service = {
	.descriptor = &stampede__inventory__v1__inventory_service__descriptor, .methods = methods};

static void redis_connected_again(void *self, const char *run_id)
{
	struct inventory *inventory = self;

	(void)run_id;
	health_set(inventory->redis_part, true, "");
	node_connected(inventory->node);
	redis_check_run(inventory->redis_check);
	sweeper_sweep(inventory->sweeper);
}

static void redis_lost(void *self)
{
	struct inventory *inventory = self;

	health_set(inventory->redis_part, false, "not connected");
}

static void bus_state(void *self, bool up)
{
	struct inventory *inventory = self;

	health_set(inventory->bus_part, up, up ? "" : "not connected");
	if (up && inventory->sweeper)
		sweeper_sweep(inventory->sweeper);
}

static bool inventory_start(struct process *process)
{
	const struct inventory_settings *mine = process->settings;
	struct inventory *inventory = calloc(1, sizeof(*inventory));

	assert(inventory);
	process->self = inventory;
	inventory->settings = mine;
	inventory->loop = process->loop;
	inventory->metrics = process->metrics;
	inventory->instance = process->instance;
	inventory->process = process;
	inventory->redis_part = health_part(process->health, "redis");
	inventory->bus_part = health_part(process->health, "bus");
	inventory->node_part = health_part(process->health, "node");
	inventory->redis = redis_create(process->loop,
					&(struct redis_options){.url = mine->redis,
								.tls_ca = mine->tls_ca,
								.metrics = process->metrics,
								.connected = redis_connected_again,
								.disconnected = redis_lost,
								.self = inventory});
	inventory->bus = bus_create(
		process->loop, &(struct bus_options){.url = mine->bus ? mine->bus : mine->redis,
						     .client_id = process->instance,
						     .partitions = (int)mine->lanes,
						     .metrics = process->metrics,
						     .state = bus_state,
						     .self = inventory});
	if (!inventory->redis || !inventory->bus)
		return false;
	inventory->store = store_create(inventory->redis);
	inventory->redis_check = redis_check_create(inventory->redis);
	inventory->node = node_create(process->loop, inventory->redis, process->instance,
				      inventory->node_part);
	inventory->outbox = outbox_create(inventory);
	inventory->sweeper = sweeper_create(inventory);
	inventory->sales = sales_create(inventory);
	inventory->watches = watches_create(inventory);
	inventory->events = events_create(inventory);
	service.self = inventory;
	process_serve(process, &service);
	return true;
}

static void bus_closed(void *context)
{
	process_stopped(context);
}

static void outbox_idle(void *context)
{
	struct inventory *inventory = context;

	timer_stop(&inventory->stop_grace);
	bus_close(inventory->bus, BUS_GRACE_MS, bus_closed, inventory->process);
}

static void outbox_overdue(struct timer *timer)
{
	struct inventory *inventory = container_of(timer, struct inventory, stop_grace);

	outbox_when_idle(inventory->outbox, NULL, NULL); /* the sweeper of another will do it */
	outbox_idle(inventory);
}

/* All calls are answered; what they reserved goes to the bus before we leave. */
static void inventory_stop(struct process *process)
{
	struct inventory *inventory = process->self;

	timer_init(&inventory->stop_grace, process->loop, outbox_overdue);
	timer_start_us(&inventory->stop_grace, OUTBOX_GRACE_MS * 1000);
	outbox_when_idle(inventory->outbox, outbox_idle, inventory);
}

static void inventory_drain(struct process *process)
{
	struct inventory *inventory = process->self;

	watches_close(inventory->watches);
}

static void inventory_free(struct process *process)
{
	struct inventory *inventory = process->self;

	if (!inventory)
		return;
	watches_destroy(inventory->watches);
	sales_destroy(inventory->sales);
	node_destroy(inventory->node);
	redis_check_destroy(inventory->redis_check);
	redis_destroy(inventory->redis); /* ends what events has in hand while the bus is there */
	bus_destroy(inventory->bus);
	events_destroy(inventory->events);
	sweeper_destroy(inventory->sweeper);
	outbox_destroy(inventory->outbox);
	store_destroy(inventory->store);
	free(inventory);
}

static const struct process_spec spec = {.name = "inventory",
					 .grpc_port = 7001,
					 .message_max = 256 << 10,
					 .settings = settings,
					 .settings_size = sizeof(struct inventory_settings),
					 .start = inventory_start,
					 .drain = inventory_drain,
					 .stop = inventory_stop,
					 .free = inventory_free};

int main(int argc, char **argv)
{
	return process_main(argc, argv, &spec);
}
