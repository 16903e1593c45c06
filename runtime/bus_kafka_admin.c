/* What of librdkafka blocks, on a thread of its own: making topics, asking for offsets and whether
 * the brokers are there.
 *
 *     kafka_open() ─► job: create, then ask for the partitions ─► bus_topic_opened()
 *     kafka_probe() ─► job: metadata; each consumer's end offsets and commits ─► up or down,
 * backlog
 *
 * A topic that exists keeps its partitions; one that we may not create but may use is used. A job
 * that is still under way when the bus is destroyed finds `bus` gone from the link and only frees
 * itself.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus_kafka.h"
#include "runtime/log.h"

#define ANSWER_MS 2000
#define FIGURE_MS 1000
#define METADATA_TRIES_MAX 40
#define METADATA_AGAIN_MS 50

struct kafka_admin {
	struct kafka_bus *bus; /* NULL: destroyed */
	struct worker *worker;
	rd_kafka_t *producer;
	atomic_bool quits;
	int jobs;
	bool probing;
};

struct admin_job {
	struct job job;
	struct kafka_admin *admin;
	/* Opening a topic; NULL: a probe. */
	struct kafka_topic *topic;
	char name[BUS_NAME_MAX], error[256];
	int partitions; /* wanted, then found; 0: none */
	/* A probe. */
	bool up;
	int consumers_count; /* those that have a handle */
	struct kafka_consumer *consumers[];
};

/* --- topics, on the thread --------------------------------------------------------------- */

static void admin_create_topic(struct admin_job *job)
{
	rd_kafka_t *handle = job->admin->producer;
	char error[256];
	rd_kafka_NewTopic_t *wanted =
		rd_kafka_NewTopic_new(job->name, job->partitions, -1, error, sizeof(error));
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_CREATETOPICS);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
	rd_kafka_event_t *event;

	assert(wanted);
	(void)rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, error, sizeof(error));
	rd_kafka_CreateTopics(handle, &wanted, 1, options, queue);
	event = rd_kafka_queue_poll(queue, 2 * ANSWER_MS);
	if (event && rd_kafka_event_error(event))
		snprintf(job->error, sizeof(job->error), "%s", rd_kafka_event_error_string(event));
	if (event)
		rd_kafka_event_destroy(event);
	rd_kafka_queue_destroy(queue);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_NewTopic_destroy(wanted);
}

/* 0: it has no leaders yet. */
static int admin_ask_partitions(struct admin_job *job, rd_kafka_topic_t *topic)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error =
		rd_kafka_metadata(job->admin->producer, 0, topic, &metadata, ANSWER_MS);
	int partitions = 0;

	if (error) {
		snprintf(job->error, sizeof(job->error), "%s", rd_kafka_err2str(error));
		return 0;
	}
	if (metadata->topic_cnt == 1 && !metadata->topics[0].err)
		partitions = metadata->topics[0].partition_cnt;
	for (int i = 0; i < partitions; i++) {
		if (metadata->topics[0].partitions[i].leader < 0)
			partitions = 0;
	}
	rd_kafka_metadata_destroy(metadata);
	return partitions;
}

static bool admin_brokers_answer(const struct admin_job *job)
{
	const struct rd_kafka_metadata *metadata;

	if (rd_kafka_metadata(job->admin->producer, 0, NULL, &metadata, FIGURE_MS))
		return false;
	rd_kafka_metadata_destroy(metadata);
	return true;
}

static void admin_open(struct admin_job *job)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(job->admin->producer, job->name, NULL);
	int found = 0;

	assert(topic);
	admin_create_topic(job);
	for (int i = 0; i < METADATA_TRIES_MAX && !found && !job->error[0]; i++) {
		if (atomic_load(&job->admin->quits))
			break;
		if (i)
			uv_sleep(METADATA_AGAIN_MS);
		found = admin_ask_partitions(job, topic);
	}
	job->partitions = found;
	rd_kafka_topic_destroy(topic);
}

/* --- figures, on the thread -------------------------------------------------------------- */

/* Asked by the producer: on a consumer's connection it would wait behind the fetch. */
static int64_t admin_end(rd_kafka_t *producer, const char *topic, int32_t partition,
			 int64_t *ret_low)
{
	int64_t low, high;

	if (rd_kafka_query_watermark_offsets(producer, topic, partition, &low, &high, FIGURE_MS))
		return -1;
	*ret_low = low;
	return high;
}

static int64_t admin_backlog(rd_kafka_t *producer, const struct kafka_consumer *kafka)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(kafka->all);
	int64_t backlog = 0;

	if (rd_kafka_committed(kafka->handle, list, FIGURE_MS))
		backlog = -1;
	for (int i = 0; i < list->cnt && backlog >= 0; i++) {
		const rd_kafka_topic_partition_t *part = &list->elems[i];
		int64_t low = 0;
		int64_t end = admin_end(producer, part->topic, part->partition, &low);

		if (end < 0 || part->err)
			backlog = -1;
		else /* nothing committed yet: from the beginning */
			backlog += end - (part->offset >= low ? part->offset : low);
	}
	rd_kafka_topic_partition_list_destroy(list);
	return backlog;
}

static void admin_figures(rd_kafka_t *producer, struct kafka_consumer *kafka)
{
	const struct bus_consumer *consumer = &kafka->consumer;
	int64_t low = 0, end;

	kafka->probed_dead = -1;
	kafka->probed_backlog = admin_backlog(producer, kafka);
	if (kafka->probed_backlog < 0)
		return;
	end = admin_end(producer, consumer->next_topics[consumer->retries]->name, 0, &low);
	if (end >= 0)
		kafka->probed_dead = end - low;
}

static void admin_probe(struct admin_job *job)
{
	job->up = admin_brokers_answer(job);
	for (int i = 0; job->up && i < job->consumers_count && !atomic_load(&job->admin->quits);
	     i++)
		admin_figures(job->admin->producer, job->consumers[i]);
}

/* When no broker answers one topic, the others that wait are not tried. */
static void admin_run(void *self, struct job *jobs)
{
	struct kafka_admin *admin = self;
	bool away = false;

	for (; jobs; jobs = jobs->next) {
		struct admin_job *job = container_of(jobs, struct admin_job, job);

		if (atomic_load(&admin->quits))
			continue;
		if (!job->topic) {
			admin_probe(job);
		} else if (away || !admin_brokers_answer(job)) {
			away = true;
			job->partitions = 0;
			strcpy(job->error, "no broker answers");
		} else {
			admin_open(job);
		}
	}
}

/* --- on the loop ------------------------------------------------------------------------- */

static void admin_opened(struct admin_job *job)
{
	struct bus_topic *topic = job->topic->topic;

	if (job->partitions > 0) {
		topic->partitions = job->partitions;
		bus_topic_opened(topic, STATUS_OK);
		kafka_tick_soon(job->admin->bus); /* a consumer may wait for it */
		return;
	}
	log_event(LOG_WARN, "kafka_topic_unavailable", log_text("topic", topic->name),
		  log_text("error", job->error[0] ? job->error : "it has no leader yet"));
	bus_topic_opened(topic, STATUS_UNAVAILABLE);
}

static void admin_probed(struct admin_job *job)
{
	struct bus *bus = &job->admin->bus->bus;

	job->admin->probing = false;
	for (int i = 0; i < job->consumers_count; i++) {
		struct kafka_consumer *kafka = job->consumers[i];

		kafka->consumer.backlog = job->up ? kafka->probed_backlog : -1;
		kafka->consumer.dead_letters = job->up ? kafka->probed_dead : -1;
	}
	if (!bus->farewell)
		bus_set_up(bus, job->up);
}

static void admin_done(struct job *done)
{
	struct admin_job *job = container_of(done, struct admin_job, job);
	struct kafka_admin *admin = job->admin;

	admin->jobs--;
	if (admin->bus && job->topic)
		admin_opened(job);
	else if (admin->bus)
		admin_probed(job);
	else if (!admin->jobs)
		free(admin);
	free(job);
}

static struct admin_job *admin_job(struct kafka_admin *admin, int consumers_max)
{
	struct admin_job *job =
		calloc(1, sizeof(*job) + (size_t)consumers_max * sizeof(struct kafka_consumer *));

	assert(job);
	job->job.done = admin_done;
	job->admin = admin;
	return job;
}

static bool admin_submit(struct admin_job *job)
{
	bool taken = worker_submit(job->admin->worker, &job->job);

	job->admin->jobs += taken;
	if (!taken)
		free(job);
	return taken;
}

void kafka_open(struct bus_topic *topic)
{
	struct kafka_bus *kafka = kafka_bus(topic->bus);
	struct kafka_topic *internal = topic->internal;
	struct admin_job *job = admin_job(kafka->admin, 0);

	if (!internal) {
		internal = topic->internal = calloc(1, sizeof(*internal));
		assert(internal);
		internal->topic = topic;
		internal->handle = rd_kafka_topic_new(kafka->producer, topic->name, NULL);
		assert(internal->handle);
	}
	job->topic = internal;
	job->partitions = topic->partitions;
	strcpy(job->name, topic->name);
	if (!admin_submit(job))
		bus_topic_opened(topic, STATUS_RESOURCE_EXHAUSTED);
}

void kafka_probe(struct kafka_bus *kafka)
{
	struct kafka_admin *admin = kafka->admin;
	struct bus_consumer *consumer;
	struct admin_job *job;
	int count = 0;

	if (admin->probing)
		return;
	for (consumer = kafka->bus.consumers; consumer; consumer = consumer->next)
		count++;
	job = admin_job(admin, count);
	for (consumer = kafka->bus.consumers; consumer; consumer = consumer->next) {
		if (kafka_consumer(consumer)->handle)
			job->consumers[job->consumers_count++] = kafka_consumer(consumer);
	}
	admin->probing = admin_submit(job);
}

struct kafka_admin *kafka_admin_create(struct kafka_bus *kafka)
{
	struct kafka_admin *admin = calloc(1, sizeof(*admin));

	assert(admin);
	admin->bus = kafka;
	admin->producer = kafka->producer;
	admin->worker = worker_create(kafka->bus.loop, "kafka-admin", admin_run, admin);
	return admin;
}

void kafka_admin_destroy(struct kafka_admin *admin)
{
	if (!admin)
		return;
	atomic_store(&admin->quits, true);
	worker_destroy(admin->worker);
	admin->bus = NULL;
	if (!admin->jobs)
		free(admin);
}
