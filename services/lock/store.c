/* The lock service's Redis: keys, scripts, messages. See store.h and lua/. */
#include "services/lock/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/lock.h"

#define KEYS 5
#define ARGS_MAX 8
#define CHANNEL_PREFIX "lock:instance:"

enum script {
	SCRIPT_ACQUIRE,
	SCRIPT_CLAIM,
	SCRIPT_LEAVE,
	SCRIPT_CHECK,
	SCRIPT_RELEASE,
	SCRIPT_RENEW,
	SCRIPT_GET,
	SCRIPTS
};

struct store {
	struct store_options options;
	struct redis *redis;
	struct redis_subscription subscription;
	char channel[128];
	struct redis_script scripts[SCRIPTS];
};

/* --- making it ------------------------------------------------------------------------------- */

static void script_init(struct redis_script *script, const char *name, const unsigned char *source)
{
	char *text = NULL;
	int size = asprintf(&text, "%s%s", (const char *)lock_lock_lua, (const char *)source);

	assert(size > 0);
	*script = (struct redis_script){.name = name, .source = text};
}

static void store_connected(void *self, const char *run_id)
{
	struct store *store = self;

	(void)run_id;
	store->options.up(store->options.self, true);
	store->options.unsure(store->options.self);
}

static void store_disconnected(void *self)
{
	struct store *store = self;

	store->options.up(store->options.self, false);
}

static void store_ready(struct redis_subscription *subscription)
{
	struct store *store = container_of(subscription, struct store, subscription);

	store->options.unsure(store->options.self);
}

/* "granted <waiter> <token> <name>", "replaced <waiter> 0 <name>", "watch <token> <ms> <name>",
 * "dropped <name>" */
static void store_message(struct redis_subscription *subscription, const char *channel,
			  const char *data, size_t size)
{
	struct store *store = container_of(subscription, struct store, subscription);
	const struct store_options *options = &store->options;
	char text[NAME_MAX_SIZE + 96], verb[16];
	long long first, second;
	int name = 0;

	(void)channel;
	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!strncmp(text, "dropped ", 8))
		options->dropped(options->self, text + 8);
	else if (sscanf(text, "%15s %lld %lld%n", verb, &first, &second, &name) != 3 || !text[name])
		return;
	else if (!strcmp(verb, "granted"))
		options->granted(options->self, text + name + 1, (uint64_t)first);
	else if (!strcmp(verb, "replaced"))
		options->replaced(options->self, (uint64_t)first);
	else if (!strcmp(verb, "watch"))
		options->watch(options->self, text + name + 1, first, second);
}

struct store *store_create(struct loop *loop, const struct store_options *options)
{
	struct store *store = calloc(1, sizeof(*store));
	struct redis_options redis = {.url = options->url,
				      .metrics = options->metrics,
				      .connected = store_connected,
				      .disconnected = store_disconnected,
				      .self = store};

	assert(store);
	store->options = *options;
	script_init(&store->scripts[SCRIPT_ACQUIRE], "acquire", lock_acquire_lua);
	script_init(&store->scripts[SCRIPT_CLAIM], "claim", lock_claim_lua);
	script_init(&store->scripts[SCRIPT_LEAVE], "leave", lock_leave_lua);
	script_init(&store->scripts[SCRIPT_CHECK], "check", lock_check_lua);
	script_init(&store->scripts[SCRIPT_RELEASE], "release", lock_release_lua);
	script_init(&store->scripts[SCRIPT_RENEW], "renew", lock_renew_lua);
	script_init(&store->scripts[SCRIPT_GET], "get", lock_get_lua);
	store->redis = redis_create(loop, &redis);
	if (!store->redis) {
		store_destroy(store);
		return NULL;
	}
	snprintf(store->channel, sizeof(store->channel), CHANNEL_PREFIX "%s", options->instance);
	store->subscription = (struct redis_subscription){
		.channel = store->channel, .message = store_message, .ready = store_ready};
	redis_subscribe(store->redis, &store->subscription);
	return store;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	if (store->redis) {
		redis_unsubscribe(&store->subscription);
		redis_destroy(store->redis);
	}
	for (int i = 0; i < SCRIPTS; i++)
		free((char *)store->scripts[i].source);
	free(store);
}

/* --- running a script ------------------------------------------------------------------------ */

static bool holding_read(const redisReply *reply, struct holding *ret)
{
	enum { NOW, YES, TOKEN, EXPIRES, OWNER, WAITERS, PARTS };

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != PARTS ||
	    reply->element[OWNER]->type != REDIS_REPLY_STRING)
		return false;
	*ret = (struct holding){.yes = reply->element[YES]->integer == 1,
				.token = reply->element[TOKEN]->integer,
				.expires_ms = reply->element[EXPIRES]->integer,
				.left_ms = reply->element[EXPIRES]->integer -
					   reply->element[NOW]->integer,
				.waiters = reply->element[WAITERS]->integer};
	snprintf(ret->owner, sizeof(ret->owner), "%s", reply->element[OWNER]->str);
	return true;
}

static void store_answered(struct redis_op *redis_op, enum status status, const redisReply *reply)
{
	struct store_op *op = container_of(redis_op, struct store_op, op);
	struct holding holding;

	if (status == STATUS_OK && !holding_read(reply, &holding))
		status = STATUS_INTERNAL;
	/* Redis's time ran out, not the call's. */
	if (status == STATUS_DEADLINE_EXCEEDED)
		status = STATUS_UNAVAILABLE;
	op->done(op, status, status == STATUS_OK ? &holding : NULL);
}

/* `args` come after the lock's name and the claim time, NULL at their end. */
static void store_run(struct store *store, struct store_op *op, enum script script,
		      const char *name, const char *const *args)
{
	static const char *const names[KEYS] = {"holder", "token", "queue", "askers", "instances"};
	char keys[KEYS][NAME_MAX_SIZE + 32], claim[24];
	const char *values[KEYS + ARGS_MAX];
	size_t sizes[KEYS + ARGS_MAX];
	int count = 0;

	for (int i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "{lock:%s}:%s", name, names[i]);
		values[count++] = keys[i];
	}
	snprintf(claim, sizeof(claim), "%" PRId64, store->options.claim_ms);
	values[count++] = name;
	values[count++] = claim;
	while (args && *args && count < KEYS + ARGS_MAX)
		values[count++] = *args++;
	for (int i = 0; i < count; i++)
		sizes[i] = strlen(values[i]);
	op->op = (struct redis_op){.done = store_answered};
	op->store = store;
	redis_send_script(store->redis, &op->op, &store->scripts[script], KEYS,
			  (struct redis_args){count, values, sizes});
}

/* acquire, claim and leave are about one asker. */
static void store_run_asker(struct store *store, struct store_op *op, enum script script,
			    const struct asker *asker, const char *mode)
{
	char who[NAME_MAX_SIZE * 2 + 2], lease[24], waiter[24];
	const char *args[] = {who, lease, store->options.instance, waiter, mode, NULL};

	snprintf(who, sizeof(who), "%s\n%s", asker->owner, asker->request_id);
	snprintf(lease, sizeof(lease), "%" PRId64, asker->lease_ms);
	snprintf(waiter, sizeof(waiter), "%" PRIu64, asker->waiter);
	store_run(store, op, script, asker->name, args);
}

void store_acquire(struct store *store, struct store_op *op, const struct asker *asker)
{
	store_run_asker(store, op, SCRIPT_ACQUIRE, asker, "wait");
}

void store_claim(struct store *store, struct store_op *op, const struct asker *asker)
{
	store_run_asker(store, op, SCRIPT_CLAIM, asker, NULL);
}

void store_leave(struct store *store, struct store_op *op, const struct asker *asker)
{
	store_run_asker(store, op, SCRIPT_LEAVE, asker, NULL);
}

void store_check(struct store *store, struct store_op *op, const char *name)
{
	store_run(store, op, SCRIPT_CHECK, name, NULL);
}

/* --- as steps -------------------------------------------------------------------------------- */

/* A script on behalf of a call. */
struct store_step {
	struct store_op op;
	struct wait wait;
	struct holding *ret;
};

static void store_step_done(struct store_op *op, enum status status, const struct holding *holding)
{
	struct store_step *step = container_of(op, struct store_step, op);

	if (status == STATUS_OK)
		*step->ret = *holding;
	wait_finish(&step->wait, status);
	free(step);
}

static void store_step_abandoned(struct wait *wait)
{
	struct store_step *step = container_of(wait, struct store_step, wait);

	redis_forget(&step->op.op);
	free(step);
}

static struct store_step *store_step_make(struct holding *ret)
{
	struct store_step *step = calloc(1, sizeof(*step));

	assert(step);
	step->op.done = store_step_done;
	step->ret = ret;
	return step;
}

static enum step store_step_await(struct store_step *step, struct call *call, call_then *then)
{
	return call_await(call, &step->wait, store_step_abandoned, then);
}

enum step store_try_acquire(struct store *store, struct call *call, const struct asker *asker,
			    struct holding *ret, call_then *then)
{
	struct store_step *step = store_step_make(ret);

	store_run_asker(store, &step->op, SCRIPT_ACQUIRE, asker, "try");
	return store_step_await(step, call, then);
}

enum step store_release(struct store *store, struct call *call, const char *name, int64_t token,
			struct holding *ret, call_then *then)
{
	struct store_step *step = store_step_make(ret);
	char text[24];
	const char *args[] = {text, NULL};

	snprintf(text, sizeof(text), "%" PRId64, token);
	store_run(store, &step->op, SCRIPT_RELEASE, name, args);
	return store_step_await(step, call, then);
}

enum step store_renew(struct store *store, struct call *call, const char *name, int64_t token,
		      int64_t lease_ms, struct holding *ret, call_then *then)
{
	struct store_step *step = store_step_make(ret);
	char text[24], lease[24];
	const char *args[] = {text, lease, NULL};

	snprintf(text, sizeof(text), "%" PRId64, token);
	snprintf(lease, sizeof(lease), "%" PRId64, lease_ms);
	store_run(store, &step->op, SCRIPT_RENEW, name, args);
	return store_step_await(step, call, then);
}

enum step store_get(struct store *store, struct call *call, const char *name, struct holding *ret,
		    call_then *then)
{
	struct store_step *step = store_step_make(ret);

	store_run(store, &step->op, SCRIPT_GET, name, NULL);
	return store_step_await(step, call, then);
}
