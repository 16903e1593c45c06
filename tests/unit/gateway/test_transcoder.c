/* What the transcoder takes, what it refuses and how it says so. That it agrees with Google's own
 * is tested beside this (agrees_with_python.py). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "embed/kinds.h"
#include "gateway/transcode.h"

static struct descriptors *descriptors;
static struct schema *schema;
static const struct message_type *kinds;
static struct arena arena;

static void begin(void)
{
	descriptors = descriptors_parse(kinds_kinds_pb, kinds_kinds_pb_size);
	ck_assert_ptr_nonnull(descriptors);
	schema = schema_create(descriptors);
	kinds = schema_message(schema, ".stampede.tests.Kinds");
	ck_assert_ptr_nonnull(kinds);
	arena_init(&arena, NULL, 0);
}

static void end(void)
{
	arena_reset(&arena);
	schema_destroy(schema);
	descriptors_free(descriptors);
}

/* JSON through the wire and back, without defaults; or "field: reason". */
static const char *round_trip_sized(const char *json, size_t size)
{
	struct transcode_options options = {.hide_defaults = true};
	struct transcode_error error;
	struct buffer wire, text;

	buffer_init(&wire, &arena, 16, 1 << 20);
	buffer_init(&text, &arena, 16, 1 << 20);
	if (!json_to_wire(schema, kinds, json, size, NULL, 0, &wire, &error)) {
		ck_assert_int_eq(error.status, STATUS_INVALID_ARGUMENT);
		return arena_printf(&arena, "%s: %s", error.field, error.reason);
	}
	if (!wire_to_json(schema, kinds, &options, wire.bytes, wire.size, &text, &error))
		return arena_printf(&arena, "back: %s", error.reason);
	return arena_memdup(&arena, text.bytes, text.size);
}

static const char *round_trip(const char *json)
{
	/* A copy without a byte to spare, so that sanitizers see who reads on. */
	size_t size = strlen(json);
	char *copy = malloc(size ? size : 1);
	const char *answer;

	for (size_t i = 0; i < size; i++)
		copy[i] = json[i];
	answer = round_trip_sized(copy, size);
	free(copy);
	return answer;
}

static const struct {
	const char *json, *expected; /* NULL: the same again */
} taken[] = {
	{"{}", NULL},
	{" \t\r\n{ } ", "{}"},
	{"{\"aString\":\"x\"}", NULL},
	{"{\"a_string\":\"x\"}", "{\"aString\":\"x\"}"},
	{"{\"other\":\"x\"}", NULL},
	{"{\"renamed\":\"x\"}", "{\"other\":\"x\"}"},
	{"{\"aString\":null,\"ints\":null,\"inner\":null,\"counts\":null}", "{}"},
	{"{\"anInt32\":\"-17\"}", "{\"anInt32\":-17}"},
	{"{\"anInt32\":1.0}", "{\"anInt32\":1}"},
	{"{\"anInt32\":1.50e1}", "{\"anInt32\":15}"},
	{"{\"anInt32\":2000e-3}", "{\"anInt32\":2}"},
	{"{\"anInt32\":0.000e99999}", "{}"},
	{"{\"anInt32\":1.00000000000000000000000000000000}", "{\"anInt32\":1}"},
	{"{\"anInt64\":\"-9223372036854775808\"}", NULL},
	{"{\"anInt64\":9223372036854775807}", "{\"anInt64\":\"9223372036854775807\"}"},
	{"{\"aUint64\":18446744073709551615}", "{\"aUint64\":\"18446744073709551615\"}"},
	{"{\"aUint32\":4294967295,\"anInt32\":-2147483648}",
	 "{\"anInt32\":-2147483648,\"aUint32\":4294967295}"},
	{"{\"anSint32\":-2147483648,\"anSint64\":\"-9223372036854775808\"}", NULL},
	{"{\"aDouble\":\"NaN\",\"aFloat\":\"-Infinity\"}", NULL},
	{"{\"aDouble\":\"1.5e3\",\"aFloat\":0.1}", "{\"aDouble\":1500,\"aFloat\":0.1}"},
	{"{\"aDouble\":-0.0}", "{\"aDouble\":-0}"},
	{"{\"aFloat\":3.4028235e38}", "{\"aFloat\":3.4028235e+38}"},
	{"{\"aBool\":true,\"bools\":[false,true]}", NULL},
	{"{\"someBytes\":\"-_-_\"}", "{\"someBytes\":\"+/+/\"}"},
	{"{\"someBytes\":\"AA\"}", "{\"someBytes\":\"AA==\"}"},
	{"{\"someBytes\":\"AAA=\"}", NULL},
	{"{\"colour\":\"COLOUR_BLUE\"}", NULL},
	{"{\"colour\":5}", "{\"colour\":\"COLOUR_BLUE\"}"},
	{"{\"colour\":\"-3\"}", "{\"colour\":\"COLOUR_BELOW\"}"},
	{"{\"colour\":77}", NULL},
	{"{\"maybe\":0}", NULL},
	{"{\"chosenText\":\"\"}", NULL},
	{"{\"chosenText\":null,\"chosenNumber\":3}", "{\"chosenNumber\":3}"},
	{"{\"chosenNull\":null}", NULL},
	{"{\"inner\":{}}", NULL},
	{"{\"inner\":{\"name\":\"a\",\"inner\":{\"count\":2}}}", NULL},
	{"{\"inners\":[{},{\"count\":1}],\"strings\":[\"\",\"x\"]}",
	 "{\"strings\":[\"\",\"x\"],\"inners\":[{},{\"count\":1}]}"},
	{"{\"ints\":[]}", "{}"},
	{"{\"counts\":{\"a\":1,\"\":0}}", NULL},
	{"{\"byNumber\":{\"-5\":{\"count\":1}}}", NULL},
	{"{\"byBool\":{\"true\":\"COLOUR_RED\"}}", NULL},
	{"{\"at\":\"2026-01-31T20:00:00Z\"}", NULL},
	{"{\"at\":\"2026-01-31T22:00:00.5+02:00\"}", "{\"at\":\"2026-01-31T20:00:00.500Z\"}"},
	{"{\"at\":\"0001-01-01T00:00:00Z\"}", NULL},
	{"{\"at\":\"9999-12-31T23:59:59.999999999Z\"}", NULL},
	{"{\"at\":\"2024-02-29T00:00:00Z\"}", NULL},
	{"{\"lasts\":\"-1.000001s\"}", NULL},
	{"{\"lasts\":\"-0.5s\"}", "{\"lasts\":\"-0.500s\"}"},
	{"{\"lasts\":\"315576000000s\"}", NULL},
	{"{\"mask\":\"aB.cD,e\"}", NULL},
	{"{\"object\":{\"a\":[1,null,{\"b\":\"c\"}],\"d\":true}}", NULL},
	{"{\"value\":null}", NULL},
	{"{\"list\":[1,\"x\",[]]}", NULL},
	{"{\"values\":[null,1]}", NULL},
	{"{\"valueMap\":{\"a\":null}}", NULL},
	{"{\"int64Value\":\"0\",\"boolValue\":false}", NULL},
	{"{\"int64Value\":null}", "{}"},
	{"{\"any\":{}}", NULL},
	{"{\"any\":{\"count\":3,\"@type\":\"t/stampede.tests.Inner\"}}",
	 "{\"any\":{\"@type\":\"t/stampede.tests.Inner\",\"count\":3}}"},
	{"{\"any\":{\"@type\":\"t/google.protobuf.Duration\",\"value\":\"2s\"}}", NULL},
	{"{\"aString\":\"\\u00e4\\uD83C\\uDF89\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
	 "{\"aString\":\"ä🎉\\\"\\\\/\\b\\f\\n\\r\\t\"}"},
	{"{\"aString\":\"\\u001f\\u007f\"}", NULL},
	{"{\"\\u0061String\":\"x\"}", "{\"aString\":\"x\"}"},
};

static const struct {
	const char *json, *error;
} refused[] = {
	{"", ": malformed JSON at byte 0: expected a value, got the end"},
	{"[]", ": expected an object, got an array"},
	{"null", ": expected an object, got null"},
	{"{", ": malformed JSON at byte 1: expected a key in quotes"},
	{"{}x", ": malformed JSON at byte 2: expected the end after the value"},
	{"{\"aString\"", ": malformed JSON at byte 10: expected ':'"},
	{"{\"aString\":}", ": malformed JSON at byte 11: expected a value"},
	{"{\"aString\":\"x}", ": malformed JSON at byte 11: a string without its closing quote"},
	{"{\"aString\":\"x\\", ": malformed JSON at byte 11: a string without its closing quote"},
	{"{\"aString\":\"x\",}", ": malformed JSON at byte 15: expected a key in quotes"},
	{"{\"aString\":\"x\" \"b\":1}", ": malformed JSON at byte 15: expected ',' or '}'"},
	{"{aString:1}", ": malformed JSON at byte 1: expected a key in quotes"},
	{"{\"ints\":[1,]}", ": malformed JSON at byte 11: expected a value"},
	{"{\"ints\":[1 2]}", ": malformed JSON at byte 11: expected ',' or ']'"},
	{"{\"anInt32\":01}", ": malformed JSON at byte 11: a malformed number"},
	{"{\"anInt32\":1.}", ": malformed JSON at byte 13: expected a digit after the point"},
	{"{\"anInt32\":-}", ": malformed JSON at byte 12: expected a digit"},
	{"{\"anInt32\":+1}", ": malformed JSON at byte 11: expected a value"},
	{"{\"anInt32\":1e}", ": malformed JSON at byte 13: expected a digit in the exponent"},
	{"{\"aBool\":tru}", ": malformed JSON at byte 9: expected a value"},
	{"{\"aBool\":NaN}", ": malformed JSON at byte 9: expected a value"},
	{"{\"aString\":\"a\nb\"}", ": malformed JSON at byte 13: a control character in a string"},
	{"{\"aString\":\"\\x\"}", ": malformed JSON at byte 12: unknown escape"},
	{"{\"aString\":\"\\u12g4\"}",
	 ": malformed JSON at byte 14: expected four hexadecimal digits after \\u"},
	{"{\"aString\":\"\\uD83C\"}",
	 ": malformed JSON at byte 12: a surrogate without its other half"},
	{"{\"aString\":\"\\uDC00\"}",
	 ": malformed JSON at byte 12: a surrogate without its other half"},
	{"{\"aString\":\"\xff\"}", ": malformed JSON at byte 12: a string that is not valid UTF-8"},
	{"{\"aString\":\"\xc0\x80\"}",
	 ": malformed JSON at byte 12: a string that is not valid UTF-8"},
	{"{\"aString\":\"\\u0000\"}", "a_string: must not contain U+0000"},
	{"{\"aString\":5}", "a_string: expected a string, got 5"},
	{"{\"nobody\":5}", "nobody: unknown field"},
	{"{\"inner\":{\"nobody\":5}}", "inner.nobody: unknown field"},
	{"{\"inners\":[{},{\"count\":\"x\"}]}",
	 "inners[1].count: expected a 32-bit integer, got \"x\""},
	{"{\"anInt32\":\"abc\"}", "an_int32: expected a 32-bit integer, got \"abc\""},
	{"{\"anInt32\":\"\"}", "an_int32: expected a 32-bit integer, got \"\""},
	{"{\"anInt32\":\" 1\"}", "an_int32: expected a 32-bit integer, got \" 1\""},
	{"{\"anInt32\":1.5}", "an_int32: expected a 32-bit integer, got 1.5"},
	{"{\"anInt32\":2147483648}", "an_int32: expected a 32-bit integer, got 2147483648"},
	{"{\"anInt32\":1e10}", "an_int32: expected a 32-bit integer, got 1e10"},
	{"{\"anInt32\":1e99999999999}", "an_int32: expected a 32-bit integer, got 1e99999999999"},
	{"{\"anInt32\":true}", "an_int32: expected a 32-bit integer, got true"},
	{"{\"anInt32\":{}}", "an_int32: expected a 32-bit integer, got an object"},
	{"{\"aUint32\":-1}", "a_uint32: expected an unsigned 32-bit integer, got -1"},
	{"{\"aUint64\":18446744073709551616}",
	 "a_uint64: expected an unsigned 64-bit integer, got 18446744073709551616"},
	{"{\"anInt64\":\"9223372036854775808\"}",
	 "an_int64: expected a 64-bit integer, got \"9223372036854775808\""},
	{"{\"aDouble\":1e999}", "a_double: expected a number, got 1e999"},
	{"{\"aDouble\":\"0x10\"}", "a_double: expected a number, got \"0x10\""},
	{"{\"aDouble\":\"inf\"}", "a_double: expected a number, got \"inf\""},
	{"{\"aFloat\":1e39}", "a_float: expected a number in the range of a float, got 1e39"},
	{"{\"aBool\":\"true\"}", "a_bool: expected true or false, got \"true\""},
	{"{\"aBool\":1}", "a_bool: expected true or false, got 1"},
	{"{\"someBytes\":\"A\"}", "some_bytes: is not base64"},
	{"{\"someBytes\":\"A A=\"}", "some_bytes: is not base64"},
	{"{\"someBytes\":\"A===\"}", "some_bytes: is not base64"},
	{"{\"colour\":\"GREEN\"}",
	 "colour: expected a name of stampede.tests.Colour, got \"GREEN\""},
	{"{\"colour\":1.5}", "colour: expected a name of stampede.tests.Colour, got 1.5"},
	{"{\"aString\":\"x\",\"aString\":\"y\"}", "a_string: is there twice"},
	{"{\"aString\":\"x\",\"a_string\":\"y\"}", "a_string: is there twice"},
	{"{\"counts\":{\"a\":1,\"a\":2}}", "counts[\"a\"]: is there twice"},
	{"{\"counts\":{\"a\":null}}", "counts[\"a\"]: must not be null"},
	{"{\"counts\":[]}", "counts: expected an object, got an array"},
	{"{\"byNumber\":{\"x\":{}}}", "by_number[\"x\"]: expected a 64-bit integer, got \"x\""},
	{"{\"byBool\":{\"1\":1}}", "by_bool[\"1\"]: expected true or false, got \"1\""},
	{"{\"ints\":5}", "ints: expected an array, got 5"},
	{"{\"ints\":[null]}", "ints[0]: must not be null"},
	{"{\"ints\":[1,\"b\"]}", "ints[1]: expected a 32-bit integer, got \"b\""},
	{"{\"inner\":[]}", "inner: expected an object, got an array"},
	{"{\"chosenText\":\"\",\"chosenNumber\":1}",
	 "chosen_number: only one of chosen_text and chosen_number may be set"},
	{"{\"at\":\"2026-01-31\"}",
	 "at: expected a time such as \"2026-01-31T20:00:00Z\", got \"2026-01-31\""},
	{"{\"at\":\"2026-02-29T00:00:00Z\"}",
	 "at: expected a time such as \"2026-01-31T20:00:00Z\", got \"2026-02-29T00:00:00Z\""},
	{"{\"at\":5}", "at: expected a time such as \"2026-01-31T20:00:00Z\", got 5"},
	{"{\"lasts\":\"1\"}", "lasts: expected a duration such as \"1.5s\", got \"1\""},
	{"{\"lasts\":\"1.s\"}", "lasts: expected a duration such as \"1.5s\", got \"1.s\""},
	{"{\"lasts\":\"315576000001s\"}",
	 "lasts: expected a duration such as \"1.5s\", got \"315576000001s\""},
	{"{\"lasts\":\"0.1234567891s\"}",
	 "lasts: expected a duration such as \"1.5s\", got \"0.1234567891s\""},
	{"{\"mask\":\"a_b\"}", "mask: is not a field mask in camel case"},
	{"{\"mask\":\"a,,b\"}", "mask: has an empty path"},
	{"{\"object\":{\"a\":1,\"a\":1}}", "object[\"a\"]: is there twice"},
	{"{\"any\":{\"count\":3}}", "any: needs an @type"},
	{"{\"any\":{\"@type\":\"t/nobody\"}}",
	 "any: expected a known type's URL in @type, got \"t/nobody\""},
	{"{\"any\":{\"@type\":\"t/stampede.tests.Inner\",\"x\":3}}", "any.x: unknown field"},
	{"{\"any\":{\"@type\":\"t/google.protobuf.Duration\"}}", "any: needs a value"},
};

START_TEST(takes_every_spelling)
{
	const char *expected = taken[_i].expected ? taken[_i].expected : taken[_i].json;

	ck_assert_str_eq(round_trip(taken[_i].json), expected);
}
END_TEST

START_TEST(names_what_is_wrong)
{
	ck_assert_str_eq(round_trip(refused[_i].json), refused[_i].error);
}
END_TEST

START_TEST(refuses_what_is_nested_too_deeply)
{
	char json[4096] = "";

	for (int i = 0; i < 40; i++)
		strcat(json, "{\"inner\":");
	ck_assert_ptr_nonnull(strstr(round_trip(json), "nested more than 32 deep"));
	strcpy(json, "{\"list\":");
	for (int i = 0; i < 1000; i++)
		strcat(json, "[");
	ck_assert_ptr_nonnull(strstr(round_trip(json), "nested more than 32 deep"));
	strcpy(json, "{\"any\":{\"a\":");
	for (int i = 0; i < 1000; i++)
		strcat(json, "[");
	ck_assert_ptr_nonnull(strstr(round_trip(json), "nested too deeply"));
}
END_TEST

START_TEST(shows_defaults_unless_told_not_to)
{
	const struct message_type *inner = schema_message(schema, "stampede.tests.Inner");
	struct transcode_options options = {0};
	struct transcode_error error;
	struct buffer text;

	buffer_init(&text, &arena, 1, 1000);
	ck_assert(wire_to_json(schema, inner, &options, NULL, 0, &text, &error));
	ck_assert_mem_eq(text.bytes, "{\"name\":\"\",\"count\":0}", text.size);
	/* Lists and maps too; what has presence not. */
	buffer_init(&text, &arena, 1, 100000);
	ck_assert(wire_to_json(schema, kinds, &options, NULL, 0, &text, &error));
	buffer_byte(&text, 0);
	ck_assert_ptr_nonnull(strstr((char *)text.bytes, "\"ints\":[]"));
	ck_assert_ptr_nonnull(strstr((char *)text.bytes, "\"counts\":{}"));
	ck_assert_ptr_nonnull(strstr((char *)text.bytes, "\"colour\":\"COLOUR_UNSPECIFIED\""));
	ck_assert_ptr_null(strstr((char *)text.bytes, "chosen"));
	ck_assert_ptr_null(strstr((char *)text.bytes, "maybe"));
	ck_assert_ptr_null(strstr((char *)text.bytes, "\"inner\""));
}
END_TEST

/* JSON of the Kinds that these bytes are, without defaults. */
static const char *shown(const void *bytes, size_t size)
{
	struct transcode_options options = {.hide_defaults = true};
	struct transcode_error error;
	struct buffer text;

	buffer_init(&text, &arena, 1, 1000);
	if (!wire_to_json(schema, kinds, &options, bytes, size, &text, &error))
		return error.reason;
	return arena_memdup(&arena, text.bytes, text.size);
}
#define SHOWN(bytes) shown(bytes, sizeof(bytes) - 1)

START_TEST(reads_the_wire_as_protobuf_does)
{
	/* Of several values the last; of a oneof the last member; unknown fields and wrong types
	 * are passed over. */
	ck_assert_str_eq(SHOWN("\x28\x01\x28\x02"), "{\"anInt32\":2}");
	ck_assert_str_eq(SHOWN("\xca\x02\x01x\xd0\x02\x05"), "{\"chosenNumber\":5}");
	ck_assert_str_eq(SHOWN("\xd0\x02\x05\xca\x02\x01x"), "{\"chosenText\":\"x\"}");
	ck_assert_str_eq(SHOWN("\xc0\x3e\x05\x28\x01"), "{\"anInt32\":1}");
	ck_assert_str_eq(SHOWN("\x2a\x01x"), "{}");
	/* A message in two pieces is one. */
	ck_assert_str_eq(SHOWN("\x8a\x01\x03\x0a\x01"
			       "a\x8a\x01\x02\x10\x07"),
			 "{\"inner\":{\"name\":\"a\",\"count\":7}}");
	/* Packed and loose, mixed. */
	ck_assert_str_eq(SHOWN("\xb2\x01\x02\x01\x02\xb0\x01\x03"), "{\"ints\":[1,2,3]}");
	/* Of equal keys the last; a missing value is its default. */
	ck_assert_str_eq(SHOWN("\xfa\x01\x05\x0a\x01"
			       "a\x10\x01\xfa\x01\x03\x0a\x01"
			       "b\xfa\x01\x05\x0a\x01"
			       "a\x10\x02"),
			 "{\"counts\":{\"b\":0,\"a\":2}}");
}
END_TEST

START_TEST(refuses_damaged_bytes)
{
	static const char damaged[] = "these bytes are not a stampede.tests.Kinds";

	ck_assert_str_eq(SHOWN("\x28"), damaged);
	ck_assert_str_eq(SHOWN("\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), damaged);
	ck_assert_str_eq(SHOWN("\x4a\x05x"), damaged);
	ck_assert_str_eq(SHOWN("\x09\x05"), damaged);
	ck_assert_str_eq(SHOWN("\x0b"), damaged);
	ck_assert_str_eq(SHOWN("\x01\x01"), damaged);
	ck_assert_str_eq(SHOWN("\x4a\x01\xff"), "the answer has a string that is not UTF-8");
}
END_TEST

START_TEST(keeps_to_the_maximum)
{
	struct transcode_options options = {0};
	struct transcode_error error;
	struct buffer out;
	uint8_t many[2000];

	for (size_t i = 0; i < sizeof(many); i += 2) {
		/* inners = 27: tag is two bytes, so three with the length: use strings = 24
		 * likewise */
		many[i] = 0x28;
		many[i + 1] = 1;
	}
	buffer_init(&out, &arena, 16, 64);
	ck_assert(!wire_to_json(schema, kinds, &options, many, sizeof(many), &out, &error));
	ck_assert_int_eq(error.status, STATUS_RESOURCE_EXHAUSTED);
	buffer_init(&out, &arena, 16, 16);
	ck_assert(!json_to_wire(schema, kinds, "{\"aString\":\"0123456789abcdef\"}", 30, NULL, 0,
				&out, &error));
	ck_assert_int_eq(error.status, STATUS_RESOURCE_EXHAUSTED);
}
END_TEST

static const char *from_text(const char *path, const char *text)
{
	struct transcode_error error;
	const struct field_type *field;
	struct buffer wire;

	buffer_init(&wire, &arena, 1, 1000);
	if (!text_to_wire(schema, kinds, path, strlen(path), text, strlen(text), &wire, &field,
			  &error))
		return arena_printf(&arena, "%s: %s", error.field, error.reason);
	return shown(wire.bytes, wire.size);
}

START_TEST(reads_fields_from_a_url)
{
	ck_assert_str_eq(from_text("a_string", "x y"), "{\"aString\":\"x y\"}");
	ck_assert_str_eq(from_text("aBool", "true"), "{\"aBool\":true}");
	ck_assert_str_eq(from_text("ints", "7"), "{\"ints\":[7]}");
	ck_assert_str_eq(from_text("loose", "7"), "{\"loose\":[\"7\"]}");
	ck_assert_str_eq(from_text("strings", ""), "{\"strings\":[\"\"]}");
	ck_assert_str_eq(from_text("inner.inner.count", "5"),
			 "{\"inner\":{\"inner\":{\"count\":5}}}");
	ck_assert_str_eq(from_text("at", "2026-01-31T20:00:00Z"),
			 "{\"at\":\"2026-01-31T20:00:00Z\"}");
	ck_assert_str_eq(from_text("int64Value", "0"), "{\"int64Value\":\"0\"}");
	ck_assert_str_eq(from_text("colour", "COLOUR_RED"), "{\"colour\":\"COLOUR_RED\"}");

	ck_assert_str_eq(from_text("inner.count", "x"),
			 "inner.count: expected a 32-bit integer, got \"x\"");
	ck_assert_str_eq(from_text("nobody", ""), "nobody: unknown field");
	ck_assert_str_eq(from_text("", ""), ": unknown field");
	ck_assert_str_eq(from_text("inner.", ""), "inner.: unknown field");
	ck_assert_str_eq(from_text("inner", ""), "inner: is a message: name a field of it");
	ck_assert_str_eq(from_text("ints.x", ""), "ints: has no fields that can be named");
	ck_assert_str_eq(from_text("counts", ""), "counts: cannot be given in a URL");
	ck_assert_str_eq(from_text("a_string", "\xff"), "a_string: must be valid UTF-8");
}
END_TEST

START_TEST(lets_the_body_repeat_the_path_but_not_contradict_it)
{
	const struct transcode_bound bound = {message_field(kinds, "a_string", 8),
					      (const uint8_t *)"\x4a\x01x", 3};
	static const char same[] = "{\"aString\":\"x\",\"anInt32\":1}",
			  other[] = "{\"aString\":\"y\"}";
	struct transcode_error error;
	struct buffer wire;

	buffer_init(&wire, &arena, 1, 1000);
	ck_assert(json_to_wire(schema, kinds, same, sizeof(same) - 1, &bound, 1, &wire, &error));
	ck_assert_str_eq(shown(wire.bytes, wire.size), "{\"anInt32\":1}");
	ck_assert(!json_to_wire(schema, kinds, other, sizeof(other) - 1, &bound, 1, &wire, &error));
	ck_assert_str_eq(error.field, "a_string");
	ck_assert_str_eq(error.reason, "differs from the one in the path");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transcoder");
	TCase *tests = tcase_create("transcoder");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_loop_test(tests, takes_every_spelling, 0, sizeof(taken) / sizeof(*taken));
	tcase_add_loop_test(tests, names_what_is_wrong, 0, sizeof(refused) / sizeof(*refused));
	tcase_add_test(tests, refuses_what_is_nested_too_deeply);
	tcase_add_test(tests, shows_defaults_unless_told_not_to);
	tcase_add_test(tests, reads_the_wire_as_protobuf_does);
	tcase_add_test(tests, refuses_damaged_bytes);
	tcase_add_test(tests, keeps_to_the_maximum);
	tcase_add_test(tests, reads_fields_from_a_url);
	tcase_add_test(tests, lets_the_body_repeat_the_path_but_not_contradict_it);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
