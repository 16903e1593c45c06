/* Reservations off the bus as orders to be placed; what makes no sense is kept apart, with the
 * reason.
 *
 * A record is decoded and checked reservation by reservation, so one bad entry does not hold up the
 * others of its record. Everything lives in the arena given.
 */
#pragma once

#include "services/order/order.h"

struct reservation_fault {
	int record;	     /* the index it was added with */
	const void *message; /* ReservationMade */
	const char *reason;
};

struct reservations {
	struct arena *arena;
	struct order *orders;
	const void **messages; /* ReservationMade of each order */
	int *records;	       /* the index of the record each stood in */
	int count, room;
	struct reservation_fault *faults;
	int faults_count, faults_room;
};
void reservations_init(struct reservations *reservations, struct arena *arena);
/* False when the bytes are no ReservationsMade at all. */
bool reservations_add(struct reservations *reservations, int record, const void *bytes,
		      size_t size);
/* An order that the store would not take. */
void reservations_fault(struct reservations *reservations, int index, const char *reason);
/* The faulty reservations of one record as a ReservationsMade: what is to be tried again. False
 * when there are none. */
bool reservations_faulty(const struct reservations *reservations, int record,
			 const char **ret_reason, const void **ret_bytes, size_t *ret_size);
