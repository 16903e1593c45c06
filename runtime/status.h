/* What became of an operation: gRPC's codes, everywhere. Errors of libraries are translated into
 * these in the file that met them. */
#pragma once

enum status {
	STATUS_OK = 0,
	STATUS_CANCELLED = 1,
	STATUS_UNKNOWN = 2,
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_DEADLINE_EXCEEDED = 4,
	STATUS_NOT_FOUND = 5,
	STATUS_ALREADY_EXISTS = 6,
	STATUS_PERMISSION_DENIED = 7,
	STATUS_RESOURCE_EXHAUSTED = 8,
	STATUS_FAILED_PRECONDITION = 9,
	STATUS_ABORTED = 10,
	STATUS_OUT_OF_RANGE = 11,
	STATUS_UNIMPLEMENTED = 12,
	STATUS_INTERNAL = 13,
	STATUS_UNAVAILABLE = 14,
	STATUS_DATA_LOSS = 15,
	STATUS_UNAUTHENTICATED = 16,
};
#define STATUS_COUNT 17

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF(text, first) __attribute__((format(printf, text, first)))

/* "UNAVAILABLE"; "UNKNOWN" for what is not a status. */
const char *status_name(enum status status);
