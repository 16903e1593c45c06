#include "runtime/process_settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/address.h"
#include "runtime/trace.h"

static char grpc_address[32], admin_address[32], calls[16];

static struct setting table[] = {
	SETTING_TEXT(struct process_settings, grpc_address, "STAMPEDE_GRPC_ADDRESS", grpc_address,
		     "where gRPC is served; port 0 picks one"),
	SETTING_TEXT(
		struct process_settings, admin_address, "STAMPEDE_ADMIN_ADDRESS", "",
		"where /metrics, /healthz, /readyz and /debug/config are served; if unset, the "
		"gRPC port + 1000"),
	SETTING_TEXT(struct process_settings, log_level, "STAMPEDE_LOG_LEVEL", "info",
		     "debug, info, warn or error"),
	SETTING_NUMBER(struct process_settings, calls_max, "STAMPEDE_CALLS_MAX", calls, 1, 1000000,
		       "calls under way; more are refused with RESOURCE_EXHAUSTED"),
	SETTING_DURATION(struct process_settings, deadline_default_ms, "STAMPEDE_DEADLINE_DEFAULT",
			 "10s", 1, 3600000, "of calls that bring none"),
	SETTING_DURATION(struct process_settings, deadline_max_ms, "STAMPEDE_DEADLINE_MAX", "1h", 1,
			 86400000, "longer deadlines are cut to this"),
	SETTING_DURATION(struct process_settings, connection_age_ms, "STAMPEDE_CONNECTION_AGE",
			 "10m", 1000, 86400000,
			 "after which clients are asked to connect anew, and so find new replicas"),
	SETTING_DURATION(struct process_settings, drain_wait_ms, "STAMPEDE_DRAIN_WAIT", "0s", 0,
			 600000,
			 "from SIGTERM (NOT_SERVING) to refusing calls; 5s on Kubernetes, so that "
			 "load balancers notice"),
	SETTING_DURATION(struct process_settings, drain_grace_ms, "STAMPEDE_DRAIN_GRACE", "10s", 0,
			 600000, "for calls under way to finish"),
	SETTING_DURATION(struct process_settings, stop_max_ms, "STAMPEDE_STOP_MAX", "10s", 100,
			 600000, "for flushing what is left after that"),
	SETTING_TEXT(struct process_settings, tls_certificate, "STAMPEDE_TLS_CERTIFICATE", "",
		     "PEM file; unset: plain text"),
	SETTING_TEXT(struct process_settings, tls_key, "STAMPEDE_TLS_KEY", "", "PEM file"),
	SETTING_TEXT(struct process_settings, tls_client_ca, "STAMPEDE_TLS_CLIENT_CA", "",
		     "PEM file; set: clients must show a certificate it signed"),
	SETTING_END,
};

const struct setting *process_settings_table(int grpc_port, int calls_max)
{
	snprintf(grpc_address, sizeof(grpc_address), "0.0.0.0:%d", grpc_port);
	snprintf(calls, sizeof(calls), "%d", calls_max ? calls_max : 4096);
	return table;
}

static int wrong(const char *name, const char *value, const char *allowed)
{
	log_event(LOG_ERROR, "setting_wrong", log_text("name", name), log_text("value", value),
		  log_text("allowed", allowed));
	return 1;
}

static int load_level(struct process_settings *settings)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
		if (!strcmp(settings->log_level, names[level])) {
			settings->level = (enum log_level)level;
			return 0;
		}
	}
	return wrong("STAMPEDE_LOG_LEVEL", settings->log_level, "debug, info, warn or error");
}

static int load_addresses(struct process_settings *settings)
{
	static const char form[] = "host:port, such as 0.0.0.0:7001 or [::1]:7001";
	char host[ADDRESS_HOST_SIZE];
	int port;

	if (settings->admin_address && !address_parse(settings->admin_address, host, &port))
		return wrong("STAMPEDE_ADMIN_ADDRESS", settings->admin_address, form);
	if (!address_parse(settings->grpc_address, host, &port))
		return wrong("STAMPEDE_GRPC_ADDRESS", settings->grpc_address, form);
	if (settings->admin_address)
		return 0;
	if (port + 1000 > 65535)
		return wrong("STAMPEDE_ADMIN_ADDRESS", NULL,
			     "to be set when the gRPC port + 1000 is no port");
	snprintf(admin_address, sizeof(admin_address), "0.0.0.0:%d", port ? port + 1000 : 0);
	settings->admin_address = admin_address;
	return 0;
}

int process_settings_load(struct process_settings *settings)
{
	int wrongs = settings_load(table, settings);

	if (settings->log_level)
		wrongs += load_level(settings);
	if (settings->grpc_address)
		wrongs += load_addresses(settings);
	if (!settings->tls_certificate != !settings->tls_key)
		wrongs += wrong(settings->tls_key ? "STAMPEDE_TLS_CERTIFICATE" : "STAMPEDE_TLS_KEY",
				NULL, "certificate and key together, or neither");
	if (settings->tls_client_ca && !settings->tls_certificate)
		wrongs += wrong("STAMPEDE_TLS_CLIENT_CA", settings->tls_client_ca,
				"only together with STAMPEDE_TLS_CERTIFICATE");
	return wrongs;
}

void process_settings_instance(const struct process_settings *settings, char *instance, size_t size)
{
	struct trace random = trace_make();
	char host[40] = "localhost", listen_host[ADDRESS_HOST_SIZE];
	int port = 0;

	if (gethostname(host, sizeof(host)))
		strcpy(host, "localhost");
	host[sizeof(host) - 1] = 0;
	(void)address_parse(settings->grpc_address, listen_host, &port); /* checked when loaded */
	snprintf(instance, size, "%s-%d-%02x%02x%02x", host, port, random.span_id[0],
		 random.span_id[1], random.span_id[2]);
}
