/* gRPC server reflection, v1 and v1alpha, over the embedded descriptor set. */
#pragma once

#include "runtime/call.h"

struct descriptors;
struct reflection;

/* `services`: the full names to list (reflection's own and health are added). */
struct reflection *reflection_create(const struct descriptors *descriptors,
				     const char *const *services, int count);
void reflection_destroy(struct reflection *reflection);
const struct service *reflection_service_v1(struct reflection *reflection);
const struct service *reflection_service_v1alpha(struct reflection *reflection);
