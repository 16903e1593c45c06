/* See worker.h. One mutex guards the list of submitted jobs; the thread takes the whole list at
 * once. */
#include "runtime/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

struct worker {
	struct loop *loop;
	worker_run *run;
	void *self;
	char name[16];
	uv_thread_t thread;
	uv_mutex_t mutex;
	uv_cond_t wake;
	struct job *first, **end;
	int queued, queued_max;
	bool quits, urgent;
	uint64_t pace_ns;
};

static void job_deliver(struct mail *mail)
{
	struct job *job = container_of(mail, struct job, mail);

	job->done(job);
}

/* Under the mutex: what else comes within the pace goes along. */
static void worker_gather(struct worker *worker, uint64_t begun_ns)
{
	uint64_t now_ns;

	while (!worker->urgent && !worker->quits) {
		now_ns = uv_hrtime();
		if (now_ns >= begun_ns + worker->pace_ns)
			return;
		(void)uv_cond_timedwait(&worker->wake, &worker->mutex,
					begun_ns + worker->pace_ns - now_ns);
	}
}

static void worker_main(void *arg)
{
	struct worker *worker = arg;
	struct job *jobs, *next;
	uint64_t begun_ns = 0;

	prctl(PR_SET_NAME, worker->name);
	for (;;) {
		uv_mutex_lock(&worker->mutex);
		while (!worker->first && !worker->quits)
			uv_cond_wait(&worker->wake, &worker->mutex);
		if (worker->pace_ns) {
			worker_gather(worker, begun_ns);
			begun_ns = uv_hrtime();
		}
		jobs = worker->first;
		worker->first = NULL;
		worker->end = &worker->first;
		worker->queued = 0;
		worker->urgent = false;
		uv_mutex_unlock(&worker->mutex);
		if (!jobs)
			return;
		worker->run(worker->self, jobs);
		for (; jobs; jobs = next) {
			next = jobs->next;
			jobs->mail.deliver = job_deliver;
			loop_post(worker->loop, &jobs->mail);
		}
	}
}

struct worker *worker_create(struct loop *loop, const char *name, worker_run *run, void *self)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int failed;

	assert(worker);
	worker->loop = loop;
	worker->run = run;
	worker->self = self;
	strncpy(worker->name, name, sizeof(worker->name) - 1);
	worker->end = &worker->first;
	worker->queued_max = 100000;
	uv_mutex_init(&worker->mutex);
	uv_cond_init(&worker->wake);
	failed = uv_thread_create(&worker->thread, worker_main, worker);
	assert(!failed);
	return worker;
}

void worker_set_max(struct worker *worker, int jobs_max)
{
	worker->queued_max = jobs_max;
}

void worker_set_pace(struct worker *worker, int64_t pace_us)
{
	worker->pace_ns = (uint64_t)pace_us * 1000;
}

bool worker_submit(struct worker *worker, struct job *job)
{
	bool taken, wake;

	job->next = NULL;
	uv_mutex_lock(&worker->mutex);
	wake = !worker->first || (job->urgent && !worker->urgent);
	taken = worker->queued < worker->queued_max && !worker->quits;
	if (taken) {
		*worker->end = job;
		worker->end = &job->next;
		worker->queued++;
		worker->urgent |= job->urgent;
	}
	uv_mutex_unlock(&worker->mutex);
	if (taken && wake)
		uv_cond_signal(&worker->wake);
	return taken;
}

void worker_destroy(struct worker *worker)
{
	if (!worker)
		return;
	uv_mutex_lock(&worker->mutex);
	worker->quits = true;
	uv_mutex_unlock(&worker->mutex);
	uv_cond_signal(&worker->wake);
	uv_thread_join(&worker->thread);
	uv_mutex_destroy(&worker->mutex);
	uv_cond_destroy(&worker->wake);
	free(worker);
}
