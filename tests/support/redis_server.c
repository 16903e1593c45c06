/* A real redis-server for a test.
 *
 * The child dies with us (PDEATHSIG) even when a test crashes or is killed; an orderly exit, also
 * that of a failed test, stops it and removes its folder.
 */
#include "tests/support/redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS_MAX 5
#define READY_MAX_MS 10000

struct redis_server {
	struct redis_server *next;
	pid_t pid, owner; /* owner: the process that may stop it */
	int port;
	char folder[64], socket[96], url[256], unix_url[128], ca[128];
	char password[64];
	bool tls, forgetful, sentinel;
	int replica_of;
	redisContext *context;
	redisReply *reply;
};

static struct redis_server *servers;

/* Ends the test, with the end of the server's log. */
static void give_up(const struct redis_server *server, const char *what)
{
	char path[128], tail[2048];
	FILE *log = NULL;
	size_t size = 0;

	if (server) {
		snprintf(path, sizeof(path), "%s/log", server->folder);
		log = fopen(path, "r");
	}
	if (log) {
		if (fseek(log, -(long)sizeof(tail), SEEK_END) != 0)
			rewind(log);
		size = fread(tail, 1, sizeof(tail), log);
		fclose(log);
	}
	fprintf(stderr, "redis_server: %s\n%.*s", what, (int)size, tail);
	exit(1);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
	(void)status;
	(void)flag;
	(void)walk;
	return remove(path);
}

static void server_hang_up(struct redis_server *server)
{
	freeReplyObject(server->reply);
	server->reply = NULL;
	if (server->context)
		redisFree(server->context);
	server->context = NULL;
}

static void stop_all(void)
{
	while (servers && servers->owner == getpid())
		redis_server_free(servers);
}

/* --- starting --------------------------------------------------------------------------------- */

static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		give_up(NULL, "no free port");
	close(fd);
	return ntohs(address.sin_port);
}

static void run(const struct redis_server *server, const char *command)
{
	if (system(command) != 0)
		give_up(server, command);
}

/* A CA, and a certificate by it for 127.0.0.1 and localhost. */
static void make_certificates(struct redis_server *server)
{
	char command[2048];
	const char *folder = server->folder;

	snprintf(server->ca, sizeof(server->ca), "%s/ca.pem", folder);
	snprintf(
		command, sizeof(command),
		"cd %s && exec 2>>log && "
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
		"-subj '/CN=test CA' -keyout ca.key -out ca.pem && "
		"openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		"-subj '/CN=redis' -keyout server.key -out server.csr && "
		"echo 'subjectAltName=IP:127.0.0.1,DNS:localhost' >extensions && "
		"openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
		"-extfile extensions -out server.pem",
		folder);
	run(server, command);
}

static void write_file(const struct redis_server *server, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", server->folder, name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		give_up(server, "cannot write a file of its folder");
}

static void write_configuration(struct redis_server *server)
{
	char text[2048];
	int at = snprintf(
		text, sizeof(text),
		"bind 127.0.0.1 127.0.0.2\nunixsocket %s\ndir %s\nlogfile %s/log\n%s %d\n",
		server->socket, server->folder, server->folder,
		server->tls ? "port 0\ntls-auth-clients no\ntls-port" : "port", server->port);
#define ADD(...) at += snprintf(text + at, sizeof(text) - (size_t)at, __VA_ARGS__)

	if (server->tls)
		ADD("tls-cert-file %s/server.pem\ntls-key-file %s/server.key\n"
		    "tls-ca-cert-file %s/ca.pem\n",
		    server->folder, server->folder, server->folder);
	if (server->sentinel) {
		ADD("sentinel monitor shop 127.0.0.1 %d 1\n"
		    "sentinel down-after-milliseconds shop 300\n"
		    "sentinel failover-timeout shop 2000\n",
		    server->replica_of);
		if (*server->password)
			ADD("sentinel auth-pass shop %s\n", server->password);
	} else {
		ADD("save \"\"\nappendonly %s\nappendfsync always\nenable-debug-command yes\n"
		    "repl-diskless-sync-delay 0\n",
		    server->forgetful ? "no" : "yes");
		if (server->replica_of)
			ADD("replicaof 127.0.0.1 %d\n", server->replica_of);
		if (*server->password)
			ADD("requirepass %s\nmasterauth %s\n", server->password, server->password);
	}
#undef ADD
	write_file(server, "redis.conf", text);
}

static void server_exec(const struct redis_server *server, pid_t parent, bool has_acl)
{
	char conf[128], acl[128];
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	snprintf(conf, sizeof(conf), "%s/redis.conf", server->folder);
	snprintf(acl, sizeof(acl), "%s/users.acl", server->folder);
	if (server->sentinel)
		execlp("redis-server", "redis-server", conf, "--sentinel", NULL);
	else if (has_acl)
		execlp("redis-server", "redis-server", conf, "--aclfile", acl, NULL);
	else
		execlp("redis-server", "redis-server", conf, NULL);
	_exit(127);
}

/* Whether it answers PING within the time; false too when it has exited. */
static bool server_answers(struct redis_server *server)
{
	for (int waited_ms = 0; waited_ms < READY_MAX_MS; waited_ms += 5) {
		redisContext *context = redisConnectUnix(server->socket);
		redisReply *reply = NULL;
		bool answers = false;
		int status;

		if (context && !context->err)
			reply = redisCommand(context, "PING");
		if (reply)
			answers = strncmp(reply->str, "LOADING", 7) != 0 &&
				  strncmp(reply->str, "MASTERDOWN", 10) != 0;
		freeReplyObject(reply);
		redisFree(context);
		if (answers)
			return true;
		if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
			server->pid = 0;
			return false;
		}
		usleep(5000);
	}
	return false;
}

static bool server_run(struct redis_server *server)
{
	char acl[128];
	bool has_acl;
	pid_t self = getpid();

	snprintf(acl, sizeof(acl), "%s/users.acl", server->folder);
	has_acl = access(acl, F_OK) == 0;
	/* A killed server leaves its socket behind. */
	unlink(server->socket);
	server->pid = fork();
	if (server->pid < 0)
		give_up(server, "cannot fork");
	if (server->pid == 0)
		server_exec(server, self, has_acl);
	return server_answers(server);
}

struct redis_server *redis_server_start(const struct redis_server_options *options)
{
	static const struct redis_server_options plain;
	static pid_t registered;
	struct redis_server *server = calloc(1, sizeof(*server));

	if (!server)
		abort();
	if (!options)
		options = &plain;
	/* A test that Check has forked starts with the servers, if any, of its parent in the list.
	 */
	if (registered != getpid()) {
		registered = getpid();
		servers = NULL;
		atexit(stop_all);
	}
	strcpy(server->folder, "/tmp/stampede-redis-XXXXXX");
	if (!mkdtemp(server->folder))
		give_up(server, "cannot make a temporary folder");
	server->owner = getpid();
	server->next = servers;
	servers = server;
	snprintf(server->socket, sizeof(server->socket), "%s/socket", server->folder);
	snprintf(server->unix_url, sizeof(server->unix_url), "unix://%s", server->socket);
	snprintf(server->password, sizeof(server->password), "%s",
		 options->password ? options->password : "");
	server->tls = options->tls;
	server->forgetful = options->forgetful;
	server->sentinel = options->sentinel_of;
	if (options->replica_of)
		server->replica_of = options->replica_of->port;
	if (options->sentinel_of)
		server->replica_of = options->sentinel_of->port;
	if (server->tls)
		make_certificates(server);
	if (options->acl)
		write_file(server, "users.acl", options->acl);

	for (int starts = 0;; starts++) {
		server->port = free_port();
		write_configuration(server);
		if (server_run(server))
			break;
		/* Somebody was quicker to take the port. */
		if (server->pid || starts == STARTS_MAX)
			give_up(server, "redis-server does not start");
	}
	snprintf(server->url, sizeof(server->url), "%s://%s%s%s127.0.0.1:%d",
		 server->tls ? "rediss" : "redis", *server->password ? ":" : "", server->password,
		 *server->password ? "@" : "", server->port);
	return server;
}

/* --- stopping --------------------------------------------------------------------------------- */

void redis_server_kill(struct redis_server *server)
{
	server_hang_up(server);
	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
}

void redis_server_restart(struct redis_server *server)
{
	redis_server_kill(server);
	if (!server_run(server))
		give_up(server, "redis-server does not start again");
}

void redis_server_pause(struct redis_server *server)
{
	kill(server->pid, SIGSTOP);
}

void redis_server_resume(struct redis_server *server)
{
	kill(server->pid, SIGCONT);
}

void redis_server_free(struct redis_server *server)
{
	struct redis_server **at = &servers;

	if (!server)
		return;
	redis_server_kill(server);
	nftw(server->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	while (*at && *at != server)
		at = &(*at)->next;
	if (*at)
		*at = server->next;
	free(server);
}

/* --- asking ----------------------------------------------------------------------------------- */

const char *redis_server_url(const struct redis_server *server)
{
	return server->url;
}

const char *redis_server_unix_url(const struct redis_server *server)
{
	return server->unix_url;
}

const char *redis_server_ca(const struct redis_server *server)
{
	return server->ca;
}

const char *redis_server_folder(const struct redis_server *server)
{
	return server->folder;
}

int redis_server_port(const struct redis_server *server)
{
	return server->port;
}

static void server_connect(struct redis_server *server)
{
	server->context = redisConnectUnix(server->socket);
	if (!server->context || server->context->err)
		give_up(server, "cannot connect to it");
	if (*server->password && !server->sentinel)
		freeReplyObject(redisCommand(server->context, "AUTH %s", server->password));
}

const redisReply *redis_server_ask(struct redis_server *server, const char *format, ...)
{
	/* A server that becomes a master or a replica hangs up on everybody: then once more. */
	for (int tries = 0; tries < 2; tries++) {
		va_list args;

		freeReplyObject(server->reply);
		if (!server->context)
			server_connect(server);
		va_start(args, format);
		server->reply = redisvCommand(server->context, format, args);
		va_end(args);
		if (server->reply)
			break;
		server_hang_up(server);
	}
	if (!server->reply)
		give_up(server, "it hangs up on us");
	if (server->reply->type == REDIS_REPLY_ERROR)
		give_up(server, server->reply->str);
	return server->reply;
}
