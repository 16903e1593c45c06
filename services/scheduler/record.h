/* A job as Redis keeps it: one line of text, which the scripts read, then the bytes of a Job
 * without its id, queue and time (those are known from where it stands).
 *
 *     "<target> <tries_max> <asked>\n" Job…        target: t topic, c callback, p pull
 *
 * The record never changes, so a repeat of Publish is recognised by comparing it. `asked` is the
 * time as it was asked for: absolute in ms, or -1 - the delay.
 */
#pragma once

#include <stampede/scheduler/v1/scheduler.pb-c.h>
#include <stdbool.h>

#include "runtime/arena.h"

#define JOBS_MAX 1000
#define PAYLOAD_MAX (64 * 1024)
#define QUEUE_NAME_MAX 64
#define JOB_ID_MAX 128
#define FUTURE_MAX_MS (400LL * 24 * 3600 * 1000)
#define QUEUE_NAME_RULE "must be 1 to 64 letters, digits, '.', '_' and '-'"
#define JOB_ID_RULE "must be 1 to 128 bytes without control characters"
#define LEASE_MIN_MS 100
#define LEASE_MAX_MS 3600000
#define LEASE_DEFAULT_MS 30000

enum target { TARGET_TOPIC, TARGET_CALLBACK, TARGET_PULL, TARGETS };
extern const char target_letters[TARGETS + 1];

struct record {
	const char *id;
	enum target target;
	int64_t asked_ms;
	const char *bytes;
	size_t size;
};

/* What is wrong with a request, for call_refuse(). */
struct fault {
	const char *field, *text;
};

/* False, with *reterr, when the job may not be published. `prefix` stands before the field's name,
 * e.g. "jobs[3].". Makes an id when there is none. */
bool record_make(struct arena *arena, const Stampede__Scheduler__V1__Job *job,
		 const Google__Protobuf__Duration *delay, const char *queue, const char *prefix,
		 struct record *ret, struct fault *reterr) MUST_USE;

/* The job again, all fields set. NULL when the bytes are no record. */
Stampede__Scheduler__V1__Job *record_read(struct arena *arena, const char *queue, const char *id,
					  int64_t due_ms, const char *bytes, size_t size);

bool queue_name_valid(const char *name);
bool job_id_valid(const char *id);

Google__Protobuf__Timestamp *timestamp_make(struct arena *arena, int64_t ms);
/* Rounded up, so that nothing is early. False when it is no valid time. */
bool timestamp_read(const Google__Protobuf__Timestamp *timestamp, int64_t *ret_ms) MUST_USE;
bool duration_read(const Google__Protobuf__Duration *duration, int64_t *ret_ms) MUST_USE;

/* A receipt names a delivery: "<delivery number>.<job id>". */
char *receipt_make(struct arena *arena, int64_t delivery, const char *id);
bool receipt_read(const char *receipt, int64_t *ret_delivery, const char **ret_id) MUST_USE;
