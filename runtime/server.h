/* The gRPC server of a process: ports, services, the pool of calls, drain.
 *
 * Everything is bounded: calls come from a pool sized at start; when it is empty the answer is
 * RESOURCE_EXHAUSTED at once. Unknown methods are answered UNIMPLEMENTED, or go to the fallback.
 */
#pragma once

#include "runtime/call.h"

struct server;
struct metrics;

struct server_options {
	const char *address;	     /* "0.0.0.0:7001"; port 0 picks one */
	int calls_max;		     /* 0: 4,096 */
	int64_t deadline_default_ms; /* for unary calls that bring none; 0: 10,000 */
	int64_t deadline_max_ms;     /* 0: 3,600,000 */
	size_t message_max;	     /* bytes; the largest any method takes; 0: 64 KiB */
	int64_t connection_age_ms;   /* 0: 600,000 */
	struct metrics *metrics;
	/* TLS: PEM files; all NULL: plain text. With a CA, clients must show a certificate. */
	const char *tls_certificate, *tls_key, *tls_client_ca;
};

struct server *server_create(struct loop *loop, const struct server_options *options);
/* Before server_start(). `service` must outlive the server. */
void server_add(struct server *server, const struct service *service);

/* Takes over calls of methods nobody registered (the gateway's proxy), before server_start(). The call is the
 * fallback's from then on; path, authority and metadata are valid while it runs. */
typedef void server_fallback(void *self, grpc_call *call, const char *path, const char *authority,
			     gpr_timespec deadline, grpc_metadata_array *metadata);
void server_set_fallback(struct server *server, server_fallback *fallback, void *self);
/* Ends a call that a fallback was given, and takes it over. */
void server_refuse(grpc_call *call, enum status status, const char *message);

/* STATUS_UNAVAILABLE when the address cannot be bound; says so in the log. */
enum status server_start(struct server *server) MUST_USE;
int server_port(const struct server *server);

/* Refuses new calls; `drained` runs on the loop when the last one has been answered, or after `grace_ms`,
 * when those left are continued with STATUS_UNAVAILABLE and cancelled. */
void server_drain(struct server *server, int64_t grace_ms, void (*drained)(void *context),
		  void *context);
/* After the drain. */
void server_destroy(struct server *server);

int server_calls_active(const struct server *server);
