/* Callbacks: a due job is told to an RPC of any service, with RunRequest's bytes.
 *
 * Channels are kept by address, the least recently used one giving way; those in use never do.
 */
#pragma once

#include "runtime/channel.h"
#include "services/scheduler/store.h"

struct callbacks;

struct callbacks *callbacks_create(struct loop *loop, struct metrics *metrics, int channels_max);
/* Callbacks under way end with STATUS_CANCELLED. */
void callbacks_destroy(struct callbacks *callbacks);

struct callback {
	struct rpc rpc;
	struct callback_channel *channel;
	struct settlement *settlement; /* the engine's */
	void *context;
	/* Owns the callback again. STATUS_RESOURCE_EXHAUSTED with `rpc.method` NULL: it was not
	 * tried, too many addresses are in use. */
	void (*done)(struct callback *callback, enum status status);
};
/* `done` may run inside when the call cannot even be begun. */
void callback_start(struct callbacks *callbacks, struct callback *callback, const char *queue,
		    const struct delivery *delivery, int64_t timeout_ms);
