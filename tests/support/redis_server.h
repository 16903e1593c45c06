/* A real redis-server for a test: a child in a temporary folder, on a free port and a unix socket,
 * with its append-only file fsynced at every write.
 *
 * It never outlives the test, however that ends. What cannot be done ends the test with a message.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>

struct redis_server;

struct redis_server_options {
	const char *password; /* requirepass */
	const char
		*acl; /* "user shop on >secret ~* &* +@all": one line of the ACL file, or several */
	bool tls; /* the port speaks TLS; redis_server_ca() signed for 127.0.0.1 and localhost */
	const struct redis_server *replica_of;
	const struct redis_server
		*sentinel_of; /* a Sentinel, quorum 1, that calls this one "shop" */
	bool forgetful;	      /* no append-only file: loses all at restart */
};

/* Returns when it answers. `options` may be NULL. */
struct redis_server *redis_server_start(const struct redis_server_options *options);
/* Stops it, however it stands, and removes its folder. NULL is taken. */
void redis_server_free(struct redis_server *server);

const char *redis_server_url(
	const struct redis_server *server); /* redis://… or rediss://…, with the password */
const char *redis_server_unix_url(const struct redis_server *server);
const char *redis_server_ca(const struct redis_server *server);
const char *redis_server_folder(const struct redis_server *server);
int redis_server_port(const struct redis_server *server);

void redis_server_kill(struct redis_server *server); /* kill -9 */
/* Kills it if it runs, then starts it on the same port with the same data. */
void redis_server_restart(struct redis_server *server);
void redis_server_pause(struct redis_server *server); /* SIGSTOP: connected and silent */
void redis_server_resume(struct redis_server *server);

/* A command by a connection of the test's own; as in redisCommand(). An error reply ends the test.
 * The result is valid until the next ask. */
const redisReply *redis_server_ask(struct redis_server *server, const char *format, ...);
