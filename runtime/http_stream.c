/* An answer that goes on (server-sent events): a bounded buffer between its writer and MHD.
 *
 *     http_stream_write() ─► buffer ─► stream_read(), asked by MHD when the socket takes more
 *                                      nothing there: suspended until something is
 *
 * MHD does not watch suspended connections, so that a reader who leaves is noticed by an epoll of
 * our own, for streams only.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "runtime/http_internal.h"

#define WAITING_MAX (64 << 10)
#define PIECE 4096

static ssize_t stream_read(void *self, uint64_t position, char *bytes, size_t max)
{
	struct http_exchange *exchange = self;
	struct http_stream *stream = exchange->stream;
	size_t size = stream->size < max ? stream->size : max;

	(void)position;
	if (stream->hung_up)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (size) {
		exchange->server->progress = true;
		memcpy(bytes, stream->bytes + stream->start, size);
		stream->start += size;
		stream->size -= size;
		return (ssize_t)size;
	}
	if (stream->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	http_server_suspend(exchange);
	return 0;
}

static int stream_socket(struct http_exchange *exchange)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	assert(info);
	return info->connect_fd;
}

static void stream_watch(struct http_exchange *exchange)
{
	struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = exchange};

	exchange->stream->watched = !epoll_ctl(exchange->server->hangup_fd, EPOLL_CTL_ADD,
					       stream_socket(exchange), &event);
}

void http_stream_begin(struct http_exchange *exchange, const char *content_type)
{
	struct http_stream *stream = arena_zalloc(&exchange->arena, sizeof(*stream));

	exchange->stream = stream;
	stream_watch(exchange);
	http_answer_give(exchange, MHD_HTTP_OK,
			 MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, stream_read,
							   exchange, NULL),
			 content_type);
}

bool http_stream_write(struct http_exchange *exchange, const void *bytes, size_t size)
{
	struct http_stream *stream = exchange->stream;
	size_t room = stream->room;

	if (stream->hung_up || stream->ended || stream->size + size > WAITING_MAX)
		return false;
	if (stream->start) {
		memmove(stream->bytes, stream->bytes + stream->start, stream->size);
		stream->start = 0;
	}
	if (stream->size + size > room) {
		while (stream->size + size > room)
			room = room ? room * 2 : 1024;
		stream->bytes = realloc(stream->bytes, room);
		assert(stream->bytes);
		stream->room = room;
	}
	memcpy(stream->bytes + stream->size, bytes, size);
	stream->size += size;
	http_server_resume(exchange);
	return true;
}

void http_stream_end(struct http_exchange *exchange)
{
	exchange->stream->ended = true;
	exchange->gone = NULL; /* the writer has let go of it */
	http_server_resume(exchange);
}

void http_stream_hang_up(struct http_exchange *exchange)
{
	exchange->stream->hung_up = true;
	http_server_resume(exchange);
}

void http_stream_free(struct http_exchange *exchange)
{
	if (exchange->stream->watched)
		epoll_ctl(exchange->server->hangup_fd, EPOLL_CTL_DEL, stream_socket(exchange),
			  NULL);
	free(exchange->stream->bytes);
}
