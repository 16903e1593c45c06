/* A binary heap of timers by time; each timer knows its place, so that stopping one is O(log n). */
#include "runtime/timers.h"

#include <assert.h>
#include <stdlib.h>

static void place(struct timers *timers, uint32_t index, struct timer *timer)
{
	timers->heap[index] = timer;
	timer->index = index;
}

static void rise(struct timers *timers, uint32_t index, struct timer *timer)
{
	while (index > 1 && timers->heap[index / 2]->at_us > timer->at_us) {
		place(timers, index, timers->heap[index / 2]);
		index /= 2;
	}
	place(timers, index, timer);
}

static void sink(struct timers *timers, uint32_t index, struct timer *timer)
{
	for (;;) {
		uint32_t child = index * 2;

		if (child > timers->count)
			break;
		if (child < timers->count &&
		    timers->heap[child + 1]->at_us < timers->heap[child]->at_us)
			child++;
		if (timers->heap[child]->at_us >= timer->at_us)
			break;
		place(timers, index, timers->heap[child]);
		index = child;
	}
	place(timers, index, timer);
}

void timers_set(struct timers *timers, struct timer *timer, int64_t at_us)
{
	if (timer->index)
		timers_remove(timers, timer);
	if (timers->count + 1 >= timers->room) {
		timers->room = timers->room ? timers->room * 2 : 64;
		timers->heap = realloc(timers->heap, timers->room * sizeof(struct timer *));
		assert(timers->heap);
	}
	timer->at_us = at_us;
	rise(timers, ++timers->count, timer);
}

void timers_remove(struct timers *timers, struct timer *timer)
{
	uint32_t index = timer->index;
	struct timer *last = timers->heap[timers->count--];

	assert(index);
	timer->index = 0;
	if (last == timer)
		return;
	if (index > 1 && timers->heap[index / 2]->at_us > last->at_us)
		rise(timers, index, last);
	else
		sink(timers, index, last);
}

bool timers_fire(struct timers *timers, int64_t now_us)
{
	bool fired = false;

	while (timers->count && timers->heap[1]->at_us <= now_us) {
		struct timer *timer = timers->heap[1];

		timers_remove(timers, timer);
		timer->fire(timer);
		fired = true;
	}
	return fired;
}

int64_t timers_next_us(const struct timers *timers)
{
	return timers->count ? timers->heap[1]->at_us : -1;
}

void timers_free(struct timers *timers)
{
	free(timers->heap);
}
