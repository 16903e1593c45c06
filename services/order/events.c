/* See events.h. The bus connects by itself and says by bus_state() whether it is there:
 * without it the service is not ready, orders stay in the outbox, and the relay goes on when
 * it is back. */
#include "services/order/events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "services/order/consume.h"
#include "services/order/relay.h"
#include "services/order/service.h"

#define GROUP "order"
#define CLOSE_GRACE_MS 5000
/* As the store's transactions: what one read brings is one of them. */
#define RESERVATIONS_PACE_MS 10
#define UNPAID_BATCH_MAX 8 /* a record is about up to 64 Ki orders, and one batch one transaction */

struct events {
	struct order_service *service;
	struct bus *bus;
	struct bus_consumer *reservations, *unpaid;
};

static void bus_state(void *self, bool up)
{
	struct events *events = self;

	health_set(events->service->bus, up, up ? "" : "not connected");
	if (up)
		relay_kick(events->service->relay);
}

static double read_backlog(void *self)
{
	return (double)events_backlog(self);
}

static double read_dead_letters(void *self)
{
	return (double)events_dead_letters(self);
}

struct events *events_create(struct order_service *service, const char *client_id)
{
	const struct order_settings *settings = service->settings;
	struct events *events = calloc(1, sizeof(*events));

	assert(events && service->relay && service->consume);
	events->service = service;
	events->bus = bus_create(
		service->loop,
		&(struct bus_options){.url = settings->bus ? settings->bus : settings->redis,
				      .client_id = client_id,
				      .partitions = (int)settings->lanes,
				      .metrics = service->metrics,
				      .state = bus_state,
				      .self = events});
	if (!events->bus) {
		free(events);
		return NULL;
	}
	events->reservations = bus_consume(
		events->bus, &(struct bus_consumer_options){.topic = EVENTS_TOPIC_RESERVATIONS,
							    .group = GROUP,
							    .batch_max = (int)settings->batch_max,
							    .pace_ms = RESERVATIONS_PACE_MS,
							    .batch = consume_reservations,
							    .dead = consume_dead_reservations,
							    .self = service->consume});
	events->unpaid = bus_consume(events->bus,
				     &(struct bus_consumer_options){.topic = EVENTS_TOPIC_UNPAID,
								    .group = GROUP,
								    .batch_max = UNPAID_BATCH_MAX,
								    .batch = consume_unpaid,
								    .dead = consume_dead_unpaid,
								    .self = service->consume});
	metrics_gauge_read(service->metrics, "stampede_order_backlog_records",
			   "Records on the bus not yet consumed; -1: unknown.", NULL, read_backlog,
			   events);
	metrics_gauge_read(service->metrics, "stampede_order_dead_letters",
			   "Records in the dead letter topics; -1: unknown.", NULL,
			   read_dead_letters, events);
	return events;
}

void events_close(struct events *events, void (*closed)(void *context), void *context)
{
	bus_close(events->bus, CLOSE_GRACE_MS, closed, context);
}

void events_destroy(struct events *events)
{
	if (!events)
		return;
	bus_destroy(events->bus);
	free(events);
}

void events_publish(struct events *events, struct bus_publish *publish, int lane)
{
	char key[ORDER_ID_TEXT_SIZE];

	publish->topic = EVENTS_TOPIC_ORDERS;
	publish->key = key; /* copied by the bus */
	publish->key_size = order_id_format(lane, key);
	bus_publish(events->bus, publish);
}

static int64_t sum_known(int64_t a, int64_t b)
{
	return a < 0 || b < 0 ? -1 : a + b;
}

int64_t events_backlog(const struct events *events)
{
	return sum_known(bus_backlog(events->reservations), bus_backlog(events->unpaid));
}

int64_t events_dead_letters(const struct events *events)
{
	return sum_known(bus_dead_letters(events->reservations), bus_dead_letters(events->unpaid));
}
