/* One request, one call.
 *
 *     start ──► done ──► answer          (the client leaves: cancelled, and forgotten when it is done)
 */
#include "gateway/unary.h"

#include <assert.h>
#include <stdlib.h>

struct unary {
	struct rpc rpc;
	struct visit visit;
};

static void unary_gone(struct http_exchange *exchange, void *context)
{
	struct unary *unary = context;

	(void)exchange;
	unary->visit.exchange = NULL;
	rpc_cancel(&unary->rpc);
}

static void unary_done(struct rpc *rpc)
{
	struct unary *unary = container_of(rpc, struct unary, rpc);
	const struct visit *visit = &unary->visit;

	if (visit->exchange && rpc->error.status == STATUS_OK)
		visit_answer_message(visit, GRPC_SLICE_START_PTR(rpc->response),
				     GRPC_SLICE_LENGTH(rpc->response));
	else if (visit->exchange)
		visit_answer_error(visit, &rpc->error);
	rpc_release(rpc);
	free(unary);
}

void unary_start(const struct visit *visit, const uint8_t *bytes, size_t size)
{
	struct unary *unary = calloc(1, sizeof(*unary));

	assert(unary);
	unary->visit = *visit;
	unary->rpc.method = visit->route->method;
	unary->rpc.request = grpc_slice_from_copied_buffer((const char *)bytes, size);
	unary->rpc.deadline_us = visit->deadline_us;
	unary->rpc.trace = &unary->visit.trace;
	unary->rpc.done = unary_done;
	http_set_context(visit->exchange, unary, unary_gone);
	rpc_start(&unary->rpc);
}
