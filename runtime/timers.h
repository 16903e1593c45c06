/* The heap behind loop.h's timers: nearest first. */
#pragma once

#include "runtime/loop.h"

struct timers {
	struct timer **heap; /* from 1 */
	uint32_t count, room;
};

void timers_set(struct timers *timers, struct timer *timer, int64_t at_us);
void timers_remove(struct timers *timers, struct timer *timer);
/* Fires those due; true when there was one. What a timer starts anew fires in a later call. */
bool timers_fire(struct timers *timers, int64_t now_us);
/* -1: none. */
int64_t timers_next_us(const struct timers *timers);
void timers_free(struct timers *timers);
