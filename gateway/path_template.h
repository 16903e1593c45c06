/* A path template of google.api.http: "/v1/sales/{sale_id}/stock:adjust".
 *
 *     Template = "/" Segment { "/" Segment } [ ":" Verb ]
 *     Segment  = "*" | "**" | literal | "{" field.path [ "=" Segment { "/" Segment } ] "}"
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE_SEGMENTS_MAX 32
#define TEMPLATE_FIELDS_MAX 8

enum segment_kind { SEGMENT_LITERAL, SEGMENT_ANY /* "*" */, SEGMENT_REST /* "**", only last */ };

struct segment {
	enum segment_kind kind;
	const char *text; /* the literal's */
	size_t size;
};

/* A field and the segments whose text it takes. */
struct template_field {
	const char *path;
	size_t path_size;
	int first, count;
};

struct path_template {
	struct segment segments[TEMPLATE_SEGMENTS_MAX];
	int segment_count;
	struct template_field fields[TEMPLATE_FIELDS_MAX];
	int field_count;
	const char *verb; /* without the colon; size 0: none */
	size_t verb_size;
};

/* Points into `text`. False when it is not a template. */
bool path_template_parse(const char *text, struct path_template *ret_template);
