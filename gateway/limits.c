#include "gateway/limits.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

#define WAYS 4

/* As the virtual scheduling algorithm has it: when the next request is due if the bucket were empty. One number is
 * tokens and time at once. */
struct bucket {
	uint64_t key; /* 0: free */
	int64_t due_us;
};

struct limits {
	int64_t interval_us, slack_us;
	uint64_t seed, mask;
	struct bucket *buckets;
};

struct limits *limits_create(int64_t rate, int64_t burst, int64_t keys_max)
{
	struct limits *limits;
	uint64_t room = WAYS;

	if (!rate)
		return NULL;
	limits = calloc(1, sizeof(*limits));
	while (room < (uint64_t)keys_max)
		room *= 2;
	assert(limits);
	limits->interval_us = rate < 1000000 ? 1000000 / rate : 1;
	limits->slack_us = limits->interval_us * (burst > 0 ? burst - 1 : 0);
	limits->mask = room - 1;
	limits->buckets = calloc(room, sizeof(*limits->buckets));
	assert(limits->buckets);
	/* Nobody may choose keys that push another out. */
	if (getrandom(&limits->seed, sizeof(limits->seed), 0) < 0)
		limits->seed = (uintptr_t)limits;
	return limits;
}

void limits_destroy(struct limits *limits)
{
	if (!limits)
		return;
	free(limits->buckets);
	free(limits);
}

static uint64_t key_hash(const struct limits *limits, const unsigned char *at, size_t size)
{
	uint64_t hash = limits->seed ^ 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 1099511628211u;
	hash ^= hash >> 32;
	hash *= 0xd6e8feb86659fd93u;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static struct bucket *bucket_of(struct limits *limits, uint64_t key)
{
	struct bucket *place = &limits->buckets[key & limits->mask & ~(uint64_t)(WAYS - 1)];
	struct bucket *oldest = place;

	for (int i = 0; i < WAYS; i++) {
		if (place[i].key == key)
			return &place[i];
		if (!place[i].key) {
			oldest = &place[i];
			break;
		}
		if (place[i].due_us < oldest->due_us)
			oldest = &place[i];
	}
	*oldest = (struct bucket){.key = key};
	return oldest;
}

int64_t limits_take(struct limits *limits, const void *key, size_t size, int64_t now_us)
{
	struct bucket *bucket;
	int64_t early_us;

	if (!limits)
		return 0;
	bucket = bucket_of(limits, key_hash(limits, key, size));
	if (bucket->due_us < now_us)
		bucket->due_us = now_us;
	early_us = bucket->due_us - now_us - limits->slack_us;
	if (early_us > 0)
		return early_us;
	bucket->due_us += limits->interval_us;
	return 0;
}
