/* What every HTTP request goes through first. */
#pragma once

#include "gateway/gateway.h"

/* The table of edge_routes; before the first request. */
void edge_routes_make(struct gateway *gateway);
/* struct http_options' request; `self` is the gateway. */
void edge_request(void *self, struct http_exchange *exchange);
