/* A look at Redis's own settings after each connection: those under which stock can be lost are named in the log, with what to
 * set instead. Where CONFIG is not allowed nothing is said.
 */
#pragma once

#include "inventory/inventory.h"

struct redis_check;
struct redis_check *redis_check_create(struct redis *redis);
void redis_check_destroy(struct redis_check *check);
void redis_check_run(struct redis_check *check);
