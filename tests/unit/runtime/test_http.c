/* The server on this thread's loop, a client with plain sockets on another. */
#include "runtime/http.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/log.h"

static struct loop *loop;
static struct http_server *server;
static int port;
static char answer[1 << 20];

static struct http_exchange *kept; /* to be answered later, or never */
static struct timer later;
static int pieces;
static atomic_int gone_count; /* the client looks at it too */

/* --- the server ---------------------------------------------------------------------------------- */

static void later_fire(struct timer *timer)
{
	struct http_exchange *exchange = kept;

	(void)timer;
	kept = NULL;
	http_respond(exchange, 200, "text/plain", "later", 5);
}

static void piece_fire(struct timer *timer)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "data: %d\n\n", ++pieces);

	(void)timer;
	if (!kept)
		return;
	ck_assert(http_stream_write(kept, text, (size_t)size));
	if (pieces < 3) {
		timer_start_us(&later, 20000);
		return;
	}
	http_stream_end(kept);
	kept = NULL;
}

static void gone(struct http_exchange *exchange, void *context)
{
	ck_assert_ptr_eq(exchange, kept);
	ck_assert_ptr_eq(context, &gone_count);
	kept = NULL;
	gone_count++;
}

static void query_each(void *context, const char *name, const char *value)
{
	char *text = context;

	snprintf(text + strlen(text), 200 - strlen(text), "[%s=%s]", name, value);
}

static void respond_echo(struct http_exchange *exchange)
{
	char query[200] = "", *text;
	size_t size;
	const char *body = http_body(exchange, &size);

	http_query(exchange, query_each, query);
	text = arena_printf(http_arena(exchange), "%s %s %s %zu:%.20s %s", http_method(exchange),
			    http_path(exchange), query, size, body, http_peer(exchange));
	http_respond(exchange, 200, "text/plain", text, strlen(text));
}

static void request(void *self, struct http_exchange *exchange)
{
	const char *path = http_path(exchange);

	ck_assert_ptr_eq(self, &port);
	if (!strcmp(path, "/later") || !strcmp(path, "/much-later")) {
		kept = exchange;
		timer_init(&later, loop, later_fire);
		timer_start_us(&later, !strcmp(path, "/later") ? 500 : 100000);
	} else if (!strcmp(path, "/stream") || !strcmp(path, "/silent")) {
		kept = exchange;
		http_set_context(exchange, &gone_count, gone);
		http_add_header(exchange, "X-Test", "yes");
		http_stream_begin(exchange, "text/event-stream");
		timer_init(&later, loop, piece_fire);
		if (!strcmp(path, "/stream"))
			timer_start_us(&later, 20000);
	} else if (!strcmp(path, "/never")) {
		kept = exchange;
		http_set_context(exchange, &gone_count, gone);
	} else if (!strcmp(path, "/error")) {
		http_respond_error(exchange, STATUS_NOT_FOUND, "no \"such\" sale");
	} else {
		respond_echo(exchange);
	}
}

static void stop(struct mail *mail)
{
	(void)mail;
	loop_stop(loop);
}

static void client_main(void *talk)
{
	static struct mail mail = {.deliver = stop};

	((void (*)(void))talk)();
	loop_post(loop, &mail);
}

/* Serves while `talk` runs on another thread. */
static void serve(void (*talk)(void))
{
	struct http_options options = {.address = "127.0.0.1:0",
				       .body_max = 1000,
				       .idle_ms = 1000,
				       .request = request,
				       .self = &port};
	uv_thread_t client;

	log_start("test", LOG_ERROR);
	loop = loop_create();
	server = http_create(loop, &options);
	ck_assert_ptr_nonnull(server);
	port = http_port(server);
	uv_thread_create(&client, client_main, (void *)talk);
	loop_run(loop);
	uv_thread_join(&client);
	if (later.loop)
		timer_stop(&later);
	http_destroy(server);
	ck_assert_ptr_null(kept);
	loop_destroy(loop);
}

/* --- the client ---------------------------------------------------------------------------------- */

static int dial(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = 5};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void say(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* All that comes until the server closes. */
static const char *hear(int fd)
{
	size_t size = 0;
	ssize_t got;

	while ((got = recv(fd, answer + size, sizeof(answer) - 1 - size, 0)) > 0)
		size += (size_t)got;
	answer[size] = 0;
	close(fd);
	return answer;
}

static const char *talk(const char *text)
{
	int fd = dial();

	ck_assert_int_ge(fd, 0);
	say(fd, text);
	return hear(fd);
}

#define CLOSE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"

static void assert_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part), "no %s in: %s", part, text);
}

static void talk_at_once(void)
{
	const char *text =
		talk("POST /a%20b?x=1&y=%41+b%zz&z" CLOSE "Content-Length: 5\r\n\r\nhello");

	assert_has(text, "HTTP/1.1 200 OK\r\n");
	assert_has(text, "POST /a%20b [x=1][y=A b%zz][z=] 5:hello 127.0.0.1");
	text = talk("GET /error" CLOSE "\r\n");
	assert_has(text, "HTTP/1.1 404 Not Found\r\n");
	assert_has(text, "{\"code\":5,\"message\":\"no \\\"such\\\" sale\"}");
}

START_TEST(answers_at_once)
{
	serve(talk_at_once);
}
END_TEST

static void talk_later(void)
{
	for (int i = 0; i < 3; i++) {
		assert_has(talk("GET /later" CLOSE "\r\n"), "\r\n\r\nlater");
		assert_has(talk("GET /much-later" CLOSE "\r\n"), "\r\n\r\nlater");
	}
}

START_TEST(answers_later)
{
	serve(talk_later);
}
END_TEST

static void talk_pipelined(void)
{
	const char *text = talk("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
				"GET /much-later HTTP/1.1\r\nHost: x\r\n\r\n"
				"GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
				"GET /4" CLOSE "\r\n");
	const char *first = strstr(text, "GET /1"), *second = strstr(text, "later");
	const char *third = second ? strstr(second + 5, "later") : NULL;

	ck_assert(first && second && third && first < second);
	assert_has(third, "GET /4");
}

START_TEST(answers_pipelined_requests_in_order)
{
	serve(talk_pipelined);
}
END_TEST

static void talk_too_long(void)
{
	char text[3000];
	int size;

	assert_has(talk("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"),
		   "HTTP/1.1 413 ");
	size = snprintf(text, sizeof(text),
			"POST /x" CLOSE "Transfer-Encoding: chunked\r\n\r\n5dc\r\n");
	memset(text + size, 'a', 1500);
	strcpy(text + size + 1500, "\r\n0\r\n\r\n");
	assert_has(talk(text), "HTTP/1.1 413 ");
	assert_has(talk("POST /x" CLOSE "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
		   "3:abc");
}

START_TEST(refuses_bodies_that_are_too_long)
{
	serve(talk_too_long);
}
END_TEST

static void talk_malformed(void)
{
	assert_has(talk("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 "); /* no Host */
	assert_has(talk("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"), " 400 ");
	assert_has(talk("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
		   " 400 ");
	/* Two ends: what a proxy in front sees elsewhere could be smuggled past it. */
	assert_has(talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: "
			"4\r\n\r\n"),
		   " 400 ");
	assert_has(talk("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
			"Transfer-Encoding: chunked\r\n\r\n"),
		   " 400 ");
	talk("\x01\xff\r\n\r\n");
	assert_has(talk("GET /still-there" CLOSE "\r\n"), "GET /still-there");
}

START_TEST(refuses_malformed_requests)
{
	serve(talk_malformed);
}
END_TEST

static void talk_stream(void)
{
	const char *text = talk("GET /stream" CLOSE "\r\n");

	assert_has(text, "X-Test: yes\r\n");
	assert_has(text, "Content-Type: text/event-stream\r\n");
	assert_has(text, "data: 1\n\n");
	assert_has(text, "data: 3\n\n");
	assert_has(text, "\r\n0\r\n\r\n");
}

START_TEST(streams_pieces_as_they_come)
{
	serve(talk_stream);
	ck_assert_int_eq(pieces, 3);
	ck_assert_int_eq(gone_count, 0);
}
END_TEST

static atomic_bool noticed;

static void talk_and_leave(void)
{
	int fd = dial();

	say(fd, "GET /silent HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_int_gt(recv(fd, answer, sizeof(answer), 0), 0);
	usleep(100000);
	close(fd);
	for (int i = 0; i < 100 && !gone_count; i++)
		usleep(10000);
	noticed = gone_count == 1; /* not only when the server ends */
}

START_TEST(notices_when_the_reader_of_a_silent_stream_leaves)
{
	serve(talk_and_leave);
	ck_assert(noticed);
}
END_TEST

static int left_open = -1;

static void talk_and_wait(void)
{
	left_open = dial();
	say(left_open, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
	usleep(100000);
}

START_TEST(ends_with_requests_unanswered)
{
	serve(talk_and_wait);
	ck_assert_int_eq(gone_count, 1);
	ck_assert_str_eq(hear(left_open), "");
}
END_TEST

static void talk_slowly(void)
{
	int fd = dial();

	say(fd, "GET /x HTTP/1.1\r\nHo");
	ck_assert_str_eq(hear(fd), "");
}

START_TEST(closes_idle_connections)
{
	serve(talk_slowly);
}
END_TEST

static void quiesce(struct mail *mail)
{
	(void)mail;
	http_quiesce(server);
}

static void talk_while_quiescing(void)
{
	static struct mail mail = {.deliver = quiesce};
	int fd = dial();

	say(fd, "GET /much-later HTTP/1.1\r\nHost: x\r\n\r\n");
	usleep(20000);
	loop_post(loop, &mail);
	usleep(20000);
	ck_assert_int_lt(dial(), 0);
	hear(fd);
	assert_has(answer, "Connection: close\r\n");
	assert_has(answer, "\r\n\r\nlater");
}

START_TEST(finishes_what_is_under_way_when_it_takes_no_more)
{
	serve(talk_while_quiescing);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("http");
	TCase *cases = tcase_create("http");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(cases, 20);
	tcase_add_test(cases, answers_at_once);
	tcase_add_test(cases, answers_later);
	tcase_add_test(cases, answers_pipelined_requests_in_order);
	tcase_add_test(cases, refuses_bodies_that_are_too_long);
	tcase_add_test(cases, refuses_malformed_requests);
	tcase_add_test(cases, streams_pieces_as_they_come);
	tcase_add_test(cases, notices_when_the_reader_of_a_silent_stream_leaves);
	tcase_add_test(cases, ends_with_requests_unanswered);
	tcase_add_test(cases, closes_idle_connections);
	tcase_add_test(cases, finishes_what_is_under_way_when_it_takes_no_more);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
