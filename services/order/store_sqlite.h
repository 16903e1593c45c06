/* What the parts of the SQLite store share: store_sqlite.c (the loop's side),
 * store_sqlite_connection.c (files, schema, statements), store_sqlite_write.c (the writer thread),
 * store_sqlite_read.c (the readers). */
#pragma once

#include <sqlite3.h>

#include "services/order/store.h"

enum statement {
	STATEMENT_BEGIN,
	STATEMENT_COMMIT,
	STATEMENT_FIND_SALE,
	STATEMENT_ADD_SALE,
	STATEMENT_PLACE,
	STATEMENT_EXISTS,
	STATEMENT_MOVE,
	STATEMENT_GET,
	STATEMENT_LIST_SALE,
	STATEMENT_LIST_USER,
	STATEMENT_LIST_USER_SALE,
	STATEMENT_COUNT_STATUS,
	STATEMENT_MOST_UNITS,
	STATEMENT_OUTBOX_ADD,
	STATEMENT_OUTBOX_REMOVE,
	STATEMENT_OUTBOX_READ,
	STATEMENT_OUTBOX_FIGURES,
	STATEMENT_PROBE,
	STATEMENT_END
};

/* One thread's own; closed when zeroed. */
struct connection {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENT_END];
	char reason[160]; /* why the last operation failed */
};
/* The writer makes the folder and the schema; a reader finds them or fails. True when it is open
 * already. */
bool connection_open(struct connection *connection, const struct store_options *options,
		     bool writes) MUST_USE;
void connection_close(struct connection *connection);
/* Prepared at first use; NULL when that fails. */
sqlite3_stmt *connection_statement(struct connection *connection, enum statement which);
/* Runs a statement without result to its end and resets it. */
bool connection_run(struct connection *connection, sqlite3_stmt *statement) MUST_USE;
/* Notes why. `code` is SQLite's; a full disk and a lock held by others leave the connection usable,
 * all else closes it. Always false. */
bool connection_failed(struct connection *connection, int code);
/* The columns of STATEMENT_GET and the like. */
void connection_order(sqlite3_stmt *statement, struct order *ret_order, struct arena *arena);

/* --- the writer thread ---------------------------------------------------------------------------
 */

enum write_kind { WRITE_PROBE = 1, WRITE_PLACE, WRITE_MOVE, WRITE_REMOVE, WRITE_ADD };

#define SALES_CACHED 64
struct sale_key {
	int64_t key;
	char sale_id[IDENTIFIER_SIZE_MAX + 1];
};

struct writer {
	struct store *store;
	struct connection connection;
	struct outbox outbox;
	struct sale_key sales[SALES_CACHED];
	int64_t now_ms;		/* of the transaction */
	int64_t outbox_next_id; /* 0: to be read */
	int64_t outbox_entries; /* committed */
	int64_t outbox_change;	/* in this transaction */
	int64_t rows;		/* changed in this transaction */
};
/* What the loop learns of a transaction, before its jobs. */
struct written {
	struct mail mail;
	struct store *store;
	struct outbox_record *records;
	int64_t outbox_entries, rows, took_us;
	int jobs;
	bool up;
	char reason[160];
};
void writer_run(void *self, struct job *jobs);

/* --- the reader threads
 * ----------------------------------------------------------------------------- */

enum read_kind { READ_GET = 1, READ_LIST, READ_SUMMARY, READ_OUTBOX };

struct reader {
	struct store *store;
	struct connection connection;
};
/* A read for a call: outlives it when it is abandoned, hence its copies. */
struct read {
	struct store_job job;
	struct wait wait;
	struct arena arena;
	int64_t order_id;
	struct order_filter filter;
	struct order_list list; /* result, of READ_GET too */
	struct order_summary summary;
	/* where the result goes; the call's */
	struct order *ret_order;
	struct order_list *ret_list;
	struct order_summary *ret_summary;
};
void reader_run(void *self, struct job *jobs);

/* --- the store
 * --------------------------------------------------------------------------------------- */

struct store {
	struct loop *loop;
	struct store_options options;
	char *folder;
	struct writer writer;
	/* Looking at one order must not wait behind counting a million. */
	struct reader points, scans;
	struct worker *writing, *pointing, *scanning;
	int jobs; /* under way */
	bool closing, up, known;
	void (*closed)(void *context);
	void *closed_context;
	struct timer retry;
	struct store_job probe;
	bool probing;
	int64_t outbox_entries;
	struct counter *transactions, *jobs_written, *rows, *failures;
	struct counter *transitions[ORDER_STATUS_COUNT];
	struct histogram *took;
};
void store_written(struct mail *mail);
