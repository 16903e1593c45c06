/* Sold-out sales: see sold_outs.h.
 *
 *     SOLD_OUT answered ─► WatchStock joined ─► available = 0 and OPEN: sold out
 *                                            ─► anything else: not (followed on)
 *                                            ─► the stream ends: not, and forgotten
 *
 * So a unit that comes back is sold again as soon as the stream has said so, and a gateway cut off from inventory answers
 * nothing from memory. The sales followed are bounded: the one not asked about for longest makes room.
 */
#include "gateway/sold_outs.h"

#include <assert.h>
#include <stdlib.h>

#include "gateway/watches.h"
#include "gateway/wire.h"
#include "runtime/clock.h"

#define TABLE_SIZE 1024
#define SALE_ID_MAX 64
#define STATUS_OPEN 2 /* SALE_STATUS_OPEN */

struct sale {
	struct watcher watcher;
	struct sold_outs *owner;
	char id[SALE_ID_MAX];
	size_t id_size;
	bool sold_out;
	int64_t starts_at_ms, ends_at_ms;
	struct sale *newer, *older; /* a ring by use */
	struct sale *next, **link;  /* in the table */
};

struct sold_outs {
	struct gateway *gateway;
	const struct edge_route *watch_route;
	struct sale recent; /* the ring */
	struct sale *table[TABLE_SIZE];
	int count;
};

static struct sale **place_of(struct sold_outs *sold_outs, const char *id, size_t size)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)id[i]) * 16777619u;
	return &sold_outs->table[(hash ^ hash >> 15) % TABLE_SIZE];
}

static struct sale *sale_find(struct sold_outs *sold_outs, const char *id, size_t size)
{
	struct sale *sale = *place_of(sold_outs, id, size);

	while (sale && (sale->id_size != size || memcmp(sale->id, id, size) != 0))
		sale = sale->next;
	return sale;
}

static void sale_use(struct sale *sale)
{
	struct sale *ring = &sale->owner->recent;

	sale->newer->older = sale->older;
	sale->older->newer = sale->newer;
	sale->older = ring->older;
	sale->newer = ring;
	sale->older->newer = ring->older = sale;
}

static void sale_free(struct sale *sale)
{
	watches_leave(&sale->watcher);
	sale->newer->older = sale->older;
	sale->older->newer = sale->newer;
	*sale->link = sale->next;
	if (sale->next)
		sale->next->link = sale->link;
	sale->owner->count--;
	free(sale);
}

/* --- what the stream says ------------------------------------------------------------------------- */

/* A google.protobuf.Timestamp; `unset` when it is not there. */
static int64_t time_of(const uint8_t *bytes, size_t size, uint32_t number, int64_t unset)
{
	struct wire_field time, seconds = {0}, nanos = {0};

	if (!wire_find(bytes, size, number, WIRE_BYTES, &time))
		return unset;
	(void)wire_find(time.bytes, time.size, 1, WIRE_VARINT, &seconds);
	(void)wire_find(time.bytes, time.size, 2, WIRE_VARINT, &nanos);
	return (int64_t)seconds.value * 1000 + (int32_t)nanos.value / 1000000;
}

/* WatchStockResponse: stock = 1; Stock: status = 2, available = 4, starts_at = 7, ends_at = 8. */
static void sale_message(struct watcher *watcher, struct watch *watch)
{
	struct sale *sale = container_of(watcher, struct sale, watcher);
	struct wire_field stock, status = {0}, available = {0};
	const uint8_t *bytes;
	size_t size;

	bytes = watch_bytes(watch, &size);
	sale->sold_out = false;
	if (!wire_find(bytes, size, 1, WIRE_BYTES, &stock))
		return;
	(void)wire_find(stock.bytes, stock.size, 2, WIRE_VARINT, &status);
	(void)wire_find(stock.bytes, stock.size, 4, WIRE_VARINT, &available);
	sale->starts_at_ms = time_of(stock.bytes, stock.size, 7, INT64_MIN);
	sale->ends_at_ms = time_of(stock.bytes, stock.size, 8, INT64_MAX);
	sale->sold_out = status.value == STATUS_OPEN && !available.value;
}

static void sale_ended(struct watcher *watcher, const struct rpc_error *error)
{
	(void)error;
	sale_free(container_of(watcher, struct sale, watcher));
}

/* --- what others call ----------------------------------------------------------------------------- */

/* A second's distance to either end of the window: there Redis's clock decides, not ours. */
bool sold_outs_has(struct sold_outs *sold_outs, const char *sale_id, size_t size)
{
	struct sale *sale = sold_outs->count ? sale_find(sold_outs, sale_id, size) : NULL;
	int64_t now_ms;

	if (!sale || !sale->sold_out)
		return false;
	sale_use(sale);
	if (sale->starts_at_ms == INT64_MIN && sale->ends_at_ms == INT64_MAX)
		return true;
	now_ms = clock_wall_ms();
	return (sale->starts_at_ms == INT64_MIN || sale->starts_at_ms + 1000 < now_ms) &&
	       (sale->ends_at_ms == INT64_MAX || sale->ends_at_ms - 1000 > now_ms);
}

void sold_outs_noticed(struct sold_outs *sold_outs, const char *sale_id, size_t size)
{
	uint8_t request[SALE_ID_MAX + 2] = {1 << 3 | WIRE_BYTES, (uint8_t)size};
	struct sale *sale, **place;

	if (!sold_outs->watch_route || size > SALE_ID_MAX || sale_find(sold_outs, sale_id, size) ||
	    !sold_outs->gateway->settings->sold_out_sales_max)
		return;
	if (sold_outs->count >= sold_outs->gateway->settings->sold_out_sales_max)
		sale_free(sold_outs->recent.newer);
	sale = calloc(1, sizeof(*sale));
	assert(sale);
	sale->owner = sold_outs;
	memcpy(sale->id, sale_id, size);
	memcpy(request + 2, sale_id, size);
	sale->id_size = size;
	sale->watcher.message = sale_message;
	sale->watcher.ended = sale_ended;
	sale->newer = sale->older = sale;
	sale_use(sale);
	place = place_of(sold_outs, sale_id, size);
	sale->next = *place;
	sale->link = place;
	if (sale->next)
		sale->next->link = &sale->next;
	*place = sale;
	sold_outs->count++;
	if (!watches_join(sold_outs->gateway->watches, sold_outs->watch_route, request, size + 2,
			  &sale->watcher))
		sale_free(sale);
}

/* --- life ----------------------------------------------------------------------------------------- */

static const struct edge_route *route_of(const struct gateway *gateway, const char *rpc)
{
	for (int i = 0; i < routes_count(gateway->routes); i++) {
		if (strcmp(gateway->edge_routes[i].route->rpc, rpc) == 0)
			return &gateway->edge_routes[i];
	}
	return NULL;
}

struct sold_outs *sold_outs_create(struct gateway *gateway)
{
	struct sold_outs *sold_outs = calloc(1, sizeof(*sold_outs));

	assert(sold_outs);
	sold_outs->gateway = gateway;
	sold_outs->watch_route =
		route_of(gateway, "/stampede.inventory.v1.InventoryService/WatchStock");
	sold_outs->recent.newer = sold_outs->recent.older = &sold_outs->recent;
	return sold_outs;
}

void sold_outs_destroy(struct sold_outs *sold_outs)
{
	if (!sold_outs)
		return;
	for (struct sale *sale = sold_outs->recent.newer, *next; sale != &sold_outs->recent;
	     sale = next) {
		next = sale->newer;
		sale_free(sale);
	}
	free(sold_outs);
}
