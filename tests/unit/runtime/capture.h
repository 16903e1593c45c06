/* What is written to stdout in between, for tests of what logs and prints. */
#pragma once

void capture_begin(void);
/* The text since capture_begin(), until the next one. */
const char *capture_end(void);
