/* Settings: see settings.h. This file reads and checks them; settings_show.c tells about them.
 *
 *     environment (or NAME_FILE, for secrets) ─► empty? the fallback ─► parsed by kind ─► in bounds
 * ─► target
 *
 * A wrong one is logged with what is allowed and the rest are checked all the same, so that one
 * start names them all.
 */
#include "runtime/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/settings_parse.h"

#define SECRET_MAX 65536

/* The strings that settings point to live as long as the process. */
static struct kept {
	struct kept *next;
	char text[];
} * kept;

static char *keep(const char *text, size_t size)
{
	struct kept *copy = malloc(sizeof(*copy) + size + 1);

	assert(copy);
	memcpy(copy->text, text, size);
	copy->text[size] = 0;
	copy->next = kept;
	kept = copy;
	return copy->text;
}

static bool wrong(const struct setting *setting, const char *value, const char *allowed)
{
	if (setting->kind == SETTING_KIND_SECRET)
		value = "(secret)";
	else if (setting->kind == SETTING_KIND_URL)
		value = log_url(value);
	log_event(LOG_ERROR, "setting_wrong", log_text("name", setting->name),
		  log_text("value", value), log_text("allowed", allowed));
	return false;
}

/* --- by kind ---------------------------------------------------------------------------------- */

static bool load_number(const struct setting *setting, const char *value, int64_t *target)
{
	char allowed[128];
	int64_t number;

	if (settings_parse_number(value, &number) && number >= setting->min &&
	    number <= setting->max) {
		*target = number;
		return true;
	}
	snprintf(allowed, sizeof(allowed),
		 "a whole number from %lld to %lld; k, M, KiB and MiB may follow",
		 (long long)setting->min, (long long)setting->max);
	return wrong(setting, value, allowed);
}

static bool load_duration(const struct setting *setting, const char *value, int64_t *target)
{
	char allowed[160], min[32], max[32];
	int64_t ms;

	if (settings_parse_duration(value, &ms) && ms >= setting->min && ms <= setting->max) {
		*target = ms;
		return true;
	}
	settings_format_duration(setting->min, min);
	settings_format_duration(setting->max, max);
	snprintf(allowed, sizeof(allowed),
		 "a duration from %s to %s, with its unit: ms, s, m, h or d", min, max);
	return wrong(setting, value, allowed);
}

static bool load_flag(const struct setting *setting, const char *value, bool *target)
{
	if (settings_parse_flag(value, target))
		return true;
	return wrong(setting, value, "true or false (also yes/no, on/off, 1/0)");
}

/* Whoever takes a URL can say what else is wrong with it, but not which setting it came from. */
static bool scheme_known(const char *url)
{
	static const char *const schemes[] = {"redis://", "rediss://", "unix://", "sentinel://",
					      "kafka://"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (!strncmp(url, schemes[i], strlen(schemes[i])))
			return true;
	return false;
}

static bool load_url(const struct setting *setting, const char *value, const char **target)
{
	const char *scheme_end = strstr(value, "://");
	char allowed[300];

	if (scheme_end && scheme_end > value && scheme_end[3]) {
		if (!scheme_known(value))
			return wrong(setting, value,
				     "redis://, rediss://, unix://, sentinel:// or, for the bus, "
				     "kafka:// and an address");
		*target = keep(value, strlen(value));
		return true;
	}
	snprintf(allowed, sizeof(allowed), "a URL%s%s",
		 setting->fallback && *setting->fallback ? ", such as " : "",
		 setting->fallback ? setting->fallback : "");
	return wrong(setting, value, allowed);
}

static bool load_value(const struct setting *setting, const char *value, void *field)
{
	switch (setting->kind) {
	case SETTING_KIND_TEXT:
	case SETTING_KIND_SECRET:
		*(const char **)field = keep(value, strlen(value));
		return true;
	case SETTING_KIND_URL:
		return load_url(setting, value, field);
	case SETTING_KIND_NUMBER:
		return load_number(setting, value, field);
	case SETTING_KIND_DURATION:
		return load_duration(setting, value, field);
	case SETTING_KIND_FLAG:
		return load_flag(setting, value, field);
	}
	assert(false); /* a setting of no kind */
	return false;
}

static void load_nothing(const struct setting *setting, void *field)
{
	switch (setting->kind) {
	case SETTING_KIND_TEXT:
	case SETTING_KIND_SECRET:
	case SETTING_KIND_URL:
		*(const char **)field = NULL;
		break;
	case SETTING_KIND_NUMBER:
	case SETTING_KIND_DURATION:
		*(int64_t *)field = 0;
		break;
	case SETTING_KIND_FLAG:
		*(bool *)field = false;
		break;
	}
}

/* --- where values come from ------------------------------------------------------------------- */

/* NAME_FILE: the file's content without the line's end. False when it is wrong; *ret stays NULL
 * when there is no such setting. */
static bool secret_from_file(const struct setting *setting, const char **ret)
{
	char name[128], *bytes;
	const char *path, *plain = getenv(setting->name);
	size_t size;
	FILE *file;

	snprintf(name, sizeof(name), "%s_FILE", setting->name);
	path = getenv(name);
	if (!path || !*path)
		return true;
	if (plain && *plain)
		return wrong(setting, NULL, "either the setting or its _FILE, not both");
	file = fopen(path, "re");
	if (!file) {
		log_event(LOG_ERROR, "setting_wrong", log_text("name", name),
			  log_text("value", path), log_text("allowed", "a file that can be read"));
		return false;
	}
	bytes = malloc(SECRET_MAX);
	assert(bytes);
	size = fread(bytes, 1, SECRET_MAX, file);
	fclose(file);
	while (size && (bytes[size - 1] == '\n' || bytes[size - 1] == '\r'))
		size--;
	*ret = keep(bytes, size);
	explicit_bzero(bytes, SECRET_MAX);
	free(bytes);
	return true;
}

static bool load_one(const struct setting *setting, void *field)
{
	const char *value = NULL;

	if (setting->kind == SETTING_KIND_SECRET && !secret_from_file(setting, &value))
		return false;
	if (!value)
		value = getenv(setting->name);
	if (!value || !*value)
		value = setting->fallback;
	if (!value) {
		log_event(LOG_ERROR, "setting_missing", log_text("name", setting->name),
			  log_text("help", setting->help));
		return false;
	}
	if (!*value) {
		load_nothing(setting, field);
		return true;
	}
	return load_value(setting, value, field);
}

int settings_load(const struct setting *settings, void *target)
{
	int wrongs = 0;

	for (; settings->name; settings++)
		wrongs += !load_one(settings, (char *)target + settings->offset);
	return wrongs;
}
