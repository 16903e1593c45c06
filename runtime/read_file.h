/* A small file as a whole: certificates, keys, secrets. */
#pragma once

#include <stddef.h>

/* malloc'd and closed by a zero byte; NULL, with the reason logged, when it cannot be read or is
 * larger than 1 MiB. `ret_size` may be NULL. */
char *read_file(const char *path, size_t *ret_size);
