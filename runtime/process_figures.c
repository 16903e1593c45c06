#include "runtime/process_figures.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/clock.h"

static double cpu_read(void *self)
{
	struct rusage usage;

	(void)self;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double resident_read(void *self)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	(void)self;
	if (file) {
		if (fscanf(file, "%*d %ld", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double descriptors_read(void *self)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = -3; /* ".", ".." and the folder's own */

	(void)self;
	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static double rounds_read(void *loop)
{
	return (double)loop_rounds(loop);
}

void process_figures_add(struct metrics *metrics, struct loop *loop)
{
	metrics_gauge(metrics, "stampede_build_info", "Always 1; the label tells the version.",
		      "version=\"" STAMPEDE_VERSION "\"")
		->value = 1;
	metrics_gauge(metrics, "stampede_start_time_seconds",
		      "When the process started, Unix time.", NULL)
		->value = clock_wall_ms() / 1000;
	metrics_counter_read(metrics, "stampede_cpu_seconds_total", "User and system CPU time.",
			     NULL, cpu_read, NULL);
	metrics_gauge_read(metrics, "stampede_resident_bytes", "Resident memory.", NULL,
			   resident_read, NULL);
	metrics_gauge_read(metrics, "stampede_open_files", "Open descriptors.", NULL,
			   descriptors_read, NULL);
	metrics_counter_read(metrics, "stampede_loop_rounds_total", "Rounds of the loop.", NULL,
			     rounds_read, loop);
}
