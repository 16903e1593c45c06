#include "capture.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

static char text[1 << 18];
static int real_stdout = -1;
static FILE *file;

void capture_begin(void)
{
	fflush(stdout);
	file = tmpfile();
	assert(file);
	real_stdout = dup(STDOUT_FILENO);
	dup2(fileno(file), STDOUT_FILENO);
}

const char *capture_end(void)
{
	size_t size;

	fflush(stdout);
	dup2(real_stdout, STDOUT_FILENO);
	close(real_stdout);
	rewind(file);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = 0;
	fclose(file);
	return text;
}
