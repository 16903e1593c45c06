/* See service.h: the answers that several methods give alike. */
#include "services/order/service.h"

#define RETRY_MS 1000

bool order_id_read(struct call *call, const char *text, int64_t *ret_order_id, enum step *ret_step)
{
	if (order_id_parse(text, ret_order_id))
		return true;
	if (!*text)
		*ret_step = call_refuse(call, "order_id", "must not be empty");
	else
		*ret_step = call_refuse(call, "order_id",
					"must be a decimal number from 1 to 2^63 - 1");
	return false;
}

enum step store_failed(struct call *call, enum status status, const char *order_id)
{
	switch (status) {
	case STATUS_NOT_FOUND:
		return call_fail_reason(call, status, "ORDER_NOT_FOUND", "there is no order '%s'",
					order_id);
	case STATUS_UNAVAILABLE:
		return call_fail_retry(call, status, RETRY_MS,
				       "the order database is not available now");
	case STATUS_RESOURCE_EXHAUSTED:
		return call_fail_retry(call, status, RETRY_MS, "too many orders are waiting");
	default:
		return call_fail(call, status, "the order database did not answer in time");
	}
}
