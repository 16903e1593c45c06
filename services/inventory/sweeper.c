/* See sweeper.h: all sales are listed by ZSCAN, and each one's outbox read from its beginning.
 *
 *     listed ──► each sale: read ──► outbox_publish ──► … ──► next page
 */
#include "inventory/sweeper.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/outbox.h"
#include "inventory/store.h"
#include "runtime/clock.h"

#define SWEEP_PERIOD_MS 5000
#define SWEEP_AGE_MS 5000 /* younger entries are being published by whoever wrote them */
#define SWEEP_COUNT "100"
#define SWEEP_SALES "500"
#define SWEEP_PENDING_MAX 1000
#define FIELDS 8 /* of a stream entry: four names, four values */

struct sweeper {
	struct inventory *inventory;
	struct timer timer;
	struct redis_op list_op, read_op;
	char cursor[24];
	char **sales;
	size_t sales_count, sale_index;
	bool sweeping;
	struct counter *swept;
};

static void sweep_next(struct sweeper *sweeper);

static void sweep_entry(struct sweeper *sweeper, const char *sale_id, const redisReply *entry)
{
	struct outbox_item items[RESERVE_MANY_MAX];
	const redisReply *fields = entry->element[1];
	struct outbox_terms terms;
	char *at, *lines[5];
	int count = 0;

	if (fields->type != REDIS_REPLY_ARRAY || fields->elements != FIELDS)
		return;
	terms.price = strtoll(fields->element[1]->str, NULL, 10);
	terms.currency = fields->element[3]->str;
	terms.pay_ms = strtoll(fields->element[5]->str, NULL, 10);
	/* user \n R<ms> \n O<order> \n Q<quantity> \n I<request> \n next user … */
	for (at = fields->element[7]->str; *at && count < RESERVE_MANY_MAX; count++) {
		for (int i = 0; i < 5; i++)
			if (!(lines[i] = strsep(&at, "\n")) || !at)
				return;
		items[count] = (struct outbox_item){.user_id = lines[0],
						    .order_id = lines[2] + 1,
						    .request_id = lines[4] + 1,
						    .quantity = (int)strtol(lines[3] + 1, NULL, 10),
						    .reserved_ms = strtoll(lines[1] + 1, NULL, 10)};
	}
	if (!count)
		return;
	sweeper->swept->value++;
	outbox_publish(sweeper->inventory->outbox, sale_id, entry->element[0]->str, &terms, items,
		       count, NULL);
}

static void sweep_read(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct sweeper *sweeper = container_of(op, struct sweeper, read_op);
	const char *sale_id = sweeper->sales[sweeper->sale_index++];

	if (status == STATUS_OK && reply->type == REDIS_REPLY_ARRAY)
		for (size_t i = 0; i < reply->elements; i++)
			sweep_entry(sweeper, sale_id, reply->element[i]);
	sweep_next(sweeper);
}

static void sweep_sale(struct sweeper *sweeper, const char *sale_id)
{
	char key[STORE_KEY_SIZE], until[24];
	const char *values[] = {"XRANGE", key, "-", until, "COUNT", SWEEP_COUNT};
	size_t sizes[6];

	store_key(key, sale_id, ":outbox");
	snprintf(until, sizeof(until), "%" PRId64, clock_wall_ms() - SWEEP_AGE_MS);
	for (int i = 0; i < 6; i++)
		sizes[i] = strlen(values[i]);
	redis_send(sweeper->inventory->redis, &sweeper->read_op,
		   (struct redis_args){6, values, sizes});
}

static void sweep_free_sales(struct sweeper *sweeper)
{
	for (size_t i = 0; i < sweeper->sales_count; i++)
		free(sweeper->sales[i]);
	free(sweeper->sales);
	sweeper->sales = NULL;
	sweeper->sales_count = sweeper->sale_index = 0;
}

static void sweep_listed(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct sweeper *sweeper = container_of(op, struct sweeper, list_op);
	const redisReply *pairs;

	sweep_free_sales(sweeper);
	if (status != STATUS_OK || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
		sweeper->sweeping = false;
		return;
	}
	snprintf(sweeper->cursor, sizeof(sweeper->cursor), "%s", reply->element[0]->str);
	pairs = reply->element[1]; /* member, score, … */
	sweeper->sales = calloc(pairs->elements / 2 + 1, sizeof(char *));
	assert(sweeper->sales);
	for (size_t i = 0; i < pairs->elements; i += 2)
		sweeper->sales[sweeper->sales_count++] = strdup(pairs->element[i]->str);
	sweep_next(sweeper);
}

static void sweep_list(struct sweeper *sweeper)
{
	const char *values[] = {"ZSCAN", STORE_SALES, sweeper->cursor, "COUNT", SWEEP_SALES};
	size_t sizes[5];

	for (int i = 0; i < 5; i++)
		sizes[i] = strlen(values[i]);
	redis_send(sweeper->inventory->redis, &sweeper->list_op,
		   (struct redis_args){5, values, sizes});
}

static void sweep_next(struct sweeper *sweeper)
{
	if (sweeper->sale_index < sweeper->sales_count && bus_up(sweeper->inventory->bus) &&
	    outbox_pending(sweeper->inventory->outbox) < SWEEP_PENDING_MAX) {
		sweep_sale(sweeper, sweeper->sales[sweeper->sale_index]);
	} else if (sweeper->sale_index == sweeper->sales_count &&
		   strcmp(sweeper->cursor, "0") != 0) {
		sweep_list(sweeper);
	} else {
		sweeper->sweeping = false;
		sweep_free_sales(sweeper);
	}
}

void sweeper_sweep(struct sweeper *sweeper)
{
	if (sweeper->sweeping || !redis_connected(sweeper->inventory->redis) ||
	    !bus_up(sweeper->inventory->bus))
		return;
	sweeper->sweeping = true;
	strcpy(sweeper->cursor, "0");
	sweep_list(sweeper);
}

static void sweep_timer(struct timer *timer)
{
	struct sweeper *sweeper = container_of(timer, struct sweeper, timer);

	sweeper_sweep(sweeper);
	timer_start_us(timer, SWEEP_PERIOD_MS * 1000);
}

struct sweeper *sweeper_create(struct inventory *inventory)
{
	struct sweeper *sweeper = calloc(1, sizeof(*sweeper));

	assert(sweeper);
	sweeper->inventory = inventory;
	sweeper->list_op.done = sweep_listed;
	sweeper->read_op.done = sweep_read;
	sweeper->swept = metrics_counter(inventory->metrics, "stampede_outbox_swept_total",
					 "Outbox entries published by the sweeper.", NULL);
	timer_init(&sweeper->timer, inventory->loop, sweep_timer);
	timer_start_us(&sweeper->timer, SWEEP_PERIOD_MS * 1000);
	return sweeper;
}

void sweeper_destroy(struct sweeper *sweeper)
{
	if (!sweeper)
		return;
	timer_stop(&sweeper->timer);
	sweep_free_sales(sweeper);
	free(sweeper);
}
