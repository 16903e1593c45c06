/* What any order store does; run against SQLite, on files that may fail. */
#include <assert.h>
#include <check.h>
#include <sqlite3.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stampede/scheduler/v1/scheduler.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failing_vfs.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "services/order/store.h"

#define LANES 4

static struct loop *loop;
static struct store *store;
static char folder[64];
static bool up, known;
static int changes, records_count, entries;
static struct outbox_record *records, **records_end;

static void on_state(void *self, bool is_up, const char *reason)
{
	(void)self, (void)reason;
	up = is_up;
	known = true;
	loop_stop(loop);
}

static void on_written(void *self, struct outbox_record *written)
{
	(void)self;
	for (*records_end = written; *records_end; records_end = &(*records_end)->next) {
		records_count++;
		entries += (*records_end)->entries;
	}
}

static void on_changed(void *self, int64_t order_id, enum order_status status)
{
	(void)self, (void)order_id, (void)status;
	changes++;
}

static void open_store_at(const char *path)
{
	static const char queue[] = "unpaid-orders";

	known = false;
	records = NULL;
	records_end = &records;
	records_count = entries = changes = 0;
	store = store_create(loop, &(struct store_options){.folder = path,
							   .vfs = "failing",
							   .lanes = LANES,
							   .jobs_queue = queue,
							   .state = on_state,
							   .written = on_written,
							   .changed = on_changed});
	while (!known)
		loop_run(loop);
}

static void open_store(void)
{
	open_store_at(folder);
}

static void on_closed(void *context)
{
	loop_stop(context);
	known = false;
}

static void close_store(void)
{
	known = true;
	store_close(store, on_closed, loop);
	while (known)
		loop_run(loop);
	store_destroy(store);
	store = NULL;
	outbox_records_free(records);
	records = NULL;
}

static void set_up(void)
{
	failing_vfs_register();
	failing_vfs_arm(0, 0, 0);
	snprintf(folder, sizeof(folder), "/tmp/order-store-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	loop = loop_create();
	open_store();
	ck_assert(up);
}

static void remove_files(void)
{
	static const char *const files[] = {"orders.db", "orders.db-wal", "orders.db-shm"};
	char path[128];

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		unlink(path);
	}
	rmdir(folder);
}

static void tear_down(void)
{
	close_store();
	loop_destroy(loop);
	remove_files();
}

/* --- asking ----------------------------------------------------------------------------------- */

static int waiting;

static void over(void)
{
	if (--waiting == 0)
		loop_stop(loop);
}

static void wait_all(void)
{
	while (waiting)
		loop_run(loop);
}

static void on_placed(struct placement *placement)
{
	(void)placement;
	over();
}

static void on_moved(struct moves *moves)
{
	(void)moves;
	over();
}

#define ORDERS_MAX 200
struct batch {
	struct placement placement;
	struct order orders[ORDERS_MAX];
	uint8_t placed[ORDERS_MAX];
	char users[ORDERS_MAX][32], requests[ORDERS_MAX][32];
};

static void batch_make(struct batch *batch, int64_t first_id, int count)
{
	memset(batch, 0, sizeof(*batch));
	for (int i = 0; i < count; i++) {
		snprintf(batch->users[i], 32, "user-%lld", (long long)first_id + i);
		snprintf(batch->requests[i], 32, "request-%lld", (long long)first_id + i);
		batch->orders[i] = (struct order){.order_id = first_id + i,
						  .sale_id = "sale",
						  .user_id = batch->users[i],
						  .request_id = batch->requests[i],
						  .currency = "EUR",
						  .payment_reference = "",
						  .quantity = 2,
						  .amount_minor = 100,
						  .reserved_at_ms = 1000,
						  .pay_by_ms = 61001};
	}
	batch->placement = (struct placement){.orders = batch->orders,
					      .count = count,
					      .placed = batch->placed,
					      .done = on_placed};
}

static enum status place(struct batch *batch)
{
	waiting++;
	store_place(store, &batch->placement);
	wait_all();
	return batch->placement.job.status;
}

static enum status move(struct moves *moves, struct move *move, int64_t order_id,
			enum order_status to)
{
	*move = (struct move){.order_id = order_id, .to = to, .payment_reference = "paid-with"};
	*moves = (struct moves){.moves = move, .count = 1, .done = on_moved};
	arena_init(&moves->arena, NULL, 0);
	waiting++;
	store_move(store, moves);
	wait_all();
	return moves->job.status;
}

static void on_read(struct outbox_reading *reading)
{
	(void)reading;
	over();
}

static struct outbox_record *read_outbox(int64_t after_id, int max, int *ret_count)
{
	struct outbox_reading reading = {.after_id = after_id, .max = max, .done = on_read};

	waiting++;
	store_read_outbox(store, &reading);
	wait_all();
	ck_assert_int_eq(reading.job.status, STATUS_OK);
	*ret_count = reading.ret_count;
	return reading.ret_records;
}

/* --- placing ---------------------------------------------------------------------------------- */

/* How many orders a job is about; all are of the lane that is its key. */
static int job_orders(const Stampede__Scheduler__V1__Job *job)
{
	Stampede__Events__V1__UnpaidOrders *orders = stampede__events__v1__unpaid_orders__unpack(
		NULL, job->payload.len, job->payload.data);
	int count;

	ck_assert_ptr_nonnull(orders);
	count = (int)orders->n_order_ids;
	ck_assert_int_le(count, OUTBOX_UNPAID_MAX);
	for (int i = 0; i < count; i++)
		ck_assert_int_eq(order_lane(orders->order_ids[i], LANES), atoi(job->key));
	stampede__events__v1__unpaid_orders__free_unpacked(orders, NULL);
	return count;
}

START_TEST(places_orders_and_writes_their_events_and_jobs)
{
	static struct batch batch;
	int jobs = 0, events = 0, unpaid = 0;

	batch_make(&batch, 1000, 100);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(batch.placed[i], PLACED_NOW);
	ck_assert_int_eq(changes, 100);
	ck_assert_int_eq(entries, 100 + LANES);
	ck_assert_int_eq(records_count, LANES + 1); /* one a lane, one for the scheduler */
	for (struct outbox_record *record = records; record; record = record->next) {
		if (record->kind == OUTBOX_EVENTS) {
			Stampede__Events__V1__OrdersChanged *changed =
				stampede__events__v1__orders_changed__unpack(NULL, record->size,
									     record->bytes);

			ck_assert_ptr_nonnull(changed);
			events += (int)changed->n_changes;
			ck_assert_int_eq(atoll(changed->changes[0]->order->order_id) % LANES,
					 record->lane);
			ck_assert_int_eq(changed->changes[0]->previous, 0);
			ck_assert_int_eq(changed->changes[0]->order->status, ORDER_PENDING);
			ck_assert_int_eq(changed->changes[0]->order->quantity, 2);
			ck_assert_int_eq(changed->changes[0]->order->pay_by->seconds, 61);
			stampede__events__v1__orders_changed__free_unpacked(changed, NULL);
		} else {
			Stampede__Scheduler__V1__PublishBatchRequest *request =
				stampede__scheduler__v1__publish_batch_request__unpack(
					NULL, record->size, record->bytes);

			ck_assert_ptr_nonnull(request);
			jobs += (int)request->n_jobs;
			for (size_t i = 0; i < request->n_jobs; i++)
				unpaid += job_orders(request->jobs[i]);
			ck_assert_str_eq(request->queue, "unpaid-orders");
			ck_assert_str_eq(request->jobs[0]->job_id, "unpaid-1000-25");
			ck_assert_str_eq(request->jobs[0]->target->topic, "unpaid-orders");
			ck_assert_int_eq(request->jobs[0]->due_at->seconds, 61);
			ck_assert_int_eq(request->jobs[0]->due_at->nanos, 1000000);
			stampede__scheduler__v1__publish_batch_request__free_unpacked(request,
										      NULL);
		}
	}
	ck_assert_int_eq(events, 100);
	ck_assert_int_eq(jobs, LANES);
	ck_assert_int_eq(unpaid, 100);
}
END_TEST

START_TEST(a_repeat_changes_nothing)
{
	static struct batch batch;

	batch_make(&batch, 1000, 10);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(batch.placed[i], PLACED_BEFORE);
	ck_assert_int_eq(changes, 10);
	ck_assert_int_eq(entries, 10 + LANES);
}
END_TEST

START_TEST(a_second_order_for_a_request_is_a_conflict_and_its_neighbours_are_placed)
{
	static struct batch batch, second;

	batch_make(&batch, 1000, 3);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	batch_make(&second, 2000, 3);
	second.orders[1].user_id = batch.users[0];
	second.orders[1].request_id = batch.requests[0];
	ck_assert_int_eq(place(&second), STATUS_OK);
	ck_assert_int_eq(second.placed[0], PLACED_NOW);
	ck_assert_int_eq(second.placed[1], PLACED_CONFLICT);
	ck_assert_int_eq(second.placed[2], PLACED_NOW);
}
END_TEST

START_TEST(jobs_that_queue_up_share_a_transaction)
{
	static struct batch batches[8];

	for (int i = 0; i < 8; i++) {
		batch_make(&batches[i], 1000 + i * 100, 10);
		waiting++;
		store_place(store, &batches[i].placement);
	}
	wait_all();
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(batches[i].placement.job.status, STATUS_OK);
	ck_assert_int_ge(entries, 80 + LANES);
	ck_assert_int_lt(entries, 80 + 8 * LANES);
	ck_assert_int_lt(records_count, 8 * (LANES + 1));
}
END_TEST

START_TEST(large_transactions_make_several_records)
{
	static struct batch batch;
	static char long_ids[2][IDENTIFIER_SIZE_MAX + 1];

	memset(long_ids[0], 'a', IDENTIFIER_SIZE_MAX);
	batch_make(&batch, 4096, 200);
	for (int i = 0; i < 200; i++)
		batch.orders[i].order_id = 4096 * (i + 1); /* one lane */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++) {
			batch.orders[i].sale_id = long_ids[0];
			batch.orders[i].order_id += 1 << 24;
			snprintf(batch.requests[i], 32, "round %d request %d", round, i);
		}
		waiting++;
		store_place(store, &batch.placement);
		wait_all();
		ck_assert_int_eq(batch.placement.job.status, STATUS_OK);
	}
	for (struct outbox_record *record = records; record; record = record->next)
		ck_assert_uint_lt(record->size, OUTBOX_RECORD_SIZE_MAX + 1024);
	ck_assert_int_eq(entries, 603);
}
END_TEST

static int64_t job_due_ms(const Stampede__Scheduler__V1__Job *job)
{
	return job->due_at->seconds * 1000 + job->due_at->nanos / 1000000;
}

START_TEST(a_job_is_due_with_the_last_of_its_orders_and_all_are_within_a_second)
{
	struct order order = {.order_id = 1 << 20};
	struct outbox outbox;
	struct outbox_record *record;
	Stampede__Scheduler__V1__PublishBatchRequest *request;
	int counts[61] = {0}, orders = 0;

	outbox_init(&outbox, LANES, "unpaid-orders");
	for (int i = 0; i < 1100; i++, order.order_id += LANES) { /* two sales, interleaved */
		order.pay_by_ms = (i % 2 ? 30000 : 60000) + i % 7 * 100;
		outbox_add_job(&outbox, &order);
	}
	for (int i = 0; i < 10; i++, order.order_id += LANES) { /* each for itself */
		order.pay_by_ms = 1000 + i * 1001;
		outbox_add_job(&outbox, &order);
	}
	record = outbox_take(&outbox);
	ck_assert_ptr_nonnull(record);
	ck_assert_ptr_null(record->next);
	request = stampede__scheduler__v1__publish_batch_request__unpack(NULL, record->size,
									 record->bytes);
	ck_assert_ptr_nonnull(request);
	ck_assert_int_eq(record->entries, 14);
	ck_assert_uint_eq(request->n_jobs, 14);
	for (size_t i = 0; i < request->n_jobs; i++) {
		int count = job_orders(request->jobs[i]);

		counts[job_due_ms(request->jobs[i]) / 1000] += count;
		orders += count;
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(request->jobs[i]->job_id, request->jobs[j]->job_id);
		if (count == OUTBOX_UNPAID_MAX)
			ck_assert_int_eq(job_due_ms(request->jobs[i]) % 30000, 600);
	}
	ck_assert_int_eq(orders, 1110);
	ck_assert_int_eq(counts[30], 550);
	ck_assert_int_eq(counts[60], 550);
	stampede__scheduler__v1__publish_batch_request__free_unpacked(request, NULL);
	outbox_records_free(record);
}
END_TEST

/* --- moving --------------------------------------------------------------------------------- */

START_TEST(pays_a_pending_order_once)
{
	static struct batch batch;
	struct moves moves;
	struct move one;

	batch_make(&batch, 1000, 1);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	ck_assert_int_eq(move(&moves, &one, 1000, ORDER_PAID), STATUS_OK);
	ck_assert_int_eq(one.moved, MOVED_NOW);
	ck_assert_int_eq(one.order.status, ORDER_PAID);
	ck_assert_str_eq(one.order.payment_reference, "paid-with");
	ck_assert_str_eq(one.order.sale_id, "sale");
	arena_reset(&moves.arena);
	ck_assert_int_eq(move(&moves, &one, 1000, ORDER_PAID), STATUS_OK);
	ck_assert_int_eq(one.moved, MOVED_BEFORE);
	arena_reset(&moves.arena);
	ck_assert_int_eq(entries, 3); /* placed, its job, paid */
	ck_assert_int_eq(changes, 2);
}
END_TEST

START_TEST(refuses_what_the_state_does_not_allow)
{
	static struct batch batch;
	struct moves moves;
	struct move one;

	batch_make(&batch, 1000, 1);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	ck_assert_int_eq(move(&moves, &one, 1000, ORDER_CANCELLED), STATUS_OK);
	ck_assert_int_eq(one.moved, MOVED_NOW);
	arena_reset(&moves.arena);
	ck_assert_int_eq(move(&moves, &one, 1000, ORDER_PAID), STATUS_OK);
	ck_assert_int_eq(one.moved, MOVED_REFUSED);
	ck_assert_int_eq(one.order.status, ORDER_CANCELLED);
	arena_reset(&moves.arena);
	ck_assert_int_eq(move(&moves, &one, 77, ORDER_PAID), STATUS_OK);
	ck_assert_int_eq(one.moved, MOVED_NOT_FOUND);
	arena_reset(&moves.arena);
	ck_assert_int_eq(entries, 3);
}
END_TEST

START_TEST(an_order_with_time_left_to_pay_is_not_moved_as_unpaid)
{
	static struct batch batch;
	struct move one[2] = {{.order_id = 1000,
			       .to = ORDER_CANCELLED,
			       .payment_reference = "",
			       .pay_by_max_ms = 61000},
			      {.order_id = 1001,
			       .to = ORDER_CANCELLED,
			       .payment_reference = "",
			       .pay_by_max_ms = 61001}};
	struct moves moves = {.moves = one, .count = 2, .done = on_moved};

	batch_make(&batch, 1000, 2);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	arena_init(&moves.arena, NULL, 0);
	waiting++;
	store_move(store, &moves);
	wait_all();
	ck_assert_int_eq(one[0].moved, MOVED_EARLY);
	ck_assert_int_eq(one[0].order.status, ORDER_PENDING);
	ck_assert_int_eq(one[1].moved, MOVED_NOW);
	arena_reset(&moves.arena);
}
END_TEST

START_TEST(of_two_moves_of_one_order_one_wins)
{
	static struct batch batch;
	struct move one[2] = {{.order_id = 1000, .to = ORDER_PAID, .payment_reference = "a"},
			      {.order_id = 1000, .to = ORDER_CANCELLED, .payment_reference = ""}};
	struct moves moves[2] = {{.moves = &one[0], .count = 1, .done = on_moved},
				 {.moves = &one[1], .count = 1, .done = on_moved}};

	batch_make(&batch, 1000, 1);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	for (int i = 0; i < 2; i++) {
		arena_init(&moves[i].arena, NULL, 0);
		waiting++;
		store_move(store, &moves[i]);
	}
	wait_all();
	ck_assert_int_eq(one[0].moved, MOVED_NOW);
	ck_assert_int_eq(one[1].moved, MOVED_REFUSED);
	for (int i = 0; i < 2; i++)
		arena_reset(&moves[i].arena);
}
END_TEST

/* --- the outbox ----------------------------------------------------------------------------- */

static void on_removed(struct outbox_removal *removal)
{
	(void)removal;
	over();
}

START_TEST(the_outbox_outlives_a_restart_until_it_is_removed)
{
	static struct batch batch;
	struct outbox_record *read;
	struct outbox_removal removal = {.done = on_removed};
	int64_t ids[16] = {0};
	int count, rest;

	batch_make(&batch, 1000, 50);
	ck_assert_int_eq(place(&batch), STATUS_OK);
	close_store();
	open_store();
	read = read_outbox(0, 100, &count);
	ck_assert_int_eq(count, LANES + 1);
	for (struct outbox_record *record = read; record && removal.count < 16;
	     record = record->next)
		ids[removal.count++] = record->id;
	outbox_records_free(read);
	outbox_records_free(read_outbox(ids[1], 2, &rest));
	ck_assert_int_eq(rest, 2);
	removal.ids = ids;
	waiting++;
	store_remove(store, &removal);
	wait_all();
	ck_assert_int_eq(removal.job.status, STATUS_OK);
	ck_assert_ptr_null(read_outbox(0, 100, &count));
	ck_assert_int_eq(store_outbox_entries(store), 0);
}
END_TEST

static void on_added(struct outbox_addition *addition)
{
	(void)addition;
	over();
}

START_TEST(an_addition_that_failed_can_be_tried_again)
{
	struct outbox_addition addition = {.done = on_added};
	int count;

	outbox_init(&addition.outbox, LANES, "");
	outbox_add_release(&addition.outbox, "sale", "ann", "1000");
	outbox_add_release(&addition.outbox, "sale", "ann", "1001");
	failing_vfs_arm(1, 1, SQLITE_FULL);
	waiting++;
	store_add(store, &addition);
	wait_all();
	ck_assert_int_eq(addition.job.status, STATUS_UNAVAILABLE);
	waiting++;
	store_add(store, &addition);
	wait_all();
	ck_assert_int_eq(addition.job.status, STATUS_OK);
	outbox_free(&addition.outbox);
	outbox_records_free(read_outbox(0, 100, &count));
	ck_assert_int_eq(count, 2);
}
END_TEST

/* --- faults --------------------------------------------------------------------------------- */

/* A disk that fails at the n-th change, at any n: what was answered is there, what was not can
 * be repeated, nothing is there twice. */
static void fail_at(int nth, int times, int code, bool *ret_failed)
{
	static struct batch first, second;
	int rounds = 0, found;

	batch_make(&first, 1000, 60);
	batch_make(&second, 5000, 60);
	ck_assert_int_eq(place(&first), STATUS_OK);
	failing_vfs_arm(nth, times, code);
	while (place(&second) != STATUS_OK) {
		ck_assert_int_eq(second.placement.job.status, STATUS_UNAVAILABLE);
		ck_assert(!up);
		ck_assert_int_lt(++rounds, 200);
	}
	ck_assert(up);
	*ret_failed = failing_vfs_failed();
	failing_vfs_arm(0, 0, 0);
	close_store();
	open_store();
	ck_assert_int_eq(place(&first), STATUS_OK);
	ck_assert_int_eq(place(&second), STATUS_OK);
	for (int i = 0; i < 60; i++) {
		ck_assert_int_eq(first.placed[i], PLACED_BEFORE);
		ck_assert_int_eq(second.placed[i], PLACED_BEFORE);
	}
	ck_assert_int_eq(store_outbox_entries(store), 2 * (60 + LANES));
	outbox_records_free(read_outbox(0, 100, &found));
	ck_assert_int_eq(found, 2 * (LANES + 1));
}

static void fail_at_every(int times, int code)
{
	bool failed = true;

	for (int nth = 1; failed; nth++) {
		fail_at(nth, times, code, &failed);
		tear_down();
		set_up();
		ck_assert_int_lt(nth, 1000);
	}
}

START_TEST(a_full_disk_loses_nothing_wherever_it_strikes)
{
	fail_at_every(1, SQLITE_FULL);
}
END_TEST

START_TEST(a_disk_full_for_long_loses_nothing)
{
	fail_at_every(7, SQLITE_FULL);
}
END_TEST

START_TEST(a_write_error_loses_nothing_wherever_it_strikes)
{
	fail_at_every(1, SQLITE_IOERR_WRITE);
}
END_TEST

START_TEST(recovers_by_itself)
{
	static struct batch batch;

	batch_make(&batch, 1000, 10);
	failing_vfs_arm(1, 1, SQLITE_FULL);
	ck_assert_int_eq(place(&batch), STATUS_UNAVAILABLE);
	ck_assert(!up);
	while (!up)
		loop_run(loop); /* its own probe */
	ck_assert_int_eq(place(&batch), STATUS_OK);
	ck_assert_int_eq(entries, 10 + LANES);
}
END_TEST

START_TEST(starts_when_it_cannot_open_and_opens_later)
{
	char inside[128];
	FILE *file;

	close_store();
	snprintf(inside, sizeof(inside), "%s/sub", folder);
	file = fopen(inside, "w"); /* a file where the folder should be */
	ck_assert_ptr_nonnull(file);
	fclose(file);
	open_store_at(inside);
	ck_assert(!up);
	unlink(inside);
	while (!up)
		loop_run(loop);
	close_store();
	snprintf(inside, sizeof(inside), "rm -r %s/sub", folder);
	ck_assert_int_eq(system(inside), 0);
	open_store();
}
END_TEST

START_TEST(refuses_a_database_of_a_newer_version)
{
	char path[128];
	sqlite3 *db;

	close_store();
	snprintf(path, sizeof(path), "%s/orders.db", folder);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "PRAGMA user_version = 999", NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	open_store();
	ck_assert(!up);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("order store");
	TCase *tests = tcase_create("store");
	SRunner *runner = srunner_create(suite);
	int failed;

	log_start("test", LOG_ERROR);
	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, places_orders_and_writes_their_events_and_jobs);
	tcase_add_test(tests, a_repeat_changes_nothing);
	tcase_add_test(tests,
		       a_second_order_for_a_request_is_a_conflict_and_its_neighbours_are_placed);
	tcase_add_test(tests, jobs_that_queue_up_share_a_transaction);
	tcase_add_test(tests, large_transactions_make_several_records);
	tcase_add_test(tests, a_job_is_due_with_the_last_of_its_orders_and_all_are_within_a_second);
	tcase_add_test(tests, pays_a_pending_order_once);
	tcase_add_test(tests, refuses_what_the_state_does_not_allow);
	tcase_add_test(tests, an_order_with_time_left_to_pay_is_not_moved_as_unpaid);
	tcase_add_test(tests, of_two_moves_of_one_order_one_wins);
	tcase_add_test(tests, the_outbox_outlives_a_restart_until_it_is_removed);
	tcase_add_test(tests, an_addition_that_failed_can_be_tried_again);
	tcase_add_test(tests, a_full_disk_loses_nothing_wherever_it_strikes);
	tcase_add_test(tests, a_disk_full_for_long_loses_nothing);
	tcase_add_test(tests, a_write_error_loses_nothing_wherever_it_strikes);
	tcase_add_test(tests, recovers_by_itself);
	tcase_add_test(tests, starts_when_it_cannot_open_and_opens_later);
	tcase_add_test(tests, refuses_a_database_of_a_newer_version);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
