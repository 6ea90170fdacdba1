/*
 * `cofferdam policy diff`: what a change of a policy lets pass, for a pull request. Runs as the
 * person who reviews, or in CI; both policies are hostile text. Ends with 0 only when there is no
 * new access.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_policy.h"
#include "policy/policy_diff.h"

#include "common/banned.h"

enum diff_form { DIFF_PLAIN, DIFF_MARKDOWN, DIFF_JSON };

struct diff_args {
	const char *before, *after;
	enum diff_form form;
	int64_t now_us;
};

#define AT(f) offsetof(struct diff_args, f)

static const struct option_row rows[] = {
    {"OLD", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(before), 0, 0, NULL,
	ARG_POLICY_OR_BUNDLE_IS},
    {"NEW", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(after), 0, 0, NULL, "the one after it"},
    {"--markdown", ARG_SET | OPTION_BARE, AT(form), DIFF_MARKDOWN, 0, NULL, "for a pull request"},
    {"--json", ARG_SET | OPTION_BARE, AT(form), DIFF_JSON, 0, NULL, ARG_PROGRAMS_IS},
    {"--at", ARG_TIME, AT(now_us), 0, 0, "TIME", ARG_AT_IS},
};

/* --- gathering ----------------------------------------------------------------------- */

/* Each kind's text by itself, since examples of two kinds come mixed with the rest. */
struct gather {
	const struct diff_args *a;
	struct buf text[CHANGE_KINDS];
	size_t n[CHANGE_KINDS];
	struct jcs j;
	struct buf json;
};

static void
decision_put(struct buf *out, const struct decision *d)
{
	buf_put_z(out,
	    d->verdict == VERDICT_NEEDS_APPROVAL ? "needs approval" : verdict_name(d->verdict));
	if (d->verdict == VERDICT_NEEDS_APPROVAL && d->unsatisfiable)
		buf_put_z(out, " that nobody can give");
	for (size_t i = 0; i < d->nslots; i++)
		buf_printf(out, "%s%u %.*s", i == 0 ? " of " : " and ", d->slots[i].count,
		    STR_ARG(d->slots[i].role));
	if (d->nslots != 0)
		buf_printf(out, " within %llds, used within %llds", (long long)d->within_s,
		    (long long)d->use_within_s);
	if (d->max_rows >= 0)
		buf_printf(out, ", %lld rows at most", (long long)d->max_rows);
	for (size_t i = 0; i < d->nrules; i++)
		buf_printf(out, "%s%.*s", i == 0 ? " (" : ", ", STR_ARG(d->rules[i]));
	buf_put_z(out, d->nrules != 0 ? ")" : "");
}

static void
request_put(struct buf *out, const struct policy_request *r)
{
	AUTO_BUF struct buf text = BUF(65536);
	struct jcs j;

	jcs_init(&j, &text);
	policy_request_jcs(&j, NULL, r);
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\'' || text.p[i] == '`')
			buf_printf(out, "\\u%04x", text.p[i]);
		else
			buf_put_c(out, (char)text.p[i]);
}

static void
plain_put(struct buf *out, const struct policy_change *c)
{
	if (c->request == NULL) {
		buf_printf(out, "  %s %s\n", c->widens ? "!" : "-", c->text);
		return;
	}
	buf_put_z(out, "  ! ");
	policy_request_words(c->words, c->request, "      ", out);
	buf_put_z(out, "\n      before: ");
	decision_put(out, c->before);
	buf_put_z(out, "\n      now:    ");
	decision_put(out, c->after);
	buf_put_z(out, "\n      request: ");
	request_put(out, c->request);
	buf_put_z(out, "\n");
}

/* In code spans, so that nothing in a policy is Markdown. */
static void
span_put(struct buf *out, struct str s)
{
	buf_put_z(out, "`");
	for (size_t i = 0; i < s.n; i++)
		buf_put_c(out, s.p[i] == '`' ? '\'' : s.p[i] == '\n' ? ' ' : s.p[i]);
	buf_put_z(out, "`");
}

static void
markdown_put(struct buf *out, const struct policy_change *c)
{
	AUTO_BUF struct buf words = BUF(65536);

	if (c->request == NULL) {
		buf_printf(out, "- %s", c->widens ? "**may widen:** " : "");
		span_put(out, str_z(c->text));
		buf_put_z(out, "\n");
		return;
	}
	buf_put_z(out, "- ");
	policy_request_words(c->words, c->request, "", &words);
	span_put(out, buf_str(&words));
	buf_put_z(out, "\n  - before: ");
	buf_reset(&words);
	decision_put(&words, c->before);
	span_put(out, buf_str(&words));
	buf_put_z(out, "\n  - now: ");
	buf_reset(&words);
	decision_put(&words, c->after);
	span_put(out, buf_str(&words));
	buf_put_z(out, "\n  - request: `");
	request_put(out, c->request);
	buf_put_z(out, "`\n");
}

static void
jcs_decision(struct jcs *j, const char *key, const struct decision *d)
{
	jcs_open(j, key);
	if (d->max_rows >= 0)
		jcs_int(j, "max_rows", d->max_rows);
	jcs_array(j, "rules");
	for (size_t i = 0; i < d->nrules; i++)
		jcs_str(j, NULL, d->rules[i]);
	jcs_array_end(j);
	policy_slots_jcs(j, "slots", d->slots, d->nslots);
	jcs_z(j, "verdict", verdict_name(d->verdict));
	jcs_close(j);
}

static void
json_put(struct jcs *j, const struct policy_change *c)
{
	jcs_open(j, NULL);
	if (c->request != NULL) {
		jcs_decision(j, "after", c->after);
		jcs_decision(j, "before", c->before);
	}
	jcs_z(j, "kind", policy_change_name(c->kind));
	if (c->request != NULL)
		policy_request_jcs(j, "request", c->request);
	else
		jcs_str_lossy(j, "text", str_z(c->text));
	jcs_bool(j, "widens", c->widens);
	jcs_close(j);
}

static void
gather(void *arg, const struct policy_change *c)
{
	struct gather *g = arg;

	g->n[c->kind]++;
	switch (g->a->form) {
	case DIFF_PLAIN: plain_put(&g->text[c->kind], c); break;
	case DIFF_MARKDOWN: markdown_put(&g->text[c->kind], c); break;
	case DIFF_JSON: json_put(&g->j, c); break;
	}
}

/* --- printing ------------------------------------------------------------------------ */

static const char *const titles[CHANGE_KINDS] = {
    [CHANGE_ACCESS] = "New access: refused before, or asked for more",
    [CHANGE_TIGHTENED] = "Tightened: passed before, or asked for less",
    [CHANGE_RULE] = "Rules",
    [CHANGE_TARGET] = "Targets",
    [CHANGE_PERSON] = "People and keys",
    [CHANGE_CALENDAR] = "Calendars",
    [CHANGE_THEOREM] = "Theorems",
    [CHANGE_OTHER] = "Other",
};

static void
print_text(const struct gather *g, const struct policy_diff_sum *s)
{
	bool md = g->a->form == DIFF_MARKDOWN;

	for (int k = 0; k < CHANGE_KINDS; k++) {
		if (s->n[k] == 0)
			continue;
		(void)printf(md ? "### %s (%zu)\n\n" : "%s (%zu)\n", titles[k], s->n[k]);
		policy_print(stdout, buf_str(&g->text[k]));
		if (s->left_out[k] != 0)
			(void)printf(
			    md ? "- and %zu more\n" : "  - and %zu more\n", s->left_out[k]);
		(void)printf("\n");
	}
	(void)printf("Unchanged: %zu rules, %zu targets, %zu people, %zu calendars.\n",
	    s->same.rules, s->same.targets, s->same.people, s->same.calendars);
}

static void
print_verdict(const struct gather *g, const struct policy_diff_sum *s)
{
	bool md = g->a->form == DIFF_MARKDOWN;

	if (s->widens == 0)
		(void)printf(
		    "%sNo new access:%s of all actions that either policy tells apart, from "
		    "now on, none passes more easily than before.\n\n",
		    md ? "**" : "", md ? "**" : "");
	else
		(void)printf("%sThere may be new access:%s %zu examples of actions that pass more "
			     "easily, %zu other changes that may widen.\n\n",
		    md ? "**" : "", md ? "**" : "", s->n[CHANGE_ACCESS],
		    s->widens - s->n[CHANGE_ACCESS]);
}

static void
print_json(struct gather *g, const struct policy *const p[2], const struct policy_diff_sum *s)
{
	AUTO_BUF struct buf out = BUF((size_t)64 << 20);
	struct jcs j;

	jcs_array_end(&g->j);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_raw(&j, "changes", buf_str(&g->json));
	jcs_open(&j, "left_out");
	jcs_int(&j, "access", (int64_t)s->left_out[CHANGE_ACCESS]);
	jcs_int(&j, "tightened", (int64_t)s->left_out[CHANGE_TIGHTENED]);
	jcs_close(&j);
	jcs_bool(&j, "new_access", s->widens != 0);
	jcs_str(&j, "policy", policy_name(p[1]));
	jcs_array(&j, "serial");
	jcs_int(&j, NULL, policy_serial(p[0]));
	jcs_int(&j, NULL, policy_serial(p[1]));
	jcs_array_end(&j);
	jcs_open(&j, "unchanged");
	jcs_int(&j, "calendars", (int64_t)s->same.calendars);
	jcs_int(&j, "people", (int64_t)s->same.people);
	jcs_int(&j, "rules", (int64_t)s->same.rules);
	jcs_int(&j, "targets", (int64_t)s->same.targets);
	jcs_close(&j);
	jcs_close(&j);
	policy_print_json(&out);
}

static int
diff(const struct diff_args *a, const struct policy_file *const f[2], struct policy_diff_sum *s,
    struct err *err)
{
	struct gather g = {.a = a, .json = BUF((size_t)32 << 20)};
	struct policy *p[2] = {f[0]->policy, f[1]->policy};
	const struct policy *const both[2] = {p[0], p[1]};
	const struct policy_diff_source before = {f[0]->parts, f[0]->nparts},
					after = {f[1]->parts, f[1]->nparts};
	int rc;

	for (int k = 0; k < CHANGE_KINDS; k++)
		g.text[k] = BUF((size_t)4 << 20);
	jcs_init(&g.j, &g.json);
	jcs_array(&g.j, NULL);
	rc = policy_diff(p[0], p[1], a->now_us / 1000000, gather, &g, s, err);
	if (rc == 0 && !f[0]->bundle && !f[1]->bundle)
		policy_diff_prove(&before, &after, gather, &g, s);
	if (rc == 0 && a->form == DIFF_JSON) {
		print_json(&g, both, s);
	} else if (rc == 0) {
		(void)printf("%s%.*s: serial %lld -> %lld\n\n",
		    a->form == DIFF_MARKDOWN ? "## Policy " : "policy ", STR_ARG(policy_name(p[1])),
		    (long long)policy_serial(p[0]), (long long)policy_serial(p[1]));
		print_verdict(&g, s);
		if (policy_serial(p[1]) <= policy_serial(p[0]) &&
		    !hash_eq(policy_digest(p[0]), policy_digest(p[1])))
			(void)printf("The serial must rise: where the old policy is active, build "
				     "refuses the new one.\n\n");
		print_text(&g, s);
	}
	for (int k = 0; k < CHANGE_KINDS; k++)
		buf_free(&g.text[k]);
	buf_free(&g.json);
	return rc;
}

int
policy_diff_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file before = {0};
	AUTO_POLICY_FILE struct policy_file after = {0};
	struct policy_diff_sum s = {0};
	struct diff_args a = {.now_us = clock_wall_us()};
	struct err err = {0};

	if (!ARGS_READ("policy diff", rows, argc, argv, &a))
		return CMD_USAGE;
	if (policy_file_open(a.before, POLICY_FILE_BUNDLE, &before, &err) != 0 ||
	    policy_file_open(a.after, POLICY_FILE_BUNDLE, &after, &err) != 0 ||
	    diff(&a, (const struct policy_file *const[]){&before, &after}, &s, &err) != 0)
		return policy_undecided(&err);
	return s.widens == 0 ? CMD_OK : CMD_FAILED;
}
