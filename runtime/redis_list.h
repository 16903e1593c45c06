/* A ring of places: what stands in it leaves without a search. */
#pragma once

#include <stdbool.h>

/* A place in a list, or a list itself. */
struct redis_list {
	struct redis_list *previous, *next;
};

static inline void redis_list_init(struct redis_list *list)
{
	list->previous = list->next = list;
}

static inline bool redis_list_empty(const struct redis_list *list)
{
	return list->next == list;
}

static inline void redis_list_append(struct redis_list *list, struct redis_list *item)
{
	item->previous = list->previous;
	item->next = list;
	list->previous->next = item;
	list->previous = item;
}

static inline void redis_list_remove(struct redis_list *item)
{
	item->previous->next = item->next;
	item->next->previous = item->previous;
}
