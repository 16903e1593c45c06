/* Messages between gRPC's byte buffers and protobuf-c, and the check protobuf-c leaves out: strings
 * must be valid UTF-8.
 */
#include <assert.h>
#include <grpc/byte_buffer_reader.h>
#include <string.h>

#include "runtime/call_internal.h"
#include "runtime/channel.h"
#include "runtime/utf8.h"

#define DEPTH_MAX 32

static const char *check(struct arena *arena, const ProtobufCMessage *message, int depth);

static const char *check_value(struct arena *arena, const ProtobufCFieldDescriptor *field,
			       const void *value, int depth)
{
	const char *below;

	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(char *const *)value;

		return text && !utf8_valid(text, strlen(text)) ? field->name : NULL;
	}
	if (!*(ProtobufCMessage *const *)value)
		return NULL;
	if (depth >= DEPTH_MAX)
		return field->name;
	below = check(arena, *(ProtobufCMessage *const *)value, depth + 1);
	return below ? arena_printf(arena, "%s.%s", field->name, below) : NULL;
}

static const char *check_field(struct arena *arena, const ProtobufCMessage *message,
			       const ProtobufCFieldDescriptor *field, int depth)
{
	const char *base = (const char *)message, *wrong;
	const void *member = base + field->offset;
	size_t count;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
		    *(const uint32_t *)(base + field->quantifier_offset) != field->id)
			return NULL;
		return check_value(arena, field, member, depth);
	}
	count = *(const size_t *)(base + field->quantifier_offset);
	for (size_t i = 0; i < count; i++) {
		wrong = check_value(arena, field, *(const char *const *)member + i * sizeof(void *),
				    depth);
		if (wrong)
			return arena_printf(arena, "%s[%zu]%s", field->name, i,
					    wrong + strlen(field->name));
	}
	return NULL;
}

static const char *check(struct arena *arena, const ProtobufCMessage *message, int depth)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	const char *wrong;

	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		wrong = check_field(arena, message, field, depth);
		if (wrong)
			return wrong;
	}
	return NULL;
}

const char *message_check(struct arena *arena, const ProtobufCMessage *message)
{
	return check(arena, message, 0);
}

static enum status decode_bytes(struct arena *arena, const ProtobufCMessageDescriptor *type,
				grpc_slice bytes, const void **ret_message,
				const char **reterr_field)
{
	ProtobufCMessage *message =
		protobuf_c_message_unpack(type, arena_allocator(arena), GRPC_SLICE_LENGTH(bytes),
					  GRPC_SLICE_START_PTR(bytes));
	const char *wrong;

	if (!message) {
		*reterr_field = "";
		return STATUS_INVALID_ARGUMENT;
	}
	wrong = message_check(arena, message);
	if (wrong) {
		*reterr_field = wrong;
		return STATUS_INVALID_ARGUMENT;
	}
	*ret_message = message;
	return STATUS_OK;
}

enum status message_decode(struct arena *arena, const ProtobufCMessageDescriptor *type,
			   grpc_byte_buffer *buffer, size_t size_max, const void **ret_message,
			   const char **reterr_field)
{
	size_t size = grpc_byte_buffer_length(buffer);
	grpc_byte_buffer_reader reader;
	enum status status;
	grpc_slice *first;

	*reterr_field = "";
	if (size > size_max)
		return STATUS_RESOURCE_EXHAUSTED;
	if (!size)
		return decode_bytes(arena, type, grpc_empty_slice(), ret_message, reterr_field);
	if (!grpc_byte_buffer_reader_init(&reader, buffer))
		return STATUS_INVALID_ARGUMENT;
	if (grpc_byte_buffer_reader_peek(&reader, &first) && GRPC_SLICE_LENGTH(*first) == size) {
		status = decode_bytes(arena, type, *first, ret_message, reterr_field);
	} else {
		grpc_slice whole;

		grpc_byte_buffer_reader_destroy(&reader);
		if (!grpc_byte_buffer_reader_init(&reader, buffer))
			return STATUS_INVALID_ARGUMENT;
		whole = grpc_byte_buffer_reader_readall(&reader);
		status = decode_bytes(arena, type, whole, ret_message, reterr_field);
		grpc_slice_unref(whole);
	}
	grpc_byte_buffer_reader_destroy(&reader);
	return status;
}

grpc_slice rpc_pack(const void *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	grpc_slice slice = grpc_slice_malloc(size);
	size_t packed = protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));

	assert(packed == size);
	return slice;
}

grpc_byte_buffer *message_encode(const ProtobufCMessage *message)
{
	grpc_slice slice = rpc_pack(message);
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return buffer;
}
