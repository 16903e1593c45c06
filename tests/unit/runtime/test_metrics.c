#include "runtime/metrics.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct metrics *metrics;

static void setup(void)
{
	metrics = metrics_create();
}

static void teardown(void)
{
	metrics_destroy(metrics);
}

static void assert_text(const char *expected)
{
	size_t size;
	char *text = metrics_text(metrics, &size);

	ck_assert_uint_eq(size, strlen(text));
	ck_assert_msg(strstr(text, expected), "no %s in:\n%s", expected, text);
	free(text);
}

static double read_half(void *self)
{
	return *(double *)self / 2;
}

START_TEST(gives_the_same_metric_for_the_same_name_and_labels)
{
	struct counter *counter = metrics_counter(metrics, "stampede_a_total", "A.", "x=\"1\"");

	ck_assert_ptr_eq(metrics_counter(metrics, "stampede_a_total", "A.", "x=\"1\""), counter);
	ck_assert_ptr_ne(metrics_counter(metrics, "stampede_a_total", "A.", "x=\"2\""), counter);
	ck_assert_ptr_ne(metrics_counter(metrics, "stampede_b_total", "B.", "x=\"1\""), counter);
}
END_TEST

START_TEST(shows_families_as_prometheus_reads_them)
{
	double figure = 5;

	metrics_counter(metrics, "stampede_a_total", "Line\nand \\.", "x=\"1\"")->value = 3;
	metrics_gauge(metrics, "stampede_g", "G.", NULL)->value = -4;
	metrics_counter(metrics, "stampede_a_total", "A.", "x=\"2\"")->value = 7;
	metrics_gauge_read(metrics, "stampede_r", "R.", "", read_half, &figure);
	assert_text("# HELP stampede_a_total Line\\nand \\\\.\n"
		    "# TYPE stampede_a_total counter\n"
		    "stampede_a_total{x=\"1\"} 3\n"
		    "stampede_a_total{x=\"2\"} 7\n"
		    "# HELP stampede_g G.\n"
		    "# TYPE stampede_g gauge\n"
		    "stampede_g -4\n");
	assert_text("stampede_r 2.5\n");
}
END_TEST

START_TEST(shows_histograms_as_cumulative_buckets)
{
	struct histogram *histogram =
		metrics_histogram(metrics, "stampede_d_seconds", "D.", "m=\"x\"");

	histogram_record_us(histogram, 32); /* the bucket's own bound belongs to it */
	histogram_record_us(histogram, 33);
	histogram_record_us(histogram, 1000000);
	histogram_record_us(histogram, INT64_MAX / 2); /* beyond all buckets */
	histogram_record_us(histogram, -5);
	assert_text("stampede_d_seconds_bucket{m=\"x\",le=\"3.2e-05\"} 2\n"
		    "stampede_d_seconds_bucket{m=\"x\",le=\"6.4e-05\"} 3\n");
	assert_text("stampede_d_seconds_bucket{m=\"x\",le=\"0.524288\"} 3\n"
		    "stampede_d_seconds_bucket{m=\"x\",le=\"1.048576\"} 4\n");
	assert_text("stampede_d_seconds_bucket{m=\"x\",le=\"67.108864\"} 4\n"
		    "stampede_d_seconds_bucket{m=\"x\",le=\"+Inf\"} 5\n");
	assert_text("stampede_d_seconds_count{m=\"x\"} 5\n");
}
END_TEST

START_TEST(knows_quantiles_within_a_quarter)
{
	struct histogram *histogram = metrics_histogram(metrics, "stampede_d_seconds", "D.", NULL);

	ck_assert_int_eq(histogram_quantile_us(histogram, 0.5), 0);
	for (int64_t us = 1; us <= 100000; us++)
		histogram_record_us(histogram, us);
	for (int percent = 1; percent <= 100; percent++) {
		int64_t real = percent * 1000;
		int64_t told = histogram_quantile_us(histogram, percent / 100.0);

		ck_assert_msg(told * 4 >= real * 3 && told * 4 <= real * 5, "p%d: %ld", percent,
			      (long)told);
	}
	ck_assert_int_le(histogram_quantile_us(histogram, 0), 1);
}
END_TEST

START_TEST(keeps_small_figures_exactly)
{
	struct histogram *histogram = metrics_histogram(metrics, "stampede_d_seconds", "D.", NULL);

	for (int64_t us = 1; us <= 8; us++) {
		struct histogram *one;
		char labels[16];

		snprintf(labels, sizeof(labels), "i=\"%d\"", (int)us);
		one = metrics_histogram(metrics, "stampede_d_seconds", "D.", labels);
		histogram_record_us(one, us);
		ck_assert_int_eq(histogram_quantile_us(one, 0.99), us);
	}
	(void)histogram;
}
END_TEST

START_TEST(works_without_a_registry)
{
	struct counter *counter = metrics_counter(NULL, "stampede_n_total", "N.", NULL);

	counter->value++;
	histogram_record_us(metrics_histogram(NULL, "stampede_n_seconds", "N.", NULL), 5);
	assert_text("");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("metrics");
	TCase *cases = tcase_create("metrics");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_test(cases, gives_the_same_metric_for_the_same_name_and_labels);
	tcase_add_test(cases, shows_families_as_prometheus_reads_them);
	tcase_add_test(cases, shows_histograms_as_cumulative_buckets);
	tcase_add_test(cases, knows_quantiles_within_a_quarter);
	tcase_add_test(cases, keeps_small_figures_exactly);
	tcase_add_test(cases, works_without_a_registry);
	suite_add_tcase(suite, cases);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
