/* What the files of wire_to_json share. */
#pragma once

#include "gateway/transcode.h"

/* Slots under way at once, over all levels: bounds what nesting costs. */
#define SLOTS_MAX 1024

/* What was found of one field. */
struct slot {
	const uint8_t *first, *end; /* from the tag of the first to the end of the last */
	const uint8_t *bytes;	    /* the last one's, when length-delimited */
	uint64_t value;		    /* the last one's, or its size */
	uint32_t count;
};

struct decoder {
	const struct schema *schema;
	const struct transcode_options *options;
	struct buffer *out;
	struct transcode_error *error;
	int slots_used;
	struct slot slots[SLOTS_MAX];
};

/* All set the error and return false. */
bool decode_damaged(struct decoder *decoder, const struct message_type *type);
bool decode_too_large(struct decoder *decoder);
bool decode_too_deep(struct decoder *decoder);

bool decode_message(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		    size_t size, int depth);
/* The members without braces; *first says whether a comma is needed. */
bool decode_members(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		    size_t size, int depth, bool first);
/* The value of one field as it stands in the message's bytes, or its default: a list or map in
 * brackets, or the last value. */
bool decode_only(struct decoder *decoder, const struct message_type *type,
		 const struct field_type *field, const uint8_t *bytes, size_t size, int depth);
/* One value; messages too. `value` is the size of `bytes` when they count. */
bool decode_value(struct decoder *decoder, const struct field_type *field, uint64_t value,
		  const uint8_t *bytes, int depth);
bool decode_known(struct decoder *decoder, const struct message_type *type, const uint8_t *bytes,
		  size_t size, int depth);
