/* grpc.health.v1: see health.h.
 *
 *     Watch:  begin ──► sent ──► (changed ──► sent)* … until the caller leaves, or health_close()
 *
 * A watcher that is slow misses what lies between, never the last status.
 */
#include "runtime/health.h"

#include <assert.h>
#include <grpc/health/v1/health.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json_text.h"
#include "runtime/log.h"

#define WATCHES_MAX 256

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;
#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

struct health_part {
	struct health *health;
	struct health_part *next;
	char *name;
	char reason[160];
	bool up, told;
};

struct health_name {
	struct health_name *next;
	char name[];
};

/* One Watch: the frame of its call. */
struct watch {
	struct wait wait;
	struct health *health;
	struct watch *next, *previous;
	serving_status sent;
	Grpc__Health__V1__HealthCheckResponse response;
};

struct health {
	struct health_part *parts;
	struct health_name *names;
	struct watch watches; /* a ring */
	int watches_count;
	bool ready, draining, closed;
	struct service service;
};

static const struct method check_method, watch_method;
static const struct method *const methods[] = {&check_method, &watch_method, NULL};

static void health_changed(struct health *health);

/* --- life ------------------------------------------------------------------------------------- */

struct health *health_create(struct loop *loop)
{
	struct health *health = calloc(1, sizeof(*health));

	(void)loop; /* that it turns is shown by every answer it gives */
	assert(health);
	health->watches.next = health->watches.previous = &health->watches;
	health->service = (struct service){&grpc__health__v1__health__descriptor, methods, health};
	health->ready = true; /* no part is missing yet */
	return health;
}

void health_destroy(struct health *health)
{
	struct health_part *part;
	struct health_name *name;

	if (!health)
		return;
	assert(!health->watches_count);
	while ((part = health->parts)) {
		health->parts = part->next;
		free(part->name);
		free(part);
	}
	while ((name = health->names)) {
		health->names = name->next;
		free(name);
	}
	free(health);
}

const struct service *health_service(struct health *health)
{
	return &health->service;
}

void health_add_service(struct health *health, const char *name)
{
	struct health_name *added = malloc(sizeof(*added) + strlen(name) + 1);

	assert(added);
	strcpy(added->name, name);
	added->next = health->names;
	health->names = added;
}

/* --- parts and readiness -----------------------------------------------------------------------
 */

struct health_part *health_part(struct health *health, const char *name)
{
	struct health_part *part = calloc(1, sizeof(*part)), **end = &health->parts;

	assert(part);
	part->health = health;
	part->name = strdup(name);
	assert(part->name);
	strcpy(part->reason, "not connected yet");
	while (*end)
		end = &(*end)->next;
	*end = part;
	health_changed(health);
	return part;
}

void health_set(struct health_part *part, bool up, const char *reason)
{
	bool changed = part->up != up || !part->told;

	part->up = up;
	part->told = true;
	snprintf(part->reason, sizeof(part->reason), "%s", reason && !up ? reason : "");
	if (!changed)
		return;
	log_event(up ? LOG_INFO : LOG_WARN, up ? "part_up" : "part_down",
		  log_text("part", part->name), log_text("reason", part->reason));
	health_changed(part->health);
}

bool health_ready(const struct health *health)
{
	if (health->draining)
		return false;
	for (const struct health_part *part = health->parts; part; part = part->next)
		if (!part->up)
			return false;
	return true;
}

void health_drain(struct health *health)
{
	health->draining = true;
	health_changed(health);
}

char *health_json(const struct health *health)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert(out);
	fprintf(out, "{\"ready\":%s,\"draining\":%s,\"parts\":{",
		health_ready(health) ? "true" : "false", health->draining ? "true" : "false");
	for (const struct health_part *part = health->parts; part; part = part->next) {
		json_text_print(out, part->name);
		fprintf(out, ":{\"up\":%s", part->up ? "true" : "false");
		if (!part->up) {
			fputs(",\"reason\":", out);
			json_text_print(out, part->reason);
		}
		fputs(part->next ? "}," : "}", out);
	}
	fputs("}}\n", out);
	fclose(out);
	return text;
}

/* --- answers -----------------------------------------------------------------------------------
 */

static serving_status health_status(const struct health *health, const char *name)
{
	if (!strcmp(name, "liveness"))
		return SERVING;
	if (*name && strcmp(name, "readiness")) {
		const struct health_name *known = health->names;

		while (known && strcmp(known->name, name))
			known = known->next;
		if (!known)
			return SERVICE_UNKNOWN;
	}
	return health_ready(health) ? SERVING : NOT_SERVING;
}

static enum step check_begin(struct call *call)
{
	const Grpc__Health__V1__HealthCheckRequest *request = call_request(call);
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

	response.status = health_status(call_service(call), request->service);
	if (response.status == SERVICE_UNKNOWN)
		return call_fail(call, STATUS_NOT_FOUND, "unknown service '%s'", request->service);
	return call_reply(call, &response);
}

static const struct method check_method = {.name = "Check", .begin = check_begin};

/* --- Watch --------------------------------------------------------------------------------------
 */

static enum step watch_send(struct call *call, struct watch *watch);
static enum step watch_sent(struct call *call, enum status status);
static enum step watch_changed(struct call *call, enum status status);
static enum step watch_end(struct call *call, struct watch *watch, enum status status);

static serving_status watch_status(struct call *call, const struct watch *watch)
{
	const Grpc__Health__V1__HealthCheckRequest *request = call_request(call);

	return health_status(watch->health, request->service);
}

static enum step watch_begin(struct call *call)
{
	struct health *health = call_service(call);
	struct watch *watch = call_frame(call);

	if (health->closed)
		return call_fail(call, STATUS_UNAVAILABLE, "shutting down");
	if (health->watches_count == WATCHES_MAX)
		return call_fail(call, STATUS_RESOURCE_EXHAUSTED, "more than %d watchers",
				 WATCHES_MAX);
	watch->health = health;
	watch->next = &health->watches;
	watch->previous = health->watches.previous;
	watch->next->previous = watch->previous->next = watch;
	health->watches_count++;
	return watch_send(call, watch);
}

static enum step watch_send(struct call *call, struct watch *watch)
{
	grpc__health__v1__health_check_response__init(&watch->response);
	watch->sent = watch->response.status = watch_status(call, watch);
	return call_send(call, &watch->response, watch_sent);
}

static enum step watch_sent(struct call *call, enum status status)
{
	struct watch *watch = call_frame(call);

	if (status != STATUS_OK)
		return watch_end(call, watch, status);
	if (watch_status(call, watch) != watch->sent)
		return watch_send(call, watch);
	if (watch->health->closed)
		return watch_end(call, watch, STATUS_UNAVAILABLE);
	return call_await(call, &watch->wait, NULL, watch_changed);
}

static enum step watch_changed(struct call *call, enum status status)
{
	return watch_sent(call, status);
}

static enum step watch_end(struct call *call, struct watch *watch, enum status status)
{
	watch->next->previous = watch->previous;
	watch->previous->next = watch->next;
	watch->health->watches_count--;
	return call_fail(call, status, "the watch has ended");
}

static const struct method watch_method = {
	.name = "Watch", .begin = watch_begin, .frame_size = sizeof(struct watch)};

/* Wakes the watchers; each looks for itself whether it has anything to say. */
static void health_changed(struct health *health)
{
	bool ready = health_ready(health);

	if (ready != health->ready && !health->draining)
		log_event(LOG_INFO, ready ? "ready" : "not_ready", log_none);
	health->ready = ready;
	for (struct watch *watch = health->watches.next; watch != &health->watches;
	     watch = watch->next)
		wait_finish_later(&watch->wait, STATUS_OK);
}

void health_close(struct health *health)
{
	health->closed = true;
	health_changed(health);
}
