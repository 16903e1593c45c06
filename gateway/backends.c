/* Channels and readiness: see backends.h.
 *
 *     watch ──► SERVING: part up ──► other, or the stream ends: part down ──► again after 0.25 s … 2 s
 */
#include "gateway/backends.h"

#include <assert.h>
#include <grpc/health/v1/health.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKENDS 4
#define RETRY_MIN_MS 250
#define RETRY_MAX_MS 2000

struct backend {
	struct backends *owner;
	const char *package; /* "stampede.order." */
	struct channel *calls, *streams;
	struct channel_method *watch_method;
	struct rpc_stream watch;
	bool watching;
	struct timer again;
	int64_t retry_ms;
	struct health_part *part;
};

struct backends {
	struct loop *loop;
	bool quiesced;
	struct backend list[BACKENDS];
};

/* --- readiness ------------------------------------------------------------------------------------ */

static void watch_message(struct rpc_stream *stream, grpc_slice bytes)
{
	struct backend *backend = container_of(stream, struct backend, watch);
	Grpc__Health__V1__HealthCheckResponse *response =
		grpc__health__v1__health_check_response__unpack(NULL, GRPC_SLICE_LENGTH(bytes),
								GRPC_SLICE_START_PTR(bytes));
	bool up = response &&
		  response->status ==
			  GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;

	health_set(backend->part, up, up ? "" : "not ready");
	grpc__health__v1__health_check_response__free_unpacked(response, NULL);
	backend->retry_ms = RETRY_MIN_MS;
	rpc_stream_next(stream);
}

static void watch_done(struct rpc_stream *stream)
{
	struct backend *backend = container_of(stream, struct backend, watch);
	char reason[256];

	snprintf(reason, sizeof(reason), "%s", stream->error.message);
	rpc_stream_release(stream);
	backend->watching = false;
	if (backend->owner->quiesced)
		return;
	health_set(backend->part, false, *reason ? reason : "the stream ended");
	timer_start_us(&backend->again, backend->retry_ms * 1000);
	if (backend->retry_ms < RETRY_MAX_MS)
		backend->retry_ms *= 2;
}

static void watch_start(struct timer *timer)
{
	struct backend *backend = container_of(timer, struct backend, again);
	Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

	request.service = (char *)"readiness";
	backend->watch = (struct rpc_stream){.method = backend->watch_method,
					     .request = rpc_pack(&request),
					     .message = watch_message,
					     .done = watch_done};
	backend->watching = true;
	rpc_stream_start(&backend->watch);
}

/* --- life ----------------------------------------------------------------------------------------- */

static void backend_make(struct backends *backends, struct backend *backend, const char *package,
			 const char *name, const char *target, struct process *process,
			 const struct gateway_settings *settings)
{
	struct channel_options options = {.target = target,
					  .subchannels = (int)settings->subchannels,
					  .tls_ca = settings->tls_ca,
					  .metrics = process->metrics};

	backend->owner = backends;
	backend->package = package;
	backend->part = health_part(process->health, name);
	backend->calls = channel_create(process->loop, &options);
	backend->streams = channel_create(process->loop, &options);
	backend->watch_method = channel_method(backend->streams, "/grpc.health.v1.Health/Watch");
	backend->retry_ms = RETRY_MIN_MS;
	timer_init(&backend->again, process->loop, watch_start);
	timer_start_us(&backend->again, 0);
}

struct backends *backends_create(struct process *process, const struct gateway_settings *settings)
{
	struct backends *backends = calloc(1, sizeof(*backends));

	assert(backends);
	backends->loop = process->loop;
	backend_make(backends, &backends->list[0], "stampede.inventory.", "inventory",
		     settings->inventory, process, settings);
	backend_make(backends, &backends->list[1], "stampede.order.", "order", settings->order,
		     process, settings);
	backend_make(backends, &backends->list[2], "stampede.lock.", "lock", settings->lock,
		     process, settings);
	backend_make(backends, &backends->list[3], "stampede.scheduler.", "scheduler",
		     settings->scheduler, process, settings);
	return backends;
}

void backends_quiesce(struct backends *backends)
{
	backends->quiesced = true;
	for (int i = 0; i < BACKENDS; i++) {
		timer_stop(&backends->list[i].again);
		if (backends->list[i].watching)
			rpc_stream_cancel(&backends->list[i].watch);
	}
}

void backends_destroy(struct backends *backends)
{
	if (!backends)
		return;
	backends->quiesced = true;
	for (int i = 0; i < BACKENDS; i++) {
		timer_stop(&backends->list[i].again);
		channel_destroy(backends->list[i].calls);
		channel_destroy(backends->list[i].streams);
	}
	free(backends);
}

/* --- by name -------------------------------------------------------------------------------------- */

static const struct backend *backend_find(const struct backends *backends, const char *name)
{
	name += *name == '/';
	for (int i = 0; i < BACKENDS; i++) {
		const struct backend *backend = &backends->list[i];

		if (strncmp(name, backend->package, strlen(backend->package)) == 0)
			return backend;
	}
	return NULL;
}

struct channel *backends_channel(const struct backends *backends, const char *name)
{
	const struct backend *backend = backend_find(backends, name);

	return backend ? backend->calls : NULL;
}

struct channel *backends_stream_channel(const struct backends *backends, const char *name)
{
	const struct backend *backend = backend_find(backends, name);

	return backend ? backend->streams : NULL;
}
