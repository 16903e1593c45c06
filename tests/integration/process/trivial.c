/* The smallest process there can be: what process.c brings, and one part that comes up after a
 * while. The tests beside it talk to it from outside. */
#include <stdlib.h>

#include "runtime/process.h"

struct trivial_settings {
	int64_t ready_after_ms;
	const char *secret;
};

static const struct setting settings[] = {
	SETTING_DURATION(struct trivial_settings, ready_after_ms, "STAMPEDE_TRIVIAL_READY_AFTER",
			 "0s", 0, 60000, "until its one part is up"),
	SETTING_SECRET(struct trivial_settings, secret, "STAMPEDE_TRIVIAL_SECRET", "",
		       "never to be seen"),
	SETTING_END,
};

static struct {
	struct timer timer;
	struct health_part *part;
} trivial;

static void trivial_up(struct timer *timer)
{
	(void)timer;
	health_set(trivial.part, true, NULL);
}

static bool trivial_start(struct process *process)
{
	const struct trivial_settings *mine = process->settings;

	trivial.part = health_part(process->health, "warmth");
	timer_init(&trivial.timer, process->loop, trivial_up);
	timer_start_us(&trivial.timer, mine->ready_after_ms * 1000);
	return true;
}

static void trivial_free(struct process *process)
{
	(void)process;
	timer_stop(&trivial.timer);
}

int main(int argc, char **argv)
{
	static const struct process_spec spec = {
		.name = "trivial",
		.grpc_port = 7099,
		.settings = settings,
		.settings_size = sizeof(struct trivial_settings),
		.start = trivial_start,
		.free = trivial_free,
	};

	return process_main(argc, argv, &spec);
}
