/*
 * One request's head, judged before anybody is asked (process: console). Browsers send it, or
 * whoever reaches the port: it is read once, strictly. A request that changes anything must show
 * that it comes from a page of this console: its origin, its Sec-Fetch-Site and a field that no
 * form can send.
 */
#include "broker/console.h"

#include <stdio.h>

#include "common/banned.h"

#define COOKIE "__Host-cofferdam"
#define HTTPS_PORT 443

/* "/requests/ID" and "/api/requests/ID/approve" have an id. */
static const char *const with_id[] = {"/requests/", "/api/requests/"};

static bool
path_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-' || c == '/';
}

/* "/api/requests/x7/approve" becomes "/api/requests/" "*" "/approve" and the id x7. */
static bool
path_read(struct str path, struct console_request *r)
{
	struct str rest = path, id = STR("");
	const char *before = "";

	for (size_t i = 0; i < path.n; i++)
		if (!path_char(path.p[i]))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(with_id); i++)
		if (str_has_prefix(path, with_id[i])) {
			size_t n = strlen(with_id[i]);

			before = with_id[i];
			rest = str_mem(path.p + n, path.n - n);
			id = rest;
			while (id.n != 0 && memchr(id.p, '/', id.n) != NULL)
				id.n--;
			rest = str_mem(rest.p + id.n, rest.n - id.n);
		}
	if (id.n > CONSOLE_ID_MAX || path.n >= sizeof(r->path) - 1)
		return false;
	(void)snprintf(r->id, sizeof(r->id), "%.*s", STR_ARG(id));
	(void)snprintf(
	    r->path, sizeof(r->path), "%s%s%.*s", before, id.n != 0 ? "*" : "", STR_ARG(rest));
	return true;
}

/* RFC 6265 5.4: pairs between "; ". Two of our name: somebody has set another, so neither. */
static void
cookie_read(const struct http_request *h, struct console_request *r)
{
	const struct http_field *f = http_field_find(h->fields, h->nfields, "cookie");
	struct str rest = f != NULL ? f->value : STR(""), pair, name;
	size_t found = 0;

	while (rest.n != 0) {
		if (!str_cut(&rest, ';', &pair)) {
			pair = rest;
			rest = STR("");
		}
		pair = str_trim(pair);
		if (!str_cut(&pair, '=', &name) || !str_eqz(name, COOKIE))
			continue;
		found++;
		if (pair.n <= CONSOLE_TOKEN_MAX)
			(void)snprintf(r->token, sizeof(r->token), "%.*s", STR_ARG(pair));
	}
	if (found != 1)
		r->token[0] = '\0';
}

static struct str
field(const struct http_request *h, const char *name)
{
	const struct http_field *f = http_field_find(h->fields, h->nfields, name);

	return f != NULL ? f->value : STR("");
}

/* No other site can make this request, nor a form of any. */
static unsigned
same_site(const struct http_request *h, struct str origin, struct err *err)
{
	struct str from = field(h, "origin"), fetch = field(h, "sec-fetch-site");

	if (!str_eq(from, origin)) {
		(void)err_set(err, ERR_DENIED, "the request comes from \"%.*s\", not from %.*s",
		    STR_ARG(from), STR_ARG(origin));
		return 403;
	}
	if (fetch.n != 0 && !str_eqz(fetch, "same-origin")) {
		(void)err_set(err, ERR_DENIED, "Sec-Fetch-Site is \"%.*s\", must be same-origin",
		    STR_ARG(fetch));
		return 403;
	}
	if (!str_eqz(field(h, "x-cofferdam"), "1")) {
		(void)err_set(err, ERR_DENIED, "the field X-Cofferdam: 1 is missing");
		return 403;
	}
	if (!str_ieqz(field(h, "content-type"), "application/json")) {
		(void)err_set(err, ERR_UNSUPPORTED, "Content-Type must be application/json");
		return 415;
	}
	return 0;
}

static unsigned
method_read(const struct http_request *h, struct console_request *r, struct err *err)
{
	r->method = str_eqz(h->method, "GET")	 ? CONSOLE_GET
		    : str_eqz(h->method, "HEAD") ? CONSOLE_HEAD
						 : CONSOLE_POST;
	if (r->method == CONSOLE_POST && !str_eqz(h->method, "POST")) {
		(void)err_set(err, ERR_UNSUPPORTED, "only GET, HEAD and POST are known here");
		return 405;
	}
	if (r->method != CONSOLE_POST && h->body != HTTP_BODY_NONE) {
		(void)err_set(err, ERR_INVALID, "a %.*s has no body", STR_ARG(h->method));
		return 400;
	}
	return 0;
}

unsigned
console_request_read(const struct weborigin *at, struct str origin, struct str head,
    struct console_request *ret, struct err *err)
{
	struct http_request h;
	struct console_request r = {.method = CONSOLE_GET};
	unsigned status;
	int rc = http_request_parse(head, &h, err);

	if (rc != 0)
		return rc == ERR_TOO_LARGE ? 431 : (unsigned)err_http(rc);
	r.keep_alive = h.keep_alive && !h.upgrade;
	r.body = h.body;
	r.length = h.length;
	*ret = r;
	if (h.form != HTTP_ORIGIN || strcmp(h.host, at->host) != 0 ||
	    (h.port != 0 ? h.port : HTTPS_PORT) != at->port) {
		(void)err_set(
		    err, ERR_NOT_FOUND, "this is %.*s, not \"%s\"", STR_ARG(origin), h.host);
		return 421;
	}
	status = method_read(&h, &r, err);
	if (status == 0 && (h.has_query || !path_read(h.path, &r))) {
		(void)err_set(err, ERR_NOT_FOUND, "there is no such page");
		status = 404;
	}
	if (status == 0 && r.method == CONSOLE_POST)
		status = same_site(&h, origin, err);
	cookie_read(&h, &r);
	*ret = r;
	return status;
}
