#include "inventory/redis_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"

struct redis_check {
	struct redis *redis;
	struct redis_op op;
	bool asking;
};

static const struct {
	const char *name, *good, *why;
} wanted[] = {
	{"appendonly", "yes", "without an append-only file a restart forgets every reservation"},
	{"appendfsync", "always",
	 "reservations of the last second may be lost in a crash; or choose DURABILITY_LOGGED"},
	{"maxmemory-policy", "noeviction", "stock and reservations may be evicted"},
};

static void check_one(const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (strcmp(name, wanted[i].name) != 0 || !strcmp(value, wanted[i].good))
			continue;
		log_event(LOG_WARN, "redis_setting_unsafe", log_text("setting", name),
			  log_text("is", value), log_text("better", wanted[i].good),
			  log_text("because", wanted[i].why));
	}
}

static void checked(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct redis_check *check = container_of(op, struct redis_check, op);

	check->asking = false;
	if (status != STATUS_OK || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		if (reply->element[i]->str && reply->element[i + 1]->str)
			check_one(reply->element[i]->str, reply->element[i + 1]->str);
}

struct redis_check *redis_check_create(struct redis *redis)
{
	struct redis_check *check = calloc(1, sizeof(*check));

	assert(check);
	check->redis = redis;
	check->op.done = checked;
	return check;
}

void redis_check_destroy(struct redis_check *check)
{
	if (check && check->asking)
		redis_forget(&check->op);
	free(check);
}

void redis_check_run(struct redis_check *check)
{
	static const char *const values[] = {"CONFIG", "GET", "[am][pa][px]*"};
	static const size_t sizes[] = {6, 3, 13};

	if (check->asking)
		return;
	check->asking = true;
	redis_send(check->redis, &check->op, (struct redis_args){3, values, sizes});
}
