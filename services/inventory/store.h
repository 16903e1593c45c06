/* Sales and reservations in Redis: the only file, with batch.c and outbox.c, that knows the keys.
 *
 * A sale lives in one hash slot, {sale:<id>.0}; the 0 is the bucket, for hot sales to be split later.
 */
#pragma once

#include "inventory/inventory.h"

#define STORE_KEY_SIZE (ID_MAX + 32)
#define STORE_SALES "stampede:sales" /* a sorted set: all sale ids */
#define STORE_FIELDS_MAX 32

struct store;
struct store *store_create(struct redis *redis);
void store_destroy(struct store *store);

/* suffix: "" the sale, ":users", ":outbox", ":adjustments" */
size_t store_key(char key[STORE_KEY_SIZE], const char *sale_id, const char *suffix);

struct sale {
	int64_t now_ms; /* Redis's clock */
	int status;	/* SaleStatus */
	int64_t total, available, reserved, sold, limit, starts_ms, ends_ms, price, pay_ms,
		created_ms;
	int durability, replicas;
	const char *currency, *etag, *title;
};

/* The first member of the frame of every method that uses the functions below; filled when they end OK. */
struct sale_frame {
	int verdict; /* the script's */
	struct sale sale;
};
enum store_verdict {
	STORE_CHANGED = 1,
	STORE_UNCHANGED = 0,
	STORE_REFUSED = -1, /* other definition, stale etag, too few available */
	STORE_REFUSED_STATUS = -2,
};

struct store_field {
	const char *name, *value;
};

/* NOT_FOUND: no such sale. The strings are copied into the call's arena. */
enum step store_get_sale(struct store *store, struct call *call, const char *sale_id,
			 call_then *then) MUST_USE;
enum step store_create_sale(struct store *store, struct call *call, const char *sale_id,
			    const char *definition, const struct store_field *fields, int count,
			    call_then *then) MUST_USE;
/* `statuses`: digits of SaleStatus in which this is allowed. */
enum step store_update_sale(struct store *store, struct call *call, const char *sale_id,
			    const char *etag, const char *statuses,
			    const struct store_field *fields, int count, call_then *then) MUST_USE;
enum step store_adjust_stock(struct store *store, struct call *call, const char *sale_id,
			     const char *request_id, int64_t delta, call_then *then) MUST_USE;
/* Puts the id among all sales; done before the sale is made, so that none is ever missing there. */
enum step store_register_sale(struct store *store, struct call *call, const char *sale_id,
			      call_then *then) MUST_USE;

struct reservation_record {
	const char *order_id, *user_id, *request_id;
	int quantity, status; /* ReservationStatus */
	int64_t reserved_ms;
};
/* Finds a reservation among those a user has ("<units>\nR<ms>\nO<order>\nQ<quantity>\nI<request>\n…", as reserve.lua
 * keeps them), by whichever id is not NULL, and cuts it out in place: false when it is not there. */
bool store_find_reservation(char *value, const char *order_id, const char *request_id,
			    struct reservation_record *ret_record);

/* The first member of the frame, likewise. */
struct reservation_frame {
	int verdict;
	bool found;
	struct reservation_record reservation;
};
/* One of order_id and request_id, the other NULL. NOT_FOUND: no such sale; found is false: no such reservation. */
enum step store_get_reservation(struct store *store, struct call *call, const char *sale_id,
				const char *user_id, const char *order_id, const char *request_id,
				call_then *then) MUST_USE;
enum step store_settle(struct store *store, struct call *call, const char *sale_id,
		       const char *user_id, const char *order_id, bool confirm,
		       call_then *then) MUST_USE;

/* --- without a call, many at once: events.c, list_sales.c, watch.c --- */
struct store_settlement {
	const char *user_id, *order_id;
	bool confirm;
};
#define STORE_SETTLE_MAX 32
void store_send_settle(struct store *store, struct redis_op *op, const char *sale_id,
		       const struct store_settlement *settlements, int count);
/* The verdict for the index-th; *ret_value is the user's value, the reply's. */
int store_settled(const redisReply *reply, size_t index, const char **ret_value);
void store_send_get_sale(struct store *store, struct redis_op *op, const char *sale_id);
enum status store_decode_sale(const redisReply *reply, struct sale *ret_sale);
