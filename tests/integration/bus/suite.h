/* The bus's conformance suite: the same tests for each implementation, against a real server. */
#pragma once

#include <stdbool.h>

struct bus_server {
	const char *name;
	/* In the process of one test, before and after it. */
	void (*before)(void);
	void (*after)(void);
	const char *(*url)(void);
	/* By kill -9; then again, with the same data. */
	void (*kill)(void);
	void (*resume)(void);
	/* Loses all its data while it runs; NULL: it never does. */
	void (*forget)(void);
};

/* The exit code for main(). */
int bus_suite_run(const struct bus_server *server);
