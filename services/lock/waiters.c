/* See waiters.h.
 *
 * Messages and answers come by two connections, so either may overtake the other. Fencing tokens
 * order what is known of a lock: a newer token replaces it, an older one is ignored; for the same
 * token the earlier end counts, and the check that it causes finds the truth.
 */
#include "services/lock/waiters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/metrics.h"

#define SLOTS 4096
#define RETRY_US (1000 * 1000)
#define STOP_US (1000 * 1000)

enum waiter_state {
	WAITER_ASKING,	 /* acquire.lua is under way */
	WAITER_IN_LINE,	 /* nothing is */
	WAITER_CLAIMING, /* claim.lua is */
	WAITER_LEAVING,	 /* the call has gone; leave.lua is under way, or must be sent */
};

/* One call's wait; it outlives the call until Redis knows that it has gone. */
struct waiter {
	struct waiters *waiters;
	struct watch *watch;
	struct waiter *next_by_id;
	struct waiter *next, **link; /* in the watch */
	struct wait wait;
	struct holding *ret;
	struct store_op op;
	bool op_busy;
	enum waiter_state state;
	bool answered_once; /* Redis has given it a place */
	bool granted;	    /* the message came while another answer was awaited */
	bool ask_again;	    /* so did a reason to ask again */
	struct asker asker; /* its strings stand behind */
	char text[];
};

/* A lock that calls of this instance wait for. */
struct watch {
	struct waiters *waiters;
	struct watch *next;
	struct waiter *first, **end;
	struct timer timer; /* the holder's lease ends */
	struct store_op op; /* check.lua */
	bool checking, check_again;
	bool unsettled; /* an operation failed: all ask again */
	int64_t token;	/* of the holder; 0: not known */
	int64_t until_us;
	char name[NAME_MAX_SIZE + 1];
};

struct waiters {
	struct loop *loop;
	struct store *store;
	uint64_t last_id;
	struct waiter *by_id[SLOTS];
	struct watch *watches[SLOTS];
	struct gauge *waiting;
	struct counter *handed_over, *left, *asked_again;
	struct timer stops;
	void (*stopped)(void *context);
	void *stopped_context;
};

static void waiter_ask(struct waiter *waiter);
static void waiter_claim(struct waiter *waiter);
static void waiter_leave(struct waiter *waiter);
static void watch_check(struct timer *timer);

struct waiters *waiters_create(struct loop *loop, struct store *store, struct metrics *metrics)
{
	struct waiters *waiters = calloc(1, sizeof(*waiters));

	assert(waiters);
	waiters->loop = loop;
	waiters->store = store;
	waiters->waiting = metrics_gauge(metrics, "stampede_lock_waiters",
					 "Calls that wait for a lock here.", NULL);
	waiters->handed_over = metrics_counter(metrics, "stampede_lock_handed_over_total",
					       "Waiting calls that got their lock.", NULL);
	waiters->left = metrics_counter(metrics, "stampede_lock_waits_left_total",
					"Waiting calls that went without it.", NULL);
	waiters->asked_again = metrics_counter(metrics, "stampede_lock_asked_again_total",
					       "Places in line asked for again.", NULL);
	return waiters;
}

/* --- the tables ------------------------------------------------------------------------------ */

static struct watch **watch_slot(struct waiters *waiters, const char *name)
{
	uint32_t hash = 2166136261; /* FNV-1a */

	for (const char *at = name; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619;
	return &waiters->watches[hash % SLOTS];
}

static struct watch *watch_find(struct waiters *waiters, const char *name)
{
	struct watch *watch = *watch_slot(waiters, name);

	while (watch && strcmp(watch->name, name))
		watch = watch->next;
	return watch;
}

static struct watch *watch_make(struct waiters *waiters, const char *name)
{
	struct watch *watch = watch_find(waiters, name), **slot = watch_slot(waiters, name);

	if (watch)
		return watch;
	watch = calloc(1, sizeof(*watch));
	assert(watch && strlen(name) <= NAME_MAX_SIZE);
	strcpy(watch->name, name);
	watch->waiters = waiters;
	watch->end = &watch->first;
	timer_init(&watch->timer, waiters->loop, watch_check);
	watch->next = *slot;
	*slot = watch;
	return watch;
}

static void watch_free_unused(struct watch *watch)
{
	struct watch **link = watch_slot(watch->waiters, watch->name);

	if (watch->first || watch->checking)
		return;
	while (*link != watch)
		link = &(*link)->next;
	*link = watch->next;
	timer_stop(&watch->timer);
	free(watch);
}

static struct waiter *waiter_find(struct waiters *waiters, uint64_t id)
{
	struct waiter *waiter = waiters->by_id[id % SLOTS];

	while (waiter && waiter->asker.waiter != id)
		waiter = waiter->next_by_id;
	return waiter;
}

static struct waiter *waiter_make(struct waiters *waiters, const struct asker *asker)
{
	size_t name = strlen(asker->name) + 1, owner = strlen(asker->owner) + 1,
	       request = strlen(asker->request_id) + 1;
	struct waiter *waiter = calloc(1, sizeof(*waiter) + name + owner + request), **slot;

	assert(waiter);
	waiter->waiters = waiters;
	waiter->asker = *asker;
	waiter->asker.name = memcpy(waiter->text, asker->name, name);
	waiter->asker.owner = memcpy(waiter->text + name, asker->owner, owner);
	waiter->asker.request_id = memcpy(waiter->text + name + owner, asker->request_id, request);
	waiter->asker.waiter = ++waiters->last_id;
	slot = &waiters->by_id[waiter->asker.waiter % SLOTS];
	waiter->next_by_id = *slot;
	*slot = waiter;
	waiter->watch = watch_make(waiters, asker->name);
	waiter->link = waiter->watch->end;
	*waiter->watch->end = waiter;
	waiter->watch->end = &waiter->next;
	waiters->waiting->value++;
	return waiter;
}

static void waiter_free(struct waiter *waiter)
{
	struct waiters *waiters = waiter->waiters;
	struct waiter **slot = &waiters->by_id[waiter->asker.waiter % SLOTS];

	assert(!waiter->op_busy && !waiter->wait.call);
	while (*slot != waiter)
		slot = &(*slot)->next_by_id;
	*slot = waiter->next_by_id;
	*waiter->link = waiter->next;
	if (waiter->next)
		waiter->next->link = waiter->link;
	else
		waiter->watch->end = waiter->link;
	if (!--waiters->waiting->value && waiters->stopped)
		timer_start_us(&waiters->stops, 0);
	watch_free_unused(waiter->watch);
	free(waiter);
}

/* --- the end of the holder's lease ----------------------------------------------------------- */

static void watch_until(struct watch *watch, int64_t token, int64_t left_ms)
{
	watch->token = token;
	watch->until_us = loop_now_us(watch->waiters->loop) + left_ms * 1000;
	/* 1 ms more: Redis counts in whole ones, and too early is for nothing. */
	timer_start_us(&watch->timer, (left_ms + 1) * 1000);
}

static void watch_learn(struct watch *watch, int64_t token, int64_t left_ms)
{
	int64_t until_us = loop_now_us(watch->waiters->loop) + left_ms * 1000;

	if (token > watch->token || (token == watch->token && until_us < watch->until_us))
		watch_until(watch, token, left_ms);
}

/* Redis did not answer one of us. If the connection is lost its return is the signal; if not, this.
 */
static void watch_retry(struct watch *watch)
{
	watch->unsettled = true;
	watch->token = 0;
	timer_start_us(&watch->timer, RETRY_US);
}

static void watch_ask_again(struct watch *watch)
{
	struct waiter *next;

	watch->unsettled = false;

	for (struct waiter *waiter = watch->first; waiter; waiter = next) {
		next = waiter->next;
		if (waiter->state == WAITER_IN_LINE)
			waiter_ask(waiter);
		else if (waiter->state == WAITER_LEAVING && !waiter->op_busy)
			waiter_leave(waiter);
		else
			waiter->ask_again = true;
	}
}

static void watch_checked(struct store_op *op, enum status status, const struct holding *holding)
{
	struct watch *watch = container_of(op, struct watch, op);
	bool again = watch->check_again;

	watch->checking = watch->check_again = false;
	if (!watch->first) {
		watch_free_unused(watch);
		return;
	}
	if (status != STATUS_OK)
		watch_retry(watch);
	else if (again)
		watch_check(&watch->timer);
	else if (!holding->yes)
		watch_ask_again(watch); /* free, yet we wait: Redis has forgotten us */
	else if (holding->token >= watch->token)
		watch_until(watch, holding->token, holding->left_ms);
}

static void watch_check(struct timer *timer)
{
	struct watch *watch = container_of(timer, struct watch, timer);

	if (watch->unsettled)
		watch_ask_again(watch);
	if (watch->checking)
		return;
	watch->checking = true;
	watch->op.done = watch_checked;
	store_check(watch->waiters->store, &watch->op, watch->name);
}

/* --- one waiter ------------------------------------------------------------------------------ */

static void waiter_finish(struct waiter *waiter, enum status status, const struct holding *holding)
{
	if (status == STATUS_OK) {
		*waiter->ret = *holding;
		if (waiter->answered_once)
			waiter->waiters->handed_over->value++;
	}
	wait_finish(&waiter->wait, status);
	waiter_free(waiter);
}

static void waiter_asked(struct store_op *op, enum status status, const struct holding *holding)
{
	struct waiter *waiter = container_of(op, struct waiter, op);
	bool ask_again = waiter->ask_again;

	waiter->op_busy = waiter->ask_again = false;
	if (waiter->state == WAITER_LEAVING) {
		waiter_leave(waiter);
		return;
	}
	waiter->state = WAITER_IN_LINE;
	if (status != STATUS_OK && !waiter->answered_once) {
		waiter_finish(waiter, status, NULL);
	} else if (status == STATUS_OK && holding->yes) {
		waiter_finish(waiter, STATUS_OK, holding);
	} else if (status == STATUS_OK) {
		waiter->answered_once = true;
		watch_learn(waiter->watch, holding->token, holding->left_ms);
		if (waiter->granted)
			waiter_claim(waiter);
		else if (ask_again)
			waiter_ask(waiter);
	} else {
		watch_retry(waiter->watch);
	}
}

static void waiter_ask(struct waiter *waiter)
{
	if (waiter->answered_once)
		waiter->waiters->asked_again->value++;
	waiter->state = WAITER_ASKING;
	waiter->granted = false;
	waiter->op_busy = true;
	waiter->op.done = waiter_asked;
	store_acquire(waiter->waiters->store, &waiter->op, &waiter->asker);
}

static void waiter_claimed(struct store_op *op, enum status status, const struct holding *holding)
{
	struct waiter *waiter = container_of(op, struct waiter, op);
	bool ask_again = waiter->ask_again;

	waiter->op_busy = waiter->ask_again = false;
	if (waiter->state == WAITER_LEAVING) {
		waiter_leave(waiter);
		return;
	}
	waiter->state = WAITER_IN_LINE;
	if (status == STATUS_OK && holding->yes)
		waiter_finish(waiter, STATUS_OK, holding);
	else if (status == STATUS_OK || ask_again)
		waiter_ask(waiter); /* too late: to the end of the line */
	else
		watch_retry(waiter->watch);
}

static void waiter_claim(struct waiter *waiter)
{
	waiter->state = WAITER_CLAIMING;
	waiter->granted = false;
	waiter->op_busy = true;
	waiter->op.done = waiter_claimed;
	store_claim(waiter->waiters->store, &waiter->op, &waiter->asker);
}

static void waiter_left(struct store_op *op, enum status status, const struct holding *holding)
{
	struct waiter *waiter = container_of(op, struct waiter, op);

	(void)holding;
	waiter->op_busy = false;
	if (status == STATUS_OK)
		waiter_free(waiter);
	else if (waiter->ask_again)
		waiter_leave(waiter);
	else
		watch_retry(waiter->watch);
}

static void waiter_leave(struct waiter *waiter)
{
	waiter->state = WAITER_LEAVING;
	waiter->ask_again = false;
	waiter->op_busy = true;
	waiter->op.done = waiter_left;
	store_leave(waiter->waiters->store, &waiter->op, &waiter->asker);
}

static void waiter_abandoned(struct wait *wait)
{
	struct waiter *waiter = container_of(wait, struct waiter, wait);

	waiter->waiters->left->value++;
	waiter->state = WAITER_LEAVING;
	if (!waiter->op_busy)
		waiter_leave(waiter);
}

enum step waiters_acquire(struct waiters *waiters, struct call *call, const struct asker *asker,
			  struct holding *ret, call_then *then)
{
	struct waiter *waiter = waiter_make(waiters, asker);

	waiter->ret = ret;
	waiter_ask(waiter);
	return call_await(call, &waiter->wait, waiter_abandoned, then);
}

/* --- what the store reports ------------------------------------------------------------------ */

static void stray_left(struct store_op *op, enum status status, const struct holding *holding)
{
	(void)status; /* if it was not told, the hand-over is not claimed in time */
	(void)holding;
	free(op);
}

/* A call that was answered UNAVAILABLE may be in the line all the same: Redis was slow, or its
 * answer was lost. */
static void waiters_decline(struct waiters *waiters, const char *name, uint64_t id)
{
	struct store_op *op = calloc(1, sizeof(*op));
	struct asker asker = {.name = name, .owner = "", .request_id = "", .waiter = id};

	assert(op);
	op->done = stray_left;
	store_leave(waiters->store, op, &asker);
}

void waiters_granted(struct waiters *waiters, const char *name, uint64_t id)
{
	struct waiter *waiter = waiter_find(waiters, id);

	if (!waiter) {
		waiters_decline(waiters, name, id);
		return;
	}
	/* One that is leaving gives back what it was given. */
	if (waiter->state == WAITER_LEAVING || waiter->state == WAITER_CLAIMING)
		return;
	if (waiter->state == WAITER_ASKING)
		waiter->granted = true;
	else
		waiter_claim(waiter);
}

void waiters_replaced(struct waiters *waiters, uint64_t id)
{
	struct waiter *waiter = waiter_find(waiters, id);

	if (!waiter || waiter->state == WAITER_LEAVING)
		return;
	if (waiter->op_busy) {
		/* Its answer is on the way. Were it asked again it would take the place back. */
		redis_forget(&waiter->op.op);
		waiter->op_busy = false;
	}
	waiter_finish(waiter, STATUS_ABORTED, NULL);
}

void waiters_watch(struct waiters *waiters, const char *name, int64_t token, int64_t left_ms)
{
	struct watch *watch = watch_find(waiters, name);

	if (!watch)
		return;
	watch->check_again = watch->checking;
	watch_learn(watch, token, left_ms);
}

void waiters_dropped(struct waiters *waiters, const char *name)
{
	struct watch *watch = watch_find(waiters, name);

	log_event(LOG_WARN, "waiters_dropped", log_text("lock", name));
	if (watch)
		watch_ask_again(watch);
}

void waiters_ask_again(struct waiters *waiters)
{
	for (int i = 0; i < SLOTS; i++) {
		struct watch *next;

		for (struct watch *watch = waiters->watches[i]; watch; watch = next) {
			next = watch->next;
			watch->token = 0; /* Redis may have forgotten it */
			watch_ask_again(watch);
		}
	}
}

static void waiters_end(struct timer *timer)
{
	struct waiters *waiters = container_of(timer, struct waiters, stops);

	waiters->stopped(waiters->stopped_context);
}

void waiters_stop(struct waiters *waiters, void (*stopped)(void *context), void *context)
{
	waiters->stopped = stopped;
	waiters->stopped_context = context;
	timer_init(&waiters->stops, waiters->loop, waiters_end);
	timer_start_us(&waiters->stops, waiters->waiting->value ? STOP_US : 0);
}

/* Calls have all been answered; what is left is leaving, and Redis is gone. */
void waiters_destroy(struct waiters *waiters)
{
	if (!waiters)
		return;
	timer_stop(&waiters->stops);
	waiters->stopped = NULL;
	for (int i = 0; i < SLOTS; i++) {
		struct watch *watch;

		while ((watch = waiters->watches[i])) {
			struct waiter *waiter;

			watch->checking = true; /* not to be freed with its last waiter */
			while ((waiter = watch->first))
				waiter_free(waiter);
			watch->checking = false;
			watch_free_unused(watch);
		}
	}
	free(waiters);
}
