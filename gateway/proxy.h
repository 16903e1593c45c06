/* gRPC through the gateway: every method of every service behind it, byte for byte, in both directions.
 *
 * Metadata, deadline, messages, trailers and cancellation are passed on as they come; nothing is decoded. What the
 * gateway serves itself (health, reflection) never comes here.
 */
#pragma once

#include "runtime/process.h"

struct proxy;

struct proxy_options {
	int calls_max; /* more: RESOURCE_EXHAUSTED */
	/* A connection to the service of "/package.Service/Method", and whether its answer is a stream; NULL: no
	 * service has it (UNIMPLEMENTED). */
	grpc_channel *(*find)(void *self, const char *path, bool *ret_stream);
	void *self;
};
/* Inside the process's start(). */
struct proxy *proxy_create(struct process *process, const struct proxy_options *options);
/* Ends the streams, with UNAVAILABLE: they would last for ever. */
void proxy_drain(struct proxy *proxy);
/* The loop does not run any more. */
void proxy_destroy(struct proxy *proxy);
