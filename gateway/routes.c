/* The table of routes: see routes.h.
 *
 *     rules of the protos ─► templates ─► a tree: literal children (hashed), one "*", one "**"
 *                                         at each place the routes that end there, by verb and method
 */
#include "gateway/routes.h"

#include <assert.h>
#include <google/api/http.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_OPTION 72295728 /* google.api.http, an extension of MethodOptions */
#define PATH_SEGMENTS_MAX 64

struct node {
	const char *text; /* the literal that leads here */
	size_t size;
	struct node **table; /* literal children */
	uint32_t table_mask, children;
	struct node *any, *rest;
	struct route *routes;
};

struct routes {
	const struct schema *schema;
	struct arena arena;
	struct node root;
	struct route **all;
	int count, room;
};

/* --- the tree ------------------------------------------------------------------------------------- */

static uint32_t text_hash(const char *text, size_t size)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	return hash ^ (hash >> 15);
}

static struct node **child_slot(const struct node *node, const char *text, size_t size)
{
	uint32_t slot = text_hash(text, size) & node->table_mask;

	while (node->table[slot] && (node->table[slot]->size != size ||
				     memcmp(node->table[slot]->text, text, size) != 0))
		slot = (slot + 1) & node->table_mask;
	return &node->table[slot];
}

static void children_grow(struct routes *routes, struct node *node)
{
	struct node **old = node->table;
	uint32_t room = old ? node->table_mask + 1 : 0;

	node->table_mask = room ? room * 2 - 1 : 3;
	node->table = arena_zalloc(&routes->arena, (node->table_mask + 1) * sizeof(struct node *));
	for (uint32_t i = 0; i < room; i++) {
		if (old[i])
			*child_slot(node, old[i]->text, old[i]->size) = old[i];
	}
}

static struct node *child_literal(struct routes *routes, struct node *node,
				  const struct segment *segment)
{
	struct node **slot;

	if (!node->table || node->children * 2 > node->table_mask)
		children_grow(routes, node);
	slot = child_slot(node, segment->text, segment->size);
	if (!*slot) {
		*slot = arena_zalloc(&routes->arena, sizeof(**slot));
		(*slot)->text = segment->text;
		(*slot)->size = segment->size;
		node->children++;
	}
	return *slot;
}

static struct node *child(struct routes *routes, struct node *node, const struct segment *segment)
{
	struct node **wild = segment->kind == SEGMENT_ANY ? &node->any : &node->rest;

	if (segment->kind == SEGMENT_LITERAL)
		return child_literal(routes, node, segment);
	if (!*wild)
		*wild = arena_zalloc(&routes->arena, sizeof(**wild));
	return *wild;
}

static void route_place(struct routes *routes, struct route *route)
{
	struct node *node = &routes->root;

	for (int i = 0; i < route->path.segment_count; i++)
		node = child(routes, node, &route->path.segments[i]);
	route->next = node->routes;
	node->routes = route;
}

/* --- the rules ------------------------------------------------------------------------------------ */

static void rule_pattern(const Google__Api__HttpRule *rule, struct route *route)
{
	switch (rule->pattern_case) {
	case GOOGLE__API__HTTP_RULE__PATTERN_GET:
		route->http_method = "GET";
		route->pattern = rule->get;
		break;
	case GOOGLE__API__HTTP_RULE__PATTERN_PUT:
		route->http_method = "PUT";
		route->pattern = rule->put;
		break;
	case GOOGLE__API__HTTP_RULE__PATTERN_POST:
		route->http_method = "POST";
		route->pattern = rule->post;
		break;
	case GOOGLE__API__HTTP_RULE__PATTERN_DELETE:
		route->http_method = "DELETE";
		route->pattern = rule->delete_;
		break;
	case GOOGLE__API__HTTP_RULE__PATTERN_PATCH:
		route->http_method = "PATCH";
		route->pattern = rule->patch;
		break;
	case GOOGLE__API__HTTP_RULE__PATTERN_CUSTOM:
		route->http_method = rule->custom->kind;
		route->pattern = rule->custom->path;
		break;
	default:
		assert(false); /* a rule without a pattern */
	}
}

static void rule_body(const Google__Api__HttpRule *rule, struct route *route)
{
	if (!*rule->body)
		return;
	route->body = strcmp(rule->body, "*") == 0 ? ROUTE_BODY_ALL : ROUTE_BODY_FIELD;
	if (route->body == ROUTE_BODY_FIELD) {
		route->body_field = message_field(route->request, rule->body, strlen(rule->body));
		assert(route->body_field);
	}
}

/* A rule's additional bindings are rules themselves, but have none. */
static void rule_add(struct routes *routes, const struct route *method,
		     const Google__Api__HttpRule *rule)
{
	struct route *route = arena_alloc(&routes->arena, sizeof(*route));
	bool good;

	*route = *method;
	rule_pattern(rule, route);
	rule_body(rule, route);
	good = path_template_parse(route->pattern, &route->path);
	assert(good && !*rule->response_body);
	(void)good;
	if (routes->count == routes->room) {
		routes->room = routes->room ? routes->room * 2 : 64;
		routes->all = realloc(routes->all, (size_t)routes->room * sizeof(struct route *));
		assert(routes->all);
	}
	route->index = routes->count;
	routes->all[routes->count++] = route;
	route_place(routes, route);
	for (size_t i = 0; i < rule->n_additional_bindings; i++)
		rule_add(routes, method, rule->additional_bindings[i]);
}

/* protobuf-c keeps what it does not know as raw bytes: the extension's length, then the rule. */
static const Google__Api__HttpRule *rule_read(struct arena *arena,
					      const Google__Protobuf__MethodOptions *options)
{
	for (unsigned i = 0; options && i < options->base.n_unknown_fields; i++) {
		const ProtobufCMessageUnknownField *field = &options->base.unknown_fields[i];
		const uint8_t *at = field->data, *end = at + field->len;
		uint64_t size;

		if (field->tag != HTTP_OPTION || !wire_read_varint(&at, end, &size) ||
		    size != (uint64_t)(end - at))
			continue;
		return google__api__http_rule__unpack(arena_allocator(arena), (size_t)size, at);
	}
	return NULL;
}

static void service_add(struct routes *routes, const char *package,
			const Google__Protobuf__ServiceDescriptorProto *service)
{
	struct arena *arena = &routes->arena;
	const char *name = arena_printf(arena, "%s.%s", package, service->name);

	for (size_t i = 0; i < service->n_method; i++) {
		const Google__Protobuf__MethodDescriptorProto *proto = service->method[i];
		const Google__Api__HttpRule *rule = rule_read(arena, proto->options);
		struct route method = {
			.rpc = arena_printf(arena, "/%s/%s", name, proto->name),
			.service = name,
			.method = proto->name,
			.request = schema_message(routes->schema, proto->input_type),
			.response = schema_message(routes->schema, proto->output_type),
			.server_streaming = proto->server_streaming,
		};

		if (!rule)
			continue;
		assert(!proto->client_streaming && method.request && method.response);
		rule_add(routes, &method, rule);
	}
}

struct routes *routes_create(const struct schema *schema)
{
	const struct descriptors *descriptors = schema_descriptors(schema);
	struct routes *routes = calloc(1, sizeof(*routes));

	assert(routes);
	routes->schema = schema;
	arena_init(&routes->arena, NULL, 0);
	for (int i = 0; i < descriptors_files(descriptors); i++) {
		const Google__Protobuf__FileDescriptorProto *file =
			descriptors_file(descriptors, i)->proto;

		for (size_t k = 0; k < file->n_service; k++)
			service_add(routes, file->package, file->service[k]);
	}
	return routes;
}

void routes_destroy(struct routes *routes)
{
	if (!routes)
		return;
	arena_reset(&routes->arena);
	free(routes->all);
	free(routes);
}

int routes_count(const struct routes *routes)
{
	return routes->count;
}

const struct route *routes_at(const struct routes *routes, int index)
{
	assert(index >= 0 && index < routes->count);
	return routes->all[index];
}

/* --- matching ------------------------------------------------------------------------------------- */

struct piece {
	const char *text;
	size_t size;
};

struct search {
	const char *method;
	struct piece pieces[PATH_SEGMENTS_MAX];
	int count;
	const char *verb; /* NULL: none */
	size_t verb_size;
	const struct route *found;
	/* Routes of other methods that would have matched. */
	const struct route *others[8];
	int other_count;
};

static bool verb_equals(const struct search *search, const struct route *route)
{
	return route->path.verb_size == search->verb_size &&
	       memcmp(route->path.verb, search->verb, search->verb_size) == 0;
}

static bool node_end(struct search *search, const struct node *node)
{
	for (const struct route *route = node->routes; route; route = route->next) {
		if (!verb_equals(search, route))
			continue;
		if (strcmp(route->http_method, search->method) == 0) {
			search->found = route;
			return true;
		}
		if (search->other_count < 8)
			search->others[search->other_count++] = route;
	}
	return false;
}

/* Each place of the tree is visited at most once, as its branches never meet again. */
static bool node_search(struct search *search, const struct node *node, int depth)
{
	const struct piece *piece = &search->pieces[depth];
	struct node *next;

	if (depth == search->count) {
		if (node_end(search, node))
			return true;
	} else {
		if (node->table && (next = *child_slot(node, piece->text, piece->size)) &&
		    node_search(search, next, depth + 1))
			return true;
		if (node->any && piece->size && node_search(search, node->any, depth + 1))
			return true;
	}
	return node->rest && node_end(search, node->rest);
}

/* False when the path has more segments than any template. */
static bool path_split(struct search *search, const char *path, size_t size)
{
	const char *end = path + size, *slash;

	while (path < end) {
		if (*path != '/' || search->count == PATH_SEGMENTS_MAX)
			return false;
		path++;
		slash = memchr(path, '/', (size_t)(end - path));
		if (!slash)
			slash = end;
		search->pieces[search->count++] = (struct piece){path, (size_t)(slash - path)};
		path = slash;
	}
	return search->count > 0;
}

static bool path_search(const struct routes *routes, struct search *search)
{
	struct piece *last = &search->pieces[search->count - 1];
	const char *colon = memrchr(last->text, ':', last->size);
	size_t size = last->size;

	if (colon) {
		search->verb = colon + 1;
		search->verb_size = (size_t)(last->text + last->size - search->verb);
		last->size = (size_t)(colon - last->text);
		if (search->verb_size && node_search(search, &routes->root, 0))
			return true;
		last->size = size;
		if (search->other_count) /* the verb is known, the method is not its */
			return false;
	}
	search->verb = "";
	search->verb_size = 0;
	return node_search(search, &routes->root, 0);
}

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

/* Percent signs undone; false when one is malformed. In a value of several segments %2F stays, or it would look like
 * a border between them. */
static bool percent_decode(struct arena *arena, const char *at, size_t size, bool several,
			   const char **ret_text, size_t *ret_size)
{
	const char *end = at + size;
	char *text, *to;

	*ret_text = at;
	*ret_size = size;
	if (!size || !memchr(at, '%', size))
		return true;
	text = to = arena_alloc(arena, size);
	while (at < end) {
		int high, low;

		if (*at != '%') {
			*to++ = *at++;
			continue;
		}
		if (end - at < 3 || (high = hex_digit(at[1])) < 0 || (low = hex_digit(at[2])) < 0)
			return false;
		if (several && high == 2 && low == 15) {
			memcpy(to, at, 3);
			to += 3;
		} else {
			*to++ = (char)(high << 4 | low);
		}
		at += 3;
	}
	*ret_text = text;
	*ret_size = (size_t)(to - text);
	return true;
}

/* The text a field takes: its segments, with the slashes between them. */
static bool value_read(struct arena *arena, const struct search *search,
		       const struct path_template *path, int index, struct route_match *match)
{
	const struct template_field *field = &path->fields[index];
	int last = field->first + field->count - 1;
	bool rest = path->segments[last].kind == SEGMENT_REST;
	const char *start, *end;

	if (rest)
		last = search->count - 1;
	match->values[index].text = "";
	match->values[index].size = 0;
	if (field->first > last) /* "**" may be nothing */
		return true;
	start = search->pieces[field->first].text;
	end = search->pieces[last].text + search->pieces[last].size;
	return percent_decode(arena, start, (size_t)(end - start), rest || field->count > 1,
			      &match->values[index].text, &match->values[index].size);
}

static const char *allow_text(struct arena *arena, const struct search *search)
{
	const char *text = "";

	for (int i = 0; i < search->other_count; i++)
		text = arena_printf(arena, "%s%s%s", text, *text ? ", " : "",
				    search->others[i]->http_method);
	return text;
}

enum route_result routes_match(const struct routes *routes, const char *method, const char *path,
			       size_t path_size, struct arena *arena, struct route_match *ret_match,
			       const char **ret_allow)
{
	struct search search;

	search.method = method;
	search.count = search.other_count = 0;
	search.found = NULL;
	if (!path_split(&search, path, path_size))
		return ROUTE_NONE;
	if (!path_search(routes, &search)) {
		if (!search.other_count)
			return ROUTE_NONE;
		*ret_allow = allow_text(arena, &search);
		return ROUTE_OTHER_METHOD;
	}
	ret_match->route = search.found;
	for (int i = 0; i < search.found->path.field_count; i++) {
		if (!value_read(arena, &search, &search.found->path, i, ret_match))
			return ROUTE_MALFORMED;
	}
	return ROUTE_FOUND;
}
