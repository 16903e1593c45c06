/* Tables from descriptors: see schema.h.
 *
 *     every message and enum, empty, by name ─► their fields, which point at each other
 */
#include "gateway/schema.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

struct schema {
	const struct descriptors *descriptors;
	struct arena arena;
	struct message_type **messages; /* a hash table by name */
	struct enum_type **enums;
	uint32_t mask; /* of both */
};

/* Handed down while the files are walked. */
struct walk {
	struct schema *schema;
	bool proto3;
	bool fill; /* the second walk */
};

static uint32_t text_hash(const char *text, size_t size)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	return hash ^ (hash >> 15);
}

static bool text_equals(const char *text, size_t size, const char *with, size_t with_size)
{
	return size == with_size && memcmp(text, with, size) == 0;
}

/* --- names
 * ---------------------------------------------------------------------------------------- */

static struct message_type **message_slot(const struct schema *schema, const char *name,
					  size_t size)
{
	uint32_t slot = text_hash(name, size) & schema->mask;

	while (schema->messages[slot] && !text_equals(name, size, schema->messages[slot]->name,
						      strlen(schema->messages[slot]->name)))
		slot = (slot + 1) & schema->mask;
	return &schema->messages[slot];
}

static struct enum_type **enum_slot(const struct schema *schema, const char *name)
{
	uint32_t slot = text_hash(name, strlen(name)) & schema->mask;

	while (schema->enums[slot] && strcmp(schema->enums[slot]->name, name) != 0)
		slot = (slot + 1) & schema->mask;
	return &schema->enums[slot];
}

static const char *without_dot(const char *name)
{
	return *name == '.' ? name + 1 : name;
}

static enum known_type known_of(const char *name)
{
	static const struct {
		const char *name;
		enum known_type known;
	} known[] = {
		{"Timestamp", KNOWN_TIMESTAMP},
		{"Duration", KNOWN_DURATION},
		{"FieldMask", KNOWN_FIELD_MASK},
		{"Struct", KNOWN_STRUCT},
		{"Value", KNOWN_VALUE},
		{"ListValue", KNOWN_LIST_VALUE},
		{"Any", KNOWN_ANY},
		{"DoubleValue", KNOWN_WRAPPER},
		{"FloatValue", KNOWN_WRAPPER},
		{"Int64Value", KNOWN_WRAPPER},
		{"UInt64Value", KNOWN_WRAPPER},
		{"Int32Value", KNOWN_WRAPPER},
		{"UInt32Value", KNOWN_WRAPPER},
		{"BoolValue", KNOWN_WRAPPER},
		{"StringValue", KNOWN_WRAPPER},
		{"BytesValue", KNOWN_WRAPPER},
	};
	static const char package[] = "google.protobuf.";

	if (strncmp(name, package, sizeof(package) - 1) != 0)
		return KNOWN_NONE;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (strcmp(known[i].name, name + sizeof(package) - 1) == 0)
			return known[i].known;
	}
	return KNOWN_NONE;
}

/* --- fields
 * --------------------------------------------------------------------------------------- */

static enum wire_type wire_of(enum field_kind kind)
{
	switch (kind) {
	case FIELD_DOUBLE:
	case FIELD_FIXED64:
	case FIELD_SFIXED64:
		return WIRE_FIXED64;
	case FIELD_FLOAT:
	case FIELD_FIXED32:
	case FIELD_SFIXED32:
		return WIRE_FIXED32;
	case FIELD_STRING:
	case FIELD_BYTES:
	case FIELD_MESSAGE:
		return WIRE_BYTES;
	case FIELD_GROUP:
		return WIRE_GROUP;
	default:
		return WIRE_VARINT;
	}
}

/* What protoc does when json_name is not in the descriptor. */
static char *camel_case(struct arena *arena, const char *name)
{
	char *camel = arena_alloc(arena, strlen(name) + 1), *to = camel;
	bool raise = false;

	for (; *name; name++) {
		if (*name == '_') {
			raise = true;
			continue;
		}
		*to++ = raise && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
		raise = false;
	}
	*to = 0;
	return camel;
}

static bool is_packed(const struct walk *walk, const Google__Protobuf__FieldDescriptorProto *proto,
		      const struct field_type *field)
{
	if (!field->repeated || field->wire == WIRE_BYTES || field->wire == WIRE_GROUP)
		return false;
	if (proto->options && proto->options->has_packed)
		return proto->options->packed;
	return walk->proto3;
}

static void field_fill(struct walk *walk, struct message_type *type, struct field_type *field,
		       const Google__Protobuf__FieldDescriptorProto *proto)
{
	struct arena *arena = &walk->schema->arena;
	const char *type_name = proto->type_name ? without_dot(proto->type_name) : "";
	enum wire_type wire;

	field->name = proto->name;
	field->json_name = proto->json_name ? proto->json_name : camel_case(arena, proto->name);
	field->json_key = arena_printf(arena, "\"%s\":", field->json_name);
	field->name_size = strlen(field->name);
	field->json_name_size = strlen(field->json_name);
	field->json_key_size = strlen(field->json_key);
	field->number = (uint32_t)proto->number;
	field->kind = (enum field_kind)proto->type;
	field->wire = wire_of(field->kind);
	field->repeated =
		proto->label == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
	field->packed = is_packed(walk, proto, field);
	/* A oneof of proto3's optional has one field and is no oneof to the user. */
	field->oneof = proto->has_oneof_index && !proto->proto3_optional ? proto->oneof_index : -1;
	assert(field->oneof < type->oneof_count);
	field->presence = !field->repeated &&
			  (field->kind == FIELD_MESSAGE || !walk->proto3 || proto->has_oneof_index);
	if (field->kind == FIELD_MESSAGE)
		field->message = *message_slot(walk->schema, type_name, strlen(type_name));
	if (field->kind == FIELD_ENUM)
		field->enumeration = *enum_slot(walk->schema, type_name);
	wire = field->packed ? WIRE_BYTES : field->wire;
	field->tag_size =
		(uint8_t)(wire_put_varint(field->tag, (uint64_t)field->number << 3 | wire) -
			  field->tag);
}

static int field_compare(const void *a, const void *b)
{
	const struct field_type *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static void name_put(struct message_type *type, const char *name, size_t size, int index)
{
	uint32_t slot = text_hash(name, size) & type->table_mask;

	while (type->table[slot])
		slot = (slot + 1) & type->table_mask;
	type->table[slot] = (uint16_t)(index + 1);
}

static void names_fill(struct schema *schema, struct message_type *type)
{
	uint32_t room = 4;

	while (room < (uint32_t)type->field_count * 4)
		room *= 2;
	type->table = arena_zalloc(&schema->arena, room * sizeof(*type->table));
	type->table_mask = room - 1;
	for (int i = 0; i < type->field_count; i++) {
		struct field_type *field = &type->fields[i];

		field->index = i;
		name_put(type, field->json_name, field->json_name_size, i);
		if (strcmp(field->name, field->json_name) != 0)
			name_put(type, field->name, field->name_size, i);
	}
}

static void message_fill(struct walk *walk, struct message_type *type,
			 const Google__Protobuf__DescriptorProto *proto)
{
	assert(proto->n_field <= MESSAGE_FIELDS_MAX);
	type->known = known_of(type->name);
	type->oneof_count = (int)proto->n_oneof_decl;
	type->field_count = (int)proto->n_field;
	type->fields = arena_zalloc(&walk->schema->arena,
				    (proto->n_field + 1) * sizeof(struct field_type));
	for (size_t i = 0; i < proto->n_field; i++)
		field_fill(walk, type, &type->fields[i], proto->field[i]);
	qsort(type->fields, proto->n_field, sizeof(struct field_type), field_compare);
	names_fill(walk->schema, type);
}

/* --- walking the files
 * ---------------------------------------------------------------------------- */

static bool is_map_entry(const struct descriptors *descriptors,
			 const Google__Protobuf__FieldDescriptorProto *field)
{
	const struct descriptor_symbol *symbol;

	if (!field->type_name)
		return false;
	symbol = descriptors_find(descriptors, field->type_name);
	return symbol && symbol->message && symbol->message->options &&
	       symbol->message->options->map_entry;
}

/* By number; stable, so that of aliases the first stays first. */
static void values_sort(struct enum_value *values, int count)
{
	for (int i = 1; i < count; i++) {
		struct enum_value value = values[i];
		int at = i;

		for (; at && values[at - 1].number > value.number; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
}

static const char *scoped(struct walk *walk, const char *scope, const char *name)
{
	return *scope ? arena_printf(&walk->schema->arena, "%s.%s", scope, name) : name;
}

static void enum_walk(struct walk *walk, const char *scope,
		      const Google__Protobuf__EnumDescriptorProto *proto)
{
	struct enum_type *type;

	if (walk->fill)
		return;
	type = arena_zalloc(&walk->schema->arena, sizeof(*type));
	type->name = scoped(walk, scope, proto->name);
	type->null_value = strcmp(type->name, "google.protobuf.NullValue") == 0;
	type->count = (int)proto->n_value;
	type->values =
		arena_alloc(&walk->schema->arena, (proto->n_value + 1) * sizeof(struct enum_value));
	for (size_t i = 0; i < proto->n_value; i++)
		type->values[i] =
			(struct enum_value){proto->value[i]->name, strlen(proto->value[i]->name),
					    proto->value[i]->number};
	values_sort(type->values, type->count);
	*enum_slot(walk->schema, type->name) = type;
}

static void message_walk(struct walk *walk, const char *scope,
			 const Google__Protobuf__DescriptorProto *proto)
{
	const char *name = scoped(walk, scope, proto->name);
	struct message_type **slot = message_slot(walk->schema, name, strlen(name));

	if (!walk->fill) {
		*slot = arena_zalloc(&walk->schema->arena, sizeof(**slot));
		(*slot)->name = name;
	} else {
		message_fill(walk, *slot, proto);
		for (size_t i = 0; i < proto->n_field; i++) {
			uint32_t number = (uint32_t)proto->field[i]->number;
			struct field_type *field =
				(struct field_type *)(uintptr_t)message_field_number(*slot, number);

			field->map = is_map_entry(walk->schema->descriptors, proto->field[i]);
		}
	}
	for (size_t i = 0; i < proto->n_enum_type; i++)
		enum_walk(walk, name, proto->enum_type[i]);
	for (size_t i = 0; i < proto->n_nested_type; i++)
		message_walk(walk, name, proto->nested_type[i]);
}

static void files_walk(struct schema *schema, bool fill)
{
	for (int i = 0; i < descriptors_files(schema->descriptors); i++) {
		const Google__Protobuf__FileDescriptorProto *file =
			descriptors_file(schema->descriptors, i)->proto;
		const char *package = file->package ? file->package : "";
		struct walk walk = {schema, file->syntax && strcmp(file->syntax, "proto3") == 0,
				    fill};

		for (size_t k = 0; k < file->n_enum_type; k++)
			enum_walk(&walk, package, file->enum_type[k]);
		for (size_t k = 0; k < file->n_message_type; k++)
			message_walk(&walk, package, file->message_type[k]);
	}
}

/* A generous guess at how many types there are: at least 16 bytes of descriptor for each. */
static uint32_t table_room(const struct descriptors *descriptors)
{
	size_t bytes = 0;
	uint32_t room = 64;

	for (int i = 0; i < descriptors_files(descriptors); i++)
		bytes += descriptors_file(descriptors, i)->size;
	while (room < bytes / 16)
		room *= 2;
	return room;
}

/* --- what others call
 * ----------------------------------------------------------------------------- */

struct schema *schema_create(const struct descriptors *descriptors)
{
	struct schema *schema = calloc(1, sizeof(*schema));
	uint32_t room = table_room(descriptors);

	assert(schema);
	schema->descriptors = descriptors;
	arena_init(&schema->arena, NULL, 0);
	schema->messages = arena_zalloc(&schema->arena, room * sizeof(struct message_type *));
	schema->enums = arena_zalloc(&schema->arena, room * sizeof(struct enum_type *));
	schema->mask = room - 1;
	files_walk(schema, false);
	files_walk(schema, true);
	return schema;
}

void schema_destroy(struct schema *schema)
{
	if (!schema)
		return;
	arena_reset(&schema->arena);
	free(schema);
}

const struct descriptors *schema_descriptors(const struct schema *schema)
{
	return schema->descriptors;
}

const struct message_type *schema_message(const struct schema *schema, const char *name)
{
	name = without_dot(name);
	return *message_slot(schema, name, strlen(name));
}

const struct message_type *schema_message_sized(const struct schema *schema, const char *name,
						size_t size)
{
	return *message_slot(schema, name, size);
}

const struct field_type *message_field(const struct message_type *type, const char *name,
				       size_t size)
{
	uint32_t slot = text_hash(name, size) & type->table_mask;
	uint16_t index;

	for (; (index = type->table[slot]); slot = (slot + 1) & type->table_mask) {
		const struct field_type *field = &type->fields[index - 1];

		if (text_equals(name, size, field->json_name, field->json_name_size) ||
		    text_equals(name, size, field->name, field->name_size))
			return field;
	}
	return NULL;
}

const struct field_type *message_field_number(const struct message_type *type, uint32_t number)
{
	int low = 0, high = type->field_count;

	/* Most messages number their fields 1, 2, 3 … */
	if (number - 1 < (uint32_t)high && type->fields[number - 1].number == number)
		return &type->fields[number - 1];
	while (low < high) {
		int middle = (low + high) / 2;

		if (type->fields[middle].number == number)
			return &type->fields[middle];
		if (type->fields[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct enum_value *enum_by_name(const struct enum_type *type, const char *name, size_t size)
{
	for (int i = 0; i < type->count; i++) {
		if (text_equals(name, size, type->values[i].name, type->values[i].name_size))
			return &type->values[i];
	}
	return NULL;
}

const struct enum_value *enum_by_number(const struct enum_type *type, int32_t number)
{
	if (number >= 0 && number < type->count && type->values[number].number == number &&
	    (!number || type->values[number - 1].number != number))
		return &type->values[number];
	for (int i = 0; i < type->count; i++) {
		if (type->values[i].number == number)
			return &type->values[i];
	}
	return NULL;
}
