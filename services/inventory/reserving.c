#include "inventory/reserving.h"

#include "inventory/reply.h"

const char *reserving_check(const Stampede__Inventory__V1__ReserveRequest *request,
			    bool sale_required, const char **ret_field)
{
	const char *wrong;

	*ret_field = "sale_id";
	if ((sale_required || *request->sale_id) && (wrong = check_id(request->sale_id)))
		return wrong;
	*ret_field = "user_id";
	if ((wrong = check_id(request->user_id)))
		return wrong;
	*ret_field = "request_id";
	if ((wrong = check_id(request->request_id)))
		return wrong;
	*ret_field = "quantity";
	if (request->quantity < 1 || request->quantity > QUANTITY_MAX)
		return "must be 1 to 1000";
	return NULL;
}

void reserving_answer(struct reserving_answer *answer, const struct reservation *reservation)
{
	Stampede__Inventory__V1__ReserveResponse *response = &answer->response;

	stampede__inventory__v1__reserve_response__init(response);
	response->outcome = (Stampede__Inventory__V1__Outcome)reservation->outcome;
	if (response->outcome != STAMPEDE__INVENTORY__V1__OUTCOME__OUTCOME_RESERVED)
		return;
	google__protobuf__timestamp__init(&answer->pay_by);
	answer->pay_by.seconds = reservation->pay_by_ms / 1000;
	answer->pay_by.nanos = (int32_t)(reservation->pay_by_ms % 1000) * 1000000;
	response->order_id = (char *)reservation->order_id;
	response->quantity = reservation->quantity;
	response->pay_by = &answer->pay_by;
	response->repeated_answer = reservation->repeated;
}

const char *reserving_error(struct call *call, enum status status, const char *sale_id,
			    const struct reservation *reservation)
{
	struct arena *arena = call_arena(call);

	switch (status) {
	case STATUS_NOT_FOUND:
		return arena_printf(arena, "there is no sale '%s'", sale_id);
	case STATUS_ALREADY_EXISTS:
		return arena_printf(arena, "request_id '%s' was used with another quantity",
				    reservation->request_id);
	case STATUS_RESOURCE_EXHAUSTED:
		return "too much waits for the bus; try again with the same request_id";
	case STATUS_UNAVAILABLE:
		return "whether it was reserved is not known; try again with the same request_id";
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_CANCELLED:
		return "not decided in time; ask again with the same request_id";
	default:
		return "the reservation failed in Redis";
	}
}

const char *reserving_refusal(enum status status)
{
	return status == STATUS_RESOURCE_EXHAUSTED
		       ? "too many sales at once; nothing was reserved"
		       : "Redis cannot be reached; nothing was reserved";
}
