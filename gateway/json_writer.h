/* JSON's own pieces, written into a buffer. All return false when the buffer's maximum is reached.
 */
#pragma once

#include "gateway/buffer.h"

/* In quotes, escaped. The text must be valid UTF-8. */
bool json_write_string(struct buffer *out, const void *text, size_t size);
bool json_write_int(struct buffer *out, int64_t value);
bool json_write_uint(struct buffer *out, uint64_t value);
/* The shortest decimal that reads back the same; "NaN", "Infinity" and "-Infinity" in quotes. */
bool json_write_double(struct buffer *out, double value);
bool json_write_float(struct buffer *out, float value);
/* Base64 in quotes. */
bool json_write_bytes(struct buffer *out, const uint8_t *bytes, size_t size);
