#include "gateway/json_reader.h"

#include <stdint.h>
#include <string.h>

#include "runtime/utf8.h"

void json_init(struct json *json, const char *text, size_t size, struct arena *arena)
{
	*json = (struct json){.text = text, .at = text, .end = text + size, .arena = arena};
}

static bool wrong(struct json *json, const char *at, const char *error)
{
	json->error = error;
	json->error_offset = (size_t)(at - json->text);
	return false;
}

static void space_skip(struct json *json)
{
	while (json->at < json->end &&
	       (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
		json->at++;
}

/* --- strings
 * -------------------------------------------------------------------------------------- */

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

/* The four digits after \u, -1 when they are not. */
static int32_t hex_unit(const char *at, const char *end)
{
	int32_t unit = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(at[i]);

		if (digit < 0)
			return -1;
		unit = unit << 4 | digit;
	}
	return unit;
}

static char *utf8_put(char *to, uint32_t point)
{
	if (point < 0x80) {
		*to++ = (char)point;
	} else if (point < 0x800) {
		*to++ = (char)(0xc0 | point >> 6);
		*to++ = (char)(0x80 | (point & 0x3f));
	} else if (point < 0x10000) {
		*to++ = (char)(0xe0 | point >> 12);
		*to++ = (char)(0x80 | (point >> 6 & 0x3f));
		*to++ = (char)(0x80 | (point & 0x3f));
	} else {
		*to++ = (char)(0xf0 | point >> 18);
		*to++ = (char)(0x80 | (point >> 12 & 0x3f));
		*to++ = (char)(0x80 | (point >> 6 & 0x3f));
		*to++ = (char)(0x80 | (point & 0x3f));
	}
	return to;
}

/* After "\u": one character, from one unit or a pair of surrogates. */
static bool unicode_unescape(struct json *json, const char **at, const char *end, char **to)
{
	int32_t unit = hex_unit(*at, end), low;

	if (unit < 0)
		return wrong(json, *at, "expected four hexadecimal digits after \\u");
	*at += 4;
	if (unit < 0xd800 || unit > 0xdfff) {
		*to = utf8_put(*to, (uint32_t)unit);
		return true;
	}
	if (unit > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' ||
	    (low = hex_unit(*at + 2, end)) < 0xdc00 || low > 0xdfff)
		return wrong(json, *at - 6, "a surrogate without its other half");
	*at += 6;
	*to = utf8_put(*to, 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
	return true;
}

/* What stands between the quotes, with escapes, into the arena: never longer than it was. */
static bool string_unescape(struct json *json, const char *at, const char *end,
			    struct json_value *ret_value)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	char *text = arena_alloc(json->arena, (size_t)(end - at) + 1), *to = text;

	while (at < end) {
		const char *letter;

		if (*at != '\\') {
			*to++ = *at++;
			continue;
		}
		at += 2; /* a backslash is never the last: the closing quote would be escaped */
		if (at[-1] == 'u') {
			if (!unicode_unescape(json, &at, end, &to))
				return false;
			continue;
		}
		letter = memchr(from, at[-1], sizeof(from) - 1);
		if (!letter)
			return wrong(json, at - 2, "unknown escape");
		*to++ = into[letter - from];
	}
	*to = 0;
	ret_value->text = text;
	ret_value->size = (size_t)(to - text);
	return true;
}

/* True where eight bytes have a quote, a backslash, a control character or a byte of 0x80 and
 * above. */
static bool eight_special(const char *at)
{
	const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
	uint64_t eight, quote, backslash;

	memcpy(&eight, at, 8);
	quote = eight ^ (ones * '"');
	backslash = eight ^ (ones * '\\');
	return (eight | (eight - ones * 0x20) | ((quote - ones) & ~quote) |
		((backslash - ones) & ~backslash)) &
	       highs;
}

/* json->at stands behind the opening quote. */
static bool string_read(struct json *json, struct json_value *ret_value)
{
	const char *start = json->at, *at = start, *end = json->end;
	bool escapes = false, ascii = true;

	for (;;) {
		while (end - at >= 8 && !eight_special(at))
			at += 8;
		if (at == end)
			return wrong(json, start - 1, "a string without its closing quote");
		if (*at == '"')
			break;
		if ((unsigned char)*at < 0x20)
			return wrong(json, at, "a control character in a string");
		if (*at == '\\') {
			escapes = true;
			at++;
			if (at == end)
				return wrong(json, start - 1, "a string without its closing quote");
		}
		ascii = ascii && !((unsigned char)*at & 0x80);
		at++;
	}
	json->at = at + 1;
	ret_value->kind = JSON_STRING;
	ret_value->text = start;
	ret_value->size = (size_t)(at - start);
	if (!ascii && !utf8_valid(start, ret_value->size))
		return wrong(json, start, "a string that is not valid UTF-8");
	return !escapes || string_unescape(json, start, at, ret_value);
}

/* --- other values
 * --------------------------------------------------------------------------------- */

static bool digits_skip(struct json *json)
{
	const char *start = json->at;

	while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
		json->at++;
	return json->at > start;
}

static bool number_read(struct json *json, struct json_value *ret_value)
{
	const char *start = json->at;

	if (*json->at == '-')
		json->at++;
	if (json->at < json->end && *json->at == '0')
		json->at++;
	else if (!digits_skip(json))
		return wrong(json, json->at, "expected a digit");
	if (json->at < json->end && *json->at == '.') {
		json->at++;
		if (!digits_skip(json))
			return wrong(json, json->at, "expected a digit after the point");
	}
	if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
		json->at++;
		if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
			json->at++;
		if (!digits_skip(json))
			return wrong(json, json->at, "expected a digit in the exponent");
	}
	if (json->at < json->end && ((*json->at >= '0' && *json->at <= '9') || *json->at == '.'))
		return wrong(json, start, "a malformed number");
	*ret_value = (struct json_value){JSON_NUMBER, start, (size_t)(json->at - start)};
	return true;
}

static bool word_read(struct json *json, const char *word, enum json_kind kind,
		      struct json_value *ret_value)
{
	size_t size = strlen(word);

	if ((size_t)(json->end - json->at) < size || memcmp(json->at, word, size) != 0)
		return wrong(json, json->at, "expected a value");
	*ret_value = (struct json_value){kind, json->at, size};
	json->at += size;
	return true;
}

bool json_value(struct json *json, struct json_value *ret_value)
{
	space_skip(json);
	if (json->at == json->end)
		return wrong(json, json->at, "expected a value, got the end");
	switch (*json->at) {
	case '"':
		json->at++;
		return string_read(json, ret_value);
	case '{':
		*ret_value = (struct json_value){JSON_OBJECT, json->at++, 1};
		return true;
	case '[':
		*ret_value = (struct json_value){JSON_ARRAY, json->at++, 1};
		return true;
	case 't':
		return word_read(json, "true", JSON_TRUE, ret_value);
	case 'f':
		return word_read(json, "false", JSON_FALSE, ret_value);
	case 'n':
		return word_read(json, "null", JSON_NULL, ret_value);
	default:
		if (*json->at == '-' || (*json->at >= '0' && *json->at <= '9'))
			return number_read(json, ret_value);
		return wrong(json, json->at, "expected a value");
	}
}

/* The comma between members, or the bracket that closes them. */
static bool more(struct json *json, bool first, char close, const char *error, bool *ret_more)
{
	space_skip(json);
	if (json->at < json->end && *json->at == close) {
		json->at++;
		*ret_more = false;
		return true;
	}
	if (!first) {
		if (json->at == json->end || *json->at != ',')
			return wrong(json, json->at, error);
		json->at++;
		space_skip(json);
	}
	*ret_more = true;
	return true;
}

bool json_key(struct json *json, bool first, bool *ret_more, struct json_value *ret_key)
{
	if (!more(json, first, '}', "expected ',' or '}'", ret_more))
		return false;
	if (!*ret_more)
		return true;
	if (json->at == json->end || *json->at != '"')
		return wrong(json, json->at, "expected a key in quotes");
	json->at++;
	if (!string_read(json, ret_key))
		return false;
	space_skip(json);
	if (json->at == json->end || *json->at != ':')
		return wrong(json, json->at, "expected ':'");
	json->at++;
	return true;
}

bool json_element(struct json *json, bool first, bool *ret_more)
{
	return more(json, first, ']', "expected ',' or ']'", ret_more);
}

bool json_skip(struct json *json, const struct json_value *value, int depth_max)
{
	bool object = value->kind == JSON_OBJECT, there_is = true;
	struct json_value part;

	if (!object && value->kind != JSON_ARRAY)
		return true;
	if (!depth_max)
		return wrong(json, json->at, "nested too deeply");
	for (bool first = true;; first = false) {
		if (object ? !json_key(json, first, &there_is, &part)
			   : !json_element(json, first, &there_is))
			return false;
		if (!there_is)
			return true;
		if (!json_value(json, &part) || !json_skip(json, &part, depth_max - 1))
			return false;
	}
}

bool json_finish(struct json *json)
{
	space_skip(json);
	return json->at == json->end || wrong(json, json->at, "expected the end after the value");
}

const char *json_kind_name(enum json_kind kind)
{
	static const char *const names[] = {"null",	"false",    "true",	"a number",
					    "a string", "an array", "an object"};

	return names[kind];
}
