/* What buyers do.
 *
 *     arrive ─► reserve ─► answered ─► pay, cancel, or let it expire
 *                  └─ again, same request id (repeaters); again, new ones (greedy)
 *
 * A request without a definite answer (none, 429, 5xx) is sent again under the same request id, as
 * every client should, until the patience ends; then it counts as refused.
 */
#include "tests/load/buyers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* RETURN_FIRST: the number of a buyer's first purchase in the second wave. */
enum { CLICKS_MAX = 3, RETURNS_MAX = 5, RETURN_FIRST = 100 };

const char *const outcome_names[OUTCOMES] = {"none",	 "reserved", "sold out", "limit reached",
					     "not open", "paused",   "ended",	 "refused"};
static const char *const outcome_tokens[OUTCOMES] = {[OUTCOME_RESERVED] = "OUTCOME_RESERVED",
						     [OUTCOME_SOLD_OUT] = "OUTCOME_SOLD_OUT",
						     [OUTCOME_LIMIT_REACHED] =
							     "OUTCOME_LIMIT_REACHED",
						     [OUTCOME_NOT_OPEN] = "OUTCOME_NOT_OPEN",
						     [OUTCOME_PAUSED] = "OUTCOME_PAUSED",
						     [OUTCOME_ENDED] = "OUTCOME_ENDED"};

/* A request under way or waiting for its time. */
struct task {
	struct client_request request; /* first: the request is the task */
	uv_timer_t timer;
	struct buyers *buyers;
	size_t purchase;      /* its index: the array grows */
	bool click;	      /* asks to reserve, as a repeat */
	bool answered_before; /* the purchase had RESERVED when this was sent */
	int tries, clicks_left;
	uint64_t give_up_ns;
};

static void reserve(struct buyers *buyers, size_t purchase, int clicks, bool click, int delay_ms);
static void settle(struct buyers *buyers, size_t purchase);

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* Of a hundred, the same for the same buyer, purpose and seed. */
static int dice(const struct buyers *buyers, uint64_t who, uint64_t purpose)
{
	return (int)(mix(mix(buyers->options->seed * 1000003 + purpose) ^ who) % 100);
}

void purchase_request_id(const struct purchase *purchase, char *ret_text, size_t size)
{
	(void)snprintf(ret_text, size, "r-%u-%u", purchase->buyer, purchase->number);
}

void purchase_user_id(const struct purchase *purchase, char *ret_text, size_t size)
{
	(void)snprintf(ret_text, size, "buyer-%u", purchase->buyer);
}

/* --- tasks -------------------------------------------------------------------------------------
 */

static void task_freed(uv_handle_t *handle)
{
	free(handle->data);
}

static void task_end(struct task *task)
{
	task->buyers->open--;
	uv_close((uv_handle_t *)&task->timer, task_freed);
}

static struct task *task_create(struct buyers *buyers, size_t purchase, client_done *done)
{
	struct task *task = calloc(1, sizeof(*task));

	assert(task);
	task->buyers = buyers;
	task->purchase = purchase;
	task->request.method = "POST";
	task->request.done = done;
	task->give_up_ns = uv_hrtime() + (uint64_t)buyers->options->patience_s * 1000000000;
	uv_timer_init(buyers->loop, &task->timer);
	task->timer.data = task;
	buyers->open++;
	return task;
}

static void task_due(uv_timer_t *timer)
{
	struct task *task = timer->data;

	task->answered_before = task->buyers->purchases[task->purchase].outcome == OUTCOME_RESERVED;
	client_send(task->buyers->client, &task->request);
}

static void task_start(struct task *task, int delay_ms)
{
	if (delay_ms)
		uv_timer_start(&task->timer, task_due, (uint64_t)delay_ms, 0);
	else
		task_due(&task->timer);
}

/* Sends it again a little later; false when the patience has ended. */
static bool task_again(struct task *task)
{
	int delay_ms = 20 << (task->tries < 5 ? task->tries : 5);

	if (uv_hrtime() > task->give_up_ns)
		return false;
	task->tries++;
	task_start(task, delay_ms);
	return true;
}

static bool definite(int status)
{
	return status && status != 429 && status < 500;
}

static void refused(struct buyers *buyers, int status, const char *body)
{
	buyers->answers[OUTCOME_REFUSED]++;
	if (!*buyers->refusal)
		(void)snprintf(buyers->refusal, sizeof(buyers->refusal), "HTTP %d: %s", status,
			       status ? body : "no answer");
}

/* --- reserving ---------------------------------------------------------------------------------
 */

static void latency_record(struct buyers *buyers, uint64_t since_ns)
{
	if (buyers->latencies_count == buyers->latencies_room) {
		size_t room = buyers->latencies_room ? buyers->latencies_room * 2 : 65536;
		uint32_t *latencies = realloc(buyers->latencies_us, room * sizeof(*latencies));

		assert(latencies);
		buyers->latencies_us = latencies;
		buyers->latencies_room = room;
	}
	buyers->latencies_us[buyers->latencies_count++] =
		(uint32_t)((uv_hrtime() - since_ns) / 1000);
}

static enum outcome outcome_read(const char *body, size_t size, char *ret_order_id, size_t room,
				 bool *ret_repeated)
{
	json_t *answer = json_loadb(body, size, 0, NULL);
	const char *token = json_string_value(json_object_get(answer, "outcome"));
	const char *order_id = json_string_value(json_object_get(answer, "orderId"));
	enum outcome outcome = OUTCOME_REFUSED;

	for (enum outcome o = OUTCOME_RESERVED; token && o <= OUTCOME_ENDED; o++)
		if (!strcmp(token, outcome_tokens[o]))
			outcome = o;
	(void)snprintf(ret_order_id, room, "%s", order_id ? order_id : "");
	*ret_repeated = json_is_true(json_object_get(answer, "repeatedAnswer"));
	json_decref(answer);
	return outcome;
}

static void contradicted(struct buyers *buyers, const struct purchase *purchase,
			 enum outcome outcome, const char *order_id)
{
	if (buyers->contradictions++)
		return;
	(void)snprintf(buyers->contradiction, sizeof(buyers->contradiction),
		       "request r-%u-%u: first '%s' order '%s', then '%s' order '%s'",
		       purchase->buyer, purchase->number, outcome_names[purchase->outcome],
		       purchase->order_id, outcome_names[outcome], order_id);
}

static void went_without(struct buyers *buyers, const struct purchase *purchase)
{
	if (buyers->second_wave || buyers->is_without[purchase->buyer])
		return;
	buyers->is_without[purchase->buyer] = true;
	buyers->went_without[buyers->went_without_count++] = purchase->buyer;
}

static void reserve_answered(struct client_request *request, int status, const char *body,
			     size_t size)
{
	struct task *task = (struct task *)request;
	struct buyers *buyers = task->buyers;
	struct purchase *purchase = &buyers->purchases[task->purchase];
	char order_id[sizeof(purchase->order_id)];
	enum outcome outcome, before = purchase->outcome;
	bool repeated;

	if (!definite(status)) {
		buyers->retries++;
		if (!task_again(task)) {
			refused(buyers, status, body);
			task_end(task);
		}
		return;
	}
	latency_record(buyers, request->sent_ns);
	outcome = status == 200 ? outcome_read(body, size, order_id, sizeof(order_id), &repeated)
				: OUTCOME_REFUSED;
	if (outcome == OUTCOME_REFUSED) {
		refused(buyers, status, body);
	} else {
		buyers->answers[outcome]++;
		buyers->repeats += repeated;
	}
	if (outcome == OUTCOME_RESERVED && before == OUTCOME_RESERVED) {
		if (strcmp(order_id, purchase->order_id))
			contradicted(buyers, purchase, outcome, order_id);
	} else if (before == OUTCOME_RESERVED) {
		if (task->answered_before)
			contradicted(buyers, purchase, outcome, order_id);
	} else {
		purchase->outcome = outcome;
		if (outcome == OUTCOME_RESERVED) {
			memcpy(purchase->order_id, order_id, sizeof(order_id));
			settle(buyers, task->purchase);
		} else if (outcome == OUTCOME_SOLD_OUT && !task->click) {
			went_without(buyers, purchase);
		}
	}
	/* The stock had come back, but not yet to everybody's knowledge: a new try. */
	if (buyers->second_wave && outcome == OUTCOME_SOLD_OUT && !task->click &&
	    purchase->number < RETURN_FIRST + RETURNS_MAX) {
		struct purchase next = *purchase;

		next.number++;
		next.outcome = OUTCOME_NONE;
		buyers->purchases[buyers->purchases_count] = next;
		reserve(buyers, buyers->purchases_count++, 0, false, 200);
	}
	if (task->clicks_left)
		reserve(buyers, task->purchase, task->clicks_left - 1, true, 5);
	task_end(task);
}

static void reserve(struct buyers *buyers, size_t index, int clicks, bool click, int delay_ms)
{
	struct task *task = task_create(buyers, index, reserve_answered);
	const struct purchase *purchase = &buyers->purchases[index];
	char user_id[32], request_id[32];

	purchase_user_id(purchase, user_id, sizeof(user_id));
	purchase_request_id(purchase, request_id, sizeof(request_id));
	task->click = click;
	task->clicks_left = clicks;
	(void)snprintf(task->request.path, sizeof(task->request.path), "/v1/sales/%s/reservations",
		       buyers->options->sale_id);
	(void)snprintf(task->request.body, sizeof(task->request.body),
		       "{\"userId\":\"%s\",\"quantity\":%d,\"requestId\":\"%s\"}", user_id,
		       purchase->quantity, request_id);
	task_start(task, delay_ms);
}

/* --- afterwards --------------------------------------------------------------------------------
 */

static void settle_answered(struct client_request *request, int status, const char *body,
			    size_t size)
{
	struct task *task = (struct task *)request;
	struct buyers *buyers = task->buyers;
	struct purchase *purchase = &buyers->purchases[task->purchase];

	(void)size;
	if (status == 200) {
		purchase->ending = purchase->fate == FATE_PAYS ? ENDING_PAID : ENDING_CANCELLED;
	} else if (!definite(status) || status == 404) {
		/* 404: the order is still on its way. */
		buyers->retries += status != 404;
		if (task_again(task))
			return;
		refused(buyers, status, body);
	} else if (strstr(body, "CANCELLED") || strstr(body, "cancelled")) {
		purchase->ending = ENDING_TOO_LATE;
	} else {
		refused(buyers, status, body);
	}
	task_end(task);
}

/* The buyer got units and does with them what it does. */
static void settle(struct buyers *buyers, size_t index)
{
	struct purchase *purchase = &buyers->purchases[index];
	uint64_t who = (uint64_t)purchase->buyer * 64 + purchase->number;
	int chance = dice(buyers, who, 3);
	struct task *task;

	if (buyers->second_wave || chance >= buyers->options->never_pay + buyers->options->cancel)
		purchase->fate = FATE_PAYS;
	else
		purchase->fate =
			chance < buyers->options->never_pay ? FATE_NEVER_PAYS : FATE_CANCELS;
	if (purchase->fate == FATE_NEVER_PAYS)
		return;
	task = task_create(buyers, index, settle_answered);
	(void)snprintf(task->request.path, sizeof(task->request.path), "/v1/orders/%s:%s",
		       purchase->order_id, purchase->fate == FATE_PAYS ? "pay" : "cancel");
	(void)snprintf(task->request.body, sizeof(task->request.body), "%s",
		       purchase->fate == FATE_PAYS ? "{\"paymentReference\":\"demo\"}" : "{}");
	task_start(task, 50 + dice(buyers, who, 4) * 5);
}

/* --- arriving ----------------------------------------------------------------------------------
 */

static void purchase_add(struct buyers *buyers, uint32_t buyer, uint32_t number, int quantity,
			 int clicks)
{
	/* Room was made for all purchases there can be: indexes and tasks stay simple. */
	assert(buyers->purchases_count < buyers->purchases_room);
	buyers->purchases[buyers->purchases_count] =
		(struct purchase){.buyer = buyer, .number = number, .quantity = quantity};
	reserve(buyers, buyers->purchases_count++, clicks, false, 0);
}

static void buyer_arrive(struct buyers *buyers, uint32_t buyer)
{
	int kind = dice(buyers, buyer, 1);
	int limit = buyers->options->limit;

	if (kind < 10) { /* wants more than it may, one by one, at once */
		for (uint32_t number = 0; number <= (uint32_t)(limit < 4 ? limit : 4); number++)
			purchase_add(buyers, buyer, number, 1, 0);
	} else if (kind < 13) { /* wants more than it may in one request */
		purchase_add(buyers, buyer, 0, limit + 1, 0);
	} else if (kind < 30) { /* clicks again and again: at once, and when answered */
		purchase_add(buyers, buyer, 0, 1, dice(buyers, buyer, 2) % CLICKS_MAX);
		reserve(buyers, buyers->purchases_count - 1, 0, true, 0);
	} else {
		purchase_add(buyers, buyer, 0, kind < 50 ? 1 + dice(buyers, buyer, 2) % limit : 1,
			     0);
	}
}

void buyers_arrive(struct buyers *buyers)
{
	uint32_t all = (uint32_t)buyers->options->buyers, due = all;

	if (buyers->second_wave)
		return;
	if (buyers->options->seconds) {
		uint64_t ms = (uv_hrtime() - buyers->started_ns) / 1000000;
		uint64_t whole = (uint64_t)buyers->options->seconds * 1000;

		due = ms >= whole ? all : (uint32_t)(ms * all / whole);
	}
	while (buyers->started < due &&
	       (buyers->options->seconds ||
		client_waiting(buyers->client) < (size_t)buyers->options->connections))
		buyer_arrive(buyers, buyers->started++);
}

bool buyers_done(const struct buyers *buyers)
{
	return buyers->open == 0 &&
	       (buyers->second_wave || buyers->started == (uint32_t)buyers->options->buyers);
}

void buyers_return(struct buyers *buyers, int64_t units)
{
	uint32_t count = buyers->went_without_count;

	buyers->second_wave = true;
	if (count > units * 2)
		count = (uint32_t)(units * 2);
	for (uint32_t i = 0; i < count; i++)
		purchase_add(buyers, buyers->went_without[i], RETURN_FIRST, 1, 0);
}

struct buyers *buyers_create(struct client *client, uv_loop_t *loop, const struct options *options)
{
	struct buyers *buyers = calloc(1, sizeof(*buyers));
	size_t count = (size_t)options->buyers;

	assert(buyers);
	buyers->client = client;
	buyers->loop = loop;
	buyers->options = options;
	/* At most five purchases a buyer in the first wave, and RETURNS_MAX + 1 in the second. */
	buyers->purchases_room = count * (5 + RETURNS_MAX + 1);
	buyers->purchases = calloc(buyers->purchases_room, sizeof(*buyers->purchases));
	buyers->went_without = calloc(count, sizeof(*buyers->went_without));
	buyers->is_without = calloc(count, sizeof(*buyers->is_without));
	assert(buyers->purchases && buyers->went_without && buyers->is_without);
	buyers->started_ns = uv_hrtime();
	return buyers;
}

void buyers_destroy(struct buyers *buyers)
{
	free(buyers->purchases);
	free(buyers->went_without);
	free(buyers->is_without);
	free(buyers->latencies_us);
	free(buyers);
}
