/* The HTTP client. A request that cannot be sent, or whose connection breaks, or that is not
 * answered in time ends with status 0; the connection is made anew for the next one.
 *
 *     client_send ─► queue ─► a free connection ─► (connect) ─► write ─► read ─► done ─► next from
 * the queue
 */
#include "tests/load/client.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX (8 * 1024 * 1024)

enum connection_state {
	CONNECTION_STATE_CLOSED = 1,
	CONNECTION_STATE_CLOSING,
	CONNECTION_STATE_CONNECTING,
	CONNECTION_STATE_IDLE,
	CONNECTION_STATE_BUSY,
};

struct connection {
	struct client *client;
	enum connection_state state;
	uv_tcp_t tcp;
	uv_connect_t connect;
	uv_write_t write;
	struct client_request *request;
	char head[1280];
	char *answer;
	size_t size, room;
};

struct client {
	uv_loop_t *loop;
	uv_timer_t clock; /* looks for requests that take too long */
	struct sockaddr_storage address;
	char host[256];
	uint64_t timeout_ns;
	struct client_request *first, *last;
	size_t waiting;
	bool destroyed;
	int connections_count;
	struct connection connections[];
};

static void connection_take(struct connection *connection);

static void connection_answer(struct connection *connection, int status, const char *body,
			      size_t size)
{
	struct client_request *request = connection->request;

	connection->request = NULL;
	if (request)
		request->done(request, status, body, size);
}

static void connection_closed(uv_handle_t *handle)
{
	struct connection *connection = handle->data;

	connection->state = CONNECTION_STATE_CLOSED;
	connection_answer(connection, 0, "", 0);
	connection_take(connection);
}

static void connection_close(struct connection *connection)
{
	if (connection->state == CONNECTION_STATE_CLOSING ||
	    connection->state == CONNECTION_STATE_CLOSED)
		return;
	connection->state = CONNECTION_STATE_CLOSING;
	uv_close((uv_handle_t *)&connection->tcp, connection_closed);
}

static void connection_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct connection *connection = handle->data;

	(void)suggested;
	if (connection->room - connection->size < 4096 && connection->room < ANSWER_MAX) {
		size_t room = connection->room ? connection->room * 2 : 8192;
		char *answer = realloc(connection->answer, room);

		assert(answer);
		connection->answer = answer;
		connection->room = room;
	}
	/* One byte stays for the zero at the end. */
	*buffer = uv_buf_init(connection->answer + connection->size,
			      (unsigned)(connection->room - connection->size - 1));
}

/* The value of a header in the `head` of an answer, or NULL. */
static const char *head_find(const char *head, const char *end, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line && line < end;
	     line = strstr(line + 2, "\r\n"))
		if (!strncasecmp(line + 2, name, length) && line[2 + length] == ':')
			return line + 3 + length + strspn(line + 3 + length, " ");
	return NULL;
}

static void connection_parse(struct connection *connection)
{
	const char *head = connection->answer, *end, *length, *close;
	size_t size, whole;
	int status;

	connection->answer[connection->size] = '\0';
	end = strstr(head, "\r\n\r\n");
	if (!end)
		return;
	length = head_find(head, end, "Content-Length");
	if (!length || sscanf(head, "HTTP/1.%*d %d", &status) != 1) {
		connection_close(connection);
		return;
	}
	size = strtoul(length, NULL, 10);
	whole = (size_t)(end + 4 - head) + size;
	if (connection->size < whole) {
		if (whole >= ANSWER_MAX)
			connection_close(connection);
		return;
	}
	close = head_find(head, end, "Connection");
	connection->size = 0;
	if (close && !strncasecmp(close, "close", 5)) {
		connection_answer(connection, status, end + 4, size);
		connection_close(connection);
		return;
	}
	connection->state = CONNECTION_STATE_IDLE;
	connection_answer(connection, status, end + 4, size);
	connection_take(connection);
}

static void connection_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
	struct connection *connection = stream->data;

	(void)buffer;
	if (count < 0 || (count > 0 && connection->state != CONNECTION_STATE_BUSY)) {
		connection_close(connection);
		return;
	}
	connection->size += (size_t)count;
	if (count > 0)
		connection_parse(connection);
}

static void connection_written(uv_write_t *write, int error)
{
	if (error)
		connection_close(write->data);
}

static void connection_write(struct connection *connection)
{
	struct client_request *request = connection->request;
	size_t body = strlen(request->body);
	int head = snprintf(connection->head, sizeof(connection->head),
			    "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
			    "Content-Length: %zu\r\n\r\n%s",
			    request->method, request->path, connection->client->host, body,
			    request->body);
	uv_buf_t buffer = uv_buf_init(connection->head, (unsigned)head);

	assert(head > 0 && (size_t)head < sizeof(connection->head));
	connection->state = CONNECTION_STATE_BUSY;
	connection->size = 0;
	if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &buffer, 1,
		     connection_written))
		connection_close(connection);
}

static void connection_connected(uv_connect_t *connect, int error)
{
	struct connection *connection = connect->data;

	if (connection->state != CONNECTION_STATE_CONNECTING)
		return; /* closed meanwhile */
	if (error ||
	    uv_read_start((uv_stream_t *)&connection->tcp, connection_room, connection_read)) {
		connection_close(connection);
		return;
	}
	connection_write(connection);
}

static void connection_open(struct connection *connection)
{
	int error = uv_tcp_init(connection->client->loop, &connection->tcp);

	assert(!error);
	connection->tcp.data = connection;
	connection->connect.data = connection;
	connection->write.data = connection;
	connection->state = CONNECTION_STATE_CONNECTING;
	(void)uv_tcp_nodelay(&connection->tcp, 1); /* only slower without */
	if (uv_tcp_connect(&connection->connect, &connection->tcp,
			   (struct sockaddr *)&connection->client->address, connection_connected))
		connection_close(connection);
}

/* Takes the next request, if the connection is free for one. */
static void connection_take(struct connection *connection)
{
	struct client *client = connection->client;
	struct client_request *request = client->first;

	if (client->destroyed || !request || connection->request ||
	    (connection->state != CONNECTION_STATE_IDLE &&
	     connection->state != CONNECTION_STATE_CLOSED))
		return;
	client->first = request->next;
	client->waiting--;
	request->sent_ns = uv_hrtime();
	connection->request = request;
	if (connection->state == CONNECTION_STATE_IDLE)
		connection_write(connection);
	else
		connection_open(connection);
}

void client_send(struct client *client, struct client_request *request)
{
	request->next = NULL;
	if (client->first)
		client->last->next = request;
	else
		client->first = request;
	client->last = request;
	client->waiting++;
	for (int i = 0; i < client->connections_count && client->first; i++)
		connection_take(&client->connections[i]);
}

size_t client_waiting(const struct client *client)
{
	return client->waiting;
}

static void client_look(uv_timer_t *timer)
{
	struct client *client = timer->data;
	uint64_t now = uv_hrtime();

	for (int i = 0; i < client->connections_count; i++) {
		struct connection *connection = &client->connections[i];

		if (connection->request && now - connection->request->sent_ns > client->timeout_ns)
			connection_close(connection);
	}
}

static bool client_resolve(struct client *client, const char *url)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
	char host[200], port[8] = "80";
	int error;

	if (sscanf(url, "http://%199[^:/]:%7[0-9]", host, port) < 1) {
		fprintf(stderr, "stampede-load: '%s' is not http://host[:port]\n", url);
		return false;
	}
	error = getaddrinfo(host, port, &hints, &found);
	if (error) {
		fprintf(stderr, "stampede-load: %s: %s\n", host, gai_strerror(error));
		return false;
	}
	memcpy(&client->address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	(void)snprintf(client->host, sizeof(client->host), "%s:%s", host, port);
	return true;
}

struct client *client_create(uv_loop_t *loop, const char *url, int connections, int timeout_ms)
{
	struct client *client =
		calloc(1, sizeof(*client) + (size_t)connections * sizeof(struct connection));

	assert(client);
	client->loop = loop;
	client->timeout_ns = (uint64_t)timeout_ms * 1000000;
	client->connections_count = connections;
	for (int i = 0; i < connections; i++) {
		client->connections[i].client = client;
		client->connections[i].state = CONNECTION_STATE_CLOSED;
	}
	if (!client_resolve(client, url)) {
		free(client);
		return NULL;
	}
	uv_timer_init(loop, &client->clock);
	client->clock.data = client;
	uv_timer_start(&client->clock, client_look, 100, 100);
	return client;
}

void client_destroy(struct client *client)
{
	client->destroyed = true;
	uv_close((uv_handle_t *)&client->clock, NULL);
	for (int i = 0; i < client->connections_count; i++)
		connection_close(&client->connections[i]);
	uv_run(client->loop, UV_RUN_DEFAULT);
	for (int i = 0; i < client->connections_count; i++)
		free(client->connections[i].answer);
	free(client);
}

/* --- one at a time -----------------------------------------------------------------------------
 */

struct fetch {
	struct client_request request; /* first: the request is the fetch */
	bool answered;
	int status;
	json_t *json;
};

static void fetch_answered(struct client_request *request, int status, const char *body,
			   size_t size)
{
	struct fetch *fetch = (struct fetch *)request;

	fetch->answered = true;
	fetch->status = status;
	fetch->json = json_loadb(body, size, 0, NULL);
}

json_t *client_fetch(struct client *client, const char *method, const char *path, const char *body,
		     int patience_ms, int *ret_status)
{
	uint64_t give_up = uv_hrtime() + (uint64_t)patience_ms * 1000000;

	for (;;) {
		struct fetch fetch = {.request = {.method = method, .done = fetch_answered}};

		(void)snprintf(fetch.request.path, sizeof(fetch.request.path), "%s", path);
		(void)snprintf(fetch.request.body, sizeof(fetch.request.body), "%s", body);
		client_send(client, &fetch.request);
		while (!fetch.answered)
			uv_run(client->loop, UV_RUN_ONCE);
		*ret_status = fetch.status;
		if (fetch.status == 200 && fetch.json)
			return fetch.json;
		if ((fetch.status && fetch.status != 429 && fetch.status < 500) ||
		    uv_hrtime() > give_up)
			return json_decref(fetch.json), NULL;
		json_decref(fetch.json);
		uv_sleep(20);
	}
}
