#include "inventory/reply.h"

#include "runtime/utf8.h"

Google__Protobuf__Timestamp *reply_time(struct call *call, int64_t ms)
{
	Google__Protobuf__Timestamp *time;

	if (!ms)
		return NULL;
	time = arena_alloc(call_arena(call), sizeof(*time));
	google__protobuf__timestamp__init(time);
	time->seconds = ms / 1000;
	time->nanos = (int32_t)(ms % 1000) * 1000000;
	return time;
}

Stampede__Inventory__V1__Sale *reply_sale(struct call *call, const char *sale_id,
					  const struct sale *sale)
{
	struct arena *arena = call_arena(call);
	Stampede__Inventory__V1__Sale *message = arena_alloc(arena, sizeof(*message));
	Stampede__Inventory__V1__Money *price = arena_alloc(arena, sizeof(*price));
	Google__Protobuf__Duration *timeout = arena_alloc(arena, sizeof(*timeout));

	stampede__inventory__v1__money__init(price);
	price->amount_minor = sale->price;
	price->currency = (char *)sale->currency;
	google__protobuf__duration__init(timeout);
	timeout->seconds = sale->pay_ms / 1000;
	timeout->nanos = (int32_t)(sale->pay_ms % 1000) * 1000000;
	stampede__inventory__v1__sale__init(message);
	message->sale_id = (char *)sale_id;
	message->title = (char *)sale->title;
	message->status = (Stampede__Inventory__V1__SaleStatus)sale->status;
	message->total = sale->total;
	message->available = sale->available;
	message->reserved = sale->reserved;
	message->sold = sale->sold;
	message->per_user_limit = (int32_t)sale->limit;
	message->starts_at = reply_time(call, sale->starts_ms);
	message->ends_at = reply_time(call, sale->ends_ms);
	message->unit_price = *sale->currency ? price : NULL;
	message->payment_timeout = timeout;
	message->durability = (Stampede__Inventory__V1__Durability)sale->durability;
	message->min_replicas = sale->replicas;
	message->etag = (char *)sale->etag;
	message->created_at = reply_time(call, sale->created_ms);
	return message;
}

Stampede__Inventory__V1__Stock *reply_stock(struct call *call, const char *sale_id,
					    const struct sale *sale)
{
	Stampede__Inventory__V1__Stock *stock = arena_alloc(call_arena(call), sizeof(*stock));

	stampede__inventory__v1__stock__init(stock);
	stock->sale_id = (char *)sale_id;
	stock->status = (Stampede__Inventory__V1__SaleStatus)sale->status;
	stock->total = sale->total;
	stock->available = sale->available;
	stock->reserved = sale->reserved;
	stock->sold = sale->sold;
	stock->starts_at = reply_time(call, sale->starts_ms);
	stock->ends_at = reply_time(call, sale->ends_ms);
	stock->as_of = reply_time(call, sale->now_ms);
	return stock;
}

Stampede__Inventory__V1__Reservation *reply_reservation(struct call *call, const char *sale_id,
							const struct reservation_record *record)
{
	Stampede__Inventory__V1__Reservation *message =
		arena_alloc(call_arena(call), sizeof(*message));

	stampede__inventory__v1__reservation__init(message);
	message->sale_id = (char *)sale_id;
	message->order_id = (char *)record->order_id;
	message->user_id = (char *)record->user_id;
	message->quantity = record->quantity;
	message->request_id = (char *)record->request_id;
	message->status = (Stampede__Inventory__V1__ReservationStatus)record->status;
	message->reserved_at = reply_time(call, record->reserved_ms);
	return message;
}

enum step reply_failure(struct call *call, enum status status, const char *sale_id)
{
	switch (status) {
	case STATUS_NOT_FOUND:
		return call_fail(call, status, "there is no sale '%s'", sale_id);
	case STATUS_UNAVAILABLE:
		return call_fail_retry(call, status, RETRY_MS,
				       "Redis cannot be reached; nothing is known to have changed "
				       "for sale '%s'",
				       sale_id);
	case STATUS_DEADLINE_EXCEEDED:
		return call_fail(call, status, "sale '%s': no answer from Redis in time", sale_id);
	default:
		return call_fail(call, status, "sale '%s': the request failed in Redis", sale_id);
	}
}

const char *check_id(const char *id)
{
	if (!*id)
		return "must not be empty";
	if (!utf8_identifier(id, 1, ID_MAX))
		return "must be at most 64 bytes without control characters";
	return NULL;
}

const char *check_time(const Google__Protobuf__Timestamp *time, int64_t *ret_ms)
{
	*ret_ms = 0;
	if (!time)
		return NULL;
	if (time->seconds < 1 || time->seconds > 253402300799 || time->nanos < 0 ||
	    time->nanos > 999999999)
		return "must be a time between 1970 and 9999";
	*ret_ms = time->seconds * 1000 + time->nanos / 1000000;
	return NULL;
}

const char *check_duration(const Google__Protobuf__Duration *duration, int64_t min_ms,
			   int64_t max_ms, int64_t fallback_ms, int64_t *ret_ms)
{
	*ret_ms = fallback_ms;
	if (!duration)
		return NULL;
	if (duration->seconds < 0 || duration->seconds > max_ms / 1000 || duration->nanos < 0)
		return "is out of range";
	*ret_ms = duration->seconds * 1000 + duration->nanos / 1000000;
	return *ret_ms < min_ms || *ret_ms > max_ms ? "is out of range" : NULL;
}
