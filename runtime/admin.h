/* The admin pages of a process: /metrics, /healthz, /readyz, /debug/config, and / that links to them. */
#pragma once

#include "runtime/health.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"
#include "runtime/settings.h"

struct admin;

struct admin_options {
	const char *address; /* "0.0.0.0:8001" */
	const char *title;   /* "stampede-inventory 0.1.0" */
	struct metrics *metrics;
	const struct health *health;
	const struct setting *const *tables; /* as settings_json() takes them */
	const void *const *targets;
};
/* NULL, with the reason logged, when the address cannot be bound. The options' pointers must outlive it. */
struct admin *admin_create(struct loop *loop, const struct admin_options *options);
int admin_port(const struct admin *admin);
void admin_destroy(struct admin *admin);
