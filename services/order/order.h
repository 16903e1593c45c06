/* An order as this service holds it, between its three forms: a row, a message, an entry of a
 * record. */
#pragma once

#include <stampede/order/v1/order.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

#define IDENTIFIER_SIZE_MAX 64
#define ORDER_QUANTITY_MAX 1000000

/* The proto's numbers, in the database too. */
enum order_status {
	ORDER_PENDING = STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_PENDING,
	ORDER_PAID = STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_PAID,
	ORDER_CANCELLED = STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_CANCELLED,
};
#define ORDER_STATUS_COUNT 4 /* numbers, the unused 0 included */

enum cancel_reason {
	CANCEL_NONE = 0,
	CANCEL_BUYER = STAMPEDE__ORDER__V1__CANCEL_REASON__CANCEL_REASON_BUYER,
	CANCEL_UNPAID = STAMPEDE__ORDER__V1__CANCEL_REASON__CANCEL_REASON_UNPAID,
};

/* Strings are never NULL and belong to whoever made the order. */
struct order {
	int64_t order_id;
	const char *sale_id, *user_id, *request_id;
	const char *currency, *payment_reference;
	int32_t quantity;
	enum order_status status;
	enum cancel_reason cancel_reason;
	int64_t amount_minor;
	int64_t reserved_at_ms, created_at_ms, updated_at_ms, pay_by_ms; /* 0: not known */
};

#define ORDER_ID_TEXT_SIZE 21
/* Decimal, 1 to 2^63 - 1, without sign and leading zeros. */
bool order_id_parse(const char *text, int64_t *ret_order_id);
/* Returns how many digits there are; a zero byte follows them. */
size_t order_id_format(int64_t order_id, char text[ORDER_ID_TEXT_SIZE]);
/* Which record key the order travels under: its user's shard, which stands in the id's low bits. */
int order_lane(int64_t order_id, int lanes);

bool order_is_final(const struct order *order);
const char *order_status_name(enum order_status status); /* "PENDING" */

/* The message in memory of the caller's, so that packing needs no allocation. */
struct order_message {
	Stampede__Order__V1__Order message;
	Google__Protobuf__Timestamp reserved_at, created_at, updated_at, pay_by;
	char order_id[ORDER_ID_TEXT_SIZE];
};
void order_to_message(const struct order *order, struct order_message *ret_message);
/* The same, allocated: points into the order's strings. */
Stampede__Order__V1__Order *order_message_make(const struct order *order, struct arena *arena);
/* Copies the order with its strings. */
void order_copy(struct order *order, const struct order *from, struct arena *arena);

/* 0 when it is unset or out of the range of the type. */
int64_t timestamp_to_ms(const Google__Protobuf__Timestamp *timestamp);
