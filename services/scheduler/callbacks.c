/* See callbacks.h.
 *
 *     delivery ──► channel of its address ──► RunRequest ──► done (OK: the job is over)
 */
#include "services/scheduler/callbacks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

#define METHODS_MAX 64 /* of one address; beyond, its channel is made anew when it is idle */

struct callback_method {
	struct callback_method *next;
	struct channel_method *method;
	char name[];
};

struct callback_channel {
	struct callback_channel *next;
	struct channel *channel;
	struct callback_method *methods;
	int methods_count;
	int users; /* callbacks under way */
	char address[];
};

struct callbacks {
	struct loop *loop;
	struct metrics *metrics;
	struct callback_channel *channels; /* most recently used first */
	int count, max;
};

struct callbacks *callbacks_create(struct loop *loop, struct metrics *metrics, int channels_max)
{
	struct callbacks *callbacks = calloc(1, sizeof(*callbacks));

	assert(callbacks);
	callbacks->loop = loop;
	callbacks->metrics = metrics;
	callbacks->max = channels_max;
	return callbacks;
}

static void callback_channel_free(struct callback_channel *channel)
{
	struct callback_method *method;

	channel_destroy(channel->channel);
	while ((method = channel->methods)) {
		channel->methods = method->next;
		free(method);
	}
	free(channel);
}

void callbacks_destroy(struct callbacks *callbacks)
{
	struct callback_channel *channel;

	if (!callbacks)
		return;
	while ((channel = callbacks->channels)) {
		callbacks->channels = channel->next;
		callback_channel_free(channel);
	}
	free(callbacks);
}

/* --- channels and methods -------------------------------------------------------------------- */

/* Frees the idle channel that was used longest ago. False when all are in use. */
static bool callbacks_make_room(struct callbacks *callbacks)
{
	struct callback_channel **oldest = NULL, *channel;

	for (struct callback_channel **link = &callbacks->channels; *link; link = &(*link)->next) {
		if (!(*link)->users)
			oldest = link;
	}
	if (!oldest)
		return false;
	channel = *oldest;
	*oldest = channel->next;
	callbacks->count--;
	callback_channel_free(channel);
	return true;
}

static struct callback_channel *callback_channel_make(struct callbacks *callbacks,
						      const char *address)
{
	struct callback_channel *channel = calloc(1, sizeof(*channel) + strlen(address) + 1);
	struct channel_options options = {.target = address, .metrics = callbacks->metrics};

	assert(channel);
	strcpy(channel->address, address);
	channel->channel = channel_create(callbacks->loop, &options);
	callbacks->count++;
	return channel;
}

/* NULL when there are too many addresses in use. */
static struct callback_channel *callbacks_channel(struct callbacks *callbacks, const char *address)
{
	struct callback_channel **link = &callbacks->channels, *channel;

	while ((channel = *link) && strcmp(channel->address, address))
		link = &channel->next;
	if (channel) {
		*link = channel->next;
		if (channel->methods_count >= METHODS_MAX && !channel->users) {
			callbacks->count--;
			callback_channel_free(channel);
			channel = NULL;
		}
	}
	if (!channel) {
		if (callbacks->count >= callbacks->max && !callbacks_make_room(callbacks))
			return NULL;
		channel = callback_channel_make(callbacks, address);
	}
	channel->next = callbacks->channels;
	callbacks->channels = channel;
	return channel;
}

/* NULL when this channel has had its methods. */
static struct channel_method *callback_channel_method(struct callback_channel *channel,
						      const char *name)
{
	size_t size = strlen(name);
	struct callback_method *method;
	char path[512] = "/";

	for (method = channel->methods; method; method = method->next) {
		if (!strcmp(method->name, name))
			return method->method;
	}
	if (channel->methods_count >= METHODS_MAX || size + 2 > sizeof(path))
		return NULL;
	method = malloc(sizeof(*method) + size + 1);
	assert(method);
	memcpy(method->name, name, size + 1);
	memcpy(path + 1, name, size + 1);
	method->method = channel_method(channel->channel, path);
	method->next = channel->methods;
	channel->methods = method;
	channel->methods_count++;
	return method->method;
}

/* --- one callback ---------------------------------------------------------------------------- */

static void callback_over(struct rpc *rpc)
{
	struct callback *callback = container_of(rpc, struct callback, rpc);
	enum status status = rpc->error.status;

	callback->channel->users--;
	rpc_release(rpc);
	callback->done(callback, status);
}

static grpc_slice callback_request(Stampede__Scheduler__V1__Job *job, int tries)
{
	Stampede__Scheduler__V1__RunRequest request;

	stampede__scheduler__v1__run_request__init(&request);
	request.job = job;
	request.tries = tries;
	return rpc_pack(&request);
}

void callback_start(struct callbacks *callbacks, struct callback *callback, const char *queue,
		    const struct delivery *delivery, int64_t timeout_ms)
{
	struct arena arena;
	Stampede__Scheduler__V1__Job *job;
	Stampede__Scheduler__V1__Callback *target;

	arena_init(&arena, NULL, 0);
	job = record_read(&arena, queue, delivery->id, delivery->due_ms, delivery->record,
			  delivery->record_size);
	target = job && job->target ? job->target->callback : NULL;
	callback->channel = target ? callbacks_channel(callbacks, target->address) : NULL;
	if (callback->channel)
		callback->rpc.method = callback_channel_method(callback->channel, target->method);
	if (!callback->rpc.method) {
		arena_reset(&arena);
		callback->done(callback, target ? STATUS_RESOURCE_EXHAUSTED : STATUS_DATA_LOSS);
		return;
	}
	callback->channel->users++;
	callback->rpc.request = callback_request(job, delivery->tries);
	callback->rpc.deadline_us = clock_monotonic_us() + timeout_ms * 1000;
	callback->rpc.done = callback_over;
	rpc_start(&callback->rpc);
	arena_reset(&arena);
}
