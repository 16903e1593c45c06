#include "runtime/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16
#define CHUNK_SIZE 8192

struct arena_chunk {
	struct arena_chunk *older;
	size_t size;
	_Alignas(ALIGNMENT) char bytes[];
};

static void *allocator_alloc(void *arena, size_t size)
{
	return arena_alloc(arena, size);
}

static void allocator_free(void *arena, void *memory)
{
	(void)arena;
	(void)memory;
}

void arena_init(struct arena *arena, void *first, size_t first_size)
{
	*arena = (struct arena){
		.first = first,
		.first_end = first ? (char *)first + first_size : NULL,
		.allocator = {allocator_alloc, allocator_free, arena},
	};
	arena->next = arena->first;
	arena->end = arena->first_end;
}

void arena_reset(struct arena *arena)
{
	struct arena_chunk *chunk;

	while ((chunk = arena->chunks)) {
		arena->chunks = chunk->older;
		free(chunk);
	}
	arena->next = arena->first;
	arena->end = arena->first_end;
}

static void *arena_grow(struct arena *arena, size_t size)
{
	size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;
	struct arena_chunk *chunk = malloc(sizeof(*chunk) + room);

	assert(chunk);
	chunk->older = arena->chunks;
	chunk->size = room;
	arena->chunks = chunk;
	/* A large piece leaves the present chunk in use when that has more room left. */
	if (size > CHUNK_SIZE && arena->next)
		return chunk->bytes;
	arena->next = chunk->bytes + size;
	arena->end = chunk->bytes + room;
	return chunk->bytes;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	uintptr_t aligned = ((uintptr_t)arena->next + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);

	assert(size < SIZE_MAX / 2);
	if (arena->next && aligned + size <= (uintptr_t)arena->end) {
		arena->next = (char *)aligned + size;
		return (void *)aligned;
	}
	return arena_grow(arena, size);
}

void *arena_zalloc(struct arena *arena, size_t size)
{
	return memset(arena_alloc(arena, size), 0, size);
}

char *arena_memdup(struct arena *arena, const void *bytes, size_t size)
{
	char *copy = arena_alloc(arena, size + 1);

	if (size)
		memcpy(copy, bytes, size);
	copy[size] = 0;
	return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
	return arena_memdup(arena, text, strlen(text));
}

char *arena_vprintf(struct arena *arena, const char *format, va_list args)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	assert(length >= 0);
	text = arena_alloc(arena, (size_t)length + 1);
	vsnprintf(text, (size_t)length + 1, format, again);
	va_end(again);
	return text;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = arena_vprintf(arena, format, args);
	va_end(args);
	return text;
}

ProtobufCAllocator *arena_allocator(struct arena *arena)
{
	return &arena->allocator;
}
