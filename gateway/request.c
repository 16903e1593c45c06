#include "gateway/request.h"

#include "gateway/json_encoder.h" /* key_set */

static bool wrong(struct request *request, const char *field, const char *reason)
{
	request->error = (struct transcode_error){STATUS_INVALID_ARGUMENT, field, reason};
	return false;
}

bool request_begin(struct request *request, const struct schema *schema,
		   const struct route_match *match, struct buffer *out)
{
	const struct path_template *path = &match->route->path;

	*request = (struct request){.schema = schema, .route = match->route, .out = out};
	for (int i = 0; i < path->field_count; i++) {
		const struct template_field *field = &path->fields[i];
		struct transcode_bound bound;
		size_t start = out->size;

		if (!text_to_wire(schema, request->route->request, field->path, field->path_size,
				  match->values[i].text, match->values[i].size, out, &bound.field,
				  &request->error))
			return false;
		if (memchr(field->path, '.', field->path_size))
			continue; /* a part of a field; the body may bring the others */
		bound.bytes = out->bytes + start; /* stays where it is when the buffer grows */
		bound.size = out->size - start;
		request->bound[request->bound_count++] = bound;
	}
	return true;
}

/* May the query name this field? */
static bool query_allowed(struct request *request, const struct field_type *field, const char *name)
{
	bool nested = strchr(name, '.');
	const char *key = nested ? name : field->name;

	for (int i = 0; i < request->bound_count; i++) {
		if (request->bound[i].field == field && !nested)
			return wrong(request, field->name, "is in the path already");
	}
	if (request->route->body_field == field)
		return wrong(request, field->name, "is the body");
	if (field->repeated)
		return true;
	if (!request->names)
		request->names = key_set_create(request->out->arena);
	if (!key_set_add(request->names, key, strlen(key)))
		return wrong(request, key, "is there twice");
	if (field->oneof >= 0 && !nested &&
	    !key_set_add(request->names,
			 arena_printf(request->out->arena, "oneof %d", field->oneof), 8))
		return wrong(request, field->name, "excludes another field of the query");
	return true;
}

bool request_query(struct request *request, const char *name, const char *value)
{
	const struct field_type *field;

	if (request->route->body == ROUTE_BODY_ALL)
		return wrong(request, arena_strdup(request->out->arena, name),
			     "belongs into the body, not into the query");
	name = arena_strdup(request->out->arena, name);
	return text_to_wire(request->schema, request->route->request, name, strlen(name), value,
			    strlen(value), request->out, &field, &request->error) &&
	       query_allowed(request, field, name);
}

bool request_body(struct request *request, const char *body, size_t size)
{
	switch (request->route->body) {
	case ROUTE_BODY_ALL:
		return !size || json_to_wire(request->schema, request->route->request, body, size,
					     request->bound, request->bound_count, request->out,
					     &request->error);
	case ROUTE_BODY_FIELD:
		return !size || json_field_to_wire(request->schema, request->route->body_field,
						   body, size, request->out, &request->error);
	default:
		return true;
	}
}
