/* The two clocks: monotonic for durations and deadlines, wall only for calendars and messages.
 * Tests may put their own behind both. */
#pragma once

#include <stdint.h>

int64_t clock_monotonic_us(void);
int64_t clock_wall_ms(void);

/* For tests: both clocks are read from these from now on; NULL brings the real one back. */
void clock_replace(int64_t (*monotonic_us)(void), int64_t (*wall_ms)(void));
