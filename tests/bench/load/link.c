/* HTTP/2 from the client's side, as far as unary gRPC calls need it.
 *
 *     link_fill ──► HEADERS, DATA ──► server ──► HEADERS, DATA, trailers ──► link_finish
 *         ▲                                                                      │
 *         └──────────────────────── a place is free ◄────────────────────────────┘
 *
 * Request headers go as literals once, then as indexes into the server's HPACK table: seven bytes
 * a call, as any good client does it. Response headers are not decoded: a call has failed when no
 * message came, and its outcome stands in the message. Everything of one round goes out in one
 * write. A connection that breaks, or that the server ends with GOAWAY, is not opened again: the
 * run has failed.
 */
#include "link.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum frame_type {
	FRAME_DATA = 0,
	FRAME_HEADERS = 1,
	FRAME_RST_STREAM = 3,
	FRAME_SETTINGS = 4,
	FRAME_PING = 6,
	FRAME_GOAWAY = 7,
	FRAME_WINDOW_UPDATE = 8,
};
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4, FLAG_PADDED = 8 };
enum { FRAME_HEAD = 9, FRAME_MAX = 16384, PREFIX = 5, WINDOW_STEP = 1 << 20 };

static uint32_t read_u32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_u32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static void put(struct link *link, const void *bytes, size_t size)
{
	assert(link->out_size + size <= sizeof(link->out));
	if (size)
		memcpy(link->out + link->out_size, bytes, size);
	link->out_size += size;
}

static void put_frame(struct link *link, enum frame_type type, uint8_t flags, uint32_t stream,
		      const void *payload, size_t size)
{
	uint8_t head[FRAME_HEAD] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size,
				    (uint8_t)type, flags};

	write_u32(head + 5, stream);
	put(link, head, sizeof(head));
	put(link, payload, size);
}

static void put_window(struct link *link, uint32_t bytes)
{
	uint8_t payload[4];

	write_u32(payload, bytes);
	put_frame(link, FRAME_WINDOW_UPDATE, 0, 0, payload, sizeof(payload));
}

static uint8_t *put_string(uint8_t *at, const char *text)
{
	size_t size = strlen(text);

	*at++ = (uint8_t)size;
	for (size_t i = 0; i < size; i++)
		*at++ = (uint8_t)text[i];
	return at;
}

/* A literal header that the server shall remember; `index` of its name in HPACK's static table,
 * 0: `name`. */
static uint8_t *put_literal(uint8_t *at, uint8_t index, const char *name, const char *value)
{
	*at++ = (uint8_t)(0x40 | index);
	if (!index)
		at = put_string(at, name);
	return put_string(at, value);
}

static void put_headers(struct link *link, uint32_t stream)
{
	/* POST, http, then path … te as remembered: the last one has index 62. */
	static const uint8_t indexed[] = {0x83,	     0x86,	0x80 | 66, 0x80 | 65,
					  0x80 | 64, 0x80 | 63, 0x80 | 62};
	uint8_t block[512] = {0x83, 0x86}, *end = block + 2;

	if (link->indexed) {
		put_frame(link, FRAME_HEADERS, FLAG_END_HEADERS, stream, indexed, sizeof(indexed));
		return;
	}
	end = put_literal(end, 4, NULL, link->body->path);
	end = put_literal(end, 1, NULL, "stampede");
	end = put_literal(end, 31, NULL, "application/grpc");
	end = put_literal(end, 58, NULL, "stampede-bench");
	end = put_literal(end, 0, "te", "trailers");
	put_frame(link, FRAME_HEADERS, FLAG_END_HEADERS, stream, block, (size_t)(end - block));
	link->indexed = true;
}

bool link_open(struct link *link, const char *host, const char *port, struct body *body,
	       int streams, struct link_counts *counts)
{
	static const uint8_t settings[] = {0, 2, 0, 0,	0, 0,
					   0, 4, 0, 16, 0, 0}; /* no push; windows 1 MiB */
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *addresses;
	int one = 1;

	assert(streams >= 1 && streams <= LINK_STREAMS_MAX);
	memset(link, 0, sizeof(*link));
	link->fd = -1;
	link->body = body;
	link->counts = counts;
	link->next_id = 1;
	link->send_window = 65535;
	link->streams_count = streams;
	if (getaddrinfo(host, port, &hints, &addresses)) {
		link->failure = "the address is not known";
		return false;
	}
	link->fd = socket(addresses->ai_family, SOCK_STREAM, 0);
	if (link->fd < 0 || connect(link->fd, addresses->ai_addr, addresses->ai_addrlen)) {
		link->failure = strerror(errno);
		freeaddrinfo(addresses);
		return false;
	}
	freeaddrinfo(addresses);
	(void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (int i = 0; i < streams; i++)
		link->streams[i].answer = malloc(LINK_ANSWER_MAX);

	put(link, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	put_frame(link, FRAME_SETTINGS, 0, 0, settings, sizeof(settings));
	put_window(link, 1 << 30);
	return true;
}

static void link_send(struct link *link, int place, int64_t now_us)
{
	struct link_stream *stream = &link->streams[place];
	const struct body *body = link->body;

	while (link->by_id[link->next_id / 2 % 1024])
		link->next_id += 2; /* a slow neighbour has that place: ids may be left out */
	stream->id = link->next_id;
	link->next_id += 2;
	stream->sent_us = now_us;
	stream->size = 0;
	link->by_id[stream->id / 2 % 1024] = (uint8_t)(place + 1);
	link->under_way++;

	body_renew(link->body);
	put_headers(link, stream->id);
	for (size_t sent = 0; sent < body->size;) {
		size_t left = body->size - sent, size = left < FRAME_MAX ? left : FRAME_MAX;

		put_frame(link, FRAME_DATA, size == left ? FLAG_END_STREAM : 0, stream->id,
			  body->bytes + sent, size);
		sent += size;
	}
	link->send_window -= (int64_t)body->size;
}

void link_fill(struct link *link, int64_t now_us)
{
	for (int i = 0; i < link->streams_count && link->under_way < link->streams_count; i++) {
		if (link->stopping || link->send_window < (int64_t)link->body->size ||
		    sizeof(link->out) - link->out_size < link->body->size + 1024)
			break;
		if (!link->streams[i].id)
			link_send(link, i, now_us);
	}
}

static struct link_stream *link_find(struct link *link, uint32_t id)
{
	uint8_t place = link->by_id[id / 2 % 1024];

	return place && link->streams[place - 1].id == id ? &link->streams[place - 1] : NULL;
}

static void link_finish(struct link *link, struct link_stream *stream, int64_t now_us)
{
	struct link_counts *counts = link->counts;

	counts->calls++;
	if (stream->size < PREFIX || read_u32(stream->answer + 1) != stream->size - PREFIX)
		counts->errors++;
	else
		body_count(link->body, stream->answer + PREFIX, stream->size - PREFIX,
			   counts->outcomes);
	counts->latencies_us[counts->latencies++ % counts->latencies_max] =
		(uint32_t)(now_us - stream->sent_us);
	link->by_id[stream->id / 2 % 1024] = 0;
	stream->id = 0;
	link->under_way--;
}

static void link_data(struct link *link, struct link_stream *stream, const uint8_t *payload,
		      size_t size)
{
	link->unacknowledged += (uint32_t)size;
	if (link->unacknowledged > WINDOW_STEP) {
		put_window(link, link->unacknowledged);
		link->unacknowledged = 0;
	}
	if (!stream)
		return;
	if (stream->size + size > LINK_ANSWER_MAX) {
		link->failure = "an answer is too large";
		return;
	}
	memcpy(stream->answer + stream->size, payload, size);
	stream->size += size;
}

static void link_frame(struct link *link, const uint8_t *head, const uint8_t *payload, size_t size,
		       int64_t now_us)
{
	uint8_t flags = head[4];
	uint32_t id = read_u32(head + 5) & 0x7fffffff;
	struct link_stream *stream = id ? link_find(link, id) : NULL;

	switch (head[3]) {
	case FRAME_DATA:
		if (flags & FLAG_PADDED)
			link->failure = "padded frames are not understood";
		link_data(link, stream, payload, size);
		break;
	case FRAME_HEADERS:
		break;
	case FRAME_RST_STREAM:
		if (stream)
			link_finish(link, stream, now_us);
		return;
	case FRAME_SETTINGS:
		if (!(flags & FLAG_ACK))
			put_frame(link, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0);
		return;
	case FRAME_PING:
		if (!(flags & FLAG_ACK))
			put_frame(link, FRAME_PING, FLAG_ACK, 0, payload, size);
		return;
	case FRAME_GOAWAY:
		link->failure = "the server said GOAWAY";
		return;
	case FRAME_WINDOW_UPDATE:
		if (!id)
			link->send_window += read_u32(payload) & 0x7fffffff;
		return;
	default:
		return;
	}
	if (flags & FLAG_END_STREAM && stream)
		link_finish(link, stream, now_us);
}

static bool link_flush(struct link *link)
{
	ssize_t sent;

	if (!link->out_size)
		return true;
	sent = send(link->fd, link->out, link->out_size, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN) {
		link->failure = strerror(errno);
		return false;
	}
	if (sent > 0) {
		link->out_size -= (size_t)sent;
		memmove(link->out, link->out + sent, link->out_size);
	}
	return true;
}

bool link_work(struct link *link, int64_t now_us)
{
	size_t at = 0;
	ssize_t got = recv(link->fd, link->in + link->in_size, sizeof(link->in) - link->in_size,
			   MSG_DONTWAIT);

	if (!got || (got < 0 && errno != EAGAIN)) {
		link->failure = got ? strerror(errno) : "the server closed the connection";
		return false;
	}
	if (got > 0)
		link->in_size += (size_t)got;
	while (!link->failure && link->in_size - at >= FRAME_HEAD) {
		const uint8_t *head = link->in + at;
		size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

		if (link->in_size - at < FRAME_HEAD + size)
			break;
		link_frame(link, head, head + FRAME_HEAD, size, now_us);
		at += FRAME_HEAD + size;
	}
	link->in_size -= at;
	memmove(link->in, link->in + at, link->in_size);

	link_fill(link, now_us);
	return link_flush(link) && !link->failure;
}

void link_close(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	for (int i = 0; i < link->streams_count; i++)
		free(link->streams[i].answer);
}
