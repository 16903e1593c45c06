/* Objects to messages: fields, lists, maps, and the errors of all of it. See transcode.h.
 *
 *     body ─► encode_message ─► encode_members ─► encode_field ─┬─► encode_scalar   (json_scalar.c)
 *                  ▲                                            ├─► encode_known    (json_known.c)
 *                  └────────────── each element ◄───────────────┘
 */
#include <stdarg.h>
#include <string.h>

#include "gateway/json_encoder.h"

#define SHOWN_MAX 40
#define SET_WORDS (MESSAGE_FIELDS_MAX / 64)

/* --- errors
 * --------------------------------------------------------------------------------------- */

static const char *place_text(struct arena *arena, const struct place *place)
{
	const char *up;

	if (!place)
		return "";
	up = place_text(arena, place->up);
	if (place->field)
		return arena_printf(arena, "%s%s%s", up, *up ? "." : "", place->field->name);
	if (place->key)
		return arena_printf(arena, "%s[\"%.*s\"]", up,
				    (int)(place->key_size < SHOWN_MAX ? place->key_size : 0),
				    place->key);
	return arena_printf(arena, "%s[%lld]", up, (long long)place->index);
}

bool encode_fail(struct encoder *encoder, const struct place *place, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	*encoder->error = (struct transcode_error){
		STATUS_INVALID_ARGUMENT, place_text(encoder->out->arena, place),
		arena_vprintf(encoder->out->arena, format, args)};
	va_end(args);
	return false;
}

/* A piece of the text that ends with a whole character. */
static int shown_size(const struct json_value *value)
{
	size_t size = value->size;

	if (size <= SHOWN_MAX)
		return (int)size;
	for (size = SHOWN_MAX; size && ((unsigned char)value->text[size] & 0xc0) == 0x80;)
		size--;
	return (int)size;
}

bool encode_expected(struct encoder *encoder, const struct place *place, const char *what,
		     const struct json_value *got)
{
	int size = shown_size(got);
	const char *cut = (size_t)size < got->size ? "…" : "";

	if (got->kind == JSON_STRING)
		return encode_fail(encoder, place, "expected %s, got \"%.*s%s\"", what, size,
				   got->text, cut);
	if (got->kind == JSON_NUMBER)
		return encode_fail(encoder, place, "expected %s, got %.*s%s", what, size, got->text,
				   cut);
	return encode_fail(encoder, place, "expected %s, got %s", what, json_kind_name(got->kind));
}

bool encode_malformed(struct encoder *encoder)
{
	return encode_fail(encoder, NULL, "malformed JSON at byte %zu: %s",
			   encoder->json.error_offset, encoder->json.error);
}

bool encode_too_large(struct encoder *encoder)
{
	*encoder->error =
		(struct transcode_error){STATUS_RESOURCE_EXHAUSTED, "", "the message is too large"};
	return false;
}

static bool too_deep(struct encoder *encoder, const struct place *place)
{
	return encode_fail(encoder, place, "nested more than %d deep", TRANSCODE_DEPTH_MAX);
}

/* --- one field
 * ------------------------------------------------------------------------------------ */

static bool tag_write(struct encoder *encoder, const struct field_type *field)
{
	return buffer_append(encoder->out, field->tag, field->tag_size) ||
	       encode_too_large(encoder);
}

/* One value with its tag. */
static bool element_encode(struct encoder *encoder, const struct field_type *field,
			   const struct place *place, const struct json_value *value, int depth)
{
	size_t start;

	if (field->kind == FIELD_GROUP || (field->kind == FIELD_MESSAGE && !field->message))
		return encode_fail(encoder, place, "has no JSON form");
	if (!tag_write(encoder, field))
		return false;
	if (field->kind != FIELD_MESSAGE && !field->packed)
		return encode_scalar(encoder, field, place, value);
	if (!wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	if (field->packed ? !encode_scalar(encoder, field, place, value)
			  : !encode_message(encoder, field->message, place, value, depth))
		return false;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

static bool list_encode(struct encoder *encoder, const struct field_type *field,
			const struct place *place, int depth)
{
	struct place here = {.up = place};
	size_t start = 0, before = encoder->out->size;
	bool more;

	if (field->packed && (!tag_write(encoder, field) || !wire_open(encoder->out, &start)))
		return encode_too_large(encoder);
	for (;; here.index++) {
		struct json_value value;

		if (!json_element(&encoder->json, here.index == 0, &more))
			return encode_malformed(encoder);
		if (!more)
			break;
		if (!json_value(&encoder->json, &value))
			return encode_malformed(encoder);
		if (value.kind == JSON_NULL &&
		    !(field->message && field->message->known == KNOWN_VALUE) &&
		    !(field->enumeration && field->enumeration->null_value))
			return encode_fail(encoder, &here, "must not be null");
		if (field->packed ? !encode_scalar(encoder, field, &here, &value)
				  : !element_encode(encoder, field, &here, &value, depth))
			return false;
	}
	if (field->packed && encoder->out->size == start)
		encoder->out->size = before; /* an empty list is no list */
	else if (field->packed && !wire_close(encoder->out, start))
		return encode_too_large(encoder);
	return true;
}

/* An entry's bytes: key = 1, value = 2. */
static bool entry_encode(struct encoder *encoder, const struct field_type *field,
			 const struct place *place, const struct json_value *key,
			 const struct json_value *value, int depth)
{
	const struct message_type *entry = field->message;
	bool plain_text = encoder->plain_text, good;
	size_t start;

	if (!tag_write(encoder, field) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	encoder->plain_text = true; /* keys are quoted whatever they are */
	good = element_encode(encoder, &entry->fields[0], place, key, depth);
	encoder->plain_text = plain_text;
	if (!good || !element_encode(encoder, &entry->fields[1], place, value, depth))
		return false;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

static bool map_encode(struct encoder *encoder, const struct field_type *field,
		       const struct place *place, int depth)
{
	const struct field_type *of = &field->message->fields[1];
	struct key_set *keys = key_set_create(encoder->out->arena);
	bool more;

	for (bool first = true;; first = false) {
		struct json_value key, value;
		struct place here = {.up = place};

		if (!json_key(&encoder->json, first, &more, &key))
			return encode_malformed(encoder);
		if (!more)
			return true;
		here.key = key.text;
		here.key_size = key.size;
		if (!key_set_add(keys, key.text, key.size))
			return encode_fail(encoder, &here, "is there twice");
		if (!json_value(&encoder->json, &value))
			return encode_malformed(encoder);
		if (value.kind == JSON_NULL &&
		    !(of->message && of->message->known == KNOWN_VALUE) &&
		    !(of->enumeration && of->enumeration->null_value))
			return encode_fail(encoder, &here, "must not be null");
		if (!entry_encode(encoder, field, &here, &key, &value, depth))
			return false;
	}
}

/* null means absent, except where null is a value. */
static bool is_absent(const struct field_type *field, const struct json_value *value)
{
	if (value->kind != JSON_NULL)
		return false;
	return field->repeated || (!(field->message && field->message->known == KNOWN_VALUE) &&
				   !(field->enumeration && field->enumeration->null_value));
}

static bool field_encode(struct encoder *encoder, const struct field_type *field,
			 const struct place *place, const struct json_value *value, int depth)
{
	if (is_absent(field, value))
		return true;
	if (field->map)
		return value->kind == JSON_OBJECT
			       ? map_encode(encoder, field, place, depth)
			       : encode_expected(encoder, place, "an object", value);
	if (field->repeated)
		return value->kind == JSON_ARRAY
			       ? list_encode(encoder, field, place, depth)
			       : encode_expected(encoder, place, "an array", value);
	return element_encode(encoder, field, place, value, depth);
}

/* --- messages
 * ------------------------------------------------------------------------------------- */

struct seen {
	uint64_t fields[SET_WORDS], oneofs[SET_WORDS];
};

static bool set_add(uint64_t *set, int index)
{
	uint64_t bit = UINT64_C(1) << (index & 63);
	bool there = set[index >> 6] & bit;

	set[index >> 6] |= bit;
	return !there;
}

static bool oneof_twice(struct encoder *encoder, const struct message_type *type,
			const struct field_type *field, const struct seen *seen,
			const struct place *place)
{
	for (int i = 0; i < type->field_count; i++) {
		const struct field_type *other = &type->fields[i];

		if (other != field && other->oneof == field->oneof &&
		    seen->fields[i >> 6] & (UINT64_C(1) << (i & 63)))
			return encode_fail(encoder, place, "only one of %s and %s may be set",
					   other->name, field->name);
	}
	return encode_fail(encoder, place, "is there twice");
}

static bool unknown_field(struct encoder *encoder, const struct place *place,
			  const struct json_value *key)
{
	struct field_type name = {
		.name = arena_printf(encoder->out->arena, "%.*s", shown_size(key), key->text)};
	struct place here = {.up = place, .field = &name};

	return encode_fail(encoder, &here, "unknown field");
}

static bool member_encode(struct encoder *encoder, const struct message_type *type,
			  const struct place *place, const struct json_value *key,
			  struct seen *seen, int depth)
{
	const struct field_type *field = message_field(type, key->text, key->size);
	struct place here = {.up = place, .field = field};
	struct json_value value;

	if (!field)
		return unknown_field(encoder, place, key);
	if (!set_add(seen->fields, field->index))
		return encode_fail(encoder, &here, "is there twice");
	if (!json_value(&encoder->json, &value))
		return encode_malformed(encoder);
	if (field->oneof >= 0 && !is_absent(field, &value) && !set_add(seen->oneofs, field->oneof))
		return oneof_twice(encoder, type, field, seen, &here);
	return field_encode(encoder, field, &here, &value, depth);
}

bool encode_members(struct encoder *encoder, const struct message_type *type,
		    const struct place *place, int depth, bool any)
{
	struct seen seen = {0};
	struct json_value key;
	bool more;

	for (bool first = true;; first = false) {
		if (!json_key(&encoder->json, first, &more, &key))
			return encode_malformed(encoder);
		if (!more)
			return true;
		if (any && key.size == 5 && memcmp(key.text, "@type", 5) == 0) {
			if (!json_value(&encoder->json, &key))
				return encode_malformed(encoder);
			continue;
		}
		if (!member_encode(encoder, type, place, &key, &seen, depth))
			return false;
	}
}

bool encode_message(struct encoder *encoder, const struct message_type *type,
		    const struct place *place, const struct json_value *value, int depth)
{
	if (depth >= TRANSCODE_DEPTH_MAX)
		return too_deep(encoder, place);
	if (type->known != KNOWN_NONE)
		return encode_known(encoder, type, place, value, depth + 1);
	if (value->kind != JSON_OBJECT)
		return encode_expected(encoder, place, "an object", value);
	return encode_members(encoder, type, place, depth + 1, false);
}

/* --- the whole body
 * ------------------------------------------------------------------------------- */

/* What the path has set may stand in the body again, if it is the same. */
static bool bound_encode(struct encoder *encoder, const struct transcode_bound *bound)
{
	struct place here = {.field = bound->field};
	size_t start = encoder->out->size, size;
	struct json_value value;

	if (!json_value(&encoder->json, &value))
		return encode_malformed(encoder);
	if (!field_encode(encoder, bound->field, &here, &value, 1))
		return false;
	size = encoder->out->size - start;
	encoder->out->size = start;
	if (size &&
	    (size != bound->size || memcmp(encoder->out->bytes + start, bound->bytes, size) != 0))
		return encode_fail(encoder, &here, "differs from the one in the path");
	return true;
}

static const struct transcode_bound *bound_find(const struct transcode_bound *bound, int count,
						const struct field_type *field)
{
	for (int i = 0; i < count; i++) {
		if (bound[i].field == field)
			return &bound[i];
	}
	return NULL;
}

static bool body_encode(struct encoder *encoder, const struct message_type *type,
			const struct transcode_bound *bound, int bound_count)
{
	const struct transcode_bound *is_bound;
	struct seen seen = {0};
	struct json_value key;
	bool more;

	for (bool first = true;; first = false) {
		if (!json_key(&encoder->json, first, &more, &key))
			return encode_malformed(encoder);
		if (!more)
			return true;
		is_bound = bound_find(bound, bound_count, message_field(type, key.text, key.size));
		if (is_bound) {
			struct place here = {.field = is_bound->field};

			if (!set_add(seen.fields, is_bound->field->index))
				return encode_fail(encoder, &here, "is there twice");
			if (!bound_encode(encoder, is_bound))
				return false;
		} else if (!member_encode(encoder, type, NULL, &key, &seen, 1)) {
			return false;
		}
	}
}

bool json_to_wire(const struct schema *schema, const struct message_type *type, const char *json,
		  size_t size, const struct transcode_bound *bound, int bound_count,
		  struct buffer *out, struct transcode_error *reterr)
{
	struct encoder encoder = {.schema = schema, .out = out, .error = reterr};
	struct json_value value;

	json_init(&encoder.json, json, size, out->arena);
	if (!json_value(&encoder.json, &value))
		return encode_malformed(&encoder);
	if (type->known != KNOWN_NONE) {
		if (!encode_message(&encoder, type, NULL, &value, 0))
			return false;
	} else if (value.kind != JSON_OBJECT) {
		return encode_expected(&encoder, NULL, "an object", &value);
	} else if (!body_encode(&encoder, type, bound, bound_count)) {
		return false;
	}
	return json_finish(&encoder.json) || encode_malformed(&encoder);
}

bool json_field_to_wire(const struct schema *schema, const struct field_type *field,
			const char *json, size_t size, struct buffer *out,
			struct transcode_error *reterr)
{
	struct encoder encoder = {.schema = schema, .out = out, .error = reterr};
	struct place here = {.field = field};
	struct json_value value;

	json_init(&encoder.json, json, size, out->arena);
	if (!json_value(&encoder.json, &value))
		return encode_malformed(&encoder);
	return field_encode(&encoder, field, &here, &value, 1) &&
	       (json_finish(&encoder.json) || encode_malformed(&encoder));
}

/* --- plain text
 * ----------------------------------------------------------------------------------- */

static bool text_encode(struct encoder *encoder, const struct message_type *type,
			const struct place *place, const struct json_value *path,
			const struct json_value *value, int depth,
			const struct field_type **ret_field)
{
	const char *dot = memchr(path->text, '.', path->size);
	size_t size = dot ? (size_t)(dot - path->text) : path->size;
	const struct json_value name = {JSON_STRING, path->text, size};
	const struct field_type *field = message_field(type, path->text, size);
	struct place here = {.up = place, .field = field};
	struct json_value rest;
	size_t start;

	if (!field)
		return unknown_field(encoder, place, &name);
	*ret_field = field;
	if (depth >= TRANSCODE_DEPTH_MAX)
		return too_deep(encoder, &here);
	if (field->map)
		return encode_fail(encoder, &here, "cannot be given in a URL");
	if (!dot) {
		if (field->message && field->message->known == KNOWN_NONE)
			return encode_fail(encoder, &here, "is a message: name a field of it");
		return element_encode(encoder, field, &here, value, depth);
	}
	if (!field->message || field->repeated || field->message->known != KNOWN_NONE)
		return encode_fail(encoder, &here, "has no fields that can be named");
	rest = (struct json_value){JSON_STRING, dot + 1, path->size - size - 1};
	if (!tag_write(encoder, field) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	if (!text_encode(encoder, field->message, &here, &rest, value, depth + 1, &field))
		return false;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

bool text_to_wire(const struct schema *schema, const struct message_type *type, const char *path,
		  size_t path_size, const char *text, size_t size, struct buffer *out,
		  const struct field_type **ret_field, struct transcode_error *reterr)
{
	struct encoder encoder = {
		.schema = schema, .out = out, .error = reterr, .plain_text = true};
	const struct json_value name = {JSON_STRING, path, path_size};
	const struct json_value value = {JSON_STRING, text, size};

	json_init(&encoder.json, "", 0, out->arena);
	return text_encode(&encoder, type, NULL, &name, &value, 0, ret_field);
}
