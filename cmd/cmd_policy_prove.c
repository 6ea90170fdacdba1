/*
 * `cofferdam policy prove`: the theorems of a policy, each proved or refuted by an action that
 * anybody can judge again. Runs as the person who reviews; the policy is hostile text. Ends with 0
 * only when every theorem that was asked for was decided, and holds.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_policy.h"
#include "policy/policy_review.h"

#include "common/banned.h"

struct prove_args {
	const char *file;
	bool json, cases;
	int64_t now_us;
	struct arg_many ids; /* none: all */
};

#define AT(f) offsetof(struct prove_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL, ARG_POLICY_IS},
    {"THEOREM", ARG_MANY | OPTION_WORD | OPTION_MANY, AT(ids), 0, 0, NULL,
	"these alone (default: all)"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_PROGRAMS_IS},
    {"--at", ARG_TIME, AT(now_us), 0, 0, "TIME", ARG_AT_IS},
    {"--cases-policy", OPTION_FLAG, AT(cases), 0, 0, NULL, ARG_CASES_IS},
};

static bool
is_asked(const struct prove_args *a, struct str id)
{
	for (size_t i = 0; i < a->ids.n; i++)
		if (str_eqz(id, a->ids.v[i]))
			return true;
	return a->ids.n == 0;
}

/* --- for people ---------------------------------------------------------------------- */

static void
print_list(const char *before, const struct str *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)printf("%s%.*s", i == 0 ? before : ", ", STR_ARG(v[i]));
}

/* JSON for a shell: the policy's own names must not end the quotes. */
static void
print_quoted(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		policy_print(stdout, s.p[i] == '\'' ? STR("\\u0027") : (struct str){s.p + i, 1});
}

static void
print_counterexample(
    const struct prove_args *a, const struct policy *p, const struct policy_counterexample *ce)
{
	AUTO_BUF struct buf words = BUF(65536);
	AUTO_BUF struct buf request = BUF(65536);
	struct jcs j;

	policy_request_words(p, &ce->request, "  ", &words);
	jcs_init(&j, &request);
	policy_request_jcs(&j, NULL, &ce->request);
	(void)printf("  ");
	policy_print(stdout, buf_str(&words));
	(void)printf("\n  is allowed");
	print_list(": permitted by ", ce->permits, ce->npermits);
	if (ce->nrequires != 0)
		print_list("; signatures asked for by ", ce->requires, ce->nrequires);
	else
		(void)printf("; no rule asks for a signature");
	(void)printf("\n  see: cofferdam policy explain %s%s --request '", a->file,
	    a->cases ? " --cases-policy" : "");
	print_quoted(buf_str(&request));
	(void)printf("'\n");
}

/* --- JSON ---------------------------------------------------------------------------- */

static void
jcs_list(struct jcs *j, const char *key, const struct str *v, size_t n)
{
	jcs_array(j, key);
	for (size_t i = 0; i < n; i++)
		jcs_str(j, NULL, v[i]);
	jcs_array_end(j);
}

static void
jcs_theorem(struct jcs *j, const struct policy_theorem *t, bool holds,
    const struct policy_counterexample *ce)
{
	jcs_open(j, NULL);
	if (!holds) {
		jcs_open(j, "counterexample");
		jcs_list(j, "permits", ce->permits, ce->npermits);
		policy_request_jcs(j, "request", &ce->request);
		jcs_list(j, "requires", ce->requires, ce->nrequires);
		jcs_close(j);
	}
	jcs_bool(j, "holds", holds);
	jcs_str(j, "id", t->id);
	if (t->idle)
		jcs_bool(j, "idle", true);
	jcs_close(j);
}

/* --- all of them --------------------------------------------------------------------- */

struct tally {
	size_t asked, hold;
};

static bool
is_there(const struct policy_review *r, const char *id)
{
	for (size_t i = 0; i < policy_theorem_count(r); i++)
		if (str_eqz(policy_theorem_at(r, i)->id, id))
			return true;
	return false;
}

static int
prove_all(const struct prove_args *a, const struct policy *p, struct policy_review *r,
    struct jcs *j, struct tally *ret, struct err *err)
{
	for (size_t i = 0; i < policy_theorem_count(r); i++) {
		const struct policy_theorem *t = policy_theorem_at(r, i);
		struct policy_counterexample ce = {0};
		bool holds = false;
		int rc;

		if (!is_asked(a, t->id))
			continue;
		rc = policy_prove(r, i, &holds, &ce, err);
		if (rc != 0)
			return rc;
		ret->asked++;
		ret->hold += holds;
		if (a->json) {
			jcs_theorem(j, t, holds, &ce);
			continue;
		}
		(void)printf("%.*s %s", STR_ARG(t->id),
		    !holds    ? "DOES NOT HOLD"
		    : t->idle ? "holds, but of nothing: no target is one that it speaks of"
			      : "holds");
		if (t->why.n != 0)
			(void)printf(": %.*s", STR_ARG(t->why));
		(void)printf("\n");
		if (!holds)
			print_counterexample(a, p, &ce);
	}
	for (size_t i = 0; i < a->ids.n; i++)
		if (!is_there(r, a->ids.v[i]))
			return err_set(err, ERR_NOT_FOUND, "%s: no theorem is named \"%s\"",
			    a->file, a->ids.v[i]);
	return 0;
}

static int
prove(const struct prove_args *a, struct policy_file *f, struct tally *ret, struct err *err)
{
	AUTO(policy_review) struct policy_review *r = NULL;
	AUTO_BUF struct buf out = BUF((size_t)4 << 20);
	AUTO_BUF struct buf size = BUF(1024);
	struct jcs j;
	int rc = policy_review_new(f->policy, f->parts, f->nparts, a->now_us / 1000000, &r, err);

	if (rc != 0)
		return err_wrap(err, "%s", a->file);
	policy_review_size(r, &size);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_str(&j, "looked_at", buf_str(&size));
	jcs_str(&j, "policy", policy_name(f->policy));
	jcs_array(&j, "theorems");
	rc = prove_all(a, f->policy, r, &j, ret, err);
	if (rc != 0)
		return rc;
	jcs_array_end(&j);
	jcs_close(&j);
	if (a->json)
		policy_print_json(&out);
	else
		(void)printf("%zu theorems, %zu hold; looked at every combination of %.*s\n",
		    ret->asked, ret->hold, STR_ARG(buf_str(&size)));
	return 0;
}

int
policy_prove_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	struct prove_args a = {.now_us = clock_wall_us()};
	struct tally t = {0};
	struct err err = {0};

	if (!ARGS_READ("policy prove", rows, argc, argv, &a))
		return CMD_USAGE;
	if (policy_file_open(a.file, a.cases ? POLICY_FILE_CASES : 0, &f, &err) != 0 ||
	    prove(&a, &f, &t, &err) != 0)
		return policy_undecided(&err);
	return t.hold == t.asked ? CMD_OK : CMD_FAILED;
}
