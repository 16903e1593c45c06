/* The sales that this process sells: reservations gathered per sale and decided in batches.
 *
 *     sales_reserve ─► gathered in this round of the loop ─► one EVALSHA ─► outbox ─► answers
 *
 * At most STAMPEDE_BATCHES_MAX scripts of a sale are under way; what comes meanwhile makes the next batch larger (up to
 * STAMPEDE_BATCH_MAX), so load makes Redis's work cheaper, not longer.
 */
#pragma once

#include "inventory/inventory.h"

struct sales;
struct sales *sales_create(struct inventory *inventory);
void sales_destroy(struct sales *sales);

/* One reservation asked for: embedded by who asks; strings stay until `done`. */
struct reservation {
	const char *user_id, *request_id;
	int quantity;
	/* Once, never inside sales_reserve(). NOT_FOUND: no such sale. ALREADY_EXISTS: the user used the
	 * request id with another quantity. RESOURCE_EXHAUSTED: the sale's outbox is full. */
	void (*done)(struct reservation *reservation, enum status status);
	int outcome; /* set when OK: Outcome */
	char order_id[ORDER_ID_SIZE];
	int64_t pay_by_ms;
	bool repeated;
	struct reservation **slot; /* where its batch knows it; NULL: not under way */
};
/* Not OK: nothing was started. UNAVAILABLE: Redis is away, or no node number is leased;
 * RESOURCE_EXHAUSTED: too many sales at once. */
enum status sales_reserve(struct sales *sales, const char *sale_id,
			  struct reservation *reservation) MUST_USE;
/* Nobody waits any more; it may be decided all the same. */
void reservation_forget(struct reservation *reservation);
