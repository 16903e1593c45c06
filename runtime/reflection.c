/* gRPC server reflection: the embedded files, handed to whoever asks by name.
 *
 *     begin ──► received ──► sent ──► received … half-closed: finish
 *
 * Each request gets one answer, in order. What is not found is an error answer inside a stream that
 * goes on. v1 and v1alpha are the same on the wire and, but for the prefix, in C: one codec serves
 * both. What can be made beforehand (each file with its imports, the list of services) is made
 * once, so that a stream needs no memory however long it lasts.
 */
#include "runtime/reflection.h"

#include <assert.h>
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/descriptors.h"

#define EXTENSIONS_MAX 64
#define NAME_SHOWN_MAX 200

_Static_assert(sizeof(Grpc__Reflection__V1__ServerReflectionRequest) ==
			       sizeof(Grpc__Reflection__V1alpha__ServerReflectionRequest) &&
		       offsetof(Grpc__Reflection__V1__ServerReflectionRequest, list_services) ==
			       offsetof(Grpc__Reflection__V1alpha__ServerReflectionRequest,
					list_services) &&
		       sizeof(Grpc__Reflection__V1__ServerReflectionResponse) ==
			       sizeof(Grpc__Reflection__V1alpha__ServerReflectionResponse) &&
		       offsetof(Grpc__Reflection__V1__ServerReflectionResponse, error_response) ==
			       offsetof(Grpc__Reflection__V1alpha__ServerReflectionResponse,
					error_response),
	       "v1 and v1alpha have the same layout");

/* A file and all it imports, the file itself first. */
struct closure {
	ProtobufCBinaryData *files;
	size_t count;
};

struct version {
	struct reflection *reflection;
	const ProtobufCMessageDescriptor *response_type;
	struct service service;
};

struct reflection {
	const struct descriptors *descriptors;
	struct arena arena;
	struct closure *closures; /* in the order of descriptors_file() */
	Grpc__Reflection__V1__ListServiceResponse list;
	struct version v1, v1alpha;
};

/* One answer; lives in the frame, since it is packed when it is sent. */
struct answer {
	Grpc__Reflection__V1__ServerReflectionResponse response;
	Grpc__Reflection__V1__FileDescriptorResponse files;
	Grpc__Reflection__V1__ExtensionNumberResponse numbers;
	Grpc__Reflection__V1__ErrorResponse error;
	int extensions[EXTENSIONS_MAX];
	char text[NAME_SHOWN_MAX + 100];
};

static enum step reflection_begin(struct call *call);
static enum step reflection_received(struct call *call, enum status status);
static enum step reflection_sent(struct call *call, enum status status);
static void request_answer(struct reflection *reflection,
			   const Grpc__Reflection__V1__ServerReflectionRequest *asked,
			   struct answer *answer);

static const struct method info_method = {
	.name = "ServerReflectionInfo",
	.begin = reflection_begin,
	.frame_size = sizeof(struct answer),
	.request_max = 4096,
	.deadline_default_ms = 3600000,
};
static const struct method *const methods[] = {&info_method, NULL};

static enum step reflection_begin(struct call *call)
{
	return call_receive(call, reflection_received);
}

static enum step reflection_received(struct call *call, enum status status)
{
	struct version *version = call_service(call);
	struct answer *answer = call_frame(call);

	if (status == STATUS_OUT_OF_RANGE)
		return call_finish(call);
	if (status != STATUS_OK)
		return call_fail(call, status, "the reflection stream has ended");

	request_answer(version->reflection, call_request(call), answer);
	answer->response.base.descriptor = version->response_type;
	return call_send(call, &answer->response, reflection_sent);
}

static enum step reflection_sent(struct call *call, enum status status)
{
	if (status != STATUS_OK)
		return call_fail(call, status, "the reflection stream has ended");
	return call_receive(call, reflection_received);
}

/* --- one answer
 * ----------------------------------------------------------------------------------- */

static void answer_error(struct answer *answer, enum status status, const char *what,
			 const char *name)
{
	/* A long name is left out, not cut: cutting might leave half a character. */
	if (!name)
		snprintf(answer->text, sizeof(answer->text), "%s", what);
	else if (strlen(name) > NAME_SHOWN_MAX)
		snprintf(answer->text, sizeof(answer->text), "%s not found", what);
	else
		snprintf(answer->text, sizeof(answer->text), "%s '%s' not found", what, name);
	answer->error =
		(Grpc__Reflection__V1__ErrorResponse)GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
	answer->error.error_code = (int32_t)status;
	answer->error.error_message = answer->text;
	answer->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	answer->response.error_response = &answer->error;
}

static void answer_file(struct reflection *reflection, struct answer *answer,
			const struct descriptor_file *file, const char *what, const char *name)
{
	const struct closure *closure;

	if (!file) {
		answer_error(answer, STATUS_NOT_FOUND, what, name);
		return;
	}
	closure = &reflection->closures[file - descriptors_file(reflection->descriptors, 0)];
	answer->files = (Grpc__Reflection__V1__FileDescriptorResponse)
		GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
	answer->files.n_file_descriptor_proto = closure->count;
	answer->files.file_descriptor_proto = closure->files;
	answer->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	answer->response.file_descriptor_response = &answer->files;
}

static void answer_numbers(struct reflection *reflection, struct answer *answer, char *type)
{
	const struct descriptor_symbol *symbol = descriptors_find(reflection->descriptors, type);
	int count;

	if (!symbol || !symbol->message) {
		answer_error(answer, STATUS_NOT_FOUND, "type", type);
		return;
	}
	count = descriptors_extensions(reflection->descriptors, type, answer->extensions,
				       EXTENSIONS_MAX);
	answer->numbers = (Grpc__Reflection__V1__ExtensionNumberResponse)
		GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
	answer->numbers.base_type_name = type;
	answer->numbers.extension_number = answer->extensions;
	answer->numbers.n_extension_number =
		(size_t)(count < EXTENSIONS_MAX ? count : EXTENSIONS_MAX);
	answer->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
	answer->response.all_extension_numbers_response = &answer->numbers;
}

static void answer_list(struct reflection *reflection, struct answer *answer)
{
	answer->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	answer->response.list_services_response = &reflection->list;
}

static const struct descriptor_file *file_of_symbol(struct reflection *reflection, const char *name)
{
	const struct descriptor_symbol *symbol = descriptors_find(reflection->descriptors, name);

	return symbol ? symbol->file : NULL;
}

static void request_answer(struct reflection *reflection,
			   const Grpc__Reflection__V1__ServerReflectionRequest *asked,
			   struct answer *answer)
{
	const struct descriptors *set = reflection->descriptors;

	answer->response = (Grpc__Reflection__V1__ServerReflectionResponse)
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	answer->response.valid_host = asked->host;
	answer->response.original_request = (Grpc__Reflection__V1__ServerReflectionRequest *)asked;
	switch ((int)asked->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		answer_file(reflection, answer, descriptors_find_file(set, asked->file_by_filename),
			    "file", asked->file_by_filename);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		answer_file(reflection, answer,
			    file_of_symbol(reflection, asked->file_containing_symbol), "symbol",
			    asked->file_containing_symbol);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
		answer_file(reflection, answer,
			    descriptors_find_extension(
				    set, asked->file_containing_extension->containing_type,
				    asked->file_containing_extension->extension_number),
			    "extension of", asked->file_containing_extension->containing_type);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
		answer_numbers(reflection, answer, asked->all_extension_numbers_of_type);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		answer_list(reflection, answer);
		break;
	default:
		answer_error(answer, STATUS_UNIMPLEMENTED, "the request asks for nothing known",
			     NULL);
	}
}

/* --- made once
 * ------------------------------------------------------------------------------------ */

static void closure_add(const struct descriptors *set, const struct descriptor_file *file,
			struct closure *closure, bool *seen)
{
	int index = (int)(file - descriptors_file(set, 0));

	if (seen[index])
		return;
	seen[index] = true;
	closure->files[closure->count++] =
		(ProtobufCBinaryData){file->size, (uint8_t *)(uintptr_t)file->bytes};
	for (size_t i = 0; i < file->proto->n_dependency; i++) {
		const struct descriptor_file *import =
			descriptors_find_file(set, file->proto->dependency[i]);

		if (import)
			closure_add(set, import, closure, seen);
	}
}

static void closures_make(struct reflection *reflection)
{
	int count = descriptors_files(reflection->descriptors);
	bool *seen = arena_alloc(&reflection->arena, (size_t)count + 1);

	reflection->closures =
		arena_zalloc(&reflection->arena, ((size_t)count + 1) * sizeof(struct closure));
	for (int i = 0; i < count; i++) {
		struct closure *closure = &reflection->closures[i];

		memset(seen, 0, (size_t)count);
		closure->files = arena_alloc(&reflection->arena,
					     (size_t)count * sizeof(ProtobufCBinaryData));
		closure_add(reflection->descriptors, descriptors_file(reflection->descriptors, i),
			    closure, seen);
	}
}

static void list_add(struct reflection *reflection, const char *name)
{
	Grpc__Reflection__V1__ListServiceResponse *list = &reflection->list;
	Grpc__Reflection__V1__ServiceResponse *service;

	for (size_t i = 0; i < list->n_service; i++) {
		if (strcmp(list->service[i]->name, name) == 0)
			return;
	}
	service = arena_alloc(&reflection->arena, sizeof(*service));
	*service =
		(Grpc__Reflection__V1__ServiceResponse)GRPC__REFLECTION__V1__SERVICE_RESPONSE__INIT;
	service->name = arena_strdup(&reflection->arena, name);
	list->service[list->n_service++] = service;
}

static void list_make(struct reflection *reflection, const char *const *services, int count)
{
	static const char *const own[] = {"grpc.health.v1.Health",
					  "grpc.reflection.v1.ServerReflection",
					  "grpc.reflection.v1alpha.ServerReflection"};
	const size_t own_count = sizeof(own) / sizeof(*own);

	reflection->list = (Grpc__Reflection__V1__ListServiceResponse)
		GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
	reflection->list.service = arena_alloc(
		&reflection->arena,
		((size_t)count + own_count) * sizeof(Grpc__Reflection__V1__ServiceResponse *));
	for (int i = 0; i < count; i++)
		list_add(reflection, services[i]);
	for (size_t i = 0; i < own_count; i++)
		list_add(reflection, own[i]);
}

static void version_make(struct reflection *reflection, struct version *version,
			 const ProtobufCServiceDescriptor *service,
			 const ProtobufCMessageDescriptor *response_type)
{
	version->reflection = reflection;
	version->response_type = response_type;
	version->service = (struct service){service, methods, version};
}

struct reflection *reflection_create(const struct descriptors *descriptors,
				     const char *const *services, int count)
{
	struct reflection *reflection = calloc(1, sizeof(*reflection));

	assert(reflection);
	reflection->descriptors = descriptors;
	arena_init(&reflection->arena, NULL, 0);
	closures_make(reflection);
	list_make(reflection, services, count);
	version_make(reflection, &reflection->v1,
		     &grpc__reflection__v1__server_reflection__descriptor,
		     &grpc__reflection__v1__server_reflection_response__descriptor);
	version_make(reflection, &reflection->v1alpha,
		     &grpc__reflection__v1alpha__server_reflection__descriptor,
		     &grpc__reflection__v1alpha__server_reflection_response__descriptor);
	return reflection;
}

void reflection_destroy(struct reflection *reflection)
{
	if (!reflection)
		return;
	arena_reset(&reflection->arena);
	free(reflection);
}

const struct service *reflection_service_v1(struct reflection *reflection)
{
	return &reflection->v1.service;
}

const struct service *reflection_service_v1alpha(struct reflection *reflection)
{
	return &reflection->v1alpha.service;
}
