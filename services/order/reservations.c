/* See reservations.h. */
#include "services/order/reservations.h"

#include <stampede/events/v1/events.pb-c.h>
#include <string.h>

#include "runtime/utf8.h"

typedef Stampede__Events__V1__ReservationMade reservation_made;

void reservations_init(struct reservations *reservations, struct arena *arena)
{
	*reservations = (struct reservations){.arena = arena};
}

static void *grown(struct arena *arena, const void *from, int count, int room, size_t size)
{
	void *to = arena_alloc(arena, (size_t)room * size);

	if (count)
		memcpy(to, from, (size_t)count * size);
	return to;
}

/* Room for `more`; what was outgrown stays in the arena, less than is in use. */
static void reservations_reserve(struct reservations *to, int more)
{
	struct arena *arena = to->arena;

	if (to->count + more <= to->room)
		return;
	to->room = (to->count + more) * 2;
	to->orders = grown(arena, to->orders, to->count, to->room, sizeof(*to->orders));
	to->messages = grown(arena, to->messages, to->count, to->room, sizeof(*to->messages));
	to->records = grown(arena, to->records, to->count, to->room, sizeof(*to->records));
}

static void fault_add(struct reservations *to, int record, const void *message, const char *reason)
{
	if (to->faults_count == to->faults_room) {
		to->faults_room = to->faults_room * 2 + 8;
		to->faults = grown(to->arena, to->faults, to->faults_count, to->faults_room,
				   sizeof(*to->faults));
	}
	to->faults[to->faults_count++] = (struct reservation_fault){record, message, reason};
}

static bool identifier(const char *text)
{
	return utf8_identifier(text, 1, IDENTIFIER_SIZE_MAX);
}

static bool currency(const char *text)
{
	size_t size = strlen(text);

	return size == 0 || (size == 3 && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 3);
}

/* What is wrong with it; NULL when nothing is. */
static const char *reservation_read(const reservation_made *made, struct order *order)
{
	*order = (struct order){.sale_id = made->sale_id,
				.user_id = made->user_id,
				.request_id = made->request_id,
				.currency = made->currency,
				.payment_reference = "",
				.quantity = made->quantity,
				.status = ORDER_PENDING,
				.amount_minor = made->amount_minor,
				.reserved_at_ms = timestamp_to_ms(made->reserved_at),
				.pay_by_ms = timestamp_to_ms(made->pay_by)};
	if (!order_id_parse(made->order_id, &order->order_id))
		return "order_id is not a number from 1 to 2^63 - 1";
	if (!identifier(made->sale_id))
		return "sale_id is no identifier";
	if (!identifier(made->user_id))
		return "user_id is no identifier";
	if (!identifier(made->request_id))
		return "request_id is no identifier";
	if (made->quantity < 1 || made->quantity > ORDER_QUANTITY_MAX)
		return "quantity is out of range";
	if (made->amount_minor < 0)
		return "amount_minor is negative";
	if (!currency(made->currency))
		return "currency is not three capital letters";
	if (order->pay_by_ms <= 0)
		return "pay_by is missing or out of range";
	if (made->reserved_at && order->reserved_at_ms <= 0)
		return "reserved_at is out of range";
	return NULL;
}

bool reservations_add(struct reservations *reservations, int record, const void *bytes, size_t size)
{
	Stampede__Events__V1__ReservationsMade *made =
		stampede__events__v1__reservations_made__unpack(
			arena_allocator(reservations->arena), size, bytes);

	if (!made)
		return false;
	reservations_reserve(reservations, (int)made->n_reservations);
	for (size_t i = 0; i < made->n_reservations; i++) {
		const char *wrong = reservation_read(made->reservations[i],
						     &reservations->orders[reservations->count]);

		if (wrong) {
			fault_add(reservations, record, made->reservations[i], wrong);
			continue;
		}
		reservations->messages[reservations->count] = made->reservations[i];
		reservations->records[reservations->count++] = record;
	}
	return true;
}

void reservations_fault(struct reservations *reservations, int index, const char *reason)
{
	fault_add(reservations, reservations->records[index], reservations->messages[index],
		  reason);
}

bool reservations_faulty(const struct reservations *reservations, int record,
			 const char **ret_reason, const void **ret_bytes, size_t *ret_size)
{
	Stampede__Events__V1__ReservationsMade made;
	uint8_t *bytes;

	stampede__events__v1__reservations_made__init(&made);
	made.reservations = arena_alloc(reservations->arena,
					((size_t)reservations->faults_count + 1) * sizeof(void *));
	for (int i = 0; i < reservations->faults_count; i++) {
		const struct reservation_fault *fault = &reservations->faults[i];

		if (fault->record != record)
			continue;
		if (!made.n_reservations)
			*ret_reason = fault->reason;
		made.reservations[made.n_reservations++] = (reservation_made *)fault->message;
	}
	if (!made.n_reservations)
		return false;
	*ret_size = protobuf_c_message_get_packed_size(&made.base);
	bytes = arena_alloc(reservations->arena, *ret_size + 1);
	protobuf_c_message_pack(&made.base, bytes);
	*ret_bytes = bytes;
	return true;
}
