/*
 * `cofferdam replay whatif`: every recorded action is judged again, by the one verdict function, on
 * the recorded input at the recorded instant (or one that is told) with the recorded grants. Runs
 * as the reviewer. Under the recorded policy the recorded verdicts must come out, all of them; what
 * cannot be judged is UNKNOWN or ERROR, never taken for unchanged. The log is read once: that it is
 * the one that was signed shows at its end.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/replay_blobs.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_replay.h"
#include "cmd/cmd_replay_effects.h"
#include "cmd/cmd_replay_input.h"
#include "cmd/cmd_replay_policies.h"
#include "cmd/cmd_replay_reclassify.h"
#include "cmd/cmd_replay_signed.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/facts.h"
#include "policy/policy.h"

#include "common/banned.h"

#define OTHER_MAX ((size_t)256 << 10)

enum outcome { UNCHANGED, CHANGED, UNKNOWN, ERROR };

/* A run whose agent would have got another answer. */
struct diverged {
	struct diverged *next;
	char *run;
};

struct args {
	const char *state, *vkey, *policy, *run, *at;
	bool all, reclassify;
};

struct whatif {
	const struct args *a;
	int64_t at_us; /* --at */
	struct cmd_place place;
	struct replay_blobs *blobs;
	struct policy *given; /* --policy */
	struct replay_policies *recorded;
	struct diverged *diverged;
	struct canon_tree *tree;
	struct replay_effects *effects;
	struct reclassify *reclassify; /* --reclassify; else NULL */
	struct replay_input input;     /* of the action at hand */
	struct decision decision;
	uint64_t total, of[4], conditional, reclassified;
	struct buf other; /* what the bytes of the action at hand are now; empty: what they were */
	uint64_t moved[3][3]; /* recorded verdict, verdict now */
	bool found;	      /* the run that was asked for */
	bool holds;	      /* the log */
	struct replay_signed *log;
};

/* --- comparing -------------------------------------------------------------------------------- */

static bool
same_list(const struct canon_node *a, const struct str *s, size_t n)
{
	const struct canon_node *v = canon_first(a);

	if (a == NULL || canon_count(a) != n)
		return false;
	for (size_t i = 0; i < n; i++, v = canon_behind(v))
		if (!str_eq(canon_text(v), s[i]))
			return false;
	return true;
}

/* Under the recorded policy not only the verdict must come out again, but what led to it. */
static bool
same_reasons(const struct canon_node *decision, const struct decision *d)
{
	const struct canon_node *rows = canon_member(decision, "max_rows");
	const struct canon_node *lifted = canon_member(decision, "lifted");

	return (lifted == NULL ? d->nlifted == 0 : same_list(lifted, d->lifted, d->nlifted)) &&
	       same_list(canon_member(decision, "rules"), d->rules, d->nrules) &&
	       str_eq(canon_text(canon_member(decision, "calendar")), d->calendar) &&
	       (rows != NULL ? canon_int(rows) : -1) == (d->max_rows >= 0 ? d->max_rows : -1);
}

static void
put_rules(struct buf *b, const struct decision *d)
{
	for (size_t i = 0; i < d->nrules; i++)
		buf_printf(b, "%s%.*s", i != 0 ? "," : "", STR_ARG(d->rules[i]));
}

/* --- one action --------------------------------------------------------------------------- */

static bool
has_diverged(const struct whatif *w, struct str run)
{
	for (const struct diverged *d = w->diverged; d != NULL; d = d->next)
		if (str_eqz(run, d->run))
			return true;
	return false;
}

static void
set_diverged(struct whatif *w, struct str run)
{
	struct diverged *d;

	if (run.n == 0 || has_diverged(w, run))
		return;
	d = xcalloc(1, sizeof(*d));
	d->run = str_dup(run);
	d->next = w->diverged;
	w->diverged = d;
}

/* Counts it; true: it is to be printed as well. */
static bool
count(struct whatif *w, const struct record *r, enum outcome o)
{
	w->of[o]++;
	w->total++;
	w->conditional += has_diverged(w, r->run);
	return o != UNCHANGED || w->other.n != 0 || w->a->all;
}

static void PRINTF_LIKE(4, 5)
    report(struct whatif *w, const struct record *r, enum outcome o, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL, *vis = NULL, *other = NULL;
	va_list ap;

	if (!count(w, r, o))
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	vis = log_vis(str_z(text));
	if (w->other.n != 0)
		other = log_vis(buf_str(&w->other));
	(void)printf("%6" PRIu64 " %.*s %s%s%s%s\n", r->seq, STR_ARG(r->run), vis,
	    other != NULL ? "  RECLASSIFIED: " : "", other != NULL ? other : "",
	    has_diverged(w, r->run) ? "  (conditional: the agent had another answer before)" : "");
}

static void
compare(
    struct whatif *w, const struct record *r, const struct canon_node *data, const struct policy *p)
{
	const struct replay_input *j = &w->input;
	const struct decision *d = &w->decision;
	bool as_was = w->given == NULL && w->a->at == NULL && w->other.n == 0, same;
	struct str operation = canon_text(canon_member(canon_member(data, "request"), "operation"));
	AUTO_BUF struct buf effects = BUF(512), rules = BUF(8192);

	policy_judge(p, &j->in, j->grants, j->ngrants, &w->decision);
	same = d->verdict == j->verdict;
	if (same && (!as_was || same_reasons(canon_member(data, "decision"), d)) &&
	    w->other.n == 0 && !w->a->all) {
		(void)count(w, r, UNCHANGED);
		return;
	}
	effect_put(&effects, j->in.effects);
	put_rules(&rules, d);
	if (same && as_was && !same_reasons(canon_member(data, "decision"), d)) {
		report(w, r, ERROR, "ERROR %s again, but by rule %.*s", verdict_name(d->verdict),
		    STR_ARG(buf_str(&rules)));
	} else if (same) {
		report(w, r, UNCHANGED, "UNCHANGED %s  %.*s on %.*s [%.*s] rule %.*s",
		    verdict_name(d->verdict), STR_ARG(operation), STR_ARG(j->in.target),
		    STR_ARG(buf_str(&effects)), STR_ARG(buf_str(&rules)));
	} else {
		w->moved[j->verdict][d->verdict]++;
		report(w, r, CHANGED, "%s -> %s  %.*s on %.*s [%.*s] now by rule %.*s",
		    verdict_name(j->verdict), verdict_name(d->verdict), STR_ARG(operation),
		    STR_ARG(j->in.target), STR_ARG(buf_str(&effects)), STR_ARG(buf_str(&rules)));
		set_diverged(w, r->run);
	}
}

/* False: reported, since what the action does cannot be told. */
static bool
classify(
    struct whatif *w, const struct record *r, const struct canon_node *data, const struct policy *p)
{
	struct str engine = canon_text(canon_member(canon_member(data, "decision"), "engine"));
	bool same = str_eqz(engine, EFFECTS_ENGINE);
	struct err err = {0};

	if (w->reclassify != NULL) {
		AUTO_BUF struct buf why = BUF(1024);

		switch (reclassify(w->reclassify, p, data, &w->input, &w->other)) {
		case RECLASSIFIED_SAME: break;
		case RECLASSIFIED_OTHER: w->reclassified++; return true;
		case RECLASSIFIED_NONE:
			buf_put_str(&why, buf_str(&w->other));
			buf_reset(&w->other);
			report(
			    w, r, UNKNOWN, "UNKNOWN from its bytes: %.*s", STR_ARG(buf_str(&why)));
			return false;
		}
	}
	if (replay_effects_check(
		w->effects, canon_member(data, "request"), w->input.in.effects, &err) == 0)
		return true;
	report(w, r, same ? ERROR : UNKNOWN, "%s %s (engine then: %.*s)",
	    same ? "ERROR" : "UNKNOWN", err.msg, STR_ARG(engine));
	return false;
}

static void
judge(struct whatif *w, const struct record *r)
{
	const struct canon_node *data = canon_tree_set(w->tree, r->data);
	const struct canon_node *d = canon_member(data, "decision");
	struct str policy = canon_text(canon_member(d, "policy"));
	struct replay_input *j = &w->input;
	const struct policy *p;
	const char *why = NULL;
	struct err err = {0};

	buf_reset(&w->other);
	if (replay_input_read(data, r, j, &err) != 0) {
		report(w, r, UNKNOWN, "UNKNOWN %s", err.msg);
		return;
	}
	/* No policy was loaded: the zero decision denies. */
	if (w->given == NULL && policy.n == 0) {
		report(w, r, j->verdict == VERDICT_DENY ? UNCHANGED : ERROR,
		    "deny without a policy, recorded %s", verdict_name(j->verdict));
		return;
	}
	p = w->given != NULL ? w->given : replay_policies_get(w->recorded, policy, &why);
	if (p == NULL) {
		report(w, r, UNKNOWN, "UNKNOWN policy %.*s: %s", policy.n < 12 ? (int)policy.n : 12,
		    policy.p, why);
		return;
	}
	if (!classify(w, r, data, p))
		return;
	if (w->given != NULL) { /* what the target is, is the policy's to say */
		struct policy_input t = policy_input_for(p, j->in.target);

		j->in.kind = t.kind;
		j->in.env = t.env;
	}
	if (w->a->at != NULL)
		j->in.at = (struct instant){w->at_us, true};
	compare(w, r, data, p);
}

/* --- all ---------------------------------------------------------------------------------- */

static void
take(struct whatif *w, const struct record *r)
{
	const char *run = w->a->run;

	w->found |= run != NULL && *run != '\0' && str_eqz(r->run, run);
	if (str_eqz(r->type, "policy.load"))
		replay_policies_take(w->recorded, r);
	else if (str_eqz(r->type, "action") && (run == NULL || str_eqz(r->run, run)))
		judge(w, r);
}

/* What is to be said of the log stands before the numbers. */
static int
say_log(struct whatif *w, const struct chain *c, struct err *err)
{
	AUTO_BUF struct buf said = BUF(65536);
	int r = replay_signed_end(w->log, c, &said, &w->holds, err);

	(void)printf("%.*s", STR_ARG(buf_str(&said)));
	return r;
}

static int
walk(struct whatif *w, struct err *err)
{
	const char *run = w->a->run;
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	int n = replay_signed_chain(w->log, &c, err);

	while (n == 0 && (n = chain_next(c, &r, &leaf, err)) == 1) {
		n = 0;
		replay_signed_record(w->log, c, &r);
		take(w, &r);
	}
	if (n == 0)
		n = say_log(w, c, err);
	chain_free(c);
	if (n == 0 && run != NULL && !w->found)
		n = err_set(err, w->holds ? ERR_CONFIG : ERR_TAMPER, "the log has no run %s",
		    *run != '\0' ? run : "\"\"");
	return n;
}

static void
put_count(uint64_t n, const char *what)
{
	if (n != 0)
		(void)printf(", %" PRIu64 " %s", n, what);
}

static void
summary(const struct whatif *w)
{
	/* 100 only when it is all of them: rounded down. */
	(void)printf("%" PRIu64 " actions: %" PRIu64 " UNCHANGED (%" PRIu64 " %%)", w->total,
	    w->of[UNCHANGED], w->total != 0 ? w->of[UNCHANGED] * 100 / w->total : 100);
	for (int from = VERDICT_DENY; from <= VERDICT_ALLOW; from++) {
		for (int to = VERDICT_DENY; to <= VERDICT_ALLOW; to++) {
			char what[64];

			(void)snprintf(what, sizeof(what), "%s -> %s",
			    verdict_name((enum verdict)from), verdict_name((enum verdict)to));
			put_count(w->moved[from][to], what);
		}
	}
	put_count(w->of[UNKNOWN], "UNKNOWN");
	put_count(w->of[ERROR], "ERROR");
	put_count(w->reclassified, "RECLASSIFIED");
	put_count(w->conditional, "conditional");
	(void)printf("\n");
}

static void
whatif_free(struct whatif *w)
{
	replay_signed_free(w->log);
	policy_free(w->given);
	replay_policies_free(w->recorded);
	while (w->diverged != NULL) {
		struct diverged *d = w->diverged;

		w->diverged = d->next;
		free(d->run);
		free(d);
	}
	reclassify_free(w->reclassify);
	buf_free(&w->other);
	canon_tree_free(w->tree);
	replay_effects_free(w->effects);
	replay_blobs_free(w->blobs);
	cmd_place_close(&w->place);
}

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE",
	"keys to trust (default: those of the state directory)"},
    {"--policy", OPTION_TEXT, AT(policy), 0, 0, "FILE",
	"a policy or a bundle (default: the recorded one)"},
    {"--at", OPTION_TEXT, AT(at), 0, 0, "TIME",
	"as if all of it were done then, 2026-11-30T12:00:00Z (default: when it was)"},
    {"--reclassify", OPTION_FLAG, AT(reclassify), 0, 0, NULL,
	"by what today's classifiers say of the recorded bytes"},
    {"--all", OPTION_FLAG, AT(all), 0, 0, NULL, "print unchanged actions, too"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static int
prepare(struct whatif *w, int *ret_keysdir, struct err *err)
{
	const struct args *a = w->a;
	int r = 0;

	if (a->at != NULL && clock_parse(str_z(a->at), &w->at_us, err) != 0)
		return err_wrap(err, "--at %s", a->at);
	r = cmd_place_open(NULL, a->state, &w->place, err);
	if (r == 0)
		r = replay_signed_new(&w->place, a->vkey, &w->log, err);
	if (r == 0 && a->policy != NULL)
		r = replay_policy_load(a->policy, &w->given, err);
	if (r != 0)
		return r;
	*ret_keysdir = replay_keysdir(&w->place);
	w->tree = canon_tree_new();
	w->effects = replay_effects_new();
	r = replay_blobs_open(w->place.logdir, *ret_keysdir, &w->blobs, err);
	w->recorded = replay_policies_new(w->blobs, w->place.statedir);
	if (r == 0 && a->reclassify)
		r = reclassify_new(w->blobs, &w->reclassify, err);
	return r;
}

int
replay_whatif(int argc, char **argv)
{
	AUTO_FREE struct whatif *w = xcalloc(1, sizeof(*w));
	AUTO_FD int keysdir = -1;
	struct args a = {0};
	struct err err = {0};
	int r, status;

	if (!ARGS_READ("replay whatif", rows, argc, argv, &a))
		return CMD_USAGE;
	w->a = &a;
	w->place = (struct cmd_place){-1, -1};
	buf_init(&w->other, OTHER_MAX);
	r = prepare(w, &keysdir, &err);
	if (r == 0)
		r = walk(w, &err);
	if (r == 0)
		summary(w);
	status =
	    w->holds && w->of[UNCHANGED] == w->total && w->reclassified == 0 ? CMD_OK : CMD_FAILED;
	whatif_free(w);
	return r != 0 ? replay_fail(&err) : status;
}
