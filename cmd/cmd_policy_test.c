/*
 * `cofferdam policy test`: a policy's own cases, those of case files judged by it, or case files
 * with the policy inside them, as TAP. Facts come from the confined parser, effects and verdict
 * from the code that core links. A case that cannot be run is said to be so; none is left out in
 * silence.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define GROUPS_MAX 32
#define SOURCES_MAX 256

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
	struct arg_many files, groups;
	bool cases_policy;
};

#define AT(f) offsetof(struct test_args, f)

static const struct option_row rows[] = {
    {"POLICY", ARG_MANY | OPTION_WORD | OPTION_MANY | OPTION_NEEDED, AT(files), 0, 0, NULL,
	"a policy or a bundle, and behind it files of cases to judge by it"},
    {"--cases-policy", OPTION_FLAG, AT(cases_policy), 0, 0, NULL,
	"each file is a case file, judged by the policy inside it"},
    {"--group", ARG_MANY, AT(groups), 0, 0, "NAME", "only cases of this group; may be repeated"},
};

static bool
is_selected(const struct test_args *a, struct str group)
{
	for (size_t i = 0; i < a->groups.n; i++)
		if (str_eqz(group, a->groups.v[i]))
			return true;
	return a->groups.n == 0;
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

/* Cases that stand in one document, and the policy that they are judged by. */
struct source {
	const struct policy *p;
	const struct json_doc *doc;
	const struct json *cases;
	bool own; /* of the policy's own file: read with it */
};

struct sources {
	struct source v[SOURCES_MAX];
	size_t n, total; /* cases that were asked for */
	struct policy_file files[ARG_MANY_MAX];
	size_t nfiles;
	struct json_doc *docs[ARG_MANY_MAX];
	size_t ndocs;
};

static void
sources_free(struct sources *s)
{
	for (size_t i = 0; i < s->nfiles; i++)
		policy_file_free(&s->files[i]);
	for (size_t i = 0; i < s->ndocs; i++)
		json_free(s->docs[i]);
}

static int
source_put(struct sources *s, const struct test_args *a, struct source one, const char *file,
    struct err *err)
{
	if (one.cases == NULL || json_type(one.cases) != JSON_ARRAY)
		return err_set(err, ERR_CONFIG, "%s has no \"cases\"", file);
	if (s->n == SOURCES_MAX)
		return err_set(
		    err, ERR_CONFIG, "%s: cases in more than %d files", file, SOURCES_MAX);
	for (size_t i = 0; i < json_count(one.cases); i++)
		s->total += is_selected(a, policy_member_str(json_at(one.cases, i), "group"));
	s->v[s->n++] = one;
	return 0;
}

/* A case file, judged by `p`. */
static int
open_cases(struct sources *s, const struct test_args *a, const struct policy *p, const char *file,
    struct err *err)
{
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	struct json_doc **doc = &s->docs[s->ndocs];
	int rc = file_read(AT_FDCWD, file, &text, err);

	if (rc == 0)
		rc = json_parse(buf_str(&text), file, doc, err);
	if (rc != 0)
		return rc;
	s->ndocs++;
	return source_put(s, a,
	    (struct source){.p = p, .doc = *doc, .cases = json_get(json_root(*doc), "cases")}, file,
	    err);
}

/* A file that holds policy and cases: keys may be bare fingerprints there. */
static int
open_cases_policy(struct sources *s, const struct test_args *a, const char *file, struct err *err)
{
	struct policy_file *f = &s->files[s->nfiles++];
	int rc = policy_file_open(file, POLICY_FILE_CASES, f, err);

	if (rc != 0)
		return rc;
	return source_put(s, a,
	    (struct source){.p = f->policy,
		.doc = f->docs.v[0],
		.cases = json_get(json_root(f->docs.v[0]), "cases")},
	    file, err);
}

/* The policy with its own cases, which may stand in several files. */
static int
open_policy(struct sources *s, const struct test_args *a, struct err *err)
{
	struct policy_file *f = &s->files[s->nfiles++];
	int rc = policy_file_open(a->files.v[0], POLICY_FILE_BUNDLE, f, err);

	for (size_t i = 0; rc == 0 && i < f->nparts; i++) {
		const struct json *cases = json_get(f->parts[i].v, "cases");

		if (cases != NULL)
			rc = source_put(s, a,
			    (struct source){f->policy, f->parts[i].doc, cases, true}, a->files.v[0],
			    err);
	}
	return rc;
}

static int
open_all(struct sources *s, const struct test_args *a, struct err *err)
{
	int rc = a->cases_policy ? 0 : open_policy(s, a, err);

	for (size_t i = a->cases_policy ? 0 : 1; rc == 0 && i < a->files.n; i++)
		rc = a->cases_policy ? open_cases_policy(s, a, a->files.v[i], err)
				     : open_cases(s, a, s->files[0].policy, a->files.v[i], err);
	if (rc == 0 && s->n == 0)
		return err_set(err, ERR_CONFIG, "%s has no \"cases\"", a->files.v[0]);
	if (rc == 0 && s->total == 0)
		return err_set(
		    err, ERR_CONFIG, "%s: no case of the groups asked for", a->files.v[0]);
	return rc;
}

/* A case of a case file belongs to a group; one of a policy tells by its input what it is. */
static void
run_source(struct runner *r, const struct test_args *a, const struct source *s)
{
	r->p = s->p;
	r->doc = s->doc;
	for (size_t i = 0; i < json_count(s->cases); i++) {
		const struct json *c = json_at(s->cases, i);
		struct str group = policy_member_str(c, "group");
		policy_case_fn *fn =
		    s->own || group.n == 0 ? policy_case_own : policy_case_find(group);

		if (!is_selected(a, group))
			continue;
		if (fn != NULL)
			run_case(r, c, fn);
		else
			skip_case(r, c);
	}
	if (!s->own)
		print_rest(a, s->cases);
}

static int
test_all(struct runner *r, const struct test_args *a, struct err *err)
{
	AUTO_FREE struct sources *s = xcalloc(1, sizeof(*s));
	int rc = open_all(s, a, err);

	if (rc == 0) {
		(void)printf("TAP version 13\n1..%zu\n", s->total);
		for (size_t i = 0; i < s->n; i++)
			run_source(r, a, &s->v[i]);
	}
	sources_free(s);
	return rc;
}

int
policy_test_main(int argc, char **argv)
{
	AUTO(cmd_parser) struct cmd_parser *parser = NULL;
	struct test_args a = {0};
	struct runner r = {0};
	struct err err = {0};

	if (!ARGS_READ("policy test", rows, argc, argv, &a))
		return CMD_USAGE;
	if (cmd_parser_start(&parser, &err) != 0)
		return policy_fail(&err);
	r.parser = parser;
	if (test_all(&r, &a, &err) != 0)
		return policy_fail(&err);
	(void)printf("# %zu run, %zu failed", r.n - r.skipped, r.failed);
	if (r.skipped != 0)
		(void)printf(", %zu skipped", r.skipped);
	(void)printf("\n");
	return r.failed == 0 ? CMD_OK : CMD_FAILED;
}
