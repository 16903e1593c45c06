#include "runtime/json_text.h"

#include <stdint.h>
#include <string.h>

/* How many bytes the UTF-8 character at `text` has; 0 when it is not one (overlong and surrogate
 * forms included). */
static size_t utf8_length(const uint8_t *text, size_t size)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t point;
	size_t length;

	if (text[0] < 0x80)
		return 1;
	length = text[0] >= 0xf8   ? 0
		 : text[0] >= 0xf0 ? 4
		 : text[0] >= 0xe0 ? 3
		 : text[0] >= 0xc0 ? 2
				   : 0;
	if (!length || length > size)
		return 0;
	point = text[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (text[i] & 0x3f);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	return length;
}

/* The escape of one byte into `piece` (of at least 8 bytes); its length, or 0 when it needs none.
 */
static size_t escape_byte(uint8_t byte, char *piece)
{
	static const char letters[32] = {
		['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};

	piece[0] = '\\';
	if (byte == '"' || byte == '\\') {
		piece[1] = (char)byte;
		return 2;
	}
	if (byte >= 32 && byte != 127)
		return 0;
	if (byte < 32 && letters[byte]) {
		piece[1] = letters[byte];
		return 2;
	}
	snprintf(piece, 8, "\\u%04x", byte);
	return 6;
}

size_t json_text_escape(char *out, size_t room, const char *text, size_t size)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + size;
	size_t used = 0;

	while (at < end) {
		size_t length = utf8_length(at, (size_t)(end - at));
		char piece[8];
		const char *from = (const char *)at;
		size_t bytes = length;

		if (!length) {
			from = "\xef\xbf\xbd";
			bytes = 3;
			length = 1;
		} else if (length == 1 && (bytes = escape_byte(*at, piece))) {
			from = piece;
		} else {
			bytes = length;
		}
		if (used + bytes > room)
			break;
		memcpy(out + used, from, bytes);
		used += bytes;
		at += length;
	}
	return used;
}

void json_text_print(FILE *out, const char *text)
{
	char piece[64];
	size_t size;

	if (!text) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	/* In pieces that surely fit escaped, cut between characters. */
	for (size_t left = strlen(text); left;) {
		size = left > 10 ? 10 : left;
		while (size < left && size > 7 && ((uint8_t)text[size] & 0xc0) == 0x80)
			size--;
		fwrite(piece, 1, json_text_escape(piece, sizeof(piece), text, size), out);
		text += size;
		left -= size;
	}
	fputc('"', out);
}
