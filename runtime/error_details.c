/* google.rpc.Status with one detail, as clients expect it in the trailer grpc-status-details-bin.
 *
 * google/rpc/error_details.proto has proto3 optional fields, which protoc-c refuses; the three messages
 * used here have none of them and are written by hand:
 *     BadRequest { repeated FieldViolation field_violations = 1; }
 *     FieldViolation { field = 1, description = 2 }
 *     ErrorInfo { reason = 1, domain = 2 }
 *     RetryInfo { google.protobuf.Duration retry_delay = 1; }
 */
#include "runtime/error_details.h"

#include <assert.h>
#include <string.h>

#include "runtime/channel.h"

#define DOMAIN "stampede"

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

/* A length-delimited field. */
static uint8_t *put_bytes(uint8_t *at, unsigned number, const void *bytes, size_t size)
{
	at = put_varint(at, number << 3 | 2);
	at = put_varint(at, size);
	memcpy(at, bytes, size);
	return at + size;
}

static Google__Protobuf__Any *any(struct arena *arena, const char *type, const void *bytes,
				  size_t size)
{
	Google__Protobuf__Any *any = arena_alloc(arena, sizeof(*any));

	google__protobuf__any__init(any);
	any->type_url = arena_printf(arena, "type.googleapis.com/google.rpc.%s", type);
	any->value.data = arena_alloc(arena, size);
	any->value.len = size;
	memcpy(any->value.data, bytes, size);
	return any;
}

static Google__Protobuf__Any *bad_request(struct arena *arena, const char *field,
					  const char *description)
{
	size_t room = strlen(field) + strlen(description) + 32;
	uint8_t *violation = arena_alloc(arena, room), *whole = arena_alloc(arena, room), *at;

	at = put_bytes(violation, 1, field, strlen(field));
	at = put_bytes(at, 2, description, strlen(description));
	at = put_bytes(whole, 1, violation, (size_t)(at - violation));
	return any(arena, "BadRequest", whole, (size_t)(at - whole));
}

static Google__Protobuf__Any *error_info(struct arena *arena, const char *reason)
{
	uint8_t *bytes = arena_alloc(arena, strlen(reason) + 32), *at;

	at = put_bytes(bytes, 1, reason, strlen(reason));
	at = put_bytes(at, 2, DOMAIN, strlen(DOMAIN));
	return any(arena, "ErrorInfo", bytes, (size_t)(at - bytes));
}

static Google__Protobuf__Any *retry_info(struct arena *arena, int64_t retry_ms)
{
	uint8_t delay[24], bytes[32], *at = delay;

	at = put_varint(at, 1 << 3);
	at = put_varint(at, (uint64_t)(retry_ms / 1000));
	at = put_varint(at, 2 << 3);
	at = put_varint(at, (uint64_t)(retry_ms % 1000) * 1000000);
	at = put_bytes(bytes, 1, delay, (size_t)(at - delay));
	return any(arena, "RetryInfo", bytes, (size_t)(at - bytes));
}

Google__Rpc__Status *error_details_make(struct arena *arena, enum status status,
					const char *message, const struct error_detail *detail)
{
	Google__Rpc__Status *whole = arena_alloc(arena, sizeof(*whole));

	google__rpc__status__init(whole);
	whole->code = (int32_t)status;
	whole->message = arena_strdup(arena, message);
	whole->details = arena_alloc(arena, 3 * sizeof(void *));
	if (detail->field)
		whole->details[whole->n_details++] = bad_request(arena, detail->field, message);
	if (detail->reason)
		whole->details[whole->n_details++] = error_info(arena, detail->reason);
	if (detail->retry_ms)
		whole->details[whole->n_details++] = retry_info(arena, detail->retry_ms);
	return whole;
}

grpc_slice error_details_encode(struct arena *arena, enum status status, const char *message,
				const struct error_detail *detail)
{
	if (detail->encoded)
		return grpc_slice_from_copied_buffer(detail->encoded, detail->encoded_size);
	return rpc_pack(error_details_make(arena, status, message, detail));
}
