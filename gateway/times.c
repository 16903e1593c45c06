#include "gateway/times.h"

#include <inttypes.h>
#include <stdio.h>

#define DAY_SECONDS 86400

/* Days since 1970-01-01 of a date in the Gregorian calendar, and back: by eras of 400 years that
 * start on 1 March, so that the leap day comes last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t era, of_era, of_year;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	of_era = year - era * 400;
	of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
	int64_t era, of_era, year, of_year, month;

	days += 719468;
	era = (days >= 0 ? days : days - 146096) / 146097;
	of_era = days - era * 146097;
	year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year + year / 4 - year / 100);
	month = (5 * of_year + 2) / 153;
	*ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = (int)(year + era * 400 + (*ret_month <= 2));
}

static int month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return days[month - 1] +
	       (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

/* --- reading
 * -------------------------------------------------------------------------------------- */

/* Exactly `count` digits. */
static bool digits(const char **at, const char *end, int count, int *ret_value)
{
	int value = 0;

	if (end - *at < count)
		return false;
	for (int i = 0; i < count; i++) {
		char digit = *(*at)++;

		if (digit < '0' || digit > '9')
			return false;
		value = value * 10 + digit - '0';
	}
	*ret_value = value;
	return true;
}

static bool letter(const char **at, const char *end, char expected)
{
	if (*at == end || **at != expected)
		return false;
	(*at)++;
	return true;
}

/* ".5": up to nine digits behind a point; nothing at all is 0. */
static bool fraction(const char **at, const char *end, int32_t *ret_nanos)
{
	int32_t nanos = 0, scale = 1000000000;

	*ret_nanos = 0;
	if (*at == end || **at != '.')
		return true;
	for ((*at)++; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		if (scale == 1)
			return false;
		scale /= 10;
		nanos += (**at - '0') * scale;
	}
	*ret_nanos = nanos;
	return scale < 1000000000;
}

/* "Z" or "+02:00". */
static bool offset(const char **at, const char *end, int *ret_seconds)
{
	int hours, minutes, sign;

	if (*at == end)
		return false;
	if (**at == 'Z') {
		(*at)++;
		*ret_seconds = 0;
		return true;
	}
	sign = **at == '+' ? 1 : -1;
	if ((**at != '+' && **at != '-') || !((*at)++, digits(at, end, 2, &hours)) ||
	    !letter(at, end, ':') || !digits(at, end, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

bool timestamp_parse(const char *text, size_t size, int64_t *ret_seconds, int32_t *ret_nanos)
{
	const char *at = text, *end = text + size;
	int year, month, day, hour, minute, second, zone;
	int64_t seconds;
	int32_t nanos;

	if (!digits(&at, end, 4, &year) || !letter(&at, end, '-') || !digits(&at, end, 2, &month) ||
	    !letter(&at, end, '-') || !digits(&at, end, 2, &day) || !letter(&at, end, 'T') ||
	    !digits(&at, end, 2, &hour) || !letter(&at, end, ':') ||
	    !digits(&at, end, 2, &minute) || !letter(&at, end, ':') ||
	    !digits(&at, end, 2, &second) || !fraction(&at, end, &nanos) ||
	    !offset(&at, end, &zone) || at != end)
		return false;
	if (year < 1 || month < 1 || month > 12 || day < 1 || day > month_days(year, month) ||
	    hour > 23 || minute > 59 || second > 59)
		return false;
	seconds =
		days_of(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second - zone;
	if (seconds < TIMESTAMP_SECONDS_MIN || seconds > TIMESTAMP_SECONDS_MAX)
		return false;
	*ret_seconds = seconds;
	*ret_nanos = nanos;
	return true;
}

bool duration_parse(const char *text, size_t size, int64_t *ret_seconds, int32_t *ret_nanos)
{
	const char *at = text, *end = text + size;
	bool negative = at < end && *at == '-', some = false;
	int64_t seconds = 0;
	int32_t nanos;

	at += negative;
	for (; at < end && *at >= '0' && *at <= '9'; at++) {
		some = true;
		seconds = seconds * 10 + *at - '0';
		if (seconds > DURATION_SECONDS_MAX)
			return false;
	}
	if (!some || !fraction(&at, end, &nanos) || !letter(&at, end, 's') || at != end ||
	    (seconds == DURATION_SECONDS_MAX && nanos))
		return false;
	*ret_seconds = negative ? -seconds : seconds;
	*ret_nanos = negative ? -nanos : nanos;
	return true;
}

/* --- writing
 * -------------------------------------------------------------------------------------- */

static char *put(char *to, int value, int count)
{
	for (int i = count - 1; i >= 0; i--) {
		to[i] = (char)('0' + value % 10);
		value /= 10;
	}
	return to + count;
}

/* 0, 3, 6 or 9 digits, as the canonical form wants. */
static char *fraction_put(char *to, int32_t nanos)
{
	if (!nanos)
		return to;
	*to++ = '.';
	if (nanos % 1000000 == 0)
		return put(to, nanos / 1000000, 3);
	if (nanos % 1000 == 0)
		return put(to, nanos / 1000, 6);
	return put(to, nanos, 9);
}

size_t timestamp_format(int64_t seconds, int32_t nanos, char text[TIMES_TEXT_SIZE])
{
	int64_t days, of_day;
	int year, month, day;
	char *to = text;

	if (seconds < TIMESTAMP_SECONDS_MIN || seconds > TIMESTAMP_SECONDS_MAX || nanos < 0 ||
	    nanos > 999999999)
		return 0;
	days = (seconds >= 0 ? seconds : seconds - (DAY_SECONDS - 1)) / DAY_SECONDS;
	of_day = seconds - days * DAY_SECONDS;
	date_of(days, &year, &month, &day);
	to = put(to, year, 4);
	*to++ = '-';
	to = put(to, month, 2);
	*to++ = '-';
	to = put(to, day, 2);
	*to++ = 'T';
	to = put(to, (int)(of_day / 3600), 2);
	*to++ = ':';
	to = put(to, (int)(of_day / 60 % 60), 2);
	*to++ = ':';
	to = put(to, (int)(of_day % 60), 2);
	to = fraction_put(to, nanos);
	*to++ = 'Z';
	return (size_t)(to - text);
}

size_t duration_format(int64_t seconds, int32_t nanos, char text[TIMES_TEXT_SIZE])
{
	bool negative = seconds < 0 || nanos < 0;
	char *to = text;

	if (seconds < -DURATION_SECONDS_MAX || seconds > DURATION_SECONDS_MAX ||
	    nanos < -999999999 || nanos > 999999999 || (seconds < 0 && nanos > 0) ||
	    (seconds > 0 && nanos < 0))
		return 0;
	if (negative)
		*to++ = '-';
	to += snprintf(to, 16, "%" PRId64, negative ? -seconds : seconds);
	to = fraction_put(to, negative ? -nanos : nanos);
	*to++ = 's';
	return (size_t)(to - text);
}
