/* What there is to say about settings: help, what is in force, names nobody knows. */
#include "runtime/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json_text.h"
#include "runtime/log.h"
#include "runtime/settings_parse.h"

#define PREFIX "STAMPEDE_"
#define NAME_MAX_BYTES 64
#define DISTANCE_CLOSE 3

/* One environment often serves all five processes and the command: what another of them reads is no
 * mistake here. */
static const char *const elsewhere[] = {
	"STAMPEDE_HOME",
	"STAMPEDE_DATA",
	"STAMPEDE_REDIS",
	"STAMPEDE_BUS",
	"STAMPEDE_ORDER",
	"STAMPEDE_LANES",
	"STAMPEDE_INVENTORY",
	"STAMPEDE_LOCK",
	"STAMPEDE_DEPS",
	"STAMPEDE_NODE",
	"STAMPEDE_SCHEDULER",
	"STAMPEDE_HTTP_ADDRESS",
	NULL,
};

/* --- names nobody knows ----------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters must be put in, taken out or replaced to get from one to the other. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_MAX_BYTES + 1], b_size = strnlen(b, NAME_MAX_BYTES);

	for (size_t j = 0; j <= b_size; j++)
		row[j] = j;
	for (size_t i = 0; a[i] && i < NAME_MAX_BYTES; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 1; j <= b_size; j++) {
			size_t above = row[j];

			row[j] = least(diagonal + (a[i] != b[j - 1]), least(above, row[j - 1]) + 1);
			diagonal = above;
		}
	}
	return row[b_size];
}

struct search {
	const char *name;
	const char *nearest;
	size_t distance;
};

/* True when `known` is what is looked for. */
static bool search_try(struct search *search, const char *known)
{
	size_t far = distance(search->name, known), size = strlen(known);

	if (far > DISTANCE_CLOSE && !strncmp(search->name, known, size) &&
	    search->name[size] == '_')
		far = DISTANCE_CLOSE; /* STAMPEDE_REDIS_URL for STAMPEDE_REDIS */
	if (far < search->distance) {
		search->distance = far;
		search->nearest = known;
	}
	return far == 0 && !strcmp(search->name, known);
}

static bool search_table(struct search *search, const struct setting *setting)
{
	char file[NAME_MAX_BYTES + 8];

	for (; setting->name; setting++) {
		if (search_try(search, setting->name))
			return true;
		snprintf(file, sizeof(file), "%s_FILE", setting->name);
		if (setting->kind == SETTING_KIND_SECRET && !strcmp(search->name, file))
			return true;
	}
	return false;
}

/* Kubernetes sets NAME_PORT=tcp://…, NAME_SERVICE_HOST and the like for each Service, also for one
 * whose name starts with "stampede". */
static bool from_kubernetes(const char *name, const char *value)
{
	const char *port = strstr(name, "_PORT");

	return strstr(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") ||
	       (port && port[5] == '_') || (port && !strncmp(value, "tcp://", 6));
}

static void warn_unless_known(const struct setting *const *tables, const char *name)
{
	struct search search = {.name = name, .distance = SIZE_MAX};

	for (; *tables; tables++)
		if (search_table(&search, *tables))
			return;
	for (const char *const *other = elsewhere; *other; other++)
		if (search_try(&search, *other))
			return;
	/* Far from all we know, it is more likely another process's than a mistake. */
	log_event(search.distance <= DISTANCE_CLOSE ? LOG_WARN : LOG_INFO, "setting_unknown",
		  log_text("name", name), log_text("nearest", search.nearest));
}

void settings_warn_unknown(const struct setting *const *tables)
{
	char name[NAME_MAX_BYTES * 2];

	for (char **entry = environ; entry && *entry; entry++) {
		size_t size = strcspn(*entry, "=");

		if (strncmp(*entry, PREFIX, strlen(PREFIX)) || !(*entry)[size])
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)size, *entry);
		if (!from_kubernetes(name, *entry + size + 1))
			warn_unless_known(tables, name);
	}
}

/* --- what is in force ------------------------------------------------------------------------- */

static void print_value(FILE *out, const struct setting *setting, const void *field)
{
	const char *text;
	char duration[32];

	switch (setting->kind) {
	case SETTING_KIND_TEXT:
		json_text_print(out, *(const char *const *)field);
		break;
	case SETTING_KIND_URL:
		text = *(const char *const *)field;
		json_text_print(out, text ? log_url(text) : NULL);
		break;
	case SETTING_KIND_SECRET:
		json_text_print(out, *(const char *const *)field ? "(set)" : NULL);
		break;
	case SETTING_KIND_NUMBER:
		fprintf(out, "%lld", (long long)*(const int64_t *)field);
		break;
	case SETTING_KIND_DURATION:
		settings_format_duration(*(const int64_t *)field, duration);
		json_text_print(out, duration);
		break;
	case SETTING_KIND_FLAG:
		fputs(*(const bool *)field ? "true" : "false", out);
		break;
	}
}

char *settings_json(const struct setting *const *tables, const void *const *targets)
{
	const char *separator = "\n  ";
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert(out);
	fputc('{', out);
	for (; *tables; tables++, targets++) {
		for (const struct setting *setting = *tables; setting->name; setting++) {
			fputs(separator, out);
			separator = ",\n  ";
			json_text_print(out, setting->name);
			fputs(": ", out);
			print_value(out, setting, (const char *)*targets + setting->offset);
		}
	}
	fputs("\n}\n", out);
	fclose(out);
	return text;
}

/* --- help ------------------------------------------------------------------------------------- */

static void print_bounds(const struct setting *setting)
{
	char min[32], max[32];

	if (setting->kind == SETTING_KIND_NUMBER) {
		printf(" (%lld to %lld)", (long long)setting->min, (long long)setting->max);
	} else if (setting->kind == SETTING_KIND_DURATION) {
		settings_format_duration(setting->min, min);
		settings_format_duration(setting->max, max);
		printf(" (%s to %s)", min, max);
	} else if (setting->kind == SETTING_KIND_SECRET) {
		printf(" (secret: or %s_FILE names a file that holds it)", setting->name);
	}
}

void settings_print(const struct setting *const *tables)
{
	int name_width = 0, fallback_width = 0;

	for (const struct setting *const *table = tables; *table; table++) {
		for (const struct setting *setting = *table; setting->name; setting++) {
			int name = (int)strlen(setting->name);
			int fallback = setting->fallback ? (int)strlen(setting->fallback) : 10;

			name_width = name > name_width ? name : name_width;
			fallback_width = fallback > fallback_width ? fallback : fallback_width;
		}
	}
	for (; *tables; tables++) {
		for (const struct setting *setting = *tables; setting->name; setting++) {
			const char *fallback = setting->fallback;

			fallback = !fallback ? "(required)" : *fallback ? fallback : "-";
			printf("%-*s  %-*s  %s", name_width, setting->name, fallback_width,
			       fallback, setting->help);
			print_bounds(setting);
			putchar('\n');
		}
	}
}
