/* The sale page: static files from gateway/web, embedded. */
#pragma once

#include "gateway/gateway.h"

/* False when the path names none of them. */
bool page_serve(struct gateway *gateway, struct http_exchange *exchange);
