#include "inventory/node.h"

#include <assert.h>
#include <embed/inventory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"

#define NODES 64
#define SEQUENCES 128
#define EPOCH_MS 1735689600000 /* 2025-01-01 */
#define LEASE_MS 30000
#define RENEW_MS 10000
#define RETRY_LEASE_MS 500

struct node {
	struct loop *loop;
	struct redis *redis;
	struct redis_script lease;
	struct redis_op op;
	struct timer timer;
	struct health_part *part;
	char instance[ID_MAX + 1];
	int number; /* that is held, or asked for */
	int tried;  /* numbers found taken in a row */
	bool asking, held;
	int64_t asked_us, until_us; /* of the lease, by our clock: from when it was asked for */
	int64_t last_ms;
	int sequence;
};

static void node_ask(struct node *node)
{
	char key[40], lease[16];
	const char *values[3] = {key, node->instance, lease};
	size_t sizes[3];

	if (node->asking || !redis_connected(node->redis))
		return;
	node->asking = true;
	node->asked_us = clock_monotonic_us();
	snprintf(key, sizeof(key), "stampede:node:%d", node->number);
	snprintf(lease, sizeof(lease), "%d", LEASE_MS);
	for (int i = 0; i < 3; i++)
		sizes[i] = strlen(values[i]);
	redis_send_script(node->redis, &node->op, &node->lease, 1,
			  (struct redis_args){3, values, sizes});
}

static void node_asked(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct node *node = container_of(op, struct node, op);

	node->asking = false;
	if (status != STATUS_OK) {
		timer_start_us(&node->timer, RETRY_LEASE_MS * 1000);
		return;
	}
	if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) {
		node->until_us = node->asked_us + LEASE_MS * 1000;
		node->tried = 0;
		node->held = true;
		health_set(node->part, true, "");
		timer_start_us(&node->timer, RENEW_MS * 1000);
		return;
	}
	node->held = false;
	node->number = (node->number + 1) % NODES;
	if (++node->tried < NODES) {
		node_ask(node);
		return;
	}
	node->tried = 0;
	health_set(node->part, false, "all 64 node numbers are taken by other instances");
	timer_start_us(&node->timer, RETRY_LEASE_MS * 1000);
}

static void node_timer(struct timer *timer)
{
	struct node *node = container_of(timer, struct node, timer);

	if (!node_ready(node))
		health_set(node->part, false, "the lease of the node number ran out");
	node_ask(node);
	if (!node->asking)
		timer_start_us(&node->timer, RETRY_LEASE_MS * 1000);
}

struct node *node_create(struct loop *loop, struct redis *redis, const char *instance,
			 struct health_part *part)
{
	struct node *node = calloc(1, sizeof(*node));
	unsigned hash = 5381;

	assert(node);
	node->loop = loop;
	node->redis = redis;
	node->part = part;
	node->lease = (struct redis_script){.name = "lease_node",
					    .source = (const char *)inventory_lease_node_lua};
	node->op.done = node_asked;
	snprintf(node->instance, sizeof(node->instance), "%s", instance);
	for (const char *at = instance; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	node->number = (int)(hash % NODES);
	timer_init(&node->timer, loop, node_timer);
	return node;
}

void node_destroy(struct node *node)
{
	if (!node)
		return;
	timer_stop(&node->timer);
	if (node->asking)
		redis_forget(&node->op);
	free(node);
}

void node_connected(struct node *node)
{
	timer_stop(&node->timer);
	node_ask(node);
}

bool node_ready(const struct node *node)
{
	return node->held && loop_now_us(node->loop) < node->until_us;
}

static unsigned user_shard(const char *user_id)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *user_id; user_id++)
		hash = (hash ^ (unsigned char)*user_id) * 16777619u;
	return (hash ^ hash >> 15) % NODE_SHARDS;
}

size_t node_order_id(struct node *node, const char *user_id, char ret_id[ORDER_ID_SIZE])
{
	int64_t now_ms = clock_wall_ms() - EPOCH_MS;
	uint64_t id;
	char digits[ORDER_ID_SIZE], *at = digits + sizeof(digits);
	size_t length;

	assert(node->held);
	if (now_ms > node->last_ms) {
		node->last_ms = now_ms;
		node->sequence = 0;
	} else if (++node->sequence == SEQUENCES) {
		node->last_ms++;
		node->sequence = 0;
	}
	id = (uint64_t)node->last_ms << 23 | (uint64_t)node->number << 17 |
	     (uint64_t)node->sequence << 10 | user_shard(user_id);
	*--at = 0;
	do {
		*--at = (char)('0' + id % 10);
		id /= 10;
	} while (id);
	length = (size_t)(digits + sizeof(digits) - at) - 1;
	memcpy(ret_id, at, length + 1);
	return length;
}

int order_lane(const char *order_id, int lanes)
{
	return (int)((strtoull(order_id, NULL, 10) % NODE_SHARDS) % (unsigned)lanes);
}
