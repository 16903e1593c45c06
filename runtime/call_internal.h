/* What the runtime's own files know of a call, beyond call.h. */
#pragma once

#include "runtime/call.h"
#include "runtime/error_details.h"
#include "runtime/metrics.h"

#define CALL_FIRST_CHUNK 1536
#define CALL_OPERATIONS_MAX 4

/* A method of a service on a server. */
struct bound_method {
	const struct method *method;
	const ProtobufCMessageDescriptor *input, *output;
	void *self;
	char path[160]; /* "/package.Service/Method" */
	bool client_streams, server_streams;
	size_t request_max;
	int64_t deadline_default_us, deadline_max_us;
	void *registered; /* gRPC's handle */
	struct metrics *metrics;
	struct histogram *duration;
	struct counter *answers[STATUS_COUNT]; /* made when first needed */
	struct bound_method *next;
};

/*     taken ──► (waiting ──► running)* ──► answered ──► released
 *
 * `then` is set exactly while it waits. It is released when it has been answered and no gRPC
 * operation of it is under way. */
struct call {
	struct server *server;
	const struct bound_method *bound;
	grpc_call *grpc;
	grpc_metadata_array metadata;
	const void *request;
	void *frame;
	int64_t started_us, deadline_us;
	call_then *then;
	struct wait *wait; /* NULL while it waits for gRPC or sleeps */
	struct timer deadline, sleep;
	struct loop_hook later;
	enum status later_status, ended;
	bool answered, headers_sent, watches_close, traced;
	bool sends, receives; /* what it waits for is that operation */
	int operations;	      /* gRPC batches under way */
	int left;	      /* set by gRPC: the caller is gone */
	struct tag answer_done, close_done, send_done, receive_done;
	grpc_byte_buffer *received;
	struct trace trace;
	struct call *next, *previous;
	struct arena arena, inbox;
	_Alignas(16) char first[CALL_FIRST_CHUNK];
};

/* --- call.c --- */
/* Takes over `grpc` and the payload, and runs the method's first step. */
void call_begin(struct call *call, const struct bound_method *bound, grpc_call *grpc,
		gpr_timespec deadline, grpc_byte_buffer *payload);
/* Ends its waiting, if it waits, with `status`. */
void call_interrupt(struct call *call, enum status status);
/* Starts a gRPC batch; the tag's `done` must call call_operation_over(). */
void call_start_batch(struct call *call, const grpc_op *ops, size_t count, struct tag *tag);
/* Releases the call when it was the last; false then. */
bool call_operation_over(struct call *call);
/* Continues with `status` what waits for gRPC. */
void call_continue(struct call *call, enum status status);
/* Waits for something of the runtime's own (no struct wait). */
enum step call_await_runtime(struct call *call, call_then *then) MUST_USE;

/* --- server.c --- */
struct loop *server_loop(const struct server *server);
void server_release(struct server *server, struct call *call);

/* --- message.c --- */
/* Decodes into the arena and checks all strings. On failure *reterr_field is what was wrong ("" for
 * the message as a whole), in the arena. */
enum status message_decode(struct arena *arena, const ProtobufCMessageDescriptor *type,
			   grpc_byte_buffer *buffer, size_t size_max, const void **ret_message,
			   const char **reterr_field);
grpc_byte_buffer *message_encode(const ProtobufCMessage *message);
/* NULL, or the path of the first string that is not UTF-8. */
const char *message_check(struct arena *arena, const ProtobufCMessage *message);
