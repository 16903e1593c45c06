/* One connection to one server.
 *
 *     open ─► resolve (libuv's threads: never on the loop) ─► connect ─► TLS ─► opened … closed
 *
 * Every end, whoever brings it about, goes through link_gone(), which hiredis calls last of all; a
 * link that has no context yet ends through link_end(). The object frees itself.
 */
#include "runtime/redis_link.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/redis_adapter.h"
#include "runtime/redis_tls.h"

#define KEEPALIVE_S 15
#define USER_TIMEOUT_MS 30000

struct redis_link_internal {
	struct redis_link link;
	struct loop *loop;
	struct redis_address address;
	struct redis_tls *tls;
	struct redis_tls_session *session;
	unsigned attempt;
	void (*opened)(void *self);
	void (*closed)(void *self, const char *reason);
	struct timer start;
	uv_getaddrinfo_t resolve;
	bool resolving;
	char reason[256];
};

static void link_end(struct redis_link_internal *internal, const char *reason)
{
	void *self = internal->link.self;

	internal->link.self = NULL;
	if (self)
		internal->closed(self, reason);
	free(internal);
}

/* hiredis's last word about a context. */
static void link_gone(void *data)
{
	struct redis_link_internal *internal = ((struct redis_link *)data)->internal;
	redisAsyncContext *context = internal->link.context;
	const char *reason = NULL;

	/* hiredis has no words for what goes wrong in TLS, and seldom any for a refused connect. */
	if (internal->session)
		reason = redis_tls_reason(internal->session);
	if (!reason && *context->c.errstr)
		reason = context->c.errstr;
	if (reason)
		snprintf(internal->reason, sizeof(internal->reason), "%s", reason);
	else if (!*internal->reason)
		strcpy(internal->reason, "closed");
	internal->link.context = NULL;
	link_end(internal, internal->reason);
}

static void link_connected(redisAsyncContext *context, int status)
{
	struct redis_link *link = context->data;
	struct redis_link_internal *internal = link->internal;

	if (status != REDIS_OK || !link->self) {
		snprintf(internal->reason, sizeof(internal->reason), "connecting: %s",
			 strerror(errno));
		return;
	}
	if (internal->address.port) {
		(void)redisEnableKeepAliveWithInterval(&context->c, KEEPALIVE_S);
		(void)redisSetTcpUserTimeout(&context->c, USER_TIMEOUT_MS);
	}
	if (internal->tls) {
		internal->session =
			redis_tls_begin(internal->tls, &context->c, internal->address.host);
		if (!internal->session) {
			redisAsyncFree(context);
			return;
		}
	}
	link->received_us = loop_now_us(internal->loop);
	internal->opened(link->self);
}

static void link_connect(struct redis_link_internal *internal, const char *host)
{
	redisOptions options = {.options = REDIS_OPT_NONBLOCK};
	redisAsyncContext *context;

	if (internal->address.port)
		REDIS_OPTIONS_SET_TCP(&options, host, internal->address.port);
	else
		REDIS_OPTIONS_SET_UNIX(&options, host);
	context = redisAsyncConnectWithOptions(&options);
	assert(context);
	internal->link.context = context;
	context->data = &internal->link;
	context->dataCleanup = link_gone;
	if (context->err ||
	    redis_adapter_attach(internal->loop, context, &internal->link.received_us) != 0) {
		redisAsyncFree(context);
		return;
	}
	(void)redisAsyncSetConnectCallbackNC(context, link_connected);
}

static void link_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
	struct redis_link_internal *internal =
		container_of(resolve, struct redis_link_internal, resolve);
	struct addrinfo *chosen = found;
	char host[INET6_ADDRSTRLEN];
	unsigned count = 0;

	loop_busy(internal->loop);
	internal->resolving = false;
	if (status < 0 || !internal->link.self) {
		uv_freeaddrinfo(found);
		snprintf(internal->reason, sizeof(internal->reason), "resolving %.200s: %s",
			 internal->address.host, status < 0 ? uv_strerror(status) : "closed");
		link_end(internal, internal->reason);
		return;
	}
	for (struct addrinfo *each = found; each; each = each->ai_next)
		count++;
	assert(count);
	for (unsigned skip = internal->attempt % count; skip; skip--)
		chosen = chosen->ai_next;
	status = chosen->ai_family == AF_INET6
			 ? uv_ip6_name((struct sockaddr_in6 *)chosen->ai_addr, host, sizeof(host))
			 : uv_ip4_name((struct sockaddr_in *)chosen->ai_addr, host, sizeof(host));
	assert(status == 0);
	uv_freeaddrinfo(found);
	link_connect(internal, host);
}

static bool host_is_numeric(const char *host)
{
	struct in6_addr address;

	return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static void link_start(struct timer *timer)
{
	struct redis_link_internal *internal =
		container_of(timer, struct redis_link_internal, start);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
	int error;

	if (!internal->address.port || host_is_numeric(internal->address.host)) {
		link_connect(internal, internal->address.host);
		return;
	}
	error = uv_getaddrinfo(loop_uv(internal->loop), &internal->resolve, link_resolved,
			       internal->address.host, NULL, &hints);
	if (error)
		link_end(internal, uv_strerror(error));
	else
		internal->resolving = true;
}

struct redis_link *redis_link_open(struct loop *loop, const struct redis_link_options *options)
{
	struct redis_link_internal *internal = calloc(1, sizeof(*internal));

	assert(internal);
	internal->link.self = options->self;
	internal->link.internal = internal;
	internal->loop = loop;
	internal->address = *options->address;
	internal->tls = options->tls;
	internal->attempt = options->attempt;
	internal->opened = options->opened;
	internal->closed = options->closed;
	timer_init(&internal->start, loop, link_start);
	timer_start_us(&internal->start, 0);
	return &internal->link;
}

void redis_link_close(struct redis_link *link)
{
	struct redis_link_internal *internal = link->internal;

	link->self = NULL;
	if (link->context) {
		redisAsyncFree(link->context);
	} else if (internal->resolving) {
		(void)uv_cancel((uv_req_t *)&internal->resolve); /* else it ends by itself */
	} else {
		timer_stop(&internal->start);
		free(internal);
	}
}
