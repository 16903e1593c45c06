/* Base64, RFC 4648: both alphabets read, with or without padding; the standard one written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE64_DECODED_MAX(size) ((size) / 4 * 3 + 3)
#define BASE64_ENCODED_SIZE(size) (((size) + 2) / 3 * 4)

/* False when it is not base64. */
bool base64_decode(const char *text, size_t size, uint8_t *to, size_t *ret_size);
void base64_encode(const uint8_t *bytes, size_t size, char *to);
