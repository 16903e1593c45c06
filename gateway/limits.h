/* Token buckets by key (a user, an address), in a table of fixed size: O(1), and no key's owner can make it grow.
 *
 * Four slots to a place; when all are taken, the one unused for longest makes room. A key that was pushed out starts
 * with a full bucket again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct limits;

/* NULL when `rate` (a second) is 0: no limit. */
struct limits *limits_create(int64_t rate, int64_t burst, int64_t keys_max);
void limits_destroy(struct limits *limits);
/* 0: go on, a token was taken. Else after how many microseconds there will be one. */
int64_t limits_take(struct limits *limits, const void *key, size_t size, int64_t now_us);
