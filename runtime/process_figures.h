/* Figures of the process itself: CPU, memory, descriptors, the loop's rounds. */
#pragma once

#include "runtime/loop.h"
#include "runtime/metrics.h"

void process_figures_add(struct metrics *metrics, struct loop *loop);
