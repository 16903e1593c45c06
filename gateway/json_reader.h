/* JSON text, read piece by piece: no tree is built, and strings without escapes are not copied.
 *
 * RFC 8259, strictly: valid UTF-8, no lone surrogates, no comments, no trailing commas. What is
 * wrong is told with its byte offset.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/arena.h"

struct json {
	const char *text, *at, *end;
	struct arena *arena; /* for strings with escapes */
	/* Set when something is malformed. */
	const char *error;
	size_t error_offset;
};

enum json_kind {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER, /* text: the number as written */
	JSON_STRING, /* text: unescaped */
	JSON_ARRAY,  /* only its bracket has been read: json_element() follows */
	JSON_OBJECT, /* json_key() follows */
};

struct json_value {
	enum json_kind kind;
	const char *text;
	size_t size;
};

void json_init(struct json *json, const char *text, size_t size, struct arena *arena);
/* False, here and below: malformed. */
bool json_value(struct json *json, struct json_value *ret_value);
/* Before each member of an object: *ret_more says whether there is one, then its key. */
bool json_key(struct json *json, bool first, bool *ret_more, struct json_value *ret_key);
/* Before each element of an array. */
bool json_element(struct json *json, bool first, bool *ret_more);
/* Passes over what is left of a value that json_value() has begun. */
bool json_skip(struct json *json, const struct json_value *value, int depth_max);
/* Nothing but white space may be left. */
bool json_finish(struct json *json);

const char *json_kind_name(enum json_kind kind); /* "a string" */
