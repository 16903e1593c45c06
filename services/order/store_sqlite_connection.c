/* The SQLite store's files, schema and statements. Runs on the threads of the store, never on the
 * loop.
 *
 *     <folder>/orders.db (+ -wal, -shm)
 *
 *     sales   sale ──► sale_id          a small number stands for the id in every row and index
 *     orders  order_id (= rowid)        ids rise with time: rows are appended
 *             orders_request            unique (user_id, sale, request_id): duplicates fall on it,
 * and it serves the lists of a user orders_sale               (sale, rowid): appended too; the
 * lists of a sale outbox  id ──► record             one row a record, gone when handed on
 *
 * A failure closes the connection (but for a full disk and a lock of others) and the next job opens
 * it again.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "services/order/store_sqlite.h"

#define BUSY_TIMEOUT_MS 2000

/* Each brings the schema one version on; never edit one that was released. */
static const char *const migrations[] = {
	"CREATE TABLE sales(sale INTEGER PRIMARY KEY, sale_id TEXT NOT NULL UNIQUE);"
	"CREATE TABLE orders("
	" order_id INTEGER PRIMARY KEY, sale INTEGER NOT NULL, user_id TEXT NOT NULL,"
	" request_id TEXT NOT NULL, quantity INTEGER NOT NULL, status INTEGER NOT NULL,"
	" amount_minor INTEGER NOT NULL, currency TEXT NOT NULL, reserved_at INTEGER NOT NULL,"
	" created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, pay_by INTEGER NOT NULL,"
	" cancel_reason INTEGER NOT NULL DEFAULT 0, payment_reference TEXT NOT NULL DEFAULT '');"
	"CREATE UNIQUE INDEX orders_request ON orders(user_id, sale, request_id);"
	"CREATE INDEX orders_sale ON orders(sale);"
	"CREATE TABLE outbox(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, lane INTEGER NOT NULL,"
	" entries INTEGER NOT NULL, record BLOB NOT NULL);"
	"CREATE TABLE probe(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, filler BLOB);",
};
#define SCHEMA_VERSION ((int)(sizeof(migrations) / sizeof(migrations[0])))

/* FULL: a commit is on the disk when it is answered. The WAL is copied back every 64 MiB rather than
 * 4: pages written often are copied once. Debian's SQLite would overwrite what leaves the outbox. */
static const char pragmas_writer[] =
	"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
	"PRAGMA wal_autocheckpoint = 16384; PRAGMA secure_delete = OFF;"
	"PRAGMA cache_size = -24576; PRAGMA journal_size_limit = 67108864;"
	"PRAGMA temp_store = MEMORY;";
static const char pragmas_reader[] = "PRAGMA query_only = ON; PRAGMA cache_size = -4096;"
				     "PRAGMA temp_store = MEMORY;";

#define ORDER_COLUMNS                                                                              \
	"order_id, (SELECT sale_id FROM sales WHERE sales.sale = orders.sale), user_id,"           \
	" request_id, quantity, status, amount_minor, currency, reserved_at, created_at,"          \
	" updated_at, pay_by, cancel_reason, payment_reference"
#define LIST(index, where)                                                                         \
	"SELECT " ORDER_COLUMNS " FROM orders INDEXED BY " index " WHERE " where                   \
	" AND order_id < ?1 AND (?2 = 0 OR status = ?2) ORDER BY order_id DESC LIMIT ?3"
#define SALE_OF(parameter) "(SELECT sale FROM sales WHERE sale_id = " parameter ")"

static const char *const statements[STATEMENT_END] = {
	[STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
	[STATEMENT_COMMIT] = "COMMIT",
	[STATEMENT_FIND_SALE] = "SELECT sale FROM sales WHERE sale_id = ?1",
	[STATEMENT_ADD_SALE] = "INSERT INTO sales(sale_id) VALUES(?1)",
	[STATEMENT_PLACE] =
		"INSERT INTO orders(order_id, sale, user_id, request_id, quantity, status,"
		" amount_minor, currency, reserved_at, created_at, updated_at, pay_by)"
		" VALUES(?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?9, ?10) ON CONFLICT DO NOTHING",
	[STATEMENT_EXISTS] = "SELECT 1 FROM orders WHERE order_id = ?1",
	[STATEMENT_MOVE] =
		"UPDATE orders SET status = ?2, updated_at = ?3, cancel_reason = ?4,"
		" payment_reference = ?5 WHERE order_id = ?1 AND status = 1 AND pay_by <= ?6 "
		"RETURNING " ORDER_COLUMNS,
	[STATEMENT_GET] = "SELECT " ORDER_COLUMNS " FROM orders WHERE order_id = ?1",
	[STATEMENT_LIST_SALE] = LIST("orders_sale", "sale = " SALE_OF("?4")),
	[STATEMENT_LIST_USER] = LIST("orders_request", "user_id = ?5"),
	[STATEMENT_LIST_USER_SALE] =
		LIST("orders_request", "user_id = ?5 AND sale = " SALE_OF("?4")),
	[STATEMENT_COUNT_STATUS] =
		"SELECT status, count(*), sum(quantity) FROM orders INDEXED BY orders_sale"
		" WHERE sale = " SALE_OF("?1") " GROUP BY status",
	[STATEMENT_MOST_UNITS] =
		"SELECT coalesce(max(units), 0) FROM (SELECT sum(quantity) AS units FROM orders"
		" INDEXED BY orders_sale WHERE sale = " SALE_OF(
			"?1") " AND status <> 3 GROUP BY user_id)",
	[STATEMENT_OUTBOX_ADD] =
		"INSERT INTO outbox(id, kind, lane, entries, record) VALUES(?1, ?2, ?3, ?4, ?5)",
	[STATEMENT_OUTBOX_REMOVE] = "DELETE FROM outbox WHERE id = ?1 RETURNING entries",
	[STATEMENT_OUTBOX_READ] = ("SELECT id, kind, lane, entries, record FROM outbox"
				   " WHERE id > ?1 ORDER BY id LIMIT ?2"),
	[STATEMENT_OUTBOX_FIGURES] =
		"SELECT coalesce(max(id), 0), coalesce(sum(entries), 0) FROM outbox",
	/* As large as a batch: a disk that is all but full would take less. */
	[STATEMENT_PROBE] =
		"INSERT OR REPLACE INTO probe(id, at, filler) VALUES(1, ?1, zeroblob(262144))",
};

bool connection_failed(struct connection *connection, int code)
{
	snprintf(connection->reason, sizeof(connection->reason), "%s",
		 connection->db ? sqlite3_errmsg(connection->db) : sqlite3_errstr(code));
	switch (code & 0xff) {
	case SQLITE_FULL:
	case SQLITE_BUSY:
		break;
	default:
		connection_close(connection);
	}
	return false;
}

static bool connection_execute(struct connection *connection, const char *sql)
{
	int code = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK || connection_failed(connection, code);
}

static int connection_version(struct connection *connection)
{
	sqlite3_stmt *statement;
	int version = -1;

	if (sqlite3_prepare_v2(connection->db, "PRAGMA user_version", -1, &statement, NULL) ==
	    SQLITE_OK) {
		if (sqlite3_step(statement) == SQLITE_ROW)
			version = sqlite3_column_int(statement, 0);
		sqlite3_finalize(statement);
	}
	return version;
}

static bool connection_migrate(struct connection *connection)
{
	int version = connection_version(connection);
	char sql[64];

	if (version < 0)
		return connection_failed(connection, sqlite3_errcode(connection->db));
	if (version > SCHEMA_VERSION) {
		connection_close(connection);
		snprintf(connection->reason, sizeof(connection->reason),
			 "the database has version %d, this program knows up to %d", version,
			 SCHEMA_VERSION);
		return false;
	}
	for (; version < SCHEMA_VERSION; version++) {
		snprintf(sql, sizeof(sql), "PRAGMA user_version = %d; COMMIT", version + 1);
		if (!connection_execute(connection, "BEGIN IMMEDIATE"))
			return false;
		if (!connection_execute(connection, migrations[version]) ||
		    !connection_execute(connection, sql)) {
			/* also when the failure was one that leaves the connection open */
			connection_close(connection);
			return false;
		}
	}
	return true;
}

/* Like mkdir -p, but only the last folder's absence is an error worth telling. */
static void folder_make(const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s", folder);
	for (char *at = path + 1; *at; at++)
		if (*at == '/') {
			*at = 0;
			(void)mkdir(path, 0755); /* opening the file will tell */
			*at = '/';
		}
	(void)mkdir(path, 0755);
}

bool connection_open(struct connection *connection, const struct store_options *options,
		     bool writes)
{
	char path[4096];
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, code;

	if (connection->db)
		return true;
	if (writes) {
		folder_make(options->folder);
		flags |= SQLITE_OPEN_CREATE;
	}
	snprintf(path, sizeof(path), "%s/orders.db", options->folder);
	code = sqlite3_open_v2(path, &connection->db, flags, options->vfs);
	if (code != SQLITE_OK) {
		connection_failed(connection, code);
		connection_close(connection);
		return false;
	}
	sqlite3_busy_timeout(connection->db, BUSY_TIMEOUT_MS);
	if (!connection_execute(connection, writes ? pragmas_writer : pragmas_reader) ||
	    (writes && !connection_migrate(connection))) {
		connection_close(connection);
		return false;
	}
	return true;
}

void connection_close(struct connection *connection)
{
	for (int i = 0; i < STATEMENT_END; i++) {
		sqlite3_finalize(connection->statements[i]);
		connection->statements[i] = NULL;
	}
	sqlite3_close(connection->db);
	connection->db = NULL;
}

sqlite3_stmt *connection_statement(struct connection *connection, enum statement which)
{
	sqlite3_stmt **statement = &connection->statements[which];
	int code;

	if (*statement || !connection->db)
		return *statement;
	code = sqlite3_prepare_v3(connection->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
				  statement, NULL);
	if (code != SQLITE_OK)
		connection_failed(connection, code);
	return code == SQLITE_OK ? *statement : NULL;
}

bool connection_run(struct connection *connection, sqlite3_stmt *statement)
{
	int code;

	if (!statement)
		return false;
	do {
		code = sqlite3_step(statement);
	} while (code == SQLITE_ROW);
	if (code != SQLITE_DONE)
		return connection_failed(connection, code);
	sqlite3_reset(statement);
	return true;
}

static const char *column_text(sqlite3_stmt *statement, int column, struct arena *arena)
{
	const unsigned char *text = sqlite3_column_text(statement, column);

	return text ? arena_memdup(arena, text, (size_t)sqlite3_column_bytes(statement, column))
		    : "";
}

void connection_order(sqlite3_stmt *statement, struct order *ret_order, struct arena *arena)
{
	*ret_order = (struct order){
		.order_id = sqlite3_column_int64(statement, 0),
		.sale_id = column_text(statement, 1, arena),
		.user_id = column_text(statement, 2, arena),
		.request_id = column_text(statement, 3, arena),
		.quantity = sqlite3_column_int(statement, 4),
		.status = (enum order_status)sqlite3_column_int(statement, 5),
		.amount_minor = sqlite3_column_int64(statement, 6),
		.currency = column_text(statement, 7, arena),
		.reserved_at_ms = sqlite3_column_int64(statement, 8),
		.created_at_ms = sqlite3_column_int64(statement, 9),
		.updated_at_ms = sqlite3_column_int64(statement, 10),
		.pay_by_ms = sqlite3_column_int64(statement, 11),
		.cancel_reason = (enum cancel_reason)sqlite3_column_int(statement, 12),
		.payment_reference = column_text(statement, 13, arena),
	};
}
