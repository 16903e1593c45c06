/* What Redis's error replies mean to us. */
#pragma once

#include "runtime/status.h"

/* `text` is the reply without its '-': "NOAUTH Authentication required." */
enum status redis_error_status(const char *text);
