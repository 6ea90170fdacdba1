/*
 * The code interpreter of E2B's SDKs (process: a worker of cofferdam-sandboxd): cells in contexts
 * that keep their variables, told line by line as JSON. What a cell shows was made by code that
 * nobody trusts; it is passed on by type and never looked into.
 */
#include "agent/e2b.h"

#include <poll.h>
#include <string.h>

#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

#define LINE_MAX ((size_t)16 << 20)
#define TYPES_MAX 40
#define OPEN_MS 40000

static const struct {
	const char *name, *own; /* as SDKs say it, as contexts have it */
} languages[] = {
    {"python", "python"}, {"javascript", "javascript"}, {"js", "javascript"}, {"bash", "bash"}};

static const char *
language_of(struct str name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (str_ieqz(name, languages[i].name))
			return languages[i].own;
	(void)err_set(err, ERR_INVALID, "language \"%.*s\" is not served: python, javascript, bash",
	    (int)(name.n < 32 ? name.n : 32), name.p);
	return NULL;
}

static void
line_put(struct e2b_request *q, struct buf *b, struct err *err)
{
	buf_put_c(b, '\n');
	if (buf_over(b) || err->code != 0)
		return;
	if (!serve_answered(q->conn) &&
	    serve_stream(q->conn, 200, "application/x-ndjson", err) != 0)
		return;
	(void)serve_put(q->conn, buf_str(b), err);
}

/* --- output: text that may be cut in the middle of a character -------------------------------- */

struct text {
	char tail[4]; /* of a character that has begun */
	size_t n;
};

/* Bytes at the end of s that may be the begin of a character. */
static size_t
begun_at(struct str s)
{
	for (size_t k = 1; k <= 3 && k <= s.n; k++) {
		unsigned char c = (unsigned char)s.p[s.n - k];
		size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;

		if (c < 0x80)
			return 0;
		if (want != 0)
			return want > k ? k : 0;
	}
	return 0;
}

static void
output_put(struct e2b_request *q, const char *type, struct text *t, struct str bytes, bool last,
    struct err *err)
{
	AUTO_BUF struct buf all = BUF(LINE_MAX), b = BUF(LINE_MAX);
	struct str s;
	size_t keep;
	struct jcs j;

	buf_put(&all, t->tail, t->n);
	buf_put_str(&all, bytes);
	s = buf_str(&all);
	keep = last ? 0 : begun_at(s);
	t->n = keep;
	if (keep != 0)
		memcpy(t->tail, s.p + s.n - keep, keep);
	s.n -= keep;
	if (s.n == 0)
		return;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "text", s);
	jcs_z(&j, "type", type);
	jcs_close(&j);
	line_put(q, &b, err);
}

/* --- results ------------------------------------------------------------------------------------
 */

static const struct {
	const char *mime, *key;
} keys[] = {{"text/plain", "text"}, {"text/html", "html"}, {"text/markdown", "markdown"},
    {"image/svg+xml", "svg"}, {"image/png", "png"}, {"image/jpeg", "jpeg"},
    {"application/pdf", "pdf"}, {"text/latex", "latex"}, {"application/json", "json"},
    {"application/javascript", "javascript"}};

struct shown {
	struct str key, mime;
	const struct json *value;
};

static int
shown_cmp(const void *a, const void *b)
{
	return jcs_key_cmp(((const struct shown *)a)->key, ((const struct shown *)b)->key);
}

static struct str
key_of(struct str mime)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_eqz(mime, keys[i].mime))
			return str_z(keys[i].key);
	return mime;
}

static void
shown_put(struct jcs *j, const struct shown *s, bool main_result)
{
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored = {0};

	jcs_key(j, s->key);
	if (str_eqz(s->key, "is_main_result"))
		jcs_bool(j, NULL, main_result);
	else if (str_eqz(s->key, "type"))
		jcs_z(j, NULL, "result");
	else if (str_eqz(s->key, "json") &&
		 json_parse(json_str(s->value), "json", &d, &ignored) == 0)
		(void)jcs_value(j, NULL, json_root(d), &ignored);
	else
		jcs_str_lossy(j, NULL, json_str(s->value));
}

static void
result_put(struct e2b_request *q, const struct keeper_event *ev, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LINE_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct shown all[TYPES_MAX + 2] = {{.key = STR("is_main_result")}, {.key = STR("type")}};
	size_t n = 2;
	struct err ignored = {0};
	struct jcs j;

	if (json_parse(ev->bytes, "result", &d, &ignored) != 0)
		return;
	for (size_t i = 0; i < json_count(json_root(d)) && n < ARRAY_LEN(all); i++) {
		struct str mime = json_key(json_root(d), i);

		/* A type is not to stand for what we say ourselves. */
		if (memchr(mime.p, '/', mime.n) != NULL)
			all[n++] =
			    (struct shown){.key = key_of(mime), .value = json_at(json_root(d), i)};
	}
	qsort(all, n, sizeof(all[0]), shown_cmp);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < n; i++)
		shown_put(&j, &all[i], ev->number == 1);
	jcs_close(&j);
	line_put(q, &b, err);
}

static void
count_put(struct e2b_request *q, uint32_t n, struct err *err)
{
	AUTO_BUF struct buf b = BUF(256);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "execution_count", n);
	jcs_z(&j, "type", "number_of_executions");
	jcs_close(&j);
	line_put(q, &b, err);
}

static void
error_put(
    struct e2b_request *q, struct str name, struct str value, struct str trace, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LINE_MAX);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "name", name);
	jcs_str_lossy(&j, "traceback", trace);
	jcs_z(&j, "type", "error");
	jcs_str_lossy(&j, "value", value);
	jcs_close(&j);
	line_put(q, &b, err);
}

/* --- a cell
 * ----------------------------------------------------------------------------------------- */

/* 0: it goes on; 1: it is over. */
static int
cell_event(struct e2b_request *q, struct keeper_stream *s, struct text text[2], struct err *err)
{
	struct keeper_event ev;
	int rc = keeper_next(s, 0, &ev, err);

	if (rc != 0)
		return rc == ERR_TIMEOUT ? (err->code = 0) : rc;
	switch (ev.type) {
	case KEEPER_STARTED: count_put(q, ev.number, err); return err->code;
	case KEEPER_OUTPUT:
		output_put(q, ev.number == 2 ? "stderr" : "stdout", &text[ev.number == 2], ev.bytes,
		    false, err);
		return err->code;
	case KEEPER_DISPLAY: result_put(q, &ev, err); return err->code;
	case KEEPER_FAILED: error_put(q, STR("CellNotStarted"), ev.bytes, STR(""), err); return 1;
	case KEEPER_ENDED: break;
	}
	output_put(q, "stdout", &text[0], STR(""), true, err);
	output_put(q, "stderr", &text[1], STR(""), true, err);
	if (ev.end != SANDBOX_CELL_OK)
		error_put(
		    q, ev.name.n != 0 ? ev.name : STR("Interrupted"), ev.error, ev.trace, err);
	return 1;
}

/* 1: to its end. */
static int
cell_follow(struct e2b_request *q, struct keeper_stream *s, struct err *err)
{
	struct text text[2] = {0};
	int rc = 0;

	while (rc == 0) {
		struct pollfd p[2] = {{.fd = keeper_stream_fd(s), .events = POLLIN},
		    {.fd = serve_fd(q->conn), .events = POLLIN}};

		if (poll(p, ARRAY_LEN(p), -1) < 0)
			continue;
		/* Closing the stream interrupts the cell. */
		if (p[1].revents != 0 && serve_gone(q->conn))
			return err_set(err, ERR_UNAVAILABLE, "the client has gone");
		if (p[0].revents != 0)
			rc = cell_event(q, s, text, err);
	}
	return rc;
}

/* Until the interpreter is there. */
static int
context_wait(struct keeper_stream *s, struct err *err)
{
	struct keeper_event ev = {0};
	int rc;

	do
		rc = keeper_next(s, OPEN_MS, &ev, err);
	while (rc == 0 && ev.type == KEEPER_STARTED);
	if (rc == 0 && ev.type == KEEPER_FAILED)
		return err_set(err, ev.code, "%.*s", STR_ARG(ev.bytes));
	return rc;
}

static int
context_list(struct e2b_request *q, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	int rc = keeper_contexts(q->keeper, &b, err);

	return rc == 0 ? json_parse(buf_str(&b), "contexts", ret, err) : rc;
}

static int
context_find(
    struct e2b_request *q, struct str id, char *ret_id, const char **ret_language, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	int rc = context_list(q, &d, err);

	for (size_t i = 0; rc == 0 && i < json_count(json_root(d)); i++) {
		const struct json *c = json_at(json_root(d), i);

		if (!str_eq(json_str(json_get(c, "id")), id))
			continue;
		memcpy(ret_id, id.p, id.n);
		ret_id[id.n] = '\0';
		*ret_language = language_of(json_str(json_get(c, "language")), err);
		return 0;
	}
	return rc != 0 ? rc
		       : err_set(err, ERR_NOT_FOUND, "context \"%.*s\" was not found",
			     (int)(id.n < 32 ? id.n : 32), id.p);
}

static int
context_take(struct e2b_request *q, const struct json *o, char *ret_id, const char **ret_language,
    struct err *err)
{
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	struct str id = json_str(json_get(o, "context_id")),
		   name = json_str(json_get(o, "language"));
	int rc;

	if (id.n != 0 && name.n != 0)
		return err_set(err, ERR_INVALID, "context_id and language: give one");
	if (id.n != 0)
		return context_find(q, id, ret_id, ret_language, err);
	*ret_language = language_of(name.n != 0 ? name : STR("python"), err);
	if (*ret_language == NULL)
		return ERR_INVALID;
	rc = keeper_context_shared(q->keeper, *ret_language, ret_id, &s, err);
	return rc == 0 && s != NULL ? context_wait(s, err) : rc;
}

/* env_vars as a cell of its own, in front: it is on the record, and stays in the context. */
static int
env_code(const struct json *env, const char *language, struct buf *out, struct err *err)
{
	for (size_t i = 0; i < json_count(env); i++) {
		AUTO_BUF struct buf k = BUF(65536), v = BUF(1 << 20);
		struct jcs jk, jv;

		if (json_type(json_at(env, i)) != JSON_STRING)
			return err_set(err, ERR_INVALID, "env_vars must be an object of texts");
		/* A JSON text is a text of Python and of JavaScript; in bash it would not be. */
		jcs_init(&jk, &k);
		jcs_str(&jk, NULL, json_key(env, i));
		jcs_init(&jv, &v);
		jcs_str(&jv, NULL, json_str(json_at(env, i)));
		if (strcmp(language, "python") == 0)
			buf_printf(out, "__import__('os').environ[%.*s] = %.*s\n", (int)k.n,
			    (const char *)k.p, (int)v.n, (const char *)v.p);
		else if (strcmp(language, "javascript") == 0)
			buf_printf(out, "process.env[%.*s] = %.*s;\n", (int)k.n, (const char *)k.p,
			    (int)v.n, (const char *)v.p);
		else
			return err_set(err, ERR_INVALID, "env_vars are not served in %s", language);
	}
	return 0;
}

static int
env_run(struct e2b_request *q, const char *id, const char *language, const struct json *env,
    struct err *err)
{
	AUTO_BUF struct buf code = BUF(SANDBOX_CODE_MAX);
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	struct keeper_event ev = {0};
	int rc = env_code(env, language, &code, err);

	if (rc != 0 || code.n == 0)
		return rc;
	if ((rc = keeper_cell(q->keeper, id, buf_str(&code), 30000, &s, err)) != 0)
		return rc;
	while (rc == 0 && ev.type != KEEPER_ENDED && ev.type != KEEPER_FAILED)
		rc = keeper_next(s, OPEN_MS, &ev, err);
	return rc;
}

/* What SDKs' own server says of a sandbox that is gone. */
static void
fail(struct e2b_request *q, const struct err *e)
{
	if (e->code == ERR_UNAVAILABLE)
		e2b_answer_fail(q, 502, e->msg);
	else
		e2b_answer_error(q, e);
}

void
e2b_on_execute(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	const struct json *o;
	const char *language = "";
	char id[KEEPER_ID_MAX + 1];
	struct err e = {0};

	if (!e2b_body_json(q, E2B_JSON_MAX, &d))
		return;
	o = json_root(d);
	if (context_take(q, o, id, &language, &e) != 0 ||
	    env_run(q, id, language, json_get(o, "env_vars"), &e) != 0 ||
	    keeper_cell(q->keeper, id, json_str(json_get(o, "code")), 0, &s, &e) != 0) {
		fail(q, &e);
		return;
	}
	/* In the midst of it the connection is cut, as when a sandbox ends. */
	if (cell_follow(q, s, &e) == 1)
		(void)serve_end(q->conn, &e);
	else if (!serve_answered(q->conn))
		fail(q, &e);
}

/* --- contexts
 * ---------------------------------------------------------------------------------------- */

void
e2b_on_contexts(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	struct err e = {0};

	if (keeper_contexts(q->keeper, &b, &e) == 0)
		e2b_answer_json(q, 200, &b);
	else
		fail(q, &e);
}

static void
answer_context(struct e2b_request *q, const char *id, const char *language, const char *cwd)
{
	AUTO_BUF struct buf b = BUF(16384);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "cwd", str_z(cwd));
	jcs_z(&j, "id", id);
	jcs_z(&j, "language", language);
	jcs_close(&j);
	e2b_answer_json(q, 200, &b);
}

void
e2b_on_context_new(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO(keeper_stream) struct keeper_stream *s = NULL;
	AUTO_BUF struct buf cwd = BUF(8192);
	struct str name;
	const char *language;
	char id[KEEPER_ID_MAX + 1];
	struct err e = {0};

	if (!e2b_body_json(q, 65536, &d))
		return;
	name = json_str(json_get(json_root(d), "language"));
	language = language_of(name.n != 0 ? name : STR("python"), &e);
	if (language != NULL && !e2b_path(json_str(json_get(json_root(d), "cwd")), &cwd))
		(void)err_set(&e, ERR_INVALID, "cwd is no path");
	if (e.code != 0 ||
	    keeper_context_open(q->keeper, language, (const char *)cwd.p, id, &s, &e) != 0 ||
	    context_wait(s, &e) != 0)
		fail(q, &e);
	else
		answer_context(q, id, language, (const char *)cwd.p);
}

static void
by_id(struct e2b_request *q, int (*fn)(struct keeper *k, const char *id, struct err *err))
{
	AUTO_FREE char *id = str_dup(q->id);
	struct err e = {0};

	if (fn(q->keeper, id, &e) == 0)
		e2b_answer_none(q);
	else
		fail(q, &e);
}

void
e2b_on_context_restart(struct e2b_request *q)
{
	by_id(q, keeper_context_restart);
}

void
e2b_on_context_remove(struct e2b_request *q)
{
	by_id(q, keeper_context_close);
}
