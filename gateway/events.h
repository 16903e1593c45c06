/* Server streams to HTTP clients as server-sent events (SSE). */
#pragma once

#include "gateway/visit.h"

struct events;

struct events *events_create(struct gateway *gateway);
/* Ends every stream, well: the drain begins. */
void events_quiesce(struct events *events);
void events_destroy(struct events *events);
/* `request` is copied. */
void events_start(const struct visit *visit, const uint8_t *request, size_t size);
