/* Consuming Redis Streams: who of a group's members reads which partitions.
 *
 *     tick ─► sign of life ─► the living members ─► each source: ours by share? ─► claim or give up
 * its lease
 *
 * Members are told apart by the bus's client_id and share the sources (partitions, then retry
 * topics) round robin by the order of their names. A share is only a wish: what counts is the
 * lease, one key a source that expires when its owner is silent for 3 s. So a partition has one
 * reader, and keys stay in order.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/bus_lua.h"
#include "runtime/bus_streams.h"

#define TICK_US 1000000
#define TICK_EAGER_US 200000 /* while something that is ours is still another's */
#define TICK_OPENING_US 20000

static struct streams_consumer *streams_consumer(struct bus_consumer *consumer)
{
	return container_of(consumer, struct streams_consumer, consumer);
}

/* --- commands nobody waits for ----------------------------------------------------------- */

struct streams_word {
	struct redis_op op;
	struct streams_bus *streams;
	bool goodbye;
};

static void streams_said(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_word *word = container_of(op, struct streams_word, op);

	(void)status; /* a lease that could not be given back expires */
	(void)reply;
	if (word->goodbye)
		streams_goodbye(word->streams);
	free(word);
}

void streams_say(struct streams_bus *streams, struct redis_script *script, int keys,
		 struct redis_args args)
{
	struct streams_word *word = malloc(sizeof(*word));

	assert(word);
	*word = (struct streams_word){
		.op = {.done = streams_said}, .streams = streams, .goodbye = streams->bus.farewell};
	streams->goodbyes += word->goodbye;
	if (script)
		redis_send_script(streams->redis, &word->op, script, keys, args);
	else
		redis_send(streams->redis, &word->op, args);
}

/* --- the tick ---------------------------------------------------------------------------- */

static struct redis_script member_script = {"bus_member", (const char *)bus_lua_bus_member_lua, ""};

static void streams_consumer_sources(struct streams_consumer *streams)
{
	const struct bus_consumer *consumer = &streams->consumer;
	int partitions = consumer->topic->partitions;

	streams->sources_count = partitions + consumer->retries;
	streams->sources = calloc((size_t)streams->sources_count, sizeof(struct streams_source *));
	assert(streams->sources);
	for (int i = 0; i < streams->sources_count; i++)
		streams->sources[i] =
			streams_source_create(streams, i, i < partitions ? 0 : i - partitions + 1);
}

static void streams_count(struct streams_consumer *streams)
{
	int64_t backlog = 0;

	for (int i = 0; i < streams->sources_count && backlog >= 0; i++) {
		int64_t lag = streams->sources[i]->lag;

		backlog = lag < 0 ? -1 : backlog + lag;
	}
	streams->consumer.backlog = streams->sources_count ? backlog : -1;
}

static void streams_dead_counted(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_consumer *streams = container_of(op, struct streams_consumer, dead);

	streams->counting = false;
	streams->consumer.dead_letters = status == STATUS_OK ? reply->integer : -1;
}

static void streams_count_dead(struct streams_consumer *streams)
{
	struct bus_consumer *consumer = &streams->consumer;
	char key[STREAMS_KEY_MAX];

	if (streams->counting)
		return;
	streams->counting = true;
	streams->dead = (struct redis_op){.done = streams_dead_counted};
	streams_key(key, consumer->next_topics[consumer->retries], 0);
	redis_send(
		streams_bus(consumer->bus)->redis, &streams->dead,
		(struct redis_args){2, (const char *[]){"XLEN", key}, (size_t[]){4, strlen(key)}});
}

static void streams_beaten(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct streams_consumer *streams = container_of(op, struct streams_consumer, beat);
	const struct bus *bus = streams->consumer.bus;
	int members = 0, ours = -1;

	streams->beating = false;
	if (status != STATUS_OK || bus->farewell)
		return;
	for (size_t i = 0; i < reply->elements; i++, members++) {
		if (strcmp(reply->element[i]->str, bus->options.client_id) == 0)
			ours = members;
	}
	for (int i = 0; i < streams->sources_count; i++) {
		struct streams_source *source = streams->sources[i];

		source->desired = ours >= 0 && i % members == ours;
		streams_source_claim(source);
	}
}

static void streams_beat(struct streams_consumer *streams)
{
	const char *id = streams->consumer.bus->options.client_id;
	char ttl[16];
	const char *values[] = {streams->members, id, ttl};
	size_t sizes[] = {strlen(streams->members), strlen(id), 0};

	if (streams->beating)
		return;
	streams->beating = true;
	sizes[2] = (size_t)snprintf(ttl, sizeof(ttl), "%d", STREAMS_LEASE_MS);
	streams->beat = (struct redis_op){.done = streams_beaten};
	redis_send_script(streams_bus(streams->consumer.bus)->redis, &streams->beat, &member_script,
			  1, (struct redis_args){3, values, sizes});
}

static bool streams_waits_for_lease(const struct streams_consumer *streams)
{
	for (int i = 0; i < streams->sources_count; i++) {
		if (streams->sources[i]->desired && !streams->sources[i]->source.held)
			return true;
	}
	return !streams->sources_count;
}

static void streams_tick(struct timer *timer)
{
	struct streams_consumer *streams = container_of(timer, struct streams_consumer, tick);
	struct bus_consumer *consumer = &streams->consumer;

	if (consumer->bus->farewell)
		return;
	for (int i = 0; i < streams->sources_count; i++)
		streams_source_check_lease(streams->sources[i]);
	streams_count(streams);
	if (!redis_connected(streams_bus(consumer->bus)->redis)) {
		consumer->backlog = consumer->dead_letters = -1;
		timer_start_us(timer, TICK_US);
		return;
	}
	bus_topic_open(consumer->topic);
	if (!streams->sources_count && !consumer->topic->ready) {
		timer_start_us(timer, TICK_OPENING_US);
		return;
	}
	if (!streams->sources_count)
		streams_consumer_sources(streams);
	streams_beat(streams);
	streams_count_dead(streams);
	timer_start_us(timer, streams_waits_for_lease(streams) ? TICK_EAGER_US : TICK_US);
}

/* --- life -------------------------------------------------------------------------------- */

struct bus_consumer *streams_consume(struct bus *bus)
{
	struct streams_consumer *streams = calloc(1, sizeof(*streams));

	assert(streams);
	timer_init(&streams->tick, bus->loop, streams_tick);
	return &streams->consumer;
}

void streams_start(struct bus_consumer *consumer)
{
	struct streams_consumer *streams = streams_consumer(consumer);

	snprintf(streams->members, sizeof(streams->members), "bus:{%s.%s}:members",
		 consumer->topic_name, consumer->group);
	timer_start_us(&streams->tick, 0);
}

void streams_consumer_connected(struct bus_consumer *consumer)
{
	timer_start_us(&streams_consumer(consumer)->tick, 0);
}

void streams_consumer_commit(struct bus_consumer *consumer)
{
	struct streams_consumer *streams = streams_consumer(consumer);

	for (int i = 0; i < streams->sources_count; i++)
		streams_source_commit_now(streams->sources[i]);
}

void streams_consumer_close(struct bus_consumer *consumer)
{
	struct streams_consumer *streams = streams_consumer(consumer);
	const char *id = consumer->bus->options.client_id;
	const char *values[] = {streams->members, id, "0"};
	size_t sizes[] = {strlen(streams->members), strlen(id), 1};

	timer_stop(&streams->tick);
	for (int i = 0; i < streams->sources_count; i++) {
		struct streams_source *source = streams->sources[i];

		if (!source->source.held)
			continue;
		bus_source_lose(&source->source);
		streams_source_release(source);
	}
	streams_say(streams_bus(consumer->bus), &member_script, 1,
		    (struct redis_args){3, values, sizes});
}

void streams_consumer_free(struct bus_consumer *consumer)
{
	struct streams_consumer *streams = streams_consumer(consumer);

	for (int i = 0; i < streams->sources_count; i++)
		streams_source_free(streams->sources[i]);
	free(streams->sources);
	timer_stop(&streams->tick);
	free(streams);
}
