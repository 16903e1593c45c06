/* Bytes that grow, in an arena: what the transcoder writes into.
 *
 * Bounded: what would go beyond `max` is refused, and the buffer stays as it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/arena.h"

struct buffer {
	struct arena *arena;
	uint8_t *bytes;
	size_t size, room, max;
};

void buffer_init(struct buffer *buffer, struct arena *arena, size_t room, size_t max);
/* Makes room for `size` more bytes; false beyond the maximum. */
bool buffer_grow(struct buffer *buffer, size_t size);

/* Room for `size` bytes at the end, not yet counted in; NULL beyond the maximum. */
static inline uint8_t *buffer_room(struct buffer *buffer, size_t size)
{
	if (buffer->room - buffer->size < size && !buffer_grow(buffer, size))
		return NULL;
	return buffer->bytes + buffer->size;
}

static inline bool buffer_append(struct buffer *buffer, const void *bytes, size_t size)
{
	uint8_t *at = buffer_room(buffer, size);

	if (!at)
		return false;
	if (size)
		memcpy(at, bytes, size);
	buffer->size += size;
	return true;
}

static inline bool buffer_byte(struct buffer *buffer, char byte)
{
	uint8_t *at = buffer_room(buffer, 1);

	if (!at)
		return false;
	*at = (uint8_t)byte;
	buffer->size++;
	return true;
}

static inline bool buffer_text(struct buffer *buffer, const char *text)
{
	return buffer_append(buffer, text, strlen(text));
}
