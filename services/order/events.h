/* The bus as the order service uses it: two topics in, one out. Only this file and consume.c,
 * which handles batches, know the bus. */
#pragma once

#include "runtime/bus.h"

struct events;
struct order_service;

#define EVENTS_TOPIC_RESERVATIONS "reservations"
#define EVENTS_TOPIC_ORDERS "orders"
#define EVENTS_TOPIC_UNPAID "unpaid-orders" /* the scheduler's queue too */

/* NULL, with the reason logged, when the bus's URL is malformed. Consumes from now on. */
struct events *events_create(struct order_service *service, const char *client_id);
/* `closed` runs when batches in hand are over and what was published is confirmed. */
void events_close(struct events *events, void (*closed)(void *context), void *context);
void events_destroy(struct events *events);

/* OrdersChanged of one lane; publish->done, key and value are set. */
void events_publish(struct events *events, struct bus_publish *publish, int lane);

/* Records not yet consumed, and those given up; -1 when unknown. */
int64_t events_backlog(const struct events *events);
int64_t events_dead_letters(const struct events *events);
