/* One connection to one server, from the name to the end. It does not mend itself:
 * redis_connection.h does. */
#pragma once

#include <hiredis/async.h>

#include "runtime/loop.h"
#include "runtime/redis_url.h"

struct redis_tls;

struct redis_link_options {
	const struct redis_address *address; /* need not outlive the call */
	struct redis_tls *tls;		     /* NULL: plain */
	unsigned attempt; /* which of a name's addresses: one after the other over the attempts */
	/* The socket is connected: commands may be queued. */
	void (*opened)(void *self);
	/* It has ended, or never began; the link is gone after this. */
	void (*closed)(void *self, const char *reason);
	void *self;
};

struct redis_link {
	redisAsyncContext *context; /* its `data` is the link; NULL until connecting */
	void *self;		    /* NULL: the owner has closed it */
	int64_t received_us;	    /* when something was last received */
	struct redis_link_internal *internal;
};

/* No callback runs inside it. */
struct redis_link *redis_link_open(struct loop *loop, const struct redis_link_options *options);
/* `closed` will not run. Replies still awaited are called back with NULL, now or when the present
 * callback has returned, and `self` is NULL then. */
void redis_link_close(struct redis_link *link);
