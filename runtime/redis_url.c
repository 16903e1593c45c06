/* Redis URLs: redis://, rediss://, unix://, sentinel://.
 *
 *     scheme :// [user][:password]@ host:port[,host:port] [/database | /master-name[/database]]
 *
 * Strict: what is not understood is refused with a reason, for a URL half understood connects to
 * the wrong place. User and password may be percent-encoded. The reason never quotes the URL, which
 * may hold a password.
 */
#include "runtime/redis_url.h"

#include <string.h>

#define PORT_REDIS 6379
#define PORT_SENTINEL 26379
#define DATABASE_MAX 65535

static int hex_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

/* Decodes %XX into `out`; false when it is malformed, holds a zero byte or does not fit. */
static bool percent_decode(const char *from, const char *end, char *out, size_t room)
{
	size_t size = 0;

	while (from < end) {
		int byte = (unsigned char)*from++;

		if (byte == '%') {
			int high = from < end ? hex_value(from[0]) : -1;
			int low = from + 1 < end ? hex_value(from[1]) : -1;

			if (high < 0 || low < 0)
				return false;
			byte = high * 16 + low;
			from += 2;
		}
		if (!byte || size + 1 >= room)
			return false;
		out[size++] = (char)byte;
	}
	out[size] = 0;
	return true;
}

static bool text_copy(const char *from, const char *end, char *out, size_t room)
{
	size_t size = (size_t)(end - from);

	if (!size || size >= room)
		return false;
	memcpy(out, from, size);
	out[size] = 0;
	return true;
}

static bool number_parse(const char *from, const char *end, int max, int *ret_number)
{
	int number = 0;

	if (from == end)
		return false;
	for (; from < end; from++) {
		if (*from < '0' || *from > '9')
			return false;
		number = number * 10 + (*from - '0');
		if (number > max)
			return false;
	}
	*ret_number = number;
	return true;
}

static const char *find(const char *from, const char *end, char what)
{
	return from < end ? memchr(from, what, (size_t)(end - from)) : NULL;
}

static const char *credentials_parse(const char *from, const char *end, struct redis_url *url)
{
	const char *colon = find(from, end, ':');

	if (!colon)
		return "credentials must be user:password@ or :password@";
	if (!percent_decode(from, colon, url->user, sizeof(url->user)))
		return "the user is too long or badly percent-encoded";
	if (!percent_decode(colon + 1, end, url->password, sizeof(url->password)))
		return "the password is too long or badly percent-encoded";
	if (!*url->password)
		return "the password is empty";
	return NULL;
}

/* host, host:port, [v6] or [v6]:port */
static const char *address_parse(const char *from, const char *end, int port,
				 struct redis_address *address)
{
	const char *host_end;
	const char *rest;

	if (from < end && *from == '[') {
		host_end = find(++from, end, ']');
		if (!host_end)
			return "an IPv6 address lacks its ']'";
		rest = host_end + 1;
		if (rest < end && *rest != ':')
			return "only a port may follow an IPv6 address";
	} else {
		host_end = find(from, end, ':');
		if (!host_end)
			host_end = end;
		rest = host_end;
	}
	if (!text_copy(from, host_end, address->host, sizeof(address->host)))
		return "the host is empty or too long";
	for (const char *at = address->host; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return "the host holds a blank or control character";

	address->port = port;
	if (rest < end && (!number_parse(rest + 1, end, 65535, &address->port) || !address->port))
		return "the port must be a number from 1 to 65535";
	return NULL;
}

static const char *addresses_parse(const char *from, const char *end, struct redis_url *url)
{
	int port = url->sentinel ? PORT_SENTINEL : PORT_REDIS;

	for (;;) {
		const char *comma = find(from, end, ',');
		const char *reason;

		if (comma && !url->sentinel)
			return "only sentinel:// takes several hosts";
		if (url->count == REDIS_ADDRESSES_MAX)
			return "too many hosts: at most 16";
		reason =
			address_parse(from, comma ? comma : end, port, &url->addresses[url->count]);
		if (reason)
			return reason;
		url->count++;
		if (!comma)
			return NULL;
		from = comma + 1;
	}
}

/* What follows the hosts' '/'. */
static const char *path_parse(const char *from, const char *end, struct redis_url *url)
{
	if (url->sentinel) {
		const char *slash = find(from, end, '/');

		if (!text_copy(from, slash ? slash : end, url->master, sizeof(url->master)))
			return "sentinel:// needs /master-name after the hosts";
		if (!slash)
			return NULL;
		from = slash + 1;
	}
	if (from < end && !number_parse(from, end, DATABASE_MAX, &url->database))
		return "the database must be a number from 0 to 65535";
	return NULL;
}

static const char *unix_parse(const char *from, const char *end, struct redis_url *url)
{
	const char *query = find(from, end, '?');

	if (query) {
		if (end - query < 4 || memcmp(query, "?db=", 4) != 0 ||
		    !number_parse(query + 4, end, DATABASE_MAX, &url->database))
			return "after a socket's path only ?db=NUMBER may stand";
		end = query;
	}
	if (from == end || *from != '/')
		return "a socket's path must be absolute: unix:///path";
	/* struct sockaddr_un's limit */
	if (end - from > 107)
		return "the socket's path is longer than 107 bytes";
	if (!text_copy(from, end, url->addresses[0].host, sizeof(url->addresses[0].host)))
		return "the socket's path is too long";
	url->count = 1;
	return NULL;
}

static const char *authority_parse(const char *from, const char *end, struct redis_url *url)
{
	const char *slash;
	const char *at;
	const char *reason;

	if (find(from, end, '?') || find(from, end, '#'))
		return "no query or fragment is understood";
	slash = find(from, end, '/');
	at = memrchr(from, '@', (size_t)((slash ? slash : end) - from));
	if (at) {
		reason = credentials_parse(from, at, url);
		if (reason)
			return reason;
		from = at + 1;
	}
	reason = addresses_parse(from, slash ? slash : end, url);
	if (reason)
		return reason;
	return path_parse(slash ? slash + 1 : end, end, url);
}

bool redis_url_parse(const char *text, struct redis_url *ret_url, const char **reterr_reason)
{
	struct redis_url url = {0};
	const char *end = text + strlen(text);
	const char *reason;

	if (strncmp(text, "unix://", 7) == 0) {
		reason = unix_parse(text + 7, end, &url);
	} else if (strncmp(text, "redis://", 8) == 0) {
		reason = authority_parse(text + 8, end, &url);
	} else if (strncmp(text, "rediss://", 9) == 0) {
		url.tls = true;
		reason = authority_parse(text + 9, end, &url);
	} else if (strncmp(text, "sentinel://", 11) == 0) {
		url.sentinel = true;
		reason = authority_parse(text + 11, end, &url);
	} else {
		reason = "it must begin with redis://, rediss://, unix:// or sentinel://";
	}
	if (reason) {
		*reterr_reason = reason;
		return false;
	}
	*ret_url = url;
	return true;
}
