/* Inventory.ReserveMany: Reserve for many buyers of one sale, each decided and answered by itself.
 *
 *     begin ──► all decided ──► reply
 *
 * A bad or failed reservation gets a google.rpc.Status in its place; the others are not touched by it.
 */
#include <string.h>

#include "inventory/reply.h"
#include "inventory/reserving.h"
#include "inventory/sales.h"
#include "runtime/error_details.h"

struct entry {
	struct reservation reservation;
	struct reserve_many *many;
	enum status status;
	const char *field, *wrong; /* refused before it was asked for */
	bool asked;
};

struct reserve_many {
	struct wait wait;
	struct entry *entries;
	size_t count;
	int left;
};

static void entry_done(struct reservation *reservation, enum status status);
static enum step reserve_many_decided(struct call *call, enum status status);

static void reserve_many_abandon(struct wait *wait)
{
	struct reserve_many *many = container_of(wait, struct reserve_many, wait);

	for (size_t i = 0; i < many->count; i++)
		reservation_forget(&many->entries[i].reservation);
}

static enum status entry_begin(struct inventory *inventory, const char *sale_id,
			       struct entry *entry,
			       const Stampede__Inventory__V1__ReserveRequest *request)
{
	entry->wrong = reserving_check(request, false, &entry->field);
	if (!entry->wrong && *request->sale_id && strcmp(request->sale_id, sale_id) != 0) {
		entry->field = "sale_id";
		entry->wrong = "is not the one of the whole request";
	}
	if (entry->wrong)
		return STATUS_INVALID_ARGUMENT;
	entry->reservation = (struct reservation){.user_id = request->user_id,
						  .request_id = request->request_id,
						  .quantity = request->quantity,
						  .done = entry_done};
	return sales_reserve(inventory->sales, sale_id, &entry->reservation);
}

static enum step reserve_many_begin(struct call *call)
{
	const Stampede__Inventory__V1__ReserveManyRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	struct reserve_many *many = call_frame(call);
	const char *wrong = check_id(request->sale_id);
	enum step step;

	if (wrong)
		return call_refuse(call, "sale_id", "%s", wrong);
	if (!request->n_reservations || request->n_reservations > RESERVE_MANY_MAX)
		return call_refuse(call, "reservations", "must be 1 to %d", RESERVE_MANY_MAX);
	many->count = request->n_reservations;
	many->entries = arena_zalloc(call_arena(call), many->count * sizeof(struct entry));
	step = call_await(call, &many->wait, reserve_many_abandon, reserve_many_decided);
	for (size_t i = 0; i < many->count; i++) {
		struct entry *entry = &many->entries[i];

		entry->many = many;
		entry->status =
			entry_begin(inventory, request->sale_id, entry, request->reservations[i]);
		entry->asked = entry->status == STATUS_OK;
		if (entry->asked)
			many->left++;
	}
	if (!many->left)
		wait_finish_later(&many->wait, STATUS_OK);
	return step;
}

static void entry_done(struct reservation *reservation, enum status status)
{
	struct entry *entry = container_of(reservation, struct entry, reservation);
	struct reserve_many *many = entry->many;

	entry->status = status;
	if (--many->left == 0)
		wait_finish(&many->wait, STATUS_OK);
}

static Google__Rpc__Status *entry_error(struct call *call, const char *sale_id,
					const struct entry *entry)
{
	struct arena *arena = call_arena(call);

	if (entry->wrong)
		return error_details_make(arena, entry->status,
					  arena_printf(arena, "%s: %s", entry->field, entry->wrong),
					  &(struct error_detail){.field = entry->field});
	return error_details_make(
		arena, entry->status,
		entry->asked ? reserving_error(call, entry->status, sale_id, &entry->reservation)
			     : reserving_refusal(entry->status),
		&(struct error_detail){.retry_ms = entry->status == STATUS_UNAVAILABLE ||
								   entry->status ==
									   STATUS_RESOURCE_EXHAUSTED
							   ? RETRY_MS
							   : 0});
}

static enum step reserve_many_decided(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__ReserveManyRequest *request = call_request(call);
	struct reserve_many *many = call_frame(call);
	struct arena *arena = call_arena(call);
	Stampede__Inventory__V1__ReserveManyResponse response =
		STAMPEDE__INVENTORY__V1__RESERVE_MANY_RESPONSE__INIT;
	Stampede__Inventory__V1__ReserveResult *results;
	struct reserving_answer *answers;

	if (status != STATUS_OK)
		return call_fail(call, status, "%s",
				 reserving_error(call, status, request->sale_id, NULL));
	response.n_results = many->count;
	response.results = arena_alloc(arena, many->count * sizeof(void *));
	results = arena_alloc(arena, many->count * sizeof(*results));
	answers = arena_alloc(arena, many->count * sizeof(*answers));
	for (size_t i = 0; i < many->count; i++) {
		struct entry *entry = &many->entries[i];

		response.results[i] = &results[i];
		stampede__inventory__v1__reserve_result__init(&results[i]);
		if (entry->status == STATUS_OK) {
			reserving_answer(&answers[i], &entry->reservation);
			results[i].result_case =
				STAMPEDE__INVENTORY__V1__RESERVE_RESULT__RESULT_RESPONSE;
			results[i].response = &answers[i].response;
		} else {
			results[i].result_case =
				STAMPEDE__INVENTORY__V1__RESERVE_RESULT__RESULT_ERROR;
			results[i].error = entry_error(call, request->sale_id, entry);
		}
	}
	return call_reply(call, &response);
}

const struct method reserve_many_method = {.name = "ReserveMany",
					   .begin = reserve_many_begin,
					   .frame_size = sizeof(struct reserve_many),
					   .request_max = 128 << 10};
