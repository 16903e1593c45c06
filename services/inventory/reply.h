/* Sales and reservations as messages, and the checks all requests share. */
#pragma once

#include <stampede/inventory/v1/inventory.pb-c.h>

#include "inventory/store.h"

Stampede__Inventory__V1__Sale *reply_sale(struct call *call, const char *sale_id,
					  const struct sale *sale);
Stampede__Inventory__V1__Stock *reply_stock(struct call *call, const char *sale_id,
					    const struct sale *sale);
Stampede__Inventory__V1__Reservation *reply_reservation(struct call *call, const char *sale_id,
							const struct reservation_record *record);
/* NULL for 0. */
Google__Protobuf__Timestamp *reply_time(struct call *call, int64_t ms);

/* Redis failed: the answer that says so. `what` e.g. "sale 'x' was not read". */
enum step reply_failure(struct call *call, enum status status, const char *sale_id) MUST_USE;

/* NULL when it is a good identifier; otherwise what is wrong with it. */
const char *check_id(const char *id);
/* NULL, or what is wrong; *ret_ms is 0 for an unset time. */
const char *check_time(const Google__Protobuf__Timestamp *time, int64_t *ret_ms);
const char *check_duration(const Google__Protobuf__Duration *duration, int64_t min_ms,
			   int64_t max_ms, int64_t fallback_ms, int64_t *ret_ms);
