/* The SQLite store, seen from the loop: hands jobs to the threads and their results back.
 *
 * Whether the database is up is what the last transaction showed. While it is down, a small write
 * is tried every RETRY_MS; calls and batches try too.
 */
#include "services/order/store_sqlite.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/metrics.h"

#define RETRY_MS 1000
/* Batches share transactions, and so syncs; calls that wait do not wait for this. */
#define WRITE_PACE_US 10000

static void store_probe(struct store *store);

static void store_retry(struct timer *timer)
{
	store_probe(container_of(timer, struct store, retry));
}

static void store_metrics(struct store *store)
{
	struct metrics *metrics = store->options.metrics;

	store->transactions = metrics_counter(metrics, "stampede_order_transactions_total",
					      "Transactions committed.", NULL);
	store->failures = metrics_counter(metrics, "stampede_order_transactions_failed_total",
					  "Transactions rolled back.", NULL);
	store->jobs_written = metrics_counter(
		metrics, "stampede_order_transaction_jobs_total",
		"Batches and calls written; by transactions: how many shared one.", NULL);
	for (int to = ORDER_PENDING; to < ORDER_STATUS_COUNT; to++) {
		char label[32];

		snprintf(label, sizeof(label), "to=\"%s\"",
			 order_status_name((enum order_status)to));
		store->transitions[to] =
			metrics_counter(metrics, "stampede_order_transitions_total",
					"Orders placed (PENDING) and moved, by where to.", label);
	}
	store->rows = metrics_counter(metrics, "stampede_order_transaction_rows_total",
				      "Orders placed or moved in transactions.", NULL);
	store->took = metrics_histogram(metrics, "stampede_order_transaction_seconds",
					"A transaction, its sync included.", NULL);
}

struct store *store_create(struct loop *loop, const struct store_options *options)
{
	struct store *store = calloc(1, sizeof(*store));

	assert(store && options->state && options->written && options->changed);
	/* Each connection belongs to one thread; memory is not counted: no locks inside SQLite.
	 * Fails, harmlessly, when SQLite is in use already. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	store->loop = loop;
	store->options = *options;
	store->folder = strdup(options->folder);
	assert(store->folder);
	store->options.folder = store->folder;
	store->outbox_entries = -1;
	store->writer.store = store->points.store = store->scans.store = store;
	outbox_init(&store->writer.outbox, options->lanes, options->jobs_queue);
	store_metrics(store);
	timer_init(&store->retry, loop, store_retry);
	store->writing = worker_create(loop, "order-write", writer_run, &store->writer);
	worker_set_pace(store->writing, WRITE_PACE_US);
	store->pointing = worker_create(loop, "order-read", reader_run, &store->points);
	store->scanning = worker_create(loop, "order-scan", reader_run, &store->scans);
	if (!store->options.jobs_max)
		store->options.jobs_max = 10000;
	worker_set_max(store->writing, store->options.jobs_max);
	worker_set_max(store->pointing, store->options.jobs_max);
	worker_set_max(store->scanning, store->options.jobs_max);
	store_probe(store);
	return store;
}

void store_close(struct store *store, void (*closed)(void *context), void *context)
{
	assert(!store->closing);
	store->closing = true;
	store->closed = closed;
	store->closed_context = context;
	timer_stop(&store->retry);
	/* Also when nothing is under way: `closed` runs in a later round. */
	store_probe(store);
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	timer_stop(&store->retry);
	worker_destroy(store->writing);
	worker_destroy(store->pointing);
	worker_destroy(store->scanning);
	connection_close(&store->writer.connection);
	connection_close(&store->points.connection);
	connection_close(&store->scans.connection);
	outbox_free(&store->writer.outbox);
	free(store->folder);
	free(store);
}

int64_t store_outbox_entries(const struct store *store)
{
	return store->outbox_entries;
}

/* --- jobs out and back -------------------------------------------------------------------------
 */

static void store_deliver(struct mail *mail)
{
	struct job *job = container_of(mail, struct job, mail);

	job->done(job);
}

static void store_submit(struct store *store, struct worker *worker, struct store_job *job,
			 int kind, void (*done)(struct job *job))
{
	job->store = store;
	job->kind = kind;
	job->job.done = done;
	store->jobs++;
	if (worker_submit(worker, &job->job))
		return;
	job->status = STATUS_RESOURCE_EXHAUSTED;
	job->job.mail.deliver = store_deliver;
	loop_post(store->loop, &job->job.mail);
}

/* Every job's first word when it is back; its memory may go right after. */
static void store_job_over(struct store *store)
{
	store->jobs--;
	if (store->closing && !store->jobs)
		store->closed(store->closed_context);
}

static void store_probed(struct job *job)
{
	struct store *store = container_of(job, struct store, probe.job);

	store->probing = false;
	store_job_over(store);
}

static void store_probe(struct store *store)
{
	if (store->probing)
		return;
	store->probing = true;
	store_submit(store, store->writing, &store->probe, WRITE_PROBE, store_probed);
}

void store_written(struct mail *mail)
{
	struct written *written = container_of(mail, struct written, mail);
	struct store *store = written->store;

	if (written->up) {
		store->transactions->value++;
		store->jobs_written->value += (uint64_t)written->jobs;
		store->rows->value += (uint64_t)written->rows;
		store->outbox_entries = written->outbox_entries;
		histogram_record_us(store->took, written->took_us);
		timer_stop(&store->retry);
	} else {
		store->failures->value++;
		if (!store->closing && !timer_started(&store->retry))
			timer_start_us(&store->retry, RETRY_MS * 1000);
	}
	if (written->up != store->up || !store->known) {
		store->up = written->up;
		store->known = true;
		store->options.state(store->options.self, written->up, written->reason);
	}
	if (written->records)
		store->options.written(store->options.self, written->records);
	free(written);
}

static void store_changed(struct store *store, int64_t order_id, enum order_status to)
{
	store->transitions[to]->value++;
	store->options.changed(store->options.self, order_id, to);
}

static void store_placed(struct job *job)
{
	struct placement *placement = container_of(job, struct placement, job.job);
	struct store *store = placement->job.store;

	if (placement->job.status == STATUS_OK)
		for (int i = 0; i < placement->count; i++)
			if (placement->placed[i] == PLACED_NOW)
				store_changed(store, placement->orders[i].order_id, ORDER_PENDING);
	placement->done(placement);
	store_job_over(store);
}

void store_place(struct store *store, struct placement *placement)
{
	store_submit(store, store->writing, &placement->job, WRITE_PLACE, store_placed);
}

static void store_moved(struct job *job)
{
	struct moves *moves = container_of(job, struct moves, job.job);
	struct store *store = moves->job.store;

	if (moves->job.status == STATUS_OK)
		for (int i = 0; i < moves->count; i++)
			if (moves->moves[i].moved == MOVED_NOW)
				store_changed(store, moves->moves[i].order_id, moves->moves[i].to);
	moves->done(moves);
	store_job_over(store);
}

void store_move(struct store *store, struct moves *moves)
{
	moves->job.job.urgent = true;
	store_submit(store, store->writing, &moves->job, WRITE_MOVE, store_moved);
}

static void store_removed(struct job *job)
{
	struct outbox_removal *removal = container_of(job, struct outbox_removal, job.job);
	struct store *store = removal->job.store;

	removal->done(removal);
	store_job_over(store);
}

void store_remove(struct store *store, struct outbox_removal *removal)
{
	store_submit(store, store->writing, &removal->job, WRITE_REMOVE, store_removed);
}

static void store_added(struct job *job)
{
	struct outbox_addition *addition = container_of(job, struct outbox_addition, job.job);
	struct store *store = addition->job.store;

	addition->done(addition);
	store_job_over(store);
}

void store_add(struct store *store, struct outbox_addition *addition)
{
	store_submit(store, store->writing, &addition->job, WRITE_ADD, store_added);
}

static void store_outbox_read(struct job *job)
{
	struct outbox_reading *reading = container_of(job, struct outbox_reading, job.job);
	struct store *store = reading->job.store;

	reading->done(reading);
	store_job_over(store);
}

void store_read_outbox(struct store *store, struct outbox_reading *reading)
{
	reading->ret_records = NULL;
	reading->ret_count = 0;
	store_submit(store, store->scanning, &reading->job, READ_OUTBOX, store_outbox_read);
}

/* --- as steps ------------------------------------------------------------------------------------
 */

/* A move for a call, which may leave before it is over: so it has a copy of everything. */
struct call_move {
	struct moves moves;
	struct wait wait;
	struct move copy, *move;
};

static void call_move_done(struct moves *moves)
{
	struct call_move *own = container_of(moves, struct call_move, moves);
	struct call *call = own->wait.call;

	if (call) {
		if (moves->job.status == STATUS_OK) {
			own->move->moved = own->copy.moved;
			if (own->copy.moved != MOVED_NOT_FOUND)
				order_copy(&own->move->order, &own->copy.order, call_arena(call));
		}
		wait_finish(&own->wait, moves->job.status);
	}
	arena_reset(&own->moves.arena);
	free(own);
}

enum step store_move_one(struct store *store, struct call *call, struct move *move, call_then *then)
{
	struct call_move *own = calloc(1, sizeof(*own));

	assert(own);
	arena_init(&own->moves.arena, NULL, 0);
	own->move = move;
	own->copy = *move;
	own->copy.payment_reference = arena_strdup(&own->moves.arena, move->payment_reference);
	own->moves.moves = &own->copy;
	own->moves.count = 1;
	own->moves.done = call_move_done;
	store_move(store, &own->moves);
	return call_await(call, &own->wait, NULL, then);
}

static void read_done(struct job *job)
{
	struct read *read = container_of(job, struct read, job.job);
	struct store *store = read->job.store;
	struct call *call = read->wait.call;

	if (call && read->job.status == STATUS_OK) {
		if (read->ret_order)
			order_copy(read->ret_order, &read->list.orders[0], call_arena(call));
		if (read->ret_summary)
			*read->ret_summary = read->summary;
		if (read->ret_list) {
			int count = read->list.count;

			read->ret_list->count = count;
			read->ret_list->orders = arena_alloc(
				call_arena(call), ((size_t)count + 1) * sizeof(struct order));
			for (int i = 0; i < count; i++)
				order_copy(&read->ret_list->orders[i], &read->list.orders[i],
					   call_arena(call));
		}
	}
	if (call)
		wait_finish(&read->wait, read->job.status);
	arena_reset(&read->arena);
	free(read);
	store_job_over(store);
}

static struct read *read_make(void)
{
	struct read *read = calloc(1, sizeof(*read));

	assert(read);
	arena_init(&read->arena, NULL, 0);
	return read;
}

static enum step read_start(struct store *store, struct call *call, struct read *read,
			    struct worker *worker, enum read_kind kind, call_then *then)
{
	store_submit(store, worker, &read->job, (int)kind, read_done);
	return call_await(call, &read->wait, NULL, then);
}

enum step store_get(struct store *store, struct call *call, int64_t order_id,
		    struct order *ret_order, call_then *then)
{
	struct read *read = read_make();

	read->order_id = order_id;
	read->ret_order = ret_order;
	return read_start(store, call, read, store->pointing, READ_GET, then);
}

enum step store_list(struct store *store, struct call *call, const struct order_filter *filter,
		     struct order_list *ret_list, call_then *then)
{
	struct read *read = read_make();

	read->filter = *filter;
	read->filter.sale_id = arena_strdup(&read->arena, filter->sale_id);
	read->filter.user_id = arena_strdup(&read->arena, filter->user_id);
	read->ret_list = ret_list;
	return read_start(store, call, read, store->scanning, READ_LIST, then);
}

enum step store_summarize(struct store *store, struct call *call, const char *sale_id,
			  struct order_summary *ret_summary, call_then *then)
{
	struct read *read = read_make();

	read->filter.sale_id = arena_strdup(&read->arena, sale_id);
	read->ret_summary = ret_summary;
	return read_start(store, call, read, store->scanning, READ_SUMMARY, then);
}
