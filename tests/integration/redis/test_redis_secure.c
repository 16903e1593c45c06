/* Passwords, users and TLS against a real server: what is right works, what is wrong is told and
 * tried again. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/log.h"
#include "tests/integration/redis/client.h"
#include "tests/support/redis_server.h"

static struct redis_server *server;
static struct client client;
static char url[256];

static const char *url_of(const char *format)
{
	/* The format is this file's own: one %d, the port. */
	const char *port = strstr(format, "%d");

	snprintf(url, sizeof(url), "%.*s%d%s", (int)(port - format), format,
		 redis_server_port(server), port + 2);
	return url;
}

static void stop(void)
{
	client_stop(&client);
	redis_server_free(server);
}

/* What the client logs meanwhile, from the file that stands in for stdout. */
static char logged[65536];

static void run_logged_ms(int64_t ms)
{
	FILE *file = tmpfile();
	int out = dup(STDOUT_FILENO);
	size_t size;

	(void)fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	client_run_ms(&client, ms);
	(void)fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(file);
	size = fread(logged, 1, sizeof(logged) - 1, file);
	logged[size] = 0;
	fclose(file);
}

START_TEST(a_password_opens)
{
	struct asked asked = {0};

	server = redis_server_start(&(struct redis_server_options){.password = "open-sesame"});
	client_start(&client, (struct redis_options){.url = redis_server_url(server)});
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "SET a 1"), STATUS_OK);
	stop();
}
END_TEST

START_TEST(a_wrong_password_is_told_and_tried_again)
{
	struct asked asked = {0};

	server = redis_server_start(&(struct redis_server_options){.password = "open-sesame"});
	client_start(&client, (struct redis_options){.url = url_of("redis://:shut@127.0.0.1:%d")});
	run_logged_ms(400);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_ptr_nonnull(strstr(logged, "redis_unreachable"));
	ck_assert_ptr_nonnull(strstr(logged, "AUTH: WRONGPASS"));
	ck_assert_ptr_null(strstr(logged, "shut"));
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_UNAVAILABLE);

	redis_server_ask(server, "CONFIG SET requirepass shut");
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "PING"), STATUS_OK);
	stop();
}
END_TEST

START_TEST(a_missing_password_is_told)
{
	server = redis_server_start(&(struct redis_server_options){.password = "open-sesame"});
	client_start(&client, (struct redis_options){.url = url_of("redis://127.0.0.1:%d")});
	run_logged_ms(200);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_ptr_nonnull(strstr(logged, "NOAUTH"));
	stop();
}
END_TEST

START_TEST(a_user_may_do_what_its_rules_allow)
{
	struct asked asked = {0};

	server = redis_server_start(&(struct redis_server_options){
		.acl = "user default on nopass ~* &* +@all\n"
		       "user shop on >s%cret/1 ~sale:* &* +@all -flushall\n"});
	client_start(&client, (struct redis_options){
				      .url = url_of("redis://shop:s%25cret%2F1@127.0.0.1:%d")});
	client_run_until(&client, &client.connected, 1);
	ck_assert_int_eq(client_ask(&client, &asked, "SET sale:1 x"), STATUS_OK);
	ck_assert_int_eq(client_ask(&client, &asked, "SET other x"), STATUS_INTERNAL);
	ck_assert_ptr_nonnull(strstr(asked.text, "NOPERM"));
	stop();
}
END_TEST

START_TEST(tls_to_a_server_of_the_right_ca)
{
	static const char *const hosts[] = {"rediss://127.0.0.1:%d", "rediss://localhost:%d"};
	struct asked asked = {0};

	server = redis_server_start(&(struct redis_server_options){.tls = true});
	for (int i = 0; i < 2; i++) {
		client_start(&client, (struct redis_options){.url = url_of(hosts[i]),
							     .tls_ca = redis_server_ca(server)});
		client_run_until(&client, &client.connected, 1);
		ck_assert_int_eq(client_ask(&client, &asked, "SET a 1"), STATUS_OK);
		redis_server_restart(server);
		client_run_until(&client, &client.connected, 2);
		ck_assert_int_eq(client_ask(&client, &asked, "GET a"), STATUS_OK);
		client_stop(&client);
	}
	redis_server_free(server);
}
END_TEST

START_TEST(tls_carries_large_values_and_deep_pipelines)
{
	enum { COUNT = 20000, SIZE = 2000000 };
	static struct asked asked[COUNT];
	char *large = malloc(SIZE);
	const char *values[] = {"SET", "large", large};
	size_t sizes[] = {3, 5, SIZE};
	int total = 0;

	memset(large, 'x', SIZE);
	server = redis_server_start(&(struct redis_server_options){.tls = true});
	client_start(&client, (struct redis_options){.url = redis_server_url(server),
						     .tls_ca = redis_server_ca(server),
						     .timeout_ms = 20000});
	client_run_until(&client, &client.connected, 1);
	for (int i = 0; i < COUNT; i++) {
		asked[i].total = &total;
		client_send(&client, &asked[i], "INCR n");
	}
	client_run_until(&client, &total, COUNT);
	ck_assert_str_eq(asked[COUNT - 1].text, "20000");

	client_send(&client, &asked[0], "PING");
	client_run_until(&client, &asked[0].done, 1);
	asked[0].done = 0;
	redis_send(client.redis, &asked[0].op, (struct redis_args){3, values, sizes});
	client_run_until(&client, &asked[0].done, 1);
	ck_assert_int_eq(asked[0].status, STATUS_OK);
	ck_assert_int_eq(redis_server_ask(server, "STRLEN large")->integer, SIZE);
	free(large);
	stop();
}
END_TEST

START_TEST(tls_to_a_server_of_another_ca_is_refused)
{
	struct redis_server *other =
		redis_server_start(&(struct redis_server_options){.tls = true});

	server = redis_server_start(&(struct redis_server_options){.tls = true});
	client_start(&client, (struct redis_options){.url = redis_server_url(server),
						     .tls_ca = redis_server_ca(other)});
	run_logged_ms(300);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_ptr_nonnull(strstr(logged, "certificate"));
	redis_server_free(other);
	stop();
}
END_TEST

START_TEST(tls_to_a_server_of_another_name_is_refused)
{
	server = redis_server_start(&(struct redis_server_options){.tls = true});
	client_start(&client, (struct redis_options){.url = url_of("rediss://127.0.0.2:%d"),
						     .tls_ca = redis_server_ca(server)});
	run_logged_ms(300);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_ptr_nonnull(strstr(logged, "IP address mismatch"));
	stop();
}
END_TEST

START_TEST(tls_to_a_plain_server_is_told)
{
	struct redis_server *other =
		redis_server_start(&(struct redis_server_options){.tls = true});

	server = redis_server_start(NULL);
	client_start(&client, (struct redis_options){.url = url_of("rediss://127.0.0.1:%d"),
						     .tls_ca = redis_server_ca(other)});
	run_logged_ms(2500);
	ck_assert_int_eq(client.connected, 0);
	ck_assert_ptr_nonnull(strstr(logged, "redis_unreachable"));
	redis_server_free(other);
	stop();
}
END_TEST

START_TEST(a_malformed_url_or_ca_makes_no_client)
{
	struct loop *loop = loop_create();

	log_start("test", LOG_ERROR);
	ck_assert_ptr_null(redis_create(loop, &(struct redis_options){.url = "http://here"}));
	ck_assert_ptr_null(redis_create(loop, &(struct redis_options){.url = "redis://a:b:c"}));
	ck_assert_ptr_null(redis_create(
		loop, &(struct redis_options){.url = "rediss://here", .tls_ca = "/nowhere"}));
	loop_destroy(loop);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("redis_secure");
	TCase *test = tcase_create("redis_secure");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(test, 60);
	suite_add_tcase(suite, test);
	tcase_add_test(test, a_password_opens);
	tcase_add_test(test, a_wrong_password_is_told_and_tried_again);
	tcase_add_test(test, a_missing_password_is_told);
	tcase_add_test(test, a_user_may_do_what_its_rules_allow);
	tcase_add_test(test, tls_to_a_server_of_the_right_ca);
	tcase_add_test(test, tls_carries_large_values_and_deep_pipelines);
	tcase_add_test(test, tls_to_a_server_of_another_ca_is_refused);
	tcase_add_test(test, tls_to_a_server_of_another_name_is_refused);
	tcase_add_test(test, tls_to_a_plain_server_is_told);
	tcase_add_test(test, a_malformed_url_or_ca_makes_no_client);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
