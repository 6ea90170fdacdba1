/*
 * The code interpreter of E2B's SDKs (process: a worker of cofferdam-sandboxd): cells in contexts
 * that keep their variables, told line by line as JSON. What a cell shows was made by code that
 * nobody trusts; it is passed on by type and never looked into.
 */
#include "agent/e2b_code.h"

#include <string.h>

#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

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
		if (buf_over(&k) || buf_over(&v) || buf_over(out))
			return err_set(err, ERR_TOO_LARGE,
			    "env_vars: over %zu bytes as code, or a name over 64 KiB", out->max);
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
	if (e2b_cell_follow(q, s, &e) == 1)
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
