/* TLS towards Redis: the server's certificate is checked against the CA and its name. */
#pragma once

#include <hiredis/hiredis.h>

#include "runtime/status.h"

struct redis_tls;
struct redis_tls_session;

/* `ca` is a PEM file; NULL: the system's. NULL, with the reason in *reterr_reason, when it cannot
 * be read. */
struct redis_tls *redis_tls_create(const char *ca, const char **reterr_reason) MUST_USE;
void redis_tls_destroy(struct redis_tls *tls);

/* On a connected context. `host` is the name that the certificate must bear. NULL, with the
 * context's error set, on failure. The session lives as long as the context. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, redisContext *context,
					  const char *host) MUST_USE;
/* What went wrong in it; NULL when nothing did. */
const char *redis_tls_reason(struct redis_tls_session *session);
