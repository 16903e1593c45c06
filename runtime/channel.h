/* Outgoing RPCs: to one target over several subchannels, deadline and trace context passed on.
 *
 * A step calls another service with call_rpc(). Code without a call (relays, the gateway) uses
 * rpc_start(). Bytes in, bytes out; rpc_start_message() packs and unpacks.
 */
#pragma once

#include "runtime/call.h"

struct channel;
struct channel_method;

struct channel_options {
	const char *target; /* "dns:///inventory:7001", "127.0.0.1:7001", "unix:/path" */
	int subchannels;    /* connections a target address; calls go round robin; 0: 1 */
	size_t message_max; /* 0: 4 MiB */
	const char *tls_ca; /* PEM file; NULL: plain text */
	const char *tls_certificate, *tls_key;
	struct metrics *metrics;
};
struct channel *channel_create(struct loop *loop, const struct channel_options *options);
/* Calls under way are continued with STATUS_CANCELLED first. */
void channel_destroy(struct channel *channel);
grpc_channel *channel_next(struct channel *channel); /* round robin; for the proxy */

/* "/package.Service/Method". Register once, use often; freed with the channel. */
struct channel_method *channel_method(struct channel *channel, const char *path);

/* What a call was answered that did not end OK. Strings live as long as the rpc's result. */
struct rpc_error {
	enum status status;
	const char *message;
	const void *details; /* google.rpc.Status, or NULL */
	size_t details_size;
};

/* One unary call. Zero it, set the first group, start it; `done` runs once on the loop, after which the
 * memory is the caller's again (the runtime's part is released by rpc_release()). */
struct rpc {
	struct channel_method *method;
	grpc_slice request;	   /* taken over */
	int64_t deadline_us;	   /* monotonic */
	const struct trace *trace; /* may be NULL */
	void (*done)(struct rpc *rpc);
	/* Set when done. */
	struct rpc_error error; /* error.status is STATUS_OK when it went well */
	grpc_slice response;
	struct rpc_internal *internal;
};
void rpc_start(struct rpc *rpc);
/* `done` still runs, with CANCELLED. */
void rpc_cancel(struct rpc *rpc);
void rpc_release(struct rpc *rpc);

/* A step's RPC: packs `request`, and on OK unpacks the answer into the arena at *ret_response. On failure
 * *reterr_error tells (may be NULL). The deadline is the call's, or `timeout_ms` if that ends sooner (0: the
 * call's). */
enum step call_rpc(struct call *call, struct channel_method *method, const void *request,
		   const ProtobufCMessageDescriptor *response_type, int64_t timeout_ms,
		   void *ret_response, struct rpc_error *reterr_error, call_then *then) MUST_USE;

/* A server stream read message by message: for the gateway's SSE and watchers of other services. */
struct rpc_stream {
	struct channel_method *method;
	grpc_slice request;
	int64_t deadline_us; /* 0: none */
	const struct trace *trace;
	/* Each message; the slice is valid during the call. The next is read after rpc_stream_next(). */
	void (*message)(struct rpc_stream *stream, grpc_slice message);
	/* Once, at the end, `error` filled. The memory is the caller's again after rpc_stream_release(). */
	void (*done)(struct rpc_stream *stream);
	struct rpc_error error;
	struct rpc_internal *internal;
};
void rpc_stream_start(struct rpc_stream *stream);
void rpc_stream_next(struct rpc_stream *stream);
void rpc_stream_cancel(struct rpc_stream *stream);
void rpc_stream_release(struct rpc_stream *stream);

/* Packs a protobuf-c message into a slice, which the caller owns. */
grpc_slice rpc_pack(const void *message);
