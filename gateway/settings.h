/* What the gateway can be told by the environment: the table is in main.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gateway_settings {
	const char *http_address;
	const char *inventory, *order, *lock, *scheduler; /* gRPC targets */
	const char *tls_ca;				  /* NULL: plain text */
	int64_t subchannels;
	int64_t connections_max, body_max;
	int64_t timeout_ms; /* of requests that name none */
	bool hide_defaults;
	const char *cors_origins; /* NULL: off; "*", or a list with commas */
	bool trust_forwarded;	  /* X-Forwarded-For names the buyer's address */

	int64_t batch_max;   /* reservations in one ReserveMany */
	int64_t batches_max; /* ReserveMany calls under way */
	int64_t waiting_max; /* reservations that wait for one of them */
	int64_t sold_out_sales_max, sold_out_settle_ms;
	int64_t proxied_max; /* gRPC calls passed on */
	int64_t watches_max; /* different streams open to the services */

	int64_t user_rate, user_burst; /* requests a second; 0: no limit */
	int64_t address_rate, address_burst;
	int64_t limited_max; /* users, and addresses, kept track of */
};
