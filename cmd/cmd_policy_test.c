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

struct runner {
	const struct policy *p;
	const struct json_doc *doc;
	struct cmd_parser *parser;
	size_t n, failed, skipped;
};

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
run_case(struct runner *r, const struct json *c, policy_case_fn *fn)
{
	struct policy_case_result res = {.why = BUF(32768)};
	struct err err = {0};

	r->n++;
	if (case_check(r, c, &err) != 0 || fn(r->p, r->parser, c, &res, &err) != 0) {
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

		if (is_selected(a, group) && policy_case_find(group) != NULL)
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
		    policy_case_find(t[k].group) != NULL ? "not asked for" : "not supported yet");
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
		policy_case_fn *fn = policy_case_find(group);

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
	int rc = policy_file_open(a->file, 0, &f, err);

	if (rc != 0)
		return rc;
	if (policy_docs_count(&f.docs, "cases") == 0)
		return err_set(err, ERR_CONFIG, "%s has no \"cases\"", a->file);
	r->p = f.policy;
	(void)printf("TAP version 13\n1..%zu\n", policy_docs_count(&f.docs, "cases"));
	for (size_t k = 0; k < f.docs.n; k++) {
		const struct json *cases = json_get(json_root(f.docs.v[k]), "cases");

		r->doc = f.docs.v[k];
		for (size_t i = 0; i < json_count(cases); i++)
			run_case(r, json_at(cases, i), policy_case_own);
	}
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
