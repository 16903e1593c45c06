/* Between the files of the suite. */
#pragma once

#include <check.h>

#include "tests/integration/bus/bench.h"
#include "tests/integration/bus/suite.h"

/* A group forms, or finds that a member is gone, within this. */
#define TAKEOVER_MS 30000
#define KEYS 16

extern const struct bus_server *suite_server;
extern char suite_topic[64]; /* this test's own */

struct bus_consumer_options group(const char *name);
/* bus_tool consume with one option. */
struct child *start_consumer(const char *client, const char *option);
/* The numbers from `from` to before `to`, and waits until all are confirmed. */
void publish_range(struct bench *bench, int from, int to, int keys);

void suite_add_order(TCase *test);
void suite_add_retries(TCase *test);
void suite_add_ends(TCase *test);
