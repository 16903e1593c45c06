#include "runtime/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t (*monotonic)(void);
static int64_t (*wall)(void);

int64_t clock_monotonic_us(void)
{
	struct timespec now;

	if (monotonic)
		return monotonic();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_wall_ms(void)
{
	struct timespec now;

	if (wall)
		return wall();
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_replace(int64_t (*monotonic_us)(void), int64_t (*wall_ms)(void))
{
	monotonic = monotonic_us;
	wall = wall_ms;
}
