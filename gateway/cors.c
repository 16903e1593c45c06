#include "gateway/cors.h"

#include <string.h>

static bool origin_allowed(const char *list, const char *origin)
{
	size_t size = strlen(origin), length;

	if (strcmp(list, "*") == 0)
		return true;
	for (; *list; list += length + (list[length] == ',')) {
		list += strspn(list, " ");
		length = strcspn(list, ",");
		if (length == size && memcmp(list, origin, size) == 0)
			return true;
	}
	return false;
}

bool cors_handle(const struct gateway_settings *settings, struct http_exchange *exchange)
{
	const char *origin = http_header(exchange, "Origin");

	if (!origin || !origin_allowed(settings->cors_origins, origin))
		return false;
	http_add_header(exchange, "Access-Control-Allow-Origin", origin);
	http_add_header(exchange, "Vary", "Origin");
	if (strcmp(http_method(exchange), "OPTIONS") != 0 ||
	    !http_header(exchange, "Access-Control-Request-Method")) {
		http_add_header(exchange, "Access-Control-Expose-Headers",
				"traceparent, Retry-After");
		return false;
	}
	http_add_header(exchange, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
	http_add_header(exchange, "Access-Control-Allow-Headers",
			"Content-Type, Idempotency-Key, Stampede-Attempt, Grpc-Timeout, "
			"X-Request-Timeout, traceparent");
	http_add_header(exchange, "Access-Control-Max-Age", "86400");
	http_respond(exchange, 204, NULL, "", 0);
	return true;
}
