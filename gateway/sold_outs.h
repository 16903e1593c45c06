/* Which sales are sold out, as their stock's stream says: for answers that need no service. */
#pragma once

#include "gateway/gateway.h"

struct sold_outs;

struct sold_outs *sold_outs_create(struct gateway *gateway);
void sold_outs_destroy(struct sold_outs *sold_outs);
/* True while the stream of that sale says that it is open, within its window, and has nothing available. */
bool sold_outs_has(struct sold_outs *sold_outs, const char *sale_id, size_t size);
/* A service has answered SOLD_OUT: the sale is followed from now on. */
void sold_outs_noticed(struct sold_outs *sold_outs, const char *sale_id, size_t size);
