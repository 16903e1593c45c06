/* The lock service as its callers see it: real processes over a real Redis, killed where that matters. */
#include <check.h>
#include <stampede/lock/v1/lock.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/support/redis_server.h"
#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

#define PATH "/stampede.lock.v1.LockService/"
#define CLAIM_MS 500

static struct redis_server *redis;
static struct service_process *instances[2];
static struct rpc_client *clients[2];

static struct service_process *start_instance(void)
{
	char url[128];
	const char *environment[] = {url, "STAMPEDE_LOCK_CLAIM=500ms", NULL};

	snprintf(url, sizeof(url), "STAMPEDE_REDIS=%s", redis_server_url(redis));
	return service_process_start(LOCK_BINARY, environment, true);
}

static void set_up(void)
{
	redis = redis_server_start(NULL);
	for (int i = 0; i < 2; i++) {
		instances[i] = start_instance();
		clients[i] = rpc_client_create(service_process_target(instances[i]));
	}
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++) {
		rpc_client_free(clients[i]);
		service_process_free(instances[i]);
	}
	rpc_client_end();
	redis_server_free(redis);
}

/* --- asking ---------------------------------------------------------------------------------- */

static struct asking *acquire_in(struct rpc_client *client, const char *name, const char *owner,
				 const char *request_id, int64_t lease_ms, int64_t timeout_ms)
{
	Stampede__Lock__V1__AcquireRequest request = STAMPEDE__LOCK__V1__ACQUIRE_REQUEST__INIT;
	Google__Protobuf__Duration lease = GOOGLE__PROTOBUF__DURATION__INIT;

	lease.seconds = lease_ms / 1000;
	lease.nanos = (int32_t)(lease_ms % 1000) * 1000000;
	request.name = (char *)name;
	request.owner = (char *)owner;
	request.request_id = (char *)request_id;
	request.lease = &lease;
	return rpc_client_ask(client, PATH "Acquire", &request, timeout_ms);
}

/* The token, or 0. Frees the asking. */
static int64_t acquired(struct asking *asking)
{
	Stampede__Lock__V1__AcquireResponse *response =
		asking_wait(asking, &stampede__lock__v1__acquire_response__descriptor);
	int64_t token = response && response->grant ? response->grant->token : 0;

	asking_free(asking);
	return token;
}

static int64_t acquire(struct rpc_client *client, const char *name, const char *owner)
{
	return acquired(acquire_in(client, name, owner, "1", 30000, 5000));
}

static struct asking *release_ask(struct rpc_client *client, const char *name, int64_t token)
{
	Stampede__Lock__V1__ReleaseRequest request = STAMPEDE__LOCK__V1__RELEASE_REQUEST__INIT;

	request.name = (char *)name;
	request.token = token;
	return rpc_client_ask(client, PATH "Release", &request, 5000);
}

static enum status release(struct rpc_client *client, const char *name, int64_t token)
{
	struct asking *asking = release_ask(client, name, token);
	enum status status;

	asking_wait(asking, &stampede__lock__v1__release_response__descriptor);
	status = asking_status(asking);
	asking_free(asking);
	return status;
}

/* How many wait; *ret_token is the holder's, 0 when the lock is free. */
static int64_t look(struct rpc_client *client, const char *name, int64_t *ret_token)
{
	Stampede__Lock__V1__GetLockRequest request = STAMPEDE__LOCK__V1__GET_LOCK_REQUEST__INIT;
	Stampede__Lock__V1__GetLockResponse *response;
	struct asking *asking;
	int64_t waiters;

	request.name = (char *)name;
	asking = rpc_client_ask(client, PATH "GetLock", &request, 5000);
	response = asking_wait(asking, &stampede__lock__v1__get_lock_response__descriptor);
	ck_assert_ptr_nonnull(response);
	waiters = response->waiters;
	*ret_token = response->grant ? response->grant->token : 0;
	asking_free(asking);
	return waiters;
}

static void wait_for_waiters(const char *name, int64_t count)
{
	int64_t token, started_us = clock_monotonic_us();

	while (look(clients[0], name, &token) != count)
		ck_assert_int_lt(clock_monotonic_us() - started_us, 20000000);
}

/* --- one holder ------------------------------------------------------------------------------ */

START_TEST(repeats_the_first_grant)
{
	int64_t token = acquire(clients[0], "a", "alice");

	ck_assert_int_gt(token, 0);
	ck_assert_int_eq(acquire(clients[1], "a", "alice"), token);
	ck_assert_int_eq(release(clients[1], "a", token), STATUS_OK);
	ck_assert_int_gt(acquire(clients[0], "a", "bob"), token);
}
END_TEST

START_TEST(says_who_holds_it_when_a_token_does_not)
{
	int64_t token = acquire(clients[0], "a", "alice");
	struct asking *asking = release_ask(clients[0], "a", token + 1);

	asking_wait(asking, &stampede__lock__v1__release_response__descriptor);
	ck_assert_int_eq(asking_status(asking), STATUS_FAILED_PRECONDITION);
	ck_assert(asking_details_hold(asking, "NOT_HOLDER"));
	ck_assert_ptr_nonnull(strstr(asking_message(asking), "'alice'"));
	asking_free(asking);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_FAILED_PRECONDITION);
}
END_TEST

START_TEST(tries_without_waiting)
{
	Stampede__Lock__V1__TryAcquireRequest request =
		STAMPEDE__LOCK__V1__TRY_ACQUIRE_REQUEST__INIT;
	Stampede__Lock__V1__TryAcquireResponse *response;
	int64_t token = acquire(clients[0], "a", "alice");
	struct asking *asking;

	request.name = (char *)"a";
	request.owner = (char *)"bob";
	request.request_id = (char *)"1";
	asking = rpc_client_ask(clients[1], PATH "TryAcquire", &request, 5000);
	response = asking_wait(asking, &stampede__lock__v1__try_acquire_response__descriptor);
	ck_assert_ptr_nonnull(response);
	ck_assert(!response->acquired);
	ck_assert_int_eq(response->grant->token, token);
	ck_assert_str_eq(response->grant->owner, "alice");
	asking_free(asking);
}
END_TEST

START_TEST(renews_a_lease_for_its_holder_only)
{
	Stampede__Lock__V1__RenewRequest request = STAMPEDE__LOCK__V1__RENEW_REQUEST__INIT;
	int64_t token = acquired(acquire_in(clients[0], "a", "alice", "1", 300, 5000)), seen;
	struct asking *asking;

	request.name = (char *)"a";
	for (int i = 0; i < 2; i++) {
		request.token = token + i;
		asking = rpc_client_ask(clients[0], PATH "Renew", &request, 5000);
		asking_wait(asking, &stampede__lock__v1__renew_response__descriptor);
		ck_assert_int_eq(asking_status(asking), i ? STATUS_FAILED_PRECONDITION : STATUS_OK);
		asking_free(asking);
	}
	usleep(400 * 1000);
	look(clients[0], "a", &seen);
	ck_assert_int_eq(seen, token);
}
END_TEST

START_TEST(refuses_what_is_wrong_and_names_the_field)
{
	static const struct {
		const char *name, *owner, *request_id;
		int64_t lease_ms;
		const char *field;
	} wrong[] = {{"", "o", "1", 1000, "name"},     {"a", "", "1", 1000, "owner"},
		     {"a", "o\n", "1", 1000, "owner"}, {"a", "o", "", 1000, "request_id"},
		     {"a", "o", "1", 99, "lease"},     {"a", "o", "1", 3600001, "lease"}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct asking *asking = acquire_in(clients[0], wrong[i].name, wrong[i].owner,
						   wrong[i].request_id, wrong[i].lease_ms, 5000);

		asking_wait(asking, &stampede__lock__v1__acquire_response__descriptor);
		ck_assert_int_eq(asking_status(asking), STATUS_INVALID_ARGUMENT);
		ck_assert_msg(asking_details_hold(asking, wrong[i].field), "%s", wrong[i].field);
		asking_free(asking);
	}
}
END_TEST

/* --- waiting --------------------------------------------------------------------------------- */

START_TEST(serves_waiters_in_the_order_of_their_arrival)
{
	enum { WAITERS = 40 };
	struct asking *askings[WAITERS];
	int64_t token = acquire(clients[0], "a", "first"), last = token;

	for (int i = 0; i < WAITERS; i++) {
		char owner[24];

		snprintf(owner, sizeof(owner), "owner-%d", i);
		askings[i] = acquire_in(clients[i % 2], "a", owner, "1", 30000, 20000);
		wait_for_waiters("a", i + 1);
	}
	for (int i = 0; i < WAITERS; i++) {
		ck_assert_int_eq(release(clients[0], "a", last), STATUS_OK);
		token = acquired(askings[i]);
		ck_assert_int_gt(token, last);
		for (int later = i + 1; later < WAITERS; later++)
			ck_assert(!asking_done(askings[later]));
		last = token;
	}
}
END_TEST

START_TEST(hands_over_when_a_lease_runs_out_and_not_before)
{
	int64_t started_us = clock_monotonic_us(), token, waited_us;
	struct asking *asking;

	token = acquired(acquire_in(clients[0], "a", "alice", "1", 700, 5000));
	asking = acquire_in(clients[1], "a", "bob", "1", 30000, 5000);
	ck_assert_int_gt(acquired(asking), token);
	waited_us = clock_monotonic_us() - started_us;
	ck_assert_int_ge(waited_us, 699 * 1000);
	ck_assert_int_lt(waited_us, 2000 * 1000);
}
END_TEST

START_TEST(forgets_a_waiter_that_left)
{
	int64_t token = acquire(clients[0], "a", "alice"), last = token;
	struct asking *impatient = acquire_in(clients[1], "a", "bob", "1", 30000, 300);
	struct asking *gone, *patient;

	wait_for_waiters("a", 1);
	gone = acquire_in(clients[0], "a", "carol", "1", 30000, 5000);
	wait_for_waiters("a", 2);
	patient = acquire_in(clients[1], "a", "dora", "1", 30000, 5000);
	wait_for_waiters("a", 3);
	ck_assert_int_eq(acquired(impatient), 0);
	asking_cancel(gone);
	wait_for_waiters("a", 1);
	ck_assert_int_eq(acquired(gone), 0);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	ck_assert_int_gt(acquired(patient), last);
}
END_TEST

START_TEST(tells_a_call_whose_request_was_sent_again)
{
	int64_t token = acquire(clients[0], "a", "alice"), later;
	struct asking *first = acquire_in(clients[0], "a", "bob", "1", 30000, 5000), *again;

	wait_for_waiters("a", 1);
	again = acquire_in(clients[1], "a", "bob", "1", 30000, 5000);
	asking_wait(first, &stampede__lock__v1__acquire_response__descriptor);
	ck_assert_int_eq(asking_status(first), STATUS_ABORTED);
	asking_free(first);
	wait_for_waiters("a", 1);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	later = acquired(again);
	ck_assert_int_gt(later, token);
}
END_TEST

/* Two instances, owners who take turns as they can: never two holders, and tokens only grow. */
START_TEST(has_one_holder_at_a_time)
{
	enum { OWNERS = 8, ROUNDS = 50 };
	int64_t last = 0;
	struct asking *askings[OWNERS];
	char owner[24], request[24];
	int rounds[OWNERS] = {0}, left = OWNERS * ROUNDS;

	for (int i = 0; i < OWNERS; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", i);
		askings[i] = acquire_in(clients[i % 2], "a", owner, "0", 30000, 20000);
	}
	while (left) {
		int holders = 0, holder = 0;
		int64_t token;

		for (int i = 0; i < OWNERS; i++) {
			if (askings[i] && asking_done(askings[i])) {
				holders++;
				holder = i;
			}
		}
		ck_assert_int_le(holders, 1);
		if (!holders) {
			rpc_client_run_ms(1);
			continue;
		}
		token = acquired(askings[holder]);
		ck_assert_int_gt(token, last);
		last = token;
		left--;
		ck_assert_int_eq(release(clients[(holder + 1) % 2], "a", token), STATUS_OK);
		askings[holder] = NULL;
		if (++rounds[holder] < ROUNDS) {
			snprintf(owner, sizeof(owner), "owner-%d", holder);
			snprintf(request, sizeof(request), "%d", rounds[holder]);
			askings[holder] =
				acquire_in(clients[holder % 2], "a", owner, request, 30000, 20000);
		}
	}
}
END_TEST

/* Ten thousand by hand: STAMPEDE_TEST_WAITERS=10000. */
START_TEST(holds_very_many_waiting_calls)
{
	const char *wanted = getenv("STAMPEDE_TEST_WAITERS");
	int count = wanted ? atoi(wanted) : 1000, connections = count / 100 + 1;
	struct rpc_client **many = calloc((size_t)connections, sizeof(*many));
	struct asking **askings = calloc((size_t)count, sizeof(*askings));
	int64_t token = acquire(clients[0], "a", "first");
	char owner[24];

	for (int i = 0; i < connections; i++)
		many[i] = rpc_client_create(service_process_target(instances[0]));
	for (int i = 0; i < count; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", i);
		askings[i] = acquire_in(many[i % connections], "a", owner, "1", 30000, 120000);
		if (i % 500 == 499)
			rpc_client_run_ms(1);
	}
	wait_for_waiters("a", count);
	for (int left = count; left; left--) {
		ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
		for (bool found = false; !found; rpc_client_run_ms(0)) {
			for (int i = 0; i < count && !found; i++) {
				if (!askings[i] || !asking_done(askings[i]))
					continue;
				token = acquired(askings[i]);
				ck_assert_int_gt(token, 0);
				askings[i] = NULL;
				found = true;
			}
		}
	}
	for (int i = 0; i < connections; i++)
		rpc_client_free(many[i]);
	free(many);
	free(askings);
}
END_TEST

/* --- what breaks ----------------------------------------------------------------------------- */

START_TEST(passes_over_the_waiters_of_a_killed_instance)
{
	int64_t token = acquire(clients[0], "a", "alice"), released_us, later;
	struct asking *lost[3], *patient;

	for (int i = 0; i < 3; i++) {
		char owner[24];

		snprintf(owner, sizeof(owner), "lost-%d", i);
		lost[i] = acquire_in(clients[1], "a", owner, "1", 30000, 10000);
		wait_for_waiters("a", i + 1);
	}
	patient = acquire_in(clients[0], "a", "patient", "1", 30000, 10000);
	wait_for_waiters("a", 4);
	service_process_kill(instances[1]);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	released_us = clock_monotonic_us();
	later = acquired(patient);
	ck_assert_int_gt(later, token);
	ck_assert_int_lt(clock_monotonic_us() - released_us, (CLAIM_MS + 2000) * 1000);
	ck_assert_int_eq(look(clients[0], "a", &token), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(acquired(lost[i]), 0);
}
END_TEST

START_TEST(takes_waiters_of_an_instance_that_was_asleep_back)
{
	int64_t token = acquire(clients[0], "a", "alice"), later;
	struct asking *sleeper = acquire_in(clients[1], "a", "sleeper", "1", 30000, 10000);
	struct asking *patient;

	wait_for_waiters("a", 1);
	patient = acquire_in(clients[0], "a", "patient", "1", 30000, 10000);
	wait_for_waiters("a", 2);
	service_process_pause(instances[1]);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	later = acquired(patient);
	ck_assert_int_gt(later, token);
	service_process_resume(instances[1]);
	wait_for_waiters("a", 1);
	ck_assert_int_eq(release(clients[0], "a", later), STATUS_OK);
	ck_assert_int_gt(acquired(sleeper), later);
}
END_TEST

START_TEST(keeps_places_and_grows_tokens_across_a_restart_of_redis)
{
	int64_t token = acquire(clients[0], "a", "alice"), last = token;
	struct asking *askings[4];

	for (int i = 0; i < 4; i++) {
		char owner[24];

		snprintf(owner, sizeof(owner), "owner-%d", i);
		askings[i] = acquire_in(clients[i % 2], "a", owner, "1", 30000, 20000);
		wait_for_waiters("a", i + 1);
	}
	redis_server_restart(redis);
	for (int i = 0; i < 4; i++) {
		while (release(clients[0], "a", last) != STATUS_OK)
			rpc_client_run_ms(20);
		if (!i) /* both are told again of their waiters before the first hand-over is over */
			rpc_client_run_ms(200);
		token = acquired(askings[i]);
		ck_assert_int_gt(token, last);
		last = token;
	}
	ck_assert_int_eq(release(clients[0], "a", last), STATUS_OK);
}
END_TEST

START_TEST(grows_tokens_and_rebuilds_the_line_when_redis_forgets_all)
{
	int64_t token = acquire(clients[0], "a", "alice"), later;
	struct asking *asking = acquire_in(clients[1], "a", "bob", "1", 30000, 20000);

	wait_for_waiters("a", 1);
	redis_server_ask(redis, "FLUSHALL");
	redis_server_restart(redis);
	later = acquired(asking);
	ck_assert_int_gt(later, token);
}
END_TEST

START_TEST(says_unavailable_while_redis_is_away)
{
	struct asking *asking;
	int64_t started_us;

	redis_server_kill(redis);
	rpc_client_run_ms(100);
	started_us = clock_monotonic_us();
	asking = acquire_in(clients[0], "a", "alice", "1", 30000, 5000);
	asking_wait(asking, &stampede__lock__v1__acquire_response__descriptor);
	ck_assert_int_eq(asking_status(asking), STATUS_UNAVAILABLE);
	ck_assert(asking_details_hold(asking, "google.rpc.RetryInfo"));
	ck_assert_int_lt(clock_monotonic_us() - started_us, 1000000);
	asking_free(asking);
	redis_server_restart(redis);
	while (!acquire(clients[0], "a", "alice"))
		rpc_client_run_ms(50);
}
END_TEST

/* The call was told that Redis is away, but the script ran: its instance passes the lock on at once. */
START_TEST(declines_for_a_call_that_was_told_unavailable)
{
	int64_t token = acquire(clients[0], "a", "alice"), started_us;
	struct asking *lost, *patient;

	redis_server_pause(redis);
	lost = acquire_in(clients[1], "a", "lost", "1", 30000, 10000);
	asking_wait(lost, &stampede__lock__v1__acquire_response__descriptor);
	ck_assert_int_eq(asking_status(lost), STATUS_UNAVAILABLE);
	asking_free(lost);
	redis_server_resume(redis);
	wait_for_waiters("a", 1);
	patient = acquire_in(clients[1], "a", "patient", "1", 30000, 10000);
	wait_for_waiters("a", 2);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
	started_us = clock_monotonic_us();
	ck_assert_int_gt(acquired(patient), token);
	ck_assert_int_lt(clock_monotonic_us() - started_us, CLAIM_MS * 1000);
}
END_TEST

START_TEST(leaves_the_line_when_it_is_told_to_stop)
{
	int64_t token = acquire(clients[0], "a", "alice");
	struct asking *asking = acquire_in(clients[1], "a", "bob", "1", 30000, 60000);

	wait_for_waiters("a", 1);
	ck_assert_int_eq(service_process_terminate(instances[1]), 0);
	ck_assert_int_eq(acquired(asking), 0);
	wait_for_waiters("a", 0);
	ck_assert_int_eq(release(clients[0], "a", token), STATUS_OK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lock");
	TCase *tests = tcase_create("lock");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, repeats_the_first_grant);
	tcase_add_test(tests, says_who_holds_it_when_a_token_does_not);
	tcase_add_test(tests, tries_without_waiting);
	tcase_add_test(tests, renews_a_lease_for_its_holder_only);
	tcase_add_test(tests, refuses_what_is_wrong_and_names_the_field);
	tcase_add_test(tests, serves_waiters_in_the_order_of_their_arrival);
	tcase_add_test(tests, hands_over_when_a_lease_runs_out_and_not_before);
	tcase_add_test(tests, forgets_a_waiter_that_left);
	tcase_add_test(tests, tells_a_call_whose_request_was_sent_again);
	tcase_add_test(tests, has_one_holder_at_a_time);
	tcase_add_test(tests, holds_very_many_waiting_calls);
	tcase_add_test(tests, passes_over_the_waiters_of_a_killed_instance);
	tcase_add_test(tests, takes_waiters_of_an_instance_that_was_asleep_back);
	tcase_add_test(tests, keeps_places_and_grows_tokens_across_a_restart_of_redis);
	tcase_add_test(tests, grows_tokens_and_rebuilds_the_line_when_redis_forgets_all);
	tcase_add_test(tests, says_unavailable_while_redis_is_away);
	tcase_add_test(tests, declines_for_a_call_that_was_told_unavailable);
	tcase_add_test(tests, leaves_the_line_when_it_is_told_to_stop);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
