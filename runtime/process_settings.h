/* The settings every process has. */
#pragma once

#include "runtime/log.h"
#include "runtime/settings.h"

struct process_settings {
	const char *grpc_address, *admin_address;
	const char *log_level;
	enum log_level level; /* the same, read */
	int64_t calls_max;
	int64_t deadline_default_ms, deadline_max_ms;
	int64_t connection_age_ms;
	int64_t drain_wait_ms, drain_grace_ms, stop_max_ms;
	const char *tls_certificate, *tls_key, *tls_client_ca;
};

/* Defaults depend on the process: its port, its number of calls (0: 4,096). Made once. */
const struct setting *process_settings_table(int grpc_port, int calls_max);
/* After process_settings_table(). Returns how many were wrong. */
int process_settings_load(struct process_settings *settings);
/* A name no other process has: host name, port and a random part. */
void process_settings_instance(const struct process_settings *settings, char *instance,
			       size_t size);
