/* What every HTTP request goes through first.
 *
 *     route ─► deadline, trace ─► address's limit ─► message from path, query, body ─► request id ─► user's limit
 *           └─► none: the page, or 404            ─► reserves, unary or events
 */
#include "gateway/edge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/backends.h"
#include "gateway/cors.h"
#include "gateway/events.h"
#include "gateway/limits.h"
#include "gateway/page.h"
#include "gateway/request.h"
#include "gateway/reserves.h"
#include "gateway/unary.h"
#include "gateway/visit.h"

#define REQUEST_MAX (4 << 20)
#define TIMEOUT_MAX_US INT64_C(3600000000)

/* --- deadline and trace --------------------------------------------------------------------------- */

/* gRPC's "100m", or seconds as "2" and "0.5"; also "250ms" and "2s". False when it is neither. */
static bool timeout_read(const char *text, bool grpc, int64_t *ret_us)
{
	static const struct {
		const char *unit;
		double us;
		bool grpc;
	} units[] = {{"H", 3.6e9, true}, {"M", 6e7, true},  {"S", 1e6, true}, {"m", 1e3, true},
		     {"u", 1, true},	 {"n", 1e-3, true}, {"", 1e6, false}, {"s", 1e6, false},
		     {"ms", 1e3, false}, {"m", 6e7, false}};
	size_t digits = strspn(text, grpc ? "0123456789" : "0123456789.");
	double number;
	char *end;

	if (!digits || digits > 10)
		return false;
	number = strtod(text, &end);
	if (end != text + digits)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (units[i].grpc != grpc || strcmp(units[i].unit, end) != 0)
			continue;
		number *= units[i].us;
		*ret_us = number < (double)TIMEOUT_MAX_US ? (int64_t)number : TIMEOUT_MAX_US;
		return true;
	}
	return false;
}

static bool deadline_set(struct visit *visit)
{
	const char *grpc = http_header(visit->exchange, "Grpc-Timeout");
	const char *text = grpc ? grpc : http_header(visit->exchange, "X-Request-Timeout");
	struct transcode_error error = {STATUS_INVALID_ARGUMENT,
					grpc ? "Grpc-Timeout" : "X-Request-Timeout",
					grpc ? "expected a number and one of H, M, S, m, u, n"
					     : "expected seconds, or a number and ms, s or m"};
	int64_t timeout_us = visit->gateway->settings->timeout_ms * 1000;

	visit->deadlined = text;
	if (text && !timeout_read(text, grpc, &timeout_us)) {
		visit_refuse_field(visit, &error);
		return false;
	}
	if (!timeout_us) {
		visit_refuse(visit, STATUS_DEADLINE_EXCEEDED, "the deadline has passed already");
		return false;
	}
	visit->deadline_us = visit->started_us + timeout_us;
	return true;
}

static void trace_set(struct visit *visit)
{
	const char *text = http_header(visit->exchange, "traceparent");
	struct trace parent;

	visit->traced = text && trace_parse(text, &parent);
	visit->trace = visit->traced ? trace_child(&parent) : trace_make();
}

/* --- limits --------------------------------------------------------------------------------------- */

static bool limit_passed(const struct visit *visit, struct limits *limits, const char *key,
			 size_t size, const char *message)
{
	int64_t wait_us = limits_take(limits, key, size, visit->started_us);

	if (wait_us)
		visit_refuse_retry(visit, STATUS_RESOURCE_EXHAUSTED, wait_us, message);
	return !wait_us;
}

/* Behind a proxy that can be trusted, the last address it names. */
static const char *address_of(const struct visit *visit)
{
	const char *forwarded = visit->gateway->settings->trust_forwarded
					? http_header(visit->exchange, "X-Forwarded-For")
					: NULL;
	const char *comma;

	if (!forwarded)
		return http_peer(visit->exchange);
	comma = strrchr(forwarded, ',');
	return comma ? comma + 1 + strspn(comma + 1, " ") : forwarded;
}

static bool address_passed(const struct visit *visit)
{
	const char *address;

	if (!visit->gateway->addresses)
		return true;
	address = address_of(visit);
	return limit_passed(visit, visit->gateway->addresses, address, strlen(address),
			    "too many requests from this address");
}

static bool user_passed(const struct visit *visit, const struct buffer *message)
{
	struct wire_field user;

	if (!visit->gateway->users || !visit->route->user_id ||
	    !wire_find(message->bytes, message->size, visit->route->user_id->number, WIRE_BYTES,
		       &user))
		return true;
	return limit_passed(visit, visit->gateway->users, (const char *)user.bytes, user.size,
			    "too many requests of this user");
}

/* --- the request's id ----------------------------------------------------------------------------- */

static const char *id_make(struct gateway *gateway, char text[40])
{
	snprintf(text, 40, "%s%016llx", gateway->id_prefix,
		 (unsigned long long)gateway->ids_made++);
	return text;
}

/* Where the body has none, the header's; where there is none either, one of our own. False: refused. */
static bool id_set(const struct visit *visit, struct buffer *message, bool *ret_own)
{
	const struct field_type *field = visit->route->request_id, *set;
	struct transcode_error error;
	struct wire_field id;
	const char *text;
	char made[40];

	*ret_own = false;
	if (!field ||
	    (wire_find(message->bytes, message->size, field->number, WIRE_BYTES, &id) && id.size))
		return true;
	text = http_header(visit->exchange, "Idempotency-Key");
	*ret_own = !text || !*text;
	if (*ret_own)
		text = id_make(visit->gateway, made);
	if (text_to_wire(visit->gateway->schema, visit->route->route->request, field->name,
			 field->name_size, text, strlen(text), message, &set, &error))
		return true;
	visit_refuse_field(visit, &error);
	return false;
}

/* --- the message ---------------------------------------------------------------------------------- */

struct query {
	struct request *request;
	bool good;
};

static void query_take(void *context, const char *name, const char *value)
{
	struct query *query = context;

	query->good = query->good && request_query(query->request, name, value);
}

static bool message_read(const struct visit *visit, const struct route_match *match,
			 struct buffer *message)
{
	struct request request;
	struct query query = {&request, true};
	const char *body;
	size_t size;

	buffer_init(message, http_arena(visit->exchange), 256, REQUEST_MAX);
	body = http_body(visit->exchange, &size);
	if (request_begin(&request, visit->gateway->schema, match, message)) {
		http_query(visit->exchange, query_take, &query);
		if (query.good && request_body(&request, body, size))
			return true;
	}
	visit_refuse_field(visit, &request.error);
	return false;
}

/* --- the request ---------------------------------------------------------------------------------- */

static void matched(struct visit *visit, const struct route_match *match)
{
	struct gateway *gateway = visit->gateway;
	struct buffer message;
	bool own_id;

	visit->route = &gateway->edge_routes[match->route->index];
	trace_set(visit);
	if (!deadline_set(visit) || !address_passed(visit) ||
	    !message_read(visit, match, &message) || !id_set(visit, &message, &own_id) ||
	    !user_passed(visit, &message))
		return;
	if (match->route->server_streaming)
		events_start(visit, message.bytes, message.size);
	else if (reserves_route(gateway->reserves, visit->route))
		reserves_start(gateway->reserves, visit, message.bytes, message.size, own_id);
	else
		unary_start(visit, message.bytes, message.size);
}

static void not_found(struct visit *visit, const char *method, const char *path)
{
	struct arena *arena = http_arena(visit->exchange);

	if (page_serve(visit->gateway, visit->exchange))
		return;
	visit->trace = trace_make();
	visit_refuse(visit, STATUS_NOT_FOUND,
		     strlen(path) < 200 ? arena_printf(arena, "no route for %s %s", method, path)
					: "no route for this path");
}

void edge_request(void *self, struct http_exchange *exchange)
{
	struct gateway *gateway = self;
	struct visit visit = {
		.gateway = gateway, .exchange = exchange, .started_us = loop_now_us(gateway->loop)};
	const char *method = http_method(exchange), *path = http_path(exchange), *allow;
	struct route_match match;

	if (gateway->settings->cors_origins && cors_handle(gateway->settings, exchange))
		return;
	switch (routes_match(gateway->routes, method, path, strlen(path), http_arena(exchange),
			     &match, &allow)) {
	case ROUTE_FOUND:
		matched(&visit, &match);
		break;
	case ROUTE_OTHER_METHOD:
		http_add_header(exchange, "Allow", allow);
		http_respond_error(exchange, 405, "this path has other methods: see Allow");
		break;
	case ROUTE_MALFORMED:
		http_respond_error(exchange, STATUS_INVALID_ARGUMENT,
				   "the path has a malformed percent sign");
		break;
	default:
		not_found(&visit, method, path);
	}
}

/* --- the table ------------------------------------------------------------------------------------ */

static const struct field_type *text_field(const struct message_type *type, const char *name)
{
	const struct field_type *field = message_field(type, name, strlen(name));

	return field && field->kind == FIELD_STRING && !field->repeated ? field : NULL;
}

static void route_make(struct gateway *gateway, struct edge_route *edge, const struct route *route)
{
	struct metrics *metrics = gateway->process->metrics;
	struct channel *channel = route->server_streaming
					  ? backends_stream_channel(gateway->backends, route->rpc)
					  : backends_channel(gateway->backends, route->rpc);
	char labels[256];

	assert(channel);
	edge->route = route;
	edge->method = channel_method(channel, route->rpc);
	/* A GET that names a request id asks about it. */
	if (strcmp(route->http_method, "GET") != 0)
		edge->request_id = text_field(route->request, "request_id");
	edge->user_id = text_field(route->request, "user_id");
	snprintf(labels, sizeof(labels), "method=\"%s\"", route->method);
	edge->latency = metrics_histogram(metrics, "stampede_gateway_request_seconds",
					  "From the whole request to its answer.", labels);
	for (int i = 2; i < 6; i++) {
		snprintf(labels, sizeof(labels), "method=\"%s\",status=\"%dxx\"", route->method, i);
		edge->counts[i] = metrics_counter(metrics, "stampede_gateway_requests_total",
						  "HTTP requests answered.", labels);
	}
}

void edge_routes_make(struct gateway *gateway)
{
	int count = routes_count(gateway->routes);

	gateway->edge_routes = calloc((size_t)count, sizeof(*gateway->edge_routes));
	assert(gateway->edge_routes);
	for (int i = 0; i < count; i++)
		route_make(gateway, &gateway->edge_routes[i], routes_at(gateway->routes, i));
}
