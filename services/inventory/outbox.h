/* The outbox: what reserve.lua wrote into a sale's stream goes to the bus at once (under load, together with
 * what comes within 5 ms) and is deleted when the bus has confirmed it. What a crash or a dead bus leaves behind is the
 * sweeper's.
 */
#pragma once

#include "inventory/inventory.h"

struct outbox;
struct outbox *outbox_create(struct inventory *inventory);
void outbox_destroy(struct outbox *outbox);

struct outbox_item {
	const char *order_id, *user_id, *request_id;
	int quantity;
	int64_t reserved_ms;
};
struct outbox_terms { /* the sale's, when the reservations were made */
	int64_t price, pay_ms;
	const char *currency;
};
/* `done` (NULL: nobody waits) runs when the bus has confirmed all, or failed; never inside. */
struct outbox_wait {
	void (*done)(struct outbox_wait *wait, enum status status);
	struct outbox_wait *next; /* the outbox's */
};
/* `entry` "": the items stand in no stream entry of their own (they were published before). Everything is
 * copied. */
void outbox_publish(struct outbox *outbox, const char *sale_id, const char *entry,
		    const struct outbox_terms *terms, const struct outbox_item *items, int count,
		    struct outbox_wait *wait);
void outbox_forget(struct outbox *outbox, struct outbox_wait *wait);

/* Entries not yet confirmed and deleted, and waits. */
int outbox_pending(const struct outbox *outbox);
/* Publishes and deletes what is gathered, and runs `idle` once when nothing is pending any more. */
void outbox_when_idle(struct outbox *outbox, void (*idle)(void *context), void *context);
