/* One HTTP/2 connection of the load generator, with a fixed number of calls under way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "body.h"

#define LINK_STREAMS_MAX 128
#define LINK_ANSWER_MAX 32768

struct link_stream {
	uint32_t id; /* 0: free */
	int64_t sent_us;
	uint8_t *answer; /* framing and message, LINK_ANSWER_MAX bytes */
	size_t size;
};

/* What all links count together. */
struct link_counts {
	uint64_t calls, errors;
	uint64_t outcomes[BODY_OUTCOMES];
	uint32_t *latencies_us; /* a ring of those seen last */
	size_t latencies_max, latencies;
};

struct link {
	int fd;
	bool stopping; /* no new calls */
	struct body *body;
	struct link_counts *counts;
	const char *failure; /* why the connection is of no more use */

	uint32_t next_id;
	bool indexed; /* the server's HPACK table has our headers */
	int64_t send_window;
	uint32_t unacknowledged; /* bytes received since the last WINDOW_UPDATE */
	struct link_stream streams[LINK_STREAMS_MAX];
	int streams_count, under_way;
	uint8_t by_id[1024]; /* stream id / 2 % 1024 → place in streams + 1 */

	uint8_t in[262144];
	size_t in_size;
	uint8_t out[524288];
	size_t out_size;
};

/* Connects (blocking) and queues the preface; false, with `failure` set, when it cannot. */
bool link_open(struct link *link, const char *host, const char *port, struct body *body,
	       int streams, struct link_counts *counts);
/* Starts as many calls as have a place and a window. */
void link_fill(struct link *link, int64_t now_us);
/* Reads and handles what there is, starts new calls, writes. False: see `failure`. */
bool link_work(struct link *link, int64_t now_us);
void link_close(struct link *link);
