/* What the suite's tests work with: a loop, a bus, a consumer that remembers, and processes to kill. */
#pragma once

#include "runtime/bus.h"

/* --- a bus in this process --------------------------------------------------------------- */

struct bench {
	struct loop *loop;
	struct bus *bus;
	bool closed;
	int ok, lost, under_way;
	char confirmed[20000]; /* 1: the record with this number as its value was confirmed */
};

struct bench *bench_create(const char *url, const char *client);
struct bench *bench_create_with(const struct bus_options *options);
/* Closes, if it is not, and frees. */
void bench_free(struct bench *bench);
void bench_close(struct bench *bench);
void bench_wait_up(struct bench *bench);
/* Runs the loop until `is_so` or the time is up, and says which. */
bool bench_until(struct bench *bench, int64_t timeout_ms, bool (*is_so)(void *context),
		 void *context);
void bench_run_ms(struct bench *bench, int64_t time_ms);
/* The value is `number` in decimal, the key number % keys. */
void bench_publish(struct bench *bench, const char *topic, int number, int keys);
void bench_publish_bytes(struct bench *bench, const char *topic, const void *key, size_t key_size,
			 const void *value, size_t value_size, const struct trace *trace);
/* All that was published is confirmed or failed. */
bool bench_settle(struct bench *bench);

/* --- a consumer that remembers ----------------------------------------------------------- */

struct taken {
	char key[64], value[64];
	size_t key_size, value_size;
	int attempt;
	int64_t at_us;
	struct trace trace;
};
struct taker {
	struct bus_consumer *consumer;
	struct loop *loop;
	/* What to do with a batch; NULL: done at once. It is remembered already. */
	void (*handle)(struct taker *taker, struct bus_batch *batch);
	struct taken taken[20000];
	int count, batches, batch_longest, dead;
	char dead_value[64], dead_reason[128];
	struct bus_batch *held; /* for handle() */
	int times;		/* for handle() */
};

struct taker *taker_create(struct bench *bench, const struct bus_consumer_options *options,
			   void (*handle)(struct taker *taker, struct bus_batch *batch));
bool taker_wait(struct bench *bench, struct taker *taker, int count, int64_t timeout_ms);
int taker_count_value(const struct taker *taker, const char *value);
/* Each key's records came once and in order. */
void taker_check_order(const struct taker *taker);

/* --- a process of its own ---------------------------------------------------------------- */

struct child;
/* bus_tool with these arguments, NULL at the end. */
struct child *child_start(const char *const *arguments);
void child_signal(struct child *child, int number);
/* Waits for its end and frees. */
void child_end(struct child *child);
int child_lines(struct child *child, const char *prefix);
bool child_wait_lines(struct child *child, const char *prefix, int count, int64_t timeout_ms);
/* Marks seen[number] for each line that begins with `prefix` and ends with a number, e.g. "ok 17". */
void child_mark(struct child *child, const char *prefix, char *seen, int seen_max);
