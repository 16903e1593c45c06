/* OrderService.GetBacklog: how far behind the consumers and the outbox are. Answers from
 * memory; UNAVAILABLE as long as the bus or the database has not been seen. */
#include "services/order/events.h"
#include "services/order/service.h"

#define RETRY_MS 1000

static enum step get_backlog_begin(struct call *call)
{
	struct order_service *service = call_service(call);
	Stampede__Order__V1__GetBacklogResponse response;

	stampede__order__v1__get_backlog_response__init(&response);
	response.records = events_backlog(service->events);
	response.outbox = store_outbox_entries(service->store);
	response.dead_letters = events_dead_letters(service->events);
	if (response.records < 0 || response.dead_letters < 0)
		return call_fail_retry(call, STATUS_UNAVAILABLE, RETRY_MS,
				       "the bus does not tell its backlog now");
	if (response.outbox < 0)
		return store_failed(call, STATUS_UNAVAILABLE, "");
	return call_reply(call, &response);
}

const struct method get_backlog_method = {.name = "GetBacklog", .begin = get_backlog_begin};
