/* Message types as the transcoder wants them: made once from the descriptors, read in every
 * request.
 *
 * Fields are found by either spelling of their name through a small hash table, and by number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/wire.h"
#include "runtime/descriptors.h"

struct schema;

/* Types whose JSON is their own. */
enum known_type {
	KNOWN_NONE = 0,
	KNOWN_TIMESTAMP,
	KNOWN_DURATION,
	KNOWN_FIELD_MASK,
	KNOWN_STRUCT,
	KNOWN_VALUE,
	KNOWN_LIST_VALUE,
	KNOWN_ANY,
	KNOWN_WRAPPER, /* Int64Value and the like: field 1 */
};

#define MESSAGE_FIELDS_MAX 256

/* Protobuf's numbers for the types of fields. */
enum field_kind {
	FIELD_DOUBLE = 1,
	FIELD_FLOAT,
	FIELD_INT64,
	FIELD_UINT64,
	FIELD_INT32,
	FIELD_FIXED64,
	FIELD_FIXED32,
	FIELD_BOOL,
	FIELD_STRING,
	FIELD_GROUP, /* known to exist, and refused */
	FIELD_MESSAGE,
	FIELD_BYTES,
	FIELD_UINT32,
	FIELD_ENUM,
	FIELD_SFIXED32,
	FIELD_SFIXED64,
	FIELD_SINT32,
	FIELD_SINT64,
};

struct field_type {
	const char *name;      /* as in the proto: starts_at */
	const char *json_name; /* startsAt */
	const char *json_key;  /* "startsAt": */
	size_t name_size, json_name_size, json_key_size;
	uint32_t number;
	enum field_kind kind;
	enum wire_type wire; /* of one element */
	bool repeated, packed, map;
	bool presence;		  /* unset differs from the default: messages, oneofs, optional */
	int index;		  /* in the message's fields */
	int oneof;		  /* in the message, -1: none */
	uint8_t tag[5], tag_size; /* as written; length-delimited when packed */
	const struct message_type *message;
	const struct enum_type *enumeration;
};

struct message_type {
	const char *name; /* full, no leading dot */
	enum known_type known;
	struct field_type *fields; /* by number */
	int field_count, oneof_count;
	uint16_t *table; /* field index + 1, by name */
	uint32_t table_mask;
};

struct enum_value {
	const char *name;
	size_t name_size;
	int32_t number;
};

struct enum_type {
	const char *name;
	bool null_value;	   /* google.protobuf.NullValue */
	struct enum_value *values; /* by number */
	int count;
};

/* The descriptors must outlive it. */
struct schema *schema_create(const struct descriptors *descriptors);
void schema_destroy(struct schema *schema);
const struct descriptors *schema_descriptors(const struct schema *schema);

/* NULL when there is none; with or without a leading dot. */
const struct message_type *schema_message(const struct schema *schema, const char *name);
const struct message_type *schema_message_sized(const struct schema *schema, const char *name,
						size_t size);

/* By either spelling; NULL when there is none. */
const struct field_type *message_field(const struct message_type *type, const char *name,
				       size_t size);
const struct field_type *message_field_number(const struct message_type *type, uint32_t number);

const struct enum_value *enum_by_name(const struct enum_type *type, const char *name, size_t size);
/* Of aliases the first. */
const struct enum_value *enum_by_number(const struct enum_type *type, int32_t number);
