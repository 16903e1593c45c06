/* Admin pages: see admin.h. They answer while the process drains, too. */
#include "runtime/admin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/http.h"

#define CONNECTIONS_MAX 64

struct admin {
	struct admin_options options;
	struct http_server *http;
};

struct page {
	const char *path;
	void (*show)(struct admin *admin, struct http_exchange *exchange);
};

static void respond_text(struct http_exchange *exchange, int status, const char *type, char *text)
{
	http_respond(exchange, status, type, text, strlen(text));
	free(text);
}

static void show_metrics(struct admin *admin, struct http_exchange *exchange)
{
	size_t size;
	char *text = metrics_text(admin->options.metrics, &size);

	http_respond(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", text, size);
	free(text);
}

/* That the loop turns is what this answer shows. */
static void show_healthz(struct admin *admin, struct http_exchange *exchange)
{
	(void)admin;
	http_respond_static(exchange, 200, "text/plain", "ok\n", 3);
}

static void show_readyz(struct admin *admin, struct http_exchange *exchange)
{
	respond_text(exchange, health_ready(admin->options.health) ? 200 : 503, "application/json",
		     health_json(admin->options.health));
}

static void show_config(struct admin *admin, struct http_exchange *exchange)
{
	respond_text(exchange, 200, "application/json",
		     settings_json(admin->options.tables, admin->options.targets));
}

static void show_index(struct admin *admin, struct http_exchange *exchange)
{
	const char *html = arena_printf(
		http_arena(exchange),
		"<!doctype html><html lang=en><meta charset=utf-8><title>%s</title>\n"
		"<h1>%s</h1>\n<ul>\n"
		"<li><a href=/metrics>/metrics</a>: figures, in Prometheus's text format\n"
		"<li><a href=/healthz>/healthz</a>: 200 while the process lives\n"
		"<li><a href=/readyz>/readyz</a>: 200 when it is ready to serve, 503 and why when "
		"not\n"
		"<li><a href=/debug/config>/debug/config</a>: the settings in force\n</ul>\n",
		admin->options.title, admin->options.title);

	http_respond(exchange, 200, "text/html; charset=utf-8", html, strlen(html));
}

static const struct page pages[] = {
	{"/", show_index},	  {"/metrics", show_metrics},	  {"/healthz", show_healthz},
	{"/readyz", show_readyz}, {"/debug/config", show_config}, {NULL, NULL},
};

static void admin_request(void *self, struct http_exchange *exchange)
{
	struct admin *admin = self;
	const char *method = http_method(exchange);

	for (const struct page *page = pages; page->path; page++) {
		if (strcmp(page->path, http_path(exchange)))
			continue;
		if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
			http_add_header(exchange, "Allow", "GET, HEAD");
			http_respond_error(exchange, 405, "only GET and HEAD");
			return;
		}
		http_add_header(exchange, "Cache-Control", "no-store");
		page->show(admin, exchange);
		return;
	}
	http_respond_error(exchange, 404, "no such page; / lists them");
}

struct admin *admin_create(struct loop *loop, const struct admin_options *options)
{
	struct admin *admin = calloc(1, sizeof(*admin));

	assert(admin);
	admin->options = *options;
	admin->http = http_create(loop, &(struct http_options){.address = options->address,
							       .connections_max = CONNECTIONS_MAX,
							       .body_max = 1024,
							       .request = admin_request,
							       .self = admin});
	if (!admin->http) {
		free(admin);
		return NULL;
	}
	return admin;
}

int admin_port(const struct admin *admin)
{
	return http_port(admin->http);
}

void admin_destroy(struct admin *admin)
{
	if (!admin)
		return;
	http_destroy(admin->http);
	free(admin);
}
