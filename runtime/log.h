/* Logs: JSON lines on stdout, one event a line: {"time":…,"level":…,"service":…,"event":…, fields…}.
 *
 * Fields are given as pairs closed by NULL. Secrets never go in: whoever logs a URL uses log_url(). Safe from any
 * thread. Lines are cut at 4 KiB. Repeats of one event beyond 20 a second are counted, not written.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/trace.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_start(const char *service, enum log_level level);
bool log_enabled(enum log_level level);

struct log_field {
	const char *key;
	enum { LOG_TEXT = 1, LOG_NUMBER } kind;
	const char *text;
	int64_t number;
};
#define log_text(key, value) ((struct log_field){(key), LOG_TEXT, (value), 0})
#define log_number(key, value) ((struct log_field){(key), LOG_NUMBER, NULL, (int64_t)(value)})

/* log_event(LOG_WARN, "redis_lost", log_text("error", text), log_number("retry_ms", 50)); at least one
 * field, log_none when there is none. */
#define log_none ((struct log_field){0})
#define log_event(level, event, ...)                                                               \
	log_write((level), (event), (const struct log_field[]){__VA_ARGS__, log_none})
void log_write(enum log_level level, const char *event, const struct log_field *fields);

/* A URL without user, password and query, in a buffer of the thread's own (valid until its next use). */
const char *log_url(const char *url);
