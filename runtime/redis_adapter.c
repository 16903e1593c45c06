/* hiredis in our loop: reading by uv_poll, writing once a round.
 *
 *     command ─► hiredis's buffer ─► addWrite ─► FLUSH hook ─► one write for a round's commands
 *                                                   └─ some is left ─► poll for WRITABLE
 *
 * epoll is told about writing only while connecting and after a partial write, so in the normal
 * case a round's commands cost one system call. The memory outlives hiredis's context until libuv
 * has closed the handle.
 */
#include "runtime/redis_adapter.h"

#include <assert.h>
#include <stdlib.h>

struct redis_adapter {
	uv_poll_t poll;
	struct loop *loop;
	redisAsyncContext *context; /* NULL once hiredis has let go */
	struct loop_hook flush;
	int64_t *received_us;
	int events;
	bool writing; /* inside redisAsyncHandleWrite(): addWrite means that some is left */
};

static void adapter_polled(uv_poll_t *poll, int status, int events)
{
	struct redis_adapter *adapter = container_of(poll, struct redis_adapter, poll);

	loop_busy(adapter->loop);
	/* Of an error hiredis learns by reading. */
	if (status < 0)
		events = UV_READABLE;
	if (events & UV_READABLE) {
		*adapter->received_us = loop_now_us(adapter->loop);
		redisAsyncHandleRead(adapter->context);
	}
	/* Reading may have ended the connection. */
	if (adapter->context && (events & UV_WRITABLE)) {
		adapter->writing = true;
		redisAsyncHandleWrite(adapter->context);
		adapter->writing = false;
	}
}

static void adapter_watch(struct redis_adapter *adapter, int events)
{
	if (!adapter->context || adapter->events == events)
		return;
	adapter->events = events;
	uv_poll_start(&adapter->poll, events, adapter_polled);
}

static void adapter_flush(struct loop_hook *hook)
{
	struct redis_adapter *adapter = container_of(hook, struct redis_adapter, flush);

	/* While connecting, and after a partial write, polling leads to the next write. */
	if (adapter->events & UV_WRITABLE)
		return;
	adapter->writing = true;
	redisAsyncHandleWrite(adapter->context);
	adapter->writing = false;
}

static void adapter_add_read(void *data)
{
	struct redis_adapter *adapter = data;

	adapter_watch(adapter, adapter->events | UV_READABLE);
}

static void adapter_add_write(void *data)
{
	struct redis_adapter *adapter = data;

	if (!adapter->context)
		return;
	if (adapter->writing || !(adapter->context->c.flags & REDIS_CONNECTED))
		adapter_watch(adapter, UV_READABLE | UV_WRITABLE);
	else if (!(adapter->events & UV_WRITABLE))
		loop_defer(adapter->loop, LOOP_FLUSH, &adapter->flush);
}

static void adapter_del_write(void *data)
{
	adapter_watch(data, UV_READABLE);
}

static void adapter_closed(uv_handle_t *handle)
{
	free(container_of((uv_poll_t *)handle, struct redis_adapter, poll));
}

static void adapter_cleanup(void *data)
{
	struct redis_adapter *adapter = data;

	adapter->context = NULL;
	loop_defer_cancel(adapter->loop, LOOP_FLUSH, &adapter->flush);
	uv_poll_stop(&adapter->poll);
	uv_close((uv_handle_t *)&adapter->poll, adapter_closed);
}

int redis_adapter_attach(struct loop *loop, redisAsyncContext *context, int64_t *received_us)
{
	struct redis_adapter *adapter = calloc(1, sizeof(*adapter));
	int error;

	assert(adapter && !context->ev.data);
	error = uv_poll_init(loop_uv(loop), &adapter->poll, context->c.fd);
	if (error) {
		free(adapter);
		return error;
	}
	adapter->loop = loop;
	adapter->context = context;
	adapter->received_us = received_us;
	adapter->flush.run = adapter_flush;

	/* delRead is left out: reading is never paused. */
	context->ev.data = adapter;
	context->ev.addRead = adapter_add_read;
	context->ev.addWrite = adapter_add_write;
	context->ev.delWrite = adapter_del_write;
	context->ev.cleanup = adapter_cleanup;
	return 0;
}
