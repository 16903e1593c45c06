/* An HTTP request as the bytes of its RPC's message: path, then query, then body.
 *
 *     request_begin() ─► request_query() for each parameter ─► request_body()
 *
 * Each returns false when what it was given is wrong, and says so in `error`.
 */
#pragma once

#include "gateway/routes.h"
#include "gateway/transcode.h"

struct key_set;

struct request {
	const struct schema *schema;
	const struct route *route;
	struct buffer *out;
	struct transcode_error error;
	struct transcode_bound bound[TEMPLATE_FIELDS_MAX];
	int bound_count;
	struct key_set *names; /* of the query */
};

bool request_begin(struct request *request, const struct schema *schema,
		   const struct route_match *match, struct buffer *out) MUST_USE;
bool request_query(struct request *request, const char *name, const char *value) MUST_USE;
/* Without a body nothing is taken from it; an empty one is an empty object. */
bool request_body(struct request *request, const char *body, size_t size) MUST_USE;
