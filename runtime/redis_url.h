/* A Redis URL taken apart: see redis.h for the forms. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/status.h"

#define REDIS_ADDRESSES_MAX 16

struct redis_address {
	char host[256]; /* or a unix socket's path */
	int port;	/* 0: a unix socket */
};

struct redis_url {
	bool tls;
	bool sentinel; /* the addresses are Sentinels', which know where `master` is */
	int database;
	char user[128];
	char password[512]; /* "": none */
	char master[128];
	struct redis_address addresses[REDIS_ADDRESSES_MAX];
	int count;
};

/* False when malformed: *reterr_reason is then a constant text that does not quote the URL. */
bool redis_url_parse(const char *text, struct redis_url *ret_url,
		     const char **reterr_reason) MUST_USE;
