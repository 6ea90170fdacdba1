/*
 * Which request becomes which questions to core, and what its answer is (process: console): one
 * table. Core is asked one question after the other, the first being whose session it is; an error
 * of any is the whole answer.
 */
#include "broker/console.h"

#include "common/jcs.h"

#include "common/banned.h"

static const struct console_route routes[] = {
    {CONSOLE_GET, "/", true, {"session", "pending"}, console_page_pending, NULL},
    {CONSOLE_GET, "/requests/*", true, {"session", "show", "status"}, console_page_request, NULL},
    {CONSOLE_GET, "/runs", true, {"session", "runs"}, console_page_runs, NULL},
    {CONSOLE_GET, "/freezes", true, {"session", "status", "calendars"}, console_page_freezes, NULL},
    {CONSOLE_GET, "/sign-in", false, {NULL}, console_page_sign_in, NULL},
    {CONSOLE_GET, "/enrol", false, {NULL}, console_page_enrol, NULL},
    {CONSOLE_GET, "/assets/icon.svg", false, {NULL}, console_page_icon, NULL},
    {CONSOLE_GET, "/assets/console.css", false, {NULL}, console_page_css, NULL},
    {CONSOLE_GET, "/assets/console.js", false, {NULL}, console_page_js, NULL},
    {CONSOLE_GET, "/api/session", true, {"session"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/pending", true, {"session", "pending"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/requests/*", true, {"session", "show"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/runs", true, {"session", "runs"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/status", true, {"session", "status"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/calendars", true, {"session", "calendars"}, console_api_json, NULL},
    {CONSOLE_GET, "/api/events", true, {"session"}, console_api_events, NULL},
    {CONSOLE_POST, "/api/sign-in/begin", false, {"sign-in-begin"}, console_api_json, NULL},
    {CONSOLE_POST, "/api/sign-in", false, {"sign-in"}, console_api_signed_in,
	console_api_args_sign_in},
    {CONSOLE_POST, "/api/sign-out", false, {"sign-out"}, console_api_signed_out, NULL},
    {CONSOLE_POST, "/api/enrol/begin", false, {"enrol-begin"}, console_api_json,
	console_api_args_enrol},
    {CONSOLE_POST, "/api/enrol", false, {"enrol"}, console_api_json, console_api_args_enrol},
    {CONSOLE_POST, "/api/requests/*/statement", true, {"session", "statement"}, console_api_json,
	console_api_args_statement},
    {CONSOLE_POST, "/api/requests/*/approve", true, {"session", "approve"}, console_api_json,
	console_api_args_sign},
    {CONSOLE_POST, "/api/requests/*/deny", true, {"session", "deny"}, console_api_json,
	console_api_args_sign},
};

static bool
is_api(const struct console_conn *c)
{
	return str_has_prefix(str_z(c->rq.path), "/api/");
}

void
console_route_refuse(struct console_conn *c, unsigned status, const char *title, struct str why)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct jcs j;

	if (!is_api(c)) {
		console_page_message(c, status, title, why);
		return;
	}
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "detail", str_mem(why.p, why.n < 1024 ? why.n : 1024));
	jcs_int(&j, "status", status);
	jcs_z(&j, "title", title);
	jcs_close(&j);
	console_conn_answer(c, status, "application/problem+json", STR(""), buf_str(&b));
}

static int
args_make(struct console_conn *c, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	bool last = c->ndocs + 1 == CONSOLE_DOCS_MAX || c->route->verbs[c->ndocs + 1] == NULL;
	struct jcs j;
	int rc;

	if (c->route->args != NULL && last) {
		rc = json_parse(buf_str(&c->body), "body", &doc, err);
		return rc != 0 ? rc : c->route->args(c, json_root(doc), out, err);
	}
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (c->rq.id[0] != '\0')
		jcs_z(&j, "id", c->rq.id);
	if (c->person.n != 0)
		jcs_str(&j, "person", c->person);
	jcs_close(&j);
	return 0;
}

static void
ask_next(struct console_conn *c)
{
	AUTO_BUF struct buf args = BUF((size_t)1 << 17);
	struct err err = {0};
	int rc;

	if (c->ndocs == CONSOLE_DOCS_MAX || c->route->verbs[c->ndocs] == NULL) {
		c->route->answer(c);
		return;
	}
	rc = args_make(c, &args, &err);
	if (rc != 0)
		console_route_refuse(c, (unsigned)err_http(rc), err_text(rc), str_z(err.msg));
	else
		console_ask(c, c->route->verbs[c->ndocs], buf_str(&args));
}

void
console_route_told(struct console_conn *c, int code, struct str result)
{
	struct err err = {0};

	if (code == 0)
		code = json_parse(result, "core", &c->docs[c->ndocs], &err);
	if (code != 0) {
		if (c->route->session && c->ndocs == 0 && code == ERR_UNAUTHORISED && !is_api(c))
			console_page_sign_in(c);
		else
			console_route_refuse(c, (unsigned)err_http(code), err_text(code), result);
		return;
	}
	if (c->route->session && c->ndocs == 0)
		c->person = json_str(json_get(json_root(c->docs[0]), "person"));
	c->ndocs++;
	ask_next(c);
}

void
console_route(struct console_conn *c)
{
	enum console_method m = c->rq.method == CONSOLE_HEAD ? CONSOLE_GET : c->rq.method;
	bool other = false;

	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (strcmp(routes[i].path, c->rq.path) != 0)
			continue;
		if (routes[i].method != m) {
			other = true;
			continue;
		}
		c->route = &routes[i];
		ask_next(c);
		return;
	}
	if (other)
		console_route_refuse(c, 405, http_reason(405), STR("not with this method"));
	else
		console_route_refuse(c, 404, http_reason(404), STR("there is no such page"));
}
