/* Hands the outbox on: events to the bus, jobs to the scheduler, releases to inventory. */
#pragma once

#include "services/order/outbox.h"

struct relay;
struct order_service;

struct relay *relay_create(struct order_service *service);
/* What a transaction wrote, in order; takes the records over. */
void relay_take(struct relay *relay, struct outbox_record *records);
/* The bus or the database is back: try again now, and look for what was left behind. */
void relay_kick(struct relay *relay);
/* Hands nothing on any more; what was confirmed is still removed. What is left is handed on at
 * the next start. */
void relay_close(struct relay *relay);
/* RPCs under way are given up first. */
void relay_destroy(struct relay *relay);
