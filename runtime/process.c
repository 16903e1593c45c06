/* What every binary does around its services: see process.h for the path.
 *
 * It ends with 0 after a drain, 78 (EX_CONFIG) when settings are wrong, 64 (EX_USAGE) when its
 * arguments are, and 1 when it could not start, or was told twice to end, or its drain took too
 * long.
 */
#include "runtime/process.h"

#include <assert.h>
#include <grpc/support/log.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include "runtime/address.h"
#include "runtime/admin.h"
#include "runtime/descriptors.h"
#include "runtime/process_figures.h"
#include "runtime/process_settings.h"
#include "runtime/reflection.h"

#define SERVICES_MAX 32
#define FILES_MAX (1 << 20)

/* A process from inside. */
struct running {
	struct process process;
	const struct process_spec *spec;
	struct process_settings core;
	const struct setting *tables[3];
	const void *targets[3];
	struct reflection *reflection;
	struct admin *admin;
	char title[64];
	const char *services[SERVICES_MAX];
	int services_count;
	uv_signal_t terminate, interrupt;
	struct timer drain_wait, overdue;
	bool draining;
};

static struct running *running_of(struct process *process)
{
	return container_of(process, struct running, process);
}

/* --- the surroundings ------------------------------------------------------------------------- */

/* A gRPC server that once runs out of descriptors never accepts again. */
static void raise_files_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		log_event(LOG_WARN, "files_limit_not_raised", log_number("limit", limit.rlim_cur));
}

static void log_grpc(gpr_log_func_args *args)
{
	static const enum log_level levels[] = {
		[GPR_LOG_SEVERITY_DEBUG] = LOG_DEBUG,
		[GPR_LOG_SEVERITY_INFO] = LOG_INFO,
		[GPR_LOG_SEVERITY_ERROR] = LOG_ERROR,
	};

	log_event(levels[args->severity], "grpc", log_text("message", args->message));
}

static void prepare(void)
{
	/* Each arena of malloc's keeps what its thread once used; gRPC has threads enough. */
	mallopt(M_ARENA_MAX, 1);
	signal(SIGPIPE, SIG_IGN);
	gpr_set_log_function(log_grpc);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
	raise_files_limit();
}

/* --- arguments and settings --------------------------------------------------------------------
 */

static void print_help(const struct running *running)
{
	printf("stampede-%s %s\n\nUsage: stampede-%s [--help | --version]\n\n"
	       "Settings are read from the environment:\n\n",
	       running->spec->name, STAMPEDE_VERSION, running->spec->name);
	settings_print(running->tables);
}

/* -1: go on; else the exit code. */
static int read_arguments(const struct running *running, int argc, char **argv)
{
	if (argc == 1)
		return -1;
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		print_help(running);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("stampede-%s %s\n", running->spec->name, STAMPEDE_VERSION);
		return 0;
	}
	fprintf(stderr,
		"stampede-%s takes no arguments but --help and --version; settings come from the "
		"environment\n",
		running->spec->name);
	return EX_USAGE;
}

static bool load_settings(struct running *running)
{
	const struct process_spec *spec = running->spec;
	int wrongs = process_settings_load(&running->core);

	if (spec->settings)
		wrongs += settings_load(spec->settings, (void *)running->process.settings);
	if (wrongs) {
		log_event(LOG_ERROR, "settings_wrong", log_number("count", wrongs),
			  log_text("help", "--help lists them all"));
		return false;
	}
	log_start(spec->name, running->core.level);
	settings_warn_unknown(running->tables);
	return true;
}

/* --- services -----------------------------------------------------------------------------------
 */

void process_serve(struct process *process, const struct service *service)
{
	struct running *running = running_of(process);

	assert(running->services_count < SERVICES_MAX);
	running->services[running->services_count++] = service->descriptor->name;
	server_add(process->server, service);
	health_add_service(process->health, service->descriptor->name);
}

/* Every service of the set but gRPC's own, which reflection adds by itself. */
static int list_everything(struct arena *arena, const char **names, int max)
{
	const struct descriptors *set = descriptors_embedded();
	int count = 0;

	for (int i = 0; i < descriptors_files(set); i++) {
		const Google__Protobuf__FileDescriptorProto *file = descriptors_file(set, i)->proto;

		if (!strncmp(file->package, "grpc.", 5))
			continue;
		for (size_t j = 0; j < file->n_service && count < max; j++)
			names[count++] =
				arena_printf(arena, "%s.%s", file->package, file->service[j]->name);
	}
	return count;
}

static void add_reflection(struct running *running)
{
	struct server *server = running->process.server;
	const char *names[SERVICES_MAX];
	const char *const *listed = running->services;
	int count = running->services_count;
	struct arena arena;

	arena_init(&arena, NULL, 0);
	if (running->spec->lists_everything) {
		count = list_everything(&arena, names, SERVICES_MAX);
		listed = names;
	}
	running->reflection = reflection_create(descriptors_embedded(), listed, count);
	arena_reset(&arena);
	server_add(server, reflection_service_v1(running->reflection));
	server_add(server, reflection_service_v1alpha(running->reflection));
	server_add(server, health_service(running->process.health));
}

/* --- drain --------------------------------------------------------------------------------------
 */

void process_stopped(struct process *process)
{
	loop_stop(process->loop);
}

static void process_drained(void *context)
{
	struct running *running = context;

	log_event(LOG_INFO, "drained", log_none);
	if (running->spec->stop)
		running->spec->stop(&running->process);
	else
		process_stopped(&running->process);
}

static void process_refuse(struct timer *timer)
{
	struct running *running = container_of(timer, struct running, drain_wait);

	health_close(running->process.health);
	if (running->spec->drain)
		running->spec->drain(&running->process);
	server_drain(running->process.server, running->core.drain_grace_ms, process_drained,
		     running);
}

static void process_overdue(struct timer *timer)
{
	(void)timer;
	log_event(LOG_ERROR, "drain_overdue", log_none);
	_exit(EXIT_FAILURE);
}

static void process_signal(uv_signal_t *handle, int number)
{
	struct running *running = handle->data;

	loop_busy(running->process.loop);
	if (running->draining) {
		log_event(LOG_ERROR, "signal_again", log_number("signal", number));
		_exit(EXIT_FAILURE);
	}
	running->draining = true;
	log_event(LOG_INFO, "draining", log_number("signal", number),
		  log_number("calls", server_calls_active(running->process.server)));
	health_drain(running->process.health);
	timer_start_us(&running->drain_wait, running->core.drain_wait_ms * 1000);
	timer_start_us(&running->overdue,
		       (running->core.drain_wait_ms + running->core.drain_grace_ms +
			running->core.stop_max_ms) *
			       1000);
}

static void watch_signals(struct running *running)
{
	uv_loop_t *uv = loop_uv(running->process.loop);

	uv_signal_init(uv, &running->terminate);
	uv_signal_init(uv, &running->interrupt);
	running->terminate.data = running->interrupt.data = running;
	uv_signal_start(&running->terminate, process_signal, SIGTERM);
	uv_signal_start(&running->interrupt, process_signal, SIGINT);
	timer_init(&running->drain_wait, running->process.loop, process_refuse);
	timer_init(&running->overdue, running->process.loop, process_overdue);
}

/* --- life ----------------------------------------------------------------------------------------
 */

static double ready_read(void *health)
{
	return health_ready(health);
}

static void make_parts(struct running *running)
{
	struct process *process = &running->process;
	const struct process_settings *core = &running->core;

	process->loop = loop_create();
	process->metrics = metrics_create();
	process_figures_add(process->metrics, process->loop);
	process->health = health_create(process->loop);
	process->server = server_create(
		process->loop,
		&(struct server_options){.address = core->grpc_address,
					 .calls_max = (int)core->calls_max,
					 .deadline_default_ms = core->deadline_default_ms,
					 .deadline_max_ms = core->deadline_max_ms,
					 .message_max = running->spec->message_max,
					 .connection_age_ms = core->connection_age_ms,
					 .metrics = process->metrics,
					 .tls_certificate = core->tls_certificate,
					 .tls_key = core->tls_key,
					 .tls_client_ca = core->tls_client_ca});
	metrics_gauge_read(process->metrics, "stampede_ready",
			   "1 when all parts are up and no drain is under way.", NULL, ready_read,
			   process->health);
	process_settings_instance(core, process->instance, sizeof(process->instance));
	watch_signals(running);
}

static bool open_ports(struct running *running)
{
	const struct process *process = &running->process;

	snprintf(running->title, sizeof(running->title), "stampede-%s %s", running->spec->name,
		 STAMPEDE_VERSION);
	running->admin = admin_create(process->loop, &(struct admin_options){
							     .address = running->core.admin_address,
							     .title = running->title,
							     .metrics = process->metrics,
							     .health = process->health,
							     .tables = running->tables,
							     .targets = running->targets,
						     });
	if (!running->admin)
		return false;
	/* Asked first, since gRPC's own words on a port in use are many and name nobody. */
	if (!address_free(running->core.grpc_address) || server_start(process->server) != STATUS_OK)
		return false;
	log_event(LOG_INFO, "started", log_text("version", STAMPEDE_VERSION),
		  log_text("instance", process->instance),
		  log_text("grpc_address", running->core.grpc_address),
		  log_number("grpc_port", server_port(process->server)),
		  log_number("admin_port", admin_port(running->admin)),
		  log_number("ready", health_ready(process->health)));
	return true;
}

static void free_parts(struct running *running, bool started)
{
	struct process *process = &running->process;

	timer_stop(&running->drain_wait);
	timer_stop(&running->overdue);
	uv_close((uv_handle_t *)&running->terminate, NULL);
	uv_close((uv_handle_t *)&running->interrupt, NULL);
	if (started && running->spec->free)
		running->spec->free(process);
	admin_destroy(running->admin);
	server_destroy(process->server);
	reflection_destroy(running->reflection);
	health_destroy(process->health);
	loop_destroy(process->loop);
	metrics_destroy(process->metrics);
}

static int run(struct running *running)
{
	bool started, opened;

	make_parts(running);
	started = running->spec->start(&running->process);
	if (started)
		add_reflection(running);
	opened = started && open_ports(running);
	if (opened)
		loop_run(running->process.loop);
	free_parts(running, started);
	if (opened)
		log_event(LOG_INFO, "stopped", log_none);
	return opened ? EXIT_SUCCESS : EXIT_FAILURE;
}

int process_main(int argc, char **argv, const struct process_spec *spec)
{
	struct running *running = calloc(1, sizeof(*running));
	void *settings = calloc(1, spec->settings_size ? spec->settings_size : 1);
	int code;

	assert(running && settings);
	running->spec = spec;
	running->process.settings = settings;
	running->tables[0] = process_settings_table(spec->grpc_port, spec->calls_max);
	running->tables[1] = spec->settings;
	running->targets[0] = &running->core;
	running->targets[1] = settings;

	code = read_arguments(running, argc, argv);
	if (code < 0) {
		log_start(spec->name, LOG_INFO);
		prepare();
		code = load_settings(running) ? run(running) : EX_CONFIG;
	}
	free(settings);
	free(running);
	return code;
}
