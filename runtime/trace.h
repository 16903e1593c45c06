/* W3C trace context: https://www.w3.org/TR/trace-context/ */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};

#define TRACE_TEXT_SIZE 56 /* "00-…-…-01" and the zero byte */

/* False, and *ret untouched, when `text` is not a traceparent. */
bool trace_parse(const char *text, struct trace *ret);
/* A new root. Fast, not cryptographic. */
struct trace trace_make(void);
/* Same trace, a new span. */
struct trace trace_child(const struct trace *parent);
void trace_format(const struct trace *trace, char text[TRACE_TEXT_SIZE]);
/* The trace id alone: 32 hex digits and a zero byte. */
void trace_id_format(const struct trace *trace, char text[33]);
