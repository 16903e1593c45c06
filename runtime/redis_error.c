/* What Redis's error replies mean to us: their first word decides. */
#include "runtime/redis_error.h"

#include <stddef.h>
#include <string.h>

enum status redis_error_status(const char *text)
{
	static const struct {
		const char *word;
		enum status status;
	} meanings[] = {
		{"NOAUTH", STATUS_UNAUTHENTICATED},  {"WRONGPASS", STATUS_UNAUTHENTICATED},
		{"LOADING", STATUS_UNAVAILABLE},     {"READONLY", STATUS_UNAVAILABLE},
		{"CLUSTERDOWN", STATUS_UNAVAILABLE}, {"MASTERDOWN", STATUS_UNAVAILABLE},
		{"NOREPLICAS", STATUS_UNAVAILABLE},  {"BUSY", STATUS_UNAVAILABLE},
		{"TRYAGAIN", STATUS_UNAVAILABLE},    {"MISCONF", STATUS_UNAVAILABLE},
		{"NOSCRIPT", STATUS_UNAVAILABLE},    {"OOM", STATUS_RESOURCE_EXHAUSTED},
	};
	size_t size = strcspn(text, " ");

	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
		if (strlen(meanings[i].word) == size && memcmp(text, meanings[i].word, size) == 0)
			return meanings[i].status;
	return STATUS_INTERNAL;
}
