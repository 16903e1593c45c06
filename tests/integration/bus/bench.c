/* See bench.h. */
#include "tests/integration/bus/bench.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"

#define CLOSE_MS 8000
#define UP_MS 30000
#define SETTLE_MS 30000

/* --- a bus in this process --------------------------------------------------------------- */

struct bench *bench_create_with(const struct bus_options *options)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	bench->loop = loop_create();
	bench->bus = bus_create(bench->loop, options);
	ck_assert_ptr_nonnull(bench->bus);
	return bench;
}

struct bench *bench_create(const char *url, const char *client)
{
	return bench_create_with(&(struct bus_options){.url = url, .client_id = client});
}

static void bench_closed(void *context)
{
	struct bench *bench = context;

	bench->closed = true;
}

static bool is_closed(void *context)
{
	const struct bench *bench = context;

	return bench->closed;
}

void bench_close(struct bench *bench)
{
	bus_close(bench->bus, CLOSE_MS, bench_closed, bench);
	ck_assert(!bench->closed);
	ck_assert(bench_until(bench, CLOSE_MS + 5000, is_closed, bench));
}

void bench_free(struct bench *bench)
{
	if (!bench->closed)
		bench_close(bench);
	bus_destroy(bench->bus);
	loop_destroy(bench->loop);
	free(bench);
}

struct watch {
	struct timer timer;
	struct loop *loop;
	int64_t end_us;
	bool (*is_so)(void *context);
	void *context;
	bool so;
};

static void watch_fires(struct timer *timer)
{
	struct watch *watch = container_of(timer, struct watch, timer);

	watch->so = watch->is_so && watch->is_so(watch->context);
	if (watch->so || clock_monotonic_us() >= watch->end_us)
		loop_stop(watch->loop);
	else
		timer_start_us(timer, 2000);
}

bool bench_until(struct bench *bench, int64_t timeout_ms, bool (*is_so)(void *context),
		 void *context)
{
	struct watch watch = {.loop = bench->loop,
			      .end_us = clock_monotonic_us() + timeout_ms * 1000,
			      .is_so = is_so,
			      .context = context};

	timer_init(&watch.timer, bench->loop, watch_fires);
	timer_start_us(&watch.timer, 0);
	loop_run(bench->loop);
	return watch.so;
}

void bench_run_ms(struct bench *bench, int64_t time_ms)
{
	(void)bench_until(bench, time_ms, NULL, NULL);
}

static bool is_up(void *context)
{
	const struct bench *bench = context;

	return bus_up(bench->bus);
}

void bench_wait_up(struct bench *bench)
{
	ck_assert(bench_until(bench, UP_MS, is_up, bench));
}

struct published {
	struct bus_publish publish;
	struct bench *bench;
	int number;
};

static void bench_published(struct bus_publish *publish, enum status status)
{
	struct published *published = container_of(publish, struct published, publish);
	struct bench *bench = published->bench;

	bench->under_way--;
	if (status == STATUS_OK) {
		bench->ok++;
		if (published->number >= 0)
			bench->confirmed[published->number] = 1;
	} else {
		bench->lost++;
	}
	free(published);
}

static void publish(struct bench *bench, const char *topic, int number, const void *key,
		    size_t key_size, const void *value, size_t value_size,
		    const struct trace *trace)
{
	struct published *published = calloc(1, sizeof(*published));
	int before = bench->ok + bench->lost;

	published->bench = bench;
	published->number = number;
	published->publish = (struct bus_publish){.topic = topic,
						  .key = key,
						  .key_size = key_size,
						  .value = value,
						  .value_size = value_size,
						  .trace = trace,
						  .done = bench_published};
	bench->under_way++;
	bus_publish(bench->bus, &published->publish);
	/* `done` never runs inside. */
	ck_assert_int_eq(bench->ok + bench->lost, before);
}

void bench_publish(struct bench *bench, const char *topic, int number, int keys)
{
	char key[16], value[16];

	snprintf(key, sizeof(key), "%d", number % keys);
	snprintf(value, sizeof(value), "%d", number);
	publish(bench, topic, number, key, strlen(key), value, strlen(value), NULL);
}

void bench_publish_bytes(struct bench *bench, const char *topic, const void *key, size_t key_size,
			 const void *value, size_t value_size, const struct trace *trace)
{
	publish(bench, topic, -1, key, key_size, value, value_size, trace);
}

static bool has_settled(void *context)
{
	const struct bench *bench = context;

	return !bench->under_way;
}

bool bench_settle(struct bench *bench)
{
	return bench_until(bench, SETTLE_MS, has_settled, bench);
}

/* --- a consumer that remembers ----------------------------------------------------------- */

static void taker_batch(void *self, struct bus_batch *batch)
{
	struct taker *taker = self;

	ck_assert_int_gt(batch->count, 0);
	ck_assert_ptr_eq(batch->consumer, taker->consumer);
	taker->batches++;
	if (batch->count > taker->batch_longest)
		taker->batch_longest = batch->count;
	for (int i = 0; i < batch->count; i++) {
		const struct bus_record *record = &batch->records[i];
		struct taken *taken = &taker->taken[taker->count++];

		ck_assert_int_lt(taker->count, 20000);
		ck_assert(!record->failed);
		taken->key_size = record->key_size;
		taken->value_size = record->value_size;
		memcpy(taken->key, record->key, record->key_size < 63 ? record->key_size : 63);
		memcpy(taken->value, record->value,
		       record->value_size < 63 ? record->value_size : 63);
		taken->attempt = record->attempt;
		taken->trace = record->trace;
		taken->at_us = clock_monotonic_us();
	}
	if (taker->handle)
		taker->handle(taker, batch);
	else
		bus_batch_done(batch);
}

static void taker_dead(void *self, const struct bus_record *record)
{
	struct taker *taker = self;

	taker->dead++;
	snprintf(taker->dead_value, sizeof(taker->dead_value), "%.*s", (int)record->value_size,
		 (const char *)record->value);
	snprintf(taker->dead_reason, sizeof(taker->dead_reason), "%s", record->reason);
}

struct taker *taker_create(struct bench *bench, const struct bus_consumer_options *options,
			   void (*handle)(struct taker *taker, struct bus_batch *batch))
{
	struct taker *taker = calloc(1, sizeof(*taker));
	struct bus_consumer_options with = *options;

	taker->loop = bench->loop;
	taker->handle = handle;
	with.batch = taker_batch;
	with.dead = taker_dead;
	with.self = taker;
	taker->consumer = bus_consume(bench->bus, &with);
	return taker;
}

struct enough {
	const struct taker *taker;
	int count;
};

static bool is_enough(void *context)
{
	const struct enough *enough = context;

	return enough->taker->count >= enough->count;
}

bool taker_wait(struct bench *bench, struct taker *taker, int count, int64_t timeout_ms)
{
	return bench_until(bench, timeout_ms, is_enough, &(struct enough){taker, count});
}

int taker_count_value(const struct taker *taker, const char *value)
{
	int count = 0;

	for (int i = 0; i < taker->count; i++)
		count += strcmp(taker->taken[i].value, value) == 0;
	return count;
}

void taker_check_order(const struct taker *taker)
{
	int last[64];

	memset(last, -1, sizeof(last));
	for (int i = 0; i < taker->count; i++) {
		int key = atoi(taker->taken[i].key), value = atoi(taker->taken[i].value);

		ck_assert_int_lt(key, 64);
		ck_assert_int_gt(value, last[key]);
		last[key] = value;
	}
}

/* --- a process of its own ---------------------------------------------------------------- */

struct child {
	pid_t pid;
	char path[64];
};

struct child *child_start(const char *const *arguments)
{
	struct child *child = calloc(1, sizeof(*child));
	char *argv[16] = {(char *)BUS_TOOL};
	posix_spawn_file_actions_t actions;
	int file, failed;

	strcpy(child->path, "/tmp/stampede-bus-XXXXXX");
	file = mkstemp(child->path);
	ck_assert_int_ge(file, 0);
	close(file);
	for (int i = 0; arguments[i]; i++)
		argv[i + 1] = (char *)arguments[i];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, child->path, O_WRONLY | O_APPEND, 0600);
	failed = posix_spawn(&child->pid, BUS_TOOL, &actions, NULL, argv, environ);
	ck_assert_int_eq(failed, 0);
	posix_spawn_file_actions_destroy(&actions);
	return child;
}

void child_signal(struct child *child, int number)
{
	kill(child->pid, number);
}

void child_end(struct child *child)
{
	int status;

	waitpid(child->pid, &status, 0);
	unlink(child->path);
	free(child);
}

static FILE *child_output(struct child *child)
{
	FILE *file = fopen(child->path, "r");

	ck_assert_ptr_nonnull(file);
	return file;
}

int child_lines(struct child *child, const char *prefix)
{
	FILE *file = child_output(child);
	char line[256];
	int count = 0;

	while (fgets(line, sizeof(line), file))
		count += strncmp(line, prefix, strlen(prefix)) == 0;
	fclose(file);
	return count;
}

bool child_wait_lines(struct child *child, const char *prefix, int count, int64_t timeout_ms)
{
	int64_t end_us = clock_monotonic_us() + timeout_ms * 1000;

	while (child_lines(child, prefix) < count) {
		if (clock_monotonic_us() > end_us)
			return false;
		usleep(20000);
	}
	return true;
}

void child_mark(struct child *child, const char *prefix, char *seen, int seen_max)
{
	FILE *file = child_output(child);
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		int number = atoi(strrchr(line, ' ') ? strrchr(line, ' ') : "-1");

		/* The last line of a killed process may be cut short. */
		if (strncmp(line, prefix, strlen(prefix)) == 0 && strchr(line, '\n') &&
		    number >= 0 && number < seen_max)
			seen[number] = 1;
	}
	fclose(file);
}
