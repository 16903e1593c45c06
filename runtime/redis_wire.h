/* Commands as Redis reads them (RESP). */
#pragma once

#include "runtime/redis.h"

/* Grows, is used again and again; zeroed at first. Closed by a zero byte. */
struct redis_buffer {
	char *bytes;
	size_t size, room;
};

void redis_buffer_free(struct redis_buffer *buffer);
/* Each replaces what the buffer holds. */
void redis_write_command(struct redis_buffer *buffer, struct redis_args args);
void redis_write_evalsha(struct redis_buffer *buffer, const char *sha, int keys,
			 struct redis_args args);
/* The EVAL that does what `evalsha`, written by redis_write_evalsha(), asked for. */
void redis_write_eval(struct redis_buffer *buffer, const char *source,
		      const struct redis_buffer *evalsha);
