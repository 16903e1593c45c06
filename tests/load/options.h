/* What stampede-load is told to do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *url;
	char sale_id[65];
	int units;
	int buyers;
	int seconds;	  /* over which the buyers arrive; 0: as fast as it goes */
	int limit;	  /* units a user may hold */
	int pay_within_s; /* the sale's payment timeout */
	int connections;
	int patience_s; /* how long an answer, and the books, are waited for */
	int never_pay;	/* of a hundred who got units */
	int cancel;	/* of a hundred who got units */
	uint64_t seed;
	bool second_chance; /* units that came back are offered to those who got none */
	bool json;
};

/* Ends the process when they are wrong, or help was asked for. */
struct options options_read(int argc, char **argv);
