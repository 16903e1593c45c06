#include "runtime/log.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "runtime/clock.h"

static int64_t now_us;

static int64_t test_monotonic_us(void)
{
	return now_us;
}

static int64_t test_wall_ms(void)
{
	return 1795254181042; /* 2026-11-21 09:43:01.042 */
}

static void setup(void)
{
	now_us += 3600000000;
	clock_replace(test_monotonic_us, test_wall_ms);
	log_start("testing", LOG_INFO);
}

static int count(const char *text, const char *what)
{
	int found = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		found++;
	}
	return found;
}

START_TEST(writes_one_json_object_a_line)
{
	const char *text;

	capture_begin();
	log_event(LOG_WARN, "redis_lost", log_text("error", "a \"b\"\n"),
		  log_number("retry_ms", -5), log_text("none", NULL));
	log_event(LOG_INFO, "alone", log_none);
	text = capture_end();
	ck_assert_str_eq(text,
			 "{\"time\":\"2026-11-21T09:43:01.042Z\",\"level\":\"warn\",\"service\":"
			 "\"testing\",\"event\":\"redis_lost\",\"error\":\"a \\\"b\\\"\\n\","
			 "\"retry_ms\":-5,\"none\":null}\n"
			 "{\"time\":\"2026-11-21T09:43:01.042Z\",\"level\":\"info\",\"service\":"
			 "\"testing\",\"event\":\"alone\"}\n");
}
END_TEST

START_TEST(leaves_out_what_is_below_the_level)
{
	capture_begin();
	log_event(LOG_DEBUG, "hidden", log_none);
	ck_assert_str_eq(capture_end(), "");
	ck_assert(!log_enabled(LOG_DEBUG));
	ck_assert(log_enabled(LOG_INFO));
}
END_TEST

START_TEST(cuts_long_lines_and_says_so)
{
	char big[9000];
	const char *text;
	size_t size;

	memset(big, '"', sizeof(big));
	big[sizeof(big) - 1] = 0;
	capture_begin();
	log_event(LOG_INFO, "long", log_text("text", big), log_text("after", "x"));
	text = capture_end();
	size = strlen(text);
	ck_assert_uint_le(size, 4096);
	ck_assert_uint_gt(size, 4000);
	ck_assert_str_eq(text + size - strlen("\\\"\",\"cut\":true}\n"), "\\\"\",\"cut\":true}\n");
	ck_assert_ptr_null(strstr(text, "after"));
}
END_TEST

START_TEST(counts_repeats_instead_of_writing_them)
{
	const char *text;

	capture_begin();
	for (int i = 0; i < 50; i++)
		log_event(LOG_INFO, "again", log_number("i", i));
	log_event(LOG_INFO, "other", log_none);
	text = capture_end();
	ck_assert_int_eq(count(text, "\"again\""), 20);
	ck_assert_int_eq(count(text, "\"other\""), 1);

	now_us += 1000000;
	capture_begin();
	log_event(LOG_INFO, "other", log_none);
	text = capture_end();
	ck_assert_msg(strstr(text, "\"log_repeats_dropped\",\"of\":\"again\",\"times\":30"), "%s",
		      text);
	ck_assert_int_eq(count(text, "\n"), 2);
}
END_TEST

START_TEST(loses_no_line_when_the_process_aborts)
{
	const char *text;
	int status;
	pid_t child;

	capture_begin();
	child = fork();
	if (!child) {
		for (int i = 0; i < 10; i++)
			log_event(LOG_INFO, "last_words", log_number("i", i));
		signal(SIGABRT, SIG_DFL);
		abort();
	}
	waitpid(child, &status, 0);
	text = capture_end();
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(count(text, "last_words"), 10);
}
END_TEST

START_TEST(shows_urls_without_secrets)
{
	ck_assert_str_eq(log_url("redis://user:pw@host:6379/2?x=secret"), "redis://host:6379/2");
	ck_assert_str_eq(log_url("redis://host:6379"), "redis://host:6379");
	ck_assert_str_eq(log_url("kafka://a:1,b:2?sasl.password=x"), "kafka://a:1,b:2");
	ck_assert_str_eq(log_url("sentinel://u:p@a:1,b:2/main/0"), "sentinel://a:1,b:2/main/0");
	/* A slash or a question mark in the password, not escaped. */
	ck_assert_str_eq(log_url("redis://u:p/w@host:1"), "redis://***");
	ck_assert_str_eq(log_url("redis://u:p?w@host:1"), "redis://***");
	ck_assert_str_eq(log_url("redis://u:p@w@host:1"), "redis://host:1");
	ck_assert_str_eq(log_url("unix:///run/redis.sock"), "unix:///run/redis.sock");
	ck_assert_str_eq(log_url(NULL), "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("log");
	TCase *cases = tcase_create("log");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(cases, setup, NULL);
	tcase_add_test(cases, writes_one_json_object_a_line);
	tcase_add_test(cases, leaves_out_what_is_below_the_level);
	tcase_add_test(cases, cuts_long_lines_and_says_so);
	tcase_add_test(cases, counts_repeats_instead_of_writing_them);
	tcase_add_test(cases, loses_no_line_when_the_process_aborts);
	tcase_add_test(cases, shows_urls_without_secrets);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
