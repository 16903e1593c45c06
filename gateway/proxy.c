/* See proxy.h.
 *
 *     caller ══ receive ══► forward ══► service          one message at a time each way:
 *     caller ◄══ return ══ collect ◄══ service           the slower side sets the pace
 *
 * A call ends when the service's status has come and everything before it was passed on. When the caller leaves, the
 * service's call is cancelled, and its status ends the whole. It is freed when no operation is under way.
 */
#include "gateway/proxy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/trace.h"

#define METADATA_MAX 64

struct proxied {
	struct proxy *proxy;
	grpc_call *caller, *service;
	int operations;
	/* caller to service */
	struct tag received, forwarded, half_closed;
	grpc_byte_buffer *upward;
	/* service to caller */
	struct tag started, headers_received, headers_returned, collected, returned,
		status_received, status_returned, caller_closed;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *downward;
	bool headers_sent, service_done, caller_told;
	grpc_status_code status;
	grpc_slice text;
	int caller_left;
	bool collecting;	      /* more may come from the service than its status */
	struct proxied *next, **link; /* in the proxy's streams; NULL link: unary */
};

struct proxy {
	struct proxy_options options;
	struct loop *loop;
	int calls;
	struct proxied *streams;
	bool destroyed; /* freed with its last call */
	struct counter *count;
};

static void start(struct proxied *call, grpc_call *side, const grpc_op *ops, size_t count,
		  struct tag *tag)
{
	grpc_call_error error = grpc_call_start_batch(side, ops, count, tag, NULL);

	assert(error == GRPC_CALL_OK);
	call->operations++;
}

/* At the end of every tag. */
static void over(struct proxied *call)
{
	struct proxy *proxy = call->proxy;

	if (--call->operations)
		return;
	if (call->link) {
		*call->link = call->next;
		if (call->next)
			call->next->link = call->link;
	}
	if (--proxy->calls == 0 && proxy->destroyed)
		free(proxy);
	if (call->upward)
		grpc_byte_buffer_destroy(call->upward);
	if (call->downward)
		grpc_byte_buffer_destroy(call->downward);
	grpc_metadata_array_destroy(&call->headers);
	grpc_metadata_array_destroy(&call->trailers);
	grpc_slice_unref(call->text);
	grpc_call_unref(call->service);
	grpc_call_unref(call->caller);
	free(call);
}

/* --- caller to service ----------------------------------------------------------------------------- */

static void receive(struct proxied *call)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	op.data.recv_message.recv_message = &call->upward;
	start(call, call->caller, &op, 1, &call->received);
}

static void on_received(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, received);
	grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

	if (ok && call->upward) {
		op.op = GRPC_OP_SEND_MESSAGE;
		op.data.send_message.send_message = call->upward;
		start(call, call->service, &op, 1, &call->forwarded);
		grpc_byte_buffer_destroy(call->upward);
		call->upward = NULL;
	} else if (!call->service_done) {
		start(call, call->service, &op, 1, &call->half_closed);
	}
	over(call);
}

static void on_forwarded(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, forwarded);

	if (ok && !call->service_done)
		receive(call);
	over(call);
}

static void on_half_closed(struct tag *tag, bool ok)
{
	(void)ok;
	over(container_of(tag, struct proxied, half_closed));
}

/* --- service to caller ----------------------------------------------------------------------------- */

static void return_status(struct proxied *call);

static void collect(struct proxied *call)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	op.data.recv_message.recv_message = &call->downward;
	start(call, call->service, &op, 1, &call->collected);
}

static void on_headers_received(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, headers_received);
	grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};

	/* An answer of trailers alone has no headers; they go out with the status. */
	if (ok && !call->caller_told && !call->service_done) {
		op.data.send_initial_metadata.count = call->headers.count;
		op.data.send_initial_metadata.metadata = call->headers.metadata;
		call->headers_sent = true;
		start(call, call->caller, &op, 1, &call->headers_returned);
	}
	if (ok) {
		collect(call);
	} else {
		call->collecting = false;
		return_status(call);
	}
	over(call);
}

static void on_headers_returned(struct tag *tag, bool ok)
{
	(void)ok;
	over(container_of(tag, struct proxied, headers_returned));
}

static void on_collected(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, collected);
	grpc_op ops[2] = {0}, *op = ops;

	if (ok && call->downward && !call->caller_left) {
		if (!call->headers_sent) {
			op->op = GRPC_OP_SEND_INITIAL_METADATA;
			op->data.send_initial_metadata.count = call->headers.count;
			(op++)->data.send_initial_metadata.metadata = call->headers.metadata;
			call->headers_sent = true;
		}
		op->op = GRPC_OP_SEND_MESSAGE;
		(op++)->data.send_message.send_message = call->downward;
		start(call, call->caller, ops, (size_t)(op - ops), &call->returned);
		grpc_byte_buffer_destroy(call->downward);
		call->downward = NULL;
	} else {
		call->collecting = false;
		return_status(call);
	}
	over(call);
}

static void on_returned(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, returned);

	if (ok) {
		collect(call);
	} else {
		call->collecting = false;
		return_status(call);
	}
	over(call);
}

static void on_status_received(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, status_received);

	(void)ok;
	call->service_done = true;
	return_status(call);
	over(call);
}

/* The last word, when the status is there and every message before it was passed on. */
static void return_status(struct proxied *call)
{
	grpc_op ops[2] = {0}, *op = ops;

	if (!call->service_done || call->collecting || call->caller_told)
		return;
	call->caller_told = true;
	if (!call->headers_sent)
		(op++)->op = GRPC_OP_SEND_INITIAL_METADATA;
	op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	op->data.send_status_from_server.status = call->status;
	op->data.send_status_from_server.status_details = &call->text;
	op->data.send_status_from_server.trailing_metadata_count = call->trailers.count;
	op->data.send_status_from_server.trailing_metadata = call->trailers.metadata;
	op++;
	start(call, call->caller, ops, (size_t)(op - ops), &call->status_returned);
}

static void on_status_returned(struct tag *tag, bool ok)
{
	(void)ok;
	over(container_of(tag, struct proxied, status_returned));
}

static void on_caller_closed(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, caller_closed);

	(void)ok;
	if (call->caller_left)
		grpc_call_cancel(call->service, NULL);
	over(call);
}

static void on_started(struct tag *tag, bool ok)
{
	struct proxied *call = container_of(tag, struct proxied, started);

	if (ok)
		receive(call);
	over(call);
}

/* --- taking a call over ------------------------------------------------------------------------------ */

/* What belongs to this hop and not to the call. */
static bool passes(const grpc_metadata *entry)
{
	static const char *const hop[] = {"te",
					  "content-type",
					  "user-agent",
					  "grpc-encoding",
					  "grpc-accept-encoding",
					  "grpc-timeout",
					  "host"};

	if (GRPC_SLICE_LENGTH(entry->key) && *GRPC_SLICE_START_PTR(entry->key) == ':')
		return false;
	for (size_t i = 0; i < sizeof(hop) / sizeof(hop[0]); i++)
		if (!grpc_slice_str_cmp(entry->key, hop[i]))
			return false;
	return true;
}

/* The caller's metadata, with a trace where it brought none. */
static size_t headers_for(const grpc_metadata_array *metadata, grpc_metadata *headers)
{
	size_t count = 0;
	bool traced = false;

	for (size_t i = 0; i < metadata->count && count < METADATA_MAX - 1; i++) {
		const grpc_metadata *entry = &metadata->metadata[i];

		if (!passes(entry))
			continue;
		traced = traced || !grpc_slice_str_cmp(entry->key, "traceparent");
		headers[count++] = (grpc_metadata){.key = grpc_slice_ref(entry->key),
						   .value = grpc_slice_ref(entry->value)};
	}
	if (!traced) {
		struct trace trace = trace_make();
		char text[TRACE_TEXT_SIZE];

		trace_format(&trace, text);
		headers[count++] =
			(grpc_metadata){.key = grpc_slice_from_static_string("traceparent"),
					.value = grpc_slice_from_copied_string(text)};
	}
	return count;
}

static void start_service(struct proxied *call, const grpc_metadata_array *metadata)
{
	grpc_metadata headers[METADATA_MAX];
	size_t count = headers_for(metadata, headers);
	grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};

	op.data.recv_status_on_client.trailing_metadata = &call->trailers;
	op.data.recv_status_on_client.status = &call->status;
	op.data.recv_status_on_client.status_details = &call->text;
	start(call, call->service, &op, 1, &call->status_received);

	op = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
	op.data.send_initial_metadata.count = count;
	op.data.send_initial_metadata.metadata = headers;
	start(call, call->service, &op, 1, &call->started);

	op = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA};
	op.data.recv_initial_metadata.recv_initial_metadata = &call->headers;
	start(call, call->service, &op, 1, &call->headers_received);
	for (size_t i = 0; i < count; i++) {
		grpc_slice_unref(headers[i].key);
		grpc_slice_unref(headers[i].value);
	}
}

static void stream_list(struct proxied *call)
{
	struct proxy *proxy = call->proxy;

	call->next = proxy->streams;
	call->link = &proxy->streams;
	if (call->next)
		call->next->link = &call->next;
	proxy->streams = call;
}

static void proxy_take(void *self, grpc_call *caller, const char *path, const char *authority,
		       gpr_timespec deadline, grpc_metadata_array *metadata)
{
	struct proxy *proxy = self;
	bool is_stream = false;
	grpc_channel *channel = proxy->options.find(proxy->options.self, path, &is_stream);
	grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
	struct proxied *call;
	grpc_slice method;
	char text[256];

	(void)authority;
	if (!channel || proxy->calls >= proxy->options.calls_max) {
		snprintf(text, sizeof(text),
			 channel ? "too many calls under way; try again shortly%.0s"
				 : "unknown method %.200s",
			 path);
		server_refuse(caller, channel ? STATUS_RESOURCE_EXHAUSTED : STATUS_UNIMPLEMENTED,
			      text);
		return;
	}
	call = calloc(1, sizeof(*call));
	assert(call);
	proxy->calls++;
	proxy->count->value++;
	call->proxy = proxy;
	call->caller = caller;
	if (is_stream)
		stream_list(call);
	method = grpc_slice_from_copied_string(path);
	call->service =
		grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS,
					 loop_queue(proxy->loop), method, NULL, deadline, NULL);
	grpc_slice_unref(method); /* the call has its own */
	call->collecting = true;
	call->text = grpc_empty_slice();
	call->received.done = on_received;
	call->forwarded.done = on_forwarded;
	call->half_closed.done = on_half_closed;
	call->started.done = on_started;
	call->headers_received.done = on_headers_received;
	call->headers_returned.done = on_headers_returned;
	call->collected.done = on_collected;
	call->returned.done = on_returned;
	call->status_received.done = on_status_received;
	call->status_returned.done = on_status_returned;
	call->caller_closed.done = on_caller_closed;
	grpc_metadata_array_init(&call->headers);
	grpc_metadata_array_init(&call->trailers);
	op.data.recv_close_on_server.cancelled = &call->caller_left;
	start(call, caller, &op, 1, &call->caller_closed);
	start_service(call, metadata);
}

static double calls_read(void *self)
{
	return ((struct proxy *)self)->calls;
}

struct proxy *proxy_create(struct process *process, const struct proxy_options *options)
{
	struct proxy *proxy = calloc(1, sizeof(*proxy));

	assert(proxy);
	proxy->options = *options;
	proxy->loop = process->loop;
	proxy->count = metrics_counter(process->metrics, "stampede_proxied_calls_total",
				       "gRPC calls passed on to a service.", NULL);
	metrics_gauge_read(process->metrics, "stampede_proxied_calls_in_flight",
			   "gRPC calls being passed on.", NULL, calls_read, proxy);
	server_set_fallback(process->server, proxy_take, proxy);
	return proxy;
}

void proxy_drain(struct proxy *proxy)
{
	for (struct proxied *call = proxy->streams; call; call = call->next)
		grpc_call_cancel_with_status(call->service, GRPC_STATUS_UNAVAILABLE,
					     "the gateway is being stopped", NULL);
}

void proxy_destroy(struct proxy *proxy)
{
	if (!proxy)
		return;
	proxy->destroyed = true;
	if (!proxy->calls)
		free(proxy);
}
