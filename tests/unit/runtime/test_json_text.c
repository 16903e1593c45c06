#include "runtime/json_text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *escape(const char *text, size_t room)
{
	static char out[256];

	out[json_text_escape(out, room, text, strlen(text))] = 0;
	return out;
}

START_TEST(escapes_what_json_wants_escaped)
{
	ck_assert_str_eq(escape("plain", 200), "plain");
	ck_assert_str_eq(escape("a\"b\\c", 200), "a\\\"b\\\\c");
	ck_assert_str_eq(escape("\n\r\t\b\f", 200), "\\n\\r\\t\\b\\f");
	ck_assert_str_eq(escape("\x01\x1f\x7f", 200), "\\u0001\\u001f\\u007f");
	ck_assert_str_eq(escape("秒杀 é 🐘", 200), "秒杀 é 🐘");
}
END_TEST

START_TEST(replaces_what_is_not_utf8)
{
	ck_assert_str_eq(escape("a\xff"
				"b",
				200),
			 "a\xef\xbf\xbd"
			 "b");
	ck_assert_str_eq(escape("\xc0\xaf", 200), "\xef\xbf\xbd\xef\xbf\xbd");
	ck_assert_str_eq(escape("\xed\xa0\x80", 200), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	ck_assert_str_eq(escape("cut \xe7\xa7", 200), "cut \xef\xbf\xbd\xef\xbf\xbd");
}
END_TEST

START_TEST(stops_between_characters)
{
	ck_assert_str_eq(escape("ab秒", 4), "ab");
	ck_assert_str_eq(escape("ab秒", 5), "ab秒");
	ck_assert_str_eq(escape("ab\n", 3), "ab");
	ck_assert_str_eq(escape("x", 0), "");
}
END_TEST

START_TEST(prints_long_texts_whole)
{
	char text[600] = "", expected[610], *printed;
	size_t size;
	FILE *out;

	for (int i = 0; i < 80; i++)
		strcat(text, i % 3 ? "aé" : "秒b🐘");
	snprintf(expected, sizeof(expected), "\"%s\"null", text);
	out = open_memstream(&printed, &size);
	json_text_print(out, text);
	json_text_print(out, NULL);
	fclose(out);
	ck_assert_str_eq(printed, expected);
	free(printed);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("json_text");
	TCase *cases = tcase_create("json_text");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(cases, escapes_what_json_wants_escaped);
	tcase_add_test(cases, replaces_what_is_not_utf8);
	tcase_add_test(cases, stops_between_characters);
	tcase_add_test(cases, prints_long_texts_whole);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
