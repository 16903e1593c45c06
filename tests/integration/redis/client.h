/* A Redis client under test: its loop, what it told us, and commands whose answers are kept. */
#pragma once

#include "runtime/redis.h"

struct client {
	struct loop *loop;
	struct redis *redis;
	int connected, disconnected; /* how often */
	char run_id[64];	     /* at the last time */
};

/* `options` without the callbacks; they are added. */
void client_start(struct client *client, struct redis_options options);
void client_stop(struct client *client);
/* Runs the loop for that long. */
void client_run_ms(struct client *client, int64_t ms);
/* Runs the loop until *count is at least `wanted`; the test fails after 10 s. */
void client_run_until(struct client *client, const int *count, int wanted);

/* An op that keeps what became of it. */
struct asked {
	struct redis_op op;
	struct redis *redis;
	int done; /* how often */
	enum status status;
	char text[256]; /* a string reply, an integer as text, or the error */
	int *total;	/* also counted here, if set */
};
/* A command in words, separated by blanks. */
void client_send(struct client *client, struct asked *asked, const char *words);
void client_send_script(struct client *client, struct asked *asked, struct redis_script *script,
			int keys, const char *words);
/* Sends, and runs the loop until it is done. */
enum status client_ask(struct client *client, struct asked *asked, const char *words);
