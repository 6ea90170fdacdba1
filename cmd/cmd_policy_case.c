/*
 * Cases of `cofferdam policy test`: what one sends, judged by the code that core links, on facts
 * from the confined parser, and what differs from what it expects.
 */
#include <string.h>

#include "cmd/cmd_policy.h"
#include "common/hash.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TEXT_MAX ((size_t)1 << 20)

/* --- comparing ----------------------------------------------------------------------- */

static void
list_put(const struct json *v, struct buf *out)
{
	for (size_t i = 0; i < json_count(v); i++)
		buf_printf(out, "%s%.*s", i != 0 ? " " : "", STR_ARG(json_str(json_at(v, i))));
}

static void
compare(struct policy_case_result *ret, const struct json *expect, const char *key,
    const struct buf *got)
{
	const struct json *v = json_get(expect, key);
	AUTO_BUF struct buf want = BUF(8192);

	if (v == NULL)
		return;
	if (json_type(v) == JSON_ARRAY)
		list_put(v, &want);
	else
		buf_put_str(&want, json_str(v));
	if (str_eq(buf_str(&want), buf_str(got)))
		return;
	ret->ok = false;
	buf_printf(&ret->why, "%s: wanted \"%.*s\", got \"%.*s\"\n", key, STR_ARG(buf_str(&want)),
	    STR_ARG(buf_str(got)));
}

static void
judge(const struct policy *p, struct policy_input *in, const char *unapprovable,
    const struct json *expect, struct policy_case_result *ret)
{
	AUTO_BUF struct buf verdict = BUF(64);
	AUTO_BUF struct buf effects = BUF(512);
	AUTO_BUF struct buf rules = BUF(8192);
	AUTO_BUF struct buf slots = BUF(8192);
	struct decision d;

	(void)policy_sql_judge(p, unapprovable, in, &d);
	buf_put_z(&verdict, verdict_name(d.verdict));
	effect_put(&effects, d.effects);
	for (size_t i = 0; i < d.nrules; i++)
		buf_printf(&rules, "%s%.*s", i != 0 ? " " : "", STR_ARG(d.rules[i]));
	policy_slots_put(&slots, d.slots, d.nslots, " ");
	ret->ok = true;
	compare(ret, expect, "verdict", &verdict);
	compare(ret, expect, "effects", &effects);
	compare(ret, expect, "rules", &rules);
	compare(ret, expect, "slots", &slots);
	if (!ret->ok)
		buf_printf(&ret->why, "says: %s\n", d.text);
}

/* --- what a case sends --------------------------------------------------------------- */

static void
repeat_put(const struct json *v, struct buf *out)
{
	static const char *const keys[] = {"piece", "then"};
	int64_t count = json_get(v, "count") != NULL ? json_int(json_get(v, "count")) : 0;

	buf_put_str(out, policy_member_str(v, "prefix"));
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const struct json *piece = json_get(v, keys[k]);

		for (int64_t i = 0; piece != NULL && i < count && !buf_over(out); i++)
			buf_put_str(out, json_str(piece));
	}
}

static int
sql_text(const struct json *in, struct buf *out, struct err *err)
{
	if (json_get(in, "sql") != NULL)
		buf_put_str(out, policy_member_str(in, "sql"));
	else if (json_get(in, "sql_repeat") != NULL)
		repeat_put(json_get(in, "sql_repeat"), out);
	else if (json_get(in, "sql_hex") == NULL ||
		 !enc_unhex(policy_member_str(in, "sql_hex"), out))
		return err_set(err, ERR_INVALID, "the input has no sql, sql_hex or sql_repeat");
	if (buf_over(out))
		return err_set(err, ERR_TOO_LARGE, "the input is over %zu bytes", TEXT_MAX);
	return 0;
}

/* Attributes that stand beside the statement. */
static int
input_finish(const struct json *c, struct policy_input *in, struct err *err)
{
	const struct json *v = json_get(c, "input");
	const struct json *owner = json_get(v, "owner"), *agent = json_get(v, "agent");
	const struct json *deferred = json_get(v, "deferred");
	int rc = clock_parse(policy_member_str(c, "at"), &in->at.us, err);

	if (rc != 0)
		return err_wrap(err, "at");
	in->at.known = true;
	if (deferred != NULL)
		in->deferred = json_bool(deferred);
	if (owner == NULL)
		owner = json_get(v, "run_owner");
	in->owner = owner != NULL ? json_str(owner) : STR_NONE;
	in->agent = agent != NULL ? json_str(agent) : STR_NONE;
	return 0;
}

static int
case_sql(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input");
	AUTO_POLICY_SQL struct policy_sql s = {0};
	AUTO_BUF struct buf text = BUF(TEXT_MAX);
	int rc = sql_text(in, &text, err);

	if (rc == 0)
		rc = policy_sql_input(
		    p, parser, policy_member_str(in, "target"), buf_str(&text), &s, err);
	if (rc == 0)
		rc = input_finish(c, &s.input, err);
	if (rc == 0)
		judge(p, &s.input, s.unapprovable, json_get(c, "expect"), ret);
	return rc;
}

/* Each message is one statement; the transaction is judged with the union. */
static int
case_pipeline(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *list = json_get(json_get(c, "input"), "pipeline");
	struct str target = policy_member_str(json_get(c, "input"), "target");
	struct policy_input in = policy_input_for(p, target);
	const char *unapprovable = NULL;
	int rc;

	for (size_t i = 0; i < json_count(list); i++) {
		AUTO_POLICY_SQL struct policy_sql s = {0};

		rc = policy_sql_input(p, parser, target, json_str(json_at(list, i)), &s, err);
		if (rc != 0)
			return rc;
		in.effects |= s.input.effects;
		if (s.unapprovable != NULL)
			unapprovable = s.unapprovable;
		if (s.input.statements > in.statements)
			in.statements = s.input.statements;
	}
	rc = input_finish(c, &in, err);
	if (rc == 0)
		judge(p, &in, unapprovable, json_get(c, "expect"), ret);
	return rc;
}

static int
case_message(const struct policy *p, struct cmd_parser *parser UNUSED, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *v = json_get(c, "input"), *params = json_get(v, "params");
	struct str message = policy_member_str(v, "message");
	struct policy_input in = policy_input_for(p, policy_member_str(v, "target"));
	int rc = input_finish(c, &in, err);

	if (rc != 0)
		return rc;
	if (str_eqz(message, "FunctionCall"))
		in.effects = EFFECT_opaque;
	else if (!str_eqz(message, "StartupMessage"))
		return err_set(err, ERR_INVALID, "unknown message \"%.*s\"", STR_ARG(message));
	for (size_t i = 0; params != NULL && i < json_count(params); i++)
		in.effects |= effects_pg_startup(json_key(params, i), json_str(json_at(params, i)));
	judge(p, &in, NULL, json_get(c, "expect"), ret);
	return 0;
}

static int
case_pgwire(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input");

	if (json_get(in, "pipeline") != NULL)
		return case_pipeline(p, parser, c, ret, err);
	if (str_eqz(policy_member_str(in, "message"), "Query"))
		return case_sql(p, parser, c, ret, err);
	return case_message(p, parser, c, ret, err);
}

/* [["Name", "value"], ...], or {"Name": "value", ...} */
static int
headers_read(const struct json *v, struct policy_http_request *q, struct err *err)
{
	for (size_t i = 0; json_type(v) == JSON_OBJECT && i < json_count(v); i++) {
		if (q->nheaders == HTTP_FIELDS_MAX)
			return err_set(err, ERR_INVALID, "over %d headers", HTTP_FIELDS_MAX);
		q->headers[q->nheaders].name = json_key(v, i);
		q->headers[q->nheaders++].value = json_str(json_at(v, i));
	}
	for (size_t i = 0; json_type(v) == JSON_ARRAY && i < json_count(v); i++) {
		const struct json *h = json_at(v, i);

		if (json_type(h) != JSON_ARRAY || json_count(h) != 2 ||
		    q->nheaders == HTTP_FIELDS_MAX)
			return err_set(
			    err, ERR_INVALID, "headers must be a list of [\"Name\", \"value\"]");
		q->headers[q->nheaders].name = json_str(json_at(h, 0));
		q->headers[q->nheaders++].value = json_str(json_at(h, 1));
	}
	return 0;
}

/* A body that is an object stands for its JSON. */
static int
body_read(const struct json *body, struct buf *text, struct policy_http_request *q, struct err *err)
{
	struct jcs j;
	int rc;

	if (json_type(body) != JSON_OBJECT)
		return 0;
	jcs_init(&j, text);
	rc = jcs_value(&j, NULL, body, err);
	q->body = buf_str(text);
	if (q->content_type.n == 0)
		q->content_type = str_eqz(q->method, "PATCH") ? STR("application/merge-patch+json")
							      : STR("application/json");
	return rc;
}

static int
case_http(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input"), *body = json_get(in, "body");
	AUTO_POLICY_HTTP struct policy_http h = {.facts.parsed = false};
	struct policy_http_request q = {.target = policy_member_str(in, "target"),
	    .method = policy_member_str(in, "method"),
	    .path = policy_member_str(in, "path"),
	    .content_type = policy_member_str(in, "content_type"),
	    .body = json_str(body),
	    .has_body = body != NULL};
	AUTO_BUF struct buf text = BUF(TEXT_MAX);
	int rc = headers_read(json_get(in, "headers"), &q, err);

	if (rc == 0)
		rc = body_read(body, &text, &q, err);
	if (rc == 0)
		rc = policy_http_input(p, parser, &q, &h, err);
	if (rc == 0)
		rc = input_finish(c, &h.input, err);
	if (rc == 0)
		judge(p, &h.input, NULL, json_get(c, "expect"), ret);
	return rc;
}

static int
case_kind(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	AUTO_FREE struct policy_kind *k = xcalloc(1, sizeof(*k));
	int rc = policy_kind_input(p, parser, json_get(c, "input"), k, err);

	if (rc == 0)
		rc = input_finish(c, &k->input, err);
	if (rc == 0)
		judge(p, &k->input, NULL, json_get(c, "expect"), ret);
	policy_kind_free(k);
	return rc;
}

static const struct {
	const char *group;
	policy_case_fn *fn;
} groups[] = {
    {"sql", case_sql},
    {"time", case_sql},
    {"approval", policy_case_approval},
    {"pgwire", case_pgwire},
    {"http", case_http},
    {"k8s", case_http},
    {"git", case_kind},
    {"aws", case_kind},
    {"redis", case_kind},
    {"mcp", case_kind},
};

policy_case_fn *
policy_case_find(struct str group)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (str_eqz(group, groups[i].group))
			return groups[i].fn;
	return NULL;
}

int
policy_case_own(const struct policy *p, struct cmd_parser *parser, const struct json *c,
    struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input");

	if (json_get(in, "method") != NULL)
		return case_http(p, parser, c, ret, err);
	if (json_get(in, "sql") != NULL)
		return case_sql(p, parser, c, ret, err);
	return case_kind(p, parser, c, ret, err);
}
