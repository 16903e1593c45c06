/* The options of stampede-load. */
#include "tests/load/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
	"./stampede load [--url URL] [options]: buyers over HTTP against a running stack, and an "
	"audit after.\n"
	"  --url URL          the gateway; default: the running stack's, else "
	"http://127.0.0.1:8080\n"
	"  --units N          to sell; default 1000\n"
	"  --buyers N         who want some; default 20000\n"
	"  --seconds N        over which they arrive; default 0: as fast as it goes\n"
	"  --limit N          units one user may hold; default 2\n"
	"  --pay-within N     seconds until an unpaid order is cancelled; default 5\n"
	"  --never-pay N      of a hundred who got units; default 15\n"
	"  --cancel N         of a hundred who got units; default 10\n"
	"  --connections N    default 128\n"
	"  --patience N       seconds an answer or the books are waited for; default 60\n"
	"  --sale ID          default: one named after the time\n"
	"  --seed N           which buyers do what; default 1\n"
	"  --no-second-chance units that came back stay in stock\n"
	"  --json             the figures as JSON on the last line\n"
	"A request that got no definite answer is sent again under its own request id. Exit code 1 "
	"when\n"
	"the books do not balance.\n";

static int number(const char *name, const char *text, int min, int max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < min || value > max) {
		fprintf(stderr, "stampede-load: --%s must be a number from %d to %d, not '%s'\n",
			name, min, max, text);
		exit(2);
	}
	return (int)value;
}

struct options options_read(int argc, char **argv)
{
	struct options options = {.url = "http://127.0.0.1:8080",
				  .units = 1000,
				  .buyers = 20000,
				  .limit = 2,
				  .pay_within_s = 5,
				  .connections = 128,
				  .patience_s = 60,
				  .never_pay = 15,
				  .cancel = 10,
				  .seed = 1,
				  .second_chance = true};
	int seed = 1;
	const struct {
		const char *name;
		int *value, min, max;
	} numbers[] = {{"units", &options.units, 1, 1000000000},
		       {"buyers", &options.buyers, 1, 10000000},
		       {"seconds", &options.seconds, 0, 86400},
		       {"limit", &options.limit, 1, 1000},
		       {"pay-within", &options.pay_within_s, 1, 86400},
		       {"connections", &options.connections, 1, 4096},
		       {"patience", &options.patience_s, 1, 3600},
		       {"never-pay", &options.never_pay, 0, 100},
		       {"cancel", &options.cancel, 0, 100},
		       {"seed", &seed, 0, 1000000000}};
	enum { COUNT = sizeof(numbers) / sizeof(*numbers) };
	struct option names[COUNT + 6] = {0};
	int found;

	(void)snprintf(options.sale_id, sizeof(options.sale_id), "sale-%lld",
		       (long long)time(NULL));
	for (int i = 0; i < COUNT; i++)
		names[i] = (struct option){numbers[i].name, required_argument, NULL, 256 + i};
	names[COUNT] = (struct option){"url", required_argument, NULL, 'u'};
	names[COUNT + 1] = (struct option){"sale", required_argument, NULL, 's'};
	names[COUNT + 2] = (struct option){"no-second-chance", no_argument, NULL, 'n'};
	names[COUNT + 3] = (struct option){"json", no_argument, NULL, 'j'};
	names[COUNT + 4] = (struct option){"help", no_argument, NULL, 'h'};
	while ((found = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (found >= 256) {
			*numbers[found - 256].value =
				number(numbers[found - 256].name, optarg, numbers[found - 256].min,
				       numbers[found - 256].max);
		} else if (found == 'u') {
			options.url = optarg;
		} else if (found == 's') {
			(void)snprintf(options.sale_id, sizeof(options.sale_id), "%s", optarg);
		} else if (found == 'n') {
			options.second_chance = false;
		} else if (found == 'j') {
			options.json = true;
		} else {
			(void)fputs(help, found == 'h' ? stdout : stderr);
			exit(found == 'h' ? 0 : 2);
		}
	}
	if (optind < argc || options.never_pay + options.cancel > 100) {
		fprintf(stderr, "stampede-load: %s\n",
			optind < argc ? argv[optind] : "--never-pay and --cancel exceed 100");
		exit(2);
	}
	options.seed = (uint64_t)seed;
	return options;
}
