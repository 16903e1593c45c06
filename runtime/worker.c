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
	bool quits;
};

static void job_deliver(struct mail *mail)
{
	struct job *job = container_of(mail, struct job, mail);

	job->done(job);
}

static void worker_main(void *arg)
{
	struct worker *worker = arg;
	struct job *jobs, *next;

	prctl(PR_SET_NAME, worker->name);
	for (;;) {
		uv_mutex_lock(&worker->mutex);
		while (!worker->first && !worker->quits)
			uv_cond_wait(&worker->wake, &worker->mutex);
		jobs = worker->first;
		worker->first = NULL;
		worker->end = &worker->first;
		worker->queued = 0;
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

bool worker_submit(struct worker *worker, struct job *job)
{
	bool taken, first;

	job->next = NULL;
	uv_mutex_lock(&worker->mutex);
	first = !worker->first;
	taken = worker->queued < worker->queued_max && !worker->quits;
	if (taken) {
		*worker->end = job;
		worker->end = &job->next;
		worker->queued++;
	}
	uv_mutex_unlock(&worker->mutex);
	if (taken && first)
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
