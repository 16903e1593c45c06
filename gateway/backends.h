/* The services behind the gateway: a channel to each for calls, another for streams, and whether it is ready.
 *
 * Streams have connections of their own, so that many watchers never hold up a purchase. A service's readiness is
 * followed by grpc.health.v1 Watch, and is a part of the gateway's own.
 */
#pragma once

#include "gateway/settings.h"
#include "runtime/channel.h"
#include "runtime/process.h"

struct backends;

struct backends *backends_create(struct process *process, const struct gateway_settings *settings);
/* Ends the watches; their last callbacks come by the loop. */
void backends_quiesce(struct backends *backends);
void backends_destroy(struct backends *backends);

/* By the name of a service or method, with or without a leading slash: "/stampede.order.v1.OrderService/GetOrder".
 * NULL when no service serves that package. */
struct channel *backends_channel(const struct backends *backends, const char *name);
struct channel *backends_stream_channel(const struct backends *backends, const char *name);
