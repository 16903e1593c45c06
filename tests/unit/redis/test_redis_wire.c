#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/redis_error.h"
#include "runtime/redis_wire.h"

static struct redis_buffer buffer;

START_TEST(commands_are_written_as_hiredis_writes_them)
{
	srandom(1);
	for (int round = 0; round < 2000; round++) {
		const char *values[200];
		size_t sizes[200];
		int count = 1 + (int)(random() % 200);
		char *expected;
		long long size;

		for (int i = 0; i < count; i++) {
			char *value;

			sizes[i] = (size_t)(random() % (i % 50 ? 30 : 12000));
			value = malloc(sizes[i] + 1);
			for (size_t at = 0; at < sizes[i]; at++)
				value[at] = (char)random();
			values[i] = value;
		}
		redis_write_command(&buffer, (struct redis_args){count, values, sizes});
		size = redisFormatCommandArgv(&expected, count, (const char **)values, sizes);
		ck_assert_int_eq(size, (long long)buffer.size);
		ck_assert_mem_eq(buffer.bytes, expected, buffer.size + 1);
		redisFreeCommand(expected);
		for (int i = 0; i < count; i++)
			free((void *)(uintptr_t)values[i]);
	}
	redis_buffer_free(&buffer);
}
END_TEST

START_TEST(an_evalsha_becomes_the_eval_it_stands_for)
{
	static const char sha[] = "0123456789012345678901234567890123456789";
	const char *values[] = {"key", "$", "", "x\r\n"};
	size_t sizes[] = {3, 1, 0, 3};
	struct redis_buffer eval = {0};

	redis_write_evalsha(&buffer, sha, 1, (struct redis_args){4, values, sizes});
	ck_assert_str_eq(buffer.bytes,
			 "*7\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789012345678901234567890123456789"
			 "\r\n$1\r\n1\r\n$3\r\nkey\r\n$1\r\n$\r\n$0\r\n\r\n$3\r\nx\r\n\r\n");
	redis_write_eval(&eval, "return 1", &buffer);
	ck_assert_str_eq(eval.bytes,
			 "*7\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n"
			 "$1\r\n$\r\n$0\r\n\r\n$3\r\nx\r\n\r\n");
	ck_assert_uint_eq(eval.size, strlen(eval.bytes));

	redis_write_evalsha(&buffer, sha, 0, (struct redis_args){0, NULL, NULL});
	redis_write_eval(&eval, "", &buffer);
	ck_assert_str_eq(eval.bytes, "*3\r\n$4\r\nEVAL\r\n$0\r\n\r\n$1\r\n0\r\n");
	redis_buffer_free(&eval);
	redis_buffer_free(&buffer);
}
END_TEST

START_TEST(the_first_word_of_an_error_decides)
{
	ck_assert_int_eq(redis_error_status("NOAUTH Authentication required."),
			 STATUS_UNAUTHENTICATED);
	ck_assert_int_eq(redis_error_status("LOADING Redis is loading"), STATUS_UNAVAILABLE);
	ck_assert_int_eq(redis_error_status("BUSY Redis is busy"), STATUS_UNAVAILABLE);
	ck_assert_int_eq(redis_error_status("BUSYGROUP Consumer Group name already exists"),
			 STATUS_INTERNAL);
	ck_assert_int_eq(redis_error_status("OOM command not allowed"), STATUS_RESOURCE_EXHAUSTED);
	ck_assert_int_eq(redis_error_status("ERR LOADING"), STATUS_INTERNAL);
	ck_assert_int_eq(redis_error_status("READONLY"), STATUS_UNAVAILABLE);
	ck_assert_int_eq(redis_error_status(""), STATUS_INTERNAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_wire");
	TCase *test = tcase_create("redis_wire");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, commands_are_written_as_hiredis_writes_them);
	tcase_add_test(test, an_evalsha_becomes_the_eval_it_stands_for);
	tcase_add_test(test, the_first_word_of_an_error_decides);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
