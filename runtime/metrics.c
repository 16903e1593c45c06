/* Metrics: see metrics.h. A family (name, help, kind) holds its series, one for each set of labels.
 * Both are found by walking a list: metrics are looked up when parts are made, not when they are
 * used. */
#include "runtime/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBLINGS 27 /* 2^27 µs: 134 s */
#define BUCKETS (4 * DOUBLINGS - 4)
/* Shown: one bucket a doubling, 32 µs to 67 s. */
#define SHOWN_FIRST 5
#define SHOWN_LAST 26

enum kind { COUNTER = 1, GAUGE, HISTOGRAM };

struct histogram {
	uint64_t count, sum_us;
	uint64_t buckets[BUCKETS + 1]; /* the last: beyond */
};

struct series {
	struct series *next;
	char *labels; /* NULL: none */
	struct counter counter;
	struct gauge gauge;
	double (*read)(void *self);
	void *self;
	struct histogram *histogram;
};

struct family {
	struct family *next;
	enum kind kind;
	char *name, *help;
	struct series *series, **series_end;
};

struct metrics {
	struct family *families, **families_end;
};

/* Where those go that are made without a registry. */
static struct metrics unseen;

struct metrics *metrics_create(void)
{
	struct metrics *metrics = calloc(1, sizeof(*metrics));

	assert(metrics);
	return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
	struct family *family, *next_family;
	struct series *series, *next;

	if (!metrics)
		return;
	for (family = metrics->families; family; family = next_family) {
		next_family = family->next;
		for (series = family->series; series; series = next) {
			next = series->next;
			free(series->labels);
			free(series->histogram);
			free(series);
		}
		free(family->name);
		free(family->help);
		free(family);
	}
	free(metrics);
}

/* --- finding and making ----------------------------------------------------------------------- */

static char *copy(const char *text)
{
	char *made = strdup(text);

	assert(made);
	return made;
}

static struct family *family_get(struct metrics *metrics, enum kind kind, const char *name,
				 const char *help)
{
	struct family *family;

	for (family = metrics->families; family; family = family->next) {
		if (!strcmp(family->name, name)) {
			assert(family->kind == kind);
			return family;
		}
	}
	family = calloc(1, sizeof(*family));
	assert(family);
	family->kind = kind;
	family->name = copy(name);
	family->help = copy(help ? help : "");
	family->series_end = &family->series;
	if (!metrics->families_end)
		metrics->families_end = &metrics->families;
	*metrics->families_end = family;
	metrics->families_end = &family->next;
	return family;
}

static struct series *series_get(struct metrics *metrics, enum kind kind, const char *name,
				 const char *help, const char *labels)
{
	struct family *family = family_get(metrics ? metrics : &unseen, kind, name, help);
	struct series *series;

	for (series = family->series; series; series = series->next)
		if (!strcmp(series->labels ? series->labels : "", labels ? labels : ""))
			return series;
	series = calloc(1, sizeof(*series));
	assert(series);
	series->labels = labels && *labels ? copy(labels) : NULL;
	if (kind == HISTOGRAM) {
		series->histogram = calloc(1, sizeof(*series->histogram));
		assert(series->histogram);
	}
	*family->series_end = series;
	family->series_end = &series->next;
	return series;
}

struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *help,
				const char *labels)
{
	return &series_get(metrics, COUNTER, name, help, labels)->counter;
}

struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
			    const char *labels)
{
	return &series_get(metrics, GAUGE, name, help, labels)->gauge;
}

static void series_read(struct series *series, double (*read)(void *self), void *self)
{
	series->read = read;
	series->self = self;
}

void metrics_gauge_read(struct metrics *metrics, const char *name, const char *help,
			const char *labels, double (*read)(void *self), void *self)
{
	series_read(series_get(metrics, GAUGE, name, help, labels), read, self);
}

void metrics_counter_read(struct metrics *metrics, const char *name, const char *help,
			  const char *labels, double (*read)(void *self), void *self)
{
	series_read(series_get(metrics, COUNTER, name, help, labels), read, self);
}

struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
				    const char *labels)
{
	return series_get(metrics, HISTOGRAM, name, help, labels)->histogram;
}

/* --- histograms ------------------------------------------------------------------------------- */

/* Bucket i holds what is in (bound(i), bound(i + 1)]: 1, 2, 3, 4 µs each its own, then four to a
 * doubling. So a doubling's end is a bucket's end, as Prometheus's "less or equal" wants it. */
static int64_t bucket_bound(unsigned bucket)
{
	return bucket < 4 ? bucket : (int64_t)(4 + (bucket & 3)) << (bucket / 4 - 1);
}

void histogram_record_us(struct histogram *histogram, int64_t microseconds)
{
	uint64_t us = microseconds > 0 ? (uint64_t)microseconds : 0;
	uint64_t below = us ? us - 1 : 0;
	unsigned bucket, log;

	if (below < 4) {
		bucket = (unsigned)below;
	} else {
		log = 63 - (unsigned)__builtin_clzll(below);
		bucket = log >= DOUBLINGS ? BUCKETS
					  : (log - 1) * 4 + (unsigned)(below >> (log - 2) & 3);
	}
	histogram->buckets[bucket]++;
	histogram->count++;
	histogram->sum_us += us;
}

int64_t histogram_quantile_us(const struct histogram *histogram, double p)
{
	uint64_t seen = 0, wanted;

	if (!histogram->count)
		return 0;
	p = p < 0 ? 0 : p > 1 ? 1 : p;
	wanted = (uint64_t)(p * (double)histogram->count + 0.5);
	wanted = wanted ? wanted : 1;
	for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
		uint64_t here = histogram->buckets[bucket];
		int64_t low = bucket_bound(bucket), high = bucket_bound(bucket + 1);

		if (seen + here >= wanted)
			return low + (int64_t)((double)(high - low) * (double)(wanted - seen) /
						       (double)here +
					       0.5);
		seen += here;
	}
	return bucket_bound(BUCKETS);
}

/* --- as text ---------------------------------------------------------------------------------- */

/* name{labels,extra} */
static void print_name(FILE *out, const struct family *family, const char *suffix,
		       const struct series *series, const char *extra)
{
	fprintf(out, "%s%s", family->name, suffix);
	if (series->labels || extra)
		fprintf(out, "{%s%s%s}", series->labels ? series->labels : "",
			series->labels && extra ? "," : "", extra ? extra : "");
	fputc(' ', out);
}

static void print_histogram(FILE *out, const struct family *family, const struct series *series)
{
	const struct histogram *histogram = series->histogram;
	uint64_t below = 0;
	unsigned bucket = 0;
	char le[40];

	if (!histogram->count) /* many methods are never called: they are not worth 25 lines each */
		return;
	for (unsigned doubling = SHOWN_FIRST; doubling <= SHOWN_LAST; doubling++) {
		for (; bucket_bound(bucket) < (int64_t)1 << doubling; bucket++)
			below += histogram->buckets[bucket];
		snprintf(le, sizeof(le), "le=\"%.9g\"", (double)(1ull << doubling) / 1e6);
		print_name(out, family, "_bucket", series, le);
		fprintf(out, "%llu\n", (unsigned long long)below);
	}
	print_name(out, family, "_bucket", series, "le=\"+Inf\"");
	fprintf(out, "%llu\n", (unsigned long long)histogram->count);
	print_name(out, family, "_sum", series, NULL);
	fprintf(out, "%.6f\n", (double)histogram->sum_us / 1e6);
	print_name(out, family, "_count", series, NULL);
	fprintf(out, "%llu\n", (unsigned long long)histogram->count);
}

static void print_series(FILE *out, const struct family *family, const struct series *series)
{
	if (family->kind == HISTOGRAM) {
		print_histogram(out, family, series);
		return;
	}
	print_name(out, family, "", series, NULL);
	if (series->read)
		fprintf(out, "%.15g\n", series->read(series->self));
	else if (family->kind == COUNTER)
		fprintf(out, "%llu\n", (unsigned long long)series->counter.value);
	else
		fprintf(out, "%lld\n", (long long)series->gauge.value);
}

/* Help texts may hold anything; the format wants backslashes and line ends escaped. */
static void print_help(FILE *out, const struct family *family)
{
	fprintf(out, "# HELP %s ", family->name);
	for (const char *at = family->help; *at; at++) {
		if (*at == '\\')
			fputs("\\\\", out);
		else if (*at == '\n')
			fputs("\\n", out);
		else
			fputc(*at, out);
	}
	fputc('\n', out);
}

char *metrics_text(const struct metrics *metrics, size_t *ret_size)
{
	static const char *const kinds[] = {
		[COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert(out);
	for (const struct family *family = metrics->families; family; family = family->next) {
		print_help(out, family);
		fprintf(out, "# TYPE %s %s\n", family->name, kinds[family->kind]);
		for (const struct series *series = family->series; series; series = series->next)
			print_series(out, family, series);
	}
	fclose(out);
	*ret_size = size;
	return text;
}
