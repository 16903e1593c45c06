#include "runtime/utf8.h"

#include <stdint.h>
#include <string.h>

static bool continues(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Table 3-7 of the Unicode standard. */
size_t utf8_sequence(const unsigned char *at, size_t left)
{
	unsigned char lead = at[0];

	if (lead < 0x80)
		return 1;
	if (lead < 0xc2 || lead > 0xf4)
		return 0;
	if (lead < 0xe0)
		return left >= 2 && continues(at[1]) ? 2 : 0;
	if (lead < 0xf0) {
		if (left < 3 || !continues(at[1]) || !continues(at[2]))
			return 0;
		if ((lead == 0xe0 && at[1] < 0xa0) || (lead == 0xed && at[1] > 0x9f))
			return 0;
		return 3;
	}
	if (left < 4 || !continues(at[1]) || !continues(at[2]) || !continues(at[3]))
		return 0;
	if ((lead == 0xf0 && at[1] < 0x90) || (lead == 0xf4 && at[1] > 0x8f))
		return 0;
	return 4;
}

bool utf8_valid(const char *text, size_t size)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t length;

	while (size) {
		uint64_t eight;

		while (size >= 8) { /* ASCII, which is nearly all of it */
			memcpy(&eight, at, 8);
			if (eight & 0x8080808080808080u)
				break;
			at += 8;
			size -= 8;
		}
		if (!size)
			break;
		length = utf8_sequence(at, size);
		if (!length)
			return false;
		at += length;
		size -= length;
	}
	return true;
}

bool utf8_identifier(const char *text, size_t size_min, size_t size_max)
{
	size_t size = strnlen(text, size_max + 1);

	if (size < size_min || size > size_max)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return utf8_valid(text, size);
}
