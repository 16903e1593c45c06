/* The keys of one map: a hash table in the arena that grows by doubling, so that a body of nothing
 * but keys costs no more than its size. */
#include <string.h>

#include "gateway/json_encoder.h"

struct key {
	const char *text;
	size_t size;
};

struct key_set {
	struct arena *arena;
	struct key *keys;
	uint32_t count, room; /* a power of two */
};

struct key_set *key_set_create(struct arena *arena)
{
	struct key_set *set = arena_zalloc(arena, sizeof(*set));

	set->arena = arena;
	return set;
}

static struct key *key_slot(const struct key_set *set, const char *text, size_t size)
{
	uint64_t hash = 14695981039346656037u ^ (uintptr_t)set; /* not to be guessed */
	uint32_t slot;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	slot = (uint32_t)(hash ^ hash >> 32) & (set->room - 1);
	while (set->keys[slot].text &&
	       (set->keys[slot].size != size || memcmp(set->keys[slot].text, text, size) != 0))
		slot = (slot + 1) & (set->room - 1);
	return &set->keys[slot];
}

static void set_grow(struct key_set *set)
{
	struct key *old = set->keys;
	uint32_t count = set->room;

	set->room = count ? count * 2 : 16;
	set->keys = arena_zalloc(set->arena, set->room * sizeof(*set->keys));
	for (uint32_t i = 0; i < count; i++) {
		if (old[i].text)
			*key_slot(set, old[i].text, old[i].size) = old[i];
	}
}

bool key_set_add(struct key_set *set, const char *text, size_t size)
{
	struct key *key;

	if (set->count * 2 >= set->room)
		set_grow(set);
	key = key_slot(set, text, size);
	if (key->text)
		return false;
	*key = (struct key){text, size};
	set->count++;
	return true;
}
