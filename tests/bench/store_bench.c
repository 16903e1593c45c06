/* How fast orders are persisted, against what SQLite can do at all: `store_bench [ORDERS]`.
 *
 * bare:  the same rows, decoded beforehand, 1,000 a transaction, prepared statement, WAL,
 * synchronous FULL, one unique index ours:  records as they come from the bus: decoded, placed with
 * indexes, outbox written, handed over, removed
 *
 * Prints one line of JSON:
 * {"rows_per_s":…,"bare_rows_per_s":…,"ratio":…,"cpu_us_per_row":…,"bare_cpu_us_per_row":…}.
 */
#include <assert.h>
#include <sqlite3.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "services/order/reservations.h"
#include "services/order/store.h"

#define RESERVATIONS_PER_RECORD 64
#define RECORDS_PER_BATCH 64
#define BARE_ROWS_PER_TRANSACTION 1000
#define BATCHES_UNDER_WAY 2

struct record {
	uint8_t *bytes;
	size_t size;
};

/* What came off the bus at once, on its way into the store. */
struct batch {
	struct bench *bench;
	struct placement placement;
	struct arena arena;
	uint8_t placed[RESERVATIONS_PER_RECORD * RECORDS_PER_BATCH];
};

struct bench {
	struct loop *loop;
	struct store *store;
	struct record *records;
	int records_count, next, under_way;
	int64_t placed, orders;
	struct outbox_removal removal;
	int64_t ids[100000];
	int ids_count;
	struct batch batches[BATCHES_UNDER_WAY];
};

static int64_t order_id_of(int64_t i)
{
	return ((30000000000LL + i / 100) << 23) | ((i % 100) << 10) | (i * 7919 % 1024);
}

/* A sale's buyers do not come in the order of their names. */
static void buyer_of(int64_t i, char user[32], char request[40])
{
	uint64_t mixed = (uint64_t)i * 0x9E3779B97F4A7C15ull;

	snprintf(user, 32, "user-%08x", (unsigned)(mixed >> 32));
	snprintf(request, 40, "request-%016llx", (unsigned long long)mixed);
}

static struct record record_make(int64_t first)
{
	static Stampede__Events__V1__ReservationMade made[RESERVATIONS_PER_RECORD];
	static Stampede__Events__V1__ReservationMade *list[RESERVATIONS_PER_RECORD];
	static char ids[RESERVATIONS_PER_RECORD][ORDER_ID_TEXT_SIZE];
	static char users[RESERVATIONS_PER_RECORD][32], requests[RESERVATIONS_PER_RECORD][40];
	Google__Protobuf__Timestamp at, by;
	Stampede__Events__V1__ReservationsMade message;
	struct record record;

	google__protobuf__timestamp__init(&at);
	at.seconds = 1790000000;
	at.nanos = 123000000;
	by = at;
	by.seconds += 1800;
	for (int i = 0; i < RESERVATIONS_PER_RECORD; i++) {
		order_id_format(order_id_of(first + i), ids[i]);
		buyer_of(first + i, users[i], requests[i]);
		stampede__events__v1__reservation_made__init(&made[i]);
		made[i].order_id = ids[i];
		made[i].sale_id = (char *)"the-first-sale";
		made[i].user_id = users[i];
		made[i].request_id = requests[i];
		made[i].quantity = 1;
		made[i].amount_minor = 1999;
		made[i].currency = (char *)"EUR";
		made[i].reserved_at = &at;
		made[i].pay_by = &by;
		list[i] = &made[i];
	}
	stampede__events__v1__reservations_made__init(&message);
	message.reservations = list;
	message.n_reservations = RESERVATIONS_PER_RECORD;
	record.size = protobuf_c_message_get_packed_size(&message.base);
	record.bytes = malloc(record.size);
	assert(record.bytes);
	protobuf_c_message_pack(&message.base, record.bytes);
	return record;
}

static int64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
	       usage.ru_stime.tv_usec;
}

/* --- ours ---------------------------------------------------------------------------------------
 */

static void bench_state(void *self, bool up, const char *reason)
{
	(void)self;
	if (!up)
		fprintf(stderr, "the database is down: %s\n", reason);
	assert(up);
}

static void bench_changed(void *self, int64_t order_id, enum order_status status)
{
	(void)self, (void)order_id, (void)status;
}

static void bench_written(void *self, struct outbox_record *records)
{
	struct bench *bench = self;

	for (struct outbox_record *record = records; record; record = record->next)
		bench->ids[bench->ids_count++] = record->id;
	outbox_records_free(records);
}

static void bench_remove(struct bench *bench);

static void bench_finished(struct bench *bench)
{
	if (bench->placed == bench->orders && !bench->ids_count && !bench->removal.ids)
		loop_stop(bench->loop);
}

static void bench_removed(struct outbox_removal *removal)
{
	struct bench *bench = container_of(removal, struct bench, removal);

	assert(removal->job.status == STATUS_OK);
	free(removal->ids);
	removal->ids = NULL;
	bench_remove(bench);
	bench_finished(bench);
}

static void bench_remove(struct bench *bench)
{
	size_t size = (size_t)bench->ids_count * sizeof(int64_t);

	if (bench->removal.ids || !bench->ids_count)
		return;
	bench->removal.ids = malloc(size);
	assert(bench->removal.ids);
	memcpy(bench->removal.ids, bench->ids, size);
	bench->removal.count = bench->ids_count;
	bench->removal.done = bench_removed;
	bench->ids_count = 0;
	store_remove(bench->store, &bench->removal);
}

static void bench_place(struct batch *batch);

static void bench_placed(struct placement *placement)
{
	struct batch *batch = container_of(placement, struct batch, placement);
	struct bench *bench = batch->bench;

	assert(placement->job.status == STATUS_OK);
	for (int i = 0; i < placement->count; i++)
		bench->placed += batch->placed[i] == PLACED_NOW;
	bench->under_way--;
	arena_reset(&batch->arena);
	bench_place(batch);
	bench_remove(bench);
	bench_finished(bench);
}

static void bench_place(struct batch *batch)
{
	struct bench *bench = batch->bench;
	struct reservations reservations;

	if (bench->next == bench->records_count)
		return;
	reservations_init(&reservations, &batch->arena);
	for (int i = 0; i < RECORDS_PER_BATCH && bench->next < bench->records_count; i++) {
		struct record *record = &bench->records[bench->next++];

		if (!reservations_add(&reservations, i, record->bytes, record->size))
			abort();
	}
	batch->placement = (struct placement){.orders = reservations.orders,
					      .count = reservations.count,
					      .placed = batch->placed,
					      .done = bench_placed};
	bench->under_way++;
	store_place(bench->store, &batch->placement);
}

static void bench_closed(void *context)
{
	loop_stop(context);
}

static double bench_ours(struct bench *bench, const char *folder, double *ret_cpu)
{
	struct store_options options = {.folder = folder,
					.lanes = 4,
					.jobs_queue = "unpaid-orders",
					.state = bench_state,
					.written = bench_written,
					.changed = bench_changed,
					.self = bench};
	int64_t begun_us, begun_cpu, took_us;

	bench->loop = loop_create();
	bench->store = store_create(bench->loop, &options);
	begun_us = clock_monotonic_us();
	begun_cpu = cpu_us();
	for (int i = 0; i < BATCHES_UNDER_WAY; i++) {
		bench->batches[i].bench = bench;
		arena_init(&bench->batches[i].arena, NULL, 0);
		bench_place(&bench->batches[i]);
	}
	loop_run(bench->loop);
	took_us = clock_monotonic_us() - begun_us;
	*ret_cpu = (double)(cpu_us() - begun_cpu) / (double)bench->orders;
	store_close(bench->store, bench_closed, bench->loop);
	loop_run(bench->loop);
	store_destroy(bench->store);
	loop_destroy(bench->loop);
	return (double)bench->orders * 1e6 / (double)took_us;
}

/* --- bare ---------------------------------------------------------------------------------------
 */

static double bench_bare(const char *folder, int64_t orders, double *ret_cpu)
{
	char path[300], user[32], request[40];
	sqlite3 *db;
	sqlite3_stmt *insert;
	int64_t begun_us, begun_cpu, took_us;
	int code;

	snprintf(path, sizeof(path), "%s/bare.db", folder);
	code = sqlite3_open(path, &db);
	assert(code == SQLITE_OK);
	code = sqlite3_exec(
		db,
		"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
		"PRAGMA cache_size = -24576; PRAGMA wal_autocheckpoint = 4096;"
		"CREATE TABLE orders(order_id INTEGER PRIMARY KEY, sale_id TEXT, user_id TEXT,"
		" request_id TEXT, quantity INTEGER, status INTEGER, amount INTEGER,"
		" currency TEXT, reserved_at INTEGER, created_at INTEGER, pay_by INTEGER);"
		"CREATE UNIQUE INDEX orders_request ON orders(sale_id, request_id);",
		NULL, NULL, NULL);
	assert(code == SQLITE_OK);
	sqlite3_prepare_v2(db, "INSERT INTO orders VALUES(?,?,?,?,?,?,?,?,?,?,?)", -1, &insert,
			   NULL);
	begun_us = clock_monotonic_us();
	begun_cpu = cpu_us();
	for (int64_t i = 0; i < orders; i++) {
		if (i % BARE_ROWS_PER_TRANSACTION == 0)
			sqlite3_exec(db, i ? "COMMIT; BEGIN" : "BEGIN", NULL, NULL, NULL);
		buyer_of(i, user, request);
		sqlite3_bind_int64(insert, 1, order_id_of(i));
		sqlite3_bind_text(insert, 2, "the-first-sale", -1, SQLITE_STATIC);
		sqlite3_bind_text(insert, 3, user, -1, SQLITE_STATIC);
		sqlite3_bind_text(insert, 4, request, -1, SQLITE_STATIC);
		sqlite3_bind_int(insert, 5, 1);
		sqlite3_bind_int(insert, 6, 1);
		sqlite3_bind_int64(insert, 7, 1999);
		sqlite3_bind_text(insert, 8, "EUR", -1, SQLITE_STATIC);
		sqlite3_bind_int64(insert, 9, 1790000000123);
		sqlite3_bind_int64(insert, 10, 1790000000223);
		sqlite3_bind_int64(insert, 11, 1790001800123);
		code = sqlite3_step(insert);
		assert(code == SQLITE_DONE);
		sqlite3_reset(insert);
	}
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	took_us = clock_monotonic_us() - begun_us;
	*ret_cpu = (double)(cpu_us() - begun_cpu) / (double)orders;
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return (double)orders * 1e6 / (double)took_us;
}

static void bench_clean(const char *folder)
{
	static const char *const files[] = {"orders.db", "orders.db-wal", "orders.db-shm",
					    "bare.db",	 "bare.db-wal",	  "bare.db-shm"};
	char path[300];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		unlink(path);
	}
	rmdir(folder);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	int64_t orders = argc > 1 ? atoll(argv[1]) : 500000;
	char folder[] = "./store-bench-XXXXXX";
	double ours, bare, ours_cpu, bare_cpu;

	log_start("store_bench", LOG_WARN);
	if (orders < RESERVATIONS_PER_RECORD || !mkdtemp(folder)) {
		fprintf(stderr,
			"usage: store_bench [ORDERS, at least %d] in a folder it may write to\n",
			RESERVATIONS_PER_RECORD);
		return 2;
	}
	bench.records_count = (int)(orders / RESERVATIONS_PER_RECORD);
	bench.orders = (int64_t)bench.records_count * RESERVATIONS_PER_RECORD;
	bench.records = calloc((size_t)bench.records_count, sizeof(*bench.records));
	assert(bench.records);
	for (int i = 0; i < bench.records_count; i++)
		bench.records[i] = record_make((int64_t)i * RESERVATIONS_PER_RECORD);
	bare = bench_bare(folder, bench.orders, &bare_cpu);
	ours = bench_ours(&bench, folder, &ours_cpu);
	printf("{\"rows_per_s\":%.0f,\"bare_rows_per_s\":%.0f,\"ratio\":%.2f,\"cpu_us_per_row\":%."
	       "2f,"
	       "\"bare_cpu_us_per_row\":%.2f}\n",
	       ours, bare, ours / bare, ours_cpu, bare_cpu);
	bench_clean(folder);
	for (int i = 0; i < bench.records_count; i++)
		free(bench.records[i].bytes);
	free(bench.records);
	return 0;
}
