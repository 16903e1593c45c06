/* The scheduler's Redis: keys, scripts, the connection. See store.h and lua/.
 *
 *     step ──► script ──► heads to the engine ──► result to the call, if it still waits
 *
 * A script that was sent is never taken back: when its call has gone on, the heads still count.
 */
#include "services/scheduler/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/scheduler.h"

#define HEADS 6		    /* numbers at the start of each script's answer */
#define BYTES_MAX (3 << 20) /* of records handed out at once: below gRPC's 4 MiB */
#define LOST_MAX 200	    /* leases put back at once */
#define CHANNEL "scheduler:due"
#define QUEUES_KEY "scheduler:queues"

enum script { SCRIPT_PUBLISH, SCRIPT_TAKE, SCRIPT_SETTLE, SCRIPT_MOVE, SCRIPT_GET, SCRIPTS };

struct store {
	struct store_options options;
	struct redis *redis;
	struct redis_subscription subscription;
	struct redis_script scripts[SCRIPTS];
	struct redis_op list;
	bool listing;
};

/* --- making it ------------------------------------------------------------------------------- */

static void script_init(struct redis_script *script, const char *name, const unsigned char *source)
{
	char *text = NULL;
	int size = asprintf(&text, "%s%s", (const char *)scheduler_queue_lua, (const char *)source);

	assert(size > 0);
	*script = (struct redis_script){.name = name, .source = text};
}

static void store_connected(void *self, const char *run_id)
{
	struct store *store = self;

	(void)run_id;
	store->options.up(store->options.self, true);
	store->listing = false;
	store_list(store);
}

static void store_disconnected(void *self)
{
	struct store *store = self;

	store->options.up(store->options.self, false);
}

/* "<instance> <queue>.<shard>" */
static void store_message(struct redis_subscription *subscription, const char *channel,
			  const char *data, size_t size)
{
	struct store *store = container_of(subscription, struct store, subscription);
	const char *space = memchr(data, ' ', size);
	const char *dot = space ? memrchr(space, '.', size - (size_t)(space - data)) : NULL;
	size_t instance = strlen(store->options.instance);
	char name[QUEUE_NAME_MAX + 1];

	(void)channel;
	if (!dot || (size_t)(dot - space - 1) >= sizeof(name))
		return;
	if ((size_t)(space - data) == instance && !memcmp(data, store->options.instance, instance))
		return; /* our own: the script's answer said it */
	memcpy(name, space + 1, (size_t)(dot - space - 1));
	name[dot - space - 1] = '\0';
	if (queue_name_valid(name))
		store->options.noticed(store->options.self, name);
}

static void store_ready(struct redis_subscription *subscription)
{
	struct store *store = container_of(subscription, struct store, subscription);

	store->options.noticed(store->options.self, NULL);
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
	script_init(&store->scripts[SCRIPT_PUBLISH], "publish", scheduler_publish_lua);
	script_init(&store->scripts[SCRIPT_TAKE], "take", scheduler_take_lua);
	script_init(&store->scripts[SCRIPT_SETTLE], "settle", scheduler_settle_lua);
	script_init(&store->scripts[SCRIPT_MOVE], "move", scheduler_move_lua);
	script_init(&store->scripts[SCRIPT_GET], "get", scheduler_get_lua);
	store->redis = redis_create(loop, &redis);
	if (!store->redis) {
		store_destroy(store);
		return NULL;
	}
	store->subscription = (struct redis_subscription){
		.channel = CHANNEL, .message = store_message, .ready = store_ready};
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

void store_queue_init(struct store *store, struct store_queue *queue, const char *name)
{
	static const char *const names[STORE_KEYS] = {"jobs",	      "runs",	  "leases",
						      "dead",	      "sequence", "due:topic",
						      "due:callback", "due:pull"};

	*queue = (struct store_queue){.store = store};
	snprintf(queue->name, sizeof(queue->name), "%s", name);
	for (int i = 0; i < STORE_KEYS; i++)
		queue->keys_sizes[i] = (size_t)snprintf(queue->keys[i], sizeof(queue->keys[i]),
							"{q:%s.0}:%s", queue->name, names[i]);
	snprintf(queue->notice, sizeof(queue->notice), "%.64s %s.0", store->options.instance,
		 queue->name);
}

/* --- arguments and answers ------------------------------------------------------------------- */

struct args {
	struct arena *arena;
	const char **values;
	size_t *sizes;
	int count;
};

static void args_add(struct args *args, const char *value, size_t size)
{
	args->values[args->count] = value;
	args->sizes[args->count++] = size;
}

static void args_add_text(struct args *args, const char *text)
{
	args_add(args, text, strlen(text));
}

static void args_add_number(struct args *args, int64_t number)
{
	args_add_text(args, arena_printf(args->arena, "%" PRId64, number));
}

static struct args args_begin(const struct store_queue *queue, struct arena *arena, size_t more)
{
	struct args args = {.arena = arena};

	args.values = arena_alloc(arena, (STORE_KEYS + more) * sizeof(*args.values));
	args.sizes = arena_alloc(arena, (STORE_KEYS + more) * sizeof(*args.sizes));
	for (int i = 0; i < STORE_KEYS; i++)
		args_add(&args, queue->keys[i], queue->keys_sizes[i]);
	return args;
}

static void args_send(const struct args *args, struct store_queue *queue, struct redis_op *op,
		      enum script script)
{
	queue->users++;
	redis_send_script(queue->store->redis, op, &queue->store->scripts[script], STORE_KEYS,
			  (struct redis_args){args->count, args->values, args->sizes});
}

static int64_t reply_number(const redisReply *reply, size_t index)
{
	assert(index < reply->elements && reply->element[index]->type == REDIS_REPLY_INTEGER);
	return reply->element[index]->integer;
}

/* Tells the engine how the queue stands now; every script's answer comes through here. */
static enum status store_heard(struct store_queue *queue, enum status status,
			       const redisReply *reply)
{
	const struct store_options *options = &queue->store->options;
	struct heads heads;

	queue->users--;
	if (status == STATUS_OK && (reply->type != REDIS_REPLY_ARRAY || reply->elements < HEADS))
		status = STATUS_INTERNAL;
	if (status != STATUS_OK) {
		options->unsure(options->self, queue);
		/* Redis's time ran out, not the call's. */
		return status == STATUS_DEADLINE_EXCEEDED ? STATUS_UNAVAILABLE : status;
	}
	heads = (struct heads){
		.now_ms = reply_number(reply, 0),
		.due_ms = {reply_number(reply, 1), reply_number(reply, 2), reply_number(reply, 3)},
		.lease_ms = reply_number(reply, 4),
		.dead = reply_number(reply, 5)};
	options->heard(options->self, queue, &heads);
	return STATUS_OK;
}

/* --- as steps -------------------------------------------------------------------------------- */

typedef enum status store_decode(struct call *call, void *ret, const redisReply *reply);

/* A script on behalf of a call; it outlives the call if it must. */
struct store_run {
	struct redis_op op;
	struct wait wait;
	struct store_queue *queue;
	store_decode *decode;
	void *ret;
};

static void store_ran(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct store_run *run = container_of(op, struct store_run, op);

	status = store_heard(run->queue, status, reply);
	if (run->wait.call) {
		if (status == STATUS_OK)
			status = run->decode(run->wait.call, run->ret, reply);
		wait_finish(&run->wait, status);
	}
	free(run);
}

static enum step store_run(struct store_queue *queue, struct call *call, enum script script,
			   const struct args *args, store_decode *decode, void *ret,
			   call_then *then)
{
	struct store_run *run = calloc(1, sizeof(*run));

	assert(run);
	run->op.done = store_ran;
	run->queue = queue;
	run->decode = decode;
	run->ret = ret;
	args_send(args, queue, &run->op, script);
	return call_await(call, &run->wait, NULL, then);
}

static enum status store_remembered(struct call *call, const redisReply *reply)
{
	(void)call;
	(void)reply;
	return STATUS_OK;
}

enum step store_remember(struct store_queue *queue, struct call *call, call_then *then)
{
	const char *values[] = {"SADD", QUEUES_KEY, queue->name};
	const size_t sizes[] = {strlen(values[0]), strlen(values[1]), strlen(values[2])};

	return redis_command(queue->store->redis, call, (struct redis_args){3, values, sizes},
			     store_remembered, then);
}

static enum status published_read(struct call *call, void *ret, const redisReply *reply)
{
	struct published *published = ret;

	(void)call;
	published->due_ms = reply_number(reply, HEADS);
	published->conflict = reply_number(reply, HEADS + 1);
	return STATUS_OK;
}

enum step store_publish(struct store_queue *queue, struct call *call, const struct record *records,
			size_t count, struct published *ret, call_then *then)
{
	struct args args = args_begin(queue, call_arena(call), 1 + count * 4);

	assert(count && count <= JOBS_MAX);
	args_add_text(&args, queue->notice);
	for (size_t i = 0; i < count; i++) {
		args_add_text(&args, records[i].id);
		args_add(&args, &target_letters[records[i].target], 1);
		args_add_number(&args, records[i].asked_ms);
		args_add(&args, records[i].bytes, records[i].size);
	}
	return store_run(queue, call, SCRIPT_PUBLISH, &args, published_read, ret, then);
}

static enum status moved_read(struct call *call, void *ret, const redisReply *reply)
{
	struct moved *moved = ret;

	(void)call;
	moved->verdict = (int)reply_number(reply, HEADS);
	moved->lease_ms = reply_number(reply, HEADS + 1);
	return STATUS_OK;
}

enum step store_move(struct store_queue *queue, struct call *call, const char *id, int64_t due_ms,
		     struct moved *ret, call_then *then)
{
	struct args args = args_begin(queue, call_arena(call), 3);

	args_add_text(&args, queue->notice);
	args_add_text(&args, id);
	if (due_ms >= 0)
		args_add_number(&args, due_ms);
	else
		args_add_text(&args, "");
	return store_run(queue, call, SCRIPT_MOVE, &args, moved_read, ret, then);
}

struct get {
	struct store_queue *queue;
	const char *id;
	struct found *ret;
};

static enum status found_read(struct call *call, void *ret, const redisReply *reply)
{
	const struct get *get = ret;
	struct found found = {0};

	if (reply->elements > HEADS) {
		found.job = record_read(call_arena(call), get->queue->name, get->id,
					reply_number(reply, HEADS + 3), reply->element[HEADS]->str,
					reply->element[HEADS]->len);
		if (!found.job)
			return STATUS_DATA_LOSS;
		found.status = (int)reply_number(reply, HEADS + 1);
		found.tries = (int)reply_number(reply, HEADS + 2);
	}
	*get->ret = found;
	return STATUS_OK;
}

enum step store_get(struct store_queue *queue, struct call *call, const char *id, struct found *ret,
		    call_then *then)
{
	struct args args = args_begin(queue, call_arena(call), 1);
	struct get *get = arena_alloc(call_arena(call), sizeof(*get));

	*get = (struct get){queue, id, ret};
	args_add_text(&args, id);
	return store_run(queue, call, SCRIPT_GET, &args, found_read, get, then);
}

static enum status acknowledged_read(struct call *call, void *ret, const redisReply *reply)
{
	struct receipt *receipts = ret;

	(void)call;
	for (size_t i = 0; i + HEADS < reply->elements; i++)
		receipts[i].settled = reply_number(reply, HEADS + i) != SETTLED_LOST;
	return STATUS_OK;
}

enum step store_acknowledge(struct store_queue *queue, struct call *call, struct receipt *receipts,
			    size_t count, call_then *then)
{
	struct args args = args_begin(queue, call_arena(call), 1 + count * 4);

	assert(count && count <= JOBS_MAX);
	args_add_text(&args, queue->notice);
	for (size_t i = 0; i < count; i++) {
		args_add_text(&args, receipts[i].id);
		args_add_number(&args, receipts[i].delivery);
		args_add_text(&args, "done");
		args_add_text(&args, "0");
	}
	return store_run(queue, call, SCRIPT_SETTLE, &args, acknowledged_read, receipts, then);
}

/* --- for the engine -------------------------------------------------------------------------- */

static void store_taken(struct redis_op *op, enum status status, const redisReply *reply)
{
	enum { LEASES_END = HEADS, FIRST, ID = 0, RECORD, TRIES, NUMBER, DUE, PARTS };
	struct store_take *take = container_of(op, struct store_take, op);
	struct store_queue *queue = take->queue;
	struct arena arena;
	struct delivery *deliveries = NULL;
	size_t count = 0;

	arena_init(&arena, NULL, 0);
	if (status == STATUS_OK && reply->elements > FIRST) {
		count = (reply->elements - FIRST) / PARTS;
		deliveries = arena_alloc(&arena, count * sizeof(*deliveries));
		for (size_t i = 0; i < count; i++) {
			size_t at = FIRST + i * PARTS;

			deliveries[i] =
				(struct delivery){.id = reply->element[at + ID]->str,
						  .record = reply->element[at + RECORD]->str,
						  .record_size = reply->element[at + RECORD]->len,
						  .tries = (int)reply_number(reply, at + TRIES),
						  .number = reply_number(reply, at + NUMBER),
						  .due_ms = reply_number(reply, at + DUE)};
		}
	}
	if (status == STATUS_OK)
		take->leases_end_ms = reply_number(reply, LEASES_END);
	if (status == STATUS_DEADLINE_EXCEEDED)
		status = STATUS_UNAVAILABLE;
	/* First the deliveries, then the heads: these may start the next take. */
	take->done(take, status, deliveries, count);
	(void)store_heard(queue, status, reply);
	arena_reset(&arena);
}

void store_take(struct store_queue *queue, struct store_take *take, enum target target,
		size_t jobs_max, int64_t lease_ms)
{
	struct arena arena;
	struct args args;

	arena_init(&arena, NULL, 0);
	args = args_begin(queue, &arena, 6);
	take->op = (struct redis_op){.done = store_taken};
	take->queue = queue;
	args_add(&args, target < TARGETS ? &target_letters[target] : "-", 1);
	args_add_number(&args, (int64_t)jobs_max);
	args_add_number(&args, lease_ms);
	args_add_number(&args, BYTES_MAX);
	args_add_number(&args, LOST_MAX);
	args_add_text(&args, queue->notice);
	args_send(&args, queue, &take->op, SCRIPT_TAKE);
	arena_reset(&arena);
}

static void store_settled(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct store_settle *settle = container_of(op, struct store_settle, op);
	struct store_queue *queue = settle->queue;
	size_t i = HEADS;

	if (status == STATUS_OK) {
		for (struct settlement *at = settle->first; at; at = at->next)
			at->outcome = (unsigned)reply_number(reply, i++);
	}
	settle->done(settle, status);
	(void)store_heard(queue, status, reply);
}

void store_settle(struct store_queue *queue, struct store_settle *settle)
{
	static const char *const verdicts[] = {"done", "fail", "back"};
	struct arena arena;
	struct args args;

	arena_init(&arena, NULL, 0);
	args = args_begin(queue, &arena, 1 + JOBS_MAX * 4);
	settle->op = (struct redis_op){.done = store_settled};
	settle->queue = queue;
	args_add_text(&args, queue->notice);
	for (const struct settlement *at = settle->first; at; at = at->next) {
		args_add_text(&args, at->id);
		args_add_number(&args, at->number);
		args_add_text(&args, verdicts[at->verdict]);
		args_add_number(&args, at->delay_ms);
	}
	args_send(&args, queue, &settle->op, SCRIPT_SETTLE);
	arena_reset(&arena);
}

/* --- the set of queues ----------------------------------------------------------------------- */

static void store_listed(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct store *store = container_of(op, struct store, list);

	store->listing = false;
	if (status != STATUS_OK || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i < reply->elements; i++) {
		if (queue_name_valid(reply->element[i]->str))
			store->options.listed(store->options.self, reply->element[i]->str);
	}
}

void store_list(struct store *store)
{
	static const char *const values[] = {"SMEMBERS", QUEUES_KEY};
	static const size_t sizes[] = {sizeof("SMEMBERS") - 1, sizeof(QUEUES_KEY) - 1};

	if (store->listing)
		return;
	store->listing = true;
	store->list = (struct redis_op){.done = store_listed};
	redis_send(store->redis, &store->list, (struct redis_args){2, values, sizes});
}
