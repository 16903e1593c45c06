/* Settings from the environment, checked at start: every wrong one is named with what is allowed.
 *
 * A part describes its settings in a table over a struct of its own:
 *
 *     static const struct setting settings[] = {
 *         SETTING_URL(struct inventory_settings, redis, "STAMPEDE_REDIS", "redis://127.0.0.1:6379", "…"),
 *         SETTING_NUMBER(struct inventory_settings, batch_max, "STAMPEDE_BATCH_MAX", "64", 1, 256, "…"),
 *         SETTING_END};
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_kind {
	SETTING_KIND_TEXT = 1, /* const char * */
	SETTING_KIND_URL,      /* const char *, shown without its password */
	SETTING_KIND_SECRET,   /* const char *, never shown; NAME_FILE names a file that holds it */
	SETTING_KIND_NUMBER,   /* int64_t; 10k, 64KiB, 1MiB accepted */
	SETTING_KIND_DURATION, /* int64_t milliseconds; "250ms", "5s", "30m", "1h" */
	SETTING_KIND_FLAG,     /* bool; true/false, yes/no, on/off, 1/0 */
};

struct setting {
	enum setting_kind kind;
	const char *name;
	size_t offset;
	/* As in the environment; NULL: must be set; "": unset (NULL, 0, false). */
	const char *fallback;
	int64_t min, max; /* numbers, and milliseconds */
	const char *help;
};

#define SETTING_TEXT(type, field, name, fallback, help)                                            \
	{                                                                                          \
		SETTING_KIND_TEXT, name, offsetof(type, field), fallback, 0, 0, help               \
	}
#define SETTING_URL(type, field, name, fallback, help)                                             \
	{                                                                                          \
		SETTING_KIND_URL, name, offsetof(type, field), fallback, 0, 0, help                \
	}
#define SETTING_SECRET(type, field, name, fallback, help)                                          \
	{                                                                                          \
		SETTING_KIND_SECRET, name, offsetof(type, field), fallback, 0, 0, help             \
	}
#define SETTING_NUMBER(type, field, name, fallback, min, max, help)                                \
	{                                                                                          \
		SETTING_KIND_NUMBER, name, offsetof(type, field), fallback, min, max, help         \
	}
#define SETTING_DURATION(type, field, name, fallback, min_ms, max_ms, help)                        \
	{                                                                                          \
		SETTING_KIND_DURATION, name, offsetof(type, field), fallback, min_ms, max_ms, help \
	}
#define SETTING_FLAG(type, field, name, fallback, help)                                            \
	{                                                                                          \
		SETTING_KIND_FLAG, name, offsetof(type, field), fallback, 0, 1, help               \
	}
#define SETTING_END                                                                                \
	{                                                                                          \
		0, NULL, 0, NULL, 0, 0, NULL                                                       \
	}

/* Fills `target`. Returns how many settings were wrong, each of them logged with its name, value (unless secret)
 * and what is allowed. The strings live as long as the process. */
int settings_load(const struct setting *settings, void *target);
/* Names in the environment that start with STAMPEDE_ and that no table knows: logged as warnings, with the nearest known name. */
void settings_warn_unknown(const struct setting *const *tables);
/* What is in force, as JSON, secrets and passwords left out: for /debug/config. malloc'd, the caller frees. */
char *settings_json(const struct setting *const *tables, const void *const *targets);
/* `--help`: name, default, help, a line each, to stdout. */
void settings_print(const struct setting *const *tables);
