/* A thread with a queue, for work that blocks (databases). The loop hands jobs over and gets them back
 * by its mailbox; neither side takes a lock longer than a list append.
 */
#pragma once

#include "runtime/loop.h"

struct worker;

/* Embedded by the caller; its memory stays until `done`. */
struct job {
	void (*done)(struct job *job); /* on the loop, when the thread is through with it */
	struct mail mail;
	struct job *next;
	bool urgent; /* does not wait for the worker's pace */
};

/* Runs on the worker's thread with all that had queued up (a list by `next`): natural batches, e.g. one
 * transaction. Each job goes back to the loop when it returns. */
typedef void worker_run(void *self, struct job *jobs);

/* `name` names the thread, at most 15 bytes. */
struct worker *worker_create(struct loop *loop, const char *name, worker_run *run, void *self);
/* Never blocks. False when `jobs_max` are queued. */
bool worker_submit(struct worker *worker, struct job *job) __attribute__((warn_unused_result));
void worker_set_max(struct worker *worker, int jobs_max); /* default 100,000 */
/* Runs begin at least so far apart, and take all that has queued up meanwhile, unless a job is urgent. Set it
 * before the first job. */
void worker_set_pace(struct worker *worker, int64_t pace_us);
/* Runs what is queued, then joins the thread; the last jobs' `done` come by the loop if it still runs. */
void worker_destroy(struct worker *worker);
