/* What the files of json_to_wire share: the state of one run, and where in the message it is. */
#pragma once

#include "gateway/json_reader.h"
#include "gateway/transcode.h"

struct encoder {
	struct json json;
	const struct schema *schema;
	struct buffer *out;
	struct transcode_error *error;
	bool plain_text; /* values come from a URL: everything is a string */
};

/* Where a value stands: a chain up to the body. One of field, key and index is set. */
struct place {
	const struct place *up;
	const struct field_type *field;
	const char *key; /* of a map or struct */
	size_t key_size;
	int64_t index; /* of a list */
};

/* All set the error and return false. */
bool encode_fail(struct encoder *encoder, const struct place *place, const char *format, ...)
	PRINTF(3, 4);
bool encode_expected(struct encoder *encoder, const struct place *place, const char *what,
		     const struct json_value *got);
bool encode_malformed(struct encoder *encoder);
bool encode_too_large(struct encoder *encoder);

/* One element's value, without its tag. Not for messages. */
bool encode_scalar(struct encoder *encoder, const struct field_type *field,
		   const struct place *place, const struct json_value *value);
/* The same from a double's text only. */
bool encode_double(struct encoder *encoder, const struct place *place,
		   const struct json_value *value);
/* A message's content, without tag and length. */
bool encode_message(struct encoder *encoder, const struct message_type *type,
		    const struct place *place, const struct json_value *value, int depth);
/* The members of an object that has been begun; "@type" is passed over when `any`. */
bool encode_members(struct encoder *encoder, const struct message_type *type,
		    const struct place *place, int depth, bool any);
/* The content of a message whose JSON is its own. */
bool encode_known(struct encoder *encoder, const struct message_type *type,
		  const struct place *place, const struct json_value *value, int depth);

/* Keys seen in one map: JSON allows each once. */
struct key_set;
struct key_set *key_set_create(struct arena *arena);
/* False when it was there. */
bool key_set_add(struct key_set *set, const char *key, size_t size);
