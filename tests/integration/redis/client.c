#include "tests/integration/redis/client.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/log.h"

#define WORDS_MAX 32
#define WAIT_MAX_MS 10000

static void client_connected(void *self, const char *run_id)
{
	struct client *client = self;

	client->connected++;
	snprintf(client->run_id, sizeof(client->run_id), "%s", run_id);
}

static void client_disconnected(void *self)
{
	struct client *client = self;

	client->disconnected++;
}

void client_start(struct client *client, struct redis_options options)
{
	*client = (struct client){.loop = loop_create()};
	log_start("test", LOG_WARN);
	options.connected = client_connected;
	options.disconnected = client_disconnected;
	options.self = client;
	client->redis = redis_create(client->loop, &options);
	ck_assert_ptr_nonnull(client->redis);
}

void client_stop(struct client *client)
{
	redis_destroy(client->redis);
	loop_destroy(client->loop);
}

struct alarm {
	struct timer timer;
	const int *count;
	int wanted, left_ms;
};

static void alarm_fire(struct timer *timer)
{
	struct alarm *alarm = container_of(timer, struct alarm, timer);

	if ((alarm->count && *alarm->count >= alarm->wanted) || !alarm->left_ms--)
		loop_stop(timer->loop);
	else
		timer_start_us(timer, 1000);
}

static int client_run(struct client *client, const int *count, int wanted, int ms)
{
	struct alarm alarm = {.count = count, .wanted = wanted, .left_ms = ms};

	timer_init(&alarm.timer, client->loop, alarm_fire);
	timer_start_us(&alarm.timer, 1000);
	loop_run(client->loop);
	timer_stop(&alarm.timer);
	return count ? *count : 0;
}

void client_run_ms(struct client *client, int64_t ms)
{
	client_run(client, NULL, 0, (int)ms);
}

void client_run_until(struct client *client, const int *count, int wanted)
{
	ck_assert_int_ge(client_run(client, count, wanted, WAIT_MAX_MS), wanted);
}

static void asked_done(struct redis_op *op, enum status status, const redisReply *reply)
{
	struct asked *asked = container_of(op, struct asked, op);

	asked->done++;
	asked->status = status;
	if (asked->total)
		(*asked->total)++;
	ck_assert(!reply == (status != STATUS_OK));
	if (!reply)
		snprintf(asked->text, sizeof(asked->text), "%s", redis_error_text(asked->redis));
	else if (reply->type == REDIS_REPLY_INTEGER)
		snprintf(asked->text, sizeof(asked->text), "%lld", reply->integer);
	else
		snprintf(asked->text, sizeof(asked->text), "%s", reply->str ? reply->str : "");
}

static int split(char *words, const char **ret_values, size_t *ret_sizes)
{
	int count = 0;

	for (char *save, *word = strtok_r(words, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		ck_assert_int_lt(count, WORDS_MAX);
		ret_values[count] = word;
		ret_sizes[count++] = strlen(word);
	}
	return count;
}

static void asked_begin(struct asked *asked, struct client *client)
{
	int *total = asked->total;

	*asked = (struct asked){
		.redis = client->redis,
		.op = {.done = asked_done, .deadline_us = asked->op.deadline_us},
		.total = total,
	};
}

void client_send(struct client *client, struct asked *asked, const char *words)
{
	const char *values[WORDS_MAX];
	size_t sizes[WORDS_MAX];
	char copy[1024];

	snprintf(copy, sizeof(copy), "%s", words);
	asked_begin(asked, client);
	redis_send(client->redis, &asked->op,
		   (struct redis_args){split(copy, values, sizes), values, sizes});
	ck_assert_int_eq(asked->done, 0);
}

void client_send_script(struct client *client, struct asked *asked, struct redis_script *script,
			int keys, const char *words)
{
	const char *values[WORDS_MAX];
	size_t sizes[WORDS_MAX];
	char copy[1024];

	snprintf(copy, sizeof(copy), "%s", words);
	asked_begin(asked, client);
	redis_send_script(client->redis, &asked->op, script, keys,
			  (struct redis_args){split(copy, values, sizes), values, sizes});
	ck_assert_int_eq(asked->done, 0);
}

enum status client_ask(struct client *client, struct asked *asked, const char *words)
{
	client_send(client, asked, words);
	client_run_until(client, &asked->done, 1);
	return asked->status;
}
