/* See service_process.h. A full pipe would stop the child, so its log is a file, which we read until it says
 * what we wait for.
 */
#include "tests/support/service_process.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MAX_MS 20000
#define STOP_MAX_MS 20000
#define ENVIRONMENT_MAX 64

struct service_process {
	struct service_process *next;
	pid_t pid, owner;
	char log[64], target[32];
};

static struct service_process *processes;

static void give_up(const struct service_process *process, const char *what)
{
	fprintf(stderr, "service_process: %s (see %s)\n", what, process->log);
	exit(1);
}

static void stop_all(void)
{
	while (processes && processes->owner == getpid())
		service_process_free(processes);
}

static void run_child(const struct service_process *process, const char *binary,
		      const char *const *environment)
{
	extern char **environ;
	const char *mine[ENVIRONMENT_MAX] = {"STAMPEDE_GRPC_ADDRESS=127.0.0.1:0",
					     "STAMPEDE_ADMIN_ADDRESS=127.0.0.1:0"};
	int count = 2, log = open(process->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

	while (environment && *environment && count < ENVIRONMENT_MAX - 1)
		mine[count++] = *environment++;
	for (char **at = environ; *at && count < ENVIRONMENT_MAX - 1; at++) {
		if (strncmp(*at, "STAMPEDE_", 9))
			mine[count++] = *at;
	}
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execle(binary, binary, (char *)NULL, mine);
	_exit(127);
}

/* The log so far; valid until the next call. */
static const char *log_read(const struct service_process *process)
{
	static char text[256 << 10];
	int log = open(process->log, O_RDONLY | O_CLOEXEC);
	ssize_t size = log < 0 ? 0 : read(log, text, sizeof(text) - 1);

	if (log >= 0)
		close(log);
	text[size > 0 ? size : 0] = '\0';
	return text;
}

static bool child_is_up(struct service_process *process, bool ready)
{
	const char *text = log_read(process), *port = strstr(text, "\"grpc_port\":");

	if (!port || (ready && !strstr(text, "\"event\":\"ready\"")))
		return false;
	snprintf(process->target, sizeof(process->target), "127.0.0.1:%d",
		 atoi(port + strlen("\"grpc_port\":")));
	return true;
}

struct service_process *service_process_start(const char *binary, const char *const *environment,
					      bool ready)
{
	struct service_process *process = calloc(1, sizeof(*process));

	assert(process);
	strcpy(process->log, "/tmp/stampede-test-log-XXXXXX");
	close(mkstemp(process->log));
	process->owner = getpid();
	process->pid = fork();
	if (!process->pid)
		run_child(process, binary, environment);
	if (!processes)
		atexit(stop_all);
	process->next = processes;
	processes = process;
	for (int ms = 0; !child_is_up(process, ready); ms += 5) {
		if (ms > START_MAX_MS || waitpid(process->pid, NULL, WNOHANG) == process->pid) {
			fputs(log_read(process), stderr);
			give_up(process, "did not start");
		}
		usleep(5000);
	}
	return process;
}

const char *service_process_target(const struct service_process *process)
{
	return process->target;
}

void service_process_kill(struct service_process *process)
{
	if (!process->pid)
		return;
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

void service_process_pause(struct service_process *process)
{
	kill(process->pid, SIGSTOP);
}

void service_process_resume(struct service_process *process)
{
	kill(process->pid, SIGCONT);
}

int service_process_admin_port(const struct service_process *process)
{
	const char *port = strstr(log_read(process), "\"admin_port\":");

	return port ? atoi(port + strlen("\"admin_port\":")) : 0;
}

const char *service_process_log(const struct service_process *process)
{
	return log_read(process);
}

void service_process_signal(struct service_process *process, int number)
{
	kill(process->pid, number);
}

int service_process_terminate(struct service_process *process)
{
	kill(process->pid, SIGTERM);
	return service_process_wait(process);
}

int service_process_wait(struct service_process *process)
{
	int status = 0;

	for (int ms = 0; waitpid(process->pid, &status, WNOHANG) != process->pid; ms += 5) {
		if (ms > STOP_MAX_MS)
			return -1;
		usleep(5000);
	}
	process->pid = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fputs(log_read(process), stderr);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void service_process_free(struct service_process *process)
{
	struct service_process **link = &processes;

	if (!process)
		return;
	service_process_kill(process);
	while (*link && *link != process)
		link = &(*link)->next;
	if (*link)
		*link = process->next;
	unlink(process->log);
	free(process);
}
