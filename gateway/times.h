/* Timestamps (RFC 3339) and durations ("1.5s") as proto3 JSON has them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMES_TEXT_SIZE 40
#define TIMESTAMP_SECONDS_MIN INT64_C(-62135596800) /* 0001-01-01T00:00:00Z */
#define TIMESTAMP_SECONDS_MAX INT64_C(253402300799) /* 9999-12-31T23:59:59Z */
#define DURATION_SECONDS_MAX INT64_C(315576000000)  /* 10,000 years */

/* False when the text is not one, or it is out of range. */
bool timestamp_parse(const char *text, size_t size, int64_t *ret_seconds, int32_t *ret_nanos);
bool duration_parse(const char *text, size_t size, int64_t *ret_seconds, int32_t *ret_nanos);
/* How long the text is; 0 when the value is out of range. No zero byte. */
size_t timestamp_format(int64_t seconds, int32_t nanos, char text[TIMES_TEXT_SIZE]);
size_t duration_format(int64_t seconds, int32_t nanos, char text[TIMES_TEXT_SIZE]);
