/* kafka:// URLs and librdkafka's configuration. Values are never logged: they may be secrets. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bus_kafka.h"
#include "runtime/log.h"

#define PROPERTIES_MAX 64

struct kafka_config {
	char *text; /* the URL, cut into pieces */
	const char *client_id;
	const char *servers;
	const char *names[PROPERTIES_MAX], *values[PROPERTIES_MAX];
	int count;
};

static void percent_decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%' && isxdigit((unsigned char)text[1]) &&
		    isxdigit((unsigned char)text[2])) {
			*to++ = (char)strtol((char[]){text[1], text[2], 0}, NULL, 16);
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = 0;
}

static bool config_parse(struct kafka_config *config, const char **reterr)
{
	char *query = strchr(config->text, '?'), *pair;

	config->servers = config->text + strlen("kafka://");
	if (query)
		*query++ = 0;
	if (!*config->servers || strpbrk(config->servers, "/@ ")) {
		*reterr = "kafka://host:port[,host:port…][?property=value&…] is expected";
		return false;
	}
	while ((pair = strsep(&query, "&"))) {
		char *value = strchr(pair, '=');

		if (!value || config->count == PROPERTIES_MAX) {
			*reterr = "a property must have the form name=value";
			return false;
		}
		*value++ = 0;
		percent_decode(value);
		config->names[config->count] = pair;
		config->values[config->count++] = value;
	}
	return true;
}

/* So that a wrong one is named at start, not when the first consumer is made. */
static bool config_check(const struct kafka_config *config)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char error[256];
	bool good = true;

	for (int i = 0; i < config->count; i++) {
		if (rd_kafka_conf_set(conf, config->names[i], config->values[i], error,
				      sizeof(error)) == RD_KAFKA_CONF_OK)
			continue;
		log_event(LOG_ERROR, "kafka_property_wrong",
			  log_text("property", config->names[i]));
		good = false;
	}
	rd_kafka_conf_destroy(conf);
	return good;
}

struct kafka_config *kafka_config_create(const char *url, const char *client_id)
{
	struct kafka_config *config = calloc(1, sizeof(*config));
	const char *error;

	assert(config);
	config->client_id = client_id;
	config->text = strdup(url);
	assert(config->text);
	if (!config_parse(config, &error)) {
		log_event(LOG_ERROR, "kafka_url_malformed", log_text("error", error));
		kafka_config_free(config);
		return NULL;
	}
	if (!config_check(config)) {
		kafka_config_free(config);
		return NULL;
	}
	return config;
}

void kafka_config_free(struct kafka_config *config)
{
	if (!config)
		return;
	free(config->text);
	free(config);
}

/* From any of librdkafka's threads. */
static void kafka_log(const rd_kafka_t *handle, int level, const char *facility, const char *text)
{
	(void)handle;
	/* A broker that is away is told by bus_down; the rest of the story is for the curious. */
	log_event(level <= 2   ? LOG_ERROR
		  : level <= 4 ? LOG_INFO
			       : LOG_DEBUG,
		  "kafka", log_text("facility", facility), log_text("text", text));
}

static void conf_set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char error[256];
	rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, error, sizeof(error));

	assert(result == RD_KAFKA_CONF_OK);
}

rd_kafka_conf_t *kafka_config_conf(const struct kafka_config *config, const char *const *ours)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	conf_set(conf, "bootstrap.servers", config->servers);
	conf_set(conf, "client.id", config->client_id);
	conf_set(conf, "socket.nagle.disable", "true");
	conf_set(conf, "reconnect.backoff.ms", "50");
	conf_set(conf, "reconnect.backoff.max.ms", "1000");
	conf_set(conf, "retry.backoff.ms", "50");
	conf_set(conf, "log.connection.close", "false");
	for (; *ours; ours += 2)
		conf_set(conf, ours[0], ours[1]);
	for (int i = 0; i < config->count; i++)
		conf_set(conf, config->names[i], config->values[i]);
	rd_kafka_conf_set_log_cb(conf, kafka_log);
	return conf;
}
