/* JSON ⇄ protobuf's wire format, by descriptor, without an intermediate message: canonical proto3
 * JSON.
 *
 *     JSON text ──json_to_wire()──► bytes of the request        bytes of the answer
 * ──wire_to_json()──► JSON text
 *
 * Pure functions over arenas. What is refused is told by field (in proto spelling, with its path)
 * and reason. Where we differ from the canonical mapping, gateway/README.md says so.
 */
#pragma once

#include "gateway/buffer.h"
#include "gateway/schema.h"
#include "runtime/status.h"

#define TRANSCODE_DEPTH_MAX 32

struct transcode_error {
	enum status status;
	const char *field;  /* "jobs[3].due_at"; "" when it concerns the whole body */
	const char *reason; /* expected a 32-bit integer, got "abc" */
};

/* A field the path has set already, encoded with its tag: the body may repeat it but not contradict
 * it. */
struct transcode_bound {
	const struct field_type *field;
	const uint8_t *bytes;
	size_t size;
};

/* A whole message from a JSON object. `out` and what the error points at are in out->arena. */
bool json_to_wire(const struct schema *schema, const struct message_type *type, const char *json,
		  size_t size, const struct transcode_bound *bound, int bound_count,
		  struct buffer *out, struct transcode_error *reterr) MUST_USE;
/* One field of a message, with its tag, from a JSON value. */
bool json_field_to_wire(const struct schema *schema, const struct field_type *field,
			const char *json, size_t size, struct buffer *out,
			struct transcode_error *reterr) MUST_USE;
/* One field, given by its dotted path in either spelling, from plain text: the query, the URL's
 * path. *ret_field is the outermost. Of a list this is one element. */
bool text_to_wire(const struct schema *schema, const struct message_type *type, const char *path,
		  size_t path_size, const char *text, size_t size, struct buffer *out,
		  const struct field_type **ret_field, struct transcode_error *reterr) MUST_USE;

struct transcode_options {
	bool hide_defaults; /* leave fields without presence out when they are zero or empty */
};
/* Fails with STATUS_INTERNAL when the bytes are not that message, RESOURCE_EXHAUSTED beyond
 * out->max. */
bool wire_to_json(const struct schema *schema, const struct message_type *type,
		  const struct transcode_options *options, const uint8_t *bytes, size_t size,
		  struct buffer *out, struct transcode_error *reterr) MUST_USE;
