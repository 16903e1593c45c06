#include "runtime/json_text.h"

#include <stdint.h>
#include <string.h>

#include "runtime/utf8.h"

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
		size_t length = utf8_sequence(at, (size_t)(end - at));
		char piece[8];
		const char *from = (const char *)at;
		size_t bytes;

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
		(void)fputs("null", out); /* whoever made the stream asks it for errors */
		return;
	}
	(void)fputc('"', out);
	/* In pieces that surely fit escaped, cut between characters. */
	for (size_t left = strlen(text); left;) {
		size = left > 10 ? 10 : left;
		while (size < left && size > 7 && ((uint8_t)text[size] & 0xc0) == 0x80)
			size--;
		(void)fwrite(piece, 1, json_text_escape(piece, sizeof(piece), text, size), out);
		text += size;
		left -= size;
	}
	(void)fputc('"', out);
}
