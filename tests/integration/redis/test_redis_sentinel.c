/* Sentinel: the master is found, and found again after a failover. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/redis/client.h"
#include "tests/support/redis_server.h"

static struct redis_server *master, *replica, *sentinel;
static struct client client;
static char url[256];

/* Whether Sentinel knows the replica well enough to promote it. */
static bool sentinel_knows_replica(void)
{
	const redisReply *replicas = redis_server_ask(sentinel, "SENTINEL replicas shop");

	for (size_t i = 0; replicas->elements && i + 1 < replicas->element[0]->elements; i += 2)
		if (strcmp(replicas->element[0]->element[i]->str, "master-link-status") == 0)
			return strcmp(replicas->element[0]->element[i + 1]->str, "ok") == 0;
	return false;
}

static void start(const char *password)
{
	master = redis_server_start(&(struct redis_server_options){.password = password});
	replica = redis_server_start(
		&(struct redis_server_options){.password = password, .replica_of = master});
	while (redis_server_ask(master, "WAIT 1 100")->integer != 1)
		;
	sentinel = redis_server_start(
		&(struct redis_server_options){.password = password, .sentinel_of = master});
	for (int tries = 0; !sentinel_knows_replica(); tries++) {
		ck_assert_int_lt(tries, 1000);
		usleep(20000);
	}
	snprintf(url, sizeof(url), "sentinel://%s%s%s127.0.0.1:1,127.0.0.1:%d/shop",
		 password ? ":" : "", password ? password : "", password ? "@" : "",
		 redis_server_port(sentinel));
	client_start(&client, (struct redis_options){.url = url, .timeout_ms = 3000});
	client_run_until(&client, &client.connected, 1);
}

static void stop(void)
{
	client_stop(&client);
	redis_server_free(sentinel);
	redis_server_free(replica);
	redis_server_free(master);
}

START_TEST(the_master_is_found_again_when_it_dies)
{
	struct asked asked = {0};
	char run_id[64];

	start(NULL);
	strcpy(run_id, client.run_id);
	ck_assert_int_eq(client_ask(&client, &asked, "SET before 1"), STATUS_OK);
	ck_assert_int_eq(client_ask(&client, &asked, "WAIT 1 1000"), STATUS_OK);
	redis_server_kill(master);
	client_run_until(&client, &client.connected, 2);
	ck_assert_str_ne(run_id, client.run_id);
	ck_assert_int_eq(client_ask(&client, &asked, "GET before"), STATUS_OK);
	ck_assert_str_eq(asked.text, "1");
	ck_assert_int_eq(client_ask(&client, &asked, "SET after 1"), STATUS_OK);
	ck_assert_int_eq(redis_server_ask(replica, "EXISTS after")->integer, 1);
	stop();
}
END_TEST

START_TEST(a_demoted_master_is_left)
{
	struct asked asked = {0};

	start("open-sesame");
	ck_assert_int_eq(client_ask(&client, &asked, "SET before 1"), STATUS_OK);
	redis_server_ask(sentinel, "SENTINEL failover shop");
	client_run_until(&client, &client.connected, 2);
	ck_assert_int_eq(client_ask(&client, &asked, "SET after 1"), STATUS_OK);
	ck_assert_int_eq(redis_server_ask(replica, "EXISTS after")->integer, 1);
	stop();
}
END_TEST

START_TEST(a_name_that_sentinel_does_not_know_is_no_master)
{
	struct asked asked = {0};

	start(NULL);
	client_stop(&client);
	snprintf(url, sizeof(url), "sentinel://127.0.0.1:%d/nobody", redis_server_port(sentinel));
	client_start(&client, (struct redis_options){.url = url});
	client_run_ms(&client, 200);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_UNAVAILABLE);
	stop();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_sentinel");
	TCase *test = tcase_create("redis_sentinel");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, the_master_is_found_again_when_it_dies);
	tcase_add_test(test, a_demoted_master_is_left);
	tcase_add_test(test, a_name_that_sentinel_does_not_know_is_no_master);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
