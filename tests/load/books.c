/* The audit. Three things are compared: the answers buyers hold, the orders in the order service,
 * and the stock in the inventory.
 *
 *     answers ──each RESERVED has its one order──► orders ──paid = sold, pending = reserved──►
 * stock
 */
#include "tests/load/books.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	if (json_is_integer(value))
		return json_integer_value(value);
	return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : 0;
}

static const char *text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "";
}

/* The last part of an enum's name, whose rest is `prefix`. */
static bool is(const json_t *object, const char *name, const char *prefix, const char *last)
{
	const char *value = text(object, name);
	size_t length = strlen(prefix);

	return !strncmp(value, prefix, length) && !strcmp(value + length, last);
}

static void figures_count(struct figures *figures, const json_t *count)
{
	const struct {
		const char *status;
		int64_t *orders, *units;
	} rows[] = {{"PENDING", &figures->pending, &figures->pending_units},
		    {"PAID", &figures->paid, &figures->paid_units},
		    {"CANCELLED", &figures->cancelled, &figures->cancelled_units}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (is(count, "status", "ORDER_STATUS_", rows[i].status)) {
			*rows[i].orders = number(count, "orders");
			*rows[i].units = number(count, "units");
		}
	}
}

static json_t *fetch(struct client *client, const char *path, int patience_ms)
{
	int status;
	json_t *answer = client_fetch(client, "GET", path, "", patience_ms, &status);

	if (!answer)
		fprintf(stderr, "stampede-load: GET %s: HTTP %d\n", path, status);
	return answer;
}

bool figures_read(struct client *client, const char *sale_id, int patience_ms,
		  struct figures *ret_figures)
{
	struct figures figures = {0};
	char path[160];
	json_t *answer, *count;
	const json_t *sale;
	size_t i;

	(void)snprintf(path, sizeof(path), "/v1/sales/%s/orders:summary", sale_id);
	answer = fetch(client, path, patience_ms);
	if (!answer)
		return false;
	json_array_foreach(json_object_get(answer, "counts"), i, count)
		figures_count(&figures, count);
	figures.user_units_max = number(answer, "unitsPerUserMax");
	json_decref(answer);
	answer = fetch(client, "/v1/backlog", patience_ms);
	if (!answer)
		return false;
	figures.backlog = number(answer, "records") + number(answer, "outbox");
	json_decref(answer);
	(void)snprintf(path, sizeof(path), "/v1/sales/%s", sale_id);
	answer = fetch(client, path, patience_ms);
	if (!answer)
		return false;
	sale = json_object_get(answer, "sale");
	figures.total = number(sale, "total");
	figures.available = number(sale, "available");
	figures.reserved = number(sale, "reserved");
	figures.sold = number(sale, "sold");
	json_decref(answer);
	*ret_figures = figures;
	return true;
}

bool figures_agree(const struct figures *figures)
{
	return figures->total == figures->available + figures->reserved + figures->sold &&
	       figures->available >= 0 && figures->reserved == figures->pending_units &&
	       figures->sold == figures->paid_units;
}

bool figures_settled(const struct figures *figures)
{
	return figures->pending == 0 && figures->reserved == 0 && figures->backlog == 0 &&
	       figures_agree(figures);
}

/* --- the audit ---------------------------------------------------------------------------------
 */

struct promise {
	const struct purchase *purchase;
	int orders; /* found for it */
};

struct holder {
	uint32_t buyer;
	int units;
};

struct audit {
	struct books *books;
	const struct buyers *buyers;
	struct promise *promises; /* by order id */
	size_t promises_count;
	struct holder *holders;
	size_t holders_count, holders_room;
};

__attribute__((format(printf, 3, 4))) static void wrong(struct audit *audit, int64_t *count,
							const char *format, ...)
{
	va_list arguments;

	(*count)++;
	if (*audit->books->first_error)
		return;
	va_start(arguments, format);
	(void)vsnprintf(audit->books->first_error, sizeof(audit->books->first_error), format,
			arguments);
	va_end(arguments);
}

static int promise_compare(const void *a, const void *b)
{
	return strcmp(((const struct promise *)a)->purchase->order_id,
		      ((const struct promise *)b)->purchase->order_id);
}

static int holder_compare(const void *a, const void *b)
{
	uint32_t left = ((const struct holder *)a)->buyer,
		 right = ((const struct holder *)b)->buyer;

	return (left > right) - (left < right);
}

static void promises_collect(struct audit *audit)
{
	const struct buyers *buyers = audit->buyers;

	audit->promises = calloc(buyers->purchases_count + 1, sizeof(*audit->promises));
	assert(audit->promises);
	for (size_t i = 0; i < buyers->purchases_count; i++)
		if (buyers->purchases[i].outcome == OUTCOME_RESERVED)
			audit->promises[audit->promises_count++].purchase = &buyers->purchases[i];
	qsort(audit->promises, audit->promises_count, sizeof(*audit->promises), promise_compare);
	for (size_t i = 1; i < audit->promises_count; i++)
		if (!promise_compare(&audit->promises[i - 1], &audit->promises[i]))
			wrong(audit, &audit->books->doubled, "two requests were given order %s",
			      audit->promises[i].purchase->order_id);
}

static void holder_add(struct audit *audit, uint32_t buyer, int units)
{
	if (audit->holders_count == audit->holders_room) {
		audit->holders_room = audit->holders_room ? audit->holders_room * 2 : 1024;
		audit->holders =
			realloc(audit->holders, audit->holders_room * sizeof(*audit->holders));
		assert(audit->holders);
	}
	audit->holders[audit->holders_count++] = (struct holder){buyer, units};
}

/* How the order ended must be what its buyer was told, if it was told. */
static void ending_check(struct audit *audit, const struct purchase *purchase, const json_t *order)
{
	bool paid = is(order, "status", "ORDER_STATUS_", "PAID");
	bool cancelled = is(order, "status", "ORDER_STATUS_", "CANCELLED");

	if ((purchase->ending == ENDING_PAID && !paid) ||
	    (purchase->ending == ENDING_CANCELLED && !cancelled) ||
	    (purchase->ending == ENDING_TOO_LATE && !cancelled))
		wrong(audit, &audit->books->lost, "order %s is %s, its buyer was told otherwise",
		      purchase->order_id, text(order, "status"));
}

static void order_check(struct audit *audit, const json_t *order)
{
	struct purchase key = {0};
	struct promise wanted = {.purchase = &key}, *promise;
	char user_id[32], request_id[32];
	const struct purchase *purchase;

	audit->books->orders++;
	(void)snprintf(key.order_id, sizeof(key.order_id), "%s", text(order, "orderId"));
	promise = bsearch(&wanted, audit->promises, audit->promises_count, sizeof(*audit->promises),
			  promise_compare);
	if (!promise) {
		wrong(audit, &audit->books->doubled, "order %s (request %s) was promised to nobody",
		      key.order_id, text(order, "requestId"));
		return;
	}
	purchase = promise->purchase;
	if (promise->orders++)
		wrong(audit, &audit->books->doubled, "order %s is there twice", key.order_id);
	purchase_user_id(purchase, user_id, sizeof(user_id));
	purchase_request_id(purchase, request_id, sizeof(request_id));
	if (strcmp(user_id, text(order, "userId")) ||
	    strcmp(request_id, text(order, "requestId")) ||
	    purchase->quantity != number(order, "quantity"))
		wrong(audit, &audit->books->lost, "order %s is not %s's %d by request %s",
		      key.order_id, user_id, purchase->quantity, request_id);
	ending_check(audit, purchase, order);
	if (!is(order, "status", "ORDER_STATUS_", "CANCELLED"))
		holder_add(audit, purchase->buyer, purchase->quantity);
}

static bool orders_check(struct audit *audit, struct client *client)
{
	char path[320], token[160] = "";

	do {
		json_t *answer, *order;
		size_t i;

		(void)snprintf(path, sizeof(path), "/v1/orders?sale_id=%s&page_size=500%s%s",
			       audit->buyers->options->sale_id, *token ? "&page_token=" : "",
			       token);
		answer = fetch(client, path, 10000);
		if (!answer)
			return false;
		json_array_foreach(json_object_get(answer, "orders"), i, order)
			order_check(audit, order);
		(void)snprintf(token, sizeof(token), "%s", text(answer, "nextPageToken"));
		json_decref(answer);
	} while (*token);
	return true;
}

static void limits_check(struct audit *audit)
{
	int limit = audit->buyers->options->limit;

	if (audit->holders_count == 0)
		return;
	qsort(audit->holders, audit->holders_count, sizeof(*audit->holders), holder_compare);
	for (size_t i = 0; i < audit->holders_count;) {
		uint32_t buyer = audit->holders[i].buyer;
		int units = 0;

		for (; i < audit->holders_count && audit->holders[i].buyer == buyer; i++)
			units += audit->holders[i].units;
		if (units > limit)
			wrong(audit, &audit->books->doubled,
			      "buyer-%u holds %d units of %d allowed", buyer, units, limit);
	}
}

bool books_audit(struct books *books, struct client *client, const struct buyers *buyers)
{
	struct audit audit = {.books = books, .buyers = buyers};
	int64_t held = books->figures.pending_units + books->figures.paid_units;
	bool read;

	promises_collect(&audit);
	read = orders_check(&audit, client);
	for (size_t i = 0; read && i < audit.promises_count; i++)
		if (!audit.promises[i].orders)
			wrong(&audit, &books->lost,
			      "order %s was promised to buyer-%u and is not there",
			      audit.promises[i].purchase->order_id,
			      audit.promises[i].purchase->buyer);
	limits_check(&audit);
	free(audit.promises);
	free(audit.holders);
	books->doubled += buyers->contradictions;
	if (held > books->figures.total)
		books->oversold = held - books->figures.total;
	if (books->figures.available < 0 && books->oversold < -books->figures.available)
		books->oversold = -books->figures.available;
	books->conserved = read && figures_agree(&books->figures);
	return read;
}

bool books_balance(const struct books *books, const struct buyers *buyers)
{
	return books->conserved && !books->oversold && !books->lost && !books->doubled &&
	       !buyers->answers[OUTCOME_REFUSED] && figures_settled(&books->figures);
}
