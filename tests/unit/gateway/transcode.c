/* transcode DESCRIPTOR_SET TYPE: the transcoder as a filter, for comparing it with others.
 *
 * Each line of stdin: "j TEXT" (JSON in, bytes out as hexadecimal digits), "w HEX" (bytes in, JSON
 * out) or "s HEX" (the same without defaults). Each is answered by one line; "! FIELD: REASON" when
 * it is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/transcode.h"

static void *file_read(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	char *bytes = malloc(1 << 22);

	if (!file || !bytes)
		exit(2);
	*ret_size = fread(bytes, 1, 1 << 22, file);
	fclose(file);
	return bytes;
}

static size_t hex_read(const char *text, uint8_t *to)
{
	size_t size = strlen(text) / 2;
	unsigned byte;

	for (size_t i = 0; i < size; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			exit(2);
		to[i] = (uint8_t)byte;
	}
	return size;
}

static void line_run(const struct schema *schema, const struct message_type *type, char *line)
{
	struct transcode_options options = {.hide_defaults = line[0] == 's'};
	char *text = line + 2;
	size_t size = strlen(text);
	struct transcode_error error;
	struct arena arena;
	struct buffer out;
	bool good;

	arena_init(&arena, NULL, 0);
	buffer_init(&out, &arena, 64, 1 << 24);
	if (line[0] == 'j') {
		good = json_to_wire(schema, type, text, size, NULL, 0, &out, &error);
	} else {
		size = hex_read(text, (uint8_t *)text);
		good = wire_to_json(schema, type, &options, (uint8_t *)text, size, &out, &error);
	}
	if (!good)
		printf("! %s: %s", error.field, error.reason);
	else if (line[0] != 'j')
		(void)fwrite(out.bytes, 1, out.size, stdout);
	for (size_t i = 0; good && line[0] == 'j' && i < out.size; i++)
		printf("%02x", out.bytes[i]);
	printf("\n");
	(void)fflush(stdout);
	arena_reset(&arena);
}

int main(int argc, char **argv)
{
	struct descriptors *descriptors;
	const struct message_type *type;
	struct schema *schema;
	size_t size, room = 0;
	char *line = NULL;
	void *bytes;
	ssize_t length;

	if (argc != 3)
		return 2;
	bytes = file_read(argv[1], &size);
	descriptors = descriptors_parse(bytes, size);
	if (!descriptors)
		return 2;
	schema = schema_create(descriptors);
	type = schema_message(schema, argv[2]);
	if (!type)
		return 2;
	while ((length = getline(&line, &room, stdin)) > 2) {
		line[length - 1] = 0;
		line_run(schema, type, line);
	}
	free(line);
	schema_destroy(schema);
	descriptors_free(descriptors);
	free(bytes);
	return 0;
}
