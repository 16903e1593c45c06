/* Protobuf's wire format: varints, tags, and finding one's way through a message's bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gateway/buffer.h"

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_GROUP = 3,
	WIRE_GROUP_END = 4,
	WIRE_FIXED32 = 5,
};

#define WIRE_VARINT_MAX 10 /* bytes */

/* One field as it stands in the bytes. */
struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value;	      /* varint, fixed */
	const uint8_t *bytes; /* length-delimited */
	size_t size;
};

/* Reads the field at *at and moves on; false when the bytes are malformed. Groups are refused. */
bool wire_next(const uint8_t **at, const uint8_t *end, struct wire_field *ret_field);
/* The last field of that number and type; false when there is none or the bytes are malformed. */
bool wire_find(const uint8_t *bytes, size_t size, uint32_t number, enum wire_type type,
	       struct wire_field *ret_field);

static inline bool wire_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
		uint8_t byte = *(*at)++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

/* Returns the end of what it wrote; at most WIRE_VARINT_MAX bytes. */
static inline uint8_t *wire_put_varint(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

static inline size_t wire_varint_size(uint64_t value)
{
	size_t size = 1;

	while (value >= 0x80) {
		value >>= 7;
		size++;
	}
	return size;
}

static inline bool wire_write_varint(struct buffer *buffer, uint64_t value)
{
	uint8_t *at = buffer_room(buffer, WIRE_VARINT_MAX);

	if (!at)
		return false;
	buffer->size = (size_t)(wire_put_varint(at, value) - buffer->bytes);
	return true;
}

static inline bool wire_write_fixed32(struct buffer *buffer, uint32_t value)
{
	uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
			    (uint8_t)(value >> 24)};

	return buffer_append(buffer, bytes, sizeof(bytes));
}

static inline bool wire_write_fixed64(struct buffer *buffer, uint64_t value)
{
	return wire_write_fixed32(buffer, (uint32_t)value) &&
	       wire_write_fixed32(buffer, (uint32_t)(value >> 32));
}

static inline bool wire_write_bytes(struct buffer *buffer, const void *bytes, size_t size)
{
	return wire_write_varint(buffer, size) && buffer_append(buffer, bytes, size);
}

static inline uint64_t wire_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t wire_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A length-delimited value whose length is known only afterwards: one byte is left for it, and what
 * was written moves up in the rare case that it needs more. Returns where it starts, for
 * wire_close(). */
static inline bool wire_open(struct buffer *buffer, size_t *ret_start)
{
	if (!buffer_byte(buffer, 0))
		return false;
	*ret_start = buffer->size;
	return true;
}
bool wire_close(struct buffer *buffer, size_t start);
