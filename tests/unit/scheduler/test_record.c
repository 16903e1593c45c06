/* Records of jobs: what may be published, and that it comes back as it was. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "services/scheduler/record.h"

static struct arena arena;
static Stampede__Scheduler__V1__Job job;
static Stampede__Scheduler__V1__Target target;
static Google__Protobuf__Timestamp due_at;
static Google__Protobuf__Duration delay;

static int64_t fixed_us(void)
{
	return 0;
}

static int64_t fixed_ms(void)
{
	return 1000000;
}

static void set_up(void)
{
	clock_replace(fixed_us, fixed_ms);
	arena_init(&arena, NULL, 0);
	stampede__scheduler__v1__job__init(&job);
	stampede__scheduler__v1__target__init(&target);
	google__protobuf__timestamp__init(&due_at);
	google__protobuf__duration__init(&delay);
	job.job_id = (char *)"a";
	job.target = &target;
	target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_TOPIC;
	target.topic = (char *)"topic";
}

static void tear_down(void)
{
	arena_reset(&arena);
}

static const char *fault_of(const Google__Protobuf__Duration *with_delay)
{
	struct record record;
	struct fault fault;

	if (record_make(&arena, &job, with_delay, "queue", "job.", &record, &fault))
		return "";
	ck_assert_ptr_nonnull(fault.text);
	return fault.field;
}

START_TEST(comes_back_as_it_was)
{
	Stampede__Scheduler__V1__Job *again;
	struct record record;
	struct fault fault;

	job.due_at = &due_at;
	due_at.seconds = 2000;
	job.key = (char *)"key";
	job.payload = (ProtobufCBinaryData){4, (uint8_t *)"a\n\0b"};
	ck_assert(record_make(&arena, &job, NULL, "queue", "job.", &record, &fault));
	ck_assert_int_eq(record.target, TARGET_TOPIC);
	ck_assert_int_eq(record.asked_ms, 2000000);
	ck_assert_int_eq(strncmp(record.bytes, "t 10 2000000\n", 13), 0);
	again = record_read(&arena, "queue", "a", 2000123, record.bytes, record.size);
	ck_assert_ptr_nonnull(again);
	ck_assert_str_eq(again->job_id, "a");
	ck_assert_str_eq(again->queue, "queue");
	ck_assert_str_eq(again->key, "key");
	ck_assert_int_eq(again->tries_max, 10);
	ck_assert_int_eq(again->due_at->nanos, 123000000);
	ck_assert_uint_eq(again->payload.len, 4);
	ck_assert_int_eq(memcmp(again->payload.data, "a\n\0b", 4), 0);
}
END_TEST

START_TEST(is_the_same_for_the_same_job_only)
{
	struct record first, same, other;
	struct fault fault;

	delay.seconds = 5;
	ck_assert(record_make(&arena, &job, &delay, "queue", "", &first, &fault));
	ck_assert(record_make(&arena, &job, &delay, "queue", "", &same, &fault));
	ck_assert_int_eq(first.asked_ms, -5001);
	ck_assert_uint_eq(first.size, same.size);
	ck_assert_int_eq(memcmp(first.bytes, same.bytes, first.size), 0);
	delay.nanos = 1;
	ck_assert(record_make(&arena, &job, &delay, "queue", "", &other, &fault));
	ck_assert_int_eq(other.asked_ms, -5002); /* rounded up: never early */
	ck_assert_int_ne(memcmp(first.bytes, other.bytes, 11), 0);
}
END_TEST

START_TEST(makes_an_id_when_there_is_none)
{
	struct record first, second;
	struct fault fault;

	job.job_id = (char *)"";
	ck_assert(record_make(&arena, &job, NULL, "queue", "", &first, &fault));
	ck_assert(record_make(&arena, &job, NULL, "queue", "", &second, &fault));
	ck_assert_str_ne(first.id, second.id);
	ck_assert(job_id_valid(first.id));
}
END_TEST

START_TEST(names_the_field_that_is_wrong)
{
	static Stampede__Scheduler__V1__Callback callback;

	ck_assert_str_eq(fault_of(NULL), "");
	job.due_at = &due_at;
	ck_assert_str_eq(fault_of(&delay), "delay");
	due_at.seconds = 1000 + FUTURE_MAX_MS / 1000;
	ck_assert_str_eq(fault_of(NULL), "");
	due_at.nanos = 1;
	ck_assert_str_eq(fault_of(NULL), "job.due_at");
	due_at.nanos = -1;
	ck_assert_str_eq(fault_of(NULL), "job.due_at");
	job.due_at = NULL;
	delay.seconds = -1;
	ck_assert_str_eq(fault_of(&delay), "delay");
	job.queue = (char *)"another";
	ck_assert_str_eq(fault_of(NULL), "job.queue");
	job.queue = (char *)"queue";
	target.topic = (char *)"..";
	ck_assert_str_eq(fault_of(NULL), "job.target.topic");
	stampede__scheduler__v1__callback__init(&callback);
	target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_CALLBACK;
	target.callback = &callback;
	ck_assert_str_eq(fault_of(NULL), "job.target.callback.address");
	callback.address = (char *)"dns:///order:7002";
	callback.method = (char *)"Service";
	ck_assert_str_eq(fault_of(NULL), "job.target.callback.method");
	callback.method = (char *)"a.Service/Run/More";
	ck_assert_str_eq(fault_of(NULL), "job.target.callback.method");
	callback.method = (char *)"a.Service/Run";
	ck_assert_str_eq(fault_of(NULL), "");
	job.target = NULL;
	ck_assert_str_eq(fault_of(NULL), "job.target");
}
END_TEST

START_TEST(reads_receipts_it_made_and_no_others)
{
	static const char *const wrong[] = {"", "1", "1.", ".a", "-1.a", "x.a", "1.a\n"};
	const char *id;
	int64_t delivery;

	ck_assert(receipt_read(receipt_make(&arena, 12, "a.b"), &delivery, &id));
	ck_assert_int_eq(delivery, 12);
	ck_assert_str_eq(id, "a.b");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(!receipt_read(wrong[i], &delivery, &id), "%s", wrong[i]);
}
END_TEST

START_TEST(survives_a_damaged_record)
{
	ck_assert_ptr_null(record_read(&arena, "queue", "a", 0, "t 10 0", 6));
	ck_assert_ptr_null(record_read(&arena, "queue", "a", 0, "t 10 0\n\xff\xff\xff", 10));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("record");
	TCase *tests = tcase_create("record");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, comes_back_as_it_was);
	tcase_add_test(tests, is_the_same_for_the_same_job_only);
	tcase_add_test(tests, makes_an_id_when_there_is_none);
	tcase_add_test(tests, names_the_field_that_is_wrong);
	tcase_add_test(tests, reads_receipts_it_made_and_no_others);
	tcase_add_test(tests, survives_a_damaged_record);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
