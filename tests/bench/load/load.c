/* A load generator for Reserve: like h2load, but every request has buyers of its own.
 *
 *     bench_load reserve --target 127.0.0.1:7001 --sale s --connections 16 --streams 16 --seconds 3
 *
 * h2load sends one constant body, which would make every request but the first a repeat. Methods:
 * echo, reserve, reserve-many (--buyers 64), create-sale (--units, one call). The last line is
 * JSON. Exit code 1 when a connection failed or a call was not answered.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "link.h"

struct options {
	enum body_kind kind;
	const char *host, *port, *sale;
	int connections, streams, buyers;
	int64_t units;
	uint64_t first;
	double seconds;
};

struct load {
	struct options options;
	struct body body;
	struct link *links;
	struct link_counts counts;
	double lasted_s;
};

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int usage(void)
{
	fprintf(stderr, "usage: bench_load echo|reserve|reserve-many|create-sale --target "
			"HOST:PORT [--sale ID]\n"
			"       [--connections N] [--streams N] [--seconds S] [--buyers N] "
			"[--units N] [--first N]\n");
	return 2;
}

static bool options_parse(struct options *options, int argc, char **argv)
{
	static const char *const kinds[] = {"echo", "reserve", "reserve-many", "create-sale"};
	static const struct option names[] = {
		{"target", 1, NULL, 't'},  {"sale", 1, NULL, 's'},    {"connections", 1, NULL, 'c'},
		{"streams", 1, NULL, 'm'}, {"seconds", 1, NULL, 'd'}, {"buyers", 1, NULL, 'b'},
		{"units", 1, NULL, 'u'},   {"first", 1, NULL, 'f'},   {NULL, 0, NULL, 0}};
	char *colon;
	int kind = 0, name;

	*options = (struct options){.sale = "bench",
				    .connections = 16,
				    .streams = 16,
				    .buyers = 64,
				    .units = 1000000000,
				    .first = 1,
				    .seconds = 3};
	if (argc < 2)
		return false;
	while (kind < 4 && strcmp(argv[1], kinds[kind]) != 0)
		kind++;
	options->kind = (enum body_kind)kind;
	for (argc--, argv++; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (name) {
		case 't':
			colon = strrchr(optarg, ':');
			if (!colon)
				return false;
			*colon = 0;
			options->host = optarg;
			options->port = colon + 1;
			break;
		case 's':
			options->sale = optarg;
			break;
		case 'c':
			options->connections = atoi(optarg);
			break;
		case 'm':
			options->streams = atoi(optarg);
			break;
		case 'd':
			options->seconds = atof(optarg);
			break;
		case 'b':
			options->buyers = atoi(optarg);
			break;
		case 'u':
			options->units = atoll(optarg);
			break;
		case 'f':
			options->first = strtoull(optarg, NULL, 0);
			break;
		default:
			return false;
		}
	}
	if (options->kind == BODY_CREATE_SALE)
		options->connections = options->streams = 1;
	return kind < 4 && options->host && strlen(options->sale) <= 64 &&
	       options->connections >= 1 && options->connections <= 1024 && options->streams >= 1 &&
	       options->streams <= LINK_STREAMS_MAX && options->buyers >= 1 &&
	       options->buyers <= BODY_BUYERS_MAX;
}

/* False: a connection failed, which is said. */
static bool load_run(struct load *load, int epoll)
{
	struct options *options = &load->options;
	struct epoll_event events[256];
	int64_t started = now_us(), ends = started + (int64_t)(options->seconds * 1e6),
		now = started;
	bool once = options->kind == BODY_CREATE_SALE;

	while (now < ends) {
		int count = epoll_wait(epoll, events, 256, 100);

		now = now_us();
		for (int i = 0; i < count; i++) {
			struct link *link = events[i].data.ptr;

			if (!link_work(link, now)) {
				fprintf(stderr, "bench_load: %s:%s: %s\n", options->host,
					options->port, link->failure);
				return false;
			}
			if (once)
				link->stopping =
					link->under_way > 0; /* the one call is on its way */
		}
		if (once && load->counts.calls)
			break;
	}
	load->lasted_s = (double)(now - started) / 1e6;
	return true;
}

static int compare_latencies(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

static void load_report(struct load *load)
{
	struct link_counts *counts = &load->counts;
	size_t seen = counts->latencies < counts->latencies_max ? counts->latencies
								: counts->latencies_max;

	qsort(counts->latencies_us, seen, sizeof(uint32_t), compare_latencies);
	printf("{\"calls\": %llu, \"seconds\": %.3f, \"rate\": %.0f, \"errors\": %llu, "
	       "\"outcomes\": [",
	       (unsigned long long)counts->calls, load->lasted_s,
	       (double)counts->calls / load->lasted_s, (unsigned long long)counts->errors);
	for (int i = 0; i < BODY_OUTCOMES; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)counts->outcomes[i]);
	printf("], \"p50_us\": %u, \"p99_us\": %u, \"next\": %llu}\n",
	       seen ? counts->latencies_us[seen / 2] : 0,
	       seen ? counts->latencies_us[seen * 99 / 100] : 0,
	       (unsigned long long)load->body.next);
}

int main(int argc, char **argv)
{
	static struct load load;
	struct options *options = &load.options;
	int epoll = epoll_create1(0);
	bool good = true;

	if (!options_parse(options, argc, argv))
		return usage();
	body_init(&load.body, options->kind, options->sale, options->units, options->buyers,
		  options->first);
	load.counts.latencies_max = 1 << 20;
	load.counts.latencies_us = calloc(load.counts.latencies_max, sizeof(uint32_t));
	load.links = calloc((size_t)options->connections, sizeof(*load.links));
	for (int i = 0; good && i < options->connections; i++) {
		struct link *link = &load.links[i];
		struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
					    .data.ptr = link};

		good = link_open(link, options->host, options->port, &load.body, options->streams,
				 &load.counts);
		if (!good)
			fprintf(stderr, "bench_load: %s:%s: %s\n", options->host, options->port,
				link->failure);
		else
			epoll_ctl(epoll, EPOLL_CTL_ADD, link->fd, &event);
	}
	good = good && load_run(&load, epoll);
	if (good)
		load_report(&load);
	for (int i = 0; i < options->connections; i++)
		link_close(&load.links[i]);
	return good && load.counts.calls && !load.counts.errors ? 0 : 1;
}
