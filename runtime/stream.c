/* Streams: one message out, one message in, each a step. */
#include <assert.h>

#include "runtime/call_internal.h"

static void send_done(struct tag *tag, bool ok)
{
	struct call *call = container_of(tag, struct call, send_done);
	bool waits = call->sends;

	call->sends = false;
	if (call_operation_over(call) && waits)
		call_continue(call, ok ? STATUS_OK : STATUS_CANCELLED);
}

enum step call_send(struct call *call, const void *message, call_then *then)
{
	const ProtobufCMessage *base = message;
	grpc_byte_buffer *buffer = message_encode(base);
	grpc_op ops[2] = {0}, *op = ops;

	assert(call->bound->server_streams && base->descriptor == call->bound->output);
	if (!call->headers_sent)
		(op++)->op = GRPC_OP_SEND_INITIAL_METADATA;
	call->headers_sent = true;
	op->op = GRPC_OP_SEND_MESSAGE;
	(op++)->data.send_message.send_message = buffer;
	call->send_done.done = send_done;
	call->sends = true;
	call_start_batch(call, ops, (size_t)(op - ops), &call->send_done);
	grpc_byte_buffer_destroy(buffer);
	return call_await_runtime(call, then);
}

static enum status received(struct call *call, bool ok)
{
	const struct bound_method *bound = call->bound;
	enum status status;
	const char *field;

	if (!ok || !call->received)
		return call->left ? STATUS_CANCELLED : STATUS_OUT_OF_RANGE;
	arena_reset(&call->inbox);
	status = message_decode(&call->inbox, bound->input, call->received, bound->request_max,
				&call->request, &field);
	grpc_byte_buffer_destroy(call->received);
	return status;
}

static void receive_done(struct tag *tag, bool ok)
{
	struct call *call = container_of(tag, struct call, receive_done);
	bool waits = call->receives;
	enum status status = STATUS_OK;

	call->receives = false;
	if (waits)
		status = received(call, ok);
	else if (call->received)
		grpc_byte_buffer_destroy(call->received);
	if (call_operation_over(call) && waits)
		call_continue(call, status);
}

enum step call_receive(struct call *call, call_then *then)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	assert(call->bound->client_streams);
	call->received = NULL;
	op.data.recv_message.recv_message = &call->received;
	call->receive_done.done = receive_done;
	call->receives = true;
	call_start_batch(call, &op, 1, &call->receive_done);
	return call_await_runtime(call, then);
}
