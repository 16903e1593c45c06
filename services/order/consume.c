/* See consume.h.
 *
 *     reservations   decode, check ──► one placement ──► placed: batch done (position committed)
 *                         │                  └──────────► database down: the batch again
 *                         └─ nonsense, or its request has another order ──► that part is retried;
 *                            in the end dead: an alarm, its units are released by the outbox
 *     unpaid-orders  decode ──► one batch of moves ──► cancelled, or was not pending: done
 *                                                └────► no such order (yet), or its time to pay is
 *                                                       not over: that part is retried
 *
 * A batch comes again after a crash: orders already placed fall on the unique index, moves
 * already made on their condition.
 */
#include "services/order/consume.h"

#include <assert.h>
#include <stampede/events/v1/events.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/utf8.h"
#include "services/order/reservations.h"
#include "services/order/service.h"

#define AGAIN_MS 500
#define RELEASE_AGAIN_MS 1000
#define RELEASES_MAX 10000 /* records given up whose units are not yet noted in the database */

struct consume {
	struct order_service *service;
	int releases;
	struct counter *placed, *repeated, *conflicts, *invalid, *undecodable;
	struct counter *cancelled_unpaid, *not_pending, *early, *unknown;
	struct counter *dead_reservations, *dead_unpaid;
	struct counter *records;
};

static struct counter *consume_counter(struct consume *consume, const char *name, const char *help,
				       const char *labels)
{
	return metrics_counter(consume->service->metrics, name, help, labels);
}

struct consume *consume_create(struct order_service *service)
{
	static const char reservations[] = "stampede_order_reservations_total";
	static const char reservations_help[] = "Reservations consumed, by what became of them.";
	static const char unpaid[] = "stampede_order_unpaid_total";
	static const char unpaid_help[] = "Orders of jobs for the unpaid, by what became of them.";
	static const char dead[] = "stampede_order_dead_total";
	static const char dead_help[] =
		"Records given up after the last retry: somebody must look.";
	struct consume *consume = calloc(1, sizeof(*consume));

	assert(consume);
	consume->service = service;
	consume->placed =
		consume_counter(consume, reservations, reservations_help, "result=\"placed\"");
	consume->repeated =
		consume_counter(consume, reservations, reservations_help, "result=\"repeated\"");
	consume->conflicts =
		consume_counter(consume, reservations, reservations_help, "result=\"conflict\"");
	consume->invalid =
		consume_counter(consume, reservations, reservations_help, "result=\"invalid\"");
	consume->undecodable = consume_counter(consume, "stampede_order_records_undecodable_total",
					       "Records that are no message of their topic.", NULL);
	consume->cancelled_unpaid =
		consume_counter(consume, unpaid, unpaid_help, "result=\"cancelled\"");
	consume->not_pending =
		consume_counter(consume, unpaid, unpaid_help, "result=\"not_pending\"");
	consume->early = consume_counter(consume, unpaid, unpaid_help, "result=\"early\"");
	consume->unknown = consume_counter(consume, unpaid, unpaid_help, "result=\"unknown\"");
	consume->dead_reservations =
		consume_counter(consume, dead, dead_help, "topic=\"reservations\"");
	consume->dead_unpaid = consume_counter(consume, dead, dead_help, "topic=\"unpaid-orders\"");
	consume->records = consume_counter(consume, "stampede_order_records_total",
					   "Records consumed, repeats included.", NULL);
	return consume;
}

void consume_destroy(struct consume *consume)
{
	free(consume);
}

/* --- reservations --------------------------------------------------------------------------- */

struct reservation_batch {
	struct consume *consume;
	struct bus_batch *batch;
	struct arena arena;
	struct reservations reservations;
	struct placement placement;
	bool *undecodable; /* for each record */
};

static void reservation_batch_free(struct reservation_batch *work)
{
	arena_reset(&work->arena);
	free(work);
}

/* All that can be placed is; what cannot goes to the retry topic. */
static void reservation_batch_over(struct reservation_batch *work)
{
	struct consume *consume = work->consume;
	const char *reason;
	const void *bytes;
	size_t size;

	for (int i = 0; i < work->batch->count; i++) {
		if (work->undecodable[i]) {
			consume->undecodable->value++;
			bus_batch_fail(work->batch, i, "the record is no ReservationsMade");
		} else if (work->reservations.faults_count &&
			   reservations_faulty(&work->reservations, i, &reason, &bytes, &size)) {
			bus_batch_fail_value(work->batch, i, reason, bytes, size);
		}
	}
	consume->records->value += (uint64_t)work->batch->count;
	bus_batch_done(work->batch);
	reservation_batch_free(work);
}

static void reservations_placed(struct placement *placement)
{
	struct reservation_batch *work =
		container_of(placement, struct reservation_batch, placement);
	struct consume *consume = work->consume;

	if (placement->job.status != STATUS_OK) {
		bus_batch_again(work->batch, AGAIN_MS);
		reservation_batch_free(work);
		return;
	}
	consume->invalid->value += (uint64_t)work->reservations.faults_count;
	for (int i = 0; i < placement->count; i++) {
		switch ((enum placed)placement->placed[i]) {
		case PLACED_NOW:
			consume->placed->value++;
			break;
		case PLACED_BEFORE:
			consume->repeated->value++;
			break;
		case PLACED_CONFLICT:
			consume->conflicts->value++;
			reservations_fault(&work->reservations, i,
					   "the request_id has another order already");
			break;
		}
	}
	reservation_batch_over(work);
}

void consume_reservations(void *self, struct bus_batch *batch)
{
	struct consume *consume = self;
	struct reservation_batch *work = calloc(1, sizeof(*work));

	assert(work);
	work->consume = consume;
	work->batch = batch;
	arena_init(&work->arena, NULL, 0);
	reservations_init(&work->reservations, &work->arena);
	work->undecodable = arena_zalloc(&work->arena, (size_t)batch->count * sizeof(bool));
	for (int i = 0; i < batch->count; i++)
		work->undecodable[i] =
			!reservations_add(&work->reservations, i, batch->records[i].value,
					  batch->records[i].value_size);
	if (!work->reservations.count) {
		consume->invalid->value += (uint64_t)work->reservations.faults_count;
		reservation_batch_over(work);
		return;
	}
	work->placement = (struct placement){
		.orders = work->reservations.orders,
		.count = work->reservations.count,
		.placed = arena_zalloc(&work->arena, (size_t)work->reservations.count),
		.done = reservations_placed,
	};
	store_place(consume->service->store, &work->placement);
}

/* --- reservations given up ------------------------------------------------------------------ */

/* Units of a record given up, on their way into the outbox, from where the relay releases them. */
struct release {
	struct consume *consume;
	struct outbox_addition addition;
	struct timer again;
};

static void release_free(struct release *release)
{
	release->consume->releases--;
	outbox_free(&release->addition.outbox);
	free(release);
}

static void release_again(struct timer *timer)
{
	struct release *release = container_of(timer, struct release, again);

	if (release->consume->service->stopping)
		release_free(release);
	else
		store_add(release->consume->service->store, &release->addition);
}

static void release_noted(struct outbox_addition *addition)
{
	struct release *release = container_of(addition, struct release, addition);

	if (addition->job.status == STATUS_OK)
		release_free(release);
	else /* the database is down: the record waits here, and in the dead letter topic */
		timer_start_us(&release->again, RELEASE_AGAIN_MS * 1000);
}

static void release_units(struct consume *consume,
			  const Stampede__Events__V1__ReservationsMade *made)
{
	struct release *release;
	int64_t order_id;

	if (consume->releases == RELEASES_MAX || consume->service->stopping) {
		log_event(LOG_ERROR, "units_not_released",
			  log_number("reservations", made->n_reservations));
		return;
	}
	release = calloc(1, sizeof(*release));
	assert(release);
	consume->releases++;
	release->consume = consume;
	timer_init(&release->again, consume->service->loop, release_again);
	outbox_init(&release->addition.outbox, (int)consume->service->settings->lanes, "");
	release->addition.done = release_noted;
	for (size_t i = 0; i < made->n_reservations; i++) {
		const Stampede__Events__V1__ReservationMade *one = made->reservations[i];

		if (order_id_parse(one->order_id, &order_id) &&
		    utf8_identifier(one->sale_id, 1, IDENTIFIER_SIZE_MAX))
			outbox_add_release(&release->addition.outbox, one->sale_id, one->user_id,
					   one->order_id);
		log_event(LOG_ERROR, "reservation_given_up", log_text("sale_id", one->sale_id),
			  log_text("order_id", one->order_id), log_text("user_id", one->user_id),
			  log_number("quantity", one->quantity));
	}
	store_add(consume->service->store, &release->addition);
}

void consume_dead_reservations(void *self, const struct bus_record *record)
{
	struct consume *consume = self;
	Stampede__Events__V1__ReservationsMade *made;
	struct arena arena;

	consume->dead_reservations->value++;
	log_event(LOG_ERROR, "dead_letter", log_text("topic", record->topic),
		  log_text("reason", record->reason), log_number("bytes", record->value_size));
	arena_init(&arena, NULL, 0);
	made = stampede__events__v1__reservations_made__unpack(arena_allocator(&arena),
							       record->value_size, record->value);
	if (made)
		release_units(consume, made);
	arena_reset(&arena);
}

/* --- unpaid orders -------------------------------------------------------------------------- */

/* A job and what it asks for: its orders, in moves of the batch. */
struct unpaid_job {
	Stampede__Events__V1__JobFired *fired;
	int64_t *order_ids; /* later: those that must come again */
	size_t count;
	bool alone; /* the job's id names its order */
};

struct unpaid_batch {
	struct consume *consume;
	struct bus_batch *batch;
	struct arena arena;
	Stampede__Events__V1__JobsFired **fired; /* for each record; NULL: undecodable */
	struct unpaid_job *jobs;		 /* of all records, one after the other */
	struct moves moves;
};

static void unpaid_batch_free(struct unpaid_batch *work)
{
	arena_reset(&work->arena);
	arena_reset(&work->moves.arena);
	free(work);
}

/* Asks for what is still to be done of a job; false when nothing is. Moves stand in the order of
 * the jobs; `at` walks along them. */
static bool unpaid_job_over(struct unpaid_batch *work, struct unpaid_job *job, int *at)
{
	struct consume *consume = work->consume;
	Stampede__Events__V1__UnpaidOrders again;
	ProtobufCBinaryData *payload;

	if (!job->count) {
		consume->unknown->value++;
		return true;
	}
	stampede__events__v1__unpaid_orders__init(&again);
	again.order_ids = job->order_ids;
	for (size_t i = 0; i < job->count; i++) {
		switch (work->moves.moves[(*at)++].moved) {
		case MOVED_NOW:
			consume->cancelled_unpaid->value++;
			continue;
		case MOVED_BEFORE:
		case MOVED_REFUSED:
			consume->not_pending->value++;
			continue;
		case MOVED_EARLY:
			consume->early->value++;
			break;
		case MOVED_NOT_FOUND:
			consume->unknown->value++;
			break;
		}
		again.order_ids[again.n_order_ids++] = job->order_ids[i];
	}
	if (!again.n_order_ids || job->alone)
		return again.n_order_ids;
	payload = &job->fired->job->payload;
	payload->data =
		arena_alloc(&work->arena, protobuf_c_message_get_packed_size(&again.base) + 1);
	payload->len = protobuf_c_message_pack(&again.base, payload->data);
	return true;
}

/* The jobs of one record that must come again, with the orders that are not there or not due, and
 * those that name none. */
static void unpaid_record_over(struct unpaid_batch *work, int index, struct unpaid_job *jobs,
			       int *at)
{
	Stampede__Events__V1__JobsFired *fired = work->fired[index], again;
	uint8_t *bytes;
	size_t size;

	stampede__events__v1__jobs_fired__init(&again);
	again.jobs = arena_alloc(&work->arena, (fired->n_jobs + 1) * sizeof(void *));
	for (size_t i = 0; i < fired->n_jobs; i++)
		if (unpaid_job_over(work, &jobs[i], at))
			again.jobs[again.n_jobs++] = fired->jobs[i];
	if (!again.n_jobs)
		return;
	size = protobuf_c_message_get_packed_size(&again.base);
	bytes = arena_alloc(&work->arena, size + 1);
	protobuf_c_message_pack(&again.base, bytes);
	bus_batch_fail_value(work->batch, index, "an order is not there, or not due yet", bytes,
			     size);
}

static void unpaid_batch_over(struct unpaid_batch *work)
{
	struct unpaid_job *jobs = work->jobs;
	int at = 0;

	for (int i = 0; i < work->batch->count; i++) {
		if (work->fired[i]) {
			unpaid_record_over(work, i, jobs, &at);
			jobs += work->fired[i]->n_jobs;
		} else {
			work->consume->undecodable->value++;
			bus_batch_fail(work->batch, i, "the record is no JobsFired");
		}
	}
	work->consume->records->value += (uint64_t)work->batch->count;
	bus_batch_done(work->batch);
	unpaid_batch_free(work);
}

static void unpaid_moved(struct moves *moves)
{
	struct unpaid_batch *work = container_of(moves, struct unpaid_batch, moves);

	if (moves->job.status == STATUS_OK) {
		unpaid_batch_over(work);
		return;
	}
	bus_batch_again(work->batch, AGAIN_MS);
	unpaid_batch_free(work);
}

/* Which orders a job is about; none when it makes no sense. */
static void unpaid_job_decode(struct unpaid_batch *work, Stampede__Events__V1__JobFired *fired,
			      struct unpaid_job *job)
{
	Stampede__Events__V1__UnpaidOrders *orders;

	*job = (struct unpaid_job){.fired = fired};
	if (!fired->job)
		return;
	if (!fired->job->payload.len) {
		job->order_ids = arena_alloc(&work->arena, sizeof(*job->order_ids));
		job->count = order_id_parse(fired->job->job_id, job->order_ids);
		job->alone = true;
		return;
	}
	orders = stampede__events__v1__unpaid_orders__unpack(
		arena_allocator(&work->arena), fired->job->payload.len, fired->job->payload.data);
	if (orders) {
		job->order_ids = orders->order_ids;
		job->count = orders->n_order_ids;
	}
}

/* Returns how many jobs there are, and of how many orders. */
static size_t unpaid_decode(struct unpaid_batch *work, size_t *ret_orders)
{
	size_t jobs = 0, count = 0;

	for (int i = 0; i < work->batch->count; i++) {
		work->fired[i] = stampede__events__v1__jobs_fired__unpack(
			arena_allocator(&work->arena), work->batch->records[i].value_size,
			work->batch->records[i].value);
		if (work->fired[i])
			jobs += work->fired[i]->n_jobs;
	}
	work->jobs = arena_alloc(&work->arena, (jobs + 1) * sizeof(*work->jobs));
	*ret_orders = 0;
	for (int i = 0; i < work->batch->count; i++) {
		for (size_t j = 0; work->fired[i] && j < work->fired[i]->n_jobs; j++) {
			unpaid_job_decode(work, work->fired[i]->jobs[j], &work->jobs[count]);
			*ret_orders += work->jobs[count++].count;
		}
	}
	return jobs;
}

/* Only orders whose time to pay is over: by our clock, or by the scheduler's, which has fired a job
 * not before it was due. */
static void unpaid_moves_add(struct moves *moves, const struct unpaid_job *job, int64_t now_ms)
{
	int64_t due_ms = job->count ? timestamp_to_ms(job->fired->job->due_at) : 0;

	for (size_t i = 0; i < job->count; i++)
		moves->moves[moves->count++] =
			(struct move){.order_id = job->order_ids[i],
				      .to = ORDER_CANCELLED,
				      .cancel_reason = CANCEL_UNPAID,
				      .payment_reference = "",
				      .pay_by_max_ms = due_ms > now_ms ? due_ms : now_ms};
}

void consume_unpaid(void *self, struct bus_batch *batch)
{
	struct consume *consume = self;
	struct unpaid_batch *work = calloc(1, sizeof(*work));
	int64_t now_ms = clock_wall_ms();
	struct moves *moves;
	size_t jobs, orders;

	assert(work);
	work->consume = consume;
	work->batch = batch;
	moves = &work->moves;
	arena_init(&work->arena, NULL, 0);
	arena_init(&moves->arena, NULL, 0);
	work->fired = arena_alloc(&work->arena, (size_t)batch->count * sizeof(void *));
	jobs = unpaid_decode(work, &orders);
	moves->moves = arena_alloc(&work->arena, (orders + 1) * sizeof(*moves->moves));
	for (size_t i = 0; i < jobs; i++)
		unpaid_moves_add(moves, &work->jobs[i], now_ms);
	moves->done = unpaid_moved;
	if (moves->count)
		store_move(consume->service->store, moves);
	else
		unpaid_batch_over(work);
}

void consume_dead_unpaid(void *self, const struct bus_record *record)
{
	struct consume *consume = self;

	consume->dead_unpaid->value++;
	log_event(LOG_ERROR, "dead_letter", log_text("topic", record->topic),
		  log_text("reason", record->reason), log_number("bytes", record->value_size));
}
