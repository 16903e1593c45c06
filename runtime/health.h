/* grpc.health.v1, and readiness behind it.
 *
 * A process is ready when all its parts are (Redis, bus, database …) and it is not draining. Services by name, "" and
 * "readiness" follow that; "liveness" is SERVING as long as the loop turns.
 */
#pragma once

#include "runtime/call.h"

struct health;
struct health_part;

struct health *health_create(struct loop *loop);
void health_destroy(struct health *health);
/* `package.Service` names to be known besides "", "readiness" and "liveness". */
void health_add_service(struct health *health, const char *name);
/* A part that must be up for the process to be ready; down at first. Logged when it changes. */
struct health_part *health_part(struct health *health, const char *name);
void health_set(struct health_part *part, bool up, const char *reason);
void health_drain(struct health *health);
bool health_ready(const struct health *health);
/* {"ready":false,"parts":{"redis":{"up":false,"reason":"…"}}}; malloc'd, the caller frees. */
char *health_json(const struct health *health);
/* To be added to the server. */
const struct service *health_service(struct health *health);
/* Ends every Watch, so that a drain need not wait for them. */
void health_close(struct health *health);
