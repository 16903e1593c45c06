/* Metrics in Prometheus's text format. One process, one registry; written on the loop thread only (other threads
 * post their figures), so no atomics. Names start with "stampede_", base units (seconds, bytes), counters
 * end in "_total".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct metrics;
struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics);

/* `labels` is the text between the braces, e.g. `method="Reserve",code="OK"`, or NULL. The same name
 * and labels give the same metric. They live as long as the registry. NULL metrics: a metric nobody sees. */
struct counter {
	uint64_t value;
};
struct gauge {
	int64_t value;
};
struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *help,
				const char *labels);
struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *help,
			    const char *labels);
/* A gauge that is asked when it is read. */
void metrics_gauge_read(struct metrics *metrics, const char *name, const char *help,
			const char *labels, double (*read)(void *self), void *self);

/* The same for a figure that only grows. */
void metrics_counter_read(struct metrics *metrics, const char *name, const char *help,
			  const char *labels, double (*read)(void *self), void *self);

/* Log-linear buckets from 1 µs to 100 s, four to a doubling; shown as a Prometheus histogram in seconds. Recording is a
 * few instructions. */
struct histogram;
struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *help,
				    const char *labels);
void histogram_record_us(struct histogram *histogram, int64_t microseconds);
/* For figures of our own: p in 0..1; 0 when empty. */
int64_t histogram_quantile_us(const struct histogram *histogram, double p);

/* The whole registry as text; malloc'd, the caller frees. */
char *metrics_text(const struct metrics *metrics, size_t *ret_size);
