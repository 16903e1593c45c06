/* What every binary does around its services: settings, logs, loop, server, health, reflection, admin HTTP,
 * signals, drain.
 *
 *     settings ─► log ─► loop ─► start() ─► serve … SIGTERM ─► NOT_SERVING ─► wait ─► no new calls ─►
 *     finish ─► stop() ─► exit 0         (a second signal or the drain deadline ends it)
 */
#pragma once

#include "runtime/call.h"
#include "runtime/health.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/server.h"
#include "runtime/settings.h"

struct process {
	struct loop *loop;
	struct metrics *metrics;
	struct health *health;
	struct server *server;
	const void *settings; /* the spec's struct, filled */
	void *self;	      /* what start() made */
	char instance[64];    /* unique: host name, port and a random part */
};

struct process_spec {
	const char *name; /* "inventory" */
	int grpc_port;	  /* default; admin HTTP is this + 1000 */
	size_t message_max;
	int calls_max; /* default of STAMPEDE_CALLS_MAX; 0: the server's */
	const struct setting *settings;
	size_t settings_size;
	/* Makes the process's own parts, sets process->self, adds services with process_serve(). False: do not
	 * run (the reason was logged). Dependencies may be down: say so by health, and recover. */
	bool (*start)(struct process *process);
	/* The drain begins: end what would last for ever (streams). May be NULL. */
	void (*drain)(struct process *process);
	/* The drain has ended: flush (the bus, outboxes), then call process_stopped(), soon or later. */
	void (*stop)(struct process *process);
	/* Frees what start() made. The loop does not run any more. */
	void (*free)(struct process *process);
	bool lists_everything; /* reflection lists every service in the set (the gateway) */
};

int process_main(int argc, char **argv, const struct process_spec *spec);
/* Adds a service to the server, to health and to reflection; only inside start(). */
void process_serve(struct process *process, const struct service *service);
void process_stopped(struct process *process);
