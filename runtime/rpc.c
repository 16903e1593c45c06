/* Outgoing calls, unary and streaming: see channel.h.
 *
 * A unary call is one batch of six operations with one tag. A stream is two: its headers with the
 * first and each further message, and its status. What gRPC writes into lives in `struct
 * rpc_internal`, which outlives an abandoned call.
 */
#include <assert.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/call_internal.h"
#include "runtime/channel_internal.h"
#include "runtime/clock.h"

struct rpc_internal {
	struct channel *channel; /* NULL: orphaned */
	struct rpc *rpc;	 /* one of the two; NULL once nobody waits */
	struct rpc_stream *stream;
	grpc_call *grpc;
	struct tag done, message_done;
	int operations;
	bool ended; /* the status is there */
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *received;
	grpc_status_code code;
	grpc_slice text;
	char *message; /* of the error */
	void *details;
	struct rpc_internal *next, **link;
};

static struct rpc_internal *internal_create(struct channel_method *method, int64_t deadline_us)
{
	struct rpc_internal *internal = calloc(1, sizeof(*internal));

	assert(internal);
	internal->channel = method->channel;
	internal->grpc = channel_method_call(method, deadline_us, clock_monotonic_us());
	internal->next = method->channel->calls;
	internal->link = &method->channel->calls;
	if (internal->next)
		internal->next->link = &internal->next;
	method->channel->calls = internal;
	grpc_metadata_array_init(&internal->headers);
	grpc_metadata_array_init(&internal->trailers);
	internal->text = grpc_empty_slice();
	return internal;
}

static void internal_free(struct rpc_internal *internal)
{
	if (!internal)
		return;
	assert(!internal->operations);
	if (internal->channel) {
		*internal->link = internal->next;
		if (internal->next)
			internal->next->link = internal->link;
	}
	if (internal->received)
		grpc_byte_buffer_destroy(internal->received);
	grpc_metadata_array_destroy(&internal->headers);
	grpc_metadata_array_destroy(&internal->trailers);
	grpc_slice_unref(internal->text);
	grpc_call_unref(internal->grpc);
	free(internal->message);
	free(internal->details);
	free(internal);
}

static void internal_start(struct rpc_internal *internal, grpc_op *ops, size_t count,
			   struct tag *tag)
{
	grpc_call_error error = grpc_call_start_batch(internal->grpc, ops, count, tag, NULL);

	assert(error == GRPC_CALL_OK);
	internal->operations++;
}

/* The headers every call sends; `ret_trace` must live until the batch is started. */
static size_t headers_make(const struct trace *trace, grpc_metadata *ret_header)
{
	char text[TRACE_TEXT_SIZE];

	if (!trace)
		return 0;
	trace_format(trace, text);
	*ret_header = (grpc_metadata){.key = grpc_slice_from_static_string("traceparent"),
				      .value = grpc_slice_from_copied_string(text)};
	return 1;
}

static void take_error(struct rpc_internal *internal, struct rpc_error *ret_error)
{
	*ret_error = (struct rpc_error){.status = (enum status)internal->code, .message = ""};
	if (internal->code == GRPC_STATUS_OK)
		return;
	internal->message = grpc_slice_to_c_string(internal->text);
	ret_error->message = internal->message;
	for (size_t i = 0; i < internal->trailers.count; i++) {
		const grpc_metadata *entry = &internal->trailers.metadata[i];

		if (grpc_slice_str_cmp(entry->key, ERROR_DETAILS_KEY))
			continue;
		ret_error->details_size = GRPC_SLICE_LENGTH(entry->value);
		internal->details = malloc(ret_error->details_size + 1);
		assert(internal->details);
		memcpy(internal->details, GRPC_SLICE_START_PTR(entry->value),
		       ret_error->details_size);
		ret_error->details = internal->details;
	}
}

static grpc_slice take_message(struct rpc_internal *internal)
{
	grpc_byte_buffer_reader reader;
	grpc_slice whole = grpc_empty_slice();

	if (!internal->received)
		return whole;
	if (grpc_byte_buffer_reader_init(&reader, internal->received)) {
		whole = grpc_byte_buffer_reader_readall(&reader);
		grpc_byte_buffer_reader_destroy(&reader);
	}
	grpc_byte_buffer_destroy(internal->received);
	internal->received = NULL;
	return whole;
}

/* --- unary --------------------------------------------------------------------------------------
 */

static void rpc_over(struct tag *tag, bool ok)
{
	struct rpc_internal *internal = container_of(tag, struct rpc_internal, done);
	struct rpc *rpc = internal->rpc;

	(void)ok;
	internal->operations--;
	if (!rpc) {
		internal_free(internal);
		return;
	}
	take_error(internal, &rpc->error);
	rpc->response = take_message(internal);
	rpc->done(rpc);
}

void rpc_start(struct rpc *rpc)
{
	struct rpc_internal *internal = internal_create(rpc->method, rpc->deadline_us);
	grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&rpc->request, 1);
	grpc_metadata header;
	size_t headers = headers_make(rpc->trace, &header);
	grpc_op ops[6] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},	{.op = GRPC_OP_SEND_MESSAGE},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA},
		{.op = GRPC_OP_RECV_MESSAGE},		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT}};

	rpc->internal = internal;
	rpc->response = grpc_empty_slice();
	internal->rpc = rpc;
	internal->done.done = rpc_over;
	ops[0].data.send_initial_metadata.count = headers;
	ops[0].data.send_initial_metadata.metadata = &header;
	ops[1].data.send_message.send_message = request;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &internal->headers;
	ops[4].data.recv_message.recv_message = &internal->received;
	ops[5].data.recv_status_on_client.trailing_metadata = &internal->trailers;
	ops[5].data.recv_status_on_client.status = &internal->code;
	ops[5].data.recv_status_on_client.status_details = &internal->text;
	internal_start(internal, ops, 6, &internal->done);
	grpc_byte_buffer_destroy(request);
	grpc_slice_unref(rpc->request);
	if (headers)
		grpc_slice_unref(header.value);
}

void rpc_cancel(struct rpc *rpc)
{
	if (rpc->internal)
		grpc_call_cancel(rpc->internal->grpc, NULL);
}

void rpc_release(struct rpc *rpc)
{
	grpc_slice_unref(rpc->response);
	rpc->response = grpc_empty_slice();
	internal_free(rpc->internal);
	rpc->internal = NULL;
}

/* --- as a step -----------------------------------------------------------------------------------
 */

struct call_rpc {
	struct rpc rpc;
	struct wait wait;
	struct trace trace;
	const ProtobufCMessageDescriptor *type;
	void **ret_response;
	struct rpc_error *reterr_error;
};

static enum status call_rpc_take(struct call_rpc *mine, struct call *call)
{
	struct arena *arena = call_arena(call);
	struct rpc_error *error = &mine->rpc.error;
	void *message;

	if (error->status == STATUS_OK) {
		message = protobuf_c_message_unpack(mine->type, arena_allocator(arena),
						    GRPC_SLICE_LENGTH(mine->rpc.response),
						    GRPC_SLICE_START_PTR(mine->rpc.response));
		if (message) {
			*mine->ret_response = message;
			return STATUS_OK;
		}
		*error = (struct rpc_error){STATUS_INTERNAL, "the answer cannot be decoded", NULL,
					    0};
	}
	if (mine->reterr_error) {
		*mine->reterr_error = *error;
		mine->reterr_error->message = arena_strdup(arena, error->message);
		if (error->details)
			mine->reterr_error->details =
				arena_memdup(arena, error->details, error->details_size);
	}
	return error->status;
}

static void call_rpc_done(struct rpc *rpc)
{
	struct call_rpc *mine = container_of(rpc, struct call_rpc, rpc);
	struct call *call = mine->wait.call;
	enum status status = call ? call_rpc_take(mine, call) : STATUS_OK;
	struct wait wait = mine->wait;

	rpc_release(rpc);
	free(mine);
	if (call) {
		/* The wait has moved off the freed memory. */
		call->wait = &wait;
		wait_finish(&wait, status);
	}
}

static void call_rpc_abandon(struct wait *wait)
{
	rpc_cancel(&container_of(wait, struct call_rpc, wait)->rpc);
}

enum step call_rpc(struct call *call, struct channel_method *method, const void *request,
		   const ProtobufCMessageDescriptor *response_type, int64_t timeout_ms,
		   void *ret_response, struct rpc_error *reterr_error, call_then *then)
{
	struct call_rpc *mine = calloc(1, sizeof(*mine));
	int64_t limit_us = clock_monotonic_us() + timeout_ms * 1000;

	assert(mine);
	mine->rpc.method = method;
	mine->rpc.request = rpc_pack(request);
	mine->rpc.deadline_us =
		timeout_ms && limit_us < call_deadline_us(call) ? limit_us : call_deadline_us(call);
	mine->trace = trace_child(call_trace(call));
	mine->rpc.trace = &mine->trace;
	mine->rpc.done = call_rpc_done;
	mine->type = response_type;
	mine->ret_response = ret_response;
	mine->reterr_error = reterr_error;
	rpc_start(&mine->rpc);
	return call_await(call, &mine->wait, call_rpc_abandon, then);
}

/* --- streams
 * --------------------------------------------------------------------------------------- */

/* The end is told when the status has come and no read is under way. */
static void stream_over(struct rpc_internal *internal)
{
	struct rpc_stream *stream = internal->stream;

	if (internal->operations || !internal->ended)
		return;
	if (!stream) {
		internal_free(internal);
		return;
	}
	take_error(internal, &stream->error);
	stream->done(stream);
}

static void stream_status(struct tag *tag, bool ok)
{
	struct rpc_internal *internal = container_of(tag, struct rpc_internal, done);

	(void)ok;
	internal->operations--;
	internal->ended = true;
	stream_over(internal);
}

static void stream_message(struct tag *tag, bool ok)
{
	struct rpc_internal *internal = container_of(tag, struct rpc_internal, message_done);
	grpc_slice message;

	internal->operations--;
	if (ok && internal->received && internal->stream) {
		message = take_message(internal);
		/* Held, so that a cancel inside the callback does not end it under our feet. */
		internal->operations++;
		internal->stream->message(internal->stream, message);
		internal->operations--;
		grpc_slice_unref(message);
	}
	stream_over(internal);
}

void rpc_stream_start(struct rpc_stream *stream)
{
	struct rpc_internal *internal = internal_create(stream->method, stream->deadline_us);
	grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&stream->request, 1);
	grpc_metadata header;
	size_t headers = headers_make(stream->trace, &header);
	grpc_op first[5] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
			    {.op = GRPC_OP_SEND_MESSAGE},
			    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
			    {.op = GRPC_OP_RECV_INITIAL_METADATA},
			    {.op = GRPC_OP_RECV_MESSAGE}};
	grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};

	stream->internal = internal;
	internal->stream = stream;
	internal->done.done = stream_status;
	internal->message_done.done = stream_message;
	status.data.recv_status_on_client.trailing_metadata = &internal->trailers;
	status.data.recv_status_on_client.status = &internal->code;
	status.data.recv_status_on_client.status_details = &internal->text;
	internal_start(internal, &status, 1, &internal->done);
	first[0].data.send_initial_metadata.count = headers;
	first[0].data.send_initial_metadata.metadata = &header;
	first[1].data.send_message.send_message = request;
	first[3].data.recv_initial_metadata.recv_initial_metadata = &internal->headers;
	first[4].data.recv_message.recv_message = &internal->received;
	internal_start(internal, first, 5, &internal->message_done);
	grpc_byte_buffer_destroy(request);
	grpc_slice_unref(stream->request);
	if (headers)
		grpc_slice_unref(header.value);
}

void rpc_stream_next(struct rpc_stream *stream)
{
	struct rpc_internal *internal = stream->internal;
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	op.data.recv_message.recv_message = &internal->received;
	internal_start(internal, &op, 1, &internal->message_done);
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
	if (stream->internal)
		grpc_call_cancel(stream->internal->grpc, NULL);
}

void rpc_stream_release(struct rpc_stream *stream)
{
	internal_free(stream->internal);
	stream->internal = NULL;
}

/* --- the channel goes
 * ---------------------------------------------------------------------------------- */

void rpc_orphan(struct rpc_internal *internal)
{
	struct rpc *rpc = internal->rpc;
	struct rpc_stream *stream = internal->stream;
	struct rpc_error error = {STATUS_CANCELLED, "the channel was closed", NULL, 0};

	*internal->link = internal->next;
	if (internal->next)
		internal->next->link = internal->link;
	internal->channel = NULL;
	internal->rpc = NULL;
	internal->stream = NULL;
	grpc_call_cancel(internal->grpc, NULL);
	/* The owner's handle on it ends here; the tags free it. */
	if (rpc) {
		rpc->internal = NULL;
		rpc->error = error;
		rpc->done(rpc);
	} else if (stream) {
		stream->internal = NULL;
		stream->error = error;
		stream->done(stream);
	}
}
