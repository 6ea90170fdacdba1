/*
 * `cofferdam replay whatif`: every recorded action is judged again, by the one verdict function, on
 * the recorded input at the recorded instant (or one that is told) with the recorded grants. Runs
 * as the reviewer. Under the recorded policy the recorded verdicts must come out, all of them; what
 * cannot be judged is UNKNOWN or ERROR, never taken for unchanged.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/chain.h"
#include "audit/replay_blobs.h"
#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_replay.h"
#include "cmd/cmd_replay_effects.h"
#include "cmd/cmd_replay_input.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/facts.h"
#include "policy/policy.h"

#include "common/banned.h"

#define POLICY_MAX ((size_t)8 << 20)

enum outcome { UNCHANGED, CHANGED, UNKNOWN, ERROR };

/* A policy of the log, by its digest. */
struct loaded {
	struct loaded *next;
	char digest[HASH_HEX_SIZE];
	struct policy *policy; /* NULL: see why */
	struct err why;
};

/* A run whose agent would have got another answer. */
struct diverged {
	struct diverged *next;
	char *run;
};

struct args {
	const char *state, *policy, *run, *at;
	bool all;
};

struct whatif {
	const struct args *a;
	int64_t at_us; /* --at */
	struct cmd_place place;
	struct replay_blobs *blobs;
	struct policy *given; /* --policy */
	struct loaded *loaded;
	struct diverged *diverged;
	struct canon_tree *tree;
	struct replay_effects *effects;
	struct replay_input input; /* of the action at hand */
	struct decision decision;
	uint64_t total, of[4], conditional;
	uint64_t moved[3][3]; /* recorded verdict, verdict now */
};

/* --- policies ------------------------------------------------------------------------------- */

/* The bundle of a policy.load record, from the sealed copy or from policy/<digest>.json. */
static int
load_recorded(
    struct whatif *w, struct str ref, const char *digest, struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_MAX);
	char path[HASH_HEX_SIZE + 32], hex[HASH_HEX_SIZE];
	struct hash h;
	int r = replay_blobs_read(w->blobs, ref, &text, err);

	if (r != 0 && w->place.statedir >= 0) {
		(void)snprintf(path, sizeof(path), "policy/%s.json", digest);
		buf_reset(&text);
		if (file_read(w->place.statedir, path, &text, NULL) == 0)
			r = 0;
	}
	if (r != 0)
		return r;
	h = hash_sha256(buf_str(&text));
	hash_hex(&h, hex);
	if (strcmp(hex, digest) != 0)
		return err_set(err, ERR_TAMPER, "policy %s: the bundle has another digest", digest);
	return policy_load(buf_str(&text), ret, err);
}

static void
take_policy(struct whatif *w, const struct record *r)
{
	struct str digest = canon_plain(canon_get(r->data, "digest"));
	struct loaded *l;

	if (digest.n != HASH_HEX_SIZE - 1)
		return;
	for (l = w->loaded; l != NULL; l = l->next)
		if (str_eqz(digest, l->digest))
			return;
	l = xcalloc(1, sizeof(*l));
	memcpy(l->digest, digest.p, digest.n);
	l->next = w->loaded;
	w->loaded = l;
	if (w->given == NULL)
		(void)load_recorded(
		    w, canon_get(r->data, "bundle"), l->digest, &l->policy, &l->why);
}

static int
load_given(const char *path, struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(POLICY_MAX), warnings = BUF(65536);
	AUTO_FREE char *copy = xstrdup(path);
	int r = file_read(AT_FDCWD, path, &text, err);

	if (r != 0)
		return r;
	if (policy_load(buf_str(&text), ret, NULL) == 0)
		return 0;
	if (policy_parse(buf_str(&text), path, dirname(copy), NULL, ret, &warnings, err) != 0) {
		err->code = ERR_CONFIG;
		return ERR_CONFIG;
	}
	return 0;
}

/* NULL: *why says what is missing. */
static const struct policy *
policy_for(const struct whatif *w, struct str digest, const char **why)
{
	if (w->given != NULL)
		return w->given;
	for (const struct loaded *l = w->loaded; l != NULL; l = l->next) {
		if (!str_eqz(digest, l->digest))
			continue;
		*why = l->policy == NULL ? l->why.msg : NULL;
		return l->policy;
	}
	*why = "the log holds no policy of this digest";
	return NULL;
}

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
	return o != UNCHANGED || w->a->all;
}

static void PRINTF_LIKE(4, 5)
    report(struct whatif *w, const struct record *r, enum outcome o, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL, *vis = NULL;
	va_list ap;

	if (!count(w, r, o))
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	vis = log_vis(str_z(text));
	(void)printf("%6" PRIu64 " %.*s %s%s\n", r->seq, STR_ARG(r->run), vis,
	    has_diverged(w, r->run) ? "  (conditional: the agent had another answer before)" : "");
}

static void
compare(
    struct whatif *w, const struct record *r, const struct canon_node *data, const struct policy *p)
{
	const struct replay_input *j = &w->input;
	const struct decision *d = &w->decision;
	bool as_was = w->given == NULL && w->a->at == NULL, same;
	struct str operation = canon_text(canon_member(canon_member(data, "request"), "operation"));
	AUTO_BUF struct buf effects = BUF(512), rules = BUF(8192);

	policy_judge(p, &j->in, j->grants, j->ngrants, &w->decision);
	same = d->verdict == j->verdict;
	if (same && (!as_was || same_reasons(canon_member(data, "decision"), d)) && !w->a->all) {
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

static void
judge(struct whatif *w, const struct record *r)
{
	const struct canon_node *data = canon_tree_set(w->tree, r->data);
	const struct canon_node *d = canon_member(data, "decision");
	struct str policy = canon_text(canon_member(d, "policy"));
	struct str engine = canon_text(canon_member(d, "engine"));
	struct replay_input *j = &w->input;
	const struct policy *p;
	const char *why = NULL;
	struct err err = {0};

	if (replay_input_read(data, r, j, &err) != 0) {
		report(w, r, UNKNOWN, "UNKNOWN %s", err.msg);
		return;
	}
	if (replay_effects_check(w->effects, canon_member(data, "request"), j->in.effects, &err) !=
	    0) {
		bool same = str_eqz(engine, EFFECTS_ENGINE);

		report(w, r, same ? ERROR : UNKNOWN, "%s %s (engine then: %.*s)",
		    same ? "ERROR" : "UNKNOWN", err.msg, STR_ARG(engine));
		return;
	}
	/* No policy was loaded: the zero decision denies. */
	if (w->given == NULL && policy.n == 0) {
		report(w, r, j->verdict == VERDICT_DENY ? UNCHANGED : ERROR,
		    "deny without a policy, recorded %s", verdict_name(j->verdict));
		return;
	}
	p = policy_for(w, policy, &why);
	if (p == NULL) {
		report(w, r, UNKNOWN, "UNKNOWN policy %.*s: %s", policy.n < 12 ? (int)policy.n : 12,
		    policy.p, why);
		return;
	}
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

static int
walk(struct whatif *w, struct err *err)
{
	const struct args *a = w->a;
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	int n = chain_open(w->place.logdir, 0, &c, err);

	while (n == 0 && (n = chain_next(c, &r, &leaf, err)) == 1) {
		n = 0;
		if (str_eqz(r.type, "policy.load"))
			take_policy(w, &r);
		else if (str_eqz(r.type, "action") && (a->run == NULL || str_eqz(r.run, a->run)))
			judge(w, &r);
	}
	if (n == 0 && chain_fault(c)->kind != LOG_KIND_NONE &&
	    chain_fault(c)->kind != LOG_KIND_TORN)
		n = err_set(err, ERR_TAMPER, "the log does not hold at seq %" PRIu64 ": %s: %s",
		    chain_fault(c)->seq, log_kind_name(chain_fault(c)->kind), chain_fault(c)->text);
	chain_free(c);
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
	put_count(w->conditional, "conditional");
	(void)printf("\n");
}

static void
whatif_free(struct whatif *w)
{
	policy_free(w->given);
	while (w->loaded != NULL) {
		struct loaded *l = w->loaded;

		w->loaded = l->next;
		policy_free(l->policy);
		free(l);
	}
	while (w->diverged != NULL) {
		struct diverged *d = w->diverged;

		w->diverged = d->next;
		free(d->run);
		free(d);
	}
	canon_tree_free(w->tree);
	replay_effects_free(w->effects);
	replay_blobs_free(w->blobs);
	cmd_place_close(&w->place);
}

static int
usage(void)
{
	(void)fprintf(stderr, "usage: cofferdam replay whatif [--state DIR] [--policy FILE] [--at "
			      "TIME] [--all] [RUN]\n"
			      "ends with 0 when every verdict is the recorded one, else 1.\n");
	return CMD_USAGE;
}

static bool
parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"policy", required_argument, NULL, 'p'},
	    {"at", required_argument, NULL, 't'},
	    {"all", no_argument, NULL, 'a'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': a->state = optarg; break;
		case 'p': a->policy = optarg; break;
		case 't': a->at = optarg; break;
		case 'a': a->all = true; break;
		default: return false;
		}
	}
	if (optind < argc)
		a->run = argv[optind++];
	return optind == argc;
}

static int
prepare(struct whatif *w, int *ret_keysdir, struct err *err)
{
	const struct args *a = w->a;
	int r = 0;

	if (a->at != NULL && clock_parse(str_z(a->at), &w->at_us, err) != 0)
		return err_wrap(err, "--at %s", a->at);
	r = cmd_place_open(NULL, a->state, &w->place, err);
	if (r == 0 && a->policy != NULL)
		r = load_given(a->policy, &w->given, err);
	if (r != 0)
		return r;
	*ret_keysdir = replay_keysdir(&w->place);
	w->tree = canon_tree_new();
	w->effects = replay_effects_new();
	return replay_blobs_open(w->place.logdir, *ret_keysdir, &w->blobs, err);
}

int
replay_whatif(int argc, char **argv)
{
	AUTO_FREE struct whatif *w = xcalloc(1, sizeof(*w));
	AUTO_FD int keysdir = -1;
	struct args a = {0};
	struct err err = {0};
	int r, status;

	if (!parse_args(argc, argv, &a))
		return usage();
	w->a = &a;
	w->place = (struct cmd_place){-1, -1};
	r = prepare(w, &keysdir, &err);
	if (r == 0)
		r = walk(w, &err);
	if (r == 0)
		summary(w);
	status = w->of[UNCHANGED] == w->total ? CMD_OK : CMD_FAILED;
	whatif_free(w);
	return r != 0 ? replay_fail(&err) : status;
}
