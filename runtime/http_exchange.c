/* What a handler asks of a request. */
#include <arpa/inet.h>
#include <string.h>

#include "runtime/http_internal.h"

const char *http_method(const struct http_exchange *exchange)
{
	return exchange->method;
}

const char *http_path(const struct http_exchange *exchange)
{
	return exchange->path;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
	return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_exchange *exchange, size_t *ret_size)
{
	*ret_size = exchange->body_size;
	return exchange->body ? exchange->body : "";
}

struct arena *http_arena(struct http_exchange *exchange)
{
	return &exchange->arena;
}

void http_set_context(struct http_exchange *exchange, void *context,
		      void (*gone)(struct http_exchange *exchange, void *context))
{
	exchange->context = context;
	exchange->gone = gone;
}

const char *http_peer(struct http_exchange *exchange)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;
	const struct sockaddr_in6 *six = (const void *)address;
	const struct sockaddr_in *four = (const void *)address;

	if (*exchange->peer || !address)
		return exchange->peer;
	if (address->sa_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, exchange->peer, sizeof(exchange->peer));
	else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, exchange->peer,
			  sizeof(exchange->peer));
	else if (address->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &six->sin6_addr, exchange->peer, sizeof(exchange->peer));
	return exchange->peer;
}

/* --- the query ----------------------------------------------------------------------------------
 */

struct query {
	struct http_exchange *exchange;
	void (*each)(void *context, const char *name, const char *value);
	void *context;
};

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* %41 and + are decoded, what is no escape stays as it is; a %00 would end the text and stays too.
 */
static const char *decode(struct arena *arena, const char *text)
{
	char *decoded, *out;

	if (!text)
		return "";
	if (!strpbrk(text, "%+"))
		return text;
	decoded = out = arena_alloc(arena, strlen(text) + 1);
	for (; *text; text++) {
		int high = *text == '%' ? hex(text[1]) : -1;
		int low = high >= 0 ? hex(text[2]) : -1;

		if (low >= 0 && (high | low)) {
			*out++ = (char)(high << 4 | low);
			text += 2;
		} else {
			*out++ = *text == '+' ? ' ' : *text;
		}
	}
	*out = 0;
	return decoded;
}

static enum MHD_Result query_each(void *self, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	struct query *query = self;
	struct arena *arena = &query->exchange->arena;

	(void)kind;
	query->each(query->context, decode(arena, name), decode(arena, value));
	return MHD_YES;
}

void http_query(struct http_exchange *exchange,
		void (*each)(void *context, const char *name, const char *value), void *context)
{
	struct query query = {exchange, each, context};

	MHD_get_connection_values(exchange->connection, MHD_GET_ARGUMENT_KIND, query_each, &query);
}
