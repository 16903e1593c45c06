/* Reflection as its clients use it, in both versions: a real process is asked. */
#include <check.h>
#include <google/protobuf/descriptor.pb-c.h>
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

static const struct {
	const char *path;
	const ProtobufCMessageDescriptor *request, *response;
} versions[] = {
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	 &grpc__reflection__v1__server_reflection_request__descriptor,
	 &grpc__reflection__v1__server_reflection_response__descriptor},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	 &grpc__reflection__v1alpha__server_reflection_request__descriptor,
	 &grpc__reflection__v1alpha__server_reflection_response__descriptor},
};

static struct service_process *process;
static struct rpc_client *client;
static struct asking *asking;

static void set_up(void)
{
	process = service_process_start(
		TRIVIAL_BINARY, (const char *const[]){"STAMPEDE_TRIVIAL_SECRET=hush", NULL}, false);
	client = rpc_client_create(service_process_target(process));
}

static void tear_down(void)
{
	asking_free(asking);
	asking = NULL;
	rpc_client_free(client);
	service_process_free(process);
	rpc_client_end();
}

/* One question on a stream of its own; v1's types stand for both, as their layout is the same. */
static const Grpc__Reflection__V1__ServerReflectionResponse *
answer_to(int version, Grpc__Reflection__V1__ServerReflectionRequest *request)
{
	const Grpc__Reflection__V1__ServerReflectionResponse *response;

	asking_free(asking);
	request->base.descriptor = versions[version].request;
	request->host = (char *)"me";
	asking = rpc_client_ask(client, versions[version].path, request, 5000);
	response = asking_wait(asking, versions[version].response);
	ck_assert_msg(response, "%s", asking_message(asking));
	ck_assert_str_eq(response->valid_host, "me");
	ck_assert_ptr_nonnull(response->original_request);
	return response;
}

static const Grpc__Reflection__V1__ServerReflectionResponse *asked(int version, int what,
								   const char *text)
{
	Grpc__Reflection__V1__ServerReflectionRequest request =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;

	request.message_request_case =
		(Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)what;
	request.list_services = (char *)text;
	return answer_to(version, &request);
}

#define BY_NAME GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME
#define BY_SYMBOL                                                                                  \
	GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL
#define NUMBERS                                                                                    \
	GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE
#define LIST GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES
#define FILES                                                                                      \
	GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE
#define ERROR GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE

/* The name of the first file, once all have been found to be files, each there once. */
static const char *files_checked(const Grpc__Reflection__V1__ServerReflectionResponse *response)
{
	static char names[32][128];
	size_t count;

	ck_assert_int_eq((int)response->message_response_case, (int)FILES);
	count = response->file_descriptor_response->n_file_descriptor_proto;
	ck_assert_uint_ge(count, 1);
	ck_assert_uint_le(count, 32);
	for (size_t i = 0; i < count; i++) {
		ProtobufCBinaryData *bytes =
			&response->file_descriptor_response->file_descriptor_proto[i];
		Google__Protobuf__FileDescriptorProto *file =
			google__protobuf__file_descriptor_proto__unpack(NULL, bytes->len,
									bytes->data);

		ck_assert_ptr_nonnull(file);
		ck_assert_uint_lt(strlen(file->name), sizeof(names[i]));
		strcpy(names[i], file->name);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(names[k], names[i]);
		google__protobuf__file_descriptor_proto__free_unpacked(file, NULL);
	}
	return names[0];
}

START_TEST(lists_health_and_itself)
{
	const Grpc__Reflection__V1__ServerReflectionResponse *response = asked(_i, LIST, "");
	const Grpc__Reflection__V1__ListServiceResponse *list = response->list_services_response;
	int known = 0;

	for (size_t i = 0; i < list->n_service; i++)
		known +=
			!strcmp(list->service[i]->name, "grpc.health.v1.Health") ||
			!strcmp(list->service[i]->name, "grpc.reflection.v1.ServerReflection") ||
			!strcmp(list->service[i]->name, "grpc.reflection.v1alpha.ServerReflection");
	ck_assert_int_eq(known, 3);
}
END_TEST

START_TEST(gives_the_file_asked_for_first_then_its_imports)
{
	const Grpc__Reflection__V1__ServerReflectionResponse *response =
		asked(_i, BY_SYMBOL, "stampede.events.v1.OrderChanged");

	ck_assert_str_eq(files_checked(response), "stampede/events/v1/events.proto");
	ck_assert_uint_gt(response->file_descriptor_response->n_file_descriptor_proto, 3);
	ck_assert_str_eq(files_checked(asked(_i, BY_NAME, "google/rpc/status.proto")),
			 "google/rpc/status.proto");
	ck_assert_str_eq(files_checked(asked(_i, BY_SYMBOL, "grpc.health.v1.Health.Check")),
			 "grpc/health/v1/health.proto");
}
END_TEST

START_TEST(finds_the_extension_that_routes_are_written_with)
{
	Grpc__Reflection__V1__ServerReflectionRequest request =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
	Grpc__Reflection__V1__ExtensionRequest extension =
		GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
	const Grpc__Reflection__V1__ServerReflectionResponse *response;

	extension.containing_type = (char *)"google.protobuf.MethodOptions";
	extension.extension_number = 72295728;
	request.message_request_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION;
	request.file_containing_extension = &extension;
	ck_assert_str_eq(files_checked(answer_to(_i, &request)), "google/api/annotations.proto");

	response = asked(_i, NUMBERS, "google.protobuf.MethodOptions");
	ck_assert_uint_eq(response->all_extension_numbers_response->n_extension_number, 1);
	ck_assert_int_eq(response->all_extension_numbers_response->extension_number[0], 72295728);
}
END_TEST

START_TEST(says_what_it_does_not_know_and_goes_on)
{
	char name[1000];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	ck_assert_int_eq(asked(_i, BY_SYMBOL, "no.Such")->error_response->error_code,
			 STATUS_NOT_FOUND);
	ck_assert_int_eq(asked(_i, BY_NAME, "no.proto")->error_response->error_code,
			 STATUS_NOT_FOUND);
	ck_assert_int_eq(asked(_i, NUMBERS, name)->error_response->error_code, STATUS_NOT_FOUND);
	ck_assert_int_eq(asked(_i, 0, NULL)->error_response->error_code, STATUS_UNIMPLEMENTED);
	ck_assert_int_eq((int)asked(_i, BY_SYMBOL, "")->message_response_case, (int)ERROR);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reflection");
	TCase *tests = tcase_create("reflection");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 30);
	tcase_add_loop_test(tests, lists_health_and_itself, 0, 2);
	tcase_add_loop_test(tests, gives_the_file_asked_for_first_then_its_imports, 0, 2);
	tcase_add_loop_test(tests, finds_the_extension_that_routes_are_written_with, 0, 2);
	tcase_add_loop_test(tests, says_what_it_does_not_know_and_goes_on, 0, 2);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
