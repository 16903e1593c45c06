/* What the http_*.c files know of each other. */
#pragma once

#include <microhttpd.h>

#include "runtime/http.h"

#define EXCHANGE_FIRST_CHUNK 2048

/*     receiving ──► asked ──┬─► parked ──► suspended ─┐
 *                           └─────────────────────────┴─► answered ──► gone
 *
 * asked: inside options.request(). parked: MHD asks again whenever it runs, which is cheaper than
 * suspending (no epoll_ctl, no empty read) when the answer comes within a few rounds. suspended:
 * MHD has forgotten the connection until it is resumed. */
enum exchange_state {
	EXCHANGE_RECEIVING,
	EXCHANGE_ASKED,
	EXCHANGE_PARKED,
	EXCHANGE_SUSPENDED,
	EXCHANGE_ANSWERED,
};

struct header {
	const char *name, *value;
	struct header *next;
};

/* An answer that goes on: what waits to be sent. */
struct http_stream {
	char *bytes;
	size_t start, size, room;
	bool ended, hung_up, watched;
};

struct http_exchange {
	struct http_server *server;
	struct http_exchange *next, *previous; /* in use: a ring; free: a list by next */
	struct MHD_Connection *connection;
	enum exchange_state state;
	bool suspended, resumes; /* resumes: in the server's list */
	struct http_exchange *resumes_next;
	int looks; /* how often MHD has asked while parked */
	const char *method, *path;
	char *body;
	size_t body_size, body_room, body_refused;
	struct header *headers;
	struct MHD_Response *response;
	int status;
	void *context;
	void (*gone)(struct http_exchange *exchange, void *context);
	struct http_stream *stream;
	char peer[64];
	struct arena arena;
	_Alignas(16) char first[EXCHANGE_FIRST_CHUNK];
};

struct http_server {
	struct loop *loop;
	struct http_options options;
	struct MHD_Daemon *daemon;
	int listen_fd, port;
	uv_poll_t poll, hangup_poll;
	int hangup_fd; /* an epoll of its own: the sockets of streams, which MHD does not watch */
	struct timer timer;
	struct loop_hook hook;
	struct http_exchange active; /* a ring */
	struct http_exchange *free;
	int active_count, free_count, parked, suspended;
	struct http_exchange *resumes; /* suspended, and now to go on */
	int64_t resumed_at_us;
	bool answers;  /* some were given since MHD ran */
	bool progress; /* MHD's last run did more than look at what is parked */
	bool destroying, quiesced;
	int handles; /* libuv's, still open */
};

/* --- http.c --- */
/* MHD has something to do: it runs at the end of this round. */
void http_server_wake(struct http_server *server);
/* MHD forgets the connection until http_server_resume(), which may be asked for more than once. */
void http_server_suspend(struct http_exchange *exchange);
void http_server_resume(struct http_exchange *exchange);

/* --- http_answer.c --- */
/* The answer is there: MHD takes it when the request callback returns, or is woken to fetch it. */
void http_answer_give(struct http_exchange *exchange, int status, struct MHD_Response *response,
		      const char *content_type);
/* Hands the answer to MHD, which takes it now or closes the connection. */
enum MHD_Result http_answer_queue(struct http_exchange *exchange);

/* --- http_stream.c --- */
void http_stream_free(struct http_exchange *exchange);
/* The reader is gone, or the server is ending. */
void http_stream_hang_up(struct http_exchange *exchange);
