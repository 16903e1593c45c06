/* How a server meets the network: gRPC's arguments hardened, plain text or TLS. */
#pragma once

#include "runtime/server.h"

grpc_server *server_options_apply(const struct server_options *options);
/* The port it listens on; 0 when the address cannot be bound or TLS cannot be set up (logged). */
int server_options_listen(const struct server_options *options, grpc_server *server);
