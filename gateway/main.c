/* stampede-gateway: the edge. HTTP/JSON, server-sent events, the sale's page, and gRPC passed on. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gateway/backends.h"
#include "gateway/edge.h"
#include "gateway/events.h"
#include "gateway/gateway.h"
#include "gateway/limits.h"
#include "gateway/proxy.h"
#include "gateway/reserves.h"
#include "gateway/sold_outs.h"
#include "gateway/watches.h"

static const struct setting settings[] = {
	SETTING_TEXT(struct gateway_settings, http_address, "STAMPEDE_HTTP_ADDRESS", "0.0.0.0:8080",
		     "where HTTP is served; port 0 picks one"),
	SETTING_TEXT(struct gateway_settings, inventory, "STAMPEDE_INVENTORY", "127.0.0.1:7001",
		     "gRPC target of the inventory service, e.g. dns:///inventory:7001"),
	SETTING_TEXT(struct gateway_settings, order, "STAMPEDE_ORDER", "127.0.0.1:7002",
		     "gRPC target of the order service"),
	SETTING_TEXT(struct gateway_settings, lock, "STAMPEDE_LOCK", "127.0.0.1:7003",
		     "gRPC target of the lock service"),
	SETTING_TEXT(struct gateway_settings, scheduler, "STAMPEDE_SCHEDULER", "127.0.0.1:7004",
		     "gRPC target of the scheduler service"),
	SETTING_TEXT(struct gateway_settings, tls_ca, "STAMPEDE_BACKEND_CA", "",
		     "PEM file to check the services' certificates with; unset: plain text"),
	SETTING_NUMBER(struct gateway_settings, subchannels, "STAMPEDE_SUBCHANNELS", "1", 1, 16,
		       "connections to each address of a service"),
	SETTING_NUMBER(struct gateway_settings, connections_max, "STAMPEDE_HTTP_CONNECTIONS_MAX",
		       "50000", 10, 1000000, "HTTP connections at a time"),
	SETTING_NUMBER(struct gateway_settings, body_max, "STAMPEDE_HTTP_BODY_MAX", "1MiB", 1024,
		       16777216, "bytes of a request's body; longer: 413"),
	SETTING_DURATION(struct gateway_settings, timeout_ms, "STAMPEDE_HTTP_TIMEOUT", "10s", 10,
			 3600000, "deadline of requests that name none"),
	SETTING_FLAG(struct gateway_settings, hide_defaults, "STAMPEDE_JSON_HIDE_DEFAULTS", "off",
		     "leaves out of JSON what is zero or empty, as canonical proto3 JSON does"),
	SETTING_TEXT(struct gateway_settings, cors_origins, "STAMPEDE_CORS_ORIGINS", "",
		     "origins whose pages may call the gateway, with commas, or *; unset: none"),
	SETTING_FLAG(
		struct gateway_settings, trust_forwarded, "STAMPEDE_TRUST_FORWARDED", "off",
		"takes a client's address from X-Forwarded-For; only behind a proxy that sets it"),
	SETTING_NUMBER(struct gateway_settings, batch_max, "STAMPEDE_RESERVE_BATCH_MAX", "64", 1,
		       256, "reservations in one ReserveMany"),
	SETTING_NUMBER(struct gateway_settings, batches_max, "STAMPEDE_RESERVE_BATCHES_MAX", "4", 1,
		       1024, "ReserveMany calls under way; more wait, and fill"),
	SETTING_NUMBER(struct gateway_settings, waiting_max, "STAMPEDE_RESERVE_WAITING_MAX",
		       "50000", 1, 10000000, "reservations that may wait for one; more: 429"),
	SETTING_NUMBER(struct gateway_settings, sold_out_sales_max, "STAMPEDE_SOLD_OUT_SALES_MAX",
		       "256", 0, 100000, "sold-out sales answered from memory; 0: none"),
	SETTING_DURATION(struct gateway_settings, sold_out_settle_ms, "STAMPEDE_SOLD_OUT_SETTLE",
			 "10s", 0, 3600000,
			 "after the start, how long request ids may be repeats of before it"),
	SETTING_NUMBER(struct gateway_settings, proxied_max, "STAMPEDE_PROXIED_MAX", "10000", 1,
		       1000000, "gRPC calls passed on at a time; more: RESOURCE_EXHAUSTED"),
	SETTING_NUMBER(struct gateway_settings, watches_max, "STAMPEDE_WATCHES_MAX", "1000", 1,
		       100000, "different streams open to the services; more: 429"),
	SETTING_NUMBER(struct gateway_settings, user_rate, "STAMPEDE_USER_RATE", "20", 0, 1000000,
		       "requests a second of one user (the body's user_id); 0: no limit"),
	SETTING_NUMBER(struct gateway_settings, user_burst, "STAMPEDE_USER_BURST", "40", 1, 1000000,
		       "of these, how many at once"),
	SETTING_NUMBER(struct gateway_settings, address_rate, "STAMPEDE_ADDRESS_RATE", "0", 0,
		       1000000, "requests a second from one address; 0: no limit"),
	SETTING_NUMBER(struct gateway_settings, address_burst, "STAMPEDE_ADDRESS_BURST", "100", 1,
		       1000000, "of these, how many at once"),
	SETTING_NUMBER(struct gateway_settings, limited_max, "STAMPEDE_LIMITED_MAX", "65536", 4,
		       16777216, "users, and addresses, kept track of"),
	SETTING_END};

static double read_watches(void *self)
{
	return watches_count(self);
}

static double read_exchanges(void *self)
{
	return http_exchanges(self);
}

/* Unique to this process, so that what is counted behind it is unique. */
static void ids_begin(struct gateway *gateway)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = (uint64_t)loop_now_us(gateway->loop);
	snprintf(gateway->id_prefix, sizeof(gateway->id_prefix), "%016llx",
		 (unsigned long long)number);
}

static void limits_make(struct gateway *gateway)
{
	const struct gateway_settings *mine = gateway->settings;

	gateway->users = limits_create(mine->user_rate, mine->user_burst, mine->limited_max);
	gateway->addresses =
		limits_create(mine->address_rate, mine->address_burst, mine->limited_max);
}

/* Streams have connections of their own here too. */
static grpc_channel *proxy_find(void *self, const char *path, bool *ret_stream)
{
	const struct gateway *gateway = self;
	const struct descriptor_symbol *symbol = NULL;
	char name[256], *slash;
	struct channel *channel;

	if (snprintf(name, sizeof(name), "%s", path + (*path == '/')) < (int)sizeof(name) &&
	    (slash = strchr(name, '/'))) {
		*slash = '.';
		symbol = descriptors_find(descriptors_embedded(), name);
	}
	*ret_stream = symbol && symbol->method && symbol->method->server_streaming;
	channel = *ret_stream ? backends_stream_channel(gateway->backends, path)
			      : backends_channel(gateway->backends, path);
	return channel ? channel_next(channel) : NULL;
}

static void gateway_free(struct process *process);

static bool gateway_start(struct process *process)
{
	struct gateway *gateway = calloc(1, sizeof(*gateway));

	assert(gateway);
	process->self = gateway;
	gateway->process = process;
	gateway->loop = process->loop;
	gateway->settings = process->settings;
	gateway->transcoding.hide_defaults = gateway->settings->hide_defaults;
	gateway->schema = schema_create(descriptors_embedded());
	gateway->routes = routes_create(gateway->schema);
	gateway->backends = backends_create(process, gateway->settings);
	gateway->proxy = proxy_create(
		process, &(struct proxy_options){.calls_max = (int)gateway->settings->proxied_max,
						 .find = proxy_find,
						 .self = gateway});
	edge_routes_make(gateway);
	ids_begin(gateway);
	limits_make(gateway);
	gateway->watches = watches_create(gateway);
	gateway->events = events_create(gateway);
	gateway->sold_outs = sold_outs_create(gateway);
	gateway->reserves = reserves_create(gateway);
	metrics_gauge_read(process->metrics, "stampede_gateway_watches",
			   "Different streams open to the services.", NULL, read_watches,
			   gateway->watches);
	gateway->http = http_create(
		process->loop,
		&(struct http_options){.address = gateway->settings->http_address,
				       .connections_max = (int)gateway->settings->connections_max,
				       .body_max = (size_t)gateway->settings->body_max,
				       .request = edge_request,
				       .self = gateway});
	if (!gateway->http) {
		gateway_free(process);
		return false;
	}
	metrics_gauge_read(process->metrics, "stampede_gateway_requests_active",
			   "HTTP requests under way.", NULL, read_exchanges, gateway->http);
	log_event(LOG_INFO, "http", log_number("port", http_port(gateway->http)),
		  log_number("routes", routes_count(gateway->routes)));
	return true;
}

/* No new connections, and what would last for ever ends; the rest is finished. */
static void gateway_drain(struct process *process)
{
	struct gateway *gateway = process->self;

	http_quiesce(gateway->http);
	events_quiesce(gateway->events);
	proxy_drain(gateway->proxy);
}

/* --- the end: requests under way are waited for ---------------------------------------------------- */

#define FINISH_LOOK_US 10000
#define FINISH_LOOKS_MAX 500

struct finish {
	struct timer timer;
	struct process *process;
	int looks;
};

static void finish_look(struct timer *timer)
{
	struct finish *finish = container_of(timer, struct finish, timer);
	struct gateway *gateway = finish->process->self;

	if (http_exchanges(gateway->http) && ++finish->looks < FINISH_LOOKS_MAX) {
		timer_start_us(timer, FINISH_LOOK_US);
		return;
	}
	backends_quiesce(gateway->backends);
	process_stopped(finish->process);
	free(finish);
}

static void gateway_stop(struct process *process)
{
	struct finish *finish = calloc(1, sizeof(*finish));

	assert(finish);
	finish->process = process;
	timer_init(&finish->timer, process->loop, finish_look);
	timer_start_us(&finish->timer, 0);
}

static void gateway_free(struct process *process)
{
	struct gateway *gateway = process->self;

	http_destroy(gateway->http); /* what is left is told that it is gone */
	proxy_destroy(gateway->proxy);
	sold_outs_destroy(gateway->sold_outs);
	backends_destroy(gateway->backends); /* ends all calls */
	reserves_destroy(gateway->reserves);
	watches_destroy(gateway->watches);
	events_destroy(gateway->events);
	limits_destroy(gateway->users);
	limits_destroy(gateway->addresses);
	free(gateway->edge_routes);
	routes_destroy(gateway->routes);
	schema_destroy(gateway->schema);
	free(gateway);
}

int main(int argc, char **argv)
{
	static const struct process_spec spec = {
		.name = "gateway",
		.grpc_port = 7000,
		.message_max = 4 << 20,
		.settings = settings,
		.settings_size = sizeof(struct gateway_settings),
		.start = gateway_start,
		.drain = gateway_drain,
		.stop = gateway_stop,
		.free = gateway_free,
		.lists_everything = true,
	};

	return process_main(argc, argv, &spec);
}
