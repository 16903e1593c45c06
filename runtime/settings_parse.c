#include "runtime/settings_parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	int64_t times;
};

static const struct unit sizes[] = {
	{"", 1},	  {"k", 1000},	    {"M", 1000000},   {"G", 1000000000},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0},
};
static const struct unit durations[] = {
	{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0},
};

/* 0: no such unit. */
static int64_t unit_times(const struct unit *units, const char *name)
{
	for (; units->name; units++)
		if (!strcasecmp(units->name, name))
			return units->times;
	return 0;
}

bool settings_parse_number(const char *text, int64_t *ret_number)
{
	char *end;
	int64_t times, product;
	long long number;

	if (!isdigit((unsigned char)text[*text == '-']))
		return false;
	errno = 0;
	number = strtoll(text, &end, 10);
	times = unit_times(sizes, end);
	if (errno || !times || __builtin_mul_overflow((int64_t)number, times, &product))
		return false;
	*ret_number = product;
	return true;
}

bool settings_parse_duration(const char *text, int64_t *ret_ms)
{
	size_t digits = strspn(text, "-0123456789.");
	int64_t times;
	double number;
	char plain[24], *end;

	/* strtod() knows more forms than we want: hexadecimal, exponents, "inf". */
	if (!isdigit((unsigned char)text[*text == '-']) || digits >= sizeof(plain))
		return false;
	memcpy(plain, text, digits);
	plain[digits] = 0;
	number = strtod(plain, &end);
	times = number == 0 && !text[digits] ? 1 : unit_times(durations, text + digits);
	if (*end || !times || fabs(number) * (double)times > 1e15)
		return false;
	*ret_ms = llround(number * (double)times);
	return true;
}

bool settings_parse_flag(const char *text, bool *ret_flag)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		for (int flag = 0; flag < 2; flag++) {
			if (!strcasecmp(text, words[i][flag])) {
				*ret_flag = flag;
				return true;
			}
		}
	}
	return false;
}

void settings_format_duration(int64_t ms, char text[32])
{
	const struct unit *unit = durations;

	if (!ms) {
		snprintf(text, 32, "0s");
		return;
	}
	while (ms % unit->times)
		unit++;
	snprintf(text, 32, "%lld%s", (long long)(ms / unit->times), unit->name);
}
