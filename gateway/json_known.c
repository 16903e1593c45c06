/* Google's types whose JSON is their own: Timestamp, Duration, FieldMask, Struct, Any, wrappers. */
#include <assert.h>
#include <string.h>

#include "gateway/json_encoder.h"
#include "gateway/times.h"

/* Tags of the fields of Struct, Value and the others: they will never change. */
#define TAG(number, wire) ((number) << 3 | (wire))

static bool byte_write(struct encoder *encoder, int byte)
{
	return buffer_byte(encoder->out, (char)byte) || encode_too_large(encoder);
}

/* --- times
 * ---------------------------------------------------------------------------------------- */

static bool time_encode(struct encoder *encoder, const struct message_type *type,
			const struct place *place, const struct json_value *value)
{
	bool timestamp = type->known == KNOWN_TIMESTAMP;
	int64_t seconds;
	int32_t nanos;

	if (value->kind != JSON_STRING ||
	    !(timestamp ? timestamp_parse(value->text, value->size, &seconds, &nanos)
			: duration_parse(value->text, value->size, &seconds, &nanos)))
		return encode_expected(encoder, place,
				       timestamp ? "a time such as \"2026-01-31T20:00:00Z\""
						 : "a duration such as \"1.5s\"",
				       value);
	if ((seconds && (!byte_write(encoder, TAG(1, WIRE_VARINT)) ||
			 !wire_write_varint(encoder->out, (uint64_t)seconds))) ||
	    (nanos && (!byte_write(encoder, TAG(2, WIRE_VARINT)) ||
		       !wire_write_varint(encoder->out, (uint64_t)(int64_t)nanos))))
		return encode_too_large(encoder);
	return true;
}

/* --- FieldMask
 * ------------------------------------------------------------------------------------ */

/* "user.displayName,photo" becomes two paths, in snake case. */
static bool mask_path_encode(struct encoder *encoder, const struct place *place, const char *at,
			     const char *end)
{
	size_t start;

	if (!byte_write(encoder, TAG(1, WIRE_BYTES)) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	for (; at < end; at++) {
		bool upper = *at >= 'A' && *at <= 'Z';

		if (!upper && !(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9') &&
		    *at != '.')
			return encode_fail(encoder, place, "is not a field mask in camel case");
		if (upper && !byte_write(encoder, '_'))
			return false;
		if (!byte_write(encoder, upper ? *at - 'A' + 'a' : *at))
			return false;
	}
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

static bool mask_encode(struct encoder *encoder, const struct place *place,
			const struct json_value *value)
{
	const char *at = value->text, *end = at + value->size, *comma;

	if (value->kind != JSON_STRING)
		return encode_expected(encoder, place, "a field mask in a string", value);
	while (at < end) {
		comma = memchr(at, ',', (size_t)(end - at));
		if (comma == at || comma == end - 1)
			return encode_fail(encoder, place, "has an empty path");
		if (!mask_path_encode(encoder, place, at, comma ? comma : end))
			return false;
		at = comma ? comma + 1 : end;
	}
	return true;
}

/* --- Struct, Value, ListValue
 * --------------------------------------------------------------------- */

static bool value_encode(struct encoder *encoder, const struct place *place,
			 const struct json_value *value, int depth);

static bool nested_value_encode(struct encoder *encoder, int tag, const struct place *place,
				const struct json_value *value, int depth)
{
	size_t start;

	if (!byte_write(encoder, tag) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	return value_encode(encoder, place, value, depth) &&
	       (wire_close(encoder->out, start) || encode_too_large(encoder));
}

/* fields = 1: a map of string to Value. */
static bool struct_member_encode(struct encoder *encoder, const struct place *place,
				 const struct json_value *key, int depth)
{
	struct json_value value;
	size_t start;

	if (!json_value(&encoder->json, &value))
		return encode_malformed(encoder);
	if (memchr(key->text, 0, key->size))
		return encode_fail(encoder, place->up, "has a key that contains U+0000");
	if (!byte_write(encoder, TAG(1, WIRE_BYTES)) || !wire_open(encoder->out, &start) ||
	    !byte_write(encoder, TAG(1, WIRE_BYTES)) ||
	    !wire_write_bytes(encoder->out, key->text, key->size))
		return encode_too_large(encoder);
	return nested_value_encode(encoder, TAG(2, WIRE_BYTES), place, &value, depth) &&
	       (wire_close(encoder->out, start) || encode_too_large(encoder));
}

static bool struct_encode(struct encoder *encoder, const struct place *place,
			  const struct json_value *value, int depth)
{
	struct key_set *keys = key_set_create(encoder->out->arena);
	struct json_value key;
	bool more;

	if (value->kind != JSON_OBJECT)
		return encode_expected(encoder, place, "an object", value);
	for (bool first = true;; first = false) {
		struct place here = {.up = place};

		if (!json_key(&encoder->json, first, &more, &key))
			return encode_malformed(encoder);
		if (!more)
			return true;
		here.key = key.text;
		here.key_size = key.size;
		if (!key_set_add(keys, key.text, key.size))
			return encode_fail(encoder, &here, "is there twice");
		if (!struct_member_encode(encoder, &here, &key, depth))
			return false;
	}
}

static bool list_value_encode(struct encoder *encoder, const struct place *place,
			      const struct json_value *value, int depth)
{
	struct place here = {.up = place};
	struct json_value element;
	bool more;

	if (value->kind != JSON_ARRAY)
		return encode_expected(encoder, place, "an array", value);
	for (;; here.index++) {
		if (!json_element(&encoder->json, here.index == 0, &more))
			return encode_malformed(encoder);
		if (!more)
			return true;
		if (!json_value(&encoder->json, &element))
			return encode_malformed(encoder);
		if (!nested_value_encode(encoder, TAG(1, WIRE_BYTES), &here, &element, depth))
			return false;
	}
}

static bool nested_encode(struct encoder *encoder, int tag, const struct place *place,
			  const struct json_value *value, int depth)
{
	size_t start;

	if (!byte_write(encoder, tag) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	if (value->kind == JSON_OBJECT ? !struct_encode(encoder, place, value, depth)
				       : !list_value_encode(encoder, place, value, depth))
		return false;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

static bool value_encode(struct encoder *encoder, const struct place *place,
			 const struct json_value *value, int depth)
{
	if (depth >= TRANSCODE_DEPTH_MAX)
		return encode_fail(encoder, place, "nested more than %d deep", TRANSCODE_DEPTH_MAX);
	switch (value->kind) {
	case JSON_NULL:
		return byte_write(encoder, TAG(1, WIRE_VARINT)) && byte_write(encoder, 0);
	case JSON_NUMBER:
		return byte_write(encoder, TAG(2, WIRE_FIXED64)) &&
		       encode_double(encoder, place, value);
	case JSON_STRING:
		if (memchr(value->text, 0, value->size))
			return encode_fail(encoder, place, "must not contain U+0000");
		return byte_write(encoder, TAG(3, WIRE_BYTES)) &&
		       (wire_write_bytes(encoder->out, value->text, value->size) ||
			encode_too_large(encoder));
	case JSON_FALSE:
	case JSON_TRUE:
		return byte_write(encoder, TAG(4, WIRE_VARINT)) &&
		       byte_write(encoder, value->kind == JSON_TRUE);
	case JSON_OBJECT:
		return nested_encode(encoder, TAG(5, WIRE_BYTES), place, value, depth + 1);
	default:
		return nested_encode(encoder, TAG(6, WIRE_BYTES), place, value, depth + 1);
	}
}

/* --- Any
 * ------------------------------------------------------------------------------------------ */

/* "@type" may stand anywhere in the object: it is looked for first. */
static bool type_find(struct encoder *encoder, const struct place *place,
		      struct json_value *ret_url, bool *ret_empty)
{
	struct json ahead = encoder->json;
	struct json_value key, value;
	bool more, found = false;

	*ret_empty = true;
	for (bool first = true;; first = false) {
		if (!json_key(&ahead, first, &more, &key))
			break;
		if (!more)
			return found || *ret_empty || encode_fail(encoder, place, "needs an @type");
		*ret_empty = false;
		if (!json_value(&ahead, &value) || !json_skip(&ahead, &value, TRANSCODE_DEPTH_MAX))
			break;
		if (key.size != 5 || memcmp(key.text, "@type", 5) != 0)
			continue;
		if (found)
			return encode_fail(encoder, place, "has @type twice");
		if (value.kind != JSON_STRING)
			return encode_expected(encoder, place, "a type's URL in @type", &value);
		*ret_url = value;
		found = true;
	}
	encoder->json = ahead;
	return encode_malformed(encoder);
}

static const struct message_type *type_of_url(const struct schema *schema,
					      const struct json_value *url)
{
	const char *slash = url->size ? memrchr(url->text, '/', url->size) : NULL;

	if (!slash)
		return NULL;
	return schema_message_sized(schema, slash + 1, url->size - (size_t)(slash + 1 - url->text));
}

/* {"@type": …, "value": …}: what is not an object by itself. */
static bool any_known_encode(struct encoder *encoder, const struct message_type *type,
			     const struct place *place, int depth)
{
	struct json_value key, value;
	bool more, found = false;

	for (bool first = true;; first = false) {
		if (!json_key(&encoder->json, first, &more, &key))
			return encode_malformed(encoder);
		if (!more)
			return found || encode_fail(encoder, place, "needs a value");
		if (!json_value(&encoder->json, &value))
			return encode_malformed(encoder);
		if (key.size == 5 && memcmp(key.text, "@type", 5) == 0)
			continue;
		if (key.size != 5 || memcmp(key.text, "value", 5) != 0)
			return encode_fail(encoder, place, "has an unknown field beside its value");
		if (found)
			return encode_fail(encoder, place, "has value twice");
		found = true;
		if (!encode_message(encoder, type, place, &value, depth))
			return false;
	}
}

static bool any_encode(struct encoder *encoder, const struct place *place,
		       const struct json_value *value, int depth)
{
	const struct message_type *type;
	struct json_value url = {.kind = JSON_STRING, .text = ""};
	size_t start;
	bool empty;

	if (value->kind != JSON_OBJECT)
		return encode_expected(encoder, place, "an object with @type", value);
	if (!type_find(encoder, place, &url, &empty))
		return false;
	if (empty)
		return encode_members(encoder, &(struct message_type){.table = (uint16_t[1]){0}},
				      place, depth, false);
	type = type_of_url(encoder->schema, &url);
	if (!type)
		return encode_expected(encoder, place, "a known type's URL in @type", &url);
	if (!byte_write(encoder, TAG(1, WIRE_BYTES)) ||
	    !wire_write_bytes(encoder->out, url.text, url.size) ||
	    !byte_write(encoder, TAG(2, WIRE_BYTES)) || !wire_open(encoder->out, &start))
		return encode_too_large(encoder);
	if (depth >= TRANSCODE_DEPTH_MAX)
		return encode_fail(encoder, place, "nested more than %d deep", TRANSCODE_DEPTH_MAX);
	if (type->known != KNOWN_NONE ? !any_known_encode(encoder, type, place, depth + 1)
				      : !encode_members(encoder, type, place, depth + 1, true))
		return false;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

/* --- which
 * ---------------------------------------------------------------------------------------- */

static bool wrapper_encode(struct encoder *encoder, const struct message_type *type,
			   const struct place *place, const struct json_value *value)
{
	const struct field_type *field = message_field_number(type, 1);

	assert(field && field->kind != FIELD_MESSAGE);
	return (buffer_append(encoder->out, field->tag, field->tag_size) ||
		encode_too_large(encoder)) &&
	       encode_scalar(encoder, field, place, value);
}

bool encode_known(struct encoder *encoder, const struct message_type *type,
		  const struct place *place, const struct json_value *value, int depth)
{
	switch (type->known) {
	case KNOWN_TIMESTAMP:
	case KNOWN_DURATION:
		return time_encode(encoder, type, place, value);
	case KNOWN_FIELD_MASK:
		return mask_encode(encoder, place, value);
	case KNOWN_STRUCT:
		return struct_encode(encoder, place, value, depth);
	case KNOWN_VALUE:
		return value_encode(encoder, place, value, depth);
	case KNOWN_LIST_VALUE:
		return list_value_encode(encoder, place, value, depth);
	case KNOWN_ANY:
		return any_encode(encoder, place, value, depth);
	default:
		return wrapper_encode(encoder, type, place, value);
	}
}
