#include "runtime/trace.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

START_TEST(reads_and_writes_a_traceparent)
{
	char text[TRACE_TEXT_SIZE], id[33];
	struct trace trace;

	ck_assert(trace_parse(GOOD, &trace));
	ck_assert_uint_eq(trace.flags, 1);
	trace_format(&trace, text);
	ck_assert_str_eq(text, GOOD);
	trace_id_format(&trace, id);
	ck_assert_str_eq(id, "4bf92f3577b34da6a3ce929d0e0e4736");
}
END_TEST

START_TEST(reads_later_versions_as_far_as_it_knows_them)
{
	struct trace trace;

	ck_assert(trace_parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
			      &trace));
	ck_assert(!trace_parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
			       &trace));
}
END_TEST

START_TEST(refuses_what_is_no_traceparent)
{
	static const char *const wrong[] = {
		"",
		"00",
		(GOOD "-more"),
		(GOOD "0"),
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
	};
	struct trace trace, before;

	memset(&trace, 7, sizeof(trace));
	before = trace;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		ck_assert_msg(!trace_parse(wrong[i], &trace), "%s", wrong[i]);
	ck_assert(!trace_parse(NULL, &trace));
	ck_assert(!memcmp(&trace, &before, sizeof(trace)));
}
END_TEST

START_TEST(makes_new_ids_each_time)
{
	struct trace first = trace_make(), second = trace_make(), child = trace_child(&first);

	ck_assert(memcmp(first.trace_id, second.trace_id, 16));
	ck_assert(!memcmp(first.trace_id, child.trace_id, 16));
	ck_assert(memcmp(first.span_id, child.span_id, 8));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace");
	TCase *cases = tcase_create("trace");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(cases, reads_and_writes_a_traceparent);
	tcase_add_test(cases, reads_later_versions_as_far_as_it_knows_them);
	tcase_add_test(cases, refuses_what_is_no_traceparent);
	tcase_add_test(cases, makes_new_ids_each_time);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
