#include "capture.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

static char text[1 << 18];
static int real_stdout = -1;
static FILE *file;

void capture_begin(void)
{
	(void)fflush(stdout);
	file = tmpfile();
	assert(file);
	real_stdout = dup(STDOUT_FILENO);
	dup2(fileno(file), STDOUT_FILENO);
}

const char *capture_end(void)
{
	size_t size;

	(void)fflush(stdout);
	dup2(real_stdout, STDOUT_FILENO);
	close(real_stdout);
	(void)fseek(file, 0, SEEK_SET);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = 0;
	(void)fclose(file);
	return text;
}
