/* Which request ids have passed lately: a Bloom filter in two generations.
 *
 * "No" is certain for the last SEEN_GENERATION ids at least; "yes" is wrong once in some hundred times. Fixed size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SEEN_GENERATION 500000

struct seen;

struct seen *seen_create(void);
void seen_destroy(struct seen *seen);
void seen_add(struct seen *seen, uint64_t hash);
bool seen_maybe(const struct seen *seen, uint64_t hash);
