/* The buyers of one sale: what each does, and what each was told. */
#pragma once

#include "tests/load/client.h"
#include "tests/load/options.h"

enum outcome {
	OUTCOME_NONE, /* no definite answer yet */
	OUTCOME_RESERVED,
	OUTCOME_SOLD_OUT,
	OUTCOME_LIMIT_REACHED,
	OUTCOME_NOT_OPEN,
	OUTCOME_PAUSED,
	OUTCOME_ENDED,
	OUTCOME_REFUSED, /* an error that a repeat would not change */
	OUTCOMES,
};
extern const char *const outcome_names[OUTCOMES];

/* What a buyer does with units. */
enum fate {
	FATE_PAYS,
	FATE_CANCELS,
	FATE_NEVER_PAYS,
};

enum ending {
	ENDING_OPEN, /* nothing was answered (and with FATE_NEVER_PAYS, nothing asked) */
	ENDING_PAID,
	ENDING_CANCELLED,
	ENDING_TOO_LATE, /* it wanted to pay or cancel, but the order was cancelled already */
};

/* One request id and all that was answered under it. */
struct purchase {
	uint32_t buyer;
	uint32_t number; /* of this buyer */
	int quantity;
	enum outcome outcome;
	enum fate fate;
	enum ending ending;
	char order_id[24];
};

struct buyers {
	struct client *client;
	uv_loop_t *loop;
	const struct options *options;
	struct purchase *purchases;
	size_t purchases_count, purchases_room;
	uint32_t started;
	uint32_t *went_without; /* who got nothing because it was sold out */
	uint32_t went_without_count;
	bool *is_without; /* by buyer: is in the list */
	size_t open;	  /* requests and pauses under way */
	uint64_t started_ns;
	bool second_wave;
	/* figures */
	int64_t answers[OUTCOMES]; /* definite ones; of repeated clicks too */
	int64_t repeats;	   /* of them, repeats of an answer given before */
	int64_t retries;	   /* no answer, 429 or 5xx */
	int64_t contradictions;	   /* a repeat that was told something else */
	char contradiction[256];   /* the first one */
	char refusal[512];	   /* the first error's text */
	uint32_t *latencies_us;
	size_t latencies_count, latencies_room;
};

struct buyers *buyers_create(struct client *client, uv_loop_t *loop, const struct options *options);
void buyers_destroy(struct buyers *buyers);
/* Lets those in whose time has come; to be called often. */
void buyers_arrive(struct buyers *buyers);
bool buyers_done(const struct buyers *buyers);
/* Those who went without come again, for `units` that came back. */
void buyers_return(struct buyers *buyers, int64_t units);
void purchase_request_id(const struct purchase *purchase, char *ret_text, size_t size);
void purchase_user_id(const struct purchase *purchase, char *ret_text, size_t size);
