/* What a request costs: answers of 20 bytes, given at once (/now), at the end of the next round
 * (/soon), by a timer, a batch every millisecond (/later), or 64 at a time in the order of arrival, a
 * batch a round (/queue, for many connections). Run it, then:
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

#define WAITING_MAX 65536 /* a power of two */
#define BATCH_MAX 64

static struct loop *loop;
static struct http_exchange *waiting[WAITING_MAX]; /* a ring */
static unsigned first, end;
static long requests;
static struct loop_hook soon, queue;
static struct timer later;

static void answer(struct http_exchange *exchange)
{
	requests++;
	http_respond_static(exchange, 200, "text/plain", "twenty bytes of text", 20);
}

static void answer_some(unsigned max)
{
	for (; first != end && max--; first++)
		if (waiting[first % WAITING_MAX])
			answer(waiting[first % WAITING_MAX]);
}

static void soon_run(struct loop_hook *hook)
{
	(void)hook;
	answer_some(WAITING_MAX);
}

static void queue_run(struct loop_hook *hook)
{
	answer_some(BATCH_MAX);
	if (first != end)
		loop_defer(loop, LOOP_GATHER, hook);
}

static void later_fire(struct timer *timer)
{
	(void)timer;
	answer_some(WAITING_MAX);
}

static void gone(struct http_exchange *exchange, void *place)
{
	(void)exchange;
	*(struct http_exchange **)place = NULL;
}

static void request(void *self, struct http_exchange *exchange)
{
	const char *path = http_path(exchange);

	(void)self;
	if (!strcmp(path, "/now")) {
		answer(exchange);
		return;
	}
	http_set_context(exchange, &waiting[end % WAITING_MAX], gone);
	waiting[end++ % WAITING_MAX] = exchange;
	if (!strcmp(path, "/soon"))
		loop_defer(loop, LOOP_GATHER, &soon);
	else if (!strcmp(path, "/queue"))
		loop_defer(loop, LOOP_GATHER, &queue);
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
				       .connections_max = WAITING_MAX,
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
	queue.run = queue_run;
	timer_init(&later, loop, later_fire);
	uv_signal_init(loop_uv(loop), &interrupt);
	uv_signal_start(&interrupt, stop, SIGINT);
	printf("http://127.0.0.1:%d/now, /soon, /later, /queue\n", http_port(server));
	(void)fflush(stdout);
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
