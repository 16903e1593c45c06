/* The embedded FileDescriptorSet, indexed.
 *
 *     bytes ─► files, sliced raw and decoded ─► symbols and extensions, gathered ─► hash table of
 * names
 *
 * Everything is made once and only read afterwards. Names point into the decoded files or into the
 * arena. Bytes that are not a FileDescriptorSet give NULL.
 */
#include "runtime/descriptors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "embed/protos.h"
#include "runtime/arena.h"

#define NESTING_MAX 32

struct extension {
	const char *extendee; /* no leading dot */
	int number;
	const struct descriptor_file *file;
};

struct descriptors {
	struct arena arena;
	struct descriptor_file *files;
	int file_count;
	struct descriptor_symbol *symbols;
	size_t symbol_count, symbol_room;
	struct extension *extensions;
	size_t extension_count, extension_room;
	uint32_t *table; /* symbol index + 1; 0: free */
	uint32_t table_mask;
};

static const char *without_dot(const char *name)
{
	return *name == '.' ? name + 1 : name;
}

static uint32_t name_hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

/* --- slicing the files --------------------------------------------------------------------------
 */

static bool varint_read(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

/* The next file of the set: field 1, length-delimited; a set has no other. */
static bool file_slice(const uint8_t **at, const uint8_t *end, const uint8_t **ret_bytes,
		       size_t *ret_size)
{
	uint64_t tag, size;

	if (!varint_read(at, end, &tag) || tag != ((1 << 3) | 2) || !varint_read(at, end, &size) ||
	    size > (uint64_t)(end - *at))
		return false;
	*ret_bytes = *at;
	*ret_size = (size_t)size;
	*at += size;
	return true;
}

static int files_count(const uint8_t *at, const uint8_t *end)
{
	const uint8_t *bytes;
	size_t size;
	int count = 0;

	for (; at < end; count++) {
		if (!file_slice(&at, end, &bytes, &size))
			return -1;
	}
	return count;
}

static bool files_decode(struct descriptors *descriptors, const uint8_t *at, const uint8_t *end)
{
	int count = files_count(at, end);

	if (count < 0)
		return false;
	descriptors->files = arena_zalloc(&descriptors->arena,
					  ((size_t)count + 1) * sizeof(struct descriptor_file));
	for (; descriptors->file_count < count; descriptors->file_count++) {
		struct descriptor_file *file = &descriptors->files[descriptors->file_count];

		if (!file_slice(&at, end, &file->bytes, &file->size))
			return false;
		file->proto = google__protobuf__file_descriptor_proto__unpack(
			arena_allocator(&descriptors->arena), file->size, file->bytes);
		if (!file->proto || !file->proto->name)
			return false;
		file->name = file->proto->name;
	}
	return true;
}

/* --- gathering the symbols
 * ------------------------------------------------------------------------ */

static void *array_grow(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 256;
	array = realloc(array, *room * size);
	assert(array);
	return array;
}

/* The symbol's name is returned: the scope of what it contains. */
static const char *symbol_add(struct descriptors *descriptors, const char *scope, const char *name,
			      struct descriptor_symbol symbol)
{
	if (!name)
		name = "";
	symbol.name = *scope ? arena_printf(&descriptors->arena, "%s.%s", scope, name) : name;
	descriptors->symbols = array_grow(descriptors->symbols, descriptors->symbol_count,
					  &descriptors->symbol_room, sizeof(symbol));
	descriptors->symbols[descriptors->symbol_count++] = symbol;
	return symbol.name;
}

static void extensions_gather(struct descriptors *descriptors, const struct descriptor_file *file,
			      const char *scope, size_t count,
			      Google__Protobuf__FieldDescriptorProto *const *fields)
{
	for (size_t i = 0; i < count; i++) {
		symbol_add(descriptors, scope, fields[i]->name,
			   (struct descriptor_symbol){.file = file, .field = fields[i]});
		if (!fields[i]->extendee)
			continue;
		descriptors->extensions =
			array_grow(descriptors->extensions, descriptors->extension_count,
				   &descriptors->extension_room, sizeof(struct extension));
		descriptors->extensions[descriptors->extension_count++] = (struct extension){
			without_dot(fields[i]->extendee), fields[i]->number, file};
	}
}

/* Values stand beside their enum, not inside it: protobuf follows C++ there. */
static void enum_gather(struct descriptors *descriptors, const struct descriptor_file *file,
			const char *scope, const Google__Protobuf__EnumDescriptorProto *enumeration)
{
	symbol_add(descriptors, scope, enumeration->name,
		   (struct descriptor_symbol){.file = file, .enumeration = enumeration});
	for (size_t i = 0; i < enumeration->n_value; i++)
		symbol_add(descriptors, scope, enumeration->value[i]->name,
			   (struct descriptor_symbol){.file = file});
}

static void message_gather(struct descriptors *descriptors, const struct descriptor_file *file,
			   const char *scope, const Google__Protobuf__DescriptorProto *message,
			   int depth)
{
	const char *name = symbol_add(descriptors, scope, message->name,
				      (struct descriptor_symbol){.file = file, .message = message});

	for (size_t i = 0; i < message->n_field; i++)
		symbol_add(descriptors, name, message->field[i]->name,
			   (struct descriptor_symbol){.file = file, .field = message->field[i]});
	for (size_t i = 0; i < message->n_oneof_decl; i++)
		symbol_add(descriptors, name, message->oneof_decl[i]->name,
			   (struct descriptor_symbol){.file = file});
	for (size_t i = 0; i < message->n_enum_type; i++)
		enum_gather(descriptors, file, name, message->enum_type[i]);
	extensions_gather(descriptors, file, name, message->n_extension, message->extension);
	for (size_t i = 0; i < message->n_nested_type && depth < NESTING_MAX; i++)
		message_gather(descriptors, file, name, message->nested_type[i], depth + 1);
}

static void service_gather(struct descriptors *descriptors, const struct descriptor_file *file,
			   const char *scope,
			   const Google__Protobuf__ServiceDescriptorProto *service)
{
	const char *name = symbol_add(descriptors, scope, service->name,
				      (struct descriptor_symbol){.file = file, .service = service});

	for (size_t i = 0; i < service->n_method; i++)
		symbol_add(descriptors, name, service->method[i]->name,
			   (struct descriptor_symbol){.file = file, .method = service->method[i]});
}

static void file_gather(struct descriptors *descriptors, const struct descriptor_file *file)
{
	const Google__Protobuf__FileDescriptorProto *proto = file->proto;
	const char *package = proto->package ? proto->package : "";

	for (size_t i = 0; i < proto->n_message_type; i++)
		message_gather(descriptors, file, package, proto->message_type[i], 0);
	for (size_t i = 0; i < proto->n_enum_type; i++)
		enum_gather(descriptors, file, package, proto->enum_type[i]);
	for (size_t i = 0; i < proto->n_service; i++)
		service_gather(descriptors, file, package, proto->service[i]);
	extensions_gather(descriptors, file, package, proto->n_extension, proto->extension);
}

/* At most half full. Of equal names the first is found. */
static void table_build(struct descriptors *descriptors)
{
	uint32_t room = 64;

	while (room < descriptors->symbol_count * 2)
		room *= 2;
	descriptors->table = calloc(room, sizeof(*descriptors->table));
	assert(descriptors->table);
	descriptors->table_mask = room - 1;
	for (uint32_t i = 0; i < descriptors->symbol_count; i++) {
		uint32_t slot = name_hash(descriptors->symbols[i].name) & descriptors->table_mask;

		while (descriptors->table[slot])
			slot = (slot + 1) & descriptors->table_mask;
		descriptors->table[slot] = i + 1;
	}
}

/* --- what others call
 * ----------------------------------------------------------------------------- */

struct descriptors *descriptors_parse(const void *bytes, size_t size)
{
	struct descriptors *descriptors = calloc(1, sizeof(*descriptors));

	assert(descriptors);
	arena_init(&descriptors->arena, NULL, 0);
	if (!files_decode(descriptors, bytes, (const uint8_t *)bytes + size)) {
		descriptors_free(descriptors);
		return NULL;
	}
	for (int i = 0; i < descriptors->file_count; i++)
		file_gather(descriptors, &descriptors->files[i]);
	table_build(descriptors);
	return descriptors;
}

void descriptors_free(struct descriptors *descriptors)
{
	if (!descriptors)
		return;
	arena_reset(&descriptors->arena);
	free(descriptors->symbols);
	free(descriptors->extensions);
	free(descriptors->table);
	free(descriptors);
}

const struct descriptors *descriptors_embedded(void)
{
	static struct descriptors *embedded;

	if (!embedded)
		embedded =
			descriptors_parse(protos_descriptor_set_pb, protos_descriptor_set_pb_size);
	assert(embedded);
	return embedded;
}

int descriptors_files(const struct descriptors *descriptors)
{
	return descriptors->file_count;
}

const struct descriptor_file *descriptors_file(const struct descriptors *descriptors, int index)
{
	assert(index >= 0 && index < descriptors->file_count);
	return &descriptors->files[index];
}

const struct descriptor_file *descriptors_find_file(const struct descriptors *descriptors,
						    const char *name)
{
	for (int i = 0; i < descriptors->file_count; i++) {
		if (strcmp(descriptors->files[i].name, name) == 0)
			return &descriptors->files[i];
	}
	return NULL;
}

const struct descriptor_symbol *descriptors_find(const struct descriptors *descriptors,
						 const char *name)
{
	uint32_t slot, index;

	name = without_dot(name);
	slot = name_hash(name) & descriptors->table_mask;
	for (; (index = descriptors->table[slot]); slot = (slot + 1) & descriptors->table_mask) {
		if (strcmp(descriptors->symbols[index - 1].name, name) == 0)
			return &descriptors->symbols[index - 1];
	}
	return NULL;
}

const struct descriptor_file *descriptors_find_extension(const struct descriptors *descriptors,
							 const char *extendee, int number)
{
	extendee = without_dot(extendee);
	for (size_t i = 0; i < descriptors->extension_count; i++) {
		const struct extension *extension = &descriptors->extensions[i];

		if (extension->number == number && strcmp(extension->extendee, extendee) == 0)
			return extension->file;
	}
	return NULL;
}

int descriptors_extensions(const struct descriptors *descriptors, const char *extendee,
			   int *ret_numbers, int max)
{
	int count = 0;

	extendee = without_dot(extendee);
	for (size_t i = 0; i < descriptors->extension_count; i++) {
		if (strcmp(descriptors->extensions[i].extendee, extendee) != 0)
			continue;
		if (count < max)
			ret_numbers[count] = descriptors->extensions[i].number;
		count++;
	}
	return count;
}
