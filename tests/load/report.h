/* What is shown: progress while the sale runs, then one table, and JSON for programs. */
#pragma once

#include "tests/load/books.h"

struct report {
	const struct options *options;
	const struct buyers *buyers;
	const struct books *books;
	double buying_s; /* from the first buyer to the last answer of the first wave */
	bool balanced;
};

/* `phase` is what happens now; once a second, or ten times on a terminal. */
void report_progress(const char *phase, const struct buyers *buyers);
/* Ends the line of the progress. */
void report_phase_done(void);
void report_table(const struct report *report);
void report_json(const struct report *report);
