/* What channel.c and rpc.c share. */
#pragma once

#include "runtime/channel.h"

#define CHANNEL_SUBCHANNELS_MAX 16

struct channel {
	struct loop *loop;
	grpc_channel *grpc[CHANNEL_SUBCHANNELS_MAX];
	int count;
	unsigned next;
	struct channel_method *methods;
	struct rpc_internal *calls; /* under way */
};

struct channel_method {
	struct channel *channel;
	void *registered[CHANNEL_SUBCHANNELS_MAX];
	struct channel_method *next;
};

/* `deadline_us` 0: none. */
grpc_call *channel_method_call(struct channel_method *method, int64_t deadline_us, int64_t now_us);
/* The channel goes: the call's `done` runs with CANCELLED, and what gRPC still does goes to nobody.
 */
void rpc_orphan(struct rpc_internal *internal);
