/* See record.h: checks what is published, and turns jobs into records and back. */
#include "services/scheduler/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/clock.h"

#define TRIES_MAX 100
#define TRIES_DEFAULT 10
#define TOPIC_MAX 249 /* Kafka's limit */
#define ADDRESS_MAX 256
#define KEY_MAX 128

const char target_letters[TARGETS + 1] = "tcp";

static bool text_consists_of(const char *text, size_t size_max, const char *others)
{
	size_t size = strlen(text);

	if (!size || size > size_max)
		return false;
	for (const char *at = text; *at; at++) {
		if ((*at < 'a' || *at > 'z') && (*at < 'A' || *at > 'Z') &&
		    (*at < '0' || *at > '9') && !strchr(others, *at))
			return false;
	}
	return true;
}

/* The runtime has checked that it is UTF-8. */
static bool text_printable(const char *text, size_t size_max)
{
	size_t size = strlen(text);

	if (!size || size > size_max)
		return false;
	for (const char *at = text; *at; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return false;
	}
	return true;
}

bool queue_name_valid(const char *name)
{
	return text_consists_of(name, QUEUE_NAME_MAX, "._-");
}

bool job_id_valid(const char *id)
{
	return text_printable(id, JOB_ID_MAX);
}

static bool topic_valid(const char *topic)
{
	return text_consists_of(topic, TOPIC_MAX, "._-") && strcmp(topic, ".") &&
	       strcmp(topic, "..");
}

/* package.Service/Method */
static bool method_valid(const char *method)
{
	const char *slash = strchr(method, '/');
	size_t size = slash ? (size_t)(slash - method) : 0;
	char service[256];

	if (!size || size >= sizeof(service) || !text_consists_of(slash + 1, 128, "_"))
		return false;
	memcpy(service, method, size);
	service[size] = '\0';
	return text_consists_of(service, sizeof(service), "._") && service[0] != '.' &&
	       service[size - 1] != '.';
}

static bool address_valid(const char *address)
{
	return text_printable(address, ADDRESS_MAX) && !strchr(address, ' ');
}

/* --- times ----------------------------------------------------------------------------------- */

Google__Protobuf__Timestamp *timestamp_make(struct arena *arena, int64_t ms)
{
	Google__Protobuf__Timestamp *timestamp = arena_alloc(arena, sizeof(*timestamp));

	google__protobuf__timestamp__init(timestamp);
	timestamp->seconds = ms / 1000;
	timestamp->nanos = (int32_t)(ms % 1000) * 1000000;
	return timestamp;
}

bool timestamp_read(const Google__Protobuf__Timestamp *timestamp, int64_t *ret_ms)
{
	/* 9999-12-31, as timestamp.proto says; before 1970 is in the past all the same. */
	if (timestamp->seconds < -62135596800LL || timestamp->seconds > 253402300799LL ||
	    timestamp->nanos < 0 || timestamp->nanos > 999999999)
		return false;
	*ret_ms = timestamp->seconds < 0
			  ? 0
			  : timestamp->seconds * 1000 + (timestamp->nanos + 999999) / 1000000;
	return true;
}

bool duration_read(const Google__Protobuf__Duration *duration, int64_t *ret_ms)
{
	if (duration->seconds < 0 || duration->seconds > 315576000000LL || duration->nanos < 0 ||
	    duration->nanos > 999999999)
		return false;
	*ret_ms = duration->seconds * 1000 + (duration->nanos + 999999) / 1000000;
	return true;
}

/* --- publishing ------------------------------------------------------------------------------ */

static bool fault(struct arena *arena, struct fault *reterr, const char *prefix, const char *field,
		  const char *text)
{
	*reterr = (struct fault){arena_printf(arena, "%s%s", prefix, field), text};
	return false;
}

static char *id_make(struct arena *arena)
{
	uint64_t random[2];
	ssize_t got = getrandom(random, sizeof(random), 0); /* never less for so few bytes */

	(void)got;
	return arena_printf(arena, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
}

static bool record_time(struct arena *arena, const Stampede__Scheduler__V1__Job *job,
			const Google__Protobuf__Duration *delay, const char *prefix,
			struct record *ret, struct fault *reterr)
{
	int64_t ms = 0;

	if (job->due_at && delay)
		return fault(arena, reterr, "", "delay", "must not be set beside job.due_at");
	if (!job->due_at) {
		if (delay && (!duration_read(delay, &ms) || ms > FUTURE_MAX_MS))
			return fault(arena, reterr, "", "delay", "must be 0 to 400 days");
		ret->asked_ms = -1 - ms;
		return true;
	}
	if (!timestamp_read(job->due_at, &ms))
		return fault(arena, reterr, prefix, "due_at", "must be a valid time");
	if (ms > clock_wall_ms() + FUTURE_MAX_MS)
		return fault(arena, reterr, prefix, "due_at", "must be within 400 days");
	ret->asked_ms = ms;
	return true;
}

static bool record_target(struct arena *arena, const Stampede__Scheduler__V1__Target *target,
			  const char *prefix, struct record *ret, struct fault *reterr)
{
	switch (target ? target->target_case : STAMPEDE__SCHEDULER__V1__TARGET__TARGET__NOT_SET) {
	case STAMPEDE__SCHEDULER__V1__TARGET__TARGET_PULL:
		ret->target = TARGET_PULL;
		return true;
	case STAMPEDE__SCHEDULER__V1__TARGET__TARGET_TOPIC:
		ret->target = TARGET_TOPIC;
		return topic_valid(target->topic) ||
		       fault(arena, reterr, prefix, "target.topic",
			     "must be 1 to 249 letters, digits, '.', '_' and '-'");
	case STAMPEDE__SCHEDULER__V1__TARGET__TARGET_CALLBACK:
		ret->target = TARGET_CALLBACK;
		if (!address_valid(target->callback->address))
			return fault(arena, reterr, prefix, "target.callback.address",
				     "must be a gRPC target such as dns:///order:7002");
		return method_valid(target->callback->method) ||
		       fault(arena, reterr, prefix, "target.callback.method",
			     "must be package.Service/Method");
	default:
		return fault(arena, reterr, prefix, "target",
			     "must be set to pull, topic or callback");
	}
}

bool record_make(struct arena *arena, const Stampede__Scheduler__V1__Job *job,
		 const Google__Protobuf__Duration *delay, const char *queue, const char *prefix,
		 struct record *ret, struct fault *reterr)
{
	Stampede__Scheduler__V1__Job kept = *job;
	struct record record = {.id = *job->job_id ? job->job_id : id_make(arena)};
	char head[64], *bytes;
	size_t head_size, size;

	if (!job_id_valid(record.id))
		return fault(arena, reterr, prefix, "job_id",
			     "must be 1 to 128 bytes without control characters");
	if (*job->queue && strcmp(job->queue, queue))
		return fault(arena, reterr, prefix, "queue", "must be empty or the request's");
	if (job->payload.len > PAYLOAD_MAX)
		return fault(arena, reterr, prefix, "payload", "must be at most 64 KiB");
	if (job->tries_max < 0 || job->tries_max > TRIES_MAX)
		return fault(arena, reterr, prefix, "tries_max", "must be 0 to 100");
	if (*job->key && !text_printable(job->key, KEY_MAX))
		return fault(arena, reterr, prefix, "key",
			     "must be at most 128 bytes without control characters");
	if (!record_target(arena, job->target, prefix, &record, reterr) ||
	    !record_time(arena, job, delay, prefix, &record, reterr))
		return false;

	if (!kept.tries_max)
		kept.tries_max = TRIES_DEFAULT;
	kept.job_id = kept.queue = (char *)"";
	kept.due_at = NULL;
	head_size =
		(size_t)snprintf(head, sizeof(head), "%c %d %" PRId64 "\n",
				 target_letters[record.target], kept.tries_max, record.asked_ms);
	size = stampede__scheduler__v1__job__get_packed_size(&kept);
	bytes = arena_alloc(arena, head_size + size);
	memcpy(bytes, head, head_size);
	stampede__scheduler__v1__job__pack(&kept, (uint8_t *)bytes + head_size);
	record.bytes = bytes;
	record.size = head_size + size;
	*ret = record;
	return true;
}

Stampede__Scheduler__V1__Job *record_read(struct arena *arena, const char *queue, const char *id,
					  int64_t due_ms, const char *bytes, size_t size)
{
	const char *line = memchr(bytes, '\n', size);
	Stampede__Scheduler__V1__Job *job;

	if (!line)
		return NULL;
	line++;
	job = stampede__scheduler__v1__job__unpack(
		arena_allocator(arena), size - (size_t)(line - bytes), (const uint8_t *)line);
	if (!job)
		return NULL;
	job->job_id = arena_strdup(arena, id);
	job->queue = arena_strdup(arena, queue);
	job->due_at = timestamp_make(arena, due_ms);
	return job;
}

char *receipt_make(struct arena *arena, int64_t delivery, const char *id)
{
	return arena_printf(arena, "%" PRId64 ".%s", delivery, id);
}

bool receipt_read(const char *receipt, int64_t *ret_delivery, const char **ret_id)
{
	char *end;
	long long delivery;

	if (*receipt < '0' || *receipt > '9')
		return false;
	delivery = strtoll(receipt, &end, 10);
	if (*end != '.' || !job_id_valid(end + 1))
		return false;
	*ret_delivery = delivery;
	*ret_id = end + 1;
	return true;
}
