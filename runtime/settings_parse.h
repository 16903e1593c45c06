/* Values of settings as people write them: 64KiB, 250ms, yes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* 10, -3, 10k (1000), 2M, 1G, 64KiB, 1MiB, 1GiB. */
bool settings_parse_number(const char *text, int64_t *ret_number);
/* 250ms, 5s, 30m, 1h, 2d, 1.5s; 0. In milliseconds. */
bool settings_parse_duration(const char *text, int64_t *ret_ms);
bool settings_parse_flag(const char *text, bool *ret_flag);
/* The shortest exact form: "1h", "90s", "250ms". */
void settings_format_duration(int64_t ms, char text[32]);
