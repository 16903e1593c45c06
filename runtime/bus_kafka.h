/* The bus on Kafka: what bus_kafka.c (connection, publishing), bus_kafka_config.c,
 * bus_kafka_admin.c (topics, figures) and bus_kafka_consumer.c share.
 *
 * librdkafka's threads say by one eventfd that some queue has something; all callbacks then run on
 * the loop.
 */
#pragma once

#include <librdkafka/rdkafka.h>

#include "runtime/bus_internal.h"
#include "runtime/worker.h"

struct kafka_admin;
struct kafka_wake; /* outlives the bus until libuv has closed it */

struct kafka_bus {
	struct bus bus;
	struct kafka_config *config;
	rd_kafka_t *producer;
	rd_kafka_queue_t *events; /* the producer's: delivery reports, errors */
	int in_producer;	  /* publishes and forwards */
	struct kafka_wake *wake;
	struct loop_hook serve;
	struct timer tick;
	struct kafka_admin *admin;
};

/* bus_topic's `internal`. */
struct kafka_topic {
	struct bus_topic *topic;
	rd_kafka_topic_t *handle;
};

/* A partition that was ours at least once. */
struct kafka_source {
	struct bus_source source;
	int32_t partition;
	rd_kafka_queue_t *queue; /* NULL: not ours */
	bool dirty;
	int64_t done; /* the offset to commit */
};

struct kafka_consumer {
	struct bus_consumer consumer;
	rd_kafka_t *handle; /* NULL until all its topics are ready */
	rd_kafka_queue_t *queue;
	rd_kafka_message_t **messages; /* batch_max of them */
	int committing;		       /* requests under way */
	bool closing;
	struct timer commit_soon;
	/* The admin thread's from when `handle` is set: every partition of the topic and the retry
	 * topics. */
	rd_kafka_topic_partition_list_t *all;
	int64_t probed_backlog, probed_dead;
};

struct kafka_bus *kafka_bus(struct bus *bus);
struct kafka_consumer *kafka_consumer(struct bus_consumer *consumer);

/* --- bus_kafka.c ------------------------------------------------------------------------- */

/* Serves all queues at the end of this round. */
void kafka_serve_later(struct kafka_bus *kafka);
/* Does what is done each second, now. */
void kafka_tick_soon(struct kafka_bus *kafka);
/* Has the loop woken when `queue` gets something. */
void kafka_watch(struct kafka_bus *kafka, rd_kafka_queue_t *queue);
enum status kafka_status(rd_kafka_resp_err_t error);
/* Ends the process: librdkafka cannot go on. */
void kafka_fatal(rd_kafka_t *handle);

/* --- bus_kafka_config.c ------------------------------------------------------------------ */

struct kafka_config;
/* kafka://host:port,…[?property=value&…]; NULL: malformed, logged. */
struct kafka_config *kafka_config_create(const char *url, const char *client_id);
void kafka_config_free(struct kafka_config *config);
/* librdkafka's configuration with ours (name, value, …, NULL) under the URL's. */
rd_kafka_conf_t *kafka_config_conf(const struct kafka_config *config, const char *const *ours);

/* --- bus_kafka_admin.c ------------------------------------------------------------------- */

struct kafka_admin *kafka_admin_create(struct kafka_bus *kafka);
/* Waits for what is under way, some seconds at most. */
void kafka_admin_destroy(struct kafka_admin *admin);
void kafka_open(struct bus_topic *topic);
/* Asks for the brokers' presence and the consumers' figures; the answer sets them. */
void kafka_probe(struct kafka_bus *kafka);

/* --- bus_kafka_consumer.c ---------------------------------------------------------------- */

struct bus_consumer *kafka_consume(struct bus *bus);
void kafka_start(struct bus_consumer *consumer);
void kafka_read(struct bus_source *source);
void kafka_commit(struct bus_source *source, struct bus_position position, int count);
void kafka_leave(struct bus_source *source);
void kafka_consumer_serve(struct kafka_consumer *kafka);
/* Makes the consumer when its topics are ready. */
void kafka_consumer_tick(struct kafka_consumer *kafka);
/* True when it has left its group and committed. */
bool kafka_consumer_close(struct kafka_consumer *kafka);
void kafka_consumer_free(struct kafka_consumer *kafka);
