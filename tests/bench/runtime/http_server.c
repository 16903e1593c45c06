/* What a request costs: answers of 20 bytes, given at once (/now), at the end of the next round
 * (/soon) or by a timer, a batch every millisecond (/later). Run it, then:
 *
 *     wrk -t1 -c64 -d3 http://127.0.0.1:PORT/soon
 *
 * On SIGINT it prints requests and CPU microseconds per request. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/http.h"

#define WAITING_MAX 20000

static struct loop *loop;
static struct http_exchange *waiting[WAITING_MAX];
static int waiting_count;
static long requests;
static struct loop_hook soon;
static struct timer later;

static void answer(struct http_exchange *exchange)
{
	requests++;
	http_respond_static(exchange, 200, "text/plain", "twenty bytes of text", 20);
}

static void answer_all(void)
{
	for (int i = 0; i < waiting_count; i++)
		answer(waiting[i]);
	waiting_count = 0;
}

static void soon_run(struct loop_hook *hook)
{
	(void)hook;
	answer_all();
}

static void later_fire(struct timer *timer)
{
	(void)timer;
	answer_all();
}

static void gone(struct http_exchange *exchange, void *context)
{
	(void)context;
	for (int i = 0; i < waiting_count; i++)
		if (waiting[i] == exchange)
			waiting[i--] = waiting[--waiting_count];
}

static void request(void *self, struct http_exchange *exchange)
{
	const char *path = http_path(exchange);

	(void)self;
	if (!strcmp(path, "/now")) {
		answer(exchange);
		return;
	}
	http_set_context(exchange, NULL, gone);
	waiting[waiting_count++] = exchange;
	if (!strcmp(path, "/soon"))
		loop_defer(loop, LOOP_GATHER, &soon);
	else if (!timer_started(&later))
		timer_start_us(&later, 1000);
}

static void stop(uv_signal_t *handle, int number)
{
	(void)handle;
	(void)number;
	loop_stop(loop);
}

int main(int argc, char **argv)
{
	struct http_options options = {.address = argc > 1 ? argv[1] : "127.0.0.1:0",
				       .request = request};
	struct http_server *server;
	struct rusage usage;
	uv_signal_t interrupt;
	double us;

	loop = loop_create();
	server = http_create(loop, &options);
	if (!server)
		return EXIT_FAILURE;
	soon.run = soon_run;
	timer_init(&later, loop, later_fire);
	uv_signal_init(loop_uv(loop), &interrupt);
	uv_signal_start(&interrupt, stop, SIGINT);
	printf("http://127.0.0.1:%d/now, /soon, /later\n", http_port(server));
	fflush(stdout);
	loop_run(loop);
	getrusage(RUSAGE_SELF, &usage);
	us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	printf("%ld requests, %.2f us CPU each, %ld KiB resident at most\n", requests,
	       requests ? us / (double)requests : 0.0, usage.ru_maxrss);
	http_destroy(server);
	uv_close((uv_handle_t *)&interrupt, NULL);
	loop_destroy(loop);
	return EXIT_SUCCESS;
}
