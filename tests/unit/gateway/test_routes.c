/* Which route a request means, and what it becomes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "embed/routes.h"
#include "gateway/request.h"

static struct descriptors *descriptors;
static struct schema *schema;
static struct routes *routes;
static struct arena arena;

static void begin(void)
{
	descriptors = descriptors_parse(routes_routes_pb, routes_routes_pb_size);
	ck_assert_ptr_nonnull(descriptors);
	schema = schema_create(descriptors);
	routes = routes_create(schema);
	arena_init(&arena, NULL, 0);
}

static void end(void)
{
	arena_reset(&arena);
	routes_destroy(routes);
	schema_destroy(schema);
	descriptors_free(descriptors);
}

/* "Method value|value", or what is wrong. */
static const char *matched(const char *method, const char *path)
{
	struct route_match match;
	const char *allow, *text;

	switch (routes_match(routes, method, path, strlen(path), &arena, &match, &allow)) {
	case ROUTE_NONE:
		return "404";
	case ROUTE_OTHER_METHOD:
		return arena_printf(&arena, "405 %s", allow);
	case ROUTE_MALFORMED:
		return "400";
	default:
		break;
	}
	text = match.route->method;
	for (int i = 0; i < match.route->path.field_count; i++)
		text = arena_printf(&arena, "%s%s%.*s", text, i ? "|" : " ",
				    (int)match.values[i].size, match.values[i].text);
	return text;
}

static const struct {
	const char *method, *path, *expected;
} paths[] = {
	{"GET", "/v1/things/a", "Get a"},
	{"GET", "/v1/things/special", "Special"},
	{"GET", "/v1/things/specia", "Get specia"},
	{"GET", "/v1/shelves/s/things/t", "Get s|t"},
	{"PUT", "/v1/things/a", "Get a"},
	{"POST", "/v1/things/a:open", "Open a"},
	{"POST", "/v1/things/a:b:open", "Open a:b"},
	{"GET", "/v1/things/a:b", "Get a:b"},
	{"GET", "/v1/things/a:", "Get a:"},
	{"GET", "/v1/things/a%3Aopen", "Get a:open"},
	{"GET", "/v1/things/a%20b%2Fc", "Get a b/c"},
	{"GET", "/v1/things/x/parts/y", "Deep things/x/parts/y"},
	{"GET", "/v1/things/x%2f/parts/%79", "Deep things/x%2f/parts/y"},
	{"GET", "/v1/files/a/b/c", "Rest a/b/c"},
	{"GET", "/v1/files/", "Rest "},
	{"GET", "/v1/files", "Rest "},
	{"DELETE", "/v1/anything/all", "Star"},
	{"HEAD", "/v1/things:head", "Custom"},
	{"POST", "/v1/things/a", "405 PUT, GET"},
	{"GET", "/v1/things/a:open", "405 POST"},
	{"GET", "/v1/things", "404"},
	{"GET", "/v1/things/", "404"},
	{"GET", "/v1/things//parts/y", "404"},
	{"GET", "/v1", "404"},
	{"GET", "/", "404"},
	{"GET", "", "404"},
	{"GET", "v1/things/a", "404"},
	{"GET", "//v1/things/a", "404"},
	{"GET", "/v1/Things/a", "404"},
	{"GET", "/v1/things/a/b", "404"},
	{"GET", "/v1/things/%", "400"},
	{"GET", "/v1/things/%2", "400"},
	{"GET", "/v1/things/%zz", "400"},
};

START_TEST(finds_the_route)
{
	ck_assert_str_eq(matched(paths[_i].method, paths[_i].path), paths[_i].expected);
}
END_TEST

START_TEST(survives_long_paths)
{
	char path[10001] = "";

	memset(path, '/', sizeof(path) - 1);
	ck_assert_str_eq(matched("GET", path), "404");
	memset(path, 'a', sizeof(path) - 1);
	ck_assert_uint_eq(strlen(matched("GET", arena_printf(&arena, "/v1/things/%s", path))),
			  strlen("Get ") + strlen(path));
}
END_TEST

/* The request as JSON without defaults, or "field: reason". */
static const char *requested(const char *method, const char *path, const char *query,
			     const char *body)
{
	struct transcode_options options = {.hide_defaults = true};
	struct transcode_error error;
	struct route_match match;
	struct request request;
	struct buffer wire, text;
	const char *allow;
	char *copy = arena_strdup(&arena, query), *rest = copy, *pair;
	bool good;

	ck_assert_int_eq(routes_match(routes, method, path, strlen(path), &arena, &match, &allow),
			 ROUTE_FOUND);
	buffer_init(&wire, &arena, 1, 10000);
	buffer_init(&text, &arena, 1, 10000);
	good = request_begin(&request, schema, &match, &wire);
	while (good && (pair = strsep(&rest, "&")) && *pair) {
		char *name = strsep(&pair, "=");

		good = request_query(&request, name, pair ? pair : "");
	}
	if (!good || !request_body(&request, body, strlen(body)))
		return arena_printf(&arena, "%s: %s", request.error.field, request.error.reason);
	ck_assert(wire_to_json(schema, match.route->request, &options, wire.bytes, wire.size, &text,
			       &error));
	return arena_memdup(&arena, text.bytes, text.size);
}

START_TEST(gathers_path_query_and_body)
{
	ck_assert_str_eq(requested("GET", "/v1/things/a", "", ""), "{\"name\":\"a\"}");
	ck_assert_str_eq(
		requested("GET", "/v1/things/a", "count=3&tags=x&tags=y&thing.size=4", ""),
		"{\"name\":\"a\",\"thing\":{\"size\":4},\"count\":3,\"tags\":[\"x\",\"y\"]}");
	ck_assert_str_eq(requested("GET", "/v1/shelves/s/things/t", "thing.size=4", ""),
			 "{\"name\":\"t\",\"thing\":{\"name\":\"s\",\"size\":4}}");
	ck_assert_str_eq(requested("PUT", "/v1/things/a", "count=3", "{\"size\":1}"),
			 "{\"name\":\"a\",\"thing\":{\"size\":1},\"count\":3}");
	ck_assert_str_eq(requested("POST", "/v1/things/a:open", "", ""), "{\"name\":\"a\"}");
	ck_assert_str_eq(requested("POST", "/v1/things/a:open", "", "{\"name\":\"a\",\"count\":1}"),
			 "{\"name\":\"a\",\"count\":1}");
}
END_TEST

START_TEST(refuses_contradictions)
{
	ck_assert_str_eq(requested("POST", "/v1/things/a:open", "", "{\"name\":\"b\"}"),
			 "name: differs from the one in the path");
	ck_assert_str_eq(requested("POST", "/v1/things/a:open", "count=1", ""),
			 "count: belongs into the body, not into the query");
	ck_assert_str_eq(requested("GET", "/v1/things/a", "name=b", ""),
			 "name: is in the path already");
	ck_assert_str_eq(requested("GET", "/v1/things/a", "count=1&count=2", ""),
			 "count: is there twice");
	ck_assert_str_eq(requested("GET", "/v1/things/a", "left=1&right=2", ""),
			 "right: excludes another field of the query");
	ck_assert_str_eq(requested("GET", "/v1/things/a", "nobody=1", ""), "nobody: unknown field");
	ck_assert_str_eq(requested("GET", "/v1/things/a", "count=x", ""),
			 "count: expected a 32-bit integer, got \"x\"");
	ck_assert_str_eq(requested("PUT", "/v1/things/a", "thing.size=1", "{\"size\":1}"),
			 "thing: is the body");
	ck_assert_str_eq(requested("PUT", "/v1/things/a", "", "{\"size\":\"x\"}"),
			 "thing.size: expected a 32-bit integer, got \"x\"");
}
END_TEST

START_TEST(knows_every_route_of_the_protos)
{
	struct schema *ours = schema_create(descriptors_embedded());
	struct routes *all = routes_create(ours);
	static const char reserve[] = "/v1/sales/s/reservations",
			  request[] = "/v1/sales/s/users/u/requests/r";
	struct route_match match;
	const char *allow;

	ck_assert_int_gt(routes_count(all), 25);
	ck_assert_int_eq(
		routes_match(all, "POST", reserve, strlen(reserve), &arena, &match, &allow),
		ROUTE_FOUND);
	ck_assert_str_eq(match.route->rpc, "/stampede.inventory.v1.InventoryService/Reserve");
	ck_assert_int_eq(routes_match(all, "GET", request, strlen(request), &arena, &match, &allow),
			 ROUTE_FOUND);
	ck_assert_str_eq(match.route->method, "GetReservation");
	for (int i = 0; i < routes_count(all); i++)
		ck_assert_int_eq(routes_at(all, i)->index, i);
	routes_destroy(all);
	schema_destroy(ours);
}
END_TEST

START_TEST(reads_only_templates)
{
	static const char *const wrong[] = {"",	     "v1",     "/",	   "/v1/",	"/{a",
					    "/{}",   "/a:",    "/**/b",	   "/{a=**}/b", "/a*",
					    "/{a}b", "/a:b/c", "/{a={b}}", "/{a=}",	"/a//b"};
	struct path_template template;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		ck_assert_msg(!path_template_parse(wrong[i], &template), "%s", wrong[i]);
	ck_assert(path_template_parse("/v1/{a.b=x/*/**}:verb", &template));
	ck_assert_int_eq(template.segment_count, 4);
	ck_assert_int_eq(template.fields[0].count, 3);
	ck_assert_uint_eq(template.verb_size, 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("routes");
	TCase *tests = tcase_create("routes");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_loop_test(tests, finds_the_route, 0, sizeof(paths) / sizeof(*paths));
	tcase_add_test(tests, survives_long_paths);
	tcase_add_test(tests, gathers_path_query_and_body);
	tcase_add_test(tests, refuses_contradictions);
	tcase_add_test(tests, knows_every_route_of_the_protos);
	tcase_add_test(tests, reads_only_templates);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
