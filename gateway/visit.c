/* Answers: messages as JSON, errors as google.rpc.Status in JSON with the HTTP status that belongs to their code. */
#include "gateway/visit.h"

#include <stdio.h>

#include "gateway/json_writer.h"
#include "gateway/wire.h"

#define JSON_MAX (16 << 20)
static const char json_type[] = "application/json";

/* --- before every answer -------------------------------------------------------------------------- */

static void count(const struct visit *visit, int http_status)
{
	const struct edge_route *route = visit->route;

	if (!route)
		return;
	histogram_record_us(route->latency, loop_now_us(visit->gateway->loop) - visit->started_us);
	if (http_status >= 200 && http_status < 600)
		route->counts[http_status / 100]->value++;
}

static void prepare(const struct visit *visit, int http_status)
{
	char text[TRACE_TEXT_SIZE];

	http_set_context(visit->exchange, NULL, NULL);
	count(visit, http_status);
	if (!visit->traced && http_status < 400)
		return;
	trace_format(&visit->trace, text);
	http_add_header(visit->exchange, "traceparent", text);
}

void visit_answer(const struct visit *visit, int http_status, const char *json, size_t size)
{
	prepare(visit, http_status);
	http_respond(visit->exchange, http_status, json_type, json, size);
}

void visit_answer_static(const struct visit *visit, int http_status, const char *json, size_t size)
{
	prepare(visit, http_status);
	http_respond_static(visit->exchange, http_status, json_type, json, size);
}

void visit_answer_message(const struct visit *visit, const uint8_t *bytes, size_t size)
{
	const struct gateway *gateway = visit->gateway;
	struct transcode_error error;
	struct buffer out;

	buffer_init(&out, http_arena(visit->exchange), 512, JSON_MAX);
	if (wire_to_json(gateway->schema, visit->route->route->response, &gateway->transcoding,
			 bytes, size, &out, &error))
		visit_answer(visit, 200, (char *)out.bytes, out.size);
	else
		visit_refuse(visit, error.status, error.reason);
}

/* --- errors --------------------------------------------------------------------------------------- */

/* Of google.rpc.Status: code = 1, message = 2, details = 3; of Any: type_url = 1, value = 2; of RetryInfo: a
 * Duration = 1, with seconds = 1 and nanos = 2. */
static int64_t retry_info(const uint8_t *at, size_t size)
{
	static const char name[] = "type.googleapis.com/google.rpc.RetryInfo";
	const uint8_t *end = at + size;
	struct wire_field detail, url, info, delay, seconds = {0}, nanos = {0};

	while (at < end && wire_next(&at, end, &detail)) {
		if (detail.number != 3 || detail.type != WIRE_BYTES ||
		    !wire_find(detail.bytes, detail.size, 1, WIRE_BYTES, &url) ||
		    url.size != sizeof(name) - 1 || memcmp(url.bytes, name, url.size) != 0 ||
		    !wire_find(detail.bytes, detail.size, 2, WIRE_BYTES, &info) ||
		    !wire_find(info.bytes, info.size, 1, WIRE_BYTES, &delay))
			continue;
		(void)wire_find(delay.bytes, delay.size, 1, WIRE_VARINT, &seconds);
		(void)wire_find(delay.bytes, delay.size, 2, WIRE_VARINT, &nanos);
		if (seconds.value > 86400)
			seconds.value = 86400;
		return (int64_t)seconds.value * 1000000 + (int32_t)nanos.value / 1000;
	}
	return 0;
}

static void plain_error(struct buffer *out, enum status status, const char *message)
{
	bool good = buffer_text(out, "{\"code\":") && json_write_int(out, (int)status) &&
		    buffer_text(out, ",\"message\":") &&
		    json_write_string(out, message, strlen(message)) &&
		    buffer_text(out, ",\"details\":[]}");

	(void)good; /* cut only beyond 16 MiB */
}

struct buffer visit_error_json(const struct gateway *gateway, struct arena *arena,
			       const struct rpc_error *error, int64_t *ret_retry_us)
{
	static const struct transcode_options options = {0};
	const struct message_type *type = schema_message(gateway->schema, "google.rpc.Status");
	struct transcode_error wrong;
	struct buffer out;

	*ret_retry_us = error->details ? retry_info(error->details, error->details_size) : 0;
	buffer_init(&out, arena, 512, JSON_MAX);
	if (error->details && wire_to_json(gateway->schema, type, &options, error->details,
					   error->details_size, &out, &wrong))
		return out;
	out.size = 0;
	plain_error(&out, error->status, error->message);
	return out;
}

static void retry_header(const struct visit *visit, enum status status, int64_t retry_us)
{
	char text[24];

	/* What cannot be reached now may be in a second: a client should not ask at once. */
	if (!retry_us && status == STATUS_UNAVAILABLE)
		retry_us = 1000000;
	if (!retry_us)
		return;
	snprintf(text, sizeof(text), "%lld", (long long)((retry_us + 999999) / 1000000));
	http_add_header(visit->exchange, "Retry-After", text);
}

void visit_answer_error(const struct visit *visit, const struct rpc_error *error)
{
	int64_t retry_us;
	struct buffer out =
		visit_error_json(visit->gateway, http_arena(visit->exchange), error, &retry_us);

	retry_header(visit, error->status, retry_us);
	visit_answer(visit, http_status(error->status), (char *)out.bytes, out.size);
}

void visit_answer_status(const struct visit *visit, const uint8_t *bytes, size_t size)
{
	struct wire_field code = {0};
	struct rpc_error error = {.message = "", .details = bytes, .details_size = size};

	(void)wire_find(bytes, size, 1, WIRE_VARINT, &code);
	error.status =
		code.value && code.value < STATUS_COUNT ? (enum status)code.value : STATUS_UNKNOWN;
	visit_answer_error(visit, &error);
}

void visit_refuse(const struct visit *visit, enum status status, const char *message)
{
	visit_answer_error(visit, &(struct rpc_error){.status = status, .message = message});
}

void visit_refuse_retry(const struct visit *visit, enum status status, int64_t retry_us,
			const char *message)
{
	char delay[32];
	struct buffer out;
	bool good;

	snprintf(delay, sizeof(delay), "%lld.%06llds", (long long)(retry_us / 1000000),
		 (long long)(retry_us % 1000000));
	buffer_init(&out, http_arena(visit->exchange), 512, JSON_MAX);
	good = buffer_text(&out, "{\"code\":") && json_write_int(&out, (int)status) &&
	       buffer_text(&out, ",\"message\":") &&
	       json_write_string(&out, message, strlen(message)) &&
	       buffer_text(&out, ",\"details\":[{\"@type\":\"type.googleapis.com/"
				 "google.rpc.RetryInfo\",\"retryDelay\":") &&
	       json_write_string(&out, delay, strlen(delay)) && buffer_text(&out, "}]}");
	(void)good;
	retry_header(visit, status, retry_us);
	visit_answer(visit, http_status(status), (char *)out.bytes, out.size);
}

void visit_refuse_field(const struct visit *visit, const struct transcode_error *error)
{
	struct arena *arena = http_arena(visit->exchange);
	const char *message = *error->field
				      ? arena_printf(arena, "%s: %s", error->field, error->reason)
				      : error->reason;
	struct buffer out;
	bool good;

	if (!*error->field || error->status != STATUS_INVALID_ARGUMENT) {
		visit_refuse(visit, error->status, message);
		return;
	}
	buffer_init(&out, arena, 512, JSON_MAX);
	good = buffer_text(&out, "{\"code\":3,\"message\":") &&
	       json_write_string(&out, message, strlen(message)) &&
	       buffer_text(&out, ",\"details\":[{\"@type\":\"type.googleapis.com/"
				 "google.rpc.BadRequest\",\"fieldViolations\":[{\"field\":") &&
	       json_write_string(&out, error->field, strlen(error->field)) &&
	       buffer_text(&out, ",\"description\":") &&
	       json_write_string(&out, error->reason, strlen(error->reason)) &&
	       buffer_text(&out, "}]}]}");
	(void)good;
	visit_answer(visit, 400, (char *)out.bytes, out.size);
}
