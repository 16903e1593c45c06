/* A call's life: taken from the pool, decoded, run step by step, waiting in between, released.
 *
 * Interruptions (deadline, caller gone, shutdown) end a wait like its own end does, so a handler
 * has one path for all of them.
 */
#include <assert.h>
#include <grpc/support/time.h>
#include <string.h>

#include "runtime/call_internal.h"
#include "runtime/clock.h"
#include "runtime/server.h"

static void call_deadline_passed(struct timer *timer)
{
	struct call *call = container_of(timer, struct call, deadline);

	call_interrupt(call, STATUS_DEADLINE_EXCEEDED);
}

static void call_slept(struct timer *timer)
{
	struct call *call = container_of(timer, struct call, sleep);

	call_continue(call, STATUS_OK);
}

static void call_later(struct loop_hook *hook)
{
	struct call *call = container_of(hook, struct call, later);

	if (call->wait)
		wait_finish(call->wait, call->later_status);
}

static void call_close_done(struct tag *tag, bool ok)
{
	struct call *call = container_of(tag, struct call, close_done);

	(void)ok;
	if (call_operation_over(call) && call->left && !call->answered)
		call_interrupt(call, STATUS_CANCELLED);
}

static void call_watch_close(struct call *call)
{
	grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};

	call->watches_close = true;
	call->close_done.done = call_close_done;
	op.data.recv_close_on_server.cancelled = &call->left;
	call_start_batch(call, &op, 1, &call->close_done);
}

static int64_t call_limit_deadline(const struct bound_method *bound, int64_t now_us,
				   gpr_timespec deadline)
{
	gpr_timespec left;
	int64_t left_us;

	if (!gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)))
		return now_us + bound->deadline_default_us;
	left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
	left_us = left.tv_sec > 1000000000 ? INT64_MAX / 2
					   : left.tv_sec * 1000000 + left.tv_nsec / 1000;
	return now_us + (left_us < bound->deadline_max_us ? left_us : bound->deadline_max_us);
}

static enum step call_decode_first(struct call *call, grpc_byte_buffer *payload)
{
	const struct bound_method *bound = call->bound;
	const char *field;
	enum status status;

	status = message_decode(&call->arena, bound->input, payload, bound->request_max,
				&call->request, &field);
	grpc_byte_buffer_destroy(payload);
	if (status == STATUS_OK)
		return bound->method->begin(call);
	if (status == STATUS_RESOURCE_EXHAUSTED)
		return call_fail(call, status, "the request is larger than %zu bytes",
				 bound->request_max);
	if (*field)
		return call_refuse(call, field, "is not valid UTF-8");
	return call_fail(call, status, "the request is not a valid %s", bound->input->name);
}

void call_begin(struct call *call, const struct bound_method *bound, grpc_call *grpc,
		gpr_timespec deadline, grpc_byte_buffer *payload)
{
	struct loop *loop = server_loop(call->server);
	enum step step;

	call->bound = bound;
	call->grpc = grpc;
	call->started_us = loop_now_us(loop);
	call->deadline_us = call_limit_deadline(bound, call->started_us, deadline);
	call->answered = call->headers_sent = call->watches_close = call->traced = false;
	call->sends = call->receives = false;
	call->ended = STATUS_OK;
	call->left = 0;
	call->request = NULL;
	timer_init(&call->deadline, loop, call_deadline_passed);
	timer_init(&call->sleep, loop, call_slept);
	call->later.run = call_later;
	arena_init(&call->arena, call->first, sizeof(call->first));
	arena_init(&call->inbox, NULL, 0);
	call->frame = arena_zalloc(&call->arena, bound->method->frame_size);
	if (bound->client_streams || bound->server_streams || bound->method->flags & METHOD_WAITS)
		call_watch_close(call);

	if (bound->client_streams)
		step = bound->method->begin(call);
	else if (payload)
		step = call_decode_first(call, payload);
	else
		step = call_fail(call, STATUS_INVALID_ARGUMENT, "the request message is missing");
	assert(step == STEP_TAKEN);
}

/* --- gRPC operations ------------------------------------------------------------------------- */

void call_start_batch(struct call *call, const grpc_op *ops, size_t count, struct tag *tag)
{
	grpc_call_error error = grpc_call_start_batch(call->grpc, ops, count, tag, NULL);

	assert(error == GRPC_CALL_OK);
	call->operations++;
}

static void call_release(struct call *call)
{
	assert(!call->then);
	timer_stop(&call->deadline);
	timer_stop(&call->sleep);
	loop_defer_cancel(server_loop(call->server), LOOP_GATHER, &call->later);
	arena_reset(&call->arena);
	arena_reset(&call->inbox);
	grpc_call_unref(call->grpc);
	server_release(call->server, call);
}

bool call_operation_over(struct call *call)
{
	assert(call->operations > 0);
	if (--call->operations || !call->answered)
		return true;
	call_release(call);
	return false;
}

/* --- waiting ---------------------------------------------------------------------------------- */

enum step call_await_runtime(struct call *call, call_then *then)
{
	assert(!call->answered && !call->then);
	call->then = then;
	if (!timer_started(&call->deadline)) {
		int64_t left_us = call->deadline_us - clock_monotonic_us();

		/* A deadline that has passed has been told; what is left is bounded by itself. */
		if (left_us > 0 || call->ended == STATUS_OK)
			timer_start_us(&call->deadline, left_us);
	}
	return STEP_TAKEN;
}

enum step call_await(struct call *call, struct wait *wait, void (*abandon)(struct wait *wait),
		     call_then *then)
{
	wait->call = call;
	wait->abandon = abandon;
	call->wait = wait;
	return call_await_runtime(call, then);
}

void call_continue(struct call *call, enum status status)
{
	call_then *then = call->then;

	if (!then)
		return;
	call->then = NULL;
	(void)then(call, status);
}

void wait_finish(struct wait *wait, enum status status)
{
	struct call *call = wait->call;

	if (!call)
		return;
	assert(call->wait == wait);
	wait->call = NULL;
	call->wait = NULL;
	call_continue(call, status);
}

void wait_finish_later(struct wait *wait, enum status status)
{
	struct call *call = wait->call;

	if (!call)
		return;
	call->later_status = status;
	loop_defer(server_loop(call->server), LOOP_GATHER, &call->later);
}

void call_interrupt(struct call *call, enum status status)
{
	struct wait *wait = call->wait;

	if (!call->then)
		return;
	call->ended = status;
	loop_defer_cancel(server_loop(call->server), LOOP_GATHER, &call->later);
	timer_stop(&call->sleep);
	call->sends = call->receives = false;
	call->wait = NULL;
	if (wait) {
		wait->call = NULL;
		if (wait->abandon)
			wait->abandon(wait);
	}
	call_continue(call, status);
}

enum step call_sleep(struct call *call, int64_t delay_ms, call_then *then)
{
	timer_start_us(&call->sleep, delay_ms * 1000);
	return call_await_runtime(call, then);
}

/* --- what a handler asks ------------------------------------------------------------------------
 */

void *call_service(const struct call *call)
{
	return call->bound->self;
}

void *call_frame(struct call *call)
{
	return call->frame;
}

const void *call_request(const struct call *call)
{
	return call->request;
}

const ProtobufCMessageDescriptor *call_output(const struct call *call)
{
	return call->bound->output;
}

struct arena *call_arena(struct call *call)
{
	return &call->arena;
}

struct loop *call_loop(const struct call *call)
{
	return server_loop(call->server);
}

int64_t call_deadline_us(const struct call *call)
{
	return call->deadline_us;
}

const char *call_metadata(struct call *call, const char *key)
{
	for (size_t i = 0; i < call->metadata.count; i++) {
		const grpc_metadata *entry = &call->metadata.metadata[i];

		if (!grpc_slice_str_cmp(entry->key, key))
			return arena_memdup(&call->arena, GRPC_SLICE_START_PTR(entry->value),
					    GRPC_SLICE_LENGTH(entry->value));
	}
	return NULL;
}

const struct trace *call_trace(const struct call *call)
{
	struct call *mine = (struct call *)call; /* read from the metadata when first asked for */
	const char *text;
	struct trace parent;

	if (!call->traced) {
		text = call_metadata(mine, "traceparent");
		mine->trace =
			text && trace_parse(text, &parent) ? trace_child(&parent) : trace_make();
		mine->traced = true;
	}
	return &call->trace;
}
