#include "gateway/base64.h"

static int digit(char letter)
{
	if (letter >= 'A' && letter <= 'Z')
		return letter - 'A';
	if (letter >= 'a' && letter <= 'z')
		return letter - 'a' + 26;
	if (letter >= '0' && letter <= '9')
		return letter - '0' + 52;
	if (letter == '+' || letter == '-')
		return 62;
	if (letter == '/' || letter == '_')
		return 63;
	return -1;
}

bool base64_decode(const char *text, size_t size, uint8_t *to, size_t *ret_size)
{
	uint8_t *start = to;
	uint32_t bits = 0;
	int count = 0;

	/* Padding, if there is any, fills the last four. */
	if (size && size % 4 == 0 && text[size - 1] == '=')
		size -= text[size - 2] == '=' ? 2 : 1;
	if (size % 4 == 1)
		return false;
	for (size_t i = 0; i < size; i++) {
		int value = digit(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		count += 6;
		if (count >= 8) {
			count -= 8;
			*to++ = (uint8_t)(bits >> count);
		}
	}
	*ret_size = (size_t)(to - start);
	return true;
}

void base64_encode(const uint8_t *bytes, size_t size, char *to)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (; size >= 3; bytes += 3, size -= 3) {
		*to++ = alphabet[bytes[0] >> 2];
		*to++ = alphabet[(bytes[0] & 3) << 4 | bytes[1] >> 4];
		*to++ = alphabet[(bytes[1] & 15) << 2 | bytes[2] >> 6];
		*to++ = alphabet[bytes[2] & 63];
	}
	if (!size)
		return;
	*to++ = alphabet[bytes[0] >> 2];
	*to++ = alphabet[(bytes[0] & 3) << 4 | (size == 2 ? bytes[1] >> 4 : 0)];
	*to++ = size == 2 ? alphabet[(bytes[1] & 15) << 2] : '=';
	*to = '=';
}
