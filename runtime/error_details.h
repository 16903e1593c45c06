/* google.rpc.Status with one detail: what a failed call carries in the trailer grpc-status-details-bin, and what a
 * message that carries failures of its parts carries in their place.
 */
#pragma once

#include <google/rpc/status.pb-c.h>
#include <grpc/slice.h>

#include "runtime/arena.h"

#define ERROR_DETAILS_KEY "grpc-status-details-bin"

struct error_detail {
	const char *field;   /* BadRequest */
	const char *reason;  /* ErrorInfo */
	int64_t retry_ms;    /* RetryInfo; 0: none */
	const void *encoded; /* instead: a google.rpc.Status as it came from elsewhere */
	size_t encoded_size;
};

/* In the arena. */
Google__Rpc__Status *error_details_make(struct arena *arena, enum status status,
					const char *message, const struct error_detail *detail);
/* The caller owns the slice. */
grpc_slice error_details_encode(struct arena *arena, enum status status, const char *message,
				const struct error_detail *detail);
