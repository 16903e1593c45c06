#include "gateway/path_template.h"

#include <string.h>

static bool segment_add(struct path_template *template, enum segment_kind kind, const char *text,
			size_t size)
{
	int count = template->segment_count;

	/* Nothing may follow "**". */
	if (count == TEMPLATE_SEGMENTS_MAX ||
	    (count && template->segments[count - 1].kind == SEGMENT_REST))
		return false;
	template->segments[template->segment_count++] = (struct segment){kind, text, size};
	return true;
}

/* "*", "**" or a literal, up to what ends it. */
static bool plain_parse(const char **at, struct path_template *template)
{
	size_t size = strcspn(*at, "/:{}=");
	const char *text = *at;

	if (!size)
		return false;
	*at += size;
	if (size == 1 && *text == '*')
		return segment_add(template, SEGMENT_ANY, "", 0);
	if (size == 2 && memcmp(text, "**", 2) == 0)
		return segment_add(template, SEGMENT_REST, "", 0);
	return !memchr(text, '*', size) && segment_add(template, SEGMENT_LITERAL, text, size);
}

/* Behind "{". */
static bool field_parse(const char **at, struct path_template *template)
{
	struct template_field *field = &template->fields[template->field_count];
	size_t size = strcspn(*at, "=}");

	if (template->field_count == TEMPLATE_FIELDS_MAX || !size || !(*at)[size])
		return false;
	*field = (struct template_field){*at, size, template->segment_count, 0};
	*at += size;
	if (**at == '}' && !segment_add(template, SEGMENT_ANY, "", 0))
		return false;
	while (**at != '}') { /* at "=", then at each "/" */
		(*at)++;
		if (!plain_parse(at, template) || (**at != '/' && **at != '}'))
			return false;
	}
	(*at)++;
	field->count = template->segment_count - field->first;
	template->field_count++;
	return true;
}

bool path_template_parse(const char *text, struct path_template *ret_template)
{
	struct path_template template = {.verb = ""};
	const char *at = text;

	do {
		if (*at++ != '/')
			return false;
		if (*at == '{') {
			at++;
			if (!field_parse(&at, &template))
				return false;
		} else if (!plain_parse(&at, &template)) {
			return false;
		}
	} while (*at == '/');
	if (*at == ':') {
		template.verb = at + 1;
		template.verb_size = strcspn(at + 1, "/:{}=*");
		at += 1 + template.verb_size;
		if (!template.verb_size)
			return false;
	}
	if (*at)
		return false;
	*ret_template = template;
	return true;
}
