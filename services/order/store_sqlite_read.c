/* The SQLite store's reader threads: what has queued up is read in one snapshot, which is younger
 * than every commit whose `done` has run. A read that fails ends UNAVAILABLE alone, and the
 * connection is opened again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "services/order/store_sqlite.h"

/* What a statement's step means for a read: STATUS_OK with a row, NOT_FOUND at the end of the rows.
 */
static enum status reader_step(struct reader *reader, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	if (code == SQLITE_ROW)
		return STATUS_OK;
	if (code == SQLITE_DONE) {
		sqlite3_reset(statement);
		return STATUS_NOT_FOUND;
	}
	sqlite3_reset(statement);
	connection_failed(&reader->connection, code);
	return STATUS_UNAVAILABLE;
}

static enum status reader_get(struct reader *reader, struct read *read)
{
	sqlite3_stmt *get = connection_statement(&reader->connection, STATEMENT_GET);
	enum status status;

	if (!get)
		return STATUS_UNAVAILABLE;
	sqlite3_bind_int64(get, 1, read->order_id);
	status = reader_step(reader, get);
	if (status != STATUS_OK)
		return status;
	read->list.orders = arena_alloc(&read->arena, sizeof(struct order));
	read->list.count = 1;
	connection_order(get, read->list.orders, &read->arena);
	sqlite3_reset(get);
	return STATUS_OK;
}

static enum status reader_list(struct reader *reader, struct read *read)
{
	const struct order_filter *filter = &read->filter;
	enum statement which = !*filter->user_id  ? STATEMENT_LIST_SALE
			       : *filter->sale_id ? STATEMENT_LIST_USER_SALE
						  : STATEMENT_LIST_USER;
	sqlite3_stmt *list = connection_statement(&reader->connection, which);
	enum status status = STATUS_OK;

	if (!list)
		return STATUS_UNAVAILABLE;
	sqlite3_bind_int64(list, 1, filter->before_id);
	sqlite3_bind_int(list, 2, filter->status);
	sqlite3_bind_int(list, 3, filter->max);
	if (which != STATEMENT_LIST_USER)
		sqlite3_bind_text(list, 4, filter->sale_id, -1, SQLITE_STATIC);
	if (which != STATEMENT_LIST_SALE)
		sqlite3_bind_text(list, 5, filter->user_id, -1, SQLITE_STATIC);
	read->list.orders = arena_alloc(&read->arena, (size_t)filter->max * sizeof(struct order));
	while ((status = reader_step(reader, list)) == STATUS_OK)
		connection_order(list, &read->list.orders[read->list.count++], &read->arena);
	return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status reader_summarize(struct reader *reader, struct read *read)
{
	sqlite3_stmt *count = connection_statement(&reader->connection, STATEMENT_COUNT_STATUS);
	sqlite3_stmt *most = connection_statement(&reader->connection, STATEMENT_MOST_UNITS);
	enum status status;

	if (!count || !most)
		return STATUS_UNAVAILABLE;
	sqlite3_bind_text(count, 1, read->filter.sale_id, -1, SQLITE_STATIC);
	while ((status = reader_step(reader, count)) == STATUS_OK) {
		int of = sqlite3_column_int(count, 0);

		if (of < 0 || of >= ORDER_STATUS_COUNT)
			continue;
		read->summary.orders[of] = sqlite3_column_int64(count, 1);
		read->summary.units[of] = sqlite3_column_int64(count, 2);
	}
	if (status != STATUS_NOT_FOUND)
		return status;
	sqlite3_bind_text(most, 1, read->filter.sale_id, -1, SQLITE_STATIC);
	status = reader_step(reader, most);
	if (status != STATUS_OK)
		return STATUS_UNAVAILABLE;
	read->summary.units_per_user_max = sqlite3_column_int64(most, 0);
	sqlite3_reset(most);
	return STATUS_OK;
}

static enum status reader_outbox(struct reader *reader, struct outbox_reading *reading)
{
	sqlite3_stmt *outbox = connection_statement(&reader->connection, STATEMENT_OUTBOX_READ);
	struct outbox_record **end = &reading->ret_records;
	enum status status;

	if (!outbox)
		return STATUS_UNAVAILABLE;
	sqlite3_bind_int64(outbox, 1, reading->after_id);
	sqlite3_bind_int(outbox, 2, reading->max);
	while ((status = reader_step(reader, outbox)) == STATUS_OK) {
		struct outbox_record *record = outbox_record_make(
			(enum outbox_kind)sqlite3_column_int(outbox, 1),
			sqlite3_column_int(outbox, 2), sqlite3_column_blob(outbox, 4),
			(size_t)sqlite3_column_bytes(outbox, 4));

		record->id = sqlite3_column_int64(outbox, 0);
		record->entries = sqlite3_column_int(outbox, 3);
		*end = record;
		end = &record->next;
		reading->ret_count++;
	}
	if (status == STATUS_NOT_FOUND)
		return STATUS_OK;
	outbox_records_free(reading->ret_records);
	reading->ret_records = NULL;
	reading->ret_count = 0;
	return status;
}

static enum status reader_do(struct reader *reader, struct store_job *job)
{
	switch ((enum read_kind)job->kind) {
	case READ_GET:
		return reader_get(reader, container_of(job, struct read, job));
	case READ_LIST:
		return reader_list(reader, container_of(job, struct read, job));
	case READ_SUMMARY:
		return reader_summarize(reader, container_of(job, struct read, job));
	case READ_OUTBOX:
		return reader_outbox(reader, container_of(job, struct outbox_reading, job));
	}
	return STATUS_INTERNAL;
}

void reader_run(void *self, struct job *jobs)
{
	struct reader *reader = self;
	bool open = connection_open(&reader->connection, &reader->store->options, false);

	/* One snapshot for all; without it each read would take the lock anew. */
	if (open && jobs->next)
		open = sqlite3_exec(reader->connection.db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
	for (; jobs; jobs = jobs->next) {
		struct store_job *job = container_of(jobs, struct store_job, job);

		/* A read may have closed the connection. */
		job->status =
			open && reader->connection.db ? reader_do(reader, job) : STATUS_UNAVAILABLE;
	}
	if (reader->connection.db && !sqlite3_get_autocommit(reader->connection.db) &&
	    sqlite3_exec(reader->connection.db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		connection_close(&reader->connection);
}
