/* Inventory.Reserve: take units for one buyer, or say why not.
 *
 *     begin ──► decided ──► reply
 *
 * Gathered with all others of the same sale that arrive in the same round (batch.c). A caller who leaves before the
 * answer finds out by sending the same request_id again.
 */
#include "inventory/reply.h"
#include "inventory/reserving.h"
#include "inventory/sales.h"

struct reserve {
	struct reservation reservation;
	struct wait wait;
};

static void reserve_done(struct reservation *reservation, enum status status);
static enum step reserve_decided(struct call *call, enum status status);

static void reserve_abandon(struct wait *wait)
{
	reservation_forget(&container_of(wait, struct reserve, wait)->reservation);
}

static enum step reserve_begin(struct call *call)
{
	const Stampede__Inventory__V1__ReserveRequest *request = call_request(call);
	struct inventory *inventory = call_service(call);
	struct reserve *reserve = call_frame(call);
	const char *field, *wrong = reserving_check(request, true, &field);
	enum status status;

	if (wrong)
		return call_refuse(call, field, "%s", wrong);
	reserve->reservation = (struct reservation){.user_id = request->user_id,
						    .request_id = request->request_id,
						    .quantity = request->quantity,
						    .done = reserve_done};
	status = sales_reserve(inventory->sales, request->sale_id, &reserve->reservation);
	if (status != STATUS_OK)
		return call_fail_retry(call, status, RETRY_MS, "%s", reserving_refusal(status));
	return call_await(call, &reserve->wait, reserve_abandon, reserve_decided);
}

static void reserve_done(struct reservation *reservation, enum status status)
{
	wait_finish(&container_of(reservation, struct reserve, reservation)->wait, status);
}

static enum step reserve_decided(struct call *call, enum status status)
{
	const Stampede__Inventory__V1__ReserveRequest *request = call_request(call);
	struct reserve *reserve = call_frame(call);
	struct reserving_answer answer;
	const char *message;

	if (status != STATUS_OK) {
		message = reserving_error(call, status, request->sale_id, &reserve->reservation);
		return status == STATUS_UNAVAILABLE || status == STATUS_RESOURCE_EXHAUSTED
			       ? call_fail_retry(call, status, RETRY_MS, "%s", message)
			       : call_fail(call, status, "%s", message);
	}
	reserving_answer(&answer, &reserve->reservation);
	return call_reply(call, &answer.response);
}

const struct method reserve_method = {
	.name = "Reserve", .begin = reserve_begin, .frame_size = sizeof(struct reserve)};
