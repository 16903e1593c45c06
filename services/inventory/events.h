/* What inventory hears by the bus: orders paid (their units are sold) and cancelled (they return). */
#pragma once

#include "inventory/inventory.h"

struct events;
struct events *events_create(struct inventory *inventory);
void events_destroy(struct events *events);
