/* A batch of reservations: gathered, decided by reserve.lua, published, answered.
 *
 *     gathering ──► under way ──► decided ──► (replicated | logged) ──► answered
 *
 * The batch owns copies of what it sends, since a caller may leave while the script runs and its reservation must be
 * published all the same. When Redis is lost meanwhile, everybody in the batch gets UNAVAILABLE: whether it was decided shows
 * when the request id is sent again.
 */
#include "inventory/batch.h"

#include <assert.h>
#include <embed/inventory.h>
#include <inttypes.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/node.h"
#include "inventory/outbox.h"
#include "inventory/watch.h"

#define HEAD 8 /* what reserve.lua returns before the answers */
#define ARGS_PER_ITEM 3
#define ANSWER_OUTBOX_FULL 7
#define USER_BYTES_MAX "32768" /* of one user's reservations in one sale: some 300 */
#define WAIT_MS 1000	       /* for the replicas */

struct item {
	struct reservation *waiter; /* NULL: nobody waits (any more) */
	enum status status;
	const char *user_id, *request_id, *tail; /* tail: reserve.lua tells */
	size_t user_size, quantity_size, tail_size;
	int quantity;
	char quantity_text[8], order_id[ORDER_ID_SIZE];
};

struct batch {
	struct sale_queue *queue;
	struct redis_op op;
	struct outbox_wait outbox_wait;
	bool asked, waits_for_outbox;
	struct arena arena;
	struct batch *next, **link;
	int replicas, count;
	struct item items[];
};

static struct redis_script reserve_script = {.name = "reserve"};

static void batch_replied(struct redis_op *op, enum status status, const redisReply *reply);
static void batch_replicated(struct redis_op *op, enum status status, const redisReply *reply);
static void batch_logged(struct outbox_wait *wait, enum status status);
static void sale_queue_send(struct sale_queue *queue);

/* --- gathering ---------------------------------------------------------------------------------- */

static struct batch *batch_create(struct sale_queue *queue)
{
	size_t max = (size_t)queue->inventory->settings->batch_max;
	struct batch *batch = malloc(sizeof(*batch) + max * sizeof(struct item));

	assert(batch);
	memset(batch, 0, sizeof(*batch));
	arena_init(&batch->arena, NULL, 0);
	batch->queue = queue;
	return batch;
}

static void batch_free(struct batch *batch)
{
	struct sale_queue *queue = batch->queue;

	if (batch->link) {
		*batch->link = batch->next;
		if (batch->next)
			batch->next->link = batch->link;
		queue->batches--;
	}
	arena_reset(&batch->arena);
	free(batch);
}

/* "order \n Q quantity \n I request \n" */
static void item_make_tail(struct item *item, struct arena *arena, size_t order_size)
{
	size_t request_size = strlen(item->request_id);
	char *at = arena_alloc(arena, order_size + item->quantity_size + request_size + 6);

	item->tail = at;
	at = mempcpy(at, item->order_id, order_size);
	at = mempcpy(at, "\nQ", 2);
	at = mempcpy(at, item->quantity_text, item->quantity_size);
	at = mempcpy(at, "\nI", 2);
	at = mempcpy(at, item->request_id, request_size);
	*at++ = '\n';
	item->tail_size = (size_t)(at - item->tail);
}

void sale_queue_add(struct sale_queue *queue, struct reservation *reservation)
{
	struct batch *batch = queue->gathering;
	struct item *item;

	if (!batch)
		batch = queue->gathering = batch_create(queue);
	item = &batch->items[batch->count++];
	item->waiter = reservation;
	reservation->slot = &item->waiter;
	item->user_size = strlen(reservation->user_id);
	item->user_id = arena_memdup(&batch->arena, reservation->user_id, item->user_size);
	item->request_id = arena_strdup(&batch->arena, reservation->request_id);
	item->quantity = reservation->quantity;
	item->quantity_size = (size_t)snprintf(item->quantity_text, sizeof(item->quantity_text),
					       "%d", item->quantity);
	item_make_tail(item, &batch->arena,
		       node_order_id(queue->inventory->node, reservation->user_id, item->order_id));
	if (batch->count == queue->inventory->settings->batch_max)
		sale_queue_send(queue);
	else
		loop_defer(queue->inventory->loop, LOOP_GATHER, &queue->hook);
}

static void batch_link(struct batch *batch)
{
	struct sale_queue *queue = batch->queue;

	batch->next = queue->under_way;
	batch->link = &queue->under_way;
	if (batch->next)
		batch->next->link = &batch->next;
	queue->under_way = batch;
	queue->batches++;
}

static void sale_queue_send(struct sale_queue *queue)
{
	static const char *values[SALE_KEYS + 2 + ARGS_PER_ITEM * BATCH_MAX];
	static size_t sizes[SALE_KEYS + 2 + ARGS_PER_ITEM * BATCH_MAX];
	struct batch *batch = queue->gathering;
	char outbox_max[24];
	int count = 0;

	queue->gathering = NULL;
	loop_defer_cancel(queue->inventory->loop, LOOP_GATHER, &queue->hook);
	batch_link(batch);
	for (; count < SALE_KEYS; count++) {
		values[count] = queue->keys[count];
		sizes[count] = queue->key_sizes[count];
	}
	values[count] = outbox_max;
	sizes[count++] = (size_t)snprintf(outbox_max, sizeof(outbox_max), "%" PRId64,
					  queue->inventory->settings->outbox_max);
	values[count] = USER_BYTES_MAX;
	sizes[count++] = sizeof(USER_BYTES_MAX) - 1;
	for (int i = 0; i < batch->count; i++) {
		const struct item *item = &batch->items[i];

		values[count] = item->user_id;
		sizes[count++] = item->user_size;
		values[count] = item->quantity_text;
		sizes[count++] = item->quantity_size;
		values[count] = item->tail;
		sizes[count++] = item->tail_size;
	}
	batch->op.done = batch_replied;
	batch->asked = true;
	redis_send_script(queue->inventory->redis, &batch->op, &reserve_script, SALE_KEYS,
			  (struct redis_args){count, values, sizes});
}

static void sale_queue_gathered(struct loop_hook *hook)
{
	struct sale_queue *queue = container_of(hook, struct sale_queue, hook);

	if (queue->gathering && queue->batches < queue->inventory->settings->batches_max)
		sale_queue_send(queue);
}

/* --- decided ------------------------------------------------------------------------------------ */

static void item_finish(struct item *item, enum status status)
{
	struct reservation *waiter = item->waiter;

	if (!waiter)
		return;
	item->waiter = NULL;
	waiter->slot = NULL;
	waiter->done(waiter, status);
}

/* `status` not OK: for all of them. */
static void batch_finish(struct batch *batch, enum status status)
{
	struct sale_queue *queue = batch->queue;

	for (int i = 0; i < batch->count; i++) {
		struct item *item = &batch->items[i];

		item_finish(item, status != STATUS_OK ? status : item->status);
	}
	batch_free(batch);
	if (queue->gathering)
		loop_defer(queue->inventory->loop, LOOP_GATHER, &queue->hook);
}

static void item_reserved(struct item *item, int64_t pay_by_ms)
{
	struct reservation *waiter = item->waiter;

	if (!waiter)
		return;
	waiter->outcome = STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_RESERVED;
	memcpy(waiter->order_id, item->order_id, ORDER_ID_SIZE);
	waiter->pay_by_ms = pay_by_ms;
	waiter->repeated = false;
}

/* `value`: all the user has in this sale, the first answer to this request id among it. */
static enum status item_repeated(struct batch *batch, struct item *item, const char *value,
				 int64_t pay_ms, struct reservation_record *ret_record)
{
	if (!store_find_reservation(arena_strdup(&batch->arena, value), NULL, item->request_id,
				    ret_record) ||
	    strlen(ret_record->order_id) >= ORDER_ID_SIZE)
		return STATUS_INTERNAL;
	if (ret_record->quantity != item->quantity)
		return STATUS_ALREADY_EXISTS;
	memcpy(item->order_id, ret_record->order_id, strlen(ret_record->order_id) + 1);
	item_reserved(item, ret_record->reserved_ms + pay_ms);
	if (item->waiter)
		item->waiter->repeated = true;
	return STATUS_OK;
}

static int64_t head_number(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER ? reply->integer : strtoll(reply->str, NULL, 10);
}

/* What the script answered, item by item; collects what has to go to the bus. Those who need not wait
 * for that are told. */
static int batch_decide(struct batch *batch, const redisReply *reply,
			const struct outbox_terms *terms, bool logged, struct outbox_item *items)
{
	int64_t now_ms = reply->element[0]->integer;
	int count = 0;

	for (int i = 0; i < batch->count; i++) {
		const redisReply *answer = reply->element[HEAD + i];
		struct item *item = &batch->items[i];
		struct reservation_record before = {0};

		item->status = STATUS_OK;
		if (answer->type == REDIS_REPLY_STRING) {
			item->status =
				item_repeated(batch, item, answer->str, terms->pay_ms, &before);
			/* Its first answer may have been lost before the bus had it. */
			if (logged && item->status == STATUS_OK && before.status == 1)
				items[count++] = (struct outbox_item){
					item->order_id, item->user_id, item->request_id,
					item->quantity, before.reserved_ms};
		} else if (answer->integer == 1) {
			item_reserved(item, now_ms + terms->pay_ms);
			items[count++] =
				(struct outbox_item){item->order_id, item->user_id,
						     item->request_id, item->quantity, now_ms};
		} else if (answer->integer == ANSWER_OUTBOX_FULL) {
			item->status = STATUS_RESOURCE_EXHAUSTED;
		} else if (item->waiter) {
			item->waiter->outcome = (int)answer->integer;
		}
	}
	return count;
}

static void batch_replied(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct batch *batch = container_of(op, struct batch, op);
	struct inventory *inventory = batch->queue->inventory;
	struct outbox_item items[BATCH_MAX];
	struct outbox_terms terms;
	redisReply **head;
	int durability, count;
	bool logged, replicated;

	batch->asked = false;
	if (status == STATUS_OK && reply->type == REDIS_REPLY_NIL)
		status = STATUS_NOT_FOUND;
	else if (status == STATUS_OK && (reply->type != REDIS_REPLY_ARRAY ||
					 reply->elements != (size_t)(HEAD + batch->count)))
		status = STATUS_INTERNAL;
	if (status != STATUS_OK) {
		batch_finish(batch, status);
		return;
	}
	head = reply->element;
	terms = (struct outbox_terms){head_number(head[3]), head_number(head[5]), head[4]->str};
	durability = (int)head_number(head[6]);
	batch->replicas = (int)head_number(head[7]);
	logged = durability == STAMPEDE__INVENTORY__V1__DURABILITY__DURABILITY_LOGGED;
	replicated = durability == STAMPEDE__INVENTORY__V1__DURABILITY__DURABILITY_REPLICATED;
	count = batch_decide(batch, reply, &terms, logged, items);
	if (*head[2]->str)
		watches_changed(inventory->watches, batch->queue->sale_id);
	if (count) {
		batch->outbox_wait.done = batch_logged;
		batch->waits_for_outbox = logged;
		outbox_publish(inventory->outbox, batch->queue->sale_id, head[2]->str, &terms,
			       items, count, logged ? &batch->outbox_wait : NULL);
	}
	if (replicated) {
		char replicas[12], timeout[12];
		const char *values[] = {"WAIT", replicas, timeout};
		size_t sizes[] = {4, 0, 0};

		/* After a repeat too: whether its first run was replicated is not known. */
		sizes[1] = (size_t)snprintf(replicas, sizeof(replicas), "%d", batch->replicas);
		sizes[2] = (size_t)snprintf(timeout, sizeof(timeout), "%d", WAIT_MS);
		batch->op.done = batch_replicated;
		batch->asked = true;
		redis_send(inventory->redis, &batch->op, (struct redis_args){3, values, sizes});
	} else if (!batch->waits_for_outbox) {
		batch_finish(batch, STATUS_OK);
	}
}

static void batch_replicated(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct batch *batch = container_of(op, struct batch, op);

	batch->asked = false;
	if (status == STATUS_OK && reply->integer < batch->replicas)
		status = STATUS_UNAVAILABLE;
	batch_finish(batch, status);
}

static void batch_logged(struct outbox_wait *wait, enum status status)
{
	struct batch *batch = container_of(wait, struct batch, outbox_wait);

	batch->waits_for_outbox = false;
	batch_finish(batch, status);
}

/* --- a sale's queue ------------------------------------------------------------------------------- */

struct sale_queue *sale_queue_create(struct inventory *inventory, const char *sale_id)
{
	static const char *const suffixes[SALE_KEYS] = {"", ":users", ":outbox"};
	struct sale_queue *queue = calloc(1, sizeof(*queue));

	assert(queue);
	reserve_script.source = (const char *)inventory_reserve_lua;
	queue->inventory = inventory;
	snprintf(queue->sale_id, sizeof(queue->sale_id), "%s", sale_id);
	for (int i = 0; i < SALE_KEYS; i++)
		queue->key_sizes[i] = store_key(queue->keys[i], sale_id, suffixes[i]);
	queue->hook.run = sale_queue_gathered;
	return queue;
}

static void batch_abort(struct batch *batch)
{
	if (batch->asked)
		redis_forget(&batch->op);
	if (batch->waits_for_outbox)
		outbox_forget(batch->queue->inventory->outbox, &batch->outbox_wait);
	for (int i = 0; i < batch->count; i++)
		item_finish(&batch->items[i], STATUS_UNAVAILABLE);
	batch_free(batch);
}

void sale_queue_destroy(struct sale_queue *queue)
{
	struct batch *gathering = queue->gathering;

	queue->gathering = NULL;
	while (queue->under_way)
		batch_abort(queue->under_way);
	if (gathering)
		batch_abort(gathering);
	loop_defer_cancel(queue->inventory->loop, LOOP_GATHER, &queue->hook);
	free(queue);
}

bool sale_queue_idle(const struct sale_queue *queue)
{
	return !queue->gathering && !queue->batches;
}
