/* A real Kafka for a test: see kafka_server.h. The work is the script's. */
#include "tests/support/kafka_server.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct kafka_server {
	char folder[64], url[64];
	int port, controller_port;
};

static void give_up(const char *what)
{
	fprintf(stderr, "kafka_server: %s\n", what);
	exit(1);
}

static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		give_up("no free port");
	close(fd);
	return ntohs(address.sin_port);
}

static void run(const struct kafka_server *server, const char *verb, const char *argument)
{
	char command[512];

	snprintf(command, sizeof(command), "KAFKA_CONTROLLER_PORT=%d %s %s %s %s",
		 server->controller_port, KAFKA_SCRIPT, verb, server->folder, argument);
	if (system(command) != 0)
		give_up(command);
}

struct kafka_server *kafka_server_start(void)
{
	struct kafka_server *server = calloc(1, sizeof(*server));
	char owner[16];

	if (!server)
		give_up("no memory");
	strcpy(server->folder, "/tmp/stampede-kafka-XXXXXX");
	if (!mkdtemp(server->folder))
		give_up("no temporary folder");
	server->port = free_port();
	server->controller_port = free_port();
	snprintf(server->url, sizeof(server->url), "kafka://127.0.0.1:%d", server->port);
	/* The script's watchman ends the server when this process is gone. */
	snprintf(owner, sizeof(owner), "%d", (int)getpid());
	setenv("KAFKA_OWNER", owner, 1);
	kafka_server_resume(server);
	return server;
}

void kafka_server_free(struct kafka_server *server)
{
	if (!server)
		return;
	kafka_server_kill(server);
	run(server, "remove", "");
	free(server);
}

const char *kafka_server_url(const struct kafka_server *server)
{
	return server->url;
}

void kafka_server_kill(struct kafka_server *server)
{
	run(server, "kill", "");
}

void kafka_server_resume(struct kafka_server *server)
{
	char port[16];

	snprintf(port, sizeof(port), "%d", server->port);
	run(server, "start", port);
}
