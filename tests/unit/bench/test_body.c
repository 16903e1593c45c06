/* The bench's messages, written by hand, as protobuf-c reads and writes them. */
#include <check.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"

enum { PREFIX = 5 };

static struct body body;

START_TEST(writes_a_reservation)
{
	Stampede__Inventory__V1__ReserveRequest *request;

	body_init(&body, BODY_RESERVE, "bench", 0, 1, 0xabc);
	body_renew(&body);
	ck_assert_uint_eq(body.size, 70);
	ck_assert_uint_eq(body.bytes[4], body.size - PREFIX);
	request = stampede__inventory__v1__reserve_request__unpack(NULL, body.size - PREFIX,
								   body.bytes + PREFIX);
	ck_assert_ptr_nonnull(request);
	ck_assert_str_eq(request->sale_id, "bench");
	ck_assert_str_eq(request->user_id, "user-0000000000000abc");
	ck_assert_str_eq(request->request_id, "req-2026-11-11-0000000000000abc");
	ck_assert_int_eq(request->quantity, 1);
	stampede__inventory__v1__reserve_request__free_unpacked(request, NULL);
}
END_TEST

START_TEST(gives_every_buyer_ids_of_its_own)
{
	Stampede__Inventory__V1__ReserveManyRequest *request;

	body_init(&body, BODY_RESERVE_MANY, "bench", 0, 256, 1);
	body_renew(&body);
	body_renew(&body);
	ck_assert_uint_eq(body.next, 513);
	request = stampede__inventory__v1__reserve_many_request__unpack(NULL, body.size - PREFIX,
									body.bytes + PREFIX);
	ck_assert_ptr_nonnull(request);
	ck_assert_str_eq(request->sale_id, "bench");
	ck_assert_uint_eq(request->n_reservations, 256);
	for (size_t i = 0; i < request->n_reservations; i++) {
		const char *digits = strrchr(request->reservations[i]->request_id, '-') + 1;

		ck_assert_uint_eq(strtoull(digits, NULL, 16), 257 + i);
		digits = strrchr(request->reservations[i]->user_id, '-') + 1;
		ck_assert_uint_eq(strtoull(digits, NULL, 16), 257 + i);
	}
	stampede__inventory__v1__reserve_many_request__free_unpacked(request, NULL);
}
END_TEST

START_TEST(writes_a_sale)
{
	Stampede__Inventory__V1__CreateSaleRequest *request;

	body_init(&body, BODY_CREATE_SALE, "bench", 1000000000, 1, 0);
	request = stampede__inventory__v1__create_sale_request__unpack(NULL, body.size - PREFIX,
								       body.bytes + PREFIX);
	ck_assert_ptr_nonnull(request);
	ck_assert_int_eq(request->total, 1000000000);
	ck_assert_str_eq(request->unit_price->currency, "EUR");
	ck_assert_int_eq(request->unit_price->amount_minor, 1999);
	ck_assert(request->open);
	stampede__inventory__v1__create_sale_request__free_unpacked(request, NULL);
}
END_TEST

static Stampede__Inventory__V1__ReserveResponse response_of(int outcome, bool repeated)
{
	Stampede__Inventory__V1__ReserveResponse response =
		STAMPEDE__INVENTORY__V1__RESERVE_RESPONSE__INIT;

	response.outcome = (Stampede__Inventory__V1__Outcome)outcome;
	response.order_id = "492735562752000001";
	response.quantity = 1;
	response.repeated_answer = repeated;
	return response;
}

START_TEST(counts_outcomes_and_repeated_answers_apart)
{
	static const struct {
		int outcome, counted;
		bool repeated;
	} answers[] = {{1, 1, false}, {2, 2, false}, {6, 6, false}, {1, BODY_REPEATED, true}};

	body_init(&body, BODY_RESERVE, "bench", 0, 1, 1);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		Stampede__Inventory__V1__ReserveResponse response =
			response_of(answers[i].outcome, answers[i].repeated);
		uint64_t counts[BODY_OUTCOMES] = {0};
		uint8_t bytes[256];
		size_t size = stampede__inventory__v1__reserve_response__pack(&response, bytes);

		body_count(&body, bytes, size, counts);
		ck_assert_uint_eq(counts[answers[i].counted], 1);
	}
}
END_TEST

START_TEST(counts_what_is_missing_as_wrong)
{
	Stampede__Inventory__V1__ReserveResponse response = response_of(2, false);
	Stampede__Inventory__V1__ReserveResult results[3], *pointers[3];
	Stampede__Inventory__V1__ReserveManyResponse many =
		STAMPEDE__INVENTORY__V1__RESERVE_MANY_RESPONSE__INIT;
	Google__Rpc__Status error = GOOGLE__RPC__STATUS__INIT;
	uint64_t counts[BODY_OUTCOMES] = {0};
	uint8_t bytes[512];
	size_t size;

	error.code = 3;
	for (int i = 0; i < 3; i++) {
		stampede__inventory__v1__reserve_result__init(&results[i]);
		results[i].result_case = STAMPEDE__INVENTORY__V1__RESERVE_RESULT__RESULT_RESPONSE;
		results[i].response = &response;
		pointers[i] = &results[i];
	}
	results[1].result_case = STAMPEDE__INVENTORY__V1__RESERVE_RESULT__RESULT_ERROR;
	results[1].error = &error;
	many.n_results = 3;
	many.results = pointers;
	size = stampede__inventory__v1__reserve_many_response__pack(&many, bytes);
	/* Four were asked for: two sold out, one refused, one not answered. */
	body_init(&body, BODY_RESERVE_MANY, "bench", 0, 4, 1);
	body_count(&body, bytes, size, counts);
	ck_assert_uint_eq(counts[2], 2);
	ck_assert_uint_eq(counts[0], 2);
}
END_TEST

START_TEST(survives_answers_cut_short)
{
	Stampede__Inventory__V1__ReserveResponse response = response_of(1, true);
	uint8_t bytes[256];
	size_t size = stampede__inventory__v1__reserve_response__pack(&response, bytes);

	body_init(&body, BODY_RESERVE, "bench", 0, 1, 1);
	for (size_t cut = 0; cut < size; cut++) {
		uint64_t counts[BODY_OUTCOMES] = {0}, total = 0;
		uint8_t *copy = malloc(cut + 1); /* so that a sanitizer sees reads beyond it */

		memcpy(copy, bytes, cut);
		body_count(&body, copy, cut, counts);
		for (int i = 0; i < BODY_OUTCOMES; i++)
			total += counts[i];
		ck_assert_uint_eq(total, 1);
		free(copy);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bench body");
	TCase *tests = tcase_create("body");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tests, writes_a_reservation);
	tcase_add_test(tests, gives_every_buyer_ids_of_its_own);
	tcase_add_test(tests, writes_a_sale);
	tcase_add_test(tests, counts_outcomes_and_repeated_answers_apart);
	tcase_add_test(tests, counts_what_is_missing_as_wrong);
	tcase_add_test(tests, survives_answers_cut_short);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
