/* What Reserve and ReserveMany share: checks before, answers after. */
#pragma once

#include <stampede/inventory/v1/inventory.pb-c.h>

#include "inventory/sales.h"

/* NULL, or what is wrong with *ret_field. */
const char *reserving_check(const Stampede__Inventory__V1__ReserveRequest *request,
			    bool sale_required, const char **ret_field);

struct reserving_answer {
	Stampede__Inventory__V1__ReserveResponse response;
	Google__Protobuf__Timestamp pay_by;
};
void reserving_answer(struct reserving_answer *answer, const struct reservation *reservation);
/* What to say of a reservation that ended with `status`; in the call's arena. */
const char *reserving_error(struct call *call, enum status status, const char *sale_id,
			    const struct reservation *reservation);
/* What to say when sales_reserve() did not start it: nothing was reserved. */
const char *reserving_refusal(enum status status);
