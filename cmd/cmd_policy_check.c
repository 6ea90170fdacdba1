/*
 * `cofferdam policy check`: what is wrong with a policy, where, and what to write instead. Runs as
 * the person who reviews; the policy is hostile text. What is refused ends it at once, what is
 * doubtful is told in one line each; the theorems are proved as `policy prove` does.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_policy.h"
#include "common/jcs.h"
#include "policy/calendar.h"

#include "common/banned.h"

struct check_args {
	const char *file;
	bool json, strict, cases;
	int64_t now_us;
};

#define AT(f) offsetof(struct check_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL, ARG_POLICY_IS},
    {"--strict", OPTION_FLAG, AT(strict), 0, 0, NULL, "a warning ends with 1, too"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_PROGRAMS_IS},
    {"--at", ARG_TIME, AT(now_us), 0, 0, "TIME", ARG_AT_IS},
    {"--cases-policy", OPTION_FLAG, AT(cases), 0, 0, NULL, ARG_CASES_IS},
};

/* --- what is told -------------------------------------------------------------------- */

/* Warnings as lines for people, and as JSON. */
struct report {
	bool json;
	size_t n;
	struct jcs j;
	struct buf out;
	struct json_mark mark; /* of the finding before */
};

static void
report_put(struct report *r, struct str file, unsigned line, unsigned col, const char *code,
    struct str text)
{
	r->n++;
	if (!r->json) {
		policy_print(stderr, file);
		(void)fprintf(stderr, ":%u:%u: warning: ", line, col);
		policy_print(stderr, text);
		(void)fprintf(stderr, " [%s]\n", code);
		return;
	}
	jcs_open(&r->j, NULL);
	jcs_z(&r->j, "code", code);
	jcs_int(&r->j, "column", col);
	jcs_str_lossy(&r->j, "file", file);
	jcs_int(&r->j, "line", line);
	jcs_str_lossy(&r->j, "text", text);
	jcs_close(&r->j);
}

static void
report_finding(void *arg, const struct policy_finding *f)
{
	struct report *r = arg;

	json_where_next(&r->mark, f->at.doc, f->at.v);
	report_put(
	    r, str_z(json_name(f->at.doc)), r->mark.line, r->mark.col, f->code, str_z(f->text));
}

/* "file:line:column: warning: text", as the reader of policies puts them. */
static void
report_read(struct report *r, struct str lines)
{
	static const char mark[] = ": warning: ";
	struct str line;

	while (str_cut(&lines, '\n', &line)) {
		const char *at =
		    line.n != 0 ? memmem(line.p, line.n, mark, sizeof(mark) - 1) : NULL;
		uint64_t n[2] = {0};
		struct str place, text;

		if (at == NULL)
			continue;
		place = (struct str){line.p, (size_t)(at - line.p)};
		text = (struct str){
		    at + sizeof(mark) - 1, (size_t)(line.p + line.n - at) - (sizeof(mark) - 1)};
		for (int k = 1; k >= 0; k--) {
			size_t i = place.n;

			while (i > 0 && place.p[i - 1] != ':')
				i--;
			(void)str_to_u64((struct str){place.p + i, place.n - i}, 1u << 30, &n[k]);
			place.n = i > 0 ? i - 1 : 0;
		}
		report_put(r, place, (unsigned)n[0], (unsigned)n[1], "read", text);
	}
}

/* --- theorems ------------------------------------------------------------------------ */

int
policy_check_theorems(
    struct policy_review *r, const char *file, struct policy_theorems *ret, struct err *err)
{
	for (size_t i = 0; i < policy_theorem_count(r); i++) {
		const struct policy_theorem *t = policy_theorem_at(r, i);
		struct policy_counterexample ce;
		bool holds = false;
		int rc = policy_prove(r, i, &holds, &ce, err);

		if (rc != 0)
			return rc;
		ret->n++;
		if (holds)
			continue;
		if (ret->failed++ == 0)
			ret->first = t->id;
		(void)fprintf(stderr,
		    "cofferdam: %s: theorem %.*s does not hold; see `cofferdam policy prove %s "
		    "%.*s`\n",
		    file, STR_ARG(t->id), file, STR_ARG(t->id));
	}
	return 0;
}

/* --- all of it ----------------------------------------------------------------------- */

static size_t
count_of(const struct policy_file *f, const char *key)
{
	size_t n = 0;

	for (size_t i = 0; i < f->nparts; i++)
		n += json_count(json_get(f->parts[i].v, key));
	return n;
}

void
policy_summary_print(const struct policy_file *f)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(policy_digest(f->policy), hex);
	(void)printf("policy %.*s serial %lld: %zu targets, %zu people, %zu calendars, %zu rules\n",
	    STR_ARG(policy_name(f->policy)), (long long)policy_serial(f->policy),
	    policy_target_count(f->policy), policy_person_count(f->policy),
	    policy_calendar_count(f->policy), count_of(f, "rules"));
	(void)printf("digest sha256:%s\ntzdata %.*s\n", hex, STR_ARG(policy_tzdata(f->policy)));
	if (count_of(f, "cases") != 0)
		(void)printf("cases: %zu, run by `cofferdam policy test`\n", count_of(f, "cases"));
}

static void
print_json(struct report *r, const struct policy_file *f, const struct policy_theorems *t)
{
	AUTO_BUF struct buf out = BUF((size_t)32 << 20);
	char hex[HASH_HEX_SIZE];
	struct jcs j;

	hash_hex(policy_digest(f->policy), hex);
	jcs_array_end(&r->j);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_z(&j, "digest", hex);
	jcs_str(&j, "policy", policy_name(f->policy));
	jcs_int(&j, "serial", policy_serial(f->policy));
	jcs_open(&j, "theorems");
	jcs_int(&j, "hold", (int64_t)(t->n - t->failed));
	jcs_int(&j, "total", (int64_t)t->n);
	jcs_close(&j);
	jcs_str(&j, "tzdata", policy_tzdata(f->policy));
	jcs_raw(&j, "warnings", buf_str(&r->out));
	jcs_close(&j);
	policy_print_json(&out);
}

/* What would take too long to decide is said, and is no error of the policy. */
static void
say_undecided(const char *what, const struct err *why)
{
	(void)fprintf(stderr, "cofferdam: %s: not decided: ", what);
	policy_print(stderr, str_z(why->msg));
	(void)fprintf(stderr, "\n");
}

static int
check(const struct check_args *a, struct policy_file *f, struct report *r)
{
	AUTO(policy_review) struct policy_review *review = NULL;
	struct policy_theorems t = {0};
	bool undecided = false;
	struct err err = {0};

	report_read(r, buf_str(&f->warnings));
	if (policy_review_new(f->policy, f->parts, f->nparts, a->now_us / 1000000, &review, &err) !=
	    0) {
		say_undecided(a->file, &err);
		undecided = true;
	} else {
		policy_lint_theorems(review, report_finding, r);
		policy_lint_calendars(review, a->now_us / 1000000, report_finding, r);
		if (policy_lint_rules(review, report_finding, r, &err) != 0) {
			say_undecided("rules that change nothing", &err);
			undecided = true;
		}
		if (policy_check_theorems(review, a->file, &t, &err) != 0) {
			say_undecided("theorems", &err);
			undecided = true;
		}
	}
	if (r->json)
		print_json(r, f, &t);
	else
		policy_summary_print(f);
	if (!r->json && t.n != 0)
		(void)printf("prove: %zu of %zu theorems hold\n", t.n - t.failed, t.n);
	return t.failed != 0 || (a->strict && (r->n != 0 || undecided)) ? CMD_FAILED : CMD_OK;
}

int
policy_check_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	struct report r = {.out = BUF((size_t)16 << 20)};
	struct check_args a = {.now_us = clock_wall_us()};
	struct err err = {0};
	int rc;

	if (!ARGS_READ("policy check", rows, argc, argv, &a))
		return CMD_USAGE;
	if (policy_file_open(a.file, a.cases ? POLICY_FILE_CASES : POLICY_FILE_CA, &f, &err) != 0)
		return policy_fail(&err);
	r.json = a.json;
	jcs_init(&r.j, &r.out);
	jcs_array(&r.j, NULL);
	rc = check(&a, &f, &r);
	buf_free(&r.out);
	return rc;
}
