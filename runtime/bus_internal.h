/* Between the bus's front (bus.c, bus_delivery.c) and its implementations (bus_streams*.c,
 * bus_kafka*.c).
 *
 * The front knows topics, limits, batches, retries and the order of a shutdown; an implementation
 * knows how to publish one message, to read the next records of a partition, and to commit a
 * position.
 */
#pragma once

#include "runtime/arena.h"
#include "runtime/bus.h"
#include "runtime/metrics.h"

#define BUS_RETRIES_MAX 3
#define BUS_NAME_MAX 160
/* How long until a failed forward, read or commit is tried again. */
#define BUS_AGAIN_US 200000

/* What goes over the bus, beside the topic. */
struct bus_message {
	const void *key;
	size_t key_size;
	const void *value;
	size_t value_size;
	const struct trace *trace; /* may be NULL */
	/* Of retries and dead letters; attempt 0: a new record, which has none of these. */
	int attempt;
	int64_t due_ms; /* wall clock */
	const char *reason;
};

struct bus_waiting; /* a publish whose topic is not ready */

struct bus_topic {
	struct bus *bus;
	struct bus_topic *next;
	char name[BUS_NAME_MAX];
	int partitions; /* wanted; the true number when ready */
	bool single;	/* a retry or dead letter topic: one partition */
	bool ready, opening;
	struct bus_waiting *waiting, **waiting_end;
	struct counter *published, *failed;
	void *internal; /* the implementation's */
};

struct bus_position {
	uint64_t major, minor; /* Kafka: offset, 0; Redis: a stream id's two numbers */
};

/* What one read of one partition brought. Handed to the handler whole, or, in a retry topic, as far
 * as it is due. */
struct bus_chunk {
	struct arena arena;
	struct bus_record *records;
	struct bus_position *positions; /* of each record */
	int64_t *due_ms;		/* of each record; NULL: all are due */
	int count;
	int next; /* the first not handled yet */
	struct bus_forward *forwards;
	int forwards_count, forwards_left;
	char first[4096]; /* the arena's */
};

/* One partition of a topic that a consumer reads: the topic's own or a retry topic's.
 *
 *     free ─► held: read ─► (wait until due) ─► handed ─► forwarding what failed ─► committed ─►
 * read …
 *
 * When it is lost to another member, what the handler still has is neither forwarded nor committed:
 * the new owner gets it again. Nothing more is handed out before the handler is through with it. */
enum bus_source_state {
	BUS_SOURCE_IDLE,       /* nothing is handed out */
	BUS_SOURCE_WAITS,      /* `current` waits for its due time, or for a bus_batch_again() */
	BUS_SOURCE_HANDED,     /* the handler has `batch` */
	BUS_SOURCE_FORWARDING, /* failed records go to the next topic */
};
struct bus_source {
	struct bus_consumer *consumer;
	struct bus_source *next;
	int tier;     /* 0: the topic itself; else the retry topic of that number */
	bool held;    /* ours to read */
	bool leaving; /* to be given up as soon as nothing is under way */
	bool reading; /* the implementation was asked to read */
	bool orphan;  /* lost while the handler had the batch */
	enum bus_source_state state;
	struct bus_chunk *current, *ahead;
	struct bus_batch batch;
	struct timer timer; /* BUS_SOURCE_WAITS; a forward to be repeated */
};

struct bus_consumer {
	struct bus *bus;
	struct bus_consumer *next;
	char topic_name[BUS_NAME_MAX], group[BUS_NAME_MAX];
	int batch_max, retries;
	int64_t pace_us; /* 0: none */
	int64_t retry_delays_ms[BUS_RETRIES_MAX];
	struct bus_consumer_options options;
	struct bus_topic *topic;
	struct bus_topic
		*next_topics[BUS_RETRIES_MAX + 1]; /* by tier; after the last: the dead letter */
	struct bus_source *sources;
	int64_t backlog, dead_letters; /* kept by the implementation; -1: unknown */
	struct counter *consumed, *batches, *retried, *dead;
};

struct bus_ops {
	/* Makes sure that the topic exists and finds its number of partitions; ends by
	 * bus_topic_opened(), at once or later. */
	void (*open)(struct bus_topic *topic);
	/* Ends by bus_published(), later. The topic is ready. */
	void (*publish)(struct bus_topic *topic, struct bus_publish *publish,
			const struct bus_message *message);
	struct bus_consumer *(*consume)(struct bus *bus); /* zeroed, of the implementation's size */
	void (*start)(struct bus_consumer *consumer);	  /* when its options are filled in */
	/* At most consumer->batch_max records from where the last read ended; ends by
	 * bus_source_read(), at once or later, only if there are any. */
	void (*read)(struct bus_source *source);
	/* All up to `position`, `count` more than before, are handled. */
	void (*commit)(struct bus_source *source, struct bus_position position, int count);
	/* `leaving` and nothing is under way any more. */
	void (*leave)(struct bus_source *source);
	/* Nothing is handed out nor published any more: commit, say good-bye, then bus_closed(). */
	void (*close)(struct bus *bus);
	/* Time is up: what is being published ends UNAVAILABLE now. */
	void (*abort)(struct bus *bus);
	void (*destroy)(struct bus *bus);
};

struct bus {
	const struct bus_ops *ops;
	struct loop *loop;
	struct bus_options options; /* strings copied */
	bool up, closing, farewell, is_closed;
	int under_way; /* publishes, forwards not counted */
	struct bus_publish *refused, **refused_end;
	struct loop_hook refuse;
	struct bus_topic *topics;
	struct bus_consumer *consumers;
	struct timer grace;
	void (*closed)(void *context);
	void *closed_context;
};

/* NULL: the URL is malformed (logged). They fill in `ops` and their own part. */
struct bus *bus_streams_create(struct loop *loop, const struct bus_options *options);
struct bus *bus_kafka_create(struct loop *loop, const struct bus_options *options);

/* --- bus.c ------------------------------------------------------------------------------- */

void bus_init(struct bus *bus, const struct bus_ops *ops, struct loop *loop,
	      const struct bus_options *options);
void bus_free_parts(struct bus *bus);
void bus_set_up(struct bus *bus, bool up);
struct bus_topic *bus_topic(struct bus *bus, const char *name, bool single);
void bus_topic_open(struct bus_topic *topic);
void bus_topic_opened(struct bus_topic *topic, enum status status);
void bus_published(struct bus_topic *topic, struct bus_publish *publish, enum status status);
/* The same at the end of the round: inside bus_publish() it may not be said. */
void bus_refuse_later(struct bus *bus, struct bus_publish *publish, enum status status);
/* Like bus_publish(), for the bus's own records: not limited, and also while closing. */
void bus_send(struct bus_topic *topic, struct bus_publish *publish,
	      const struct bus_message *message);
/* Whatever keeps a closing bus open may be over. */
void bus_close_check(struct bus *bus);
void bus_closed(struct bus *bus);
/* Which of the topic's partitions a key belongs to: FNV-1a, so that the lanes "0" … "3" fall on
 * four. */
int bus_partition(const void *key, size_t key_size, int partitions);

/* --- bus_delivery.c ---------------------------------------------------------------------- */

void bus_source_init(struct bus_source *source, struct bus_consumer *consumer, int tier);
void bus_source_free(struct bus_source *source);
/* Ours from now on: reads. */
void bus_source_take(struct bus_source *source);
/* Not ours any more. */
void bus_source_lose(struct bus_source *source);
/* Give it up when what is under way is over; ops->leave() runs then, perhaps now. */
void bus_source_leave(struct bus_source *source);
bool bus_source_quiet(const struct bus_source *source);
/* What a read brought; NULL: nothing, and the implementation will be asked again. */
void bus_source_read(struct bus_source *source, struct bus_chunk *chunk);

struct bus_chunk *bus_chunk_create(int records_max);
void bus_chunk_free(struct bus_chunk *chunk);
