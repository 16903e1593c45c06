#include "gateway/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base64.h"

/* --- strings
 * -------------------------------------------------------------------------------------- */

static bool is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f;
}

static bool escape_write(struct buffer *out, unsigned char byte)
{
	static const char short_from[] = "\"\\\b\f\n\r\t", short_to[] = "\"\\bfnrt";
	static const char hex[] = "0123456789abcdef";
	const char *letter = byte ? strchr(short_from, byte) : NULL;
	char text[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};

	if (!letter)
		return buffer_append(out, text, 6);
	text[1] = short_to[letter - short_from];
	return buffer_append(out, text, 2);
}

bool json_write_string(struct buffer *out, const void *text, size_t size)
{
	const unsigned char *at = text, *end = at + size, *start = at;

	if (!buffer_byte(out, '"'))
		return false;
	for (; at < end; at++) {
		if (is_plain(*at))
			continue;
		if (!buffer_append(out, start, (size_t)(at - start)) || !escape_write(out, *at))
			return false;
		start = at + 1;
	}
	return buffer_append(out, start, (size_t)(at - start)) && buffer_byte(out, '"');
}

bool json_write_bytes(struct buffer *out, const uint8_t *bytes, size_t size)
{
	size_t room = BASE64_ENCODED_SIZE(size) + 2;
	uint8_t *to = buffer_room(out, room);

	if (!to)
		return false;
	to[0] = '"';
	base64_encode(bytes, size, (char *)to + 1);
	to[room - 1] = '"';
	out->size += room;
	return true;
}

/* --- numbers
 * -------------------------------------------------------------------------------------- */

bool json_write_uint(struct buffer *out, uint64_t value)
{
	char text[20], *at = text + sizeof(text);

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return buffer_append(out, at, (size_t)(text + sizeof(text) - at));
}

bool json_write_int(struct buffer *out, int64_t value)
{
	if (value >= 0)
		return json_write_uint(out, (uint64_t)value);
	return buffer_byte(out, '-') && json_write_uint(out, 0 - (uint64_t)value);
}

static bool special_write(struct buffer *out, double value)
{
	if (isnan(value))
		return buffer_text(out, "\"NaN\"");
	return buffer_text(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

bool json_write_double(struct buffer *out, double value)
{
	char text[32];
	int size = 0;

	if (!isfinite(value))
		return special_write(out, value);
	for (int digits = 15; digits <= 17; digits++) {
		size = snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return buffer_append(out, text, (size_t)size);
}

bool json_write_float(struct buffer *out, float value)
{
	char text[32];
	int size = 0;

	if (!isfinite(value))
		return special_write(out, (double)value);
	for (int digits = 6; digits <= 9; digits++) {
		size = snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	return buffer_append(out, text, (size_t)size);
}
