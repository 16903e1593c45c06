/* HTTP inside the loop: see http.h. This file drives MHD; http_exchange.c is a request,
 * http_answer.c its answer, http_stream.c an answer that goes on.
 *
 *     epoll descriptor readable ─► MHD runs: reads, asks exchange_continue(), writes
 *     answers given in a round ─► at its end MHD runs once for all of them (twice: it looks, then
 * it writes) timeouts ─► one timer, set to the nearest
 *
 * MHD never blocks: its runs only look at its descriptors.
 */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/address.h"
#include "runtime/http_internal.h"
#include "runtime/log.h"

/* Request head, and what of a body is read at once; MHD clears it after each request, so more
 * costs. */
#define CONNECTION_MEMORY 8192
#define BACKLOG 4096
/* While parked; then it is suspended. So many looks cost about what a suspension does. */
#define LOOKS_MAX 16
#define LOOK_AGAIN_US 1000
#define PARKED_MAX 256
/* To resume any, MHD walks all that are suspended: with 8,000 of them, once a millisecond is enough. */
#define SUSPENDED_PER_US 8
#define FREE_MAX 256
#define HANGUPS_PER_RUN_MAX 64

/* --- a request, as MHD tells of it --------------------------------------------------------------
 */

static struct http_exchange *exchange_take(struct http_server *server,
					   struct MHD_Connection *connection)
{
	struct http_exchange *exchange = server->free;

	if (exchange) {
		server->free = exchange->next;
		server->free_count--;
	} else {
		exchange = malloc(sizeof(*exchange));
		assert(exchange);
	}
	memset(exchange, 0, offsetof(struct http_exchange, first));
	arena_init(&exchange->arena, exchange->first, sizeof(exchange->first));
	exchange->server = server;
	exchange->connection = connection;
	exchange->next = server->active.next;
	exchange->previous = &server->active;
	exchange->next->previous = exchange->previous->next = exchange;
	server->active_count++;
	return exchange;
}

static void exchange_release(struct http_exchange *exchange)
{
	struct http_server *server = exchange->server;

	server->progress = true;
	server->parked -= exchange->state == EXCHANGE_PARKED;
	if (exchange->gone && (exchange->state != EXCHANGE_ANSWERED || exchange->stream))
		exchange->gone(exchange, exchange->context);
	if (exchange->stream)
		http_stream_free(exchange);
	if (exchange->response)
		MHD_destroy_response(exchange->response);
	arena_reset(&exchange->arena);
	exchange->next->previous = exchange->previous;
	exchange->previous->next = exchange->next;
	server->active_count--;
	exchange->connection = NULL; /* an answer given now is a mistake, and seen as one */
	if (server->free_count < FREE_MAX) {
		exchange->next = server->free;
		server->free = exchange;
		server->free_count++;
	} else {
		free(exchange);
	}
}

static void exchange_keep_body(struct http_exchange *exchange, const char *bytes, size_t size)
{
	size_t needed = exchange->body_size + size, room = exchange->body_room;
	char *body;

	if (exchange->body_refused || needed > exchange->server->options.body_max) {
		exchange->body_refused += size;
		return;
	}
	if (needed > room) {
		room = room * 2 > needed ? room * 2 : needed;
		body = arena_alloc(&exchange->arena, room + 1);
		if (exchange->body_size)
			memcpy(body, exchange->body, exchange->body_size);
		exchange->body = body;
		exchange->body_room = room;
	}
	memcpy(exchange->body + exchange->body_size, bytes, size);
	exchange->body_size = needed;
	exchange->body[needed] = 0;
}

static enum MHD_Result count_value(void *count, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	(void)kind;
	(void)value;
	*(int *)count += !strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH);
	return MHD_YES;
}

/* What can be refused before a body comes: 0, or the HTTP status. A request whose end two readers could
 * see in two places must not pass a proxy (request smuggling); MHD would take it. */
static int exchange_refusal(const struct http_exchange *exchange)
{
	struct MHD_Connection *connection = exchange->connection;
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);
	int lengths = 0;

	if (!length)
		return 0;
	MHD_get_connection_values(connection, MHD_HEADER_KIND, count_value, &lengths);
	if (lengths > 1 || MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						       MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return MHD_HTTP_BAD_REQUEST;
	return strtoull(length, NULL, 10) > exchange->server->options.body_max
		       ? MHD_HTTP_CONTENT_TOO_LARGE
		       : 0;
}

/* The request is complete: asks for an answer, or looks whether there is one by now. */
static enum MHD_Result exchange_continue(struct http_exchange *exchange)
{
	struct http_server *server = exchange->server;

	if (server->destroying && !exchange->response)
		return MHD_NO;
	if (exchange->state == EXCHANGE_RECEIVING) {
		exchange->state = EXCHANGE_ASKED;
		server->progress = true;
		if (exchange->body_refused)
			http_respond_error(exchange, MHD_HTTP_CONTENT_TOO_LARGE,
					   "the body is too large");
		else
			server->options.request(server->options.self, exchange);
	}
	if (exchange->response)
		return http_answer_queue(exchange);
	if (exchange->state != EXCHANGE_PARKED)
		server->parked++;
	exchange->state = EXCHANGE_PARKED;
	if (++exchange->looks > LOOKS_MAX || server->parked > PARKED_MAX)
		http_server_suspend(exchange);
	return MHD_YES;
}

static enum MHD_Result server_request(void *self, struct MHD_Connection *connection,
				      const char *url, const char *method, const char *version,
				      const char *body, size_t *body_size, void **ret_exchange)
{
	struct http_server *server = self;
	struct http_exchange *exchange = *ret_exchange;
	int refusal;

	(void)version;
	if (!exchange) {
		exchange = *ret_exchange = exchange_take(server, connection);
		exchange->method = method;
		exchange->path = url;
		refusal = exchange_refusal(exchange);
		if (!refusal)
			return MHD_YES;
		exchange->state = EXCHANGE_ASKED;
		http_add_header(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
		http_respond_error(exchange, refusal,
				   refusal == MHD_HTTP_BAD_REQUEST
					   ? "the body's length is given twice"
					   : "the body is too large");
		return http_answer_queue(exchange);
	}
	if (*body_size) {
		server->progress = true;
		exchange_keep_body(exchange, body, *body_size);
		*body_size = 0;
		/* Who sends without end and without saying so is not worth an answer. */
		return exchange->body_refused > server->options.body_max * 4 ? MHD_NO : MHD_YES;
	}
	return exchange_continue(exchange);
}

static void server_completed(void *self, struct MHD_Connection *connection, void **ret_exchange,
			     enum MHD_RequestTerminationCode code)
{
	(void)self;
	(void)connection;
	(void)code;
	if (*ret_exchange)
		exchange_release(*ret_exchange);
	*ret_exchange = NULL;
}

/* Paths and queries stay as they were sent. */
static size_t server_unescape(void *self, struct MHD_Connection *connection, char *text)
{
	(void)self;
	(void)connection;
	return strlen(text);
}

static void server_log(void *self, const char *format, va_list args)
{
	char text[256];

	(void)self;
	if (!log_enabled(LOG_DEBUG))
		return;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = 0;
	log_event(LOG_DEBUG, "http", log_text("message", text));
}

/* --- driving ------------------------------------------------------------------------------------
 */

void http_server_wake(struct http_server *server)
{
	loop_defer(server->loop, LOOP_FLUSH, &server->hook);
}

void http_server_suspend(struct http_exchange *exchange)
{
	struct http_server *server = exchange->server;

	if (exchange->state == EXCHANGE_PARKED) {
		exchange->state = EXCHANGE_SUSPENDED;
		server->parked--;
	}
	exchange->suspended = true;
	server->suspended++;
	MHD_suspend_connection(exchange->connection);
}

void http_server_resume(struct http_exchange *exchange)
{
	struct http_server *server = exchange->server;

	http_server_wake(server);
	if (!exchange->suspended)
		server->answers = true;
	if (!exchange->suspended || exchange->resumes)
		return;
	exchange->resumes = true;
	exchange->resumes_next = server->resumes;
	server->resumes = exchange;
}

static void server_resume_all(struct http_server *server)
{
	struct http_exchange *exchange;

	server->answers |= server->resumes != NULL;
	server->resumed_at_us = loop_now_us(server->loop);
	while ((exchange = server->resumes)) {
		server->resumes = exchange->resumes_next;
		exchange->resumes = exchange->suspended = false;
		server->suspended--;
		if (exchange->state == EXCHANGE_SUSPENDED) {
			exchange->state = EXCHANGE_PARKED;
			server->parked++;
		}
		MHD_resume_connection(exchange->connection);
	}
}

/* How long until MHD must run again: 0 at once, -1 whenever there is something new.
 *
 * MHD says 0 as long as a request is parked, since it knows no difference between that and work. While
 * there is progress it runs again at once, else a little later: nothing spins. */
static int64_t server_delay_us(struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG delay_ms;

	if (MHD_get_timeout(server->daemon, &delay_ms) == MHD_NO)
		return -1;
	if (!delay_ms && server->parked && !server->progress)
		return LOOK_AGAIN_US;
	return delay_ms < INT32_MAX ? (int64_t)delay_ms * 1000 : INT32_MAX;
}

static void server_run(struct http_server *server)
{
	int64_t now_us = loop_now_us(server->loop), delay_us, resume_us;
	bool answers;

	resume_us = server->resumed_at_us + server->suspended / SUSPENDED_PER_US - now_us;
	if (server->resumes && resume_us <= 0)
		server_resume_all(server);
	answers = server->answers;
	server->answers = server->progress = false;
	MHD_run(server->daemon);
	if (answers)
		MHD_run(server->daemon);
	delay_us = server_delay_us(server);
	if (!delay_us)
		http_server_wake(server);
	if (server->resumes && (delay_us < 0 || resume_us < delay_us))
		delay_us = resume_us > 0 ? resume_us : 1;
	if (delay_us <= 0)
		return;
	/* Only ever set earlier: when it fires too early it is set anew, which is seldom. */
	if (!timer_started(&server->timer) || now_us + delay_us < server->timer.at_us)
		timer_start_us(&server->timer, delay_us);
}

static void server_flush(struct loop_hook *hook)
{
	server_run(container_of(hook, struct http_server, hook));
}

static void server_timeout(struct timer *timer)
{
	server_run(container_of(timer, struct http_server, timer));
}

static void server_readable(uv_poll_t *poll, int status, int events)
{
	struct http_server *server = poll->data;

	(void)status;
	(void)events;
	loop_busy(server->loop);
	server_run(server);
}

static void server_hangups(uv_poll_t *poll, int status, int events)
{
	struct http_server *server = poll->data;
	struct epoll_event hangups[HANGUPS_PER_RUN_MAX];
	int count = epoll_wait(server->hangup_fd, hangups, HANGUPS_PER_RUN_MAX, 0);

	(void)status;
	(void)events;
	loop_busy(server->loop);
	for (int i = 0; i < count; i++)
		http_stream_hang_up(hangups[i].data.ptr);
}

/* --- life ---------------------------------------------------------------------------------------
 */

static int listen_at(const char *address)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	char host[ADDRESS_HOST_SIZE], service[8];
	int port, fd = -1;

	if (!address_free(address) || !address_parse(address, host, &port))
		return -1;
	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &found))
		return -1;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
		if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, BACKLOG)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd < 0)
		log_event(LOG_ERROR, "listen_failed", log_text("address", address),
			  log_text("reason", strerror(errno)));
	return fd;
}

static int listening_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} address;
	socklen_t size = sizeof(address);

	memset(&address, 0, sizeof(address));
	if (getsockname(fd, &address.any, &size))
		return 0;
	return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port
						       : address.four.sin_port);
}

static struct MHD_Daemon *server_daemon(struct http_server *server)
{
	const struct http_options *options = &server->options;

	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_IPv6, 0,
		NULL, NULL, server_request, server, MHD_OPTION_EXTERNAL_LOGGER, server_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)options->connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)((options->idle_ms + 999) / 1000), MHD_OPTION_NOTIFY_COMPLETED,
		server_completed, server, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_UNESCAPE_CALLBACK, server_unescape, NULL, MHD_OPTION_END);
}

static void server_watch(struct http_server *server)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	uv_loop_t *uv = loop_uv(server->loop);

	assert(info);
	server->hangup_fd = epoll_create1(EPOLL_CLOEXEC);
	assert(server->hangup_fd >= 0);
	uv_poll_init(uv, &server->poll, info->epoll_fd);
	uv_poll_init(uv, &server->hangup_poll, server->hangup_fd);
	server->poll.data = server->hangup_poll.data = server;
	server->handles = 2;
	uv_poll_start(&server->poll, UV_READABLE, server_readable);
	uv_poll_start(&server->hangup_poll, UV_READABLE, server_hangups);
	http_server_wake(server); /* MHD adds its listening socket when it first runs */
}

struct http_server *http_create(struct loop *loop, const struct http_options *options)
{
	struct http_server *server = calloc(1, sizeof(*server));
	struct http_options *mine;

	assert(server);
	mine = &server->options;
	*mine = *options;
	mine->connections_max = mine->connections_max ? mine->connections_max : 10000;
	mine->body_max = mine->body_max ? mine->body_max : 64 << 10;
	mine->idle_ms = mine->idle_ms ? mine->idle_ms : 60000;
	server->loop = loop;
	server->active.next = server->active.previous = &server->active;
	server->hook.run = server_flush;
	timer_init(&server->timer, loop, server_timeout);
	server->listen_fd = listen_at(options->address);
	server->daemon = server->listen_fd >= 0 ? server_daemon(server) : NULL;
	if (!server->daemon) {
		if (server->listen_fd >= 0) {
			log_event(LOG_ERROR, "http_failed", log_text("address", options->address));
			close(server->listen_fd);
		}
		free(server);
		return NULL;
	}
	server->port = listening_port(server->listen_fd);
	server_watch(server);
	return server;
}

int http_port(const struct http_server *server)
{
	return server->port;
}

int http_exchanges(const struct http_server *server)
{
	return server->active_count;
}

void http_quiesce(struct http_server *server)
{
	if (server->quiesced)
		return;
	server->quiesced = true;
	MHD_quiesce_daemon(server->daemon);
	close(server->listen_fd);
	http_server_wake(server);
}

static void server_closed(uv_handle_t *handle)
{
	struct http_server *server = handle->data;
	struct http_exchange *exchange;

	if (--server->handles)
		return;
	while ((exchange = server->free)) {
		server->free = exchange->next;
		free(exchange);
	}
	close(server->hangup_fd);
	free(server);
}

void http_destroy(struct http_server *server)
{
	struct http_exchange *exchange;

	if (!server)
		return;
	/* MHD must not be stopped while connections are suspended. */
	server->destroying = true;
	for (exchange = server->active.next; exchange != &server->active;
	     exchange = exchange->next) {
		if (exchange->stream)
			http_stream_hang_up(exchange);
		else
			http_server_resume(exchange);
	}
	server_resume_all(server);
	MHD_run(server->daemon);
	uv_poll_stop(&server->poll);
	uv_poll_stop(&server->hangup_poll);
	http_quiesce(server);
	MHD_stop_daemon(server->daemon);
	assert(!server->active_count);
	timer_stop(&server->timer);
	loop_defer_cancel(server->loop, LOOP_FLUSH, &server->hook);
	uv_close((uv_handle_t *)&server->poll, server_closed);
	uv_close((uv_handle_t *)&server->hangup_poll, server_closed);
}
