/* HTTP/1.1 inside the loop: libmicrohttpd, its epoll descriptor watched by libuv. Admin pages and the gateway.
 *
 * A handler answers at once with http_respond() or keeps the exchange and answers later, on the loop, exactly once. The
 * exchange dies with its answer, or with its connection: then `gone` runs first. Whoever keeps an exchange must set `gone`
 * and forget the exchange in it, since its memory serves another request afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/loop.h"
#include "runtime/status.h"

struct http_server;
struct http_exchange;

struct http_options {
	const char *address; /* "0.0.0.0:8080"; port 0 picks one */
	int connections_max; /* 0: 10,000 */
	size_t body_max;     /* bytes; longer: 413; 0: 64 KiB */
	int64_t idle_ms;     /* 0: 60,000 */
	/* Runs for each request when its body is complete. */
	void (*request)(void *self, struct http_exchange *exchange);
	void *self;
};
/* NULL, with the reason logged, when the address cannot be bound. */
struct http_server *http_create(struct loop *loop, const struct http_options *options);
int http_port(const struct http_server *server);
/* Accepts no more, and answers what is under way with "Connection: close". */
void http_quiesce(struct http_server *server);
int http_exchanges(const struct http_server *server); /* under way */
void http_destroy(struct http_server *server);

const char *http_method(const struct http_exchange *exchange); /* "GET" */
const char *http_path(const struct http_exchange *exchange);   /* as sent, without the query */
const char *http_header(const struct http_exchange *exchange, const char *name); /* or NULL */
/* Each query parameter in order, decoded. */
void http_query(struct http_exchange *exchange,
		void (*each)(void *context, const char *name, const char *value), void *context);
const char *http_body(const struct http_exchange *exchange, size_t *ret_size);
const char *http_peer(struct http_exchange *exchange); /* "192.0.2.1" */
struct arena *http_arena(struct http_exchange *exchange);
/* One pointer of the handler's own. */
void http_set_context(struct http_exchange *exchange, void *context,
		      void (*gone)(struct http_exchange *exchange, void *context));

/* A header to send along; before the answer. Name and value are copied. */
void http_add_header(struct http_exchange *exchange, const char *name, const char *value);
/* The body is copied. */
void http_respond(struct http_exchange *exchange, int status, const char *content_type,
		  const void *body, size_t size);
/* The body lives as long as the process: nothing is copied. */
void http_respond_static(struct http_exchange *exchange, int status, const char *content_type,
			 const void *body, size_t size);
/* {"code":…,"message":…}, google.rpc.Status as JSON. `status` is one of enum status, shown as its HTTP status,
 * or an HTTP status, for what gRPC has no code for. */
void http_respond_error(struct http_exchange *exchange, int status, const char *message);

/* The HTTP status of a gRPC status: NOT_FOUND is 404. */
int http_status(enum status status);

/* An answer that goes on: headers at once (200), then pieces. 64 KiB may wait for a slow reader; beyond that
 * http_stream_write() answers false and the stream should be ended. `gone` runs when the reader leaves; not after
 * http_stream_end(), with which the handler lets go of the exchange. */
void http_stream_begin(struct http_exchange *exchange, const char *content_type);
bool http_stream_write(struct http_exchange *exchange, const void *bytes, size_t size);
void http_stream_end(struct http_exchange *exchange);
