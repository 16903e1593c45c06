/* One sale's reservations in batches; see sales.h. */
#pragma once

#include "inventory/sales.h"
#include "inventory/store.h"

#define SALE_KEYS 3 /* of reserve.lua */

struct sale_queue {
	struct inventory *inventory;
	char sale_id[ID_MAX + 1];
	char keys[SALE_KEYS][STORE_KEY_SIZE];
	size_t key_sizes[SALE_KEYS];
	struct batch *gathering; /* NULL: none yet */
	struct batch *under_way;
	int batches;
	struct loop_hook hook;
	/* the table's (sales.c) */
	struct sale_queue *next, *newer, *older;
};

struct sale_queue *sale_queue_create(struct inventory *inventory, const char *sale_id);
/* Those still waiting are continued with UNAVAILABLE. */
void sale_queue_destroy(struct sale_queue *queue);
bool sale_queue_idle(const struct sale_queue *queue);
void sale_queue_add(struct sale_queue *queue, struct reservation *reservation);
