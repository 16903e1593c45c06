/* Addresses to listen on: "0.0.0.0:7001", "[::]:7001", "localhost:0". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_HOST_SIZE 256

/* The host comes without brackets. */
bool address_parse(const char *address, char host[ADDRESS_HOST_SIZE], int *ret_port);
/* Whether one can listen there. If not, logs why, and who holds the port where that can be found
 * out. */
bool address_free(const char *address);
