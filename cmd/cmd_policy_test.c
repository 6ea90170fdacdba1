/*
 * `cofferdam policy test`: a policy's own cases, or a file of policy and cases together, as
 * TAP. Facts come from the confined parser, effects and verdict from the code that core
 * links. A case that cannot be run is said to be so; none is left out in silence.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/hash.h"
#include "policy/policy_source.h"

#include "common/banned.h"

#define GROUPS_MAX 32
#define TEXT_MAX ((size_t)1 << 20)

struct runner {
	const struct policy *p;
	const struct json_doc *doc;
	struct cmd_parser *parser;
	size_t n, failed, skipped;
};

typedef int case_fn(
    struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err);

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
judge(struct runner *r, struct policy_input *in, const char *unapprovable,
    const struct json *expect, struct policy_case_result *ret)
{
	AUTO_BUF struct buf verdict = BUF(64);
	AUTO_BUF struct buf effects = BUF(512);
	AUTO_BUF struct buf rules = BUF(8192);
	AUTO_BUF struct buf slots = BUF(8192);
	struct decision d;

	(void)policy_sql_judge(r->p, unapprovable, in, &d);
	buf_put_z(&verdict, verdict_name(d.verdict));
	effect_put(&effects, d.effects);
	for (size_t i = 0; i < d.nrules; i++)
		buf_printf(&rules, "%s%.*s", i != 0 ? " " : "", STR_ARG(d.rules[i]));
	for (size_t i = 0; i < d.nslots; i++)
		buf_printf(&slots, "%s%.*s:%u", i != 0 ? " " : "", STR_ARG(d.slots[i].role),
		    d.slots[i].count);
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
	int rc = clock_parse(policy_member_str(c, "at"), &in->at.us, err);

	if (rc != 0)
		return err_wrap(err, "at");
	in->at.known = true;
	if (owner == NULL)
		owner = json_get(v, "run_owner");
	in->owner = owner != NULL ? json_str(owner) : STR_NONE;
	in->agent = agent != NULL ? json_str(agent) : STR_NONE;
	return 0;
}

static int
case_sql(struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input");
	AUTO_POLICY_SQL struct policy_sql s = {0};
	AUTO_BUF struct buf text = BUF(TEXT_MAX);
	int rc = sql_text(in, &text, err);

	if (rc == 0)
		rc = policy_sql_input(
		    r->p, r->parser, policy_member_str(in, "target"), buf_str(&text), &s, err);
	if (rc == 0)
		rc = input_finish(c, &s.input, err);
	if (rc == 0)
		judge(r, &s.input, s.unapprovable, json_get(c, "expect"), ret);
	return rc;
}

/* Each message is one statement; the transaction is judged with the union. */
static int
case_pipeline(
    struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err)
{
	const struct json *list = json_get(json_get(c, "input"), "pipeline");
	struct str target = policy_member_str(json_get(c, "input"), "target");
	struct policy_input in = policy_input_for(r->p, target);
	const char *unapprovable = NULL;
	int rc;

	for (size_t i = 0; i < json_count(list); i++) {
		AUTO_POLICY_SQL struct policy_sql s = {0};

		rc = policy_sql_input(r->p, r->parser, target, json_str(json_at(list, i)), &s, err);
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
		judge(r, &in, unapprovable, json_get(c, "expect"), ret);
	return rc;
}

static int
case_message(
    struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err)
{
	const struct json *v = json_get(c, "input"), *params = json_get(v, "params");
	struct str message = policy_member_str(v, "message");
	struct policy_input in = policy_input_for(r->p, policy_member_str(v, "target"));
	int rc = input_finish(c, &in, err);

	if (rc != 0)
		return rc;
	if (str_eqz(message, "FunctionCall"))
		in.effects = EFFECT_opaque;
	else if (!str_eqz(message, "StartupMessage"))
		return err_set(err, ERR_INVALID, "unknown message \"%.*s\"", STR_ARG(message));
	for (size_t i = 0; params != NULL && i < json_count(params); i++)
		in.effects |= effects_pg_startup(json_key(params, i), json_str(json_at(params, i)));
	judge(r, &in, NULL, json_get(c, "expect"), ret);
	return 0;
}

static int
case_pgwire(struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err)
{
	const struct json *in = json_get(c, "input");

	if (json_get(in, "pipeline") != NULL)
		return case_pipeline(r, c, ret, err);
	if (str_eqz(policy_member_str(in, "message"), "Query"))
		return case_sql(r, c, ret, err);
	return case_message(r, c, ret, err);
}

static int
case_approval(
    struct runner *r, const struct json *c, struct policy_case_result *ret, struct err *err)
{
	return policy_case_approval(r->p, r->parser, c, ret, err);
}

static const struct {
	const char *group;
	case_fn *fn;
} groups[] = {
    {"sql", case_sql},
    {"time", case_sql},
    {"approval", case_approval},
    {"pgwire", case_pgwire},
};

static case_fn *
group_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (str_eqz(name, groups[i].group))
			return groups[i].fn;
	return NULL;
}

/* --- TAP ----------------------------------------------------------------------------- */

static void
print_comment(struct str s)
{
	struct str line;

	while (s.n != 0) {
		if (!str_cut(&s, '\n', &line)) {
			line = s;
			s.n = 0;
		}
		(void)printf("#   ");
		policy_print(stdout, line);
		(void)printf("\n");
	}
}

/* An id comes from the file: nothing in it may look like another line or directive of TAP. */
static void
print_result(bool ok, size_t n, const struct json *c)
{
	struct str id = policy_member_str(c, "id");

	(void)printf("%sok %zu - ", ok ? "" : "not ", n);
	for (size_t i = 0; i < id.n; i++)
		policy_print(stdout,
		    id.p[i] == '\n' || id.p[i] == '#' ? STR("?") : (struct str){id.p + i, 1});
}

/* A policy's own cases were checked when it was read; a case file comes as it is. */
static int
case_check(struct runner *r, const struct json *c, struct err *err)
{
	const struct json *in, *expect;

	if (json_type(c) != JSON_OBJECT)
		return json_err(r->doc, c, err, ERR_INVALID, "a case must be an object");
	in = json_get(c, "input");
	expect = json_get(c, "expect");
	if (in == NULL || expect == NULL || json_type(in) != JSON_OBJECT ||
	    json_type(expect) != JSON_OBJECT || policy_member_str(expect, "verdict").n == 0)
		return json_err(r->doc, c, err, ERR_INVALID,
		    "a case needs \"input\" and \"expect\" with a verdict");
	if (policy_target(r->p, policy_member_str(in, "target")) == NULL)
		return json_err(r->doc, in, err, ERR_INVALID, "no target is named \"%.*s\"",
		    STR_ARG(policy_member_str(in, "target")));
	return 0;
}

static void
run_case(struct runner *r, const struct json *c, case_fn *fn)
{
	struct policy_case_result res = {.why = BUF(32768)};
	struct err err = {0};

	r->n++;
	if (case_check(r, c, &err) != 0 || fn(r, c, &res, &err) != 0) {
		res.ok = false;
		buf_put_z(&res.why, err.msg);
	}
	print_result(res.ok, r->n, c);
	(void)printf("\n");
	if (!res.ok)
		print_comment(buf_str(&res.why));
	r->failed += !res.ok;
	buf_free(&res.why);
}

static void
skip_case(struct runner *r, const struct json *c)
{
	r->n++;
	r->skipped++;
	print_result(true, r->n, c);
	(void)printf(" # SKIP this group is not supported yet\n");
}

struct test_args {
	const char *file;
	bool cases_policy;
	size_t ngroups;
	const char *groups[GROUPS_MAX];
};

static bool
is_selected(const struct test_args *a, struct str group)
{
	for (size_t i = 0; i < a->ngroups; i++)
		if (str_eqz(group, a->groups[i]))
			return true;
	return a->ngroups == 0;
}

struct tally {
	struct str group;
	size_t n;
};

/* Groups that were left out, with their numbers. */
static void
print_rest(const struct test_args *a, const struct json *cases)
{
	struct tally t[GROUPS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < json_count(cases); i++) {
		struct str group = policy_member_str(json_at(cases, i), "group");
		size_t k = 0;

		if (is_selected(a, group) && group_find(group) != NULL)
			continue;
		while (k < n && !str_eq(t[k].group, group))
			k++;
		if (k == GROUPS_MAX)
			continue;
		if (k == n)
			t[n++] = (struct tally){group, 0};
		t[k].n++;
	}
	for (size_t k = 0; k < n; k++) {
		(void)printf("# %s: group ",
		    group_find(t[k].group) != NULL ? "not asked for" : "not supported yet");
		policy_print(stdout, t[k].group);
		(void)printf(", %zu cases\n", t[k].n);
	}
}

static int
run_groups(struct runner *r, const struct test_args *a, struct err *err)
{
	const struct json *cases = json_get(json_root(r->doc), "cases");
	size_t n = 0;

	if (cases == NULL || json_type(cases) != JSON_ARRAY)
		return err_set(err, ERR_CONFIG, "%s has no \"cases\"", a->file);
	for (size_t i = 0; i < json_count(cases); i++)
		n += is_selected(a, policy_member_str(json_at(cases, i), "group"));
	if (n == 0)
		return err_set(err, ERR_CONFIG, "%s: no case of the groups asked for", a->file);
	(void)printf("TAP version 13\n1..%zu\n", n);
	for (size_t i = 0; i < json_count(cases); i++) {
		const struct json *c = json_at(cases, i);
		struct str group = policy_member_str(c, "group");
		case_fn *fn = group_find(group);

		if (!is_selected(a, group))
			continue;
		if (fn != NULL)
			run_case(r, c, fn);
		else
			skip_case(r, c);
	}
	print_rest(a, cases);
	return 0;
}

/* A file that holds policy and cases: keys may be bare fingerprints there. */
static int
test_cases_policy(struct runner *r, const struct test_args *a, struct err *err)
{
	const struct policy_source src = {.name = a->file, .opaque_keys = true};
	AUTO(json) struct json_doc *doc = NULL;
	AUTO(policy) struct policy *p = NULL;
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	AUTO_BUF struct buf warnings = BUF((size_t)1 << 20);
	const struct json *policy;
	int rc = file_read(AT_FDCWD, a->file, &text, err);

	if (rc == 0)
		rc = json_parse(buf_str(&text), a->file, &doc, err);
	if (rc != 0)
		return rc;
	policy = json_get(json_root(doc), "policy");
	if (policy == NULL)
		return err_set(err, ERR_CONFIG, "%s has no \"policy\"", a->file);
	rc = policy_parse_value(doc, policy, &src, &p, &warnings, err);
	if (rc != 0)
		return rc;
	r->p = p;
	r->doc = doc;
	return run_groups(r, a, err);
}

static int
test_policy(struct runner *r, const struct test_args *a, struct err *err)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	const struct json *cases;
	int rc = policy_file_open(a->file, 0, &f, err);

	if (rc != 0)
		return rc;
	cases = json_get(json_root(f.doc), "cases");
	if (cases == NULL || json_count(cases) == 0)
		return err_set(err, ERR_CONFIG, "%s has no \"cases\"", a->file);
	r->p = f.policy;
	r->doc = f.doc;
	(void)printf("TAP version 13\n1..%zu\n", json_count(cases));
	for (size_t i = 0; i < json_count(cases); i++)
		run_case(r, json_at(cases, i), case_sql);
	return 0;
}

static bool
test_args_read(int argc, char **argv, struct test_args *a)
{
	static const struct option options[] = {
	    {"cases-policy", no_argument, NULL, 'c'},
	    {"group", required_argument, NULL, 'g'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'c')
			a->cases_policy = true;
		else if (c == 'g' && a->ngroups < GROUPS_MAX)
			a->groups[a->ngroups++] = optarg;
		else
			return false;
	}
	if (optind + 1 != argc || (a->ngroups != 0 && !a->cases_policy))
		return false;
	a->file = argv[optind];
	return true;
}

int
policy_test_main(int argc, char **argv)
{
	AUTO(cmd_parser) struct cmd_parser *parser = NULL;
	struct test_args a = {0};
	struct runner r = {0};
	struct err err = {0};
	int rc;

	if (!test_args_read(argc, argv, &a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam policy test FILE\n"
		    "       cofferdam policy test --cases-policy [--group NAME]... FILE\n");
		return CMD_USAGE;
	}
	if (cmd_parser_start(&parser, &err) != 0)
		return policy_fail(&err);
	r.parser = parser;
	rc = a.cases_policy ? test_cases_policy(&r, &a, &err) : test_policy(&r, &a, &err);
	if (rc != 0)
		return policy_fail(&err);
	(void)printf("# %zu run, %zu failed", r.n - r.skipped, r.failed);
	if (r.skipped != 0)
		(void)printf(", %zu skipped", r.skipped);
	(void)printf("\n");
	return r.failed == 0 ? CMD_OK : CMD_FAILED;
}
