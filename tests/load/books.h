/* The books of a sale: what the services say, against what the buyers were told. */
#pragma once

#include "tests/load/buyers.h"

/* The sale and its orders at one moment. */
struct figures {
	int64_t total, available, reserved, sold;
	int64_t pending, paid, cancelled;		    /* orders */
	int64_t pending_units, paid_units, cancelled_units; /* units */
	int64_t user_units_max;
	int64_t backlog; /* records and outbox entries not yet handled; -1: unknown */
};

struct books {
	struct figures figures;
	int64_t orders;
	int64_t oversold; /* units promised beyond the stock */
	int64_t lost;	  /* answers that no order, or another than was promised, stands behind */
	int64_t doubled;  /* orders nobody asked for, or a second time; users over their limit */
	bool conserved;	  /* total = available + reserved + sold, and the orders say the same */
	char first_error[320];
};

/* False when they could not be read; the reason goes to stderr. */
bool figures_read(struct client *client, const char *sale_id, int patience_ms,
		  struct figures *ret_figures);
/* Nothing is pending, reserved or under way any more, and both sides say the same. */
bool figures_settled(const struct figures *figures);
bool figures_agree(const struct figures *figures);
/* Reads every order and compares it with the answers given. */
bool books_audit(struct books *books, struct client *client, const struct buyers *buyers);
bool books_balance(const struct books *books, const struct buyers *buyers);
