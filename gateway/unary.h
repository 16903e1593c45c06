/* One request, one call. */
#pragma once

#include "gateway/visit.h"

/* `bytes` are copied. */
void unary_start(const struct visit *visit, const uint8_t *bytes, size_t size);
