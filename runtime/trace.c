#include "runtime/trace.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

/* xoshiro256**: https://prng.di.unimi.it. One state a thread. */
static _Thread_local uint64_t state[4];

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static uint64_t random_next(void)
{
	uint64_t result, shifted;

	if (!(state[0] | state[1] | state[2] | state[3])) {
		ssize_t got = getrandom(state, sizeof(state), 0);

		assert(got == sizeof(state));
	}
	result = rotate(state[1] * 5, 7) * 9;
	shifted = state[1] << 17;
	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= shifted;
	state[3] = rotate(state[3], 45);
	return result;
}

/* All zero would mean "none". */
static void random_id(uint8_t *id, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = random_next();

		word += !word;
		memcpy(id + i, &word, 8);
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Lower-case digits only, as the standard says. */
static bool hex_read(const char *text, uint8_t *ret_bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret_bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static char *hex_write(char *text, const uint8_t *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	return text;
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

bool trace_parse(const char *text, struct trace *ret)
{
	struct trace trace;
	uint8_t version;
	size_t length = text ? strnlen(text, TRACE_TEXT_SIZE) : 0;

	if (length < TRACE_TEXT_SIZE - 1)
		return false;
	if (!hex_read(text, &version, 1) || version == 0xff)
		return false;
	/* A later version may say more, after a dash. */
	if (text[55] && (version == 0 || text[55] != '-'))
		return false;
	if (text[2] != '-' || text[35] != '-' || text[52] != '-')
		return false;
	if (!hex_read(text + 3, trace.trace_id, 16) || !hex_read(text + 36, trace.span_id, 8) ||
	    !hex_read(text + 53, &trace.flags, 1))
		return false;
	if (all_zero(trace.trace_id, 16) || all_zero(trace.span_id, 8))
		return false;
	*ret = trace;
	return true;
}

struct trace trace_make(void)
{
	struct trace trace = {.flags = 1};

	random_id(trace.trace_id, sizeof(trace.trace_id));
	random_id(trace.span_id, sizeof(trace.span_id));
	return trace;
}

struct trace trace_child(const struct trace *parent)
{
	struct trace trace = *parent;

	random_id(trace.span_id, sizeof(trace.span_id));
	return trace;
}

void trace_format(const struct trace *trace, char text[TRACE_TEXT_SIZE])
{
	char *at = text;

	memcpy(at, "00-", 3);
	at = hex_write(at + 3, trace->trace_id, 16);
	*at++ = '-';
	at = hex_write(at, trace->span_id, 8);
	*at++ = '-';
	at = hex_write(at, &trace->flags, 1);
	*at = 0;
}

void trace_id_format(const struct trace *trace, char text[33])
{
	*hex_write(text, trace->trace_id, 16) = 0;
}
