/* The gRPC server: see server.h.
 *
 *     slot waits in gRPC ──► call taken from the pool ──► call_begin()      (the slot waits again
 * at once) └──► pool empty: RESOURCE_EXHAUSTED
 *
 * Calls that match no slot queue inside gRPC without limit, so there are many slots, and each is
 * used only for the moment of taking a call over.
 */
#include "runtime/server.h"

#include <assert.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/call_internal.h"
#include "runtime/descriptors.h"
#include "runtime/log.h"
#include "runtime/server_options.h"

#define SLOTS_PER_METHOD 64
#define SLOTS_FALLBACK 256
#define QUIET_MS 5
#define QUIET_WAITS_MAX 50

struct slot {
	struct tag arrived;
	struct server *server;
	struct bound_method *bound; /* NULL: any other method */
	grpc_call *grpc;
	grpc_metadata_array metadata;
	grpc_call_details details; /* the fallback's */
	gpr_timespec deadline;
	grpc_byte_buffer *payload;
	struct slot *next;
};

struct server {
	struct loop *loop;
	struct server_options options;
	grpc_server *grpc;
	int port;
	struct bound_method *methods;
	struct slot *slots;
	struct call *pool, *free, active; /* active: a ring */
	int calls_active, calls_used;
	server_fallback *fallback;
	void *fallback_self;
	bool draining;
	struct tag shut_down;
	uint64_t arrivals, arrivals_seen;
	struct timer grace, quiet;
	int quiet_waits;
	int64_t grace_ms;
	void (*drained)(void *context);
	void *drained_context;
};

/* --- refusing without a call -------------------------------------------------------------------
 */

struct refusal {
	struct tag done;
	grpc_call *grpc;
	int left;
};

static void refusal_done(struct tag *tag, bool ok)
{
	struct refusal *refusal = container_of(tag, struct refusal, done);

	(void)ok;
	grpc_call_unref(refusal->grpc);
	free(refusal);
}

/* Headers belong to every answer, a refusal too, or the call hangs. */
void server_refuse(grpc_call *grpc, enum status status, const char *message)
{
	struct refusal *refusal = calloc(1, sizeof(*refusal));
	grpc_slice text = grpc_slice_from_copied_string(message);
	grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
			  {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
			  {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}};
	grpc_call_error error;

	assert(refusal);
	refusal->done.done = refusal_done;
	refusal->grpc = grpc;
	ops[1].data.send_status_from_server.status = (grpc_status_code)status;
	ops[1].data.send_status_from_server.status_details = &text;
	ops[2].data.recv_close_on_server.cancelled = &refusal->left;
	error = grpc_call_start_batch(grpc, ops, 3, &refusal->done, NULL);
	assert(error == GRPC_CALL_OK);
	grpc_slice_unref(text);
}

/* --- slots --------------------------------------------------------------------------------------
 */

static void slot_wait(struct slot *slot)
{
	struct server *server = slot->server;
	grpc_completion_queue *queue = loop_queue(server->loop);
	grpc_call_error error;

	slot->payload = NULL;
	slot->metadata.count = 0;
	if (slot->bound)
		error = grpc_server_request_registered_call(
			server->grpc, slot->bound->registered, &slot->grpc, &slot->deadline,
			&slot->metadata, slot->bound->client_streams ? NULL : &slot->payload, queue,
			queue, &slot->arrived);
	else
		error = grpc_server_request_call(server->grpc, &slot->grpc, &slot->details,
						 &slot->metadata, queue, queue, &slot->arrived);
	assert(error == GRPC_CALL_OK);
}

static struct call *server_take(struct server *server)
{
	struct call *call = server->free;

	if (call) {
		server->free = call->next;
	} else if (server->calls_used < server->options.calls_max) {
		/* Memory no call has needed yet stays untouched. */
		call = &server->pool[server->calls_used++];
		call->server = server;
	} else {
		return NULL;
	}
	call->next = server->active.next;
	call->previous = &server->active;
	call->next->previous = call->previous->next = call;
	server->calls_active++;
	return call;
}

void server_release(struct server *server, struct call *call)
{
	call->next->previous = call->previous;
	call->previous->next = call->next;
	call->next = server->free;
	server->free = call;
	server->calls_active--;
}

static void slot_registered(struct slot *slot)
{
	struct server *server = slot->server;
	struct call *call = server_take(server);
	grpc_metadata_array unused;
	grpc_call *grpc = slot->grpc;
	grpc_byte_buffer *payload = slot->payload;
	gpr_timespec deadline = slot->deadline;

	if (!call) {
		if (payload)
			grpc_byte_buffer_destroy(payload);
		server_refuse(grpc, STATUS_RESOURCE_EXHAUSTED,
			      "too many calls under way; try again shortly");
		slot_wait(slot);
		return;
	}
	/* The arrays change places, so that neither is allocated anew. */
	unused = call->metadata;
	call->metadata = slot->metadata;
	slot->metadata = unused;
	slot_wait(slot);
	call_begin(call, slot->bound, grpc, deadline, payload);
}

static void slot_fallback(struct slot *slot)
{
	struct server *server = slot->server;
	char *path = grpc_slice_to_c_string(slot->details.method);
	char *authority = grpc_slice_to_c_string(slot->details.host);
	char message[256];

	if (server->fallback) {
		server->fallback(server->fallback_self, slot->grpc, path, authority,
				 slot->details.deadline, &slot->metadata);
	} else {
		snprintf(message, sizeof(message), "unknown method %.200s", path);
		server_refuse(slot->grpc, STATUS_UNIMPLEMENTED, message);
	}
	gpr_free(path);
	gpr_free(authority);
	grpc_call_details_destroy(&slot->details);
	grpc_call_details_init(&slot->details);
	slot_wait(slot);
}

static void slot_arrived(struct tag *tag, bool ok)
{
	struct slot *slot = container_of(tag, struct slot, arrived);

	if (!ok) /* the server is shutting down */
		return;
	slot->server->arrivals++;
	if (slot->bound)
		slot_registered(slot);
	else
		slot_fallback(slot);
}

static void server_add_slots(struct server *server, struct bound_method *bound, int count)
{
	for (int i = 0; i < count; i++) {
		struct slot *slot = calloc(1, sizeof(*slot));

		assert(slot);
		slot->arrived.done = slot_arrived;
		slot->server = server;
		slot->bound = bound;
		grpc_metadata_array_init(&slot->metadata);
		grpc_call_details_init(&slot->details);
		slot->next = server->slots;
		server->slots = slot;
		slot_wait(slot);
	}
}

/* --- services ------------------------------------------------------------------------------------
 */

static const ProtobufCMethodDescriptor *find_method(const ProtobufCServiceDescriptor *service,
						    const char *name)
{
	for (unsigned i = 0; i < service->n_methods; i++)
		if (!strcmp(service->methods[i].name, name))
			return &service->methods[i];
	return NULL;
}

static void server_bind(struct server *server, const struct service *service,
			const struct method *method)
{
	const struct server_options *options = &server->options;
	const ProtobufCMethodDescriptor *descriptor =
		find_method(service->descriptor, method->name);
	struct bound_method *bound = calloc(1, sizeof(*bound));
	const struct descriptor_symbol *symbol;
	char labels[256];
	bool streams;
	int64_t deadline_ms;

	assert(bound && descriptor);
	bound->method = method;
	bound->input = descriptor->input;
	bound->output = descriptor->output;
	bound->self = service->self;
	snprintf(bound->path, sizeof(bound->path), "/%s/%s", service->descriptor->name,
		 method->name);
	snprintf(labels, sizeof(labels), "%s.%s", service->descriptor->name, method->name);
	symbol = descriptors_find(descriptors_embedded(), labels);
	assert(symbol && symbol->method);
	bound->client_streams = symbol->method->client_streaming;
	bound->server_streams = symbol->method->server_streaming;
	streams = bound->client_streams || bound->server_streams;

	bound->request_max = method->request_max ? method->request_max : 64 << 10;
	deadline_ms = method->deadline_max_ms ? method->deadline_max_ms : options->deadline_max_ms;
	/* A stream without a deadline lives as long as it may; a unary call as long as is usual. */
	bound->deadline_max_us = streams ? INT64_MAX / 4 : deadline_ms * 1000;
	deadline_ms = method->deadline_default_ms ? method->deadline_default_ms
						  : options->deadline_default_ms;
	bound->deadline_default_us = streams ? INT64_MAX / 4 : deadline_ms * 1000;

	bound->metrics = options->metrics;
	snprintf(labels, sizeof(labels), "method=\"%s\"", bound->path + 1);
	bound->duration = metrics_histogram(options->metrics, "stampede_call_duration_seconds",
					    "From a call's arrival to its answer.", labels);
	bound->registered = grpc_server_register_method(
		server->grpc, bound->path, NULL,
		bound->client_streams ? GRPC_SRM_PAYLOAD_NONE
				      : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
		0);
	assert(bound->registered); /* else it was added twice */
	bound->next = server->methods;
	server->methods = bound;
}

void server_add(struct server *server, const struct service *service)
{
	for (const struct method *const *method = service->methods; *method; method++)
		server_bind(server, service, *method);
}

void server_set_fallback(struct server *server, server_fallback *fallback, void *self)
{
	server->fallback = fallback;
	server->fallback_self = self;
}

/* --- life ----------------------------------------------------------------------------------------
 */

static double active_read(void *self)
{
	return server_calls_active(self);
}

struct server *server_create(struct loop *loop, const struct server_options *options)
{
	struct server *server = calloc(1, sizeof(*server));
	struct server_options *mine;

	assert(server);
	mine = &server->options;
	*mine = *options;
	mine->calls_max = mine->calls_max ? mine->calls_max : 4096;
	mine->deadline_default_ms = mine->deadline_default_ms ? mine->deadline_default_ms : 10000;
	mine->deadline_max_ms = mine->deadline_max_ms ? mine->deadline_max_ms : 3600000;
	mine->message_max = mine->message_max ? mine->message_max : 64 << 10;
	mine->connection_age_ms = mine->connection_age_ms ? mine->connection_age_ms : 600000;
	server->loop = loop;
	server->active.next = server->active.previous = &server->active;
	server->pool = calloc((size_t)mine->calls_max, sizeof(struct call));
	assert(server->pool);
	server->grpc = server_options_apply(mine);
	grpc_server_register_completion_queue(server->grpc, loop_queue(loop), NULL);
	metrics_gauge_read(mine->metrics, "stampede_calls_in_flight", "Calls being handled.", NULL,
			   active_read, server);
	return server;
}

enum status server_start(struct server *server)
{
	server->port = server_options_listen(&server->options, server->grpc);
	if (!server->port)
		return STATUS_UNAVAILABLE;
	grpc_server_start(server->grpc);
	for (struct bound_method *bound = server->methods; bound; bound = bound->next)
		server_add_slots(server, bound, SLOTS_PER_METHOD);
	server_add_slots(server, NULL, SLOTS_FALLBACK);
	return STATUS_OK;
}

int server_port(const struct server *server)
{
	return server->port;
}

int server_calls_active(const struct server *server)
{
	return server->calls_active;
}

struct loop *server_loop(const struct server *server)
{
	return server->loop;
}

/* --- drain
 * ---------------------------------------------------------------------------------------- */

static void server_shut_down(struct tag *tag, bool ok)
{
	struct server *server = container_of(tag, struct server, shut_down);

	(void)ok;
	timer_stop(&server->grace);
	if (server->drained)
		server->drained(server->drained_context);
}

static void server_grace_over(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, grace);
	struct call *call = server->active.next, *next;

	for (; call != &server->active; call = next) {
		next = call->next;
		call_interrupt(call, STATUS_UNAVAILABLE);
	}
	grpc_server_cancel_all_calls(server->grpc);
}

static void server_shut_down_now(struct server *server)
{
	server->shut_down.done = server_shut_down;
	timer_init(&server->grace, server->loop, server_grace_over);
	timer_start_us(&server->grace, server->grace_ms * 1000);
	grpc_server_shutdown_and_notify(server->grpc, loop_queue(server->loop), &server->shut_down);
}

/* gRPC's shutdown cancels calls that have arrived and were not yet taken over; so it waits, for a while, for a moment
 * in which none arrives. */
static void server_quiet(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, quiet);
	bool quiet = server->arrivals == server->arrivals_seen;

	server->arrivals_seen = server->arrivals;
	if (quiet || ++server->quiet_waits == QUIET_WAITS_MAX)
		server_shut_down_now(server);
	else
		timer_start_us(&server->quiet, QUIET_MS * 1000);
}

void server_drain(struct server *server, int64_t grace_ms, void (*drained)(void *context),
		  void *context)
{
	assert(!server->draining);
	server->draining = true;
	server->drained = drained;
	server->drained_context = context;
	server->grace_ms = grace_ms;
	server->arrivals_seen = UINT64_MAX;
	timer_init(&server->quiet, server->loop, server_quiet);
	timer_start_us(&server->quiet, QUIET_MS * 1000);
}

void server_destroy(struct server *server)
{
	struct bound_method *bound;
	struct slot *slot;

	if (!server)
		return;
	grpc_server_destroy(server->grpc);
	while ((slot = server->slots)) {
		server->slots = slot->next;
		grpc_metadata_array_destroy(&slot->metadata);
		grpc_call_details_destroy(&slot->details);
		free(slot);
	}
	while ((bound = server->methods)) {
		server->methods = bound->next;
		free(bound);
	}
	for (int i = 0; i < server->calls_used; i++)
		grpc_metadata_array_destroy(&server->pool[i].metadata);
	free(server->pool);
	free(server);
}
