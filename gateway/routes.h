/* Every google.api.http rule of the protos, and which of them an HTTP request means.
 *
 * Paths are found in a tree by segment; a literal is preferred to a "*", and that to "**". A verb is what follows the last
 * colon; where no rule has it, the colon is part of the segment.
 */
#pragma once

#include "gateway/path_template.h"
#include "gateway/schema.h"

struct routes;

enum route_body { ROUTE_BODY_NONE, ROUTE_BODY_ALL, ROUTE_BODY_FIELD };

struct route {
	const char *http_method; /* "POST" */
	const char *pattern;	 /* "/v1/sales/{sale_id}:open" */
	const char *rpc;	 /* "/stampede.inventory.v1.InventoryService/OpenSale" */
	const char *service;	 /* "stampede.inventory.v1.InventoryService" */
	const char *method;	 /* "OpenSale" */
	const struct message_type *request, *response;
	bool server_streaming;
	enum route_body body;
	const struct field_type *body_field;
	struct path_template path;
	int index;	    /* 0 …, in the order of the protos: for tables of one's own */
	struct route *next; /* at the same place of the tree */
};

struct route_match {
	const struct route *route;
	/* Of each of the template's fields, decoded, in the arena. */
	struct {
		const char *text;
		size_t size;
	} values[TEMPLATE_FIELDS_MAX];
};

enum route_result {
	ROUTE_FOUND,
	ROUTE_NONE,	    /* 404 */
	ROUTE_OTHER_METHOD, /* 405: *ret_allow names what there is */
	ROUTE_MALFORMED,    /* 400: a bad percent sign */
};

/* Aborts when a rule of the protos is wrong: it is our mistake. The schema must outlive it. */
struct routes *routes_create(const struct schema *schema);
void routes_destroy(struct routes *routes);
int routes_count(const struct routes *routes);
const struct route *routes_at(const struct routes *routes, int index);

/* `path` is as sent, without the query. On ROUTE_OTHER_METHOD *ret_allow is "GET, POST". */
enum route_result routes_match(const struct routes *routes, const char *method, const char *path,
			       size_t path_size, struct arena *arena, struct route_match *ret_match,
			       const char **ret_allow);
