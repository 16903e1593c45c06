/* Purchases: the reservations of many buyers in one ReserveMany, or answered here when the sale is sold out. */
#pragma once

#include "gateway/visit.h"

struct reserves;

struct reserves *reserves_create(struct gateway *gateway);
void reserves_destroy(struct reserves *reserves);

/* Does this route go through here? */
bool reserves_route(const struct reserves *reserves, const struct edge_route *route);
/* `bytes` is a ReserveRequest; they are copied. `own_id`: the request id was made here just now, so it cannot be a
 * repeat. */
void reserves_start(struct reserves *reserves, const struct visit *visit, const uint8_t *bytes,
		    size_t size, bool own_id);
