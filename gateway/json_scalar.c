/* Numbers, booleans, strings, bytes and enums to the wire, each by its own rules. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base64.h"
#include "gateway/json_encoder.h"
#include "runtime/utf8.h"

/* --- integers
 * ------------------------------------------------------------------------------------- */

/* Digits into *value as long as they fit; trailing zeros of a fraction are not digits. */
static bool digit_add(uint64_t *value, char digit)
{
	return !__builtin_mul_overflow(*value, 10u, value) &&
	       !__builtin_add_overflow(*value, (uint64_t)(digit - '0'), value);
}

static bool exponent_read(const char *at, const char *end, int *ret_exponent)
{
	bool negative = at < end && *at == '-';
	int exponent = 0;

	if (at < end && (*at == '+' || *at == '-'))
		at++;
	if (at == end)
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9')
			return false;
		if (exponent < 10000)
			exponent = exponent * 10 + *at - '0';
	}
	*ret_exponent = negative ? -exponent : exponent;
	return true;
}

/* 1.50e1 is 15: exact, without going through a double. */
static bool shifted(uint64_t value, int exponent, uint64_t *ret_value)
{
	for (; value && exponent < 0; exponent++) {
		if (value % 10)
			return false;
		value /= 10;
	}
	for (; value && exponent > 0; exponent--) {
		if (__builtin_mul_overflow(value, 10u, &value))
			return false;
	}
	*ret_value = value;
	return true;
}

/* A whole number in any of JSON's spellings; false when it is none or does not fit 64 bits. */
static bool integer_read(const char *at, size_t size, bool *ret_negative, uint64_t *ret_value)
{
	const char *end = at + size, *digits, *point;
	uint64_t value = 0;
	int exponent = 0;

	*ret_negative = at < end && *at == '-';
	at += *ret_negative;
	for (digits = at; at < end && *at >= '0' && *at <= '9'; at++) {
		if (!digit_add(&value, *at))
			return false;
	}
	if (at == digits)
		return false;
	*ret_value = value;
	if (at == end)
		return true;
	if (*at == '.') {
		const char *last = ++at;

		for (point = at; at < end && *at >= '0' && *at <= '9'; at++) {
			if (*at != '0')
				last = at + 1;
		}
		if (at == point)
			return false;
		for (digits = point; digits < last; digits++) {
			if (!digit_add(&value, *digits))
				return false;
		}
		exponent = -(int)(last - point);
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		int more;

		if (!exponent_read(at + 1, end, &more))
			return false;
		exponent += more;
		at = end;
	}
	return at == end && shifted(value, exponent, ret_value);
}

static const char *integer_name(enum field_kind kind)
{
	switch (kind) {
	case FIELD_INT32:
	case FIELD_SINT32:
	case FIELD_SFIXED32:
		return "a 32-bit integer";
	case FIELD_UINT32:
	case FIELD_FIXED32:
		return "an unsigned 32-bit integer";
	case FIELD_UINT64:
	case FIELD_FIXED64:
		return "an unsigned 64-bit integer";
	default:
		return "a 64-bit integer";
	}
}

static bool integer_fits(enum field_kind kind, bool negative, uint64_t value)
{
	switch (kind) {
	case FIELD_INT32:
	case FIELD_SINT32:
	case FIELD_SFIXED32:
		return value <= (uint64_t)INT32_MAX + negative;
	case FIELD_UINT32:
	case FIELD_FIXED32:
		return value <= (negative ? 0 : UINT32_MAX);
	case FIELD_UINT64:
	case FIELD_FIXED64:
		return !negative || !value;
	default:
		return value <= (uint64_t)INT64_MAX + negative;
	}
}

static bool integer_encode(struct encoder *encoder, const struct field_type *field,
			   const struct place *place, const struct json_value *value)
{
	uint64_t number;
	bool negative;

	if ((value->kind != JSON_NUMBER && value->kind != JSON_STRING) ||
	    !integer_read(value->text, value->size, &negative, &number) ||
	    !integer_fits(field->kind, negative, number))
		return encode_expected(encoder, place, integer_name(field->kind), value);
	if (negative)
		number = 0 - number;
	if (field->wire == WIRE_FIXED32)
		return wire_write_fixed32(encoder->out, (uint32_t)number) ||
		       encode_too_large(encoder);
	if (field->wire == WIRE_FIXED64)
		return wire_write_fixed64(encoder->out, number) || encode_too_large(encoder);
	if (field->kind == FIELD_SINT32 || field->kind == FIELD_SINT64)
		number = wire_zigzag((int64_t)number);
	return wire_write_varint(encoder->out, number) || encode_too_large(encoder);
}

/* --- floating point
 * ------------------------------------------------------------------------------- */

/* JSON's grammar, which strtod() is wider than. */
static bool is_number(struct encoder *encoder, const struct json_value *value)
{
	struct json_value number;
	struct json json;

	if (value->kind != JSON_STRING)
		return value->kind == JSON_NUMBER;
	json_init(&json, value->text, value->size, encoder->out->arena);
	return json_value(&json, &number) && number.kind == JSON_NUMBER &&
	       number.size == value->size;
}

static bool special_read(const struct json_value *value, double *ret_number)
{
	static const struct {
		const char *name;
		double number;
	} specials[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

	for (size_t i = 0; value->kind == JSON_STRING && i < 3; i++) {
		if (strlen(specials[i].name) == value->size &&
		    memcmp(specials[i].name, value->text, value->size) == 0) {
			*ret_number = specials[i].number;
			return true;
		}
	}
	return false;
}

static bool double_read(struct encoder *encoder, const struct json_value *value, double max,
			double *ret_number)
{
	const char *text;

	if (special_read(value, ret_number))
		return true;
	if (!is_number(encoder, value))
		return false;
	text = arena_memdup(encoder->out->arena, value->text, value->size);
	*ret_number = strtod(text, NULL);
	return fabs(*ret_number) <= max;
}

bool encode_double(struct encoder *encoder, const struct place *place,
		   const struct json_value *value)
{
	uint64_t bits;
	double number;

	if (!double_read(encoder, value, DBL_MAX, &number))
		return encode_expected(encoder, place, "a number", value);
	memcpy(&bits, &number, sizeof(bits));
	return wire_write_fixed64(encoder->out, bits) || encode_too_large(encoder);
}

static bool float_encode(struct encoder *encoder, const struct place *place,
			 const struct json_value *value)
{
	double number;
	uint32_t bits;
	float narrow;

	/* What rounds to FLT_MAX is still a float. */
	if (!double_read(encoder, value, (double)FLT_MAX * (1 + (double)FLT_EPSILON / 4), &number))
		return encode_expected(encoder, place, "a number in the range of a float", value);
	narrow = (float)number;
	memcpy(&bits, &narrow, sizeof(bits));
	return wire_write_fixed32(encoder->out, bits) || encode_too_large(encoder);
}

/* --- the others
 * ----------------------------------------------------------------------------------- */

static bool is_word(const struct json_value *value, const char *word)
{
	return value->size == strlen(word) && memcmp(value->text, word, value->size) == 0;
}

static bool bool_encode(struct encoder *encoder, const struct place *place,
			const struct json_value *value)
{
	bool quoted = encoder->plain_text && value->kind == JSON_STRING;
	bool is_true = value->kind == JSON_TRUE || (quoted && is_word(value, "true"));
	bool is_false = value->kind == JSON_FALSE || (quoted && is_word(value, "false"));

	if (!is_true && !is_false)
		return encode_expected(encoder, place, "true or false", value);
	return wire_write_varint(encoder->out, is_true) || encode_too_large(encoder);
}

/* Services read strings up to their zero byte, so that byte never gets to them. */
static bool string_encode(struct encoder *encoder, const struct place *place,
			  const struct json_value *value)
{
	if (value->kind != JSON_STRING)
		return encode_expected(encoder, place, "a string", value);
	if (value->size && memchr(value->text, 0, value->size))
		return encode_fail(encoder, place, "must not contain U+0000");
	if (encoder->plain_text && !utf8_valid(value->text, value->size))
		return encode_fail(encoder, place, "must be valid UTF-8");
	return wire_write_bytes(encoder->out, value->text, value->size) ||
	       encode_too_large(encoder);
}

static bool bytes_encode(struct encoder *encoder, const struct place *place,
			 const struct json_value *value)
{
	size_t start, size;
	uint8_t *to;

	if (value->kind != JSON_STRING)
		return encode_expected(encoder, place, "a string in base64", value);
	if (!wire_open(encoder->out, &start) ||
	    !(to = buffer_room(encoder->out, BASE64_DECODED_MAX(value->size))))
		return encode_too_large(encoder);
	if (!base64_decode(value->text, value->size, to, &size))
		return encode_fail(encoder, place, "is not base64");
	encoder->out->size += size;
	return wire_close(encoder->out, start) || encode_too_large(encoder);
}

static bool enum_encode(struct encoder *encoder, const struct field_type *field,
			const struct place *place, const struct json_value *value)
{
	const struct enum_value *named = NULL;
	uint64_t number = 0;
	bool negative = false;

	if (value->kind == JSON_STRING)
		named = enum_by_name(field->enumeration, value->text, value->size);
	if (named) {
		negative = named->number < 0;
		number = (uint64_t)(negative ? -(int64_t)named->number : named->number);
	} else if (value->kind == JSON_NULL && field->enumeration->null_value) {
		number = 0;
	} else if ((value->kind != JSON_NUMBER && value->kind != JSON_STRING) ||
		   !integer_read(value->text, value->size, &negative, &number) ||
		   !integer_fits(FIELD_INT32, negative, number)) {
		return encode_expected(
			encoder, place,
			arena_printf(encoder->out->arena, "a name of %s", field->enumeration->name),
			value);
	}
	return wire_write_varint(encoder->out, negative ? 0 - number : number) ||
	       encode_too_large(encoder);
}

bool encode_scalar(struct encoder *encoder, const struct field_type *field,
		   const struct place *place, const struct json_value *value)
{
	switch (field->kind) {
	case FIELD_STRING:
		return string_encode(encoder, place, value);
	case FIELD_BYTES:
		return bytes_encode(encoder, place, value);
	case FIELD_BOOL:
		return bool_encode(encoder, place, value);
	case FIELD_ENUM:
		return enum_encode(encoder, field, place, value);
	case FIELD_DOUBLE:
		return encode_double(encoder, place, value);
	case FIELD_FLOAT:
		return float_encode(encoder, place, value);
	default:
		return integer_encode(encoder, field, place, value);
	}
}
