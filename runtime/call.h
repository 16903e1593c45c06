/* A gRPC call as its handler sees it.
 *
 * A handler is a chain of steps. Each step ends by returning one runtime call: an answer, or an
 * operation with the step that continues when it is over. A continuation runs exactly once (with the
 * operation's status, or DEADLINE_EXCEEDED, or CANCELLED when the caller left, or UNAVAILABLE at
 * shutdown) and never inside the function that registered it. No step blocks.
 * After one of the last three statuses an answer may still be given; it reaches whoever still listens.
 *
 * What a step allocates comes from call_arena() and is never freed by hand.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/loop.h"
#include "runtime/status.h"
#include "runtime/trace.h"

struct call;

/* Only the runtime makes one; a step returns what its last runtime call returned. */
enum step { STEP_TAKEN = 1 };
typedef enum step call_then(struct call *call, enum status status);

/* --- what the call is ------------------------------------------------------------------------- */

/* struct service's `self`. */
void *call_service(const struct call *call);
/* method->frame_size zeroed bytes for the handler's state. */
void *call_frame(struct call *call);
/* The decoded request, its strings valid UTF-8. In a stream: the message received last. */
const void *call_request(const struct call *call);
/* The method's output type: for handlers that answer several methods alike. */
const ProtobufCMessageDescriptor *call_output(const struct call *call);
struct arena *call_arena(struct call *call);
struct loop *call_loop(const struct call *call);
/* Never unset: a caller's missing deadline is replaced by the server's default, a longer one than its
 * maximum is cut to that. */
int64_t call_deadline_us(const struct call *call);
const struct trace *call_trace(const struct call *call);
/* First value of a metadata key (lower case), copied into the arena; NULL if absent. */
const char *call_metadata(struct call *call, const char *key);

/* --- answers: each ends the call --------------------------------------------------------------- */

/* `response` is a protobuf-c message of the method's output type. Unary methods only. */
enum step call_reply(struct call *call, const void *response) MUST_USE;
/* Ends a stream well. */
enum step call_finish(struct call *call) MUST_USE;
enum step call_fail(struct call *call, enum status status, const char *format, ...)
	PRINTF(3, 4) MUST_USE;
/* INVALID_ARGUMENT with google.rpc.BadRequest: `field` in proto spelling, e.g. "jobs[3].due_at". */
enum step call_refuse(struct call *call, const char *field, const char *format, ...)
	PRINTF(3, 4) MUST_USE;
/* With google.rpc.RetryInfo: the caller may try again after that long. */
enum step call_fail_retry(struct call *call, enum status status, int64_t retry_after_ms,
			  const char *format, ...) PRINTF(4, 5) MUST_USE;
/* With google.rpc.ErrorInfo: `reason` in UPPER_SNAKE_CASE, for programs. */
enum step call_fail_reason(struct call *call, enum status status, const char *reason,
			   const char *format, ...) PRINTF(4, 5) MUST_USE;
/* Passes on what another service answered, its details included (see channel.h). */
struct rpc_error;
enum step call_fail_as(struct call *call, const struct rpc_error *error) MUST_USE;

/* --- streams ----------------------------------------------------------------------------------- */

/* Sends one message; continues when the transport has taken it. */
enum step call_send(struct call *call, const void *message, call_then *then) MUST_USE;
/* Receives the next message into call_request(). When the caller has half-closed, continues with
 * STATUS_OUT_OF_RANGE. */
enum step call_receive(struct call *call, call_then *then) MUST_USE;

/* --- waiting ----------------------------------------------------------------------------------- */

enum step call_sleep(struct call *call, int64_t delay_ms, call_then *then) MUST_USE;

/* One operation a call waits for: embedded in whatever does the operation (a Redis command, a database
 * job, a queue entry of the lock service). */
struct wait {
	struct call *call; /* NULL: nobody waits (any more) */
	/* The call goes on without the result: forget call_frame() and call_arena(). Runs at deadline,
	 * cancellation and shutdown. May be NULL if nothing need be done. */
	void (*abandon)(struct wait *wait);
};
/* The last thing a step does when it starts an operation of its own. */
enum step call_await(struct call *call, struct wait *wait, void (*abandon)(struct wait *wait),
		     call_then *then) MUST_USE;
/* The operation is over: its call continues, now. Nothing happens when nobody waits. Must not be called
 * before the step that awaits has returned: use wait_finish_later() there. */
void wait_finish(struct wait *wait, enum status status);
/* The same at the end of the loop's round. The wait's memory must live until then or be abandoned. */
void wait_finish_later(struct wait *wait, enum status status);

/* Calls of these methods learn at once that their caller has left (CANCELLED); others learn it when
 * they answer. Costs one more gRPC operation a call; streams always have it. */
enum method_flags { METHOD_PLAIN = 0, METHOD_WAITS = 1 };

struct method {
	const char *name; /* as in the proto: "Reserve" */
	enum step (*begin)(struct call *call);
	size_t frame_size;
	enum method_flags flags;
	size_t request_max;	     /* bytes; 0: 64 KiB */
	int64_t deadline_default_ms; /* 0: the server's */
	int64_t deadline_max_ms;     /* 0: the server's */
};

/* A gRPC service: protobuf-c's descriptor and the methods that exist, NULL at the end. What is not in
 * the list is answered UNIMPLEMENTED. */
struct service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct method *const *methods;
	void *self;
};
