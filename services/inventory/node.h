/* Order ids: 63 bits, rising with time, unique over all instances, carrying the user's shard.
 *
 *     40 bits ms since 2025-01-01 | 6 bits node | 7 bits sequence | 10 bits shard
 *
 * Idea: Twitter's snowflake. The node number is leased in Redis, so no two instances have the same one; without a
 * lease in force no id is made. When the clock steps back, or a millisecond's 128 numbers are used up, ids go on from the
 * largest time used.
 */
#pragma once

#include "inventory/inventory.h"

#define NODE_SHARDS 1024

struct node;
/* `part` follows whether a lease is held. */
struct node *node_create(struct loop *loop, struct redis *redis, const char *instance,
			 struct health_part *part);
void node_destroy(struct node *node);
/* To be called when Redis is there (again). */
void node_connected(struct node *node);
bool node_ready(const struct node *node);
/* The next id for this user; the node must be ready. Returns its length. */
size_t node_order_id(struct node *node, const char *user_id, char ret_id[ORDER_ID_SIZE]);
/* The lane that events of an order travel in. */
int order_lane(const char *order_id, int lanes);
