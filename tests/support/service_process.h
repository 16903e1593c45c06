/* One of our own binaries, run for a test: a child on free ports, its log read for what it says.
 *
 * It never outlives the test, however that ends. What cannot be done ends the test with a message.
 */
#pragma once

#include <stdbool.h>

struct service_process;

/* `environment`: "NAME=value" …, NULL at the end; may be NULL. Returns when it has started, or, with `ready`, when it
 * says that it is ready. */
struct service_process *service_process_start(const char *binary, const char *const *environment,
					      bool ready);
/* Kills it if it runs. NULL is taken. */
void service_process_free(struct service_process *process);

const char *service_process_target(const struct service_process *process); /* 127.0.0.1:port */
void service_process_kill(struct service_process *process);		   /* kill -9 */
void service_process_pause(struct service_process *process);		   /* SIGSTOP */
void service_process_resume(struct service_process *process);
/* SIGTERM; the exit code, or -1 when it was killed by a signal or took more than 20 s. */
int service_process_terminate(struct service_process *process);
int service_process_admin_port(const struct service_process *process);
/* What it has logged so far; valid until the next call. */
const char *service_process_log(const struct service_process *process);
void service_process_signal(struct service_process *process, int number);
/* Waits for its end; as service_process_terminate() answers. */
int service_process_wait(struct service_process *process);
