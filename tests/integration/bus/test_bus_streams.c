/* The conformance suite on Redis Streams: a server for each test. */
#include "tests/integration/bus/suite.h"
#include "tests/support/redis_server.h"

static struct redis_server *server;

static void before(void)
{
	server = redis_server_start(NULL);
}

static void after(void)
{
	redis_server_free(server);
}

static const char *url(void)
{
	return redis_server_url(server);
}

static void kill_server(void)
{
	redis_server_kill(server);
}

static void resume(void)
{
	redis_server_restart(server);
}

static void forget(void)
{
	redis_server_ask(server, "FLUSHALL");
}

int main(void)
{
	return bus_suite_run(&(struct bus_server){.name = "bus on Redis Streams",
						  .before = before,
						  .after = after,
						  .url = url,
						  .kill = kill_server,
						  .resume = resume,
						  .forget = forget});
}
