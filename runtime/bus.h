/* The bus: topics of records, kept in order by key, delivered at least once.
 *
 * Two implementations behind one interface, held to one conformance suite (tests/integration/bus): Kafka
 * (librdkafka) and Redis Streams (consumer groups). A failing record goes through the retry topics
 * (<topic>.<group>.retry-1 … after 5 s, 10 s, 30 s) and then to <topic>.<group>.dead; it never blocks its partition.
 */
#pragma once

#include "runtime/call.h"

struct bus;
struct bus_consumer;
struct metrics;

struct bus_options {
	/* kafka://host:port,host:port[?property=value&…] (librdkafka properties), or a redis URL (redis.h). */
	const char *url;
	const char *client_id; /* unique to this process */
	int partitions;	       /* of topics that do not exist yet; 0: 4 */
	int publish_max;       /* records under way; more: RESOURCE_EXHAUSTED; 0: 100,000 */
	struct metrics *metrics;
	/* Runs when the bus becomes usable, or stops being so. */
	void (*state)(void *self, bool up);
	void *self;
};
/* NULL, with the reason logged, only when the URL is malformed. Connects in the background. */
struct bus *bus_create(struct loop *loop, const struct bus_options *options);
/* Stops consuming (what is being handled may finish and be committed), flushes what was published, then runs `closed`;
 * after `grace_ms` at the latest. Records not confirmed by then end with UNAVAILABLE. */
void bus_close(struct bus *bus, int64_t grace_ms, void (*closed)(void *context), void *context);
void bus_destroy(struct bus *bus);
bool bus_up(const struct bus *bus);

/* Zeroed and embedded by the caller; its memory stays until `done`, which runs exactly once, never inside
 * bus_publish(). STATUS_OK: the bus has it (Kafka: acks=all, idempotent producer). */
struct bus_publish {
	const char *topic;
	const char *key; /* equal keys: one partition, in order */
	size_t key_size;
	const void *value; /* topic, key and value are copied before bus_publish() returns */
	size_t value_size;
	const struct trace *trace; /* may be NULL; travels as header traceparent */
	void (*done)(struct bus_publish *publish, enum status status);
	struct bus_publish *next; /* the runtime's */
	void *internal;
};
void bus_publish(struct bus *bus, struct bus_publish *publish);
enum step call_publish(struct call *call, struct bus *bus, const char *topic, const char *key,
		       size_t key_size, const void *value, size_t value_size,
		       call_then *then) MUST_USE;

struct bus_record {
	const char *topic; /* the original topic, also for a retry */
	const char *key;
	size_t key_size;
	const uint8_t *value;
	size_t value_size;
	int attempt;	    /* 1 at first */
	struct trace trace; /* all zero: none */
	bool failed;	    /* set by bus_batch_fail() */
	char reason[128];
	void *internal;
};

/* What a consumer is handed: records of one partition, or of a retry topic. Until it is done, no
 * further batch of the same partition comes; batches of others do, so several may be with the handler at once. */
struct bus_batch {
	struct bus_consumer *consumer;
	struct bus_record *records;
	int count;
	void *internal;
};
/* This record goes to the retry topic, or to the dead letter: `reason` is kept with it. */
void bus_batch_fail(struct bus_batch *batch, int index, const char *reason);
/* The same, with another value: for a record of which only a part failed. The value is copied. */
void bus_batch_fail_value(struct bus_batch *batch, int index, const char *reason, const void *value,
			  size_t value_size);
/* All is handled: failed records are sent on, then the position is committed. May be called at once or later, on
 * the loop; the batch is gone after it. */
void bus_batch_done(struct bus_batch *batch);
/* Nothing was handled, e.g. the database is down: the same records come again after `delay_ms`. */
void bus_batch_again(struct bus_batch *batch, int64_t delay_ms);

struct bus_consumer_options {
	const char *topic;
	const char *group;
	int batch_max; /* records; 0: 256 */
	/* After a batch that was not full the partition's next records are fetched at the next multiple
	 * of so many ms, all partitions together: fewer and larger batches under load, while a first
	 * record comes at once. 0: 5; -1: never wait. Redis Streams; Kafka's client batches itself. */
	int pace_ms;
	int retries_max;	    /* 0: the default 3; -1: none, straight to the dead letter */
	int64_t retry_delays_ms[3]; /* 0: 5,000, 10,000, 30,000 */
	void (*batch)(void *self, struct bus_batch *batch);
	/* A record was given up (after it is in the dead letter topic). May be NULL. */
	void (*dead)(void *self, const struct bus_record *record);
	void *self;
};
/* Lives until the bus is closed. */
struct bus_consumer *bus_consume(struct bus *bus, const struct bus_consumer_options *options);

/* Records published and not yet committed by the group, over all partitions, as of at most a second
 * ago; -1 when unknown. */
int64_t bus_backlog(const struct bus_consumer *consumer);
/* Records in the group's dead letter topic; -1 when unknown. */
int64_t bus_dead_letters(const struct bus_consumer *consumer);
