/* Commands as Redis reads them: *COUNT\r\n, then $SIZE\r\nBYTES\r\n for each argument.
 *
 * hiredis has a formatter, but this is the hot path: here an argument costs a memcpy and a few
 * digits.
 */
#include "runtime/redis_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* "$" digits "\r\n" … "\r\n" of the largest size there is */
#define FRAME_MAX 26

void redis_buffer_free(struct redis_buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct redis_buffer){0};
}

static char *buffer_reserve(struct redis_buffer *buffer, size_t size)
{
	if (buffer->room < size) {
		/* What it held is being replaced: no need to copy it. */
		free(buffer->bytes);
		buffer->room = size < 512 ? 512 : size + size / 4;
		buffer->bytes = malloc(buffer->room);
		assert(buffer->bytes);
	}
	return buffer->bytes;
}

static inline char *write_number(char *to, char mark, size_t number)
{
	char digits[20];
	int at = sizeof(digits);

	*to++ = mark;
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (at < (int)sizeof(digits))
		*to++ = digits[at++];
	*to++ = '\r';
	*to++ = '\n';
	return to;
}

static inline char *write_argument(char *to, const char *bytes, size_t size)
{
	to = write_number(to, '$', size);
	if (size)
		memcpy(to, bytes, size);
	to += size;
	*to++ = '\r';
	*to++ = '\n';
	return to;
}

static size_t args_room(struct redis_args args)
{
	size_t room = (size_t)args.count * FRAME_MAX;

	for (int i = 0; i < args.count; i++)
		room += args.sizes[i];
	return room;
}

static void buffer_close(struct redis_buffer *buffer, char *end)
{
	*end = 0;
	buffer->size = (size_t)(end - buffer->bytes);
	assert(buffer->size < buffer->room);
}

static char *write_args(char *to, struct redis_args args)
{
	for (int i = 0; i < args.count; i++)
		to = write_argument(to, args.values[i], args.sizes[i]);
	return to;
}

void redis_write_command(struct redis_buffer *buffer, struct redis_args args)
{
	char *to = buffer_reserve(buffer, args_room(args) + FRAME_MAX);

	assert(args.count > 0);
	to = write_number(to, '*', (size_t)args.count);
	buffer_close(buffer, write_args(to, args));
}

void redis_write_evalsha(struct redis_buffer *buffer, const char *sha, int keys,
			 struct redis_args args)
{
	char *to = buffer_reserve(buffer, args_room(args) + 4 * FRAME_MAX + 64);
	char digits[24];
	char *end;

	assert(keys >= 0 && keys <= args.count);
	to = write_number(to, '*', (size_t)args.count + 3);
	to = write_argument(to, "EVALSHA", 7);
	to = write_argument(to, sha, 40);
	end = write_number(digits, '0', (size_t)keys) - 2; /* without "\r\n" */
	to = write_argument(to, digits + 1, (size_t)(end - digits - 1));
	buffer_close(buffer, write_args(to, args));
}

void redis_write_eval(struct redis_buffer *buffer, const char *source,
		      const struct redis_buffer *evalsha)
{
	/* *COUNT\r\n stays, $7\r\nEVALSHA\r\n$40\r\nSHA\r\n is replaced. */
	size_t head = (size_t)(strchr(evalsha->bytes, '$') - evalsha->bytes);
	size_t replaced = 4 + 7 + 2 + 5 + 40 + 2;
	size_t tail = evalsha->size - head - replaced;
	size_t source_size = strlen(source);
	char *to = buffer_reserve(buffer, evalsha->size + source_size + 2 * FRAME_MAX);

	memcpy(to, evalsha->bytes, head);
	to = write_argument(to + head, "EVAL", 4);
	to = write_argument(to, source, source_size);
	memcpy(to, evalsha->bytes + head + replaced, tail);
	buffer_close(buffer, to + tail);
}
