/* A connection that mends itself: found, opened, introduced, lost, and all again. */
#pragma once

#include "runtime/redis_link.h"
#include "runtime/redis_url.h"

struct redis_tls;
struct redis_sentinel;

/* Embedded by the owner, who sets the first group. */
struct redis_connection {
	struct loop *loop;
	const struct redis_url *url;
	const char *url_text; /* for logs; outlives the connection */
	struct redis_tls *tls;
	const char *role;
	void *self;
	/* Commands may be sent from now on, in this callback too. */
	void (*ready)(void *self, const char *run_id);
	/* After `ready`: it was lost. Of commands under way that were not called back yet the owner
	 * lets go now: their callbacks come later, with the link's `self` NULL. */
	void (*lost)(void *self);

	struct redis_link *link;
	struct redis_sentinel *sentinel; /* while it is asked */
	struct redis_address address;	 /* of the link */
	bool is_ready;
	/* The pause before the next attempt, the limit of the present one, or until Sentinel is asked again. */
	struct timer timer;
	unsigned attempt;  /* since it was last ready */
	unsigned attempts; /* of all */
	int64_t ready_us;
	uint64_t random;
	char run_id[64];
};

/* The first attempt follows on the loop. */
void redis_connection_start(struct redis_connection *connection);
/* Ends it for good, without a callback to the owner. */
void redis_connection_stop(struct redis_connection *connection);
/* Gives the present connection up; `lost` follows at once if it was ready, then a new attempt. */
void redis_connection_drop(struct redis_connection *connection, const char *reason);
