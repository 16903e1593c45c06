/* Logs: see log.h.
 *
 *     fields ─► one line in a buffer on the stack ─► repeats counted ─► one write(2) to stdout
 *
 * A line is written before log_write() returns: none is lost by exit, abort or a crash. When stdout
 * is full for longer than a tenth of a second, or gone, the line is dropped.
 */
#include "runtime/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/json_text.h"

#define LINE_MAX_BYTES 4096
#define REPEATS_PER_SECOND_MAX 20
#define EVENTS_MAX 256 /* told apart when counting repeats; more share places */

struct line {
	char bytes[LINE_MAX_BYTES];
	size_t size;
	bool cut;
};

struct repeats {
	char event[48];
	int64_t second;
	int written, dropped;
};

static char service_name[64] = "stampede";
static _Atomic(enum log_level) lowest = LOG_INFO;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct repeats repeats[EVENTS_MAX];
static int64_t swept_second;

static void line_write(struct line *line, const char *event, enum log_level level,
		       const struct log_field *fields);

static void write_all(const char *bytes, size_t size)
{
	while (size) {
		ssize_t written = write(STDOUT_FILENO, bytes, size);

		if (written > 0) {
			bytes += written;
			size -= (size_t)written;
		} else if (written < 0 && errno == EAGAIN) {
			struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

			if (poll(&out, 1, 100) <= 0)
				return;
		} else if (written == 0 || errno != EINTR) {
			return;
		}
	}
}

/* --- repeats ---------------------------------------------------------------------------------- */

static struct repeats *repeats_of(const char *event)
{
	uint32_t hash = 2166136261u;

	for (const char *at = event; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619u;
	return &repeats[hash % EVENTS_MAX];
}

static void repeats_report(struct repeats *of)
{
	struct line line;
	struct log_field fields[] = {log_text("of", of->event), log_number("times", of->dropped),
				     log_none};

	of->dropped = 0;
	line_write(&line, "log_repeats_dropped", LOG_WARN, fields);
	write_all(line.bytes, line.size);
}

/* What was dropped in seconds that are over is told once. */
static void repeats_sweep(int64_t second)
{
	if (swept_second == second)
		return;
	swept_second = second;
	for (int i = 0; i < EVENTS_MAX; i++)
		if (repeats[i].dropped && repeats[i].second != second)
			repeats_report(&repeats[i]);
}

static bool repeats_allow(const char *event)
{
	int64_t second = clock_monotonic_us() / 1000000;
	struct repeats *of = repeats_of(event);
	bool allow;

	pthread_mutex_lock(&mutex);
	repeats_sweep(second);
	if (of->second != second) {
		of->second = second;
		of->written = 0;
	}
	allow = of->written < REPEATS_PER_SECOND_MAX;
	if (allow) {
		of->written++;
	} else {
		snprintf(of->event, sizeof(of->event), "%s", event);
		of->dropped++;
	}
	pthread_mutex_unlock(&mutex);
	return allow;
}

static void repeats_finish(void)
{
	if (pthread_mutex_trylock(&mutex))
		return;
	repeats_sweep(-1);
	pthread_mutex_unlock(&mutex);
}

/* --- a line ----------------------------------------------------------------------------------- */

/* Room is always kept for what closes the line. */
static size_t line_room(const struct line *line)
{
	return LINE_MAX_BYTES - line->size - sizeof(",\"cut\":true}\n");
}

static void line_raw(struct line *line, const char *bytes, size_t size)
{
	memcpy(line->bytes + line->size, bytes, size);
	line->size += size;
}

static void line_field(struct line *line, const struct log_field *field)
{
	size_t key_size = strlen(field->key);
	char number[24];
	int digits;

	if (line->cut || key_size + sizeof(number) + 16 > line_room(line)) {
		line->cut = true;
		return;
	}
	line_raw(line, ",\"", 2);
	line_raw(line, field->key, key_size);
	line_raw(line, "\":", 2);
	if (field->kind == LOG_NUMBER) {
		digits = snprintf(number, sizeof(number), "%lld", (long long)field->number);
		line_raw(line, number, (size_t)digits);
	} else if (!field->text) {
		line_raw(line, "null", 4);
	} else {
		line_raw(line, "\"", 1);
		line->size += json_text_escape(line->bytes + line->size, line_room(line) - 1,
					       field->text, strlen(field->text));
		line_raw(line, "\"", 1);
		line->cut = line_room(line) < 8; /* the text ended, or did not fit */
	}
}

static void line_time(struct line *line)
{
	int64_t now_ms = clock_wall_ms();
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm utc;

	gmtime_r(&seconds, &utc);
	line->size = (size_t)snprintf(line->bytes, 64,
				      "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"",
				      utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
				      utc.tm_min, utc.tm_sec, (int)(now_ms % 1000));
}

static void line_write(struct line *line, const char *event, enum log_level level,
		       const struct log_field *fields)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	line->cut = false;
	line_time(line);
	line_field(line, &log_text("level", names[level]));
	line_field(line, &log_text("service", service_name));
	line_field(line, &log_text("event", event));
	for (; fields->key; fields++)
		line_field(line, fields);
	if (line->cut)
		line_raw(line, ",\"cut\":true", 11);
	line_raw(line, "}\n", 2);
}

void log_start(const char *service, enum log_level level)
{
	static bool registered;

	snprintf(service_name, sizeof(service_name), "%s", service);
	atomic_store_explicit(&lowest, level, memory_order_relaxed);
	if (!registered)
		registered = !atexit(repeats_finish);
}

bool log_enabled(enum log_level level)
{
	return level >= atomic_load_explicit(&lowest, memory_order_relaxed);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
	struct line line;

	if (!log_enabled(level) || !repeats_allow(event))
		return;
	line_write(&line, event, level, fields);
	write_all(line.bytes, line.size);
}

/* --- URLs ------------------------------------------------------------------------------------- */

const char *log_url(const char *url)
{
	static _Thread_local char shown[512];
	const char *scheme_end = url ? strstr(url, "://") : NULL;
	const char *host = scheme_end ? scheme_end + 3 : url;
	const char *authority_end, *at = NULL;

	if (!url)
		return "";
	authority_end = host + strcspn(host, "/?#");
	/* An unescaped character in a password makes it unclear where the password ends. */
	if (strchr(authority_end, '@')) {
		snprintf(shown, sizeof(shown), "%.*s***", (int)(host - url), url);
		return shown;
	}
	for (const char *c = host; c < authority_end; c++)
		if (*c == '@')
			at = c;
	snprintf(shown, sizeof(shown), "%.*s%.*s", (int)(host - url), url,
		 (int)strcspn(at ? at + 1 : host, "?#"), at ? at + 1 : host);
	return shown;
}
