/* Subscriptions against a real server: delivered, shared, made again after a restart. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/redis/client.h"
#include "tests/support/redis_server.h"

static struct redis_server *server;
static struct client client;

struct listener {
	struct redis_subscription subscription;
	int ready, heard;
	char channel[64], data[64];
	struct listener *silences; /* unsubscribed at the first message */
};

static void listener_ready(struct redis_subscription *subscription)
{
	container_of(subscription, struct listener, subscription)->ready++;
}

static void listener_heard(struct redis_subscription *subscription, const char *channel,
			   const char *data, size_t size)
{
	struct listener *listener = container_of(subscription, struct listener, subscription);

	listener->heard++;
	snprintf(listener->channel, sizeof(listener->channel), "%s", channel);
	snprintf(listener->data, sizeof(listener->data), "%.*s", (int)size, data);
	if (listener->silences)
		redis_unsubscribe(&listener->silences->subscription);
}

static void listen_to(struct listener *listener, const char *channel, bool pattern)
{
	listener->subscription = (struct redis_subscription){
		.channel = channel,
		.pattern = pattern,
		.message = listener_heard,
		.ready = listener_ready,
	};
	redis_subscribe(client.redis, &listener->subscription);
}

static void start(void)
{
	server = redis_server_start(NULL);
	client_start(&client, (struct redis_options){.url = redis_server_url(server)});
}

static void stop(void)
{
	client_stop(&client);
	redis_server_free(server);
}

START_TEST(messages_of_channels_and_patterns_are_heard)
{
	struct listener channel = {0}, pattern = {0}, other = {0};

	start();
	listen_to(&channel, "stock:1", false);
	listen_to(&pattern, "stock:*", true);
	listen_to(&other, "orders", false);
	client_run_until(&client, &channel.ready, 1);
	client_run_until(&client, &pattern.ready, 1);
	client_run_until(&client, &other.ready, 1);
	redis_server_ask(server, "PUBLISH stock:1 seven");
	client_run_until(&client, &channel.heard, 1);
	client_run_until(&client, &pattern.heard, 1);
	ck_assert_str_eq(channel.data, "seven");
	ck_assert_str_eq(pattern.channel, "stock:1");
	ck_assert_str_eq(pattern.data, "seven");
	redis_server_ask(server, "PUBLISH stock:2 eight");
	client_run_until(&client, &pattern.heard, 2);
	ck_assert_str_eq(pattern.channel, "stock:2");
	ck_assert_int_eq(channel.heard, 1);
	ck_assert_int_eq(other.heard, 0);
	stop();
}
END_TEST

START_TEST(a_channel_may_be_shared)
{
	struct listener first = {0}, second = {0}, third = {0};

	start();
	listen_to(&first, "news", false);
	client_run_until(&client, &first.ready, 1);
	listen_to(&second, "news", false);
	client_run_until(&client, &second.ready, 1);
	ck_assert_int_eq(first.ready, 1);
	redis_server_ask(server, "PUBLISH news one");
	client_run_until(&client, &first.heard, 1);
	client_run_until(&client, &second.heard, 1);

	redis_unsubscribe(&first.subscription);
	redis_server_ask(server, "PUBLISH news two");
	client_run_until(&client, &second.heard, 2);
	ck_assert_int_eq(first.heard, 1);

	redis_unsubscribe(&second.subscription);
	listen_to(&third, "news", false);
	client_run_until(&client, &third.ready, 1);
	redis_server_ask(server, "PUBLISH news three");
	client_run_until(&client, &third.heard, 1);
	ck_assert_int_eq(second.heard, 2);
	redis_unsubscribe(&third.subscription);
	client_run_ms(&client, 20);
	ck_assert_int_eq(redis_server_ask(server, "PUBLISH news four")->integer, 0);
	stop();
}
END_TEST

START_TEST(a_listener_may_unsubscribe_others_and_itself)
{
	struct listener listeners[4] = {0};

	start();
	for (int i = 0; i < 4; i++) {
		listen_to(&listeners[i], "news", false);
		client_run_until(&client, &listeners[i].ready, 1);
	}
	/* The list is visited from the newest. */
	listeners[3].silences = &listeners[2];
	listeners[1].silences = &listeners[1];
	redis_server_ask(server, "PUBLISH news one");
	client_run_until(&client, &listeners[0].heard, 1);
	ck_assert_int_eq(listeners[3].heard, 1);
	ck_assert_int_eq(listeners[2].heard, 0);
	ck_assert_int_eq(listeners[1].heard, 1);
	stop();
}
END_TEST

START_TEST(subscriptions_are_made_again_after_a_restart)
{
	struct listener channel = {0}, pattern = {0};

	start();
	listen_to(&channel, "stock:1", false);
	listen_to(&pattern, "stock:*", true);
	for (int round = 1; round < 4; round++) {
		client_run_until(&client, &channel.ready, round);
		client_run_until(&client, &pattern.ready, round);
		redis_server_ask(server, "PUBLISH stock:1 again");
		client_run_until(&client, &channel.heard, round);
		client_run_until(&client, &pattern.heard, round);
		redis_server_restart(server);
	}
	ck_assert_int_eq(channel.ready, 3);
	stop();
}
END_TEST

START_TEST(a_subscription_may_come_before_the_server)
{
	struct listener listener = {0};

	server = redis_server_start(NULL);
	redis_server_kill(server);
	client_start(&client, (struct redis_options){.url = redis_server_url(server)});
	listen_to(&listener, "news", false);
	client_run_ms(&client, 100);
	redis_server_restart(server);
	client_run_until(&client, &listener.ready, 1);
	redis_server_ask(server, "PUBLISH news at-last");
	client_run_until(&client, &listener.heard, 1);
	stop();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_subscribe");
	TCase *test = tcase_create("redis_subscribe");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, messages_of_channels_and_patterns_are_heard);
	tcase_add_test(test, a_channel_may_be_shared);
	tcase_add_test(test, a_listener_may_unsubscribe_others_and_itself);
	tcase_add_test(test, subscriptions_are_made_again_after_a_restart);
	tcase_add_test(test, a_subscription_may_come_before_the_server);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
