/* The inventory service as its callers meet it: real processes over a real Redis, also killed and restarted. */
#include <check.h>
#include <stampede/inventory/v1/inventory.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/redis_server.h"
#include "tests/support/rpc_client.h"
#include "tests/support/service_process.h"

#define PATH "/stampede.inventory.v1.InventoryService/"
#define PATIENCE_MS 8000
#define RESERVED STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_RESERVED
#define SOLD_OUT STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_SOLD_OUT
#define LIMIT_REACHED STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_LIMIT_REACHED
#define NOT_OPEN STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_NOT_OPEN
#define PAUSED STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_PAUSED
#define ENDED STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_ENDED

typedef Stampede__Inventory__V1__Sale Sale;

static struct redis_server *redis;
static struct service_process *service;
static struct rpc_client *client;

static struct service_process *start_service(void)
{
	char setting[256];
	const char *environment[] = {setting, NULL};

	snprintf(setting, sizeof(setting), "STAMPEDE_REDIS=%s", redis_server_url(redis));
	return service_process_start(INVENTORY_BINARY, environment, true);
}

static void set_up(void)
{
	redis = redis_server_start(NULL);
	service = start_service();
	client = rpc_client_create(service_process_target(service));
}

static void tear_down(void)
{
	rpc_client_free(client);
	service_process_free(service);
	redis_server_free(redis);
	rpc_client_end();
}

/* --- asking ----------------------------------------------------------------------------------------- */

static struct asking *ask(const char *method, const void *request)
{
	char path[128];

	snprintf(path, sizeof(path), PATH "%s", method);
	return rpc_client_ask(client, path, request, PATIENCE_MS);
}

static void create(const char *sale_id, int64_t total, int limit, int durability, int replicas)
{
	Stampede__Inventory__V1__CreateSaleRequest request =
		STAMPEDE__INVENTORY__V1__CREATE_SALE_REQUEST__INIT;
	struct asking *asking;

	request.sale_id = (char *)sale_id;
	request.total = total;
	request.per_user_limit = limit;
	request.durability = (Stampede__Inventory__V1__Durability)durability;
	request.min_replicas = replicas;
	request.open = 1;
	asking = ask("CreateSale", &request);
	ck_assert_msg(
		asking_wait(asking, &stampede__inventory__v1__create_sale_response__descriptor),
		"%s", asking_message(asking));
	asking_free(asking);
}

static struct asking *ask_reserve(const char *sale_id, const char *user, int quantity,
				  const char *request_id)
{
	Stampede__Inventory__V1__ReserveRequest request =
		STAMPEDE__INVENTORY__V1__RESERVE_REQUEST__INIT;

	request.sale_id = (char *)sale_id;
	request.user_id = (char *)user;
	request.quantity = quantity;
	request.request_id = (char *)request_id;
	return ask("Reserve", &request);
}

struct answer {
	enum status status;
	int outcome;
	char order_id[32];
	bool repeated;
};

static struct answer take_answer(struct asking *asking)
{
	Stampede__Inventory__V1__ReserveResponse *response =
		asking_wait(asking, &stampede__inventory__v1__reserve_response__descriptor);
	struct answer answer = {.status = asking_status(asking)};

	if (response) {
		answer.outcome = (int)response->outcome;
		answer.repeated = response->repeated_answer;
		snprintf(answer.order_id, sizeof(answer.order_id), "%s", response->order_id);
	}
	asking_free(asking);
	return answer;
}

static struct answer reserve(const char *sale_id, const char *user, int quantity,
			     const char *request_id)
{
	return take_answer(ask_reserve(sale_id, user, quantity, request_id));
}

static void assert_figures(const char *sale_id, int64_t available, int64_t reserved, int64_t sold)
{
	Stampede__Inventory__V1__GetStockRequest request =
		STAMPEDE__INVENTORY__V1__GET_STOCK_REQUEST__INIT;
	Stampede__Inventory__V1__GetStockResponse *response;
	struct asking *asking;

	request.sale_id = (char *)sale_id;
	asking = ask("GetStock", &request);
	response = asking_wait(asking, &stampede__inventory__v1__get_stock_response__descriptor);
	ck_assert_msg(response, "%s", asking_message(asking));
	ck_assert_int_eq(response->stock->available, available);
	ck_assert_int_eq(response->stock->reserved, reserved);
	ck_assert_int_eq(response->stock->sold, sold);
	ck_assert_int_eq(response->stock->total, available + reserved + sold);
	asking_free(asking);
}

/* 1 changed, 0 unchanged, -1 refused with ret_status. */
static int settle(const char *method, const char *user_id, const char *order_id,
		  enum status *ret_status)
{
	/* Confirm's and Release's messages look alike. */
	Stampede__Inventory__V1__ReleaseRequest request =
		STAMPEDE__INVENTORY__V1__RELEASE_REQUEST__INIT;
	Stampede__Inventory__V1__ReleaseResponse *response;
	struct asking *asking;
	int changed;

	request.sale_id = "s";
	request.user_id = (char *)user_id;
	request.order_id = (char *)order_id;
	asking = ask(method, &request);
	response = asking_wait(asking, &stampede__inventory__v1__release_response__descriptor);
	*ret_status = asking_status(asking);
	changed = response ? response->changed : -1;
	asking_free(asking);
	return changed;
}

/* --- reserving --------------------------------------------------------------------------------------- */

START_TEST(repeats_the_first_answer_when_nothing_is_left)
{
	struct answer first, again;

	create("s", 1, 1, 0, 0);
	first = reserve("s", "ann", 1, "r1");
	ck_assert_int_eq(first.outcome, RESERVED);
	ck_assert(!first.repeated);
	ck_assert_int_eq(reserve("s", "bob", 1, "r2").outcome, SOLD_OUT);
	again = reserve("s", "ann", 1, "r1");
	ck_assert_int_eq(again.outcome, RESERVED);
	ck_assert(again.repeated);
	ck_assert_str_eq(again.order_id, first.order_id);
	assert_figures("s", 0, 1, 0);
}
END_TEST

START_TEST(refuses_a_request_id_that_means_something_else)
{
	create("s", 10, 5, 0, 0);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED);
	ck_assert_int_eq(reserve("s", "ann", 2, "r1").status, STATUS_ALREADY_EXISTS);
	assert_figures("s", 9, 1, 0);
	/* Another user's request ids are another's. */
	ck_assert_int_eq(reserve("s", "bob", 1, "r1").outcome, RESERVED);
	assert_figures("s", 8, 2, 0);
}
END_TEST

START_TEST(holds_a_user_to_the_limit)
{
	create("s", 10, 3, 0, 0);
	ck_assert_int_eq(reserve("s", "ann", 2, "r1").outcome, RESERVED);
	ck_assert_int_eq(reserve("s", "ann", 2, "r2").outcome, LIMIT_REACHED);
	ck_assert_int_eq(reserve("s", "ann", 1, "r3").outcome, RESERVED);
	ck_assert_int_eq(reserve("s", "ann", 1, "r4").outcome, LIMIT_REACHED);
	assert_figures("s", 7, 3, 0);
}
END_TEST

START_TEST(takes_all_or_nothing)
{
	create("s", 3, 10, 0, 0);
	ck_assert_int_eq(reserve("s", "ann", 4, "r1").outcome, SOLD_OUT);
	ck_assert_int_eq(reserve("s", "ann", 3, "r2").outcome, RESERVED);
	assert_figures("s", 0, 3, 0);
}
END_TEST

#define UNITS 500
#define BUYERS 3000

/* Two instances, every buyer twice at once with one request id: the batches hold repeats of themselves. */
START_TEST(never_oversells_under_concurrent_buyers)
{
	static struct asking *askings[2 * BUYERS];
	static struct answer answers[2 * BUYERS];
	struct service_process *second = start_service();
	struct rpc_client *clients[2] = {client, rpc_client_create(service_process_target(second))};
	int reserved = 0;
	char user[16], request[16];

	create("s", UNITS, 1, 0, 0);
	for (int i = 0; i < BUYERS; i++) {
		snprintf(user, sizeof(user), "u%d", i);
		snprintf(request, sizeof(request), "r%d", i);
		for (int k = 0; k < 2; k++) {
			client = clients[(i + k * (i % 3)) % 2];
			askings[2 * i + k] = ask_reserve("s", user, 1, request);
		}
	}
	client = clients[0];
	for (int i = 0; i < 2 * BUYERS; i++) {
		answers[i] = take_answer(askings[i]);
		ck_assert_int_eq(answers[i].status, STATUS_OK);
	}
	for (int i = 0; i < BUYERS; i++) {
		struct answer *one = &answers[2 * i], *other = &answers[2 * i + 1];

		ck_assert_int_eq(one->outcome, other->outcome);
		if (one->outcome == RESERVED) {
			ck_assert_str_eq(one->order_id, other->order_id);
			ck_assert(one->repeated != other->repeated);
		}
		reserved += one->outcome == RESERVED;
	}
	ck_assert_int_eq(reserved, UNITS);
	assert_figures("s", 0, UNITS, 0);
	rpc_client_free(clients[1]);
	service_process_free(second);
}
END_TEST

START_TEST(answers_each_of_many_by_itself)
{
	Stampede__Inventory__V1__ReserveRequest asked[5], *list[5];
	Stampede__Inventory__V1__ReserveManyRequest request =
		STAMPEDE__INVENTORY__V1__RESERVE_MANY_REQUEST__INIT;
	Stampede__Inventory__V1__ReserveManyResponse *response;
	static char *const users[5] = {"a", "a", "b", "", "c"};
	static const int quantities[5] = {1, 1, 0, 1, 1};
	static char *const requests[5] = {"r1", "r2", "r3", "r4", "r5"};
	struct asking *asking;

	create("s", 10, 1, 0, 0);
	for (int i = 0; i < 5; i++) {
		stampede__inventory__v1__reserve_request__init(&asked[i]);
		asked[i].user_id = users[i];
		asked[i].quantity = quantities[i];
		asked[i].request_id = requests[i];
		list[i] = &asked[i];
	}
	asked[4].sale_id = "another";
	request.sale_id = "s";
	request.n_reservations = 5;
	request.reservations = list;
	asking = ask("ReserveMany", &request);
	response = asking_wait(asking, &stampede__inventory__v1__reserve_many_response__descriptor);
	ck_assert_msg(response, "%s", asking_message(asking));
	ck_assert_uint_eq(response->n_results, 5);
	ck_assert_int_eq(response->results[0]->response->outcome, RESERVED);
	ck_assert_int_eq(response->results[1]->response->outcome, LIMIT_REACHED);
	ck_assert_str_eq(response->results[2]->error->message, "quantity: must be 1 to 1000");
	ck_assert_str_eq(response->results[3]->error->message, "user_id: must not be empty");
	ck_assert_int_eq(response->results[4]->error->code, STATUS_INVALID_ARGUMENT);
	asking_free(asking);
	assert_figures("s", 9, 1, 0);
}
END_TEST

static struct answer get_reservation(const char *user, const char *order_id, const char *request_id,
				     int *ret_status, int *ret_quantity)
{
	Stampede__Inventory__V1__GetReservationRequest request =
		STAMPEDE__INVENTORY__V1__GET_RESERVATION_REQUEST__INIT;
	Stampede__Inventory__V1__GetReservationResponse *response;
	struct answer answer = {0};
	struct asking *asking;

	request.sale_id = "s";
	request.user_id = (char *)user;
	request.order_id = (char *)order_id;
	request.request_id = (char *)request_id;
	asking = ask("GetReservation", &request);
	response =
		asking_wait(asking, &stampede__inventory__v1__get_reservation_response__descriptor);
	answer.status = asking_status(asking);
	if (response) {
		snprintf(answer.order_id, sizeof(answer.order_id), "%s",
			 response->reservation->order_id);
		*ret_status = (int)response->reservation->status;
		*ret_quantity = response->reservation->quantity;
		ck_assert_str_eq(response->reservation->user_id, user);
	}
	asking_free(asking);
	return answer;
}

/* Ids that look like the other lines of a user's value must not be taken for them. */
START_TEST(finds_a_reservation_among_a_users)
{
	static const char *const requests[4] = {"1", "R1", "I1", "Q2"};
	struct answer made[4], got;
	enum status status;
	int state = 0, quantity = 0;

	create("s", 100, 100, 0, 0);
	for (int i = 0; i < 4; i++)
		made[i] = reserve("s", "ann", i + 1, requests[i]);
	ck_assert_int_eq(settle("Confirm", "ann", made[1].order_id, &status), 1);
	ck_assert_int_eq(settle("Release", "ann", made[2].order_id, &status), 1);
	for (int i = 0; i < 4; i++) {
		got = get_reservation("ann", made[i].order_id, "", &state, &quantity);
		ck_assert_str_eq(got.order_id, made[i].order_id);
		got = get_reservation("ann", "", requests[i], &state, &quantity);
		ck_assert_str_eq(got.order_id, made[i].order_id);
		ck_assert_int_eq(quantity, i + 1);
		ck_assert_int_eq(state, i == 1 ? 2 : i == 2 ? 3 : 1);
		got = reserve("s", "ann", i + 1, requests[i]);
		ck_assert_str_eq(got.order_id, made[i].order_id);
	}
	ck_assert_int_eq(get_reservation("ann", "", "2", &state, &quantity).status,
			 STATUS_NOT_FOUND);
	ck_assert_int_eq(get_reservation("bob", "", "1", &state, &quantity).status,
			 STATUS_NOT_FOUND);
	assert_figures("s", 93, 5, 2);
}
END_TEST

/* --- settling ------------------------------------------------------------------------------------------- */

START_TEST(releases_and_confirms_exactly_once)
{
	struct answer one, two;
	enum status status;

	create("s", 5, 2, 0, 0);
	one = reserve("s", "ann", 2, "r1");
	two = reserve("s", "bob", 1, "r2");
	ck_assert_int_eq(settle("Release", "ann", one.order_id, &status), 1);
	ck_assert_int_eq(settle("Release", "ann", one.order_id, &status), 0);
	assert_figures("s", 4, 1, 0);
	ck_assert_int_eq(settle("Confirm", "bob", two.order_id, &status), 1);
	ck_assert_int_eq(settle("Confirm", "bob", two.order_id, &status), 0);
	assert_figures("s", 4, 0, 1);
	ck_assert_int_eq(settle("Confirm", "ann", one.order_id, &status), -1);
	ck_assert_int_eq(status, STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(settle("Release", "bob", two.order_id, &status), -1);
	ck_assert_int_eq(status, STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(settle("Release", "ann", "123", &status), -1);
	ck_assert_int_eq(status, STATUS_NOT_FOUND);
	/* What was released counts no longer against the limit. */
	ck_assert_int_eq(reserve("s", "ann", 2, "r3").outcome, RESERVED);
	assert_figures("s", 2, 2, 1);
}
END_TEST

/* --- the sale ------------------------------------------------------------------------------------------- */

static enum status change(const char *method, const char *sale_id)
{
	Stampede__Inventory__V1__OpenSaleRequest request =
		STAMPEDE__INVENTORY__V1__OPEN_SALE_REQUEST__INIT;
	struct asking *asking;
	enum status status;

	request.sale_id = (char *)sale_id;
	asking = ask(method, &request);
	asking_wait(asking, &stampede__inventory__v1__open_sale_response__descriptor);
	status = asking_status(asking);
	asking_free(asking);
	return status;
}

START_TEST(sells_only_while_it_is_open)
{
	create("s", 5, 5, 0, 0);
	ck_assert_int_eq(change("PauseSale", "s"), STATUS_OK);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, PAUSED);
	ck_assert_int_eq(change("OpenSale", "s"), STATUS_OK);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED);
	ck_assert_int_eq(change("CloseSale", "s"), STATUS_OK);
	ck_assert_int_eq(change("CloseSale", "s"), STATUS_OK);
	ck_assert_int_eq(reserve("s", "ann", 1, "r2").outcome, ENDED);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED); /* a repeat */
	ck_assert_int_eq(change("OpenSale", "s"), STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(change("OpenSale", "nothing"), STATUS_NOT_FOUND);
}
END_TEST

START_TEST(sells_only_in_its_window)
{
	Stampede__Inventory__V1__CreateSaleRequest request =
		STAMPEDE__INVENTORY__V1__CREATE_SALE_REQUEST__INIT;
	Google__Protobuf__Timestamp far = GOOGLE__PROTOBUF__TIMESTAMP__INIT,
				    past = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	struct asking *asking;

	far.seconds = 4102444800;
	past.seconds = 1500000000;
	request.sale_id = "later";
	request.total = 1;
	request.open = 1;
	request.starts_at = &far;
	asking = ask("CreateSale", &request);
	asking_wait(asking, &stampede__inventory__v1__create_sale_response__descriptor);
	asking_free(asking);
	request.sale_id = "over";
	request.starts_at = NULL;
	request.ends_at = &past;
	asking = ask("CreateSale", &request);
	asking_wait(asking, &stampede__inventory__v1__create_sale_response__descriptor);
	asking_free(asking);
	ck_assert_int_eq(reserve("later", "ann", 1, "r1").outcome, NOT_OPEN);
	ck_assert_int_eq(reserve("over", "ann", 1, "r1").outcome, ENDED);
	request.sale_id = "over"; /* the same id, another sale */
	request.total = 2;
	asking = ask("CreateSale", &request);
	ck_assert_ptr_null(
		asking_wait(asking, &stampede__inventory__v1__create_sale_response__descriptor));
	ck_assert_int_eq(asking_status(asking), STATUS_ALREADY_EXISTS);
	asking_free(asking);
}
END_TEST

START_TEST(an_update_with_a_stale_etag_changes_nothing)
{
	Stampede__Inventory__V1__UpdateSaleRequest request =
		STAMPEDE__INVENTORY__V1__UPDATE_SALE_REQUEST__INIT;
	Stampede__Inventory__V1__UpdateSaleResponse *response;
	struct asking *asking;

	create("s", 5, 1, 0, 0);
	request.sale_id = "s";
	request.title = "Phones";
	request.etag = "1";
	asking = ask("UpdateSale", &request);
	response = asking_wait(asking, &stampede__inventory__v1__update_sale_response__descriptor);
	ck_assert_str_eq(response->sale->etag, "2");
	asking_free(asking);
	request.title = "Bicycles";
	asking = ask("UpdateSale", &request);
	asking_wait(asking, &stampede__inventory__v1__update_sale_response__descriptor);
	ck_assert_int_eq(asking_status(asking), STATUS_ABORTED);
	ck_assert(asking_details_hold(asking, "STALE_ETAG"));
	asking_free(asking);
	request.etag = "2";
	asking = ask("UpdateSale", &request);
	response = asking_wait(asking, &stampede__inventory__v1__update_sale_response__descriptor);
	ck_assert_str_eq(response->sale->title, "Bicycles");
	asking_free(asking);
}
END_TEST

static enum status adjust(int64_t delta, const char *request_id)
{
	Stampede__Inventory__V1__AdjustStockRequest request =
		STAMPEDE__INVENTORY__V1__ADJUST_STOCK_REQUEST__INIT;
	struct asking *asking;
	enum status status;

	request.sale_id = "s";
	request.delta = delta;
	request.request_id = (char *)request_id;
	asking = ask("AdjustStock", &request);
	asking_wait(asking, &stampede__inventory__v1__adjust_stock_response__descriptor);
	status = asking_status(asking);
	asking_free(asking);
	return status;
}

START_TEST(adjusts_the_stock_once_a_request)
{
	create("s", 5, 5, 0, 0);
	ck_assert_int_eq(reserve("s", "ann", 3, "r1").outcome, RESERVED);
	ck_assert_int_eq(adjust(10, "a1"), STATUS_OK);
	ck_assert_int_eq(adjust(10, "a1"), STATUS_OK);
	ck_assert_int_eq(adjust(11, "a1"), STATUS_ALREADY_EXISTS);
	assert_figures("s", 12, 3, 0);
	ck_assert_int_eq(adjust(-13, "a2"), STATUS_FAILED_PRECONDITION);
	ck_assert_int_eq(adjust(-12, "a3"), STATUS_OK);
	assert_figures("s", 0, 3, 0);
}
END_TEST

/* --- durability, crashes ------------------------------------------------------------------------------- */

static int64_t length_of(const char *format, int index)
{
	char key[64];

	snprintf(key, sizeof(key), format, index);
	return redis_server_ask(redis, "XLEN %s", key)->integer;
}

static int64_t bus_records(void)
{
	int64_t count = 0;

	for (int i = 0; i < 4; i++)
		count += length_of("bus:{reservations.%d}", i);
	return count;
}

static void await_outbox_empty(void)
{
	for (int i = 0; i < 400; i++) {
		if (!redis_server_ask(redis, "XLEN {sale:s.0}:outbox")->integer)
			return;
		rpc_client_run_ms(50);
	}
	ck_abort_msg("the outbox was not emptied");
}

START_TEST(what_is_reserved_goes_to_the_bus_and_leaves_the_outbox)
{
	create("s", 100, 1, 0, 0);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED);
	await_outbox_empty();
	ck_assert_int_eq(bus_records(), 1);
}
END_TEST

START_TEST(what_a_crash_left_in_the_outbox_is_published_by_the_next)
{
	create("s", 100, 1, 0, 0);
	service_process_kill(service);
	/* As reserve.lua writes it, a while ago. */
	redis_server_ask(redis,
			 "XADD {sale:s.0}:outbox 1000-0 price 5 currency EUR pay_ms 60000 "
			 "orders %s",
			 "ann\nR1000\nO1025\nQ1\nIr1\nbob\nR1000\nO2049\nQ1\nIr2\n");
	rpc_client_free(client);
	service_process_free(service);
	service = start_service();
	client = rpc_client_create(service_process_target(service));
	await_outbox_empty();
	ck_assert_int_ge(bus_records(), 1);
}
END_TEST

START_TEST(a_logged_sale_answers_when_the_bus_has_it)
{
	create("s", 100, 1, 3, 0);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED);
	ck_assert_int_eq(bus_records(), 1);
	ck_assert_int_eq(reserve("s", "ann", 1, "r1").outcome, RESERVED);
}
END_TEST

START_TEST(a_replicated_sale_answers_only_with_its_replicas)
{
	struct redis_server *replica;
	struct answer answer;

	create("s", 100, 1, 2, 1);
	answer = reserve("s", "ann", 1, "r1");
	ck_assert_int_eq(answer.status, STATUS_UNAVAILABLE);
	replica = redis_server_start(&(struct redis_server_options){.replica_of = redis});
	for (int i = 0; i < 100 && answer.status != STATUS_OK; i++) {
		rpc_client_run_ms(100);
		answer = reserve("s", "ann", 1, "r1");
	}
	ck_assert_int_eq(answer.outcome, RESERVED);
	assert_figures("s", 99, 1, 0);
	redis_server_free(replica);
}
END_TEST

START_TEST(says_so_while_redis_is_away_and_goes_on_afterwards)
{
	struct answer first, answer;

	create("s", 100, 1, 0, 0);
	first = reserve("s", "ann", 1, "r1");
	redis_server_kill(redis);
	rpc_client_run_ms(100);
	answer = reserve("s", "bob", 1, "r2");
	ck_assert_int_eq(answer.status, STATUS_UNAVAILABLE);
	redis_server_restart(redis);
	for (int i = 0; i < 100 && answer.status != STATUS_OK; i++) {
		rpc_client_run_ms(100);
		answer = reserve("s", "bob", 1, "r2");
	}
	ck_assert_int_eq(answer.outcome, RESERVED);
	answer = reserve("s", "ann", 1, "r1");
	ck_assert_str_eq(answer.order_id, first.order_id);
	assert_figures("s", 98, 2, 0);
}
END_TEST

START_TEST(answers_what_is_under_way_before_it_leaves)
{
	struct asking *askings[200];
	char id[16];

	create("s", 1000, 1, 0, 0);
	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "x%d", i);
		askings[i] = ask_reserve("s", id, 1, id);
	}
	rpc_client_run_ms(1);
	ck_assert_int_eq(service_process_terminate(service), 0);
	for (int i = 0; i < 200; i++) {
		struct answer answer = take_answer(askings[i]);

		ck_assert_msg(answer.status == STATUS_OK || answer.status == STATUS_UNAVAILABLE,
			      "answered %s", status_name(answer.status));
	}
	ck_assert_int_eq(redis_server_ask(redis, "XLEN {sale:s.0}:outbox")->integer, 0);
}
END_TEST

/* --- bad input ------------------------------------------------------------------------------------------- */

START_TEST(names_what_is_wrong)
{
	static char long_id[80];
	static const struct {
		const char *sale, *user, *request;
		int quantity;
		enum status status;
		const char *message;
	} cases[] = {
		{"", "u", "r", 1, STATUS_INVALID_ARGUMENT, "sale_id: must not be empty"},
		{"s", "", "r", 1, STATUS_INVALID_ARGUMENT, "user_id: must not be empty"},
		{"s", "u", "", 1, STATUS_INVALID_ARGUMENT, "request_id: must not be empty"},
		{"s", "u", "r", 0, STATUS_INVALID_ARGUMENT, "quantity: must be 1 to 1000"},
		{"s", "u", "r", -5, STATUS_INVALID_ARGUMENT, "quantity: must be 1 to 1000"},
		{"s", "u", "r", 1001, STATUS_INVALID_ARGUMENT, "quantity: must be 1 to 1000"},
		{"s", "u\n1", "r", 1, STATUS_INVALID_ARGUMENT,
		 "user_id: must be at most 64 bytes without control characters"},
		{"s", long_id, "r", 1, STATUS_INVALID_ARGUMENT,
		 "user_id: must be at most 64 bytes without control characters"},
		{"s", "\xc3\x28", "r", 1, STATUS_INVALID_ARGUMENT, "user_id: is not valid UTF-8"},
		{"none", "u", "r", 1, STATUS_NOT_FOUND, "there is no sale 'none'"},
	};

	memset(long_id, 'x', 65);
	create("s", 5, 5, 0, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct asking *asking = ask_reserve(cases[i].sale, cases[i].user, cases[i].quantity,
						    cases[i].request);

		asking_wait(asking, &stampede__inventory__v1__reserve_response__descriptor);
		ck_assert_int_eq(asking_status(asking), cases[i].status);
		ck_assert_str_eq(asking_message(asking), cases[i].message);
		asking_free(asking);
	}
	assert_figures("s", 5, 0, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("inventory");
	TCase *tests = tcase_create("inventory");
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_fork_status(runner, CK_NOFORK);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, repeats_the_first_answer_when_nothing_is_left);
	tcase_add_test(tests, refuses_a_request_id_that_means_something_else);
	tcase_add_test(tests, holds_a_user_to_the_limit);
	tcase_add_test(tests, takes_all_or_nothing);
	tcase_add_test(tests, never_oversells_under_concurrent_buyers);
	tcase_add_test(tests, answers_each_of_many_by_itself);
	tcase_add_test(tests, finds_a_reservation_among_a_users);
	tcase_add_test(tests, releases_and_confirms_exactly_once);
	tcase_add_test(tests, sells_only_while_it_is_open);
	tcase_add_test(tests, sells_only_in_its_window);
	tcase_add_test(tests, an_update_with_a_stale_etag_changes_nothing);
	tcase_add_test(tests, adjusts_the_stock_once_a_request);
	tcase_add_test(tests, what_is_reserved_goes_to_the_bus_and_leaves_the_outbox);
	tcase_add_test(tests, what_a_crash_left_in_the_outbox_is_published_by_the_next);
	tcase_add_test(tests, a_logged_sale_answers_when_the_bus_has_it);
	tcase_add_test(tests, a_replicated_sale_answers_only_with_its_replicas);
	tcase_add_test(tests, says_so_while_redis_is_away_and_goes_on_afterwards);
	tcase_add_test(tests, answers_what_is_under_way_before_it_leaves);
	tcase_add_test(tests, names_what_is_wrong);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
