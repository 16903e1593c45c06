/* RPCs from a test: asked one by one, or many at a time and waited for.
 *
 *     struct asking *asking = rpc_client_ask(client, "/package.Service/Method", &request);
 *     response = asking_wait(asking, &descriptor);          NULL: asking_status() tells
 */
#pragma once

#include "runtime/channel.h"

struct rpc_client;
struct asking;

/* One loop for all clients of a test. */
struct loop *rpc_client_loop(void);
struct rpc_client *rpc_client_create(const char *target);
void rpc_client_free(struct rpc_client *client);
/* Ends the loop; every client must have been freed. */
void rpc_client_end(void);

struct asking *rpc_client_ask(struct rpc_client *client, const char *path, const void *request,
			      int64_t timeout_ms);
bool asking_done(const struct asking *asking);
/* Runs the loop until it is done; the response lives until asking_free(). */
void *asking_wait(struct asking *asking, const ProtobufCMessageDescriptor *response);
enum status asking_status(const struct asking *asking);
const char *asking_message(const struct asking *asking);
/* The google.rpc.Status details hold this text somewhere (a field's name, a reason). */
bool asking_details_hold(const struct asking *asking, const char *text);
void asking_cancel(struct asking *asking);
/* When it was answered, by clock_monotonic_us(). */
int64_t asking_answered_us(const struct asking *asking);
void asking_free(struct asking *asking);

/* Runs the loop for that long. */
void rpc_client_run_ms(int64_t ms);
