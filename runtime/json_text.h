/* Text as JSON strings, for what writes JSON by hand: logs, /debug/config, health, HTTP errors. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes `text` escaped, without quotes and closing zero, as far as it fits; invalid UTF-8 becomes
 * U+FFFD. Returns how many bytes were written; never ends inside a character. */
size_t json_text_escape(char *out, size_t room, const char *text, size_t size);
/* The same with its quotes; NULL is written as null. */
void json_text_print(FILE *out, const char *text);
