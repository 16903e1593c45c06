/* See rpc_client.h. */
#include "tests/support/rpc_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"

struct known_method {
	struct known_method *next;
	struct channel_method *method;
	char path[];
};

struct rpc_client {
	struct channel *channel;
	struct known_method *methods;
};

struct asking {
	struct rpc rpc;
	bool done, waited;
	enum status status;
	char message[512];
	char *details;
	size_t details_size;
	int64_t answered_us;
	struct arena arena;
};

static struct loop *loop;

struct loop *rpc_client_loop(void)
{
	if (!loop)
		loop = loop_create();
	return loop;
}

void rpc_client_end(void)
{
	loop_destroy(loop);
	loop = NULL;
}

struct rpc_client *rpc_client_create(const char *target)
{
	struct rpc_client *client = calloc(1, sizeof(*client));
	struct channel_options options = {.target = target};

	assert(client);
	client->channel = channel_create(rpc_client_loop(), &options);
	return client;
}

void rpc_client_free(struct rpc_client *client)
{
	struct known_method *method;

	if (!client)
		return;
	channel_destroy(client->channel);
	while ((method = client->methods)) {
		client->methods = method->next;
		free(method);
	}
	free(client);
}

static struct channel_method *client_method(struct rpc_client *client, const char *path)
{
	struct known_method *method;

	for (method = client->methods; method; method = method->next) {
		if (!strcmp(method->path, path))
			return method->method;
	}
	method = malloc(sizeof(*method) + strlen(path) + 1);
	assert(method);
	strcpy(method->path, path);
	method->method = channel_method(client->channel, path);
	method->next = client->methods;
	client->methods = method;
	return method->method;
}

static void asking_over(struct rpc *rpc)
{
	struct asking *asking = container_of(rpc, struct asking, rpc);

	asking->done = true;
	asking->answered_us = clock_monotonic_us();
	asking->status = rpc->error.status;
	if (asking->status != STATUS_OK) {
		strncpy(asking->message, rpc->error.message ? rpc->error.message : "",
			sizeof(asking->message) - 1);
		asking->details_size = rpc->error.details_size;
		asking->details =
			arena_memdup(&asking->arena, rpc->error.details ? rpc->error.details : "",
				     asking->details_size);
	}
	if (asking->waited)
		loop_stop(loop);
}

struct asking *rpc_client_ask(struct rpc_client *client, const char *path, const void *request,
			      int64_t timeout_ms)
{
	struct asking *asking = calloc(1, sizeof(*asking));

	assert(asking);
	arena_init(&asking->arena, NULL, 0);
	asking->rpc.method = client_method(client, path);
	asking->rpc.request = rpc_pack(request);
	asking->rpc.deadline_us = clock_monotonic_us() + timeout_ms * 1000;
	asking->rpc.done = asking_over;
	rpc_start(&asking->rpc);
	return asking;
}

bool asking_done(const struct asking *asking)
{
	return asking->done;
}

void *asking_wait(struct asking *asking, const ProtobufCMessageDescriptor *response)
{
	asking->waited = true;
	if (!asking->done)
		loop_run(loop);
	asking->waited = false;
	assert(asking->done);
	if (asking->status != STATUS_OK)
		return NULL;
	return protobuf_c_message_unpack(response, arena_allocator(&asking->arena),
					 GRPC_SLICE_LENGTH(asking->rpc.response),
					 GRPC_SLICE_START_PTR(asking->rpc.response));
}

enum status asking_status(const struct asking *asking)
{
	return asking->status;
}

const char *asking_message(const struct asking *asking)
{
	return asking->message;
}

bool asking_details_hold(const struct asking *asking, const char *text)
{
	return asking->details_size &&
	       memmem(asking->details, asking->details_size, text, strlen(text));
}

void asking_cancel(struct asking *asking)
{
	rpc_cancel(&asking->rpc);
}

int64_t asking_answered_us(const struct asking *asking)
{
	return asking->answered_us;
}

void asking_free(struct asking *asking)
{
	if (!asking)
		return;
	assert(asking->done);
	rpc_release(&asking->rpc);
	arena_reset(&asking->arena);
	free(asking);
}

static void run_over(struct timer *timer)
{
	loop_stop(timer->loop);
}

void rpc_client_run_ms(int64_t ms)
{
	struct timer timer;

	timer_init(&timer, rpc_client_loop(), run_over);
	timer_start_us(&timer, ms * 1000);
	loop_run(loop);
	timer_stop(&timer);
}
