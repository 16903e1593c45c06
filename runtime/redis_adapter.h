/* hiredis's asynchronous context in our loop. */
#pragma once

#include <hiredis/async.h>

#include "runtime/loop.h"

/* Watches the context's socket until hiredis lets go of it. `received_us` is set to the loop's time
 * whenever something can be read. Returns 0 or libuv's error. */
int redis_adapter_attach(struct loop *loop, redisAsyncContext *context, int64_t *received_us);
