#include "gateway/wire.h"

static uint64_t fixed_read(const uint8_t *bytes, int count)
{
	uint64_t value = 0;

	for (int i = 0; i < count; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

bool wire_next(const uint8_t **at, const uint8_t *end, struct wire_field *ret_field)
{
	uint64_t tag, size;

	if (!wire_read_varint(at, end, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
		return false;
	ret_field->number = (uint32_t)(tag >> 3);
	ret_field->type = (enum wire_type)(tag & 7);
	switch (ret_field->type) {
	case WIRE_VARINT:
		return wire_read_varint(at, end, &ret_field->value);
	case WIRE_FIXED64:
	case WIRE_FIXED32:
		size = ret_field->type == WIRE_FIXED64 ? 8 : 4;
		if ((uint64_t)(end - *at) < size)
			return false;
		ret_field->value = fixed_read(*at, (int)size);
		*at += size;
		return true;
	case WIRE_BYTES:
		if (!wire_read_varint(at, end, &size) || size > (uint64_t)(end - *at))
			return false;
		ret_field->bytes = *at;
		ret_field->size = (size_t)size;
		*at += size;
		return true;
	default:
		return false;
	}
}

bool wire_find(const uint8_t *bytes, size_t size, uint32_t number, enum wire_type type,
	       struct wire_field *ret_field)
{
	const uint8_t *end = bytes + size;
	struct wire_field field;
	bool found = false;

	while (bytes < end) {
		if (!wire_next(&bytes, end, &field))
			return false;
		if (field.number != number || field.type != type)
			continue;
		*ret_field = field;
		found = true;
	}
	return found;
}

bool wire_close(struct buffer *buffer, size_t start)
{
	size_t size = buffer->size - start;
	size_t more = wire_varint_size(size) - 1;

	if (more) {
		if (!buffer_room(buffer, more))
			return false;
		memmove(buffer->bytes + start + more, buffer->bytes + start, size);
		buffer->size += more;
	}
	wire_put_varint(buffer->bytes + start - 1, size);
	return true;
}
