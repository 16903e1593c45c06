/* The one thread on which everything of a process runs: libuv, and gRPC's completion queue.
 *
 *     round:  drain the queue (no waiting) ─► gather hooks ─► flush hooks ─► libuv (no waiting)
 *             nothing came ─► lend the queue to the parked helper thread, wait in libuv
 *
 * Under load there is one thread, no hand-over and natural batches; when idle nothing spins. The
 * helper waits for a single event, hands event and queue back, and parks again (docs/architecture.md
 * has the figures). Nothing here is thread-safe but loop_post().
 */
#pragma once

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct loop;

struct loop *loop_create(void);
/* After loop_run() has returned. Shuts the completion queue down and drains it. */
void loop_destroy(struct loop *loop);
/* Returns after loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

uv_loop_t *loop_uv(struct loop *loop);
grpc_completion_queue *loop_queue(struct loop *loop);

/* The monotonic clock as of this round's start: cheap, and equal for all that happens in a round. */
int64_t loop_now_us(const struct loop *loop);

/* What stands behind a gRPC operation's tag. `done` runs on the loop when the operation is over. */
struct tag {
	void (*done)(struct tag *tag, bool ok);
};

/* Work for the end of the present round, once. GATHER hooks (batchers: they make operations) run
 * before FLUSH hooks (sockets: they send them). Registering twice before it ran is one run. */
enum loop_phase { LOOP_GATHER, LOOP_FLUSH, LOOP_PHASES };
struct loop_hook {
	void (*run)(struct loop_hook *hook);
	struct loop_hook *next;
	bool waits;
};
void loop_defer(struct loop *loop, enum loop_phase phase, struct loop_hook *hook);
/* Forgets a hook that waits, if it does. */
void loop_defer_cancel(struct loop *loop, enum loop_phase phase, struct loop_hook *hook);

/* A message from another thread; `deliver` runs on the loop. The sender keeps the memory alive until
 * then. Order is kept for one sender. */
struct mail {
	void (*deliver)(struct mail *mail);
	struct mail *next;
};
void loop_post(struct loop *loop, struct mail *mail);

/* Every libuv callback that did real work says so; a round without any may put the loop to sleep. */
void loop_busy(struct loop *loop);

/* Rounds begun so far: what liveness watches. Safe to read from any thread. */
uint64_t loop_rounds(const struct loop *loop);

/* A timer that needs no closing: stop it (or let it fire) and its memory may go.
 * A binary heap behind one libuv timer. */
struct timer {
	void (*fire)(struct timer *timer);
	struct loop *loop;
	int64_t at_us;
	uint32_t index; /* in the heap, from 1; 0: not started */
};
void timer_init(struct timer *timer, struct loop *loop, void (*fire)(struct timer *timer));
/* Starts it anew if it was started. It never fires inside this call, nor early. */
void timer_start_us(struct timer *timer, int64_t delay_us);
void timer_stop(struct timer *timer);
bool timer_started(const struct timer *timer);

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
