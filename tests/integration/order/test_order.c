/* The order service as its neighbours see it: real processes of order, inventory and scheduler
 * over a real Redis, records put on the bus by the test, processes killed where that matters. */
#include <assert.h>
#include <check.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stampede/order/v1/order.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/bus.h"
#include "runtime/clock.h"
#include "tests/support/redis_server.h"
#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

#define ORDER "/stampede.order.v1.OrderService/"
#define INVENTORY "/stampede.inventory.v1.InventoryService/"
#define WAIT_US 30000000

static struct redis_server *redis;
static struct service_process *inventory, *scheduler, *order;
static struct rpc_client *inventory_client, *order_client;
static struct bus *bus;
static bool bus_is_up;
static char data[64];

static void on_bus_state(void *self, bool up)
{
	(void)self;
	bus_is_up = up;
}

static void wait_until(bool (*holds)(void), const char *what)
{
	int64_t begun_us = clock_monotonic_us();

	while (!holds()) {
		ck_assert_msg(clock_monotonic_us() - begun_us < WAIT_US, "waited in vain: %s",
			      what);
		rpc_client_run_ms(20);
	}
}

static bool bus_holds(void)
{
	return bus_is_up;
}

static struct service_process *start(const char *binary)
{
	char url[128], folder[128], stock[128] = "STAMPEDE_INVENTORY=127.0.0.1:1",
				    jobs[128] = "STAMPEDE_SCHEDULER=127.0.0.1:1";
	const char *environment[] = {url, folder, stock, jobs, NULL};

	snprintf(url, sizeof(url), "STAMPEDE_REDIS=%s", redis_server_url(redis));
	snprintf(folder, sizeof(folder), "STAMPEDE_DATA=%s", data);
	if (inventory)
		snprintf(stock, sizeof(stock), "STAMPEDE_INVENTORY=%s",
			 service_process_target(inventory));
	if (scheduler)
		snprintf(jobs, sizeof(jobs), "STAMPEDE_SCHEDULER=%s",
			 service_process_target(scheduler));
	return service_process_start(binary, environment, true);
}

static void start_order(void)
{
	order = start(ORDER_BINARY);
	order_client = rpc_client_create(service_process_target(order));
}

static void stop_order(void)
{
	rpc_client_free(order_client);
	service_process_free(order);
}

static void set_up(void)
{
	snprintf(data, sizeof(data), "/tmp/order-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(data));
	redis = redis_server_start(NULL);
	inventory = scheduler = NULL;
	inventory = start(INVENTORY_BINARY);
	scheduler = start(SCHEDULER_BINARY);
	inventory_client = rpc_client_create(service_process_target(inventory));
	start_order();
	bus_is_up = false;
	bus = bus_create(rpc_client_loop(), &(struct bus_options){.url = redis_server_url(redis),
								  .client_id = "test",
								  .state = on_bus_state});
	wait_until(bus_holds, "the bus");
}

static bool closed;

static void on_closed(void *context)
{
	(void)context;
	closed = true;
}

static bool closed_holds(void)
{
	return closed;
}

static void tear_down(void)
{
	char command[128];

	closed = false;
	bus_close(bus, 1000, on_closed, NULL);
	wait_until(closed_holds, "the bus to close");
	bus_destroy(bus);
	stop_order();
	rpc_client_free(inventory_client);
	service_process_free(inventory);
	service_process_free(scheduler);
	rpc_client_end();
	redis_server_free(redis);
	snprintf(command, sizeof(command), "rm -rf %s", data);
	ck_assert_int_eq(system(command), 0);
}

/* --- records -------------------------------------------------------------------------------- */

static int publishing;

static void on_published(struct bus_publish *publish, enum status status)
{
	ck_assert_int_eq(status, STATUS_OK);
	free(publish);
	publishing--;
}

static bool published_holds(void)
{
	return !publishing;
}

static void publish_to(const char *topic, const void *value, size_t size)
{
	struct bus_publish *one = calloc(1, sizeof(*one));

	ck_assert_ptr_nonnull(one);
	*one = (struct bus_publish){.topic = topic,
				    .key = "0",
				    .key_size = 1,
				    .value = value,
				    .value_size = size,
				    .done = on_published};
	publishing++;
	bus_publish(bus, one);
}

static void publish(const void *value, size_t size)
{
	publish_to("reservations", value, size);
}

#define RESERVATIONS_MAX 64
static int64_t due_within_s = 600;
static const char *buyer; /* NULL: one of ten, by the id */

/* A record of reservations with the ids first_id, first_id + 1 …, of quantity 1; `bad` of
 * them, from the first, have none. */
static void publish_reservations(const char *sale_id, int64_t first_id, int count, int bad)
{
	static Stampede__Events__V1__ReservationMade made[RESERVATIONS_MAX],
		*list[RESERVATIONS_MAX];
	static char ids[RESERVATIONS_MAX][24], users[RESERVATIONS_MAX][24];
	static uint8_t bytes[RESERVATIONS_MAX * 200];
	Stampede__Events__V1__ReservationsMade message;
	Google__Protobuf__Timestamp pay_by;

	google__protobuf__timestamp__init(&pay_by);
	pay_by.seconds = clock_wall_ms() / 1000 + due_within_s;
	for (int i = 0; i < count; i++) {
		stampede__events__v1__reservation_made__init(&made[i]);
		snprintf(ids[i], sizeof(ids[i]), "%lld", (long long)first_id + i);
		/* What was really reserved (reserve()) was so by this user: releases find it by that. */
		if (!strcmp(sale_id, "stock"))
			snprintf(users[i], sizeof(users[i]), "user");
		else
			snprintf(users[i], sizeof(users[i]), "user-%lld",
				 (long long)(first_id + i) % 10);
		made[i].order_id = made[i].request_id = ids[i];
		made[i].sale_id = (char *)sale_id;
		made[i].user_id = buyer ? (char *)buyer : users[i];
		made[i].quantity = i < bad ? 0 : 1;
		made[i].pay_by = &pay_by;
		list[i] = &made[i];
	}
	stampede__events__v1__reservations_made__init(&message);
	message.reservations = list;
	message.n_reservations = (size_t)count;
	publish(bytes, protobuf_c_message_pack(&message.base, bytes));
}

/* --- asking --------------------------------------------------------------------------------- */

static enum status last_status;

/* The status alone; the details must hold `detail` unless it is NULL. */
static enum status ask(const char *path, const void *request, const char *detail)
{
	struct asking *asking = rpc_client_ask(order_client, path, request, 5000);
	enum status status;

	(void)asking_wait(asking, &stampede__order__v1__get_order_response__descriptor);
	status = asking_status(asking);
	if (detail)
		ck_assert_msg(asking_details_hold(asking, detail), "no '%s' in the details: %s",
			      detail, asking_message(asking));
	asking_free(asking);
	return status;
}

/* The order's status, 0 when there is none. */
static int order_status(int64_t order_id, int *ret_reason)
{
	Stampede__Order__V1__GetOrderRequest request = STAMPEDE__ORDER__V1__GET_ORDER_REQUEST__INIT;
	Stampede__Order__V1__GetOrderResponse *response;
	struct asking *asking;
	char id[24];
	int status;

	snprintf(id, sizeof(id), "%lld", (long long)order_id);
	request.order_id = id;
	asking = rpc_client_ask(order_client, ORDER "GetOrder", &request, 5000);
	response = asking_wait(asking, &stampede__order__v1__get_order_response__descriptor);
	last_status = asking_status(asking);
	status = response ? (int)response->order->status : 0;
	if (ret_reason)
		*ret_reason = response ? (int)response->order->cancel_reason : 0;
	asking_free(asking);
	return status;
}

static int64_t orders_of(const char *sale_id, int status)
{
	Stampede__Order__V1__SummarizeOrdersRequest request =
		STAMPEDE__ORDER__V1__SUMMARIZE_ORDERS_REQUEST__INIT;
	Stampede__Order__V1__SummarizeOrdersResponse *response;
	struct asking *asking;
	int64_t orders = 0;

	request.sale_id = (char *)sale_id;
	asking = rpc_client_ask(order_client, ORDER "SummarizeOrders", &request, 5000);
	response = asking_wait(asking, &stampede__order__v1__summarize_orders_response__descriptor);
	for (size_t i = 0; response && i < response->n_counts; i++)
		if (!status || (int)response->counts[i]->status == status)
			orders += response->counts[i]->orders;
	asking_free(asking);
	return orders;
}

static void wait_orders(const char *sale_id, int status, int64_t count)
{
	int64_t begun_us = clock_monotonic_us();

	while (orders_of(sale_id, status) != count) {
		ck_assert_msg(clock_monotonic_us() - begun_us < WAIT_US,
			      "%lld orders instead of %lld", (long long)orders_of(sale_id, status),
			      (long long)count);
		rpc_client_run_ms(20);
	}
}

static bool backlog(int64_t *ret_outbox, int64_t *ret_dead)
{
	Stampede__Order__V1__GetBacklogRequest request =
		STAMPEDE__ORDER__V1__GET_BACKLOG_REQUEST__INIT;
	Stampede__Order__V1__GetBacklogResponse *response;
	struct asking *asking = rpc_client_ask(order_client, ORDER "GetBacklog", &request, 5000);
	bool known;

	response = asking_wait(asking, &stampede__order__v1__get_backlog_response__descriptor);
	known = response;
	if (response) {
		*ret_outbox = response->outbox;
		*ret_dead = response->dead_letters;
	}
	asking_free(asking);
	return known;
}

static bool outbox_empty(void)
{
	int64_t outbox = -1, dead;

	return backlog(&outbox, &dead) && outbox == 0;
}

static void create_sale(const char *sale_id, int64_t total, int64_t pay_within_s)
{
	Stampede__Inventory__V1__CreateSaleRequest request =
		STAMPEDE__INVENTORY__V1__CREATE_SALE_REQUEST__INIT;
	Google__Protobuf__Duration timeout = GOOGLE__PROTOBUF__DURATION__INIT;
	struct asking *asking;

	timeout.seconds = pay_within_s;
	request.sale_id = (char *)sale_id;
	request.total = total;
	request.per_user_limit = 100;
	request.payment_timeout = &timeout;
	request.open = true;
	asking = rpc_client_ask(inventory_client, INVENTORY "CreateSale", &request, 5000);
	(void)asking_wait(asking, &stampede__inventory__v1__create_sale_response__descriptor);
	ck_assert_int_eq(asking_status(asking), STATUS_OK);
	asking_free(asking);
}

static int64_t reserve(const char *sale_id, const char *request_id)
{
	Stampede__Inventory__V1__ReserveRequest request =
		STAMPEDE__INVENTORY__V1__RESERVE_REQUEST__INIT;
	Stampede__Inventory__V1__ReserveResponse *response;
	struct asking *asking;
	int64_t order_id;

	request.sale_id = (char *)sale_id;
	request.user_id = (char *)"user";
	request.quantity = 1;
	request.request_id = (char *)request_id;
	asking = rpc_client_ask(inventory_client, INVENTORY "Reserve", &request, 5000);
	response = asking_wait(asking, &stampede__inventory__v1__reserve_response__descriptor);
	ck_assert_ptr_nonnull(response);
	order_id = atoll(response->order_id);
	asking_free(asking);
	return order_id;
}

static int64_t available(const char *sale_id)
{
	Stampede__Inventory__V1__GetStockRequest request =
		STAMPEDE__INVENTORY__V1__GET_STOCK_REQUEST__INIT;
	Stampede__Inventory__V1__GetStockResponse *response;
	struct asking *asking;
	int64_t units;

	request.sale_id = (char *)sale_id;
	asking = rpc_client_ask(inventory_client, INVENTORY "GetStock", &request, 5000);
	response = asking_wait(asking, &stampede__inventory__v1__get_stock_response__descriptor);
	units = response ? response->stock->available : -1;
	asking_free(asking);
	return units;
}

static enum status pay(int64_t order_id, const char *reference, const char *detail)
{
	Stampede__Order__V1__PayOrderRequest request = STAMPEDE__ORDER__V1__PAY_ORDER_REQUEST__INIT;
	char id[24];

	snprintf(id, sizeof(id), "%lld", (long long)order_id);
	request.order_id = id;
	request.payment_reference = (char *)reference;
	return ask(ORDER "PayOrder", &request, detail);
}

/* --- placing -------------------------------------------------------------------------------- */

START_TEST(places_a_reservation_once_however_often_it_comes)
{
	for (int i = 0; i < 3; i++)
		publish_reservations("sale", 1000, 20, 0);
	publish_reservations("sale", 990, 20, 0); /* older, and overlapping */
	wait_until(published_holds, "publishing");
	wait_orders("sale", 0, 30);
	rpc_client_run_ms(200);
	ck_assert_int_eq(orders_of("sale", 0), 30);
	ck_assert_int_eq(order_status(1019, NULL), 1);
}
END_TEST

static uint8_t seen[4000]; /* events of order 10000 + i: 1 placed */

static void on_orders(void *self, struct bus_batch *batch)
{
	(void)self;
	for (int i = 0; i < batch->count; i++) {
		Stampede__Events__V1__OrdersChanged *changed =
			stampede__events__v1__orders_changed__unpack(
				NULL, batch->records[i].value_size, batch->records[i].value);

		ck_assert_ptr_nonnull(changed);
		for (size_t j = 0; j < changed->n_changes; j++)
			seen[atoll(changed->changes[j]->order->order_id) - 10000] = 1;
		stampede__events__v1__orders_changed__free_unpacked(changed, NULL);
	}
	bus_batch_done(batch);
}

static bool all_seen(void)
{
	return !memchr(seen, 0, sizeof(seen));
}

START_TEST(killed_in_the_middle_nothing_is_lost_and_nothing_twice)
{
	memset(seen, 0, sizeof(seen));
	bus_consume(bus, &(struct bus_consumer_options){
				 .topic = "orders", .group = "test", .batch = on_orders});
	for (int i = 0; i < 100; i++)
		publish_reservations("sale", 10000 + i * 40, 40, 0);
	for (int kills = 0; kills < 4; kills++) {
		rpc_client_run_ms(15 + kills * 10);
		service_process_kill(order);
		stop_order();
		start_order();
	}
	wait_until(published_holds, "publishing");
	wait_orders("sale", 1, 4000);
	wait_until(outbox_empty, "the outbox");
	wait_until(all_seen, "an event for every order");
	ck_assert_int_eq(orders_of("sale", 0), 4000);
}
END_TEST

START_TEST(a_poison_record_blocks_nobody_and_ends_in_the_dead_letters_its_units_released)
{
	int64_t outbox, dead = 0, order_id, begun_us;

	create_sale("stock", 10, 600);
	order_id = reserve("stock", "1");
	wait_orders("stock", 1, 1);
	ck_assert_int_eq(available("stock"), 9);
	publish("\x0a\x40 no message", 13);
	buyer = "user"; /* who has it */
	publish_reservations("stock", order_id, 1, 1);
	buyer = NULL;
	publish_reservations("sale", 1000, 10, 3);
	publish_reservations("sale", 2000, 10, 0);
	wait_until(published_holds, "publishing");
	begun_us = clock_monotonic_us();
	wait_orders("sale", 1, 17);
	ck_assert_int_lt(clock_monotonic_us() - begun_us, 4000000);
	begun_us = clock_monotonic_us();
	while (dead < 3 || available("stock") != 10) {
		ck_assert_int_lt(clock_monotonic_us() - begun_us, 80000000);
		rpc_client_run_ms(500);
		(void)backlog(&outbox, &dead);
	}
	ck_assert_int_eq(orders_of("sale", 0), 17);
}
END_TEST

/* --- states --------------------------------------------------------------------------------- */

static int states[8], states_count;
static bool stream_over;

static void on_state(struct rpc_stream *stream, grpc_slice message)
{
	Stampede__Order__V1__WatchOrderResponse *response =
		stampede__order__v1__watch_order_response__unpack(NULL, GRPC_SLICE_LENGTH(message),
								  GRPC_SLICE_START_PTR(message));

	ck_assert_ptr_nonnull(response);
	ck_assert_int_lt(states_count, 8);
	states[states_count++] = (int)response->order->status;
	stampede__order__v1__watch_order_response__free_unpacked(response, NULL);
	rpc_stream_next(stream);
}

static void on_stream_over(struct rpc_stream *stream)
{
	last_status = stream->error.status;
	stream_over = true;
	rpc_stream_release(stream);
}

static bool stream_over_holds(void)
{
	return stream_over;
}

static struct rpc_stream stream;
static struct channel *stream_channel;

static void watch(int64_t order_id)
{
	Stampede__Order__V1__WatchOrderRequest request =
		STAMPEDE__ORDER__V1__WATCH_ORDER_REQUEST__INIT;
	char id[24];

	snprintf(id, sizeof(id), "%lld", (long long)order_id);
	request.order_id = id;
	states_count = 0;
	stream_over = false;
	stream_channel =
		channel_create(rpc_client_loop(),
			       &(struct channel_options){.target = service_process_target(order)});
	stream = (struct rpc_stream){.method = channel_method(stream_channel, ORDER "WatchOrder"),
				     .request = rpc_pack(&request),
				     .message = on_state,
				     .done = on_stream_over};
	rpc_stream_start(&stream);
}

static bool one_state(void)
{
	return states_count == 1;
}

START_TEST(a_watch_waits_for_its_order_and_ends_with_it)
{
	watch(1000);
	rpc_client_run_ms(200);
	ck_assert_int_eq(states_count, 0);
	publish_reservations("sale", 1000, 1, 0);
	wait_until(one_state, "the order");
	ck_assert_int_eq(states[0], 1);
	ck_assert_int_eq(pay(1000, "cash", NULL), STATUS_OK);
	wait_until(stream_over_holds, "the end of the stream");
	ck_assert_int_eq(last_status, STATUS_OK);
	ck_assert_int_eq(states_count, 2);
	ck_assert_int_eq(states[1], 2);
	channel_destroy(stream_channel);
}
END_TEST

START_TEST(watches_do_not_hold_up_the_end_of_the_process)
{
	watch(1000);
	rpc_client_run_ms(200);
	ck_assert_int_eq(service_process_terminate(order), 0);
	wait_until(stream_over_holds, "the end of the stream");
	ck_assert_int_eq(last_status, STATUS_UNAVAILABLE);
	channel_destroy(stream_channel);
}
END_TEST

START_TEST(an_unpaid_order_is_cancelled_and_a_paid_one_is_not)
{
	int64_t unpaid, paid, begun_us;
	int reason;

	create_sale("short", 10, 1);
	unpaid = reserve("short", "1");
	paid = reserve("short", "2");
	wait_orders("short", 1, 2);
	ck_assert_int_eq(pay(paid, "cash", NULL), STATUS_OK);
	wait_orders("short", 3, 1);
	ck_assert_int_eq(order_status(unpaid, &reason), 3);
	ck_assert_int_eq(reason, STAMPEDE__ORDER__V1__CANCEL_REASON__CANCEL_REASON_UNPAID);
	ck_assert_int_eq(order_status(paid, NULL), 2);
	begun_us = clock_monotonic_us();
	while (available("short") != 9) {
		ck_assert_int_lt(clock_monotonic_us() - begun_us, WAIT_US);
		rpc_client_run_ms(20);
	}
	ck_assert_int_eq(pay(unpaid, "cash", "ORDER_NOT_PENDING"), STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(pay(paid, "cash", NULL), STATUS_OK);
	ck_assert_int_eq(pay(paid, "other", "ORDER_PAID_OTHERWISE"), STATUS_FAILED_PRECONDITION);
}
END_TEST

/* A job as if the scheduler had fired it, due `due_in_s` from now: with the ids listed, or, when
 * there are none, about the order that is its name. */
static void publish_fired(const char *job_id, const int64_t *ids, size_t count, int64_t due_in_s)
{
	Stampede__Events__V1__JobsFired message = STAMPEDE__EVENTS__V1__JOBS_FIRED__INIT;
	Stampede__Events__V1__JobFired fired = STAMPEDE__EVENTS__V1__JOB_FIRED__INIT,
				       *list[] = {&fired};
	Stampede__Events__V1__UnpaidOrders orders = STAMPEDE__EVENTS__V1__UNPAID_ORDERS__INIT;
	Stampede__Scheduler__V1__Job job = STAMPEDE__SCHEDULER__V1__JOB__INIT;
	Google__Protobuf__Timestamp due_at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	uint8_t payload[256], bytes[512];

	due_at.seconds = clock_wall_ms() / 1000 + due_in_s;
	orders.order_ids = (int64_t *)ids;
	orders.n_order_ids = count;
	job.job_id = (char *)job_id;
	job.due_at = &due_at;
	job.payload.data = payload;
	job.payload.len = protobuf_c_message_pack(&orders.base, payload);
	fired.job = &job;
	message.jobs = list;
	message.n_jobs = 1;
	publish_to("unpaid-orders", bytes, protobuf_c_message_pack(&message.base, bytes));
}

START_TEST(jobs_of_many_orders_and_of_one_cancel_what_is_due_and_pending)
{
	static const int64_t ids[] = {1000, 1001, 1002, 1005};
	int64_t begun_us;

	due_within_s = 3;
	publish_reservations("sale", 1002, 1, 0); /* when listed first, it is not due */
	due_within_s = 600;
	publish_reservations("late", 1005, 1, 0);
	publish_reservations("other", 1006, 1, 0);
	due_within_s = -5; /* the scheduler fires its own at once */
	service_process_kill(scheduler);
	publish_reservations("sale", 1000, 2, 0);
	publish_reservations("sale", 1003, 1, 0);
	due_within_s = 600;
	wait_until(published_holds, "publishing");
	wait_orders("sale", 1, 4);
	wait_orders("late", 1, 1);
	wait_orders("other", 1, 1);
	ck_assert_int_eq(pay(1001, "cash", NULL), STATUS_OK);
	publish_fired("unpaid-1000-4", ids, 4, -5);
	publish_fired("1003", NULL, 0, -5); /* as older versions made them */
	publish_fired("1006", NULL, 0, -5); /* not due */
	wait_until(published_holds, "publishing");
	wait_orders("sale", 3, 2); /* 1000 and 1003 */
	ck_assert_int_eq(order_status(1000, NULL), 3);
	ck_assert_int_eq(order_status(1001, NULL), 2);
	ck_assert_int_eq(order_status(1002, NULL), 1);
	begun_us = clock_monotonic_us();
	while (order_status(1002, NULL) != 3) { /* what was early comes again */
		ck_assert_int_lt(clock_monotonic_us() - begun_us, WAIT_US);
		rpc_client_run_ms(100);
	}
	ck_assert_int_eq(order_status(1005, NULL), 1);
	ck_assert_int_eq(order_status(1006, NULL), 1);
}
END_TEST

START_TEST(a_job_the_scheduler_refuses_holds_up_no_other)
{
	int64_t few_s = 2, years_s = 3600LL * 24 * 500;

	due_within_s = few_s;
	publish_reservations("sale", 1000, 5, 0);
	due_within_s = years_s; /* more than the scheduler takes */
	publish_reservations("sale", 2000, 2, 0);
	due_within_s = few_s;
	publish_reservations("sale", 3000, 5, 0);
	due_within_s = 600;
	wait_orders("sale", 3, 10);
	wait_until(outbox_empty, "the outbox");
	ck_assert_int_eq(orders_of("sale", 1), 2);
}
END_TEST

START_TEST(pays_while_the_bus_is_away_and_tells_of_it_later)
{
	publish_reservations("sale", 1000, 4, 0);
	wait_until(published_holds, "publishing");
	wait_orders("sale", 1, 4);
	redis_server_kill(redis);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pay(1000 + i, "cash", NULL), STATUS_OK);
	rpc_client_run_ms(300);
	redis_server_restart(redis);
	wait_until(outbox_empty, "the outbox");
	ck_assert_int_eq(orders_of("sale", 2), 4);
}
END_TEST

/* --- reading -------------------------------------------------------------------------------- */

static Stampede__Order__V1__ListOrdersRequest list_request;
static char page_token[64];

/* How many orders the page has, from first id to last; -1 when refused. */
static int list_page(int64_t *ret_first, int64_t *ret_last)
{
	Stampede__Order__V1__ListOrdersResponse *response;
	struct asking *asking =
		rpc_client_ask(order_client, ORDER "ListOrders", &list_request, 5000);
	int count = -1;

	response = asking_wait(asking, &stampede__order__v1__list_orders_response__descriptor);
	last_status = asking_status(asking);
	if (response) {
		count = (int)response->n_orders;
		*ret_first = count ? atoll(response->orders[0]->order_id) : 0;
		*ret_last = count ? atoll(response->orders[count - 1]->order_id) : 0;
		snprintf(page_token, sizeof(page_token), "%s", response->next_page_token);
	}
	asking_free(asking);
	return count;
}

START_TEST(lists_newest_first_page_by_page)
{
	int64_t first, last;

	publish_reservations("sale", 1000, 25, 0);
	publish_reservations("other", 2000, 10, 0);
	wait_until(published_holds, "publishing");
	wait_orders("sale", 1, 25);
	wait_orders("other", 1, 10);
	ck_assert_int_eq(pay(1003, "cash", NULL), STATUS_OK);
	stampede__order__v1__list_orders_request__init(&list_request);
	list_request.sale_id = (char *)"sale";
	list_request.page_size = 10;
	ck_assert_int_eq(list_page(&first, &last), 10);
	ck_assert_int_eq(first, 1024);
	ck_assert_int_eq(last, 1015);
	list_request.page_token = page_token;
	ck_assert_int_eq(list_page(&first, &last), 10);
	ck_assert_int_eq(first, 1014);
	ck_assert_int_eq(list_page(&first, &last), 5);
	ck_assert_int_eq(last, 1000);
	ck_assert_str_eq(page_token, "");
	list_request.user_id = (char *)"user-3"; /* 1003, 1013, 1023 */
	ck_assert_int_eq(list_page(&first, &last), 3);
	list_request.status = STAMPEDE__ORDER__V1__ORDER_STATUS__ORDER_STATUS_PAID;
	ck_assert_int_eq(list_page(&first, &last), 1);
	ck_assert_int_eq(first, 1003);
	list_request.status = 0;
	list_request.sale_id = (char *)"";
	list_request.page_size = 2;
	ck_assert_int_eq(list_page(&first, &last), 2); /* 2003 too */
	ck_assert_int_eq(first, 2003);
	list_request.user_id = (char *)"user-4"; /* the token was for user-3 */
	ck_assert_int_eq(list_page(&first, &last), -1);
	ck_assert_int_eq(last_status, STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(refuses_what_makes_no_sense_and_names_the_field)
{
	Stampede__Order__V1__GetOrderRequest get = STAMPEDE__ORDER__V1__GET_ORDER_REQUEST__INIT;
	Stampede__Order__V1__ListOrdersRequest list =
		STAMPEDE__ORDER__V1__LIST_ORDERS_REQUEST__INIT;
	Stampede__Order__V1__PayOrderRequest payment = STAMPEDE__ORDER__V1__PAY_ORDER_REQUEST__INIT;
	Stampede__Order__V1__CancelOrderRequest cancel =
		STAMPEDE__ORDER__V1__CANCEL_ORDER_REQUEST__INIT;
	Stampede__Order__V1__SummarizeOrdersRequest summarize =
		STAMPEDE__ORDER__V1__SUMMARIZE_ORDERS_REQUEST__INIT;
	char reference[200] = "";

	ck_assert_int_eq(ask(ORDER "GetOrder", &get, "order_id"), STATUS_INVALID_ARGUMENT);
	get.order_id = (char *)"12x";
	ck_assert_int_eq(ask(ORDER "GetOrder", &get, "order_id"), STATUS_INVALID_ARGUMENT);
	get.order_id = (char *)"12";
	ck_assert_int_eq(ask(ORDER "GetOrder", &get, "ORDER_NOT_FOUND"), STATUS_NOT_FOUND);
	ck_assert_int_eq(ask(ORDER "ListOrders", &list, "sale_id"), STATUS_INVALID_ARGUMENT);
	list.sale_id = (char *)"sale";
	list.page_size = 501;
	ck_assert_int_eq(ask(ORDER "ListOrders", &list, "page_size"), STATUS_INVALID_ARGUMENT);
	list.page_size = 0;
	list.page_token = (char *)"token";
	ck_assert_int_eq(ask(ORDER "ListOrders", &list, "page_token"), STATUS_INVALID_ARGUMENT);
	payment.order_id = (char *)"12";
	memset(reference, 'x', 129);
	payment.payment_reference = reference;
	ck_assert_int_eq(ask(ORDER "PayOrder", &payment, "payment_reference"),
			 STATUS_INVALID_ARGUMENT);
	cancel.order_id = (char *)"12";
	ck_assert_int_eq(ask(ORDER "CancelOrder", &cancel, "ORDER_NOT_FOUND"), STATUS_NOT_FOUND);
	cancel.reason = (Stampede__Order__V1__CancelReason)9;
	ck_assert_int_eq(ask(ORDER "CancelOrder", &cancel, "reason"), STATUS_INVALID_ARGUMENT);
	ck_assert_int_eq(ask(ORDER "SummarizeOrders", &summarize, "sale_id"),
			 STATUS_INVALID_ARGUMENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("order");
	TCase *tests = tcase_create("order");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_set_timeout(tests, 150);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, places_a_reservation_once_however_often_it_comes);
	tcase_add_test(tests, killed_in_the_middle_nothing_is_lost_and_nothing_twice);
	tcase_add_test(
		tests,
		a_poison_record_blocks_nobody_and_ends_in_the_dead_letters_its_units_released);
	tcase_add_test(tests, a_watch_waits_for_its_order_and_ends_with_it);
	tcase_add_test(tests, watches_do_not_hold_up_the_end_of_the_process);
	tcase_add_test(tests, an_unpaid_order_is_cancelled_and_a_paid_one_is_not);
	tcase_add_test(tests, jobs_of_many_orders_and_of_one_cancel_what_is_due_and_pending);
	tcase_add_test(tests, a_job_the_scheduler_refuses_holds_up_no_other);
	tcase_add_test(tests, pays_while_the_bus_is_away_and_tells_of_it_later);
	tcase_add_test(tests, lists_newest_first_page_by_page);
	tcase_add_test(tests, refuses_what_makes_no_sense_and_names_the_field);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
