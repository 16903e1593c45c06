/* The scheduler as its callers see it: real processes over a real Redis, killed where that matters. */
#include <check.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bus.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/server.h"
#include "tests/support/redis_server.h"
#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

#define PATH "/stampede.scheduler.v1.SchedulerService/"
#define QUEUE "queue"
#define TOPIC "fired"

static struct redis_server *redis, *bus_redis;
static struct service_process *instances[2];
static struct rpc_client *clients[2];

static struct service_process *start_instance(void)
{
	char url[128], bus[128];
	const char *environment[] = {url,
				     bus,
				     "STAMPEDE_SCHEDULER_LEASE=1s",
				     "STAMPEDE_SCHEDULER_RETRY=100ms",
				     "STAMPEDE_SCHEDULER_RETRY_MAX=400ms",
				     NULL};

	snprintf(url, sizeof(url), "STAMPEDE_REDIS=%s", redis_server_url(redis));
	snprintf(bus, sizeof(bus), "STAMPEDE_BUS=%s", redis_server_url(bus_redis));
	return service_process_start(SCHEDULER_BINARY, environment, true);
}

static void set_up(void)
{
	log_start("test", LOG_ERROR);
	redis = redis_server_start(NULL);
	bus_redis = redis_server_start(NULL);
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
	redis_server_free(bus_redis);
}

/* --- asking ---------------------------------------------------------------------------------- */

/* A job with everything it may point at. */
struct plan {
	Stampede__Scheduler__V1__Job job;
	Stampede__Scheduler__V1__Target target;
	Stampede__Scheduler__V1__Pull pull;
	Stampede__Scheduler__V1__Callback callback;
	Google__Protobuf__Timestamp due_at;
	char id[32], key[32], address[64];
};

static void plan_make(struct plan *plan, const char *id, int64_t due_ms)
{
	memset(plan, 0, sizeof(*plan));
	stampede__scheduler__v1__job__init(&plan->job);
	stampede__scheduler__v1__target__init(&plan->target);
	stampede__scheduler__v1__pull__init(&plan->pull);
	google__protobuf__timestamp__init(&plan->due_at);
	snprintf(plan->id, sizeof(plan->id), "%s", id);
	plan->job.job_id = plan->id;
	plan->job.target = &plan->target;
	plan->target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_PULL;
	plan->target.pull = &plan->pull;
	plan->due_at.seconds = due_ms / 1000;
	plan->due_at.nanos = (int32_t)(due_ms % 1000) * 1000000;
	plan->job.due_at = &plan->due_at;
}

static void plan_topic(struct plan *plan, const char *key)
{
	plan->target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_TOPIC;
	plan->target.topic = (char *)TOPIC;
	snprintf(plan->key, sizeof(plan->key), "%s", key);
	plan->job.key = plan->key;
}

static void plan_callback(struct plan *plan, int port, int tries_max)
{
	stampede__scheduler__v1__callback__init(&plan->callback);
	snprintf(plan->address, sizeof(plan->address), "127.0.0.1:%d", port);
	plan->callback.address = plan->address;
	plan->callback.method = (char *)&(PATH "GetJob")[1];
	plan->target.target_case = STAMPEDE__SCHEDULER__V1__TARGET__TARGET_CALLBACK;
	plan->target.callback = &plan->callback;
	plan->job.tries_max = tries_max;
}

static struct asking *publish_ask(struct rpc_client *client, struct plan *plan)
{
	Stampede__Scheduler__V1__PublishRequest request =
		STAMPEDE__SCHEDULER__V1__PUBLISH_REQUEST__INIT;

	request.queue = (char *)QUEUE;
	request.job = &plan->job;
	return rpc_client_ask(client, PATH "Publish", &request, 5000);
}

static enum status publish(struct rpc_client *client, struct plan *plan)
{
	struct asking *asking = publish_ask(client, plan);
	enum status status;

	asking_wait(asking, &stampede__scheduler__v1__publish_response__descriptor);
	status = asking_status(asking);
	asking_free(asking);
	return status;
}

static void publish_pull(struct rpc_client *client, const char *id, int64_t due_ms)
{
	struct plan plan;

	plan_make(&plan, id, due_ms);
	ck_assert_int_eq(publish(client, &plan), STATUS_OK);
}

static struct asking *publish_batch_ask(struct rpc_client *client, struct plan *plans, size_t count)
{
	Stampede__Scheduler__V1__PublishBatchRequest request =
		STAMPEDE__SCHEDULER__V1__PUBLISH_BATCH_REQUEST__INIT;
	Stampede__Scheduler__V1__Job **jobs = calloc(count, sizeof(*jobs));
	struct asking *asking;

	for (size_t i = 0; i < count; i++)
		jobs[i] = &plans[i].job;
	request.queue = (char *)QUEUE;
	request.n_jobs = count;
	request.jobs = jobs;
	asking = rpc_client_ask(client, PATH "PublishBatch", &request, 10000);
	free(jobs);
	return asking;
}

static enum status publish_batch(struct rpc_client *client, struct plan *plans, size_t count)
{
	struct asking *asking = publish_batch_ask(client, plans, count);
	enum status status;

	asking_wait(asking, &stampede__scheduler__v1__publish_batch_response__descriptor);
	status = asking_status(asking);
	asking_free(asking);
	return status;
}

static struct asking *lease_ask(struct rpc_client *client, int jobs_max, int lease_ms, int wait_ms)
{
	Stampede__Scheduler__V1__LeaseRequest request =
		STAMPEDE__SCHEDULER__V1__LEASE_REQUEST__INIT;
	Google__Protobuf__Duration lease = GOOGLE__PROTOBUF__DURATION__INIT;
	Google__Protobuf__Duration wait = GOOGLE__PROTOBUF__DURATION__INIT;

	lease.nanos = lease_ms * 1000000;
	wait.seconds = wait_ms / 1000;
	wait.nanos = wait_ms % 1000 * 1000000;
	request.queue = (char *)QUEUE;
	request.jobs_max = jobs_max;
	request.lease = &lease;
	request.max_wait = &wait;
	return rpc_client_ask(client, PATH "Lease", &request, 20000);
}

static Stampede__Scheduler__V1__LeaseResponse *leased(struct asking *asking)
{
	Stampede__Scheduler__V1__LeaseResponse *response =
		asking_wait(asking, &stampede__scheduler__v1__lease_response__descriptor);

	ck_assert_msg(response, "%s", asking_message(asking));
	return response;
}

static bool acknowledge(struct rpc_client *client, const char *receipt)
{
	Stampede__Scheduler__V1__AcknowledgeRequest request =
		STAMPEDE__SCHEDULER__V1__ACKNOWLEDGE_REQUEST__INIT;
	Stampede__Scheduler__V1__AcknowledgeResponse *response;
	char *receipts[] = {(char *)receipt};
	struct asking *asking;
	bool acknowledged;

	request.queue = (char *)QUEUE;
	request.n_receipts = 1;
	request.receipts = receipts;
	asking = rpc_client_ask(client, PATH "Acknowledge", &request, 5000);
	response = asking_wait(asking, &stampede__scheduler__v1__acknowledge_response__descriptor);
	ck_assert_ptr_nonnull(response);
	ck_assert_uint_eq(response->n_acknowledged, 1);
	acknowledged = response->acknowledged[0];
	asking_free(asking);
	return acknowledged;
}

static int cancel(struct rpc_client *client, const char *id)
{
	Stampede__Scheduler__V1__CancelRequest request =
		STAMPEDE__SCHEDULER__V1__CANCEL_REQUEST__INIT;
	Stampede__Scheduler__V1__CancelResponse *response;
	struct asking *asking;
	int verdict;

	request.queue = (char *)QUEUE;
	request.job_id = (char *)id;
	asking = rpc_client_ask(client, PATH "Cancel", &request, 5000);
	response = asking_wait(asking, &stampede__scheduler__v1__cancel_response__descriptor);
	ck_assert_ptr_nonnull(response);
	verdict = (int)response->verdict;
	ck_assert_int_eq(verdict == STAMPEDE__SCHEDULER__V1__VERDICT__VERDICT_IN_FLIGHT,
			 response->lease_expires_at != NULL);
	asking_free(asking);
	return verdict;
}

static int reschedule(struct rpc_client *client, const char *id, int64_t due_ms)
{
	Stampede__Scheduler__V1__RescheduleRequest request =
		STAMPEDE__SCHEDULER__V1__RESCHEDULE_REQUEST__INIT;
	Stampede__Scheduler__V1__RescheduleResponse *response;
	struct plan plan;
	struct asking *asking;
	int verdict;

	plan_make(&plan, id, due_ms);
	request.queue = (char *)QUEUE;
	request.job_id = (char *)id;
	request.due_at = &plan.due_at;
	asking = rpc_client_ask(client, PATH "Reschedule", &request, 5000);
	response = asking_wait(asking, &stampede__scheduler__v1__reschedule_response__descriptor);
	ck_assert_ptr_nonnull(response);
	verdict = (int)response->verdict;
	asking_free(asking);
	return verdict;
}

/* The job's status, 0 when there is none; *ret_tries its tries. */
static int job_status(struct rpc_client *client, const char *id, int *ret_tries)
{
	Stampede__Scheduler__V1__GetJobRequest request =
		STAMPEDE__SCHEDULER__V1__GET_JOB_REQUEST__INIT;
	Stampede__Scheduler__V1__GetJobResponse *response;
	struct asking *asking;
	int status = 0;

	request.queue = (char *)QUEUE;
	request.job_id = (char *)id;
	asking = rpc_client_ask(client, PATH "GetJob", &request, 5000);
	response = asking_wait(asking, &stampede__scheduler__v1__get_job_response__descriptor);
	if (response) {
		status = (int)response->status;
		*ret_tries = response->tries;
	} else {
		ck_assert_int_eq(asking_status(asking), STATUS_NOT_FOUND);
	}
	asking_free(asking);
	return status;
}

#define DONE STAMPEDE__SCHEDULER__V1__VERDICT__VERDICT_DONE
#define UNKNOWN STAMPEDE__SCHEDULER__V1__VERDICT__VERDICT_UNKNOWN_OR_FIRED
#define IN_FLIGHT STAMPEDE__SCHEDULER__V1__VERDICT__VERDICT_IN_FLIGHT
#define SCHEDULED STAMPEDE__SCHEDULER__V1__JOB_STATUS__JOB_STATUS_SCHEDULED
#define LEASED STAMPEDE__SCHEDULER__V1__JOB_STATUS__JOB_STATUS_LEASED
#define DEAD STAMPEDE__SCHEDULER__V1__JOB_STATUS__JOB_STATUS_DEAD

/* --- the bus's other end --------------------------------------------------------------------- */

#define FIRED_MAX 8192

static struct {
	struct bus *bus;
	int count, records;
	struct {
		char id[32], key[32];
		int64_t at_ms, due_ms;
		int tries;
	} jobs[FIRED_MAX];
} listener;

static void listener_batch(void *self, struct bus_batch *batch)
{
	(void)self;
	for (int i = 0; i < batch->count; i++) {
		const struct bus_record *record = &batch->records[i];
		Stampede__Events__V1__JobsFired *fired = stampede__events__v1__jobs_fired__unpack(
			NULL, record->value_size, record->value);

		ck_assert_ptr_nonnull(fired);
		listener.records++;
		for (size_t at = 0; at < fired->n_jobs && listener.count < FIRED_MAX; at++) {
			const Stampede__Scheduler__V1__Job *job = fired->jobs[at]->job;
			int mine = listener.count++;

			snprintf(listener.jobs[mine].id, sizeof(listener.jobs[mine].id), "%s",
				 job->job_id);
			snprintf(listener.jobs[mine].key, sizeof(listener.jobs[mine].key), "%.*s",
				 (int)record->key_size, record->key);
			listener.jobs[mine].at_ms = clock_wall_ms();
			listener.jobs[mine].due_ms =
				job->due_at->seconds * 1000 + job->due_at->nanos / 1000000;
			listener.jobs[mine].tries = fired->jobs[at]->tries;
		}
		stampede__events__v1__jobs_fired__free_unpacked(fired, NULL);
	}
	bus_batch_done(batch);
}

static void listener_start(void)
{
	struct bus_options options = {.url = redis_server_url(bus_redis), .client_id = "test"};
	struct bus_consumer_options consumer = {
		.topic = TOPIC, .group = "test", .batch = listener_batch};

	listener.count = listener.records = 0;
	listener.bus = bus_create(rpc_client_loop(), &options);
	ck_assert_ptr_nonnull(bus_consume(listener.bus, &consumer));
	while (!bus_up(listener.bus))
		rpc_client_run_ms(10);
}

static void listener_closed(void *context)
{
	loop_stop(context);
}

static void listener_stop(void)
{
	bus_close(listener.bus, 1000, listener_closed, rpc_client_loop());
	loop_run(rpc_client_loop());
	bus_destroy(listener.bus);
}

static void wait_for_fired(int count, int64_t max_ms)
{
	int64_t started_us = clock_monotonic_us();

	while (listener.count < count) {
		ck_assert_msg(clock_monotonic_us() - started_us < max_ms * 1000,
			      "%d of %d have fired", listener.count, count);
		rpc_client_run_ms(5);
	}
}

/* --- the callbacks' other end ---------------------------------------------------------------- */

static struct {
	struct server *server;
	int calls, failures_left, tries;
	int64_t at_us[64];
	bool sleeps;
} runner;

static enum step run_slept(struct call *call, enum status status)
{
	return call_fail(call, status == STATUS_OK ? STATUS_INTERNAL : status, "slept");
}

static enum step run_begin(struct call *call)
{
	const Stampede__Scheduler__V1__RunRequest *request = call_request(call);
	Stampede__Scheduler__V1__RunResponse response = STAMPEDE__SCHEDULER__V1__RUN_RESPONSE__INIT;

	runner.at_us[runner.calls++ % 64] = clock_monotonic_us();
	runner.tries = request->tries;
	if (runner.sleeps)
		return call_sleep(call, 20000, run_slept);
	if (runner.failures_left && runner.failures_left--)
		return call_fail(call, STATUS_FAILED_PRECONDITION, "not yet");
	return call_reply(call, &response);
}

/* No service of ours takes RunRequest, so this one says it is another. */
static void run_callbacks(void)
{
	static const struct method method = {.name = "GetJob", .begin = run_begin};
	static const struct method *const methods[] = {&method, NULL};
	static ProtobufCMethodDescriptor described;
	static ProtobufCServiceDescriptor descriptor;
	static struct service service;
	struct server_options options = {.address = "127.0.0.1:0"};

	described = (ProtobufCMethodDescriptor){"GetJob",
						&stampede__scheduler__v1__run_request__descriptor,
						&stampede__scheduler__v1__run_response__descriptor};
	descriptor = stampede__scheduler__v1__scheduler_service__descriptor;
	descriptor.n_methods = 1;
	descriptor.methods = &described;
	service = (struct service){&descriptor, methods, NULL};
	memset(&runner, 0, sizeof(runner));
	runner.server = server_create(rpc_client_loop(), &options);
	server_add(runner.server, &service);
	ck_assert_int_eq(server_start(runner.server), STATUS_OK);
}

static void run_callbacks_no_more(void)
{
	server_drain(runner.server, 100, listener_closed, rpc_client_loop());
	loop_run(rpc_client_loop());
	server_destroy(runner.server);
}

static void wait_for_status(const char *id, int status, int64_t max_ms)
{
	int64_t started_us = clock_monotonic_us();
	int tries;

	while (job_status(clients[0], id, &tries) != status) {
		ck_assert_int_lt(clock_monotonic_us() - started_us, max_ms * 1000);
		rpc_client_run_ms(20);
	}
}

/* --- publishing ------------------------------------------------------------------------------ */

START_TEST(answers_a_repeat_alike_and_refuses_another_job)
{
	struct plan plan;

	plan_make(&plan, "a", clock_wall_ms() + 60000);
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	ck_assert_int_eq(publish(clients[1], &plan), STATUS_OK);
	plan.job.tries_max = 3;
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_ALREADY_EXISTS);
}
END_TEST

START_TEST(refuses_what_is_wrong_and_names_the_field)
{
	static uint8_t large[64 * 1024 + 1];
	static const char *const fields[] = {
		"job.payload",	 "job.target", "job.target.topic",	    "job.due_at",
		"job.tries_max", "job.job_id", "job.target.callback.method"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct plan plan;
		struct asking *asking;

		plan_make(&plan, "a", clock_wall_ms());
		plan_topic(&plan, "key");
		switch (i) {
		case 0:
			plan.job.payload = (ProtobufCBinaryData){sizeof(large), large};
			break;
		case 1:
			plan.job.target = NULL;
			break;
		case 2:
			plan.target.topic = (char *)"no/topic";
			break;
		case 3:
			plan.due_at.seconds += 401 * 24 * 3600;
			break;
		case 4:
			plan.job.tries_max = 101;
			break;
		case 5:
			plan.job.job_id = (char *)"a\tb";
			break;
		default:
			plan_callback(&plan, 1, 1);
			plan.callback.method = (char *)"no method";
		}
		asking = publish_ask(clients[0], &plan);
		asking_wait(asking, &stampede__scheduler__v1__publish_response__descriptor);
		ck_assert_msg(asking_status(asking) == STATUS_INVALID_ARGUMENT, "%s: %s", fields[i],
			      status_name(asking_status(asking)));
		ck_assert_msg(asking_details_hold(asking, fields[i]), "%s", fields[i]);
		asking_free(asking);
	}
}
END_TEST

START_TEST(publishes_all_of_a_batch_or_none)
{
	static struct plan plans[10];
	int tries;

	publish_pull(clients[0], "job-7", clock_wall_ms() + 50000);
	for (int i = 0; i < 10; i++) {
		char id[32];

		snprintf(id, sizeof(id), "job-%d", i);
		plan_make(&plans[i], id, clock_wall_ms() + 60000);
	}
	ck_assert_int_eq(publish_batch(clients[0], plans, 10), STATUS_ALREADY_EXISTS);
	ck_assert_int_eq(job_status(clients[0], "job-0", &tries), 0);
	ck_assert_int_eq(cancel(clients[0], "job-7"), DONE);
	ck_assert_int_eq(publish_batch(clients[0], plans, 10), STATUS_OK);
	ck_assert_int_eq(publish_batch(clients[1], plans, 10), STATUS_OK);
	ck_assert_int_eq(job_status(clients[1], "job-9", &tries), SCHEDULED);
}
END_TEST

/* --- topics ---------------------------------------------------------------------------------- */

START_TEST(fires_once_when_due_and_not_before)
{
	struct plan plan;
	int tries;
	int64_t due_ms = clock_wall_ms() + 500;

	listener_start();
	plan_make(&plan, "a", due_ms);
	plan_topic(&plan, "");
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	wait_for_fired(1, 3000);
	ck_assert_int_ge(listener.jobs[0].at_ms, due_ms);
	ck_assert_int_lt(listener.jobs[0].at_ms, due_ms + 1000);
	ck_assert_int_eq(listener.jobs[0].due_ms, due_ms);
	ck_assert_str_eq(listener.jobs[0].key, "a");
	rpc_client_run_ms(1500); /* longer than the lease */
	ck_assert_int_eq(listener.count, 1);
	ck_assert_int_eq(job_status(clients[0], "a", &tries), 0);
	listener_stop();
}
END_TEST

START_TEST(fires_a_batch_grouped_by_key_in_the_order_of_due_times)
{
	enum { JOBS = 1000, KEYS = 4 };
	static struct plan plans[JOBS];
	int64_t due_ms = clock_wall_ms() + 300, last[KEYS] = {0};

	listener_start();
	service_process_kill(
		instances[1]); /* two at work may pass each other within a millisecond */
	for (int i = 0; i < JOBS; i++) {
		char id[32], key[32];

		snprintf(id, sizeof(id), "job-%d", i);
		snprintf(key, sizeof(key), "%d", i % KEYS);
		plan_make(&plans[i], id, due_ms + (JOBS - i) / 10);
		plan_topic(&plans[i], key);
	}
	ck_assert_int_eq(publish_batch(clients[0], plans, JOBS), STATUS_OK);
	wait_for_fired(JOBS, 10000);
	rpc_client_run_ms(200);
	ck_assert_int_eq(listener.count, JOBS);
	ck_assert_int_lt(listener.records, JOBS);
	for (int i = 0; i < JOBS; i++) {
		int key = atoi(listener.jobs[i].key);

		ck_assert_int_eq(atoi(listener.jobs[i].id + 4) % KEYS, key);
		ck_assert_int_ge(listener.jobs[i].at_ms, listener.jobs[i].due_ms);
		ck_assert_int_ge(listener.jobs[i].due_ms, last[key]);
		last[key] = listener.jobs[i].due_ms;
	}
	listener_stop();
}
END_TEST

START_TEST(keeps_jobs_while_the_bus_is_away)
{
	struct plan plan;

	redis_server_kill(bus_redis);
	rpc_client_run_ms(100);
	plan_make(&plan, "a", clock_wall_ms());
	plan_topic(&plan, "");
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	rpc_client_run_ms(2500); /* longer than its lease, had it been taken */
	redis_server_restart(bus_redis);
	listener_start();
	wait_for_fired(1, 15000);
	ck_assert_str_eq(listener.jobs[0].id, "a");
	listener_stop();
}
END_TEST

START_TEST(keeps_jobs_across_a_restart_of_redis)
{
	struct plan plan;
	struct asking *asking;
	int64_t due_ms = clock_wall_ms() + 1000;

	listener_start();
	plan_make(&plan, "a", due_ms);
	plan_topic(&plan, "");
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	redis_server_kill(redis);
	rpc_client_run_ms(100);
	asking = publish_ask(clients[0], &plan);
	asking_wait(asking, &stampede__scheduler__v1__publish_response__descriptor);
	ck_assert_int_eq(asking_status(asking), STATUS_UNAVAILABLE);
	ck_assert(asking_details_hold(asking, "google.rpc.RetryInfo"));
	asking_free(asking);
	redis_server_restart(redis);
	wait_for_fired(1, 10000);
	ck_assert_int_ge(listener.jobs[0].at_ms, due_ms);
	listener_stop();
}
END_TEST

/* --- leasing --------------------------------------------------------------------------------- */

START_TEST(hands_out_the_oldest_due_first)
{
	Stampede__Scheduler__V1__LeaseResponse *response;
	struct asking *asking;
	int64_t now_ms = clock_wall_ms() + 500;

	publish_pull(clients[0], "second", now_ms + 40);
	publish_pull(clients[1], "third", now_ms + 80);
	publish_pull(clients[0], "later", now_ms + 60000);
	publish_pull(clients[1], "first", now_ms + 20);
	rpc_client_run_ms(700);
	asking = lease_ask(clients[0], 10, 500, 1000);
	response = leased(asking);
	ck_assert_uint_eq(response->n_jobs, 3);
	ck_assert_str_eq(response->jobs[0]->job->job_id, "first");
	ck_assert_str_eq(response->jobs[1]->job->job_id, "second");
	ck_assert_str_eq(response->jobs[2]->job->job_id, "third");
	asking_free(asking);
}
END_TEST

START_TEST(hands_a_job_out_again_when_its_lease_has_run_out)
{
	Stampede__Scheduler__V1__LeaseResponse *first, *second;
	struct asking *first_asking, *second_asking;
	int64_t started_us;

	publish_pull(clients[0], "a", clock_wall_ms());
	first_asking = lease_ask(clients[0], 1, 400, 1000);
	first = leased(first_asking);
	ck_assert_uint_eq(first->n_jobs, 1);
	started_us = asking_answered_us(first_asking);
	second_asking = lease_ask(clients[0], 1, 900, 5000);
	second = leased(second_asking);
	ck_assert_uint_eq(second->n_jobs, 1);
	ck_assert_int_ge(asking_answered_us(second_asking) - started_us, 390 * 1000);
	ck_assert_int_lt(asking_answered_us(second_asking) - started_us, 1500 * 1000);
	ck_assert_int_eq(second->jobs[0]->tries, 2);
	ck_assert(!acknowledge(clients[0], first->jobs[0]->receipt));
	ck_assert(acknowledge(clients[1], second->jobs[0]->receipt));
	ck_assert(!acknowledge(clients[1], second->jobs[0]->receipt));
	asking_free(first_asking);
	asking_free(second_asking);
}
END_TEST

START_TEST(wakes_a_waiting_lease_for_a_job_of_another_instance)
{
	struct asking *asking = lease_ask(clients[0], 1, 500, 10000);
	int64_t published_us;

	rpc_client_run_ms(200);
	publish_pull(clients[1], "much-later", clock_wall_ms() + 60000);
	publish_pull(clients[1], "later", clock_wall_ms() + 30000);
	rpc_client_run_ms(100);
	ck_assert(!asking_done(asking));
	published_us = clock_monotonic_us();
	publish_pull(clients[1], "now", clock_wall_ms());
	ck_assert_str_eq(leased(asking)->jobs[0]->job->job_id, "now");
	ck_assert_int_lt(asking_answered_us(asking) - published_us, 1000 * 1000);
	asking_free(asking);
}
END_TEST

START_TEST(answers_with_nothing_when_nothing_becomes_due)
{
	struct asking *asking = lease_ask(clients[0], 1, 500, 200);

	ck_assert_uint_eq(leased(asking)->n_jobs, 0);
	asking_free(asking);
}
END_TEST

/* Whoever left is not handed anything: the job goes to who still waits, well before a lease would end. */
START_TEST(does_not_lose_a_job_to_a_caller_who_left)
{
	struct asking *gone = lease_ask(clients[0], 1, 900, 10000), *waits;

	rpc_client_run_ms(100);
	waits = lease_ask(clients[0], 1, 900, 10000);
	rpc_client_run_ms(100);
	asking_cancel(gone);
	publish_pull(clients[1], "a", clock_wall_ms());
	ck_assert_str_eq(leased(waits)->jobs[0]->job->job_id, "a");
	asking_wait(gone, &stampede__scheduler__v1__lease_response__descriptor);
	ck_assert_int_eq(asking_status(gone), STATUS_CANCELLED);
	asking_free(gone);
	asking_free(waits);
}
END_TEST

START_TEST(buries_a_job_that_lost_all_its_leases)
{
	struct plan plan;

	plan_make(&plan, "a", clock_wall_ms());
	plan.job.tries_max = 2;
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	for (int i = 0; i < 2; i++) {
		struct asking *asking = lease_ask(clients[0], 1, 200, 3000);

		ck_assert_uint_eq(leased(asking)->n_jobs, 1);
		asking_free(asking);
	}
	wait_for_status("a", DEAD, 2000);
	ck_assert_int_eq(reschedule(clients[0], "a", clock_wall_ms()), DONE);
	wait_for_status("a", SCHEDULED, 1000);
	ck_assert_int_eq(cancel(clients[0], "a"), DONE);
}
END_TEST

/* --- verdicts -------------------------------------------------------------------------------- */

START_TEST(gives_a_definite_verdict)
{
	struct asking *asking;
	int tries;

	ck_assert_int_eq(cancel(clients[0], "a"), UNKNOWN);
	ck_assert_int_eq(reschedule(clients[0], "a", clock_wall_ms()), UNKNOWN);
	publish_pull(clients[0], "a", clock_wall_ms() + 60000);
	ck_assert_int_eq(reschedule(clients[1], "a", clock_wall_ms() + 100), DONE);
	asking = lease_ask(clients[0], 1, 999, 5000);
	ck_assert_uint_eq(leased(asking)->n_jobs, 1);
	ck_assert_int_eq(job_status(clients[0], "a", &tries), LEASED);
	ck_assert_int_eq(tries, 1);
	ck_assert_int_eq(cancel(clients[0], "a"), IN_FLIGHT);
	ck_assert_int_eq(reschedule(clients[0], "a", clock_wall_ms()), IN_FLIGHT);
	ck_assert(acknowledge(clients[0], leased(asking)->jobs[0]->receipt));
	ck_assert_int_eq(cancel(clients[0], "a"), UNKNOWN);
	asking_free(asking);
	publish_pull(clients[0], "b", clock_wall_ms() + 60000);
	ck_assert_int_eq(cancel(clients[1], "b"), DONE);
	ck_assert_int_eq(cancel(clients[1], "b"), UNKNOWN);
}
END_TEST

/* --- callbacks ------------------------------------------------------------------------------- */

START_TEST(calls_again_later_and_later_until_it_is_ok)
{
	struct plan plan;
	int tries;

	run_callbacks();
	runner.failures_left = 3;
	plan_make(&plan, "a", clock_wall_ms());
	plan_callback(&plan, server_port(runner.server), 10);
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	while (runner.calls < 4)
		rpc_client_run_ms(10);
	ck_assert_int_eq(runner.tries, 4);
	/* 100, 200 and 400 ms, each at least half of that. */
	ck_assert_int_ge(runner.at_us[1] - runner.at_us[0], 49 * 1000);
	ck_assert_int_ge(runner.at_us[2] - runner.at_us[1], 99 * 1000);
	ck_assert_int_ge(runner.at_us[3] - runner.at_us[2], 199 * 1000);
	rpc_client_run_ms(1500);
	ck_assert_int_eq(runner.calls, 4);
	ck_assert_int_eq(job_status(clients[0], "a", &tries), 0);
	run_callbacks_no_more();
}
END_TEST

START_TEST(gives_a_callback_up_after_its_tries)
{
	struct plan plan;
	int tries;

	run_callbacks();
	runner.failures_left = 1000;
	plan_make(&plan, "a", clock_wall_ms());
	plan_callback(&plan, server_port(runner.server), 3);
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	wait_for_status("a", DEAD, 10000);
	rpc_client_run_ms(500);
	ck_assert_int_eq(runner.calls, 3);
	job_status(clients[0], "a", &tries);
	ck_assert_int_eq(tries, 3);
	run_callbacks_no_more();
}
END_TEST

START_TEST(delivers_again_what_a_killed_instance_had_taken)
{
	struct plan plan;
	int tries;

	run_callbacks();
	runner.sleeps = true;
	plan_make(&plan, "a", clock_wall_ms());
	plan_callback(&plan, server_port(runner.server), 10);
	service_process_pause(instances[1]); /* so that the other takes it */
	ck_assert_int_eq(publish(clients[0], &plan), STATUS_OK);
	while (!runner.calls)
		rpc_client_run_ms(10);
	service_process_kill(instances[0]);
	runner.sleeps = false;
	service_process_resume(instances[1]);
	while (runner.calls < 2)
		rpc_client_run_ms(10);
	ck_assert_int_eq(runner.tries, 2);
	rpc_client_run_ms(200);
	ck_assert_int_eq(job_status(clients[1], "a", &tries), 0);
	run_callbacks_no_more();
}
END_TEST

START_TEST(finishes_what_runs_when_it_is_told_to_stop)
{
	static struct plan plans[100];

	listener_start();
	for (int i = 0; i < 100; i++) {
		char id[32];

		snprintf(id, sizeof(id), "job-%d", i);
		plan_make(&plans[i], id, clock_wall_ms() + i);
		plan_topic(&plans[i], "");
	}
	ck_assert_int_eq(publish_batch(clients[0], plans, 100), STATUS_OK);
	ck_assert_int_eq(service_process_terminate(instances[0]), 0);
	wait_for_fired(100, 5000);
	rpc_client_run_ms(1500);
	ck_assert_int_eq(listener.count, 100);
	listener_stop();
}
END_TEST

/* At least once, whatever dies: instances, the bus and Redis, while jobs are published and fired. */
START_TEST(loses_no_job_whatever_is_killed)
{
	enum { BATCHES = 12, JOBS = 200 };
	static struct plan plans[JOBS];
	static bool seen[BATCHES * JOBS];
	int distinct = 0, looked = 0;
	int64_t started_us;

	listener_start();
	for (int batch = 0; batch < BATCHES; batch++) {
		for (int i = 0; i < JOBS; i++) {
			char id[32], key[32];

			snprintf(id, sizeof(id), "%d", batch * JOBS + i);
			snprintf(key, sizeof(key), "%d", i % 4);
			plan_make(&plans[i], id, clock_wall_ms() + i * 2);
			plan_topic(&plans[i], key);
		}
		for (int tries = 0; publish_batch(clients[1], plans, JOBS) != STATUS_OK; tries++) {
			ck_assert_int_lt(tries, 500);
			rpc_client_run_ms(20);
		}
		rpc_client_run_ms(100);
		if (batch % 3 == 0) {
			service_process_free(instances[0]);
			instances[0] = start_instance();
		} else if (batch % 3 == 1) {
			redis_server_restart(redis);
		} else {
			redis_server_restart(bus_redis);
		}
	}
	started_us = clock_monotonic_us();
	while (distinct < BATCHES * JOBS) {
		for (; looked < listener.count; looked++) {
			int id = atoi(listener.jobs[looked].id);

			ck_assert_int_ge(listener.jobs[looked].at_ms, listener.jobs[looked].due_ms);
			distinct += !seen[id];
			seen[id] = true;
		}
		ck_assert_msg(clock_monotonic_us() - started_us < 40000000, "%d of %d", distinct,
			      BATCHES * JOBS);
		rpc_client_run_ms(20);
	}
	listener_stop();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("scheduler");
	TCase *tests = tcase_create("scheduler");
	TCase *crashes = tcase_create("crashes");
	SRunner *runs = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, answers_a_repeat_alike_and_refuses_another_job);
	tcase_add_test(tests, refuses_what_is_wrong_and_names_the_field);
	tcase_add_test(tests, publishes_all_of_a_batch_or_none);
	tcase_add_test(tests, fires_once_when_due_and_not_before);
	tcase_add_test(tests, fires_a_batch_grouped_by_key_in_the_order_of_due_times);
	tcase_add_test(tests, keeps_jobs_while_the_bus_is_away);
	tcase_add_test(tests, keeps_jobs_across_a_restart_of_redis);
	tcase_add_test(tests, hands_out_the_oldest_due_first);
	tcase_add_test(tests, hands_a_job_out_again_when_its_lease_has_run_out);
	tcase_add_test(tests, wakes_a_waiting_lease_for_a_job_of_another_instance);
	tcase_add_test(tests, answers_with_nothing_when_nothing_becomes_due);
	tcase_add_test(tests, does_not_lose_a_job_to_a_caller_who_left);
	tcase_add_test(tests, buries_a_job_that_lost_all_its_leases);
	tcase_add_test(tests, gives_a_definite_verdict);
	tcase_add_test(tests, calls_again_later_and_later_until_it_is_ok);
	tcase_add_test(tests, gives_a_callback_up_after_its_tries);
	tcase_add_test(tests, delivers_again_what_a_killed_instance_had_taken);
	tcase_add_test(tests, finishes_what_runs_when_it_is_told_to_stop);
	suite_add_tcase(suite, tests);
	tcase_add_checked_fixture(crashes, set_up, tear_down);
	tcase_set_timeout(crashes, 110);
	tcase_add_test(crashes, loses_no_job_whatever_is_killed);
	suite_add_tcase(suite, crashes);
	srunner_run_all(runs, CK_NORMAL);
	failed = srunner_ntests_failed(runs);
	srunner_free(runs);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
