/* Messages to objects. See transcode.h.
 *
 *     bytes ─► scan: where each field stands ─► members, in the order of their numbers ─► values
 *
 * Fields nobody knows are passed over: they come from a newer service. Several pieces of one
 * message are read as one, as protobuf wants it; of several values the last counts.
 */
#include "gateway/json_encoder.h" /* key_set */
#include "gateway/json_writer.h"
#include "gateway/wire_decoder.h"
#include "runtime/utf8.h"

bool decode_damaged(struct decoder *decoder, const struct message_type *type)
{
	*decoder->error = (struct transcode_error){
		STATUS_INTERNAL, "",
		arena_printf(decoder->out->arena, "these bytes are not a %s", type->name)};
	return false;
}

bool decode_too_large(struct decoder *decoder)
{
	*decoder->error =
		(struct transcode_error){STATUS_RESOURCE_EXHAUSTED, "", "the answer is too large"};
	return false;
}

bool decode_too_deep(struct decoder *decoder)
{
	*decoder->error =
		(struct transcode_error){STATUS_INTERNAL, "", "the answer is nested too deeply"};
	return false;
}

/* --- scanning
 * ------------------------------------------------------------------------------------- */

static bool is_packed_form(const struct field_type *field, const struct wire_field *found)
{
	return field->repeated && field->wire != WIRE_BYTES && found->type == WIRE_BYTES;
}

static void slot_take(struct slot *slot, const struct wire_field *found, const uint8_t *tag,
		      const uint8_t *end)
{
	if (!slot->count++)
		slot->first = tag;
	slot->end = end;
	slot->bytes = found->bytes;
	slot->value = found->type == WIRE_BYTES ? found->size : found->value;
}

/* One slot for each field, then one for each oneof, whose value is the member set last, + 1. */
static bool scan(struct decoder *decoder, const struct message_type *type, const uint8_t *at,
		 const uint8_t *end, struct slot *slots)
{
	memset(slots, 0, (size_t)(type->field_count + type->oneof_count) * sizeof(*slots));
	while (at < end) {
		const uint8_t *tag = at;
		const struct field_type *field;
		struct wire_field found;

		if (!wire_next(&at, end, &found))
			return decode_damaged(decoder, type);
		field = message_field_number(type, found.number);
		if (!field || (found.type != field->wire && !is_packed_form(field, &found)))
			continue;
		slot_take(&slots[field->index], &found, tag, at);
		if (field->oneof >= 0)
			slots[type->field_count + field->oneof].value = (uint64_t)field->index + 1;
	}
	return true;
}

/* --- values
 * --------------------------------------------------------------------------------------- */

static bool string_decode(struct decoder *decoder, const uint8_t *bytes, size_t size)
{
	if (!utf8_valid((const char *)bytes, size)) {
		*decoder->error = (struct transcode_error){
			STATUS_INTERNAL, "", "the answer has a string that is not UTF-8"};
		return false;
	}
	return json_write_string(decoder->out, bytes, size) || decode_too_large(decoder);
}

static bool enum_decode(struct buffer *out, const struct enum_type *type, int32_t number)
{
	const struct enum_value *value = enum_by_number(type, number);

	if (type->null_value)
		return buffer_append(out, "null", 4);
	if (!value)
		return json_write_int(out, number);
	return buffer_byte(out, '"') && buffer_append(out, value->name, value->name_size) &&
	       buffer_byte(out, '"');
}

static bool double_decode(struct buffer *out, uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return json_write_double(out, value);
}

static bool float_decode(struct buffer *out, uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return json_write_float(out, value);
}

/* 64-bit integers go in quotes: JavaScript's numbers end at 2^53. */
static bool quoted_int(struct buffer *out, int64_t value)
{
	return buffer_byte(out, '"') && json_write_int(out, value) && buffer_byte(out, '"');
}

static bool quoted_uint(struct buffer *out, uint64_t value)
{
	return buffer_byte(out, '"') && json_write_uint(out, value) && buffer_byte(out, '"');
}

static bool number_decode(struct buffer *out, const struct field_type *field, uint64_t value)
{
	switch (field->kind) {
	case FIELD_DOUBLE:
		return double_decode(out, value);
	case FIELD_FLOAT:
		return float_decode(out, (uint32_t)value);
	case FIELD_INT64:
	case FIELD_SFIXED64:
		return quoted_int(out, (int64_t)value);
	case FIELD_UINT64:
	case FIELD_FIXED64:
		return quoted_uint(out, value);
	case FIELD_SINT64:
		return quoted_int(out, wire_unzigzag(value));
	case FIELD_SINT32:
		return json_write_int(out, (int32_t)wire_unzigzag((uint32_t)value));
	case FIELD_UINT32:
	case FIELD_FIXED32:
		return json_write_uint(out, (uint32_t)value);
	case FIELD_BOOL:
		return value ? buffer_append(out, "true", 4) : buffer_append(out, "false", 5);
	case FIELD_ENUM:
		return enum_decode(out, field->enumeration, (int32_t)value);
	default:
		return json_write_int(out, (int32_t)value);
	}
}

bool decode_value(struct decoder *decoder, const struct field_type *field, uint64_t value,
		  const uint8_t *bytes, int depth)
{
	if (!bytes)
		bytes = (const uint8_t *)""; /* absent: empty */
	switch (field->kind) {
	case FIELD_MESSAGE:
		return decode_message(decoder, field->message, bytes, (size_t)value, depth);
	case FIELD_STRING:
		return string_decode(decoder, bytes, (size_t)value);
	case FIELD_BYTES:
		return json_write_bytes(decoder->out, bytes, (size_t)value) ||
		       decode_too_large(decoder);
	default:
		return number_decode(decoder->out, field, value) || decode_too_large(decoder);
	}
}

/* --- lists
 * ---------------------------------------------------------------------------------------- */

static bool comma_write(struct decoder *decoder, bool *first)
{
	bool good = *first || buffer_byte(decoder->out, ',');

	*first = false;
	return good || decode_too_large(decoder);
}

/* The elements of one packed piece. */
static bool packed_decode(struct decoder *decoder, const struct message_type *type,
			  const struct field_type *field, const struct wire_field *piece,
			  bool *first)
{
	const uint8_t *at = piece->bytes, *end = at + piece->size;
	size_t width = field->wire == WIRE_FIXED64 ? 8 : 4;
	uint64_t value;

	while (at < end) {
		if (field->wire == WIRE_VARINT) {
			if (!wire_read_varint(&at, end, &value))
				return decode_damaged(decoder, type);
		} else {
			if ((size_t)(end - at) < width)
				return decode_damaged(decoder, type);
			value = 0;
			for (size_t i = 0; i < width; i++)
				value |= (uint64_t)at[i] << (8 * i);
			at += width;
		}
		if (!comma_write(decoder, first) || !decode_value(decoder, field, value, NULL, 0))
			return false;
	}
	return true;
}

static bool list_decode(struct decoder *decoder, const struct message_type *type,
			const struct field_type *field, const struct slot *slot, int depth)
{
	const uint8_t *at = slot->first;
	struct wire_field found;
	bool first = true;

	if (!buffer_byte(decoder->out, '['))
		return decode_too_large(decoder);
	while (at < slot->end) {
		if (!wire_next(&at, slot->end, &found))
			return decode_damaged(decoder, type);
		if (found.number != field->number)
			continue;
		if (is_packed_form(field, &found)) {
			if (!packed_decode(decoder, type, field, &found, &first))
				return false;
		} else if (found.type == field->wire) {
			if (!comma_write(decoder, &first) ||
			    !decode_value(decoder, field,
					  found.type == WIRE_BYTES ? found.size : found.value,
					  found.bytes, depth))
				return false;
		}
	}
	return buffer_byte(decoder->out, ']') || decode_too_large(decoder);
}

/* --- maps
 * ----------------------------------------------------------------------------------------- */

struct entry {
	struct slot slots[2]; /* key, value */
	bool hidden;	      /* the same key comes again */
};

static bool entries_scan(struct decoder *decoder, const struct message_type *type,
			 const struct field_type *field, const struct slot *slot,
			 struct entry *entries, uint32_t *ret_count)
{
	const uint8_t *at = slot->first;
	struct wire_field found;
	uint32_t count = 0;

	while (at < slot->end) {
		if (!wire_next(&at, slot->end, &found))
			return decode_damaged(decoder, type);
		if (found.number != field->number || found.type != WIRE_BYTES)
			continue;
		if (!scan(decoder, field->message, found.bytes, found.bytes + found.size,
			  entries[count++].slots))
			return false;
	}
	*ret_count = count;
	return true;
}

/* Of equal keys the last counts. */
static void entries_hide(struct arena *arena, const struct field_type *key, struct entry *entries,
			 uint32_t count)
{
	struct key_set *keys = key_set_create(arena);

	while (count--) {
		const struct slot *slot = &entries[count].slots[0];
		bool text = key->wire == WIRE_BYTES && slot->count;

		entries[count].hidden = !key_set_add(
			keys, text ? (const char *)slot->bytes : (const char *)&slot->value,
			text			  ? (size_t)slot->value
			: key->wire == WIRE_BYTES ? 0
						  : sizeof(slot->value));
	}
}

static bool key_decode(struct decoder *decoder, const struct field_type *key,
		       const struct slot *slot)
{
	bool quoted = key->kind == FIELD_STRING || key->kind == FIELD_INT64 ||
		      key->kind == FIELD_UINT64 || key->kind == FIELD_SINT64 ||
		      key->kind == FIELD_FIXED64 || key->kind == FIELD_SFIXED64;

	if (!quoted && !buffer_byte(decoder->out, '"'))
		return decode_too_large(decoder);
	if (!decode_value(decoder, key, slot->value, slot->bytes, 0))
		return false;
	return buffer_text(decoder->out, quoted ? ":" : "\":") || decode_too_large(decoder);
}

static bool map_decode(struct decoder *decoder, const struct message_type *type,
		       const struct field_type *field, const struct slot *slot, int depth)
{
	const struct field_type *parts = field->message->fields;
	struct entry *entries =
		arena_zalloc(decoder->out->arena, (slot->count + 1) * sizeof(*entries));
	bool first = true;
	uint32_t count;

	if (!entries_scan(decoder, type, field, slot, entries, &count))
		return false;
	entries_hide(decoder->out->arena, &parts[0], entries, count);
	if (!buffer_byte(decoder->out, '{'))
		return decode_too_large(decoder);
	for (uint32_t i = 0; i < count; i++) {
		const struct slot *value = &entries[i].slots[1];

		if (entries[i].hidden)
			continue;
		if (!comma_write(decoder, &first) ||
		    !key_decode(decoder, &parts[0], &entries[i].slots[0]) ||
		    !decode_value(decoder, &parts[1], value->value, value->bytes, depth))
			return false;
	}
	return buffer_byte(decoder->out, '}') || decode_too_large(decoder);
}

/* --- messages
 * ------------------------------------------------------------------------------------- */

/* A message that came in several pieces: one behind the other they are the whole. */
static bool pieces_join(struct decoder *decoder, const struct message_type *type,
			const struct field_type *field, struct slot *slot)
{
	const uint8_t *at = slot->first;
	struct wire_field found;
	struct buffer whole;

	buffer_init(&whole, decoder->out->arena, (size_t)(slot->end - slot->first), SIZE_MAX);
	while (at < slot->end) {
		if (!wire_next(&at, slot->end, &found))
			return decode_damaged(decoder, type);
		if (found.number == field->number && found.type == WIRE_BYTES &&
		    !buffer_append(&whole, found.bytes, found.size))
			return decode_too_large(decoder);
	}
	slot->bytes = whole.bytes;
	slot->value = whole.size;
	return true;
}

static bool slot_decode(struct decoder *decoder, const struct message_type *type,
			const struct field_type *field, struct slot *slot, int depth)
{
	if (field->map)
		return map_decode(decoder, type, field, slot, depth);
	if (field->repeated)
		return list_decode(decoder, type, field, slot, depth);
	if (field->kind == FIELD_MESSAGE && slot->count > 1 &&
	    !pieces_join(decoder, type, field, slot))
		return false;
	return decode_value(decoder, field, slot->value, slot->bytes, depth);
}

static bool is_default(const struct field_type *field, const struct slot *slot)
{
	return !slot->count || (!field->repeated && !slot->value);
}

static bool is_shown(const struct decoder *decoder, const struct message_type *type,
		     const struct field_type *field, const struct slot *slots)
{
	const struct slot *slot = &slots[field->index];

	if (field->kind == FIELD_GROUP || (field->kind == FIELD_MESSAGE && !field->message))
		return false;
	if (field->oneof >= 0)
		return slots[type->field_count + field->oneof].value == (uint64_t)field->index + 1;
	if (field->presence)
		return slot->count;
	return !decoder->options->hide_defaults || !is_default(field, slot);
}

static struct slot *slots_take(struct decoder *decoder, const struct message_type *type)
{
	int count = type->field_count + type->oneof_count;
	struct slot *slots = &decoder->slots[decoder->slots_used];

	if (count > SLOTS_MAX - decoder->slots_used) {
		decode_too_deep(decoder);
		return NULL;
	}
	decoder->slots_used += count;
	return slots;
}

static void slots_return(struct decoder *decoder, const struct message_type *type)
{
	decoder->slots_used -= type->field_count + type->oneof_count;
}

bool decode_members(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		    size_t size, int depth, bool first)
{
	struct slot *slots = slots_take(decoder, type);

	if (!slots || !scan(decoder, type, bytes, bytes + size, slots))
		return false;
	for (int i = 0; i < type->field_count; i++) {
		const struct field_type *field = &type->fields[i];

		if (!is_shown(decoder, type, field, slots))
			continue;
		if (!comma_write(decoder, &first))
			return false;
		if (!buffer_append(decoder->out, field->json_key, field->json_key_size))
			return decode_too_large(decoder);
		if (!slot_decode(decoder, type, field, &slots[i], depth))
			return false;
	}
	slots_return(decoder, type);
	return true;
}

bool decode_only(struct decoder *decoder, const struct message_type *type,
		 const struct field_type *field, const uint8_t *bytes, size_t size, int depth)
{
	struct slot *slots = slots_take(decoder, type);

	if (!slots || !scan(decoder, type, bytes, bytes + size, slots) ||
	    !slot_decode(decoder, type, field, &slots[field->index], depth))
		return false;
	slots_return(decoder, type);
	return true;
}

bool decode_message(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		    size_t size, int depth)
{
	if (depth >= TRANSCODE_DEPTH_MAX)
		return decode_too_deep(decoder);
	if (type->known != KNOWN_NONE)
		return decode_known(decoder, type, bytes, size, depth + 1);
	if (!buffer_byte(decoder->out, '{'))
		return decode_too_large(decoder);
	return decode_members(decoder, type, bytes, size, depth + 1, true) &&
	       (buffer_byte(decoder->out, '}') || decode_too_large(decoder));
}

bool wire_to_json(const struct schema *schema, const struct message_type *type,
		  const struct transcode_options *options, const uint8_t *bytes, size_t size,
		  struct buffer *out, struct transcode_error *reterr)
{
	struct decoder decoder; /* its slots are not worth zeroing */

	decoder.schema = schema;
	decoder.options = options;
	decoder.out = out;
	decoder.error = reterr;
	decoder.slots_used = 0;
	return decode_message(&decoder, type, bytes, size, 0);
}
