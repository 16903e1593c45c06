/* A libFuzzer target for what the gateway reads from strangers: paths, JSON, and (from services) wire bytes.
 *
 * The first byte chooses. What is taken is sent through the other way too. Build: cmake -DSTAMPEDE_FUZZ=ON with clang;
 * run: bin/fuzz_gateway -max_total_time=60.
 */
#include <stdlib.h>
#include <string.h>

#include "embed/fuzz.h"
#include "gateway/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct schema *schema;
static const struct message_type *kinds;
static const struct routes *routes;

static void begin(void)
{
	schema = schema_create(descriptors_parse(fuzz_kinds_pb, fuzz_kinds_pb_size));
	kinds = schema_message(schema, "stampede.tests.Kinds");
	routes = routes_create(schema_create(descriptors_embedded()));
}

static void to_json(struct arena *arena, const uint8_t *bytes, size_t size, bool must)
{
	struct transcode_options options = {.hide_defaults = true};
	struct transcode_error error;
	struct buffer text, wire;

	buffer_init(&text, arena, 64, 1 << 20);
	buffer_init(&wire, arena, 64, 1 << 20);
	if (!wire_to_json(schema, kinds, &options, bytes, size, &text, &error)) {
		if (must && error.status != STATUS_RESOURCE_EXHAUSTED)
			abort(); /* what we wrote ourselves we must be able to read */
		return;
	}
	/* May be refused (zero bytes in strings, unknown types in Any), but must not crash. */
	(void)!json_to_wire(schema, kinds, (char *)text.bytes, text.size, NULL, 0, &wire, &error);
}

static void to_wire(struct arena *arena, const char *text, size_t size)
{
	struct transcode_error error;
	struct buffer wire;

	buffer_init(&wire, arena, 64, 1 << 20);
	if (json_to_wire(schema, kinds, text, size, NULL, 0, &wire, &error))
		to_json(arena, wire.bytes, wire.size, true);
}

static void to_route(struct arena *arena, const char *text, size_t size)
{
	struct route_match match;
	struct request request;
	struct buffer wire;
	const char *allow;

	buffer_init(&wire, arena, 64, 1 << 20);
	if (routes_match(routes, "GET", text, size, arena, &match, &allow) != ROUTE_FOUND)
		return;
	if (request_begin(&request, schema, &match, &wire))
		(void)!request_query(&request, arena_memdup(arena, text, size), "1");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;

	if (!schema)
		begin();
	if (!size)
		return 0;
	arena_init(&arena, NULL, 0);
	if (data[0] == 'w')
		to_json(&arena, data + 1, size - 1, false);
	else if (data[0] == '/')
		to_route(&arena, (const char *)data, size);
	else
		to_wire(&arena, (const char *)data, size);
	arena_reset(&arena);
	return 0;
}
