/* The inventory service: what its files share.
 *
 *     reserve.c, reserve_many.c ─► batch.c ─► reserve.lua ─► outbox.c ─► bus "reservations"
 *     all other RPCs            ─► store.c ─► Redis
 *     bus "orders"              ─► events.c ─► settle.lua
 */
#pragma once

#include "runtime/bus.h"
#include "runtime/health.h"
#include "runtime/metrics.h"
#include "runtime/redis.h"

#define ID_MAX 64	     /* bytes of a sale, user or request id */
#define ORDER_ID_SIZE 20     /* 19 digits and a zero byte */
#define QUANTITY_MAX 1000    /* units in one reservation */
#define RESERVE_MANY_MAX 256 /* reservations in one ReserveMany */
#define BATCH_MAX 256	     /* the largest STAMPEDE_BATCH_MAX */
#define RETRY_MS 200	     /* what callers are told to wait when Redis is away */

struct inventory_settings {
	const char *redis, *bus, *tls_ca;
	int64_t batch_max, batches_max, lanes, outbox_max, sales_max, watchers_max;
};

struct process;

struct inventory {
	const struct inventory_settings *settings;
	struct loop *loop;
	struct metrics *metrics;
	struct redis *redis;
	struct bus *bus;
	struct store *store;
	struct node *node;
	struct redis_check *redis_check;
	struct sales *sales;
	struct outbox *outbox;
	struct sweeper *sweeper;
	struct events *events;
	struct watches *watches;
	struct health_part *redis_part, *bus_part, *node_part;
	const char *instance;
	struct process *process;
	struct timer stop_grace;
};

extern const struct method create_sale_method, update_sale_method, get_sale_method,
	list_sales_method, open_sale_method, pause_sale_method, close_sale_method,
	adjust_stock_method, reserve_method, reserve_many_method, confirm_method, release_method,
	get_reservation_method, get_stock_method, watch_stock_method;
