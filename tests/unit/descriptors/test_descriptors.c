/* The descriptor set embedded in every binary, and what it says of damaged ones. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "embed/protos.h"
#include "runtime/descriptors.h"

START_TEST(finds_every_kind_of_symbol)
{
	const struct descriptors *set = descriptors_embedded();
	const struct descriptor_symbol *symbol;

	symbol = descriptors_find(set, "stampede.inventory.v1.ReserveRequest");
	ck_assert_ptr_nonnull(symbol);
	ck_assert_ptr_nonnull(symbol->message);
	ck_assert_str_eq(symbol->file->name, "stampede/inventory/v1/inventory.proto");
	ck_assert_ptr_eq(symbol, descriptors_find(set, ".stampede.inventory.v1.ReserveRequest"));

	symbol = descriptors_find(set, "stampede.inventory.v1.ReserveRequest.quantity");
	ck_assert_int_eq(symbol->field->number, 3);
	symbol = descriptors_find(set, "stampede.inventory.v1.InventoryService");
	ck_assert_uint_gt(symbol->service->n_method, 10);
	symbol = descriptors_find(set, "stampede.inventory.v1.InventoryService.WatchStock");
	ck_assert(symbol->method->server_streaming);
	symbol = descriptors_find(set, "stampede.inventory.v1.Outcome");
	ck_assert_ptr_nonnull(symbol->enumeration);
	/* A value stands beside its enum. */
	ck_assert_ptr_nonnull(descriptors_find(set, "stampede.inventory.v1.OUTCOME_SOLD_OUT"));
	ck_assert_ptr_null(descriptors_find(set, "stampede.inventory.v1.Outcome.OUTCOME_SOLD_OUT"));
	/* Nested. */
	symbol = descriptors_find(set, "google.rpc.BadRequest.FieldViolation");
	ck_assert_ptr_nonnull(symbol->message);
	symbol = descriptors_find(set, "google.protobuf.FieldDescriptorProto.TYPE_BYTES");
	ck_assert_ptr_nonnull(symbol);
	ck_assert_ptr_null(symbol->enumeration);
}
END_TEST

START_TEST(knows_nothing_of_other_names)
{
	const struct descriptors *set = descriptors_embedded();

	ck_assert_ptr_null(descriptors_find(set, ""));
	ck_assert_ptr_null(descriptors_find(set, "."));
	ck_assert_ptr_null(descriptors_find(set, "stampede"));
	ck_assert_ptr_null(descriptors_find(set, "stampede.inventory.v1.ReserveRequest."));
	ck_assert_ptr_null(descriptors_find_file(set, "inventory.proto"));
}
END_TEST

START_TEST(keeps_the_bytes_protoc_wrote)
{
	const struct descriptors *set = descriptors_embedded();
	const unsigned char *end = protos_descriptor_set_pb + protos_descriptor_set_pb_size;

	ck_assert_int_gt(descriptors_files(set), 8);
	for (int i = 0; i < descriptors_files(set); i++) {
		const struct descriptor_file *file = descriptors_file(set, i);

		ck_assert(file->bytes > protos_descriptor_set_pb);
		ck_assert(file->bytes + file->size <= end);
		ck_assert_uint_eq(file->bytes[0], (1 << 3) | 2); /* its name comes first */
		ck_assert_mem_eq(file->bytes + 2, file->name, strlen(file->name));
		ck_assert_ptr_eq(descriptors_find_file(set, file->name), file);
		for (size_t k = 0; k < file->proto->n_dependency; k++)
			ck_assert_ptr_nonnull(
				descriptors_find_file(set, file->proto->dependency[k]));
	}
}
END_TEST

START_TEST(finds_extensions_by_number)
{
	const struct descriptors *set = descriptors_embedded();
	int numbers[1] = {0};

	ck_assert_str_eq(
		descriptors_find_extension(set, ".google.protobuf.MethodOptions", 72295728)->name,
		"google/api/annotations.proto");
	ck_assert_ptr_null(descriptors_find_extension(set, "google.protobuf.MethodOptions", 1));
	ck_assert_int_eq(descriptors_extensions(set, "google.protobuf.MethodOptions", numbers, 1),
			 1);
	ck_assert_int_eq(numbers[0], 72295728);
	ck_assert_int_eq(descriptors_extensions(set, "google.rpc.Status", numbers, 1), 0);
	ck_assert_ptr_nonnull(descriptors_find(set, "google.api.http")->field);
}
END_TEST

START_TEST(refuses_damaged_sets)
{
	unsigned char *copy = malloc(protos_descriptor_set_pb_size);
	struct descriptors *empty = descriptors_parse("", 0);

	ck_assert_ptr_nonnull(empty);
	ck_assert_int_eq(descriptors_files(empty), 0);
	ck_assert_ptr_null(descriptors_find(empty, "google.rpc.Status"));
	descriptors_free(empty);

	ck_assert_ptr_null(descriptors_parse("\x0a", 1));
	ck_assert_ptr_null(descriptors_parse("\x0a\x05"
					     "a",
					     3));
	ck_assert_ptr_null(descriptors_parse("\x12\x00", 2));
	ck_assert_ptr_null(descriptors_parse("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11));
	/* A file without a name. */
	ck_assert_ptr_null(descriptors_parse("\x0a\x00", 2));

	/* Cut anywhere, or with a byte turned over: no crash, whatever it says. */
	for (size_t i = 1; i < protos_descriptor_set_pb_size; i += 97) {
		descriptors_free(descriptors_parse(protos_descriptor_set_pb, i));
		memcpy(copy, protos_descriptor_set_pb, protos_descriptor_set_pb_size);
		copy[i] ^= 0x55;
		descriptors_free(descriptors_parse(copy, protos_descriptor_set_pb_size));
	}
	free(copy);
	descriptors_free(NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("descriptors");
	TCase *tests = tcase_create("descriptors");
	SRunner *runner;
	int failed;

	tcase_add_test(tests, finds_every_kind_of_symbol);
	tcase_add_test(tests, knows_nothing_of_other_names);
	tcase_add_test(tests, keeps_the_bytes_protoc_wrote);
	tcase_add_test(tests, finds_extensions_by_number);
	tcase_add_test(tests, refuses_damaged_sets);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
