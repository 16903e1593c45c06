/* What becomes of records: reservations are placed as orders, fired jobs cancel unpaid ones. */
#pragma once

#include "runtime/bus.h"

struct consume;
struct order_service;

struct consume *consume_create(struct order_service *service);
void consume_destroy(struct consume *consume);

/* For struct bus_consumer_options; `self` is the struct consume. */
void consume_reservations(void *self, struct bus_batch *batch);
void consume_dead_reservations(void *self, const struct bus_record *record);
void consume_unpaid(void *self, struct bus_batch *batch);
void consume_dead_unpaid(void *self, const struct bus_record *record);
