/* Which server is the master, as Sentinel knows it. */
#pragma once

#include "runtime/loop.h"
#include "runtime/redis_url.h"

struct redis_sentinel;

/* Runs once, never inside redis_sentinel_ask(); `address` is NULL, and `reason` set, when no
 * Sentinel knew. */
typedef void redis_sentinel_found(void *self, const struct redis_address *address,
				  const char *reason);
/* Asks the URL's Sentinels one after the other, beginning with another one each `attempt`. */
struct redis_sentinel *redis_sentinel_ask(struct loop *loop, const struct redis_url *url,
					  unsigned attempt, redis_sentinel_found *found,
					  void *self);
/* `found` will not run. */
void redis_sentinel_cancel(struct redis_sentinel *sentinel);
