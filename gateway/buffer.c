#include "gateway/buffer.h"

void buffer_init(struct buffer *buffer, struct arena *arena, size_t room, size_t max)
{
	*buffer = (struct buffer){
		.arena = arena, .bytes = arena_alloc(arena, room), .room = room, .max = max};
}

bool buffer_grow(struct buffer *buffer, size_t size)
{
	size_t room = buffer->room ? buffer->room : 256;
	uint8_t *bytes;

	if (size > buffer->max || buffer->size > buffer->max - size)
		return false;
	while (room < buffer->size + size)
		room *= 2;
	bytes = arena_alloc(buffer->arena, room);
	if (buffer->size)
		memcpy(bytes, buffer->bytes, buffer->size);
	buffer->bytes = bytes;
	buffer->room = room;
	return true;
}
