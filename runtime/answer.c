/* The ways in which a call ends: one answer, counted, logged where it is our fault.
 *
 * An answer is one batch: headers, message, status and, unless it is being watched for already, the
 * caller's close.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/call_internal.h"
#include "runtime/channel.h"
#include "runtime/clock.h"
#include "runtime/log.h"

static void answer_done(struct tag *tag, bool ok)
{
	struct call *call = container_of(tag, struct call, answer_done);

	(void)ok; /* whether it reached anybody is the caller's to find out */
	(void)call_operation_over(call);
}

static void answer_count(struct call *call, enum status status)
{
	/* The figures are made when first needed: a method's service has 17 possible answers. */
	struct bound_method *bound = (struct bound_method *)call->bound;
	char labels[256];

	if (!bound->answers[status]) {
		snprintf(labels, sizeof(labels), "method=\"%s\",code=\"%s\"", bound->path + 1,
			 status_name(status));
		bound->answers[status] = metrics_counter(bound->metrics, "stampede_calls_total",
							 "Calls answered.", labels);
	}
	bound->answers[status]->value++;
	histogram_record_us(bound->duration, clock_monotonic_us() - call->started_us);
}

static void answer_log(struct call *call, enum status status, const char *message)
{
	enum log_level level = LOG_DEBUG;
	char trace[33];

	if (status == STATUS_INTERNAL || status == STATUS_UNKNOWN || status == STATUS_DATA_LOSS)
		level = LOG_ERROR;
	if (!log_enabled(level))
		return;
	trace_id_format(call_trace(call), trace);
	log_event(level, "call", log_text("method", call->bound->path + 1),
		  log_text("status", status_name(status)), log_text("message", message),
		  log_number("duration_us", clock_monotonic_us() - call->started_us),
		  log_text("trace_id", trace));
}

static enum step answer(struct call *call, grpc_byte_buffer *message, enum status status,
			const char *text, const struct error_detail *detail)
{
	grpc_op ops[CALL_OPERATIONS_MAX] = {0}, *op = ops;
	grpc_metadata trailer;
	grpc_slice text_slice;

	assert(!call->answered && !call->then);
	answer_count(call, status);
	answer_log(call, status, text ? text : "");
	if (!call->headers_sent)
		(op++)->op = GRPC_OP_SEND_INITIAL_METADATA;
	if (message) {
		op->op = GRPC_OP_SEND_MESSAGE;
		(op++)->data.send_message.send_message = message;
	}
	op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	op->data.send_status_from_server.status = (grpc_status_code)status;
	if (text) {
		text_slice = grpc_slice_from_copied_string(text);
		op->data.send_status_from_server.status_details = &text_slice;
	}
	if (detail) {
		trailer = (grpc_metadata){
			.key = grpc_slice_from_static_string(ERROR_DETAILS_KEY),
			.value = error_details_encode(&call->arena, status, text, detail)};
		op->data.send_status_from_server.trailing_metadata_count = 1;
		op->data.send_status_from_server.trailing_metadata = &trailer;
	}
	op++;
	if (!call->watches_close) {
		op->op = GRPC_OP_RECV_CLOSE_ON_SERVER;
		(op++)->data.recv_close_on_server.cancelled = &call->left;
	}
	call->answer_done.done = answer_done;
	call->answered = true;
	call_start_batch(call, ops, (size_t)(op - ops), &call->answer_done);
	/* gRPC has taken its own references. */
	if (text)
		grpc_slice_unref(text_slice);
	if (detail)
		grpc_slice_unref(trailer.value);
	if (message)
		grpc_byte_buffer_destroy(message);
	return STEP_TAKEN;
}

static enum step answer_failure(struct call *call, enum status status,
				const struct error_detail *detail, const char *format, va_list args)
{
	assert(status != STATUS_OK);
	return answer(call, NULL, status, arena_vprintf(&call->arena, format, args), detail);
}

enum step call_reply(struct call *call, const void *response)
{
	const ProtobufCMessage *message = response;

	assert(!call->bound->server_streams);
	assert(message->descriptor == call->bound->output);
	return answer(call, message_encode(message), STATUS_OK, NULL, NULL);
}

enum step call_finish(struct call *call)
{
	assert(call->bound->server_streams);
	return answer(call, NULL, STATUS_OK, NULL, NULL);
}

enum step call_fail(struct call *call, enum status status, const char *format, ...)
{
	va_list args;
	enum step step;

	va_start(args, format);
	step = answer_failure(call, status, NULL, format, args);
	va_end(args);
	return step;
}

enum step call_refuse(struct call *call, const char *field, const char *format, ...)
{
	char *why;
	va_list args;

	va_start(args, format);
	why = arena_vprintf(&call->arena, format, args);
	va_end(args);
	return answer(call, NULL, STATUS_INVALID_ARGUMENT,
		      arena_printf(&call->arena, "%s: %s", field, why),
		      &(struct error_detail){.field = field});
}

enum step call_fail_retry(struct call *call, enum status status, int64_t retry_after_ms,
			  const char *format, ...)
{
	struct error_detail detail = {.retry_ms = retry_after_ms > 0 ? retry_after_ms : 1};
	va_list args;
	enum step step;

	va_start(args, format);
	step = answer_failure(call, status, &detail, format, args);
	va_end(args);
	return step;
}

enum step call_fail_reason(struct call *call, enum status status, const char *reason,
			   const char *format, ...)
{
	struct error_detail detail = {.reason = reason};
	va_list args;
	enum step step;

	va_start(args, format);
	step = answer_failure(call, status, &detail, format, args);
	va_end(args);
	return step;
}

enum step call_fail_as(struct call *call, const struct rpc_error *error)
{
	struct error_detail detail = {.encoded = error->details,
				      .encoded_size = error->details_size};

	return answer(call, NULL, error->status, error->message, error->details ? &detail : NULL);
}
