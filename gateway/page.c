/* The sale page: static files from gateway/web, embedded.
 *
 * "/" and "/sales/…" are index.html: the page finds its sale in the path. Every file has an ETag of its content. A file
 * asked for with "?v=…" may be kept for ever, since a new version is asked for by another name.
 */
#include "gateway/page.h"

#include <stdio.h>
#include <string.h>

#include "embed/web_table.h"

struct file {
	const char *name;
	const unsigned char *bytes;
	const size_t *size;
};

static const struct file files[] = {
#define WEB_FILE(name, symbol) {name, symbol, &symbol##_size},
	WEB_FILES
#undef WEB_FILE
	{NULL, NULL, NULL}};

static const char *content_type(const char *name)
{
	static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
					       {".css", "text/css; charset=utf-8"},
					       {".js", "text/javascript; charset=utf-8"},
					       {".svg", "image/svg+xml"},
					       {".json", "application/json"},
					       {".png", "image/png"},
					       {".ico", "image/x-icon"},
					       {".webmanifest", "application/manifest+json"},
					       {".woff2", "font/woff2"}};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(dot, types[i][0]) == 0)
			return types[i][1];
	}
	return "application/octet-stream";
}

static const struct file *file_find(const char *path)
{
	const char *name = path + 1;

	if (*path != '/')
		return NULL;
	if (!*name || strncmp(name, "sales/", 6) == 0)
		name = "index.html";
	for (const struct file *file = files; file->name; file++) {
		if (strcmp(file->name, name) == 0)
			return file;
	}
	return NULL;
}

static void etag_make(const struct file *file, char text[20])
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < *file->size; i++)
		hash = (hash ^ file->bytes[i]) * 1099511628211u;
	snprintf(text, 20, "\"%016llx\"", (unsigned long long)hash);
}

static void version_look(void *context, const char *name, const char *value)
{
	bool *versioned = context;

	*versioned = *versioned || (strcmp(name, "v") == 0 && *value);
}

bool page_serve(struct gateway *gateway, struct http_exchange *exchange)
{
	const struct file *file = file_find(http_path(exchange));
	const char *known = http_header(exchange, "If-None-Match");
	const char *method = http_method(exchange);
	bool versioned = false;
	char etag[20];

	(void)gateway;
	if (!file || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
		return false;
	http_query(exchange, version_look, &versioned);
	etag_make(file, etag);
	http_add_header(exchange, "ETag", etag);
	http_add_header(exchange, "Cache-Control",
			versioned ? "public, max-age=31536000, immutable" : "no-cache");
	http_add_header(exchange, "X-Content-Type-Options", "nosniff");
	if (known && strstr(known, etag))
		http_respond(exchange, 304, NULL, "", 0);
	else
		http_respond_static(exchange, 200, content_type(file->name), file->bytes,
				    *file->size);
	return true;
}
