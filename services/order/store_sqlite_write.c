/* The SQLite store's writer thread: all jobs that have queued up are one transaction.
 *
 *     begin ─► each job ─► outbox records ─► commit (one sync) ─► written() and the jobs' done, on
 * the loop
 *
 * What can be wrong with one job alone is found by looking, not by failing: conflicts by the unique
 * index (which changes nothing), wrong states by the condition of the update. So what does fail
 * (disk full, I/O) fails the transaction as a whole: it is rolled back and its jobs end
 * UNAVAILABLE.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "services/order/store_sqlite.h"

/* A transaction takes further jobs until it has that many rows. */
#define ROWS_MAX 5000

static bool writer_sale(struct writer *writer, const char *sale_id, int64_t *ret_sale)
{
	struct connection *connection = &writer->connection;
	uint32_t hash = 2166136261;
	struct sale_key *cached;
	sqlite3_stmt *find, *add;
	int code;

	for (const char *at = sale_id; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619;
	cached = &writer->sales[hash % SALES_CACHED];
	if (cached->key && strcmp(cached->sale_id, sale_id) == 0) {
		*ret_sale = cached->key;
		return true;
	}
	find = connection_statement(connection, STATEMENT_FIND_SALE);
	if (!find)
		return false;
	sqlite3_bind_text(find, 1, sale_id, -1, SQLITE_STATIC);
	code = sqlite3_step(find);
	if (code == SQLITE_ROW)
		*ret_sale = sqlite3_column_int64(find, 0);
	else if (code != SQLITE_DONE)
		return connection_failed(connection, code);
	sqlite3_reset(find);
	if (code == SQLITE_DONE) {
		add = connection_statement(connection, STATEMENT_ADD_SALE);
		if (!add)
			return false;
		sqlite3_bind_text(add, 1, sale_id, -1, SQLITE_STATIC);
		if (!connection_run(connection, add))
			return false;
		*ret_sale = sqlite3_last_insert_rowid(connection->db);
	}
	cached->key = *ret_sale;
	snprintf(cached->sale_id, sizeof(cached->sale_id), "%s", sale_id);
	return true;
}

/* A row that was not inserted: the order itself come again, or another one for its request? */
static bool writer_look(struct writer *writer, int64_t order_id, uint8_t *ret_placed)
{
	sqlite3_stmt *exists = connection_statement(&writer->connection, STATEMENT_EXISTS);
	int code;

	if (!exists)
		return false;
	sqlite3_bind_int64(exists, 1, order_id);
	code = sqlite3_step(exists);
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		return connection_failed(&writer->connection, code);
	*ret_placed = code == SQLITE_ROW ? PLACED_BEFORE : PLACED_CONFLICT;
	sqlite3_reset(exists);
	return true;
}

static bool writer_place(struct writer *writer, struct placement *placement)
{
	struct connection *connection = &writer->connection;
	sqlite3_stmt *place = connection_statement(connection, STATEMENT_PLACE);
	int64_t sale = 0;

	if (!place)
		return false;
	for (int i = 0; i < placement->count; i++) {
		struct order *order = &placement->orders[i];

		if (!writer_sale(writer, order->sale_id, &sale))
			return false;
		order->status = ORDER_PENDING;
		order->cancel_reason = CANCEL_NONE;
		order->payment_reference = "";
		order->created_at_ms = order->updated_at_ms = writer->now_ms;
		sqlite3_bind_int64(place, 1, order->order_id);
		sqlite3_bind_int64(place, 2, sale);
		sqlite3_bind_text(place, 3, order->user_id, -1, SQLITE_STATIC);
		sqlite3_bind_text(place, 4, order->request_id, -1, SQLITE_STATIC);
		sqlite3_bind_int(place, 5, order->quantity);
		sqlite3_bind_int64(place, 6, order->amount_minor);
		sqlite3_bind_text(place, 7, order->currency, -1, SQLITE_STATIC);
		sqlite3_bind_int64(place, 8, order->reserved_at_ms);
		sqlite3_bind_int64(place, 9, order->created_at_ms);
		sqlite3_bind_int64(place, 10, order->pay_by_ms);
		if (!connection_run(connection, place))
			return false;
		if (sqlite3_changes(connection->db) == 0) {
			if (!writer_look(writer, order->order_id, &placement->placed[i]))
				return false;
			continue;
		}
		placement->placed[i] = PLACED_NOW;
		writer->rows++;
		outbox_add_change(&writer->outbox, order, 0);
		outbox_add_job(&writer->outbox, order);
	}
	return true;
}

/* Why a move changed nothing. */
static bool writer_look_at(struct writer *writer, struct move *move, struct arena *arena)
{
	sqlite3_stmt *get = connection_statement(&writer->connection, STATEMENT_GET);
	int code;

	if (!get)
		return false;
	sqlite3_bind_int64(get, 1, move->order_id);
	code = sqlite3_step(get);
	if (code == SQLITE_DONE) {
		move->moved = MOVED_NOT_FOUND;
	} else if (code == SQLITE_ROW) {
		connection_order(get, &move->order, arena);
		move->moved = move->order.status == move->to	    ? MOVED_BEFORE
			      : move->order.status == ORDER_PENDING ? MOVED_EARLY
								    : MOVED_REFUSED;
	} else {
		return connection_failed(&writer->connection, code);
	}
	sqlite3_reset(get);
	return true;
}

static bool writer_move(struct writer *writer, struct moves *moves)
{
	sqlite3_stmt *update = connection_statement(&writer->connection, STATEMENT_MOVE);
	int code;

	if (!update)
		return false;
	for (int i = 0; i < moves->count; i++) {
		struct move *move = &moves->moves[i];

		sqlite3_bind_int64(update, 1, move->order_id);
		sqlite3_bind_int(update, 2, (int)move->to);
		sqlite3_bind_int64(update, 3, writer->now_ms);
		sqlite3_bind_int(update, 4, (int)move->cancel_reason);
		sqlite3_bind_text(update, 5, move->payment_reference, -1, SQLITE_STATIC);
		sqlite3_bind_int64(update, 6,
				   move->pay_by_max_ms ? move->pay_by_max_ms : INT64_MAX);
		code = sqlite3_step(update);
		if (code == SQLITE_ROW) {
			connection_order(update, &move->order, &moves->arena);
			move->moved = MOVED_NOW;
			writer->rows++;
			outbox_add_change(&writer->outbox, &move->order, ORDER_PENDING);
		} else if (code != SQLITE_DONE) {
			return connection_failed(&writer->connection, code);
		}
		sqlite3_reset(update);
		if (code == SQLITE_DONE && !writer_look_at(writer, move, &moves->arena))
			return false;
	}
	return true;
}

static bool writer_remove(struct writer *writer, struct outbox_removal *removal)
{
	sqlite3_stmt *remove = connection_statement(&writer->connection, STATEMENT_OUTBOX_REMOVE);
	int code;

	if (!remove)
		return false;
	for (int i = 0; i < removal->count; i++) {
		sqlite3_bind_int64(remove, 1, removal->ids[i]);
		while ((code = sqlite3_step(remove)) == SQLITE_ROW)
			writer->outbox_change -= sqlite3_column_int64(remove, 0);
		if (code != SQLITE_DONE)
			return connection_failed(&writer->connection, code);
		sqlite3_reset(remove);
	}
	return true;
}

/* Takes the records of an addition over; put back as they were when the transaction fails. */
static void writer_add(struct writer *writer, struct outbox_addition *addition)
{
	struct outbox_record *records = outbox_take(&addition->outbox);

	for (; records; records = records->next) {
		struct outbox_record *copy = outbox_record_make(records->kind, records->lane,
								records->bytes, records->size);

		copy->entries = records->entries;
		*writer->outbox.closed_end = copy;
		writer->outbox.closed_end = &copy->next;
		*addition->outbox.closed_end = records;
		addition->outbox.closed_end = &records->next;
	}
}

static bool writer_probe(struct writer *writer)
{
	sqlite3_stmt *probe = connection_statement(&writer->connection, STATEMENT_PROBE);

	if (!probe)
		return false;
	sqlite3_bind_int64(probe, 1, writer->now_ms);
	return connection_run(&writer->connection, probe);
}

static bool writer_do(struct writer *writer, struct store_job *job)
{
	switch ((enum write_kind)job->kind) {
	case WRITE_PROBE:
		return writer_probe(writer);
	case WRITE_PLACE:
		return writer_place(writer, container_of(job, struct placement, job));
	case WRITE_MOVE:
		return writer_move(writer, container_of(job, struct moves, job));
	case WRITE_REMOVE:
		return writer_remove(writer, container_of(job, struct outbox_removal, job));
	case WRITE_ADD:
		writer_add(writer, container_of(job, struct outbox_addition, job));
		return true;
	}
	return false;
}

static int writer_rows(const struct store_job *job)
{
	switch ((enum write_kind)job->kind) {
	case WRITE_PLACE:
		return container_of(job, struct placement, job)->count;
	case WRITE_MOVE:
		return container_of(job, struct moves, job)->count;
	default:
		return 1;
	}
}

static bool writer_outbox(struct writer *writer, struct outbox_record *records)
{
	sqlite3_stmt *add = connection_statement(&writer->connection, STATEMENT_OUTBOX_ADD);

	if (!add)
		return false;
	for (; records; records = records->next) {
		records->id = writer->outbox_next_id++;
		writer->outbox_change += records->entries;
		sqlite3_bind_int64(add, 1, records->id);
		sqlite3_bind_int(add, 2, (int)records->kind);
		sqlite3_bind_int(add, 3, records->lane);
		sqlite3_bind_int(add, 4, records->entries);
		sqlite3_bind_blob64(add, 5, records->bytes, records->size, SQLITE_STATIC);
		if (!connection_run(&writer->connection, add))
			return false;
	}
	return true;
}

/* Where the outbox stands, after opening: ids go on where they ended. */
static bool writer_figures(struct writer *writer)
{
	sqlite3_stmt *figures = connection_statement(&writer->connection, STATEMENT_OUTBOX_FIGURES);
	int code;

	if (!figures)
		return false;
	code = sqlite3_step(figures);
	if (code != SQLITE_ROW)
		return connection_failed(&writer->connection, code);
	if (writer->outbox_next_id <= sqlite3_column_int64(figures, 0))
		writer->outbox_next_id = sqlite3_column_int64(figures, 0) + 1;
	writer->outbox_entries = sqlite3_column_int64(figures, 1);
	sqlite3_reset(figures);
	return true;
}

static bool writer_begin(struct writer *writer)
{
	struct connection *connection = &writer->connection;
	bool fresh = !connection->db;

	if (!connection_open(connection, &writer->store->options, true))
		return false;
	if (fresh && !writer_figures(writer)) {
		connection_close(connection);
		return false;
	}
	return connection_run(connection, connection_statement(connection, STATEMENT_BEGIN));
}

static void writer_roll_back(struct writer *writer)
{
	struct connection *connection = &writer->connection;

	outbox_free(&writer->outbox);
	memset(writer->sales, 0, sizeof(writer->sales));
	if (!connection->db)
		return;
	for (int i = 0; i < STATEMENT_END; i++)
		if (connection->statements[i])
			sqlite3_reset(connection->statements[i]);
	/* SQLite may have rolled back by itself, which makes this fail. */
	if (!sqlite3_get_autocommit(connection->db) &&
	    sqlite3_exec(connection->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
		connection_close(connection);
}

/* Jobs from `first` to before `end`, in one transaction. */
static bool writer_transact(struct writer *writer, struct job *first, const struct job *end,
			    struct outbox_record **ret_records)
{
	struct connection *connection = &writer->connection;
	struct outbox_record *records = NULL;

	writer->now_ms = clock_wall_ms();
	writer->outbox_change = writer->rows = 0;
	if (!writer_begin(writer))
		goto failed;
	for (struct job *job = first; job != end; job = job->next)
		if (!writer_do(writer, container_of(job, struct store_job, job)))
			goto failed;
	records = outbox_take(&writer->outbox);
	if ((records && !writer_outbox(writer, records)) ||
	    !connection_run(connection, connection_statement(connection, STATEMENT_COMMIT)))
		goto failed;
	writer->outbox_entries += writer->outbox_change;
	*ret_records = records;
	return true;

failed:
	outbox_records_free(records);
	writer_roll_back(writer);
	return false;
}

void writer_run(void *self, struct job *jobs)
{
	struct writer *writer = self;

	while (jobs) {
		struct written *written = calloc(1, sizeof(*written));
		struct job *end = jobs;
		int64_t begun_us = clock_monotonic_us();
		int rows = 0;

		assert(written);
		do {
			rows += writer_rows(container_of(end, struct store_job, job));
			end = end->next;
			written->jobs++;
		} while (end && rows < ROWS_MAX);
		written->store = writer->store;
		written->up = writer_transact(writer, jobs, end, &written->records);
		for (; jobs != end; jobs = jobs->next)
			container_of(jobs, struct store_job, job)->status =
				written->up ? STATUS_OK : STATUS_UNAVAILABLE;
		if (written->up) {
			written->rows = writer->rows;
		} else {
			memcpy(written->reason, writer->connection.reason, sizeof(written->reason));
		}
		written->outbox_entries = writer->outbox_entries;
		written->took_us = clock_monotonic_us() - begun_us;
		written->mail.deliver = store_written;
		loop_post(writer->store->loop, &written->mail);
	}
}
