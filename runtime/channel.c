/* A target and the connections to it: see channel.h.
 *
 * gRPC shares connections between channels of one process; several to one target need a subchannel
 * pool of their own each. Over dns:/// every address is used, round robin.
 */
#include <assert.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/channel_internal.h"
#include "runtime/read_file.h"

static void set_number(grpc_channel_args *args, const char *key, int64_t value)
{
	args->args[args->num_args++] = (grpc_arg){
		.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = (int)value};
}

static grpc_channel_credentials *credentials_create(const struct channel_options *options)
{
	char *ca, *certificate, *key;
	grpc_ssl_pem_key_cert_pair pair;
	grpc_channel_credentials *credentials = NULL;

	if (!options->tls_ca)
		return grpc_insecure_credentials_create();
	ca = read_file(options->tls_ca, NULL);
	certificate = options->tls_certificate ? read_file(options->tls_certificate, NULL) : NULL;
	key = options->tls_key ? read_file(options->tls_key, NULL) : NULL;
	pair = (grpc_ssl_pem_key_cert_pair){key, certificate};
	if (ca)
		credentials = grpc_ssl_credentials_create(ca, certificate && key ? &pair : NULL,
							  NULL, NULL);
	free(ca);
	free(certificate);
	free(key);
	return credentials;
}

static grpc_channel *subchannel_create(const struct channel_options *options,
				       grpc_channel_credentials *credentials)
{
	grpc_arg list[16];
	grpc_channel_args args = {0, list};

	set_number(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	set_number(&args, GRPC_ARG_ENABLE_RETRIES, 0);
	set_number(&args, GRPC_ARG_ENABLE_CHANNELZ, 0);
	set_number(&args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	set_number(&args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int64_t)options->message_max);
	set_number(&args, GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
	set_number(&args, GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
	set_number(&args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
	set_number(&args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 2);
	set_number(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
	set_number(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
	set_number(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
	list[args.num_args++] = (grpc_arg){.type = GRPC_ARG_STRING,
					   .key = (char *)GRPC_ARG_LB_POLICY_NAME,
					   .value.string = (char *)"round_robin"};
	return grpc_channel_create(options->target, credentials, &args);
}

struct channel *channel_create(struct loop *loop, const struct channel_options *options)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	struct channel_options mine = *options;
	grpc_channel_credentials *credentials = credentials_create(options);

	assert(channel);
	/* Unreadable certificates were logged; calls then fail, and say so. */
	channel->loop = loop;
	channel->count = mine.subchannels ? mine.subchannels : 1;
	mine.message_max = mine.message_max ? mine.message_max : 4 << 20;
	assert(channel->count <= CHANNEL_SUBCHANNELS_MAX);
	for (int i = 0; i < channel->count; i++)
		channel->grpc[i] = credentials ? subchannel_create(&mine, credentials)
					       : grpc_lame_client_channel_create(
							 options->target, GRPC_STATUS_UNAVAILABLE,
							 "TLS files cannot be read");
	if (credentials)
		grpc_channel_credentials_release(credentials);
	return channel;
}

grpc_channel *channel_next(struct channel *channel)
{
	return channel->grpc[channel->next++ % (unsigned)channel->count];
}

struct channel_method *channel_method(struct channel *channel, const char *path)
{
	struct channel_method *method = calloc(1, sizeof(*method));

	assert(method);
	method->channel = channel;
	for (int i = 0; i < channel->count; i++)
		method->registered[i] =
			grpc_channel_register_call(channel->grpc[i], path, NULL, NULL);
	method->next = channel->methods;
	channel->methods = method;
	return method;
}

grpc_call *channel_method_call(struct channel_method *method, int64_t deadline_us, int64_t now_us)
{
	struct channel *channel = method->channel;
	unsigned index = channel->next++ % (unsigned)channel->count;
	gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);

	if (deadline_us)
		deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
					gpr_time_from_micros(deadline_us - now_us, GPR_TIMESPAN));
	return grpc_channel_create_registered_call(
		channel->grpc[index], NULL, GRPC_PROPAGATE_DEFAULTS, loop_queue(channel->loop),
		method->registered[index], deadline, NULL);
}

void channel_destroy(struct channel *channel)
{
	struct channel_method *method;

	if (!channel)
		return;
	while (channel->calls)
		rpc_orphan(channel->calls);
	while ((method = channel->methods)) {
		channel->methods = method->next;
		free(method);
	}
	for (int i = 0; i < channel->count; i++)
		grpc_channel_destroy(channel->grpc[i]);
	free(channel);
}
