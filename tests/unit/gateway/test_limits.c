/* Token buckets, and the filter of request ids. */
#include <check.h>

#include "gateway/limits.h"
#include "gateway/seen.h"

START_TEST(lets_a_burst_through_then_the_rate)
{
	struct limits *limits = limits_create(10, 3, 100);
	int64_t now_us = 1000000;

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(limits_take(limits, "a", 1, now_us), 0);
	ck_assert_int_eq(limits_take(limits, "a", 1, now_us), 100000);
	ck_assert_int_eq(limits_take(limits, "b", 1, now_us), 0);
	/* A refusal costs nothing. */
	ck_assert_int_eq(limits_take(limits, "a", 1, now_us + 40000), 60000);
	ck_assert_int_eq(limits_take(limits, "a", 1, now_us + 100000), 0);
	ck_assert_int_gt(limits_take(limits, "a", 1, now_us + 100000), 0);
	/* Idle time fills the bucket, but not beyond its size. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(limits_take(limits, "a", 1, now_us + 90000000), 0);
	ck_assert_int_gt(limits_take(limits, "a", 1, now_us + 90000000), 0);
	limits_destroy(limits);
}
END_TEST

START_TEST(forgets_the_least_used_when_full)
{
	struct limits *limits = limits_create(1, 1, 4);

	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(limits_take(limits, &i, sizeof(i), 1000000 + i), 0);
	/* The latest are still known. */
	ck_assert_int_gt(limits_take(limits, &(int){999}, sizeof(int), 1001000), 0);
	limits_destroy(limits);
}
END_TEST

START_TEST(has_no_limit_without_a_rate)
{
	ck_assert_ptr_null(limits_create(0, 1, 4));
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(limits_take(NULL, "a", 1, 0), 0);
	limits_destroy(NULL);
}
END_TEST

static uint64_t mixed(uint64_t number)
{
	number *= 0x9e3779b97f4a7c15u;
	number ^= number >> 29;
	return number * 0xbf58476d1ce4e5b9u;
}

START_TEST(remembers_a_generation_of_ids)
{
	struct seen *seen = seen_create();
	int wrong = 0;

	for (uint64_t i = 0; i < 3 * SEEN_GENERATION; i++) {
		seen_add(seen, mixed(i));
		if (i >= SEEN_GENERATION && i % 1000 == 0)
			ck_assert(seen_maybe(seen, mixed(i - SEEN_GENERATION + 1)));
	}
	for (uint64_t i = 0; i < 100000; i++)
		wrong += seen_maybe(seen, mixed(i + (UINT64_C(1) << 40)));
	ck_assert_int_lt(wrong, 1500);
	seen_destroy(seen);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("limits");
	TCase *tests = tcase_create("limits");
	SRunner *runner;
	int failed;

	tcase_add_test(tests, lets_a_burst_through_then_the_rate);
	tcase_add_test(tests, forgets_the_least_used_when_full);
	tcase_add_test(tests, has_no_limit_without_a_rate);
	tcase_add_test(tests, remembers_a_generation_of_ids);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
