/* The bus on Redis Streams: what bus_streams.c (publishing) and bus_streams_consumer.c share.
 *
 * A topic is `partitions` streams bus:{<topic>.<p>}; the number is kept in
 * bus:{<topic>}:partitions. A retry or dead letter topic is the one stream bus:{<topic>}. A
 * record's fields: k key, v value, t traceparent, and of retries a attempt, d due (ms), r reason.
 */
#pragma once

#include "runtime/bus_internal.h"
#include "runtime/redis.h"

#define STREAMS_KEY_MAX (BUS_NAME_MAX + 24)

struct streams_bus {
	struct bus bus;
	struct redis *redis;
	int goodbyes; /* commands a close waits for */
	struct timer commit_soon;
};

/* bus_topic's `internal`, once it is ready. */
struct streams_topic {
	struct redis_op op; /* finding out the number of partitions */
	struct bus_topic *topic;
	char (*keys)[STREAMS_KEY_MAX]; /* by partition */
	struct streams_topic *next;
};

struct streams_bus *streams_bus(struct bus *bus);
void streams_key(char key[STREAMS_KEY_MAX], const struct bus_topic *topic, int partition);

/* A partition: see bus_streams_source.c. */
struct streams_source {
	struct bus_source source;
	char key[STREAMS_KEY_MAX], lease[STREAMS_KEY_MAX + BUS_NAME_MAX + 8];
	bool desired; /* our share of the partitions */
	int64_t lag;  /* -1: unknown */

	struct redis_op claim;
	int64_t claimed_us, held_until_us;
	bool claiming, claiming_lease;

	struct redis
		*reader; /* a blocking read has a connection of its own; retry topics are polled */
	struct redis_op read;
	bool read_sent;
	struct timer read_again;
	int64_t read_not_before_us;
	struct bus_position cursor;

	struct redis_op commit;
	bool committing, dirty;
	struct bus_position done;
	int64_t done_count; /* -1: unknown */
	int64_t trimmed_us;
};

struct streams_consumer {
	struct bus_consumer consumer;
	struct streams_source **sources; /* the partitions, then the retry topics */
	int sources_count;
	char members[STREAMS_KEY_MAX + BUS_NAME_MAX];
	struct redis_op beat, dead;
	bool beating, counting;
	struct timer tick;
};

/* --- bus_streams_consumer.c -------------------------------------------------------------- */

struct bus_consumer *streams_consume(struct bus *bus);
void streams_start(struct bus_consumer *consumer);
/* The main connection is there again. */
void streams_consumer_connected(struct bus_consumer *consumer);
/* Positions of all its partitions, in one write. */
void streams_consumer_commit(struct bus_consumer *consumer);
/* Gives leases back and leaves the group. */
void streams_consumer_close(struct bus_consumer *consumer);
void streams_consumer_free(struct bus_consumer *consumer);
/* A command whose answer nobody waits for but a close. `script` NULL: a plain command. */
void streams_say(struct streams_bus *streams, struct redis_script *script, int keys,
		 struct redis_args args);

/* --- bus_streams_source.c ---------------------------------------------------------------- */

#define STREAMS_LEASE_MS 3000

struct streams_source *streams_source_create(struct streams_consumer *consumer, int partition,
					     int tier);
void streams_source_free(struct streams_source *streams);
/* Takes or keeps the lease if it is desired, gives it up if not; learns the lag. */
void streams_source_claim(struct streams_source *streams);
void streams_source_check_lease(struct streams_source *streams);
void streams_source_release(struct streams_source *streams);
void streams_read(struct bus_source *source);
void streams_commit(struct bus_source *source, struct bus_position position, int count);
/* What is done since the last time, unless a commit is on its way. */
void streams_source_commit_now(struct streams_source *streams);
void streams_leave(struct bus_source *source);

/* --- bus_streams.c ----------------------------------------------------------------------- */

void streams_goodbye(struct streams_bus *streams);
