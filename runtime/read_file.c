#include "runtime/read_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"

#define SIZE_MAX_BYTES (1 << 20)

char *read_file(const char *path, size_t *ret_size)
{
	FILE *file = path ? fopen(path, "re") : NULL;
	char *bytes;
	size_t size;

	if (!file) {
		log_event(LOG_ERROR, "file_unreadable", log_text("path", path ? path : ""),
			  log_text("error", strerror(path ? errno : EINVAL)));
		return NULL;
	}
	bytes = malloc(SIZE_MAX_BYTES + 1);
	assert(bytes);
	size = fread(bytes, 1, SIZE_MAX_BYTES + 1, file);
	fclose(file);
	if (size > SIZE_MAX_BYTES) {
		log_event(LOG_ERROR, "file_too_large", log_text("path", path));
		free(bytes);
		return NULL;
	}
	bytes[size] = 0;
	if (ret_size)
		*ret_size = size;
	return bytes;
}
