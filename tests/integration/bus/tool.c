/* A process of its own on the bus, for tests to kill.
 *
 *     bus_tool produce URL TOPIC COUNT KEYS          publishes "0" … "COUNT-1", value v by key v %
 * KEYS bus_tool consume URL CLIENT TOPIC GROUP [name=number…]
 *
 * A line for each event, on stdout: "ok VALUE", "lost VALUE" (produce); "got KEY VALUE ATTEMPT",
 * "done KEY VALUE" (consume). Options of consume: delay_ms, how long a batch is handled; never=1,
 * no batch is ever done; batch_max. SIGTERM closes the bus; "closed" is the last line.
 */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus.h"
#include "runtime/log.h"

#define UNDER_WAY_MAX 1000

static struct loop *loop;
static struct bus *bus;

static void closed(void *context)
{
	(void)context;
	puts("closed");
	loop_stop(loop);
}

static void terminated(uv_signal_t *handle, int number)
{
	(void)number;
	uv_signal_stop(handle);
	bus_close(bus, 10000, closed, NULL);
}

static void open_bus(const char *url, const char *client, void (*state)(void *self, bool up))
{
	bus = bus_create(loop,
			 &(struct bus_options){.url = url, .client_id = client, .state = state});
	if (!bus)
		exit(2);
}

/* --- produce ----------------------------------------------------------------------------- */

struct item {
	struct bus_publish publish;
	int value;
};
static struct {
	const char *topic;
	int next, count, keys, under_way;
} produce;

static void produce_more(void);

static void produced(struct bus_publish *publish, enum status status)
{
	struct item *item = container_of(publish, struct item, publish);

	printf("%s %d\n", status == STATUS_OK ? "ok" : "lost", item->value);
	free(item);
	produce.under_way--;
	produce_more();
	if (!produce.under_way && produce.next == produce.count)
		bus_close(bus, 10000, closed, NULL);
}

static void produce_more(void)
{
	while (produce.next < produce.count && produce.under_way < UNDER_WAY_MAX) {
		struct item *item = calloc(1, sizeof(*item));
		char key[16], value[16];

		assert(item);
		item->value = produce.next++;
		produce.under_way++;
		item->publish.topic = produce.topic;
		item->publish.key = key;
		item->publish.key_size = (size_t)sprintf(key, "%d", item->value % produce.keys);
		item->publish.value = value;
		item->publish.value_size = (size_t)sprintf(value, "%d", item->value);
		item->publish.done = produced;
		bus_publish(bus, &item->publish);
	}
}

static void produce_when_up(void *self, bool up)
{
	(void)self;
	if (up)
		produce_more();
}

/* --- consume ----------------------------------------------------------------------------- */

struct later {
	struct timer timer;
	struct bus_batch *batch;
};
static int64_t delay_ms, never;

static void finish(struct bus_batch *batch)
{
	for (int i = 0; i < batch->count; i++)
		printf("done %.*s %.*s\n", (int)batch->records[i].key_size, batch->records[i].key,
		       (int)batch->records[i].value_size, (const char *)batch->records[i].value);
	bus_batch_done(batch);
}

static void finish_later(struct timer *timer)
{
	struct later *later = container_of(timer, struct later, timer);
	struct bus_batch *batch = later->batch;

	free(later);
	finish(batch);
}

static void consumed(void *self, struct bus_batch *batch)
{
	struct later *later;

	(void)self;
	for (int i = 0; i < batch->count; i++)
		printf("got %.*s %.*s %d\n", (int)batch->records[i].key_size, batch->records[i].key,
		       (int)batch->records[i].value_size, (const char *)batch->records[i].value,
		       batch->records[i].attempt);
	if (never)
		return;
	if (!delay_ms) {
		finish(batch);
		return;
	}
	later = malloc(sizeof(*later));
	assert(later);
	later->batch = batch;
	timer_init(&later->timer, loop, finish_later);
	timer_start_us(&later->timer, delay_ms * 1000);
}

static void consume(int count, char **options, const char *topic, const char *group)
{
	struct bus_consumer_options consumer = {.topic = topic, .group = group, .batch = consumed};

	for (int i = 0; i < count; i++) {
		if (sscanf(options[i], "delay_ms=%" SCNd64, &delay_ms) != 1 &&
		    sscanf(options[i], "never=%" SCNd64, &never) != 1 &&
		    sscanf(options[i], "batch_max=%d", &consumer.batch_max) != 1)
			exit(2);
	}
	bus_consume(bus, &consumer);
}

int main(int argc, char **argv)
{
	uv_signal_t signal_handle;

	/* A consumer is killed in the middle; what it has said must be there. */
	setvbuf(stdout, NULL, argc > 1 && strcmp(argv[1], "consume") == 0 ? _IOLBF : _IOFBF, 65536);
	log_start("bus_tool", LOG_ERROR);
	loop = loop_create();
	uv_signal_init(loop_uv(loop), &signal_handle);
	uv_signal_start(&signal_handle, terminated, SIGTERM);
	if (argc == 6 && strcmp(argv[1], "produce") == 0) {
		open_bus(argv[2], "producer", produce_when_up);
		produce.topic = argv[3];
		produce.count = atoi(argv[4]);
		produce.keys = atoi(argv[5]);
	} else if (argc >= 6 && strcmp(argv[1], "consume") == 0) {
		open_bus(argv[2], argv[3], NULL);
		consume(argc - 6, argv + 6, argv[4], argv[5]);
	} else {
		fprintf(stderr, "see the head of tool.c\n");
		return 2;
	}
	loop_run(loop);
	bus_destroy(bus);
	uv_close((uv_handle_t *)&signal_handle, NULL);
	loop_destroy(loop);
	return 0;
}
