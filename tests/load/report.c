/* The report. Progress goes to stderr, the table and the JSON to stdout. */
#include "tests/load/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool line_open;

void report_progress(const char *phase, const struct buyers *buyers)
{
	static uint64_t shown_ns;
	static size_t shown_answers;
	bool terminal = isatty(STDERR_FILENO);
	uint64_t now = uv_hrtime();
	double share = (double)buyers->started / buyers->options->buyers;
	char bar[31];

	if (now - shown_ns < (terminal ? 100000000ULL : 1000000000ULL))
		return;
	for (int i = 0; i < 30; i++)
		bar[i] = i < share * 30 ? '#' : '.';
	bar[30] = '\0';
	fprintf(stderr,
		"%s[%s] %s: %u of %d buyers, %" PRId64 " reserved, %" PRId64
		" sold out, %.0f answers/s%s",
		terminal ? "\r\033[K" : "", bar, phase, buyers->started, buyers->options->buyers,
		buyers->answers[OUTCOME_RESERVED], buyers->answers[OUTCOME_SOLD_OUT],
		shown_ns ? (double)(buyers->latencies_count - shown_answers) * 1e9 /
				   (double)(now - shown_ns)
			 : 0,
		terminal ? "" : "\n");
	line_open = terminal;
	shown_ns = now;
	shown_answers = buyers->latencies_count;
}

void report_phase_done(void)
{
	if (line_open)
		(void)fputc('\n', stderr);
	line_open = false;
}

static int latency_compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

struct quantiles {
	double p50_ms, p99_ms, max_ms;
};

static struct quantiles quantiles(const struct buyers *buyers)
{
	size_t count = buyers->latencies_count, middle = count / 2, high = count * 99 / 100;

	if (!count)
		return (struct quantiles){0};
	qsort(buyers->latencies_us, count, sizeof(*buyers->latencies_us), latency_compare);
	return (struct quantiles){buyers->latencies_us[middle] / 1e3,
				  buyers->latencies_us[high] / 1e3,
				  buyers->latencies_us[count - 1] / 1e3};
}

static void row(const char *name, int64_t value, const char *remark)
{
	printf("  %-22s %12" PRId64 "  %s\n", name, value, remark);
}

void report_table(const struct report *report)
{
	const struct buyers *buyers = report->buyers;
	const struct books *books = report->books;
	const struct figures *figures = &books->figures;
	struct quantiles latency = quantiles(buyers);
	char remark[160];

	printf("\nSale %s: %d buyers, %" PRId64 " units\n\nAnswers\n", report->options->sale_id,
	       report->options->buyers, figures->total);
	for (int outcome = OUTCOME_RESERVED; outcome < OUTCOMES; outcome++) {
		(void)snprintf(remark, sizeof(remark),
			       "%" PRId64 " of them repeats of an answer given before",
			       buyers->repeats);
		if (buyers->answers[outcome] || outcome <= OUTCOME_LIMIT_REACHED)
			row(outcome_names[outcome], buyers->answers[outcome],
			    outcome == OUTCOME_RESERVED	 ? remark
			    : outcome == OUTCOME_REFUSED ? buyers->refusal
							 : "");
	}
	row("sent again", buyers->retries, "no definite answer at first");
	printf("\nTime to an answer\n  p50 %.2f ms, p99 %.2f ms, max %.2f ms; %.0f answers/s\n",
	       latency.p50_ms, latency.p99_ms, latency.max_ms,
	       (double)buyers->latencies_count / (report->buying_s > 0 ? report->buying_s : 1));
	printf("\nOrders\n");
	row("paid", figures->paid, "");
	row("cancelled", figures->cancelled, "by their buyers, or not paid in time");
	row("pending", figures->pending, "");
	printf("\nBooks\n");
	(void)snprintf(remark, sizeof(remark),
		       "= %" PRId64 " available + %" PRId64 " reserved + %" PRId64 " sold: %s",
		       figures->available, figures->reserved, figures->sold,
		       books->conserved ? "conserved" : "NOT CONSERVED");
	row("total units", figures->total, remark);
	row("oversold", books->oversold, "units promised beyond the stock");
	row("lost", books->lost, "answers without the order they promised");
	row("doubled", books->doubled, "orders for nobody or twice, or beyond a user's limit");
	if (*books->first_error)
		printf("  first: %s\n", books->first_error);
	if (*buyers->contradiction)
		printf("  first: %s\n", buyers->contradiction);
	printf("\n%s\n", report->balanced ? "The books balance." : "THE BOOKS DO NOT BALANCE.");
	(void)fflush(stdout);
}

void report_json(const struct report *report)
{
	const struct buyers *buyers = report->buyers;
	const struct books *books = report->books;
	struct quantiles latency = quantiles(buyers);
	int64_t promised = 0;
	json_t *json;

	for (size_t i = 0; i < buyers->purchases_count; i++)
		promised += buyers->purchases[i].outcome == OUTCOME_RESERVED;
	json = json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "sale",
			 report->options->sale_id, "units", (json_int_t)books->figures.total,
			 "buyers", report->options->buyers, "answers",
			 (json_int_t)buyers->latencies_count, "reserved", (json_int_t)promised,
			 "sold_out", (json_int_t)buyers->answers[OUTCOME_SOLD_OUT], "limited",
			 (json_int_t)buyers->answers[OUTCOME_LIMIT_REACHED], "repeated",
			 (json_int_t)buyers->repeats, "refused",
			 (json_int_t)buyers->answers[OUTCOME_REFUSED], "retries",
			 (json_int_t)buyers->retries);
	json_object_update_new(json, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "orders",
					       (json_int_t)books->orders, "paid",
					       (json_int_t)books->figures.paid, "cancelled",
					       (json_int_t)books->figures.cancelled, "pending",
					       (json_int_t)books->figures.pending, "available",
					       (json_int_t)books->figures.available, "held",
					       (json_int_t)books->figures.reserved, "sold",
					       (json_int_t)books->figures.sold));
	json_object_update_new(json, json_pack("{s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:b}",
					       "oversold", (json_int_t)books->oversold, "lost",
					       (json_int_t)books->lost, "doubled",
					       (json_int_t)books->doubled, "conserved",
					       books->conserved, "p50_ms", latency.p50_ms, "p99_ms",
					       latency.p99_ms, "max_ms", latency.max_ms, "buying_s",
					       report->buying_s, "balanced", report->balanced));
	(void)json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	(void)fputc('\n', stdout);
	json_decref(json);
}
