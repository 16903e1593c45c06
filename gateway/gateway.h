/* The gateway's parts, as they know each other.
 *
 *     HTTP ─► edge ─┬─► page                     static files
 *                   ├─► reserves ─► ReserveMany  many buyers, one call; sold_outs answers some itself
 *                   ├─► unary                    one request, one call
 *                   └─► events ─► watches        server streams as SSE, shared by those who watch the same
 */
#pragma once

#include "gateway/routes.h"
#include "gateway/settings.h"
#include "gateway/transcode.h"
#include "runtime/http.h"
#include "runtime/process.h"

/* Made at start for each route. */
struct edge_route {
	const struct route *route;
	struct channel_method *method;
	const struct field_type
		*request_id; /* which a header or we fill in; NULL: none, or not ours to make */
	const struct field_type *user_id;
	struct histogram *latency;
	struct counter *counts[6]; /* by class of HTTP status: 2 … 5 */
};

struct gateway {
	struct process *process;
	struct loop *loop;
	const struct gateway_settings *settings;
	struct schema *schema;
	struct transcode_options transcoding;
	struct routes *routes;
	struct edge_route *edge_routes; /* by route->index */
	struct backends *backends;
	struct proxy *proxy;
	struct http_server *http;
	struct limits *users, *addresses;
	struct reserves *reserves;
	struct sold_outs *sold_outs;
	struct watches *watches;
	struct events *events;
	char id_prefix[17]; /* of request ids made here */
	uint64_t ids_made;
};
