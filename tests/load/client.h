/* An HTTP/1.1 client for load: keep-alive connections that take requests from one queue, one at a
 * time each. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct client;
struct client_request;

/* `status` 0: no answer; the server may or may not have done what it was asked. `body` ends with a
 * zero byte. */
typedef void client_done(struct client_request *request, int status, const char *body, size_t size);

/* The caller's until `done`, which runs exactly once, on the loop. */
struct client_request {
	const char *method;
	char path[320];
	char body[640];
	client_done *done;
	uint64_t sent_ns; /* set when a connection took it */
	struct client_request *next;
};

/* NULL when the URL is not http://host[:port], or the host is unknown; the reason goes to stderr.
 */
struct client *client_create(uv_loop_t *loop, const char *url, int connections, int timeout_ms);
void client_destroy(struct client *client);
void client_send(struct client *client, struct client_request *request);
/* Requests that no connection has taken yet. */
size_t client_waiting(const struct client *client);
/* Sends one request and runs the loop until it is answered. The answer's JSON, or NULL with the
 * HTTP status (0: none). Tries again for `patience_ms` while there is no answer or a 429 or 5xx. */
json_t *client_fetch(struct client *client, const char *method, const char *path, const char *body,
		     int patience_ms, int *ret_status);
