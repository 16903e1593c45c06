/* Is this valid UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool utf8_valid(const char *text, size_t size);
/* Valid UTF-8 without control characters (U+0000..1F, 7F), of min to max bytes: an identifier. */
bool utf8_identifier(const char *text, size_t size_min, size_t size_max);
/* The length of the character at `at`, of which `left` > 0 bytes are there; 0 when it is none. */
size_t utf8_sequence(const unsigned char *at, size_t left);
