/* One HTTP request on its way, and how it is answered. */
#pragma once

#include "gateway/gateway.h"
#include "runtime/channel.h"

/* Small, and copied to whoever carries the request on. */
struct visit {
	struct gateway *gateway;
	const struct edge_route *route;
	struct http_exchange *exchange; /* NULL: the client has left */
	int64_t started_us, deadline_us;
	struct trace trace;
	bool traced;	/* the client sent its trace, and gets it back */
	bool deadlined; /* the client named its deadline */
};

/* Each ends the visit: nothing runs for the exchange afterwards. */
void visit_answer(const struct visit *visit, int http_status, const char *json, size_t size);
/* The same; the text lives as long as the process. */
void visit_answer_static(const struct visit *visit, int http_status, const char *json, size_t size);
/* 200 with a message, from its bytes. */
void visit_answer_message(const struct visit *visit, const uint8_t *bytes, size_t size);
/* google.rpc.Status, from its bytes. */
void visit_answer_status(const struct visit *visit, const uint8_t *bytes, size_t size);
/* What a service answered, its details included. */
void visit_answer_error(const struct visit *visit, const struct rpc_error *error);
/* Our own refusals. */
void visit_refuse(const struct visit *visit, enum status status, const char *message);
void visit_refuse_retry(const struct visit *visit, enum status status, int64_t retry_us,
			const char *message);
/* INVALID_ARGUMENT with google.rpc.BadRequest. */
void visit_refuse_field(const struct visit *visit, const struct transcode_error *error);

/* google.rpc.Status as JSON, in the arena; *ret_retry_us is what RetryInfo says, 0 without. */
struct buffer visit_error_json(const struct gateway *gateway, struct arena *arena,
			       const struct rpc_error *error, int64_t *ret_retry_us);
