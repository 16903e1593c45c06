/* What a transaction tells others, as whole records: written in the same transaction, handed on
 * after it.
 *
 * Protobuf lets repeated fields be appended, so an entry is packed once, onto the end of its lane's
 * record. A record is closed when it reaches OUTBOX_RECORD_SIZE_MAX or OUTBOX_ENTRIES_MAX.
 */
#pragma once

#include <stddef.h>

#include "services/order/order.h"

enum outbox_kind {
	OUTBOX_EVENTS = 1, /* stampede.events.v1.OrdersChanged, to the bus */
	OUTBOX_JOBS = 2,   /* stampede.scheduler.v1.PublishBatchRequest, to the scheduler */
	OUTBOX_RELEASE = 3 /* stampede.inventory.v1.ReleaseRequest, to inventory */
};
#define OUTBOX_KIND_COUNT 4 /* numbers, the unused 0 included */

#define OUTBOX_LANES_MAX 64
#define OUTBOX_RECORD_SIZE_MAX                                                                     \
	(56 * 1024)		/* under every receiver's limit, the usual 64 KiB of an RPC too */
#define OUTBOX_ENTRIES_MAX 1000 /* PublishBatch takes no more */

/* One job is about so many orders at most, and their times to pay lie no further apart. */
#define OUTBOX_UNPAID_MAX 500
#define OUTBOX_UNPAID_SPREAD_MS 1000
/* Groups that a lane may have in the making: sales with other times to pay come interleaved. */
#define OUTBOX_UNPAID_OPEN_MAX 4

struct outbox_record {
	struct outbox_record *next;
	int64_t id; /* rises with every record; set when written */
	enum outbox_kind kind;
	int lane; /* of events; 0 for others */
	int entries;
	size_t size, room;
	uint8_t *bytes;
};
struct outbox_record *outbox_record_make(enum outbox_kind kind, int lane, const void *bytes,
					 size_t size);
void outbox_record_free(struct outbox_record *record);
void outbox_records_free(struct outbox_record *list);

/* The records of one transaction in the making. */
struct outbox {
	int lanes;
	const char *jobs_queue; /* queue and topic of the jobs */
	struct outbox_record *events[OUTBOX_LANES_MAX];
	struct outbox_record *jobs;
	struct outbox_unpaid *unpaid[OUTBOX_LANES_MAX][OUTBOX_UNPAID_OPEN_MAX]; /* no gaps */
	struct outbox_record *closed, **closed_end;
};
void outbox_init(struct outbox *outbox, int lanes, const char *jobs_queue);
void outbox_free(struct outbox *outbox);
/* The order has got its status; `previous` is 0 when it has just been placed. */
void outbox_add_change(struct outbox *outbox, const struct order *order, int previous);
/* The order is among those of a job that falls due when its time to pay is over, or at most
 * OUTBOX_UNPAID_SPREAD_MS later. */
void outbox_add_job(struct outbox *outbox, const struct order *order);
void outbox_add_release(struct outbox *outbox, const char *sale_id, const char *user_id,
			const char *order_id);
/* Closes all records and gives them to the caller, oldest first; NULL when there are none. */
struct outbox_record *outbox_take(struct outbox *outbox);
