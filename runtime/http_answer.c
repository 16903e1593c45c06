/* Answers: made when the handler gives them, taken by MHD when it next looks. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/http_internal.h"
#include "runtime/json_text.h"

enum MHD_Result http_answer_queue(struct http_exchange *exchange)
{
	enum MHD_Result taken = MHD_queue_response(exchange->connection, (unsigned)exchange->status,
						   exchange->response);

	exchange->server->parked -= exchange->state == EXCHANGE_PARKED;
	exchange->state = EXCHANGE_ANSWERED;
	MHD_destroy_response(exchange->response); /* MHD holds its own reference */
	exchange->response = NULL;
	return taken;
}

void http_add_header(struct http_exchange *exchange, const char *name, const char *value)
{
	struct header *header = arena_alloc(&exchange->arena, sizeof(*header));

	header->name = arena_strdup(&exchange->arena, name);
	header->value = arena_strdup(&exchange->arena, value);
	header->next = exchange->headers;
	exchange->headers = header;
}

void http_answer_give(struct http_exchange *exchange, int status, struct MHD_Response *response,
		      const char *content_type)
{
	struct http_server *server = exchange->server;

	assert(exchange->connection && response && !exchange->response &&
	       exchange->state != EXCHANGE_ANSWERED);
	if (content_type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	for (struct header *header = exchange->headers; header; header = header->next)
		MHD_add_response_header(response, header->name, header->value);
	if (server->quiesced)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	exchange->response = response;
	exchange->status = status;
	if (exchange->state == EXCHANGE_ASKED)
		return;
	if (exchange->suspended) {
		http_server_resume(exchange);
		return;
	}
	server->answers = true;
	http_server_wake(server);
}

void http_respond(struct http_exchange *exchange, int status, const char *content_type,
		  const void *body, size_t size)
{
	/* The arena outlives MHD's use of the body. */
	void *copy = size ? arena_memdup(&exchange->arena, body, size) : NULL;

	http_answer_give(exchange, status,
			 MHD_create_response_from_buffer(size, copy, MHD_RESPMEM_PERSISTENT),
			 content_type);
}

void http_respond_static(struct http_exchange *exchange, int status, const char *content_type,
			 const void *body, size_t size)
{
	http_answer_give(
		exchange, status,
		MHD_create_response_from_buffer(size, (void *)body, MHD_RESPMEM_PERSISTENT),
		content_type);
}

/* --- errors -------------------------------------------------------------------------------------
 */

/* As google/rpc/code.proto maps them. */
int http_status(enum status status)
{
	static const short statuses[STATUS_COUNT] = {
		[STATUS_OK] = 200,
		[STATUS_CANCELLED] = 499,
		[STATUS_UNKNOWN] = 500,
		[STATUS_INVALID_ARGUMENT] = 400,
		[STATUS_DEADLINE_EXCEEDED] = 504,
		[STATUS_NOT_FOUND] = 404,
		[STATUS_ALREADY_EXISTS] = 409,
		[STATUS_PERMISSION_DENIED] = 403,
		[STATUS_RESOURCE_EXHAUSTED] = 429,
		[STATUS_FAILED_PRECONDITION] = 400,
		[STATUS_ABORTED] = 409,
		[STATUS_OUT_OF_RANGE] = 400,
		[STATUS_UNIMPLEMENTED] = 501,
		[STATUS_INTERNAL] = 500,
		[STATUS_UNAVAILABLE] = 503,
		[STATUS_DATA_LOSS] = 500,
		[STATUS_UNAUTHENTICATED] = 401,
	};

	return (unsigned)status < STATUS_COUNT ? statuses[status] : 500;
}

static enum status code_of(int status)
{
	switch (status) {
	case 401:
		return STATUS_UNAUTHENTICATED;
	case 403:
		return STATUS_PERMISSION_DENIED;
	case 404:
		return STATUS_NOT_FOUND;
	case 409:
		return STATUS_ABORTED;
	case 405:
	case 501:
		return STATUS_UNIMPLEMENTED;
	case 429:
		return STATUS_RESOURCE_EXHAUSTED;
	case 503:
		return STATUS_UNAVAILABLE;
	case 408:
	case 504:
		return STATUS_DEADLINE_EXCEEDED;
	default:
		return status >= 400 && status < 500 ? STATUS_INVALID_ARGUMENT : STATUS_INTERNAL;
	}
}

void http_respond_error(struct http_exchange *exchange, int status, const char *message)
{
	enum status code = status < 100 ? (enum status)status : code_of(status);
	char body[1024];
	int size = snprintf(body, sizeof(body), "{\"code\":%d,\"message\":\"", (int)code);

	size += (int)json_text_escape(body + size, sizeof(body) - (size_t)size - 4, message,
				      strlen(message));
	size += snprintf(body + size, 4, "\"}\n");
	http_respond(exchange, status < 100 ? http_status(code) : status, "application/json", body,
		     (size_t)size);
}
