/* See order.h. Nothing here waits or fails but the parsers, which answer false. */
#include "services/order/order.h"

#include <string.h>

bool order_id_parse(const char *text, int64_t *ret_order_id)
{
	uint64_t value = 0;
	size_t size = strlen(text);

	if (size < 1 || size > 19 || text[0] == '0')
		return false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0'); /* 19 digits fit 64 bits */
	}
	if (value > INT64_MAX)
		return false;
	*ret_order_id = (int64_t)value;
	return true;
}

size_t order_id_format(int64_t order_id, char text[ORDER_ID_TEXT_SIZE])
{
	char digits[ORDER_ID_TEXT_SIZE];
	size_t size = 0;
	uint64_t value = (uint64_t)order_id;

	do {
		digits[size++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < size; i++)
		text[i] = digits[size - 1 - i];
	text[size] = 0;
	return size;
}

int order_lane(int64_t order_id, int lanes)
{
	return (int)(order_id & 1023) % lanes;
}

bool order_is_final(const struct order *order)
{
	return order->status != ORDER_PENDING;
}

const char *order_status_name(enum order_status status)
{
	switch (status) {
	case ORDER_PENDING:
		return "PENDING";
	case ORDER_PAID:
		return "PAID";
	case ORDER_CANCELLED:
		return "CANCELLED";
	}
	return "UNKNOWN";
}

int64_t timestamp_to_ms(const Google__Protobuf__Timestamp *timestamp)
{
	/* 0001-01-01 to 9999-12-31, as the type is defined */
	if (!timestamp || timestamp->seconds < -62135596800 || timestamp->seconds > 253402300799 ||
	    timestamp->nanos < 0 || timestamp->nanos > 999999999)
		return 0;
	return timestamp->seconds * 1000 + timestamp->nanos / 1000000;
}

static Google__Protobuf__Timestamp *timestamp_set(Google__Protobuf__Timestamp *timestamp,
						  int64_t ms)
{
	if (!ms)
		return NULL;
	google__protobuf__timestamp__init(timestamp);
	timestamp->seconds = ms / 1000;
	timestamp->nanos = (int32_t)(ms % 1000) * 1000000;
	return timestamp;
}

void order_to_message(const struct order *order, struct order_message *ret_message)
{
	Stampede__Order__V1__Order *message = &ret_message->message;

	stampede__order__v1__order__init(message);
	order_id_format(order->order_id, ret_message->order_id);
	/* protobuf-c's strings are not const, though packing only reads them. */
	message->order_id = ret_message->order_id;
	message->sale_id = (char *)order->sale_id;
	message->user_id = (char *)order->user_id;
	message->quantity = order->quantity;
	message->status = (Stampede__Order__V1__OrderStatus)order->status;
	message->amount_minor = order->amount_minor;
	message->currency = (char *)order->currency;
	message->request_id = (char *)order->request_id;
	message->reserved_at = timestamp_set(&ret_message->reserved_at, order->reserved_at_ms);
	message->created_at = timestamp_set(&ret_message->created_at, order->created_at_ms);
	message->updated_at = timestamp_set(&ret_message->updated_at, order->updated_at_ms);
	message->pay_by = timestamp_set(&ret_message->pay_by, order->pay_by_ms);
	message->payment_reference = (char *)order->payment_reference;
	message->cancel_reason = (Stampede__Order__V1__CancelReason)order->cancel_reason;
}

Stampede__Order__V1__Order *order_message_make(const struct order *order, struct arena *arena)
{
	struct order_message *message = arena_alloc(arena, sizeof(*message));

	order_to_message(order, message);
	return &message->message;
}

void order_copy(struct order *order, const struct order *from, struct arena *arena)
{
	*order = *from;
	order->sale_id = arena_strdup(arena, from->sale_id);
	order->user_id = arena_strdup(arena, from->user_id);
	order->request_id = arena_strdup(arena, from->request_id);
	order->currency = arena_strdup(arena, from->currency);
	order->payment_reference = arena_strdup(arena, from->payment_reference);
}
