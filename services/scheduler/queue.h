/* One queue of the engine, and the engine behind it: for engine.c, queue.c and delivery.c only. */
#pragma once

#include "runtime/metrics.h"
#include "services/scheduler/engine.h"

#define ENGINE_SLOTS 1024

struct queue {
	struct store_queue store;
	struct engine *engine;
	struct queue *next;
	struct gauge *dead; /* made with the first */

	struct heads heads; /* as Redis had it when last heard */
	int64_t heard_us;
	bool known; /* `heads` may be trusted */
	struct timer timer;

	struct store_take look; /* only asks */
	bool looking, look_again;
	struct store_take takes[TARGETS];
	bool taking[TARGETS];
	int64_t in_flight[TARGETS], bytes_in_flight;

	struct leaser *leasers, **leasers_end;
	struct leaser *leasing; /* the one the take is for; NULL: it has gone */
	bool lease_untried;	/* somebody came since the last take */

	struct settlement *unsettled, **unsettled_end;
	struct store_settle settle;
	bool settling;
	struct loop_hook settle_hook;
	struct timer settle_again;
};

struct engine {
	struct loop *loop;
	struct engine_options options;
	struct queue *slots[ENGINE_SLOTS];
	int count;
	struct timer lists;
	uint64_t dice;

	bool stopping;
	struct timer grace;
	void (*stopped)(void *context);
	void *stopped_context;

	struct counter *delivered[TARGETS], *over, *failed, *died, *lost;
	struct gauge *in_flight;
	struct histogram *lateness;
};
/* So many deliveries are no longer under way. */
void engine_settled(struct engine *engine, int64_t count);

struct queue *queue_create(struct engine *engine, const char *name);
void queue_free(struct queue *queue);
/* It has no jobs and nothing to do, and nobody has published to it here. */
bool queue_idle(const struct queue *queue);
void queue_heard(struct queue *queue, const struct heads *heads);
void queue_unsure(struct queue *queue);
void queue_look(struct queue *queue);
/* Takes what is due and wanted, and sleeps until the next. */
void queue_turn(struct queue *queue);

/* --- delivery.c ------------------------------------------------------------------------------ */

void delivery_init(struct queue *queue);
void delivery_free(struct queue *queue);
/* Sends deliveries on their way; each is settled when its end is known. */
void delivery_begin(struct queue *queue, enum target target, const struct delivery *deliveries,
		    size_t count);
/* Nobody wants them: back they go, as if never taken. */
void delivery_give_back(struct queue *queue, enum target target, const struct delivery *deliveries,
			size_t count);
