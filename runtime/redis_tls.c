/* TLS towards Redis.
 *
 * hiredis drives the handshake and the records, but checks only the chain: the SSL object is made
 * here so that the host's name is checked too, and so that a refusal can be told in words.
 */
#include "runtime/redis_tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>

struct redis_tls {
	SSL_CTX *context;
};

struct redis_tls *redis_tls_create(const char *ca, const char **reterr_reason)
{
	struct redis_tls *tls = calloc(1, sizeof(*tls));

	assert(tls);
	tls->context = SSL_CTX_new(TLS_client_method());
	assert(tls->context);
	SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
	SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
	if (ca ? !SSL_CTX_load_verify_locations(tls->context, ca, NULL)
	       : !SSL_CTX_set_default_verify_paths(tls->context)) {
		*reterr_reason = ca ? "the TLS CA file cannot be read or holds no certificate"
				    : "the system's TLS certificates cannot be read";
		redis_tls_destroy(tls);
		return NULL;
	}
	return tls;
}

void redis_tls_destroy(struct redis_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	free(tls);
}

struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, redisContext *context,
					  const char *host)
{
	SSL *ssl = SSL_new(tls->context);
	struct in6_addr address;
	bool numeric =
		inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
	int named;

	assert(ssl);
	named = numeric ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host)
			: SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
	if (!named || redisInitiateSSL(context, ssl) != REDIS_OK) {
		SSL_free(ssl);
		return NULL;
	}
	return (struct redis_tls_session *)ssl;
}

const char *redis_tls_reason(struct redis_tls_session *session)
{
	long verified = SSL_get_verify_result((SSL *)session);

	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	if (!SSL_get0_peer_certificate((SSL *)session))
		return "the TLS handshake failed: is TLS spoken on this port?";
	return NULL;
}
