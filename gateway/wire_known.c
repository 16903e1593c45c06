/* Google's types whose JSON is their own, from the wire. */
#include <assert.h>

#include "gateway/json_writer.h"
#include "gateway/times.h"
#include "gateway/wire_decoder.h"

static bool time_decode(struct decoder *decoder, const struct message_type *type,
			const uint8_t *bytes, size_t size)
{
	struct wire_field seconds = {0}, nanos = {0};
	char text[TIMES_TEXT_SIZE];
	size_t length;

	(void)wire_find(bytes, size, 1, WIRE_VARINT, &seconds); /* absent: 0 */
	(void)wire_find(bytes, size, 2, WIRE_VARINT, &nanos);
	length = type->known == KNOWN_TIMESTAMP
			 ? timestamp_format((int64_t)seconds.value, (int32_t)nanos.value, text)
			 : duration_format((int64_t)seconds.value, (int32_t)nanos.value, text);
	if (!length)
		return decode_damaged(decoder, type);
	return json_write_string(decoder->out, text, length) || decode_too_large(decoder);
}

static bool mask_path_decode(struct buffer *out, const uint8_t *at, const uint8_t *end)
{
	for (bool raise = false; at < end; at++) {
		if (*at == '_') {
			raise = true;
			continue;
		}
		/* What is not a field's name is left out. */
		if (*at < '.' || *at > 'z' || *at == '\\')
			continue;
		if (!buffer_byte(out, raise && *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A')
									: (char)*at))
			return false;
		raise = false;
	}
	return true;
}

static bool mask_decode(struct decoder *decoder, const struct message_type *type,
			const uint8_t *bytes, size_t size)
{
	const uint8_t *end = bytes + size;
	struct wire_field found;
	bool first = true;

	if (!buffer_byte(decoder->out, '"'))
		return decode_too_large(decoder);
	while (bytes < end) {
		if (!wire_next(&bytes, end, &found))
			return decode_damaged(decoder, type);
		if (found.number != 1 || found.type != WIRE_BYTES)
			continue;
		if ((!first && !buffer_byte(decoder->out, ',')) ||
		    !mask_path_decode(decoder->out, found.bytes, found.bytes + found.size))
			return decode_too_large(decoder);
		first = false;
	}
	return buffer_byte(decoder->out, '"') || decode_too_large(decoder);
}

/* A oneof: what was set last. Nothing at all is null. */
static bool value_decode(struct decoder *decoder, const struct message_type *type,
			 const uint8_t *bytes, size_t size, int depth)
{
	const uint8_t *at = bytes, *end = bytes + size;
	const struct field_type *field, *last = NULL;
	struct wire_field found;

	while (at < end) {
		if (!wire_next(&at, end, &found))
			return decode_damaged(decoder, type);
		field = message_field_number(type, found.number);
		if (field && field->wire == found.type)
			last = field;
	}
	if (!last)
		return buffer_append(decoder->out, "null", 4) || decode_too_large(decoder);
	return decode_only(decoder, type, last, bytes, size, depth);
}

/* Of a type that is not in our descriptors only the bytes can be shown. */
static bool any_unknown_decode(struct decoder *decoder, const uint8_t *bytes, size_t size)
{
	return (buffer_text(decoder->out, ",\"value\":") &&
		json_write_bytes(decoder->out, bytes, size)) ||
	       decode_too_large(decoder);
}

static bool any_content_decode(struct decoder *decoder, const struct message_type *type,
			       const struct wire_field *content, int depth)
{
	if (!type)
		return any_unknown_decode(decoder, content->bytes, content->size);
	if (depth >= TRANSCODE_DEPTH_MAX)
		return decode_too_deep(decoder);
	if (type->known == KNOWN_NONE)
		return decode_members(decoder, type, content->bytes, content->size, depth + 1,
				      false);
	if (!buffer_text(decoder->out, ",\"value\":"))
		return decode_too_large(decoder);
	return decode_known(decoder, type, content->bytes, content->size, depth + 1);
}

static bool any_decode(struct decoder *decoder, const uint8_t *bytes, size_t size, int depth)
{
	struct wire_field url = {0}, content = {.bytes = (const uint8_t *)""};
	const uint8_t *slash;

	(void)wire_find(bytes, size, 2, WIRE_BYTES, &content); /* absent: empty */
	if (!wire_find(bytes, size, 1, WIRE_BYTES, &url) || !url.size)
		return buffer_text(decoder->out, "{}") || decode_too_large(decoder);
	slash = memrchr(url.bytes, '/', url.size);
	if (!buffer_text(decoder->out, "{\"@type\":"))
		return decode_too_large(decoder);
	if (!decode_value(decoder, &(struct field_type){.kind = FIELD_STRING}, url.size, url.bytes,
			  0))
		return false;
	if (!any_content_decode(
		    decoder,
		    slash ? schema_message_sized(decoder->schema, (const char *)slash + 1,
						 url.size - (size_t)(slash + 1 - url.bytes))
			  : NULL,
		    &content, depth))
		return false;
	return buffer_byte(decoder->out, '}') || decode_too_large(decoder);
}

bool decode_known(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		  size_t size, int depth)
{
	switch (type->known) {
	case KNOWN_TIMESTAMP:
	case KNOWN_DURATION:
		return time_decode(decoder, type, bytes, size);
	case KNOWN_FIELD_MASK:
		return mask_decode(decoder, type, bytes, size);
	case KNOWN_VALUE:
		return value_decode(decoder, type, bytes, size, depth);
	case KNOWN_ANY:
		return any_decode(decoder, bytes, size, depth);
	default: /* Struct's map, ListValue's list, a wrapper's value: field 1 */
		assert(type->field_count == 1);
		return decode_only(decoder, type, &type->fields[0], bytes, size, depth);
	}
}
