/* Memory that dies at once: what one call, one batch or one request makes.
 *
 * Nothing is freed singly. Running out of memory ends the process (assert): every arena is bounded
 * by the limits on what is put into it. Idea: APR pools, h2o's mem pool.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <stddef.h>

#include "runtime/status.h"

struct arena {
	char *next, *end;
	struct arena_chunk *chunks; /* those malloc gave, newest first */
	char *first, *first_end;    /* the caller's, used before any chunk */
	ProtobufCAllocator allocator;
};

/* `first` may be NULL; it stays the caller's and must outlive the arena. */
void arena_init(struct arena *arena, void *first, size_t first_size);
/* Frees everything and is ready for use again. */
void arena_reset(struct arena *arena);

/* Never NULL, aligned for any type, not zeroed. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);
char *arena_strdup(struct arena *arena, const char *text);
/* Copies `size` bytes and closes them with a zero byte. */
char *arena_memdup(struct arena *arena, const void *bytes, size_t size);
char *arena_printf(struct arena *arena, const char *format, ...) PRINTF(2, 3);
char *arena_vprintf(struct arena *arena, const char *format, va_list args);

/* For protobuf-c: its free does nothing. */
ProtobufCAllocator *arena_allocator(struct arena *arena);
