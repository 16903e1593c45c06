/* Cross-origin requests: https://fetch.spec.whatwg.org/#http-cors-protocol */
#pragma once

#include "gateway/settings.h"
#include "runtime/http.h"

/* Adds the headers an allowed origin gets. True when it was a preflight, which is answered now. */
bool cors_handle(const struct gateway_settings *settings, struct http_exchange *exchange);
