/* What the files of the lock service share: its parts, its methods, its requests' checks. */
#pragma once

#include <stampede/lock/v1/lock.pb-c.h>

#include "runtime/process.h"
#include "services/lock/store.h"
#include "services/lock/waiters.h"

struct lock_settings {
	const char *redis;
	int64_t claim_ms;
};

struct lock {
	struct store *store;
	struct waiters *waiters;
	struct health_part *redis_part;
	struct service service;
	struct counter *granted, *refused, *released;
};

extern const struct method acquire_method, try_acquire_method, release_method, renew_method,
	get_lock_method;

#define NAME_RULE "must be 1 to 128 bytes without control characters"
#define LEASE_RULE "must be 100 ms to 1 h"

/* A lock's name, an owner, a request id. */
bool lock_name_valid(const char *name);
/* NULL: the default. */
bool lock_lease_read(const Google__Protobuf__Duration *lease, int64_t *ret_ms) MUST_USE;
/* NULL when the request is in order; otherwise what is wrong with *ret_field. */
const char *lock_asker_wrong(const struct asker *asker, const char **ret_field);
/* The holder, as the protos have it. */
Stampede__Lock__V1__Grant *lock_grant(struct arena *arena, const char *name,
				      const struct holding *holding);
/* Redis is away, or the like: the same request may come again. */
enum step lock_fail(struct call *call, enum status status, const char *what) MUST_USE;
/* FAILED_PRECONDITION, saying who holds it. */
enum step lock_not_holder(struct call *call, const char *name, int64_t token,
			  const struct holding *holding) MUST_USE;
