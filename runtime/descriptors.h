/* The FileDescriptorSet built from protos/, indexed: what protobuf-c's descriptors lack.
 *
 * Files are kept as the raw bytes protoc wrote, sliced and never re-encoded, beside their decoded
 * form.
 */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/status.h"

struct descriptors;

struct descriptor_file {
	const char *name;
	const uint8_t *bytes; /* a serialized FileDescriptorProto */
	size_t size;
	const Google__Protobuf__FileDescriptorProto *proto;
};

/* What a symbol names; the matching pointer is set, others NULL (all of them for values and
 * oneofs). */
struct descriptor_symbol {
	const char *name; /* fully qualified, no leading dot */
	const struct descriptor_file *file;
	const Google__Protobuf__DescriptorProto *message;
	const Google__Protobuf__EnumDescriptorProto *enumeration;
	const Google__Protobuf__ServiceDescriptorProto *service;
	const Google__Protobuf__MethodDescriptorProto *method;
	const Google__Protobuf__FieldDescriptorProto *field;
};

/* The set embedded in this binary; made at first use, never freed, read-only. */
const struct descriptors *descriptors_embedded(void);
/* From bytes, which must outlive it; NULL when they are not a FileDescriptorSet. */
struct descriptors *descriptors_parse(const void *bytes, size_t size);
void descriptors_free(struct descriptors *descriptors);

int descriptors_files(const struct descriptors *descriptors);
const struct descriptor_file *descriptors_file(const struct descriptors *descriptors, int index);
/* NULL when there is none. */
const struct descriptor_file *descriptors_find_file(const struct descriptors *descriptors,
						    const char *name);
/* Messages (nested too), fields, enums, values, services, methods and extensions; with or without a
 * leading dot. NULL when there is none. */
const struct descriptor_symbol *descriptors_find(const struct descriptors *descriptors,
						 const char *name);
/* The file that extends `extendee` by field `number`, or NULL. */
const struct descriptor_file *descriptors_find_extension(const struct descriptors *descriptors,
							 const char *extendee, int number);
/* The numbers of `extendee`'s extensions; at most `max`; returns how many there are. */
int descriptors_extensions(const struct descriptors *descriptors, const char *extendee,
			   int *ret_numbers, int max);
