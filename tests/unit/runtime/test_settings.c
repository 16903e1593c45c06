#include "runtime/settings.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/clock.h"
#include "runtime/settings_parse.h"

struct values {
	const char *text, *url, *secret, *required;
	int64_t number, duration;
	bool flag;
};

static const struct setting table[] = {
	SETTING_TEXT(struct values, text, "STAMPEDE_T_TEXT", "", "a text"),
	SETTING_URL(struct values, url, "STAMPEDE_T_URL", "redis://127.0.0.1:6379", "a url"),
	SETTING_SECRET(struct values, secret, "STAMPEDE_T_SECRET", "", "a secret"),
	SETTING_TEXT(struct values, required, "STAMPEDE_T_REQUIRED", NULL, "what must be set"),
	SETTING_NUMBER(struct values, number, "STAMPEDE_T_NUMBER", "10k", 1, 1 << 20, "a number"),
	SETTING_DURATION(struct values, duration, "STAMPEDE_T_DURATION", "1.5s", 0, 60000,
			 "a time"),
	SETTING_FLAG(struct values, flag, "STAMPEDE_T_FLAG", "yes", "a flag"),
	SETTING_END,
};
static const struct setting *const tables[] = {table, NULL};
static struct values values;

static int64_t clock_now_us;

static int64_t next_hour_us(void)
{
	return clock_now_us;
}

static void setup(void)
{
	clock_now_us += 3600000000; /* or the log would drop repeats */
	clock_replace(next_hour_us, NULL);
	for (const struct setting *setting = table; setting->name; setting++)
		unsetenv(setting->name);
	unsetenv("STAMPEDE_T_SECRET_FILE");
	setenv("STAMPEDE_T_REQUIRED", "here", 1);
	memset(&values, 0, sizeof(values));
}

/* Loads and returns what was logged. */
static const char *load(int wrongs)
{
	const char *log;
	int found;

	capture_begin();
	found = settings_load(table, &values);
	log = capture_end();
	ck_assert_msg(found == wrongs, "%d wrong, not %d: %s", found, wrongs, log);
	return log;
}

START_TEST(takes_fallbacks_for_what_is_unset_or_empty)
{
	setenv("STAMPEDE_T_NUMBER", "", 1);
	load(0);
	ck_assert_ptr_null(values.text);
	ck_assert_ptr_null(values.secret);
	ck_assert_str_eq(values.url, "redis://127.0.0.1:6379");
	ck_assert_str_eq(values.required, "here");
	ck_assert_int_eq(values.number, 10000);
	ck_assert_int_eq(values.duration, 1500);
	ck_assert(values.flag);
}
END_TEST

START_TEST(names_every_wrong_setting_at_once)
{
	const char *log;

	setenv("STAMPEDE_T_URL", "localhost:6379", 1);
	setenv("STAMPEDE_T_NUMBER", "2MiB", 1);
	setenv("STAMPEDE_T_DURATION", "5", 1);
	setenv("STAMPEDE_T_FLAG", "maybe", 1);
	unsetenv("STAMPEDE_T_REQUIRED");
	log = load(5);
	ck_assert_ptr_nonnull(
		strstr(log, "\"name\":\"STAMPEDE_T_URL\",\"value\":\"localhost:6379\",\"allowed\":"
			    "\"a URL, such as redis://127.0.0.1:6379\""));
	ck_assert_ptr_nonnull(
		strstr(log, "\"value\":\"2MiB\",\"allowed\":\"a whole number from 1 to 1048576;"));
	ck_assert_ptr_nonnull(strstr(
		log, "\"value\":\"5\",\"allowed\":\"a duration from 0s to 1m, with its unit"));
	ck_assert_ptr_nonnull(strstr(log, "\"value\":\"maybe\",\"allowed\":\"true or false"));
	ck_assert_ptr_nonnull(strstr(log, "setting_missing\",\"name\":\"STAMPEDE_T_REQUIRED\""));
}
END_TEST

START_TEST(names_the_schemes_a_url_may_have)
{
	const char *log;

	setenv("STAMPEDE_T_URL", "carrier-pigeon://home", 1);
	log = load(1);
	ck_assert_ptr_nonnull(strstr(log, "\"name\":\"STAMPEDE_T_URL\""));
	ck_assert_ptr_nonnull(strstr(log, "\"allowed\":\"redis://, rediss://"));
	setenv("STAMPEDE_T_URL", "kafka://home:9092", 1);
	load(0);
}
END_TEST

START_TEST(reads_numbers_with_units)
{
	int64_t number = 42;

	ck_assert(settings_parse_number("64KiB", &number) && number == 65536);
	ck_assert(settings_parse_number("-3k", &number) && number == -3000);
	ck_assert(settings_parse_number("2GiB", &number) && number == 2ll << 30);
	ck_assert(!settings_parse_number("", &number));
	ck_assert(!settings_parse_number("12x", &number));
	ck_assert(!settings_parse_number(" 12", &number));
	ck_assert(!settings_parse_number("1.5", &number));
	ck_assert(!settings_parse_number("99999999999999999999", &number));
	ck_assert(!settings_parse_number("9999999999999GiB", &number));
	ck_assert_int_eq(number, 2ll << 30);
}
END_TEST

START_TEST(reads_and_writes_durations)
{
	int64_t ms = 42;
	char text[32];

	ck_assert(settings_parse_duration("250ms", &ms) && ms == 250);
	ck_assert(settings_parse_duration("1.5s", &ms) && ms == 1500);
	ck_assert(settings_parse_duration("30m", &ms) && ms == 1800000);
	ck_assert(settings_parse_duration("2d", &ms) && ms == 172800000);
	ck_assert(settings_parse_duration("0", &ms) && ms == 0);
	ck_assert(!settings_parse_duration("5", &ms));
	ck_assert(!settings_parse_duration("s", &ms));
	ck_assert(!settings_parse_duration("1e3s", &ms));
	ck_assert(!settings_parse_duration("0x5s", &ms));
	ck_assert(!settings_parse_duration("1.2.3s", &ms));
	ck_assert(!settings_parse_duration("infs", &ms));
	ck_assert(!settings_parse_duration("99999999999999999d", &ms));
	settings_format_duration(90000, text);
	ck_assert_str_eq(text, "90s");
	settings_format_duration(7200000, text);
	ck_assert_str_eq(text, "2h");
	settings_format_duration(0, text);
	ck_assert_str_eq(text, "0s");
}
END_TEST

START_TEST(reads_secrets_from_files_and_never_shows_them)
{
	char path[] = "/tmp/test_settings_XXXXXX", *json;
	const char *log;
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, "hush\n", 5), 5);
	close(fd);
	setenv("STAMPEDE_T_SECRET_FILE", path, 1);
	setenv("STAMPEDE_T_URL", "redis://user:word@host:1/", 1);
	load(0);
	ck_assert_str_eq(values.secret, "hush");
	json = settings_json(tables, (const void *const[]){&values});
	ck_assert_ptr_nonnull(strstr(json, "\"STAMPEDE_T_SECRET\": \"(set)\""));
	ck_assert_ptr_nonnull(strstr(json, "\"STAMPEDE_T_URL\": \"redis://host:1/\""));
	ck_assert_ptr_nonnull(strstr(json, "\"STAMPEDE_T_DURATION\": \"1500ms\""));
	ck_assert_ptr_null(strstr(json, "hush"));
	ck_assert_ptr_null(strstr(json, "word"));
	free(json);

	setenv("STAMPEDE_T_SECRET", "other", 1);
	log = load(1);
	ck_assert_ptr_nonnull(strstr(log, "not both"));
	ck_assert_ptr_null(strstr(log, "other"));
	unsetenv("STAMPEDE_T_SECRET");
	unlink(path);
	log = load(1);
	ck_assert_ptr_nonnull(strstr(log, "a file that can be read"));
}
END_TEST

START_TEST(warns_of_unknown_names_with_the_nearest)
{
	const char *log;

	setenv("STAMPEDE_T_NUMEBR", "5", 1);
	setenv("STAMPEDE_INVENTORY_SERVICE_HOST", "10.0.0.1", 1);
	setenv("STAMPEDE_INVENTORY_PORT", "tcp://10.0.0.1:7001", 1);
	setenv("STAMPEDE_INVENTORY_PORT_7001_TCP", "tcp://10.0.0.1:7001", 1);
	setenv("STAMPEDE_REDIS", "redis://elsewhere", 1);
	setenv("STAMPEDE_T_URL_OF_REDIS", "x", 1);
	setenv("STAMPEDE_GATEWAY_SOMETHING", "x", 1);
	capture_begin();
	settings_warn_unknown(tables);
	log = capture_end();
	ck_assert_ptr_nonnull(
		strstr(log, "\"STAMPEDE_T_NUMEBR\",\"nearest\":\"STAMPEDE_T_NUMBER\""));
	ck_assert_ptr_nonnull(
		strstr(log, "\"warn\",\"service\":\"stampede\",\"event\":\"setting_unknown\","
			    "\"name\":\"STAMPEDE_T_URL_OF_REDIS\""));
	ck_assert_ptr_nonnull(
		strstr(log, "\"info\",\"service\":\"stampede\",\"event\":\"setting_unknown\","
			    "\"name\":\"STAMPEDE_GATEWAY_SOMETHING\""));
	ck_assert_ptr_null(strstr(log, "STAMPEDE_INVENTORY"));
	ck_assert_ptr_null(strstr(log, "STAMPEDE_REDIS"));
	ck_assert_ptr_null(strstr(log, "STAMPEDE_T_REQUIRED"));
}
END_TEST

START_TEST(prints_a_line_for_each_setting)
{
	const char *text;

	capture_begin();
	settings_print(tables);
	text = capture_end();
	ck_assert_ptr_nonnull(strstr(
		text, "STAMPEDE_T_NUMBER    10k                     a number (1 to 1048576)\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "STAMPEDE_T_REQUIRED  (required)              what must be set\n"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("settings");
	TCase *cases = tcase_create("settings");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_test(cases, takes_fallbacks_for_what_is_unset_or_empty);
	tcase_add_test(cases, names_every_wrong_setting_at_once);
	tcase_add_test(cases, names_the_schemes_a_url_may_have);
	tcase_add_test(cases, reads_numbers_with_units);
	tcase_add_test(cases, reads_and_writes_durations);
	tcase_add_test(cases, reads_secrets_from_files_and_never_shows_them);
	tcase_add_test(cases, warns_of_unknown_names_with_the_nearest);
	tcase_add_test(cases, prints_a_line_for_each_setting);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
