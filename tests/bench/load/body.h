/* What the generator sends: one gRPC message, encoded once; only the ids in it change. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum body_kind { BODY_ECHO, BODY_RESERVE, BODY_RESERVE_MANY, BODY_CREATE_SALE };

#define BODY_SIZE_MAX 24576
#define BODY_BUYERS_MAX 256

struct body {
	enum body_kind kind;
	const char *path;	      /* of the method */
	uint8_t bytes[BODY_SIZE_MAX]; /* five bytes of gRPC framing, then the message */
	size_t size;
	int buyers; /* in one message */
	size_t numbers_at[2 *
			  BODY_BUYERS_MAX]; /* where 16 hex digits stand: user, request, user … */
	uint64_t next;			    /* number of the next buyer */
};

/* `units` matter to CREATE_SALE, `buyers` to RESERVE_MANY, `first` numbers the first buyer. */
void body_init(struct body *body, enum body_kind kind, const char *sale_id, int64_t units,
	       int buyers, uint64_t first);
/* New ids, in place: each request has buyers never seen before. */
void body_renew(struct body *body);

#define BODY_OUTCOMES 8
#define BODY_REPEATED 7 /* an answer given before: ids were not new */

/* Counts the outcomes in an answer (the message without its framing) into counts[outcome];
 * counts[0] counts what is not an answer of this method. */
void body_count(const struct body *body, const uint8_t *message, size_t size,
		uint64_t counts[BODY_OUTCOMES]);
