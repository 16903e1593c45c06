/* See sales.h. The table is a hash with chains; sales nobody asks for are forgotten, oldest first. */
#include "inventory/sales.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/batch.h"
#include "inventory/node.h"

#define BUCKETS 4096

struct sales {
	struct inventory *inventory;
	struct sale_queue *buckets[BUCKETS];
	struct sale_queue recent; /* a ring, newest first */
	int count;
};

static unsigned bucket_of(const char *sale_id)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *sale_id; sale_id++)
		hash = (hash ^ (unsigned char)*sale_id) * 16777619u;
	return hash % BUCKETS;
}

struct sales *sales_create(struct inventory *inventory)
{
	struct sales *sales = calloc(1, sizeof(*sales));

	assert(sales);
	sales->inventory = inventory;
	sales->recent.newer = sales->recent.older = &sales->recent;
	return sales;
}

static void sales_remove(struct sales *sales, struct sale_queue *queue)
{
	struct sale_queue **at = &sales->buckets[bucket_of(queue->sale_id)];

	while (*at != queue)
		at = &(*at)->next;
	*at = queue->next;
	queue->newer->older = queue->older;
	queue->older->newer = queue->newer;
	sales->count--;
	sale_queue_destroy(queue);
}

void sales_destroy(struct sales *sales)
{
	if (!sales)
		return;
	while (sales->recent.older != &sales->recent)
		sales_remove(sales, sales->recent.older);
	free(sales);
}

static bool sales_make_room(struct sales *sales)
{
	struct sale_queue *oldest = sales->recent.newer;

	for (; oldest != &sales->recent; oldest = oldest->newer)
		if (sale_queue_idle(oldest)) {
			sales_remove(sales, oldest);
			return true;
		}
	return false;
}

static void make_newest(struct sales *sales, struct sale_queue *queue)
{
	queue->newer = &sales->recent;
	queue->older = sales->recent.older;
	queue->older->newer = queue;
	sales->recent.older = queue;
}

static struct sale_queue *sales_find(struct sales *sales, const char *sale_id)
{
	struct sale_queue **bucket = &sales->buckets[bucket_of(sale_id)], *queue;

	for (queue = *bucket; queue; queue = queue->next) {
		if (strcmp(queue->sale_id, sale_id) != 0)
			continue;
		if (sales->recent.older != queue) {
			queue->newer->older = queue->older;
			queue->older->newer = queue->newer;
			make_newest(sales, queue);
		}
		return queue;
	}
	if (sales->count >= sales->inventory->settings->sales_max && !sales_make_room(sales))
		return NULL;
	queue = sale_queue_create(sales->inventory, sale_id);
	queue->next = *bucket;
	*bucket = queue;
	make_newest(sales, queue);
	sales->count++;
	return queue;
}

enum status sales_reserve(struct sales *sales, const char *sale_id, struct reservation *reservation)
{
	struct sale_queue *queue;

	if (!redis_connected(sales->inventory->redis) || !node_ready(sales->inventory->node))
		return STATUS_UNAVAILABLE;
	queue = sales_find(sales, sale_id);
	if (!queue)
		return STATUS_RESOURCE_EXHAUSTED;
	sale_queue_add(queue, reservation);
	return STATUS_OK;
}

void reservation_forget(struct reservation *reservation)
{
	if (reservation->slot)
		*reservation->slot = NULL;
	reservation->slot = NULL;
}
