/* stampede-lock: fair locks with leases and fencing tokens. See README.md.
 *
 *     RPCs ──► store (Redis) ──► answers
 *        └──► waiters ──► store … messages ──► waiters ──► answers
 *
 * Redis may be away, at the start or later: RPCs answer UNAVAILABLE; calls that wait already go on
 * waiting, and ask again when it is back.
 */
#include "services/lock/lock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_AFTER_MS 500

static const struct setting settings[] = {
	SETTING_URL(struct lock_settings, redis, "STAMPEDE_REDIS", "redis://127.0.0.1:6379",
		    "where locks are kept"),
	SETTING_DURATION(struct lock_settings, claim_ms, "STAMPEDE_LOCK_CLAIM", "2s", 100, 60000,
			 "after which an instance that does not take what it was handed counts as "
			 "dead"),
	SETTING_END};

/* --- requests and answers -------------------------------------------------------------------- */

bool lock_name_valid(const char *name)
{
	size_t size = strlen(name);

	if (!size || size > NAME_MAX_SIZE)
		return false;
	for (const char *at = name; *at; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return false;
	}
	return true;
}

bool lock_lease_read(const Google__Protobuf__Duration *lease, int64_t *ret_ms)
{
	int64_t ms;

	if (!lease) {
		*ret_ms = LEASE_DEFAULT_MS;
		return true;
	}
	if (lease->seconds < 0 || lease->seconds > LEASE_MAX_MS / 1000 || lease->nanos < 0 ||
	    lease->nanos > 999999999)
		return false;
	ms = lease->seconds * 1000 + lease->nanos / 1000000;
	if (ms < LEASE_MIN_MS || ms > LEASE_MAX_MS)
		return false;
	*ret_ms = ms;
	return true;
}

const char *lock_asker_wrong(const struct asker *asker, const char **ret_field)
{
	*ret_field = "name";
	if (!lock_name_valid(asker->name))
		return NAME_RULE;
	*ret_field = "owner";
	if (!lock_name_valid(asker->owner))
		return NAME_RULE;
	*ret_field = "request_id";
	return lock_name_valid(asker->request_id) ? NULL : NAME_RULE;
}

Stampede__Lock__V1__Grant *lock_grant(struct arena *arena, const char *name,
				      const struct holding *holding)
{
	Stampede__Lock__V1__Grant *grant;
	Google__Protobuf__Timestamp *expires;

	if (!holding->token)
		return NULL;
	grant = arena_alloc(arena, sizeof(*grant));
	expires = arena_alloc(arena, sizeof(*expires));
	stampede__lock__v1__grant__init(grant);
	google__protobuf__timestamp__init(expires);
	expires->seconds = holding->expires_ms / 1000;
	expires->nanos = (int32_t)(holding->expires_ms % 1000) * 1000000;
	grant->name = (char *)name;
	grant->owner = arena_strdup(arena, holding->owner);
	grant->token = holding->token;
	grant->expires_at = expires;
	return grant;
}

enum step lock_fail(struct call *call, enum status status, const char *what)
{
	if (status == STATUS_UNAVAILABLE || status == STATUS_RESOURCE_EXHAUSTED)
		return call_fail_retry(call, status, RETRY_AFTER_MS,
				       "%s: the store cannot be reached; try again", what);
	return call_fail(call, status, "%s", what);
}

enum step lock_not_holder(struct call *call, const char *name, int64_t token,
			  const struct holding *holding)
{
	if (!holding->token)
		return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "NOT_HOLDER",
					"token %lld does not hold lock '%s': it is free",
					(long long)token, name);
	return call_fail_reason(call, STATUS_FAILED_PRECONDITION, "NOT_HOLDER",
				"token %lld does not hold lock '%s': owner '%s' does, with token "
				"%lld, for %lld ms more",
				(long long)token, name, holding->owner, (long long)holding->token,
				(long long)holding->left_ms);
}

/* --- what the store reports ------------------------------------------------------------------ */

static void lock_redis_up(void *self, bool up)
{
	health_set(((struct lock *)self)->redis_part, up, up ? "" : "not connected");
}

static void lock_unsure(void *self)
{
	struct lock *lock = self;

	if (lock->waiters)
		waiters_ask_again(lock->waiters);
}

static void lock_granted(void *self, const char *name, uint64_t waiter)
{
	waiters_granted(((struct lock *)self)->waiters, name, waiter);
}

static void lock_replaced(void *self, uint64_t waiter)
{
	waiters_replaced(((struct lock *)self)->waiters, waiter);
}

static void lock_watch(void *self, const char *name, int64_t token, int64_t left_ms)
{
	waiters_watch(((struct lock *)self)->waiters, name, token, left_ms);
}

static void lock_dropped(void *self, const char *name)
{
	waiters_dropped(((struct lock *)self)->waiters, name);
}

/* --- life ------------------------------------------------------------------------------------ */

static bool lock_start(struct process *process)
{
	static const struct method *const methods[] = {&acquire_method,	 &try_acquire_method,
						       &release_method,	 &renew_method,
						       &get_lock_method, NULL};
	const struct lock_settings *set = process->settings;
	struct lock *lock = calloc(1, sizeof(*lock));
	struct store_options store = {.url = set->redis,
				      .instance = process->instance,
				      .claim_ms = set->claim_ms,
				      .metrics = process->metrics,
				      .up = lock_redis_up,
				      .unsure = lock_unsure,
				      .granted = lock_granted,
				      .replaced = lock_replaced,
				      .watch = lock_watch,
				      .dropped = lock_dropped,
				      .self = lock};

	assert(lock);
	process->self = lock;
	lock->redis_part = health_part(process->health, "redis");
	lock->granted = metrics_counter(process->metrics, "stampede_lock_granted_total",
					"Locks granted, at once or after waiting.", NULL);
	lock->refused = metrics_counter(process->metrics, "stampede_lock_refused_total",
					"TryAcquire that found the lock held.", NULL);
	lock->released = metrics_counter(process->metrics, "stampede_lock_released_total",
					 "Locks released by their holders.", NULL);
	lock->store = store_create(process->loop, &store);
	if (!lock->store)
		return false;
	lock->waiters = waiters_create(process->loop, lock->store, process->metrics);
	lock->service =
		(struct service){&stampede__lock__v1__lock_service__descriptor, methods, lock};
	process_serve(process, &lock->service);
	return true;
}

static void lock_stopped(void *context)
{
	process_stopped(context);
}

static void lock_stop(struct process *process)
{
	waiters_stop(((struct lock *)process->self)->waiters, lock_stopped, process);
}

static void lock_free(struct process *process)
{
	struct lock *lock = process->self;

	if (!lock)
		return;
	store_destroy(lock->store);
	waiters_destroy(lock->waiters);
	free(lock);
}

int main(int argc, char **argv)
{
	static const struct process_spec spec = {.name = "lock",
						 .grpc_port = 7003,
						 .calls_max = 16384,
						 .settings = settings,
						 .settings_size = sizeof(struct lock_settings),
						 .start = lock_start,
						 .stop = lock_stop,
						 .free = lock_free};

	return process_main(argc, argv, &spec);
}
