/* The conformance suite on Kafka: one server for all, each test with a topic of its own. */
#include <stdio.h>

#include "tests/integration/bus/suite.h"
#include "tests/support/kafka_server.h"

static struct kafka_server *server;

static void nothing(void)
{
}

/* A dead consumer is noticed sooner than usual. */
static const char *url(void)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s?session.timeout.ms=3000&heartbeat.interval.ms=500",
		 kafka_server_url(server));
	return text;
}

static void kill_server(void)
{
	kafka_server_kill(server);
}

static void resume(void)
{
	kafka_server_resume(server);
}

int main(void)
{
	int failed;

	server = kafka_server_start();
	failed = bus_suite_run(&(struct bus_server){.name = "bus on Kafka",
						    .before = nothing,
						    .after = nothing,
						    .url = url,
						    .kill = kill_server,
						    .resume = resume});
	kafka_server_free(server);
	return failed;
}
