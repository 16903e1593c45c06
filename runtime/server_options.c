/* See server_options.h. gRPC's own defaults leave nearly everything unlimited: 2^31 streams a
 * connection, two minutes for a handshake, idle for ever. What each of these guards against is in
 * docs/architecture.md.
 */
#include "runtime/server_options.h"

#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/read_file.h"

#define ARGS_MAX 24

struct args {
	grpc_arg list[ARGS_MAX];
	size_t count;
};

static void set(struct args *args, const char *key, int64_t value)
{
	args->list[args->count++] = (grpc_arg){
		.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = (int)value};
}

grpc_server *server_options_apply(const struct server_options *options)
{
	struct args args = {0};
	grpc_channel_args list;

	set(&args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int64_t)options->message_max);
	set(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
	set(&args, GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
	set(&args, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
	set(&args, GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60000);
	set(&args, GRPC_ARG_MAX_CONNECTION_AGE_MS, options->connection_age_ms);
	set(&args, GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 30000);
	set(&args, GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
	set(&args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
	/* Half of our clients' interval, or their pings would be strikes. */
	set(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
	set(&args, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
	/* Two processes on one port would share its connections unnoticed. */
	set(&args, GRPC_ARG_ALLOW_REUSEPORT, 0);
	/* Deadlines are the runtime's own (call.c); gRPC need not set a timer a call too. */
	set(&args, GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
	set(&args, GRPC_ARG_ENABLE_CHANNELZ, 0);
	list = (grpc_channel_args){args.count, args.list};
	return grpc_server_create(&list, NULL);
}

static grpc_server_credentials *tls(const struct server_options *options)
{
	char *certificate = read_file(options->tls_certificate, NULL);
	char *key = read_file(options->tls_key, NULL);
	char *ca = options->tls_client_ca ? read_file(options->tls_client_ca, NULL) : NULL;
	grpc_ssl_pem_key_cert_pair pair = {key, certificate};
	grpc_server_credentials *credentials = NULL;

	if (certificate && key && (ca || !options->tls_client_ca))
		credentials = grpc_ssl_server_credentials_create_ex(
			ca, &pair, 1,
			ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
			   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
			NULL);
	free(certificate);
	free(key);
	free(ca);
	return credentials;
}

int server_options_listen(const struct server_options *options, grpc_server *server)
{
	grpc_server_credentials *credentials =
		options->tls_certificate ? tls(options) : grpc_insecure_server_credentials_create();
	int port;

	if (!credentials) {
		log_event(LOG_ERROR, "tls_unusable",
			  log_text("certificate", options->tls_certificate),
			  log_text("key", options->tls_key ? options->tls_key : ""));
		return 0;
	}
	port = grpc_server_add_http2_port(server, options->address, credentials);
	grpc_server_credentials_release(credentials);
	if (!port)
		log_event(LOG_ERROR, "listen_failed", log_text("address", options->address));
	return port;
}
