/* The sweeper: publishes what a crash or a dead bus left behind in the outboxes of all sales. Several instances
 * may sweep at once; consumers do not mind a repeat.
 */
#pragma once

#include "inventory/inventory.h"

struct sweeper;
struct sweeper *sweeper_create(struct inventory *inventory);
/* After Redis and the bus are gone. */
void sweeper_destroy(struct sweeper *sweeper);
/* Now, besides every 5 s: at start, and when Redis or the bus is there again. */
void sweeper_sweep(struct sweeper *sweeper);
