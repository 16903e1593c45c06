/* stampede-load: a whole sale from the buyers' side, and the audit afterwards.
 *
 *     create the sale ─► buyers arrive ─► wait for unpaid orders to be cancelled ─► units that came
 * back are offered again ─► wait ─► audit ─► table
 *
 * It knows the services by HTTP only, as any client would. Exit code 0: the books balance; 1: they
 * do not, or the stack could not be reached; 2: wrong options.
 */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/load/report.h"

static void tick(uv_timer_t *timer)
{
	(void)timer; /* it only makes the loop turn */
}

static bool sale_create(struct client *client, const struct options *options)
{
	char body[512];
	json_t *answer;
	int status;

	(void)snprintf(body, sizeof(body),
		       "{\"saleId\":\"%s\",\"title\":\"%d units, %d buyers\",\"total\":\"%d\","
		       "\"perUserLimit\":%d,\"paymentTimeout\":\"%ds\",\"open\":true,"
		       "\"unitPrice\":{\"amountMinor\":\"1999\",\"currency\":\"EUR\"}}",
		       options->sale_id, options->units, options->buyers, options->units,
		       options->limit, options->pay_within_s);
	answer = client_fetch(client, "POST", "/v1/sales", body, options->patience_s * 1000,
			      &status);
	if (!answer) {
		fprintf(stderr,
			"stampede-load: the sale could not be created: %s answered HTTP %d\n",
			options->url, status);
		return false;
	}
	json_decref(answer);
	return true;
}

/* Runs the loop until every buyer has done what it wanted. */
static double buying_run(uv_loop_t *loop, struct buyers *buyers, const char *phase)
{
	uint64_t since = uv_hrtime();

	while (!buyers_done(buyers)) {
		buyers_arrive(buyers);
		uv_run(loop, UV_RUN_ONCE);
		report_progress(phase, buyers);
	}
	report_phase_done();
	return (double)(uv_hrtime() - since) / 1e9;
}

/* Waits until nothing is pending or reserved any more; false when that does not happen in time. */
static bool settle_wait(struct client *client, const struct options *options,
			struct figures *figures)
{
	uint64_t now = uv_hrtime();
	uint64_t give_up =
		now + (uint64_t)(options->pay_within_s + options->patience_s) * 1000000000;
	uint64_t shown = now;

	fprintf(stderr, "Waiting for unpaid orders to be cancelled and their units to return\n");
	for (;;) {
		if (!figures_read(client, options->sale_id, options->patience_s * 1000, figures))
			return false;
		if (figures_settled(figures))
			return true;
		now = uv_hrtime();
		if (now > give_up)
			break;
		if (now - shown > 1000000000) {
			fprintf(stderr,
				"  %" PRId64 " pending, %" PRId64
				" units reserved, backlog %" PRId64 "\n",
				figures->pending, figures->reserved, figures->backlog);
			shown = now;
		}
		uv_sleep(50);
	}
	fprintf(stderr,
		"stampede-load: not settled in time: %" PRId64 " pending (%" PRId64
		" units), %" PRId64 " reserved, %" PRId64 " sold, %" PRId64
		" paid units, backlog %" PRId64 "\n",
		figures->pending, figures->pending_units, figures->reserved, figures->sold,
		figures->paid_units, figures->backlog);
	return false;
}

static bool sale_run(uv_loop_t *loop, struct client *client, const struct options *options,
		     struct buyers *buyers, struct report *report, struct books *books)
{
	bool settled;

	report->buying_s = buying_run(loop, buyers, "buying");
	settled = settle_wait(client, options, &books->figures);
	if (settled && options->second_chance && books->figures.available &&
	    buyers->went_without_count) {
		fprintf(stderr, "%" PRId64 " units came back; some who went without try again\n",
			books->figures.available);
		buyers_return(buyers, books->figures.available);
		(void)buying_run(loop, buyers, "second chance");
		settled = settle_wait(client, options, &books->figures);
	}
	return books_audit(books, client, buyers) && settled;
}

int main(int argc, char **argv)
{
	const struct options options = options_read(argc, argv);
	uv_loop_t *loop = uv_default_loop();
	struct books books = {0};
	struct report report = {.options = &options, .books = &books};
	struct buyers *buyers;
	struct client *client;
	uv_timer_t timer;

	(void)signal(SIGPIPE, SIG_IGN);
	client = client_create(loop, options.url, options.connections, 5000);
	if (!client)
		return 1;
	uv_timer_init(loop, &timer);
	if (!sale_create(client, &options))
		return 1;
	buyers = buyers_create(client, loop, &options);
	report.buyers = buyers;
	uv_timer_start(&timer, tick, 10, 10);
	report.balanced = sale_run(loop, client, &options, buyers, &report, &books) &&
			  books_balance(&books, buyers);
	report_table(&report);
	if (options.json)
		report_json(&report);
	uv_close((uv_handle_t *)&timer, NULL);
	client_destroy(client);
	buyers_destroy(buyers);
	return report.balanced ? 0 : 1;
}
