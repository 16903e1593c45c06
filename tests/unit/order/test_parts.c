/* Order ids, and reservations as they come off the bus. */
#include <check.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "services/order/reservations.h"

START_TEST(order_ids_are_plain_decimal_numbers)
{
	static const char *const wrong[] = {"",	   "0",
					    "-1",  "+1",
					    "01",  "1 ",
					    " 1",  "1x",
					    "0x1", "9223372036854775808",
					    "1e3", "one",
					    "1.0", "18446744073709551616"};
	char text[ORDER_ID_TEXT_SIZE];
	int64_t id = 7;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(!order_id_parse(wrong[i], &id), "'%s' was taken", wrong[i]);
	ck_assert_int_eq(id, 7);
	ck_assert(order_id_parse("9223372036854775807", &id));
	ck_assert_int_eq(id, INT64_MAX);
	ck_assert_uint_eq(order_id_format(id, text), 19);
	ck_assert_str_eq(text, "9223372036854775807");
	ck_assert(order_id_parse("1", &id));
	ck_assert_int_eq(id, 1);
}
END_TEST

static Stampede__Events__V1__ReservationMade made[8], *list[8];
static Google__Protobuf__Timestamp pay_by;

static size_t record_pack(int count, uint8_t *to)
{
	Stampede__Events__V1__ReservationsMade message;

	stampede__events__v1__reservations_made__init(&message);
	message.reservations = list;
	message.n_reservations = (size_t)count;
	return protobuf_c_message_pack(&message.base, to);
}

static void fill(void)
{
	static char ids[8][8];

	google__protobuf__timestamp__init(&pay_by);
	pay_by.seconds = 100;
	for (int i = 0; i < 8; i++) {
		stampede__events__v1__reservation_made__init(&made[i]);
		ids[i][0] = (char)('1' + i);
		made[i].order_id = ids[i];
		made[i].sale_id = (char *)"sale";
		made[i].user_id = (char *)"user";
		made[i].request_id = (char *)"request";
		made[i].currency = (char *)"EUR";
		made[i].quantity = 1;
		made[i].pay_by = &pay_by;
		list[i] = &made[i];
	}
}

START_TEST(bad_reservations_are_kept_apart_from_good_ones)
{
	uint8_t bytes[4096];
	struct arena arena;
	struct reservations reservations;
	Stampede__Events__V1__ReservationsMade *again;
	const char *reason;
	const void *value;
	size_t size;

	fill();
	made[1].quantity = 0;
	made[2].order_id = (char *)"x";
	made[3].pay_by = NULL;
	made[4].user_id = (char *)"bad\xff";
	made[5].currency = (char *)"euro";
	made[6].sale_id = (char *)"";
	arena_init(&arena, NULL, 0);
	reservations_init(&reservations, &arena);
	ck_assert(reservations_add(&reservations, 5, bytes, record_pack(8, bytes)));
	ck_assert_int_eq(reservations.count, 2);
	ck_assert_int_eq(reservations.orders[0].order_id, 1);
	ck_assert_int_eq(reservations.orders[1].order_id, 8);
	ck_assert(!reservations_faulty(&reservations, 4, &reason, &value, &size));
	ck_assert(reservations_faulty(&reservations, 5, &reason, &value, &size));
	ck_assert_str_eq(reason, "quantity is out of range");
	again = stampede__events__v1__reservations_made__unpack(NULL, size, value);
	ck_assert_ptr_nonnull(again);
	ck_assert_uint_eq(again->n_reservations, 6);
	ck_assert_str_eq(again->reservations[0]->order_id, "2");
	stampede__events__v1__reservations_made__free_unpacked(again, NULL);
	arena_reset(&arena);
}
END_TEST

START_TEST(bytes_that_are_no_message_are_refused)
{
	static const uint8_t bytes[] = {0x0a, 0x40, 0x01};
	struct arena arena;
	struct reservations reservations;

	arena_init(&arena, NULL, 0);
	reservations_init(&reservations, &arena);
	ck_assert(!reservations_add(&reservations, 0, bytes, sizeof(bytes)));
	ck_assert(reservations_add(&reservations, 0, bytes, 0));
	ck_assert_int_eq(reservations.count, 0);
	arena_reset(&arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("order parts");
	TCase *tests = tcase_create("parts");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, order_ids_are_plain_decimal_numbers);
	tcase_add_test(tests, bad_reservations_are_kept_apart_from_good_ones);
	tcase_add_test(tests, bytes_that_are_no_message_are_refused);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
