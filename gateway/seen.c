#include "gateway/seen.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BITS (UINT64_C(1) << 23) /* a MiB each */
#define HASHES 4

struct seen {
	uint64_t *now, *before;
	uint32_t count; /* added to the present generation */
};

struct seen *seen_create(void)
{
	struct seen *seen = calloc(1, sizeof(*seen));

	assert(seen);
	seen->now = calloc(BITS / 64, sizeof(uint64_t));
	seen->before = calloc(BITS / 64, sizeof(uint64_t));
	assert(seen->now && seen->before);
	return seen;
}

void seen_destroy(struct seen *seen)
{
	if (!seen)
		return;
	free(seen->now);
	free(seen->before);
	free(seen);
}

static uint64_t bit_of(uint64_t hash, unsigned i)
{
	return (hash + i * ((hash >> 32) | 1)) & (BITS - 1);
}

void seen_add(struct seen *seen, uint64_t hash)
{
	if (seen->count++ == SEEN_GENERATION) {
		uint64_t *oldest = seen->before;

		seen->before = seen->now;
		seen->now = memset(oldest, 0, BITS / 8);
		seen->count = 1;
	}
	for (unsigned i = 0; i < HASHES; i++) {
		uint64_t bit = bit_of(hash, i);

		seen->now[bit >> 6] |= UINT64_C(1) << (bit & 63);
	}
}

static bool in(const uint64_t *bits, uint64_t hash)
{
	for (unsigned i = 0; i < HASHES; i++) {
		uint64_t bit = bit_of(hash, i);

		if (!(bits[bit >> 6] & UINT64_C(1) << (bit & 63)))
			return false;
	}
	return true;
}

bool seen_maybe(const struct seen *seen, uint64_t hash)
{
	return in(seen->now, hash) || in(seen->before, hash);
}
