/*
 * What would have stopped an action. Runs as the reviewer. The one verdict function is asked again
 * with the recorded input and one thing changed: no signatures, nothing lifted, within a freeze of
 * the policy, under an emergency freeze, under another policy. Each answer is that function's.
 */
#include "cmd/cmd_replay_stop.h"

#include <inttypes.h>

#include "audit/canon_tree.h"
#include "cmd/cmd_replay_input.h"
#include "cmd/cmd_replay_policies.h"
#include "common/xalloc.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define SECOND ((int64_t)1000000)

struct stop {
	const struct replay_case *c;
	struct policy *other; /* --policy */
	struct canon_tree *tree;
	struct replay_input input;
	struct decision d;
};

int
stop_new(const struct replay_case *c, const char *path, struct stop **ret, struct err *err)
{
	struct stop *s = xcalloc(1, sizeof(*s));
	int r = path != NULL ? replay_policy_load(path, &s->other, err) : 0;

	s->c = c;
	s->tree = canon_tree_new();
	if (r != 0) {
		stop_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void
stop_free(struct stop *s)
{
	if (s == NULL)
		return;
	policy_free(s->other);
	canon_tree_free(s->tree);
	free(s);
}

static void
put_rules(struct doc *d, const struct decision *is)
{
	for (size_t i = 0; i < is->nrules; i++) {
		doc_words(d, "%s", i != 0 ? ", " : " by ");
		doc_code(d, is->rules[i]);
	}
}

static const char *
words(enum verdict v)
{
	return v == VERDICT_ALLOW  ? "allowed all the same"
	       : v == VERDICT_DENY ? "denied"
				   : "held for people";
}

/* One item: what it would have come to. */
static void
put_answer(struct stop *s, struct doc *d, const struct policy *p, const struct policy_input *in,
    size_t ngrants, const char *when, struct str name)
{
	policy_judge(p, in, s->input.grants, ngrants, &s->d);
	doc_begin(d, 2);
	doc_words(d, "%s", when);
	if (name.n != 0) {
		doc_words(d, " ");
		doc_code(d, name);
	}
	doc_words(d, ": %s", words(s->d.verdict));
	put_rules(d, &s->d);
	doc_end(d);
}

/* The middle of one of its windows. */
static void
in_freezes(struct stop *s, struct doc *d, const struct policy *p)
{
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		struct policy_calendar cal = policy_calendar_at(p, i);
		struct policy_input in = s->input.in;
		int64_t from, to;

		if (cal.open || cal.nintervals == 0)
			continue;
		policy_calendar_interval(p, i, 0, &from, &to);
		in.at = (struct instant){from * SECOND + (to - from) * SECOND / 2, true};
		put_answer(s, d, p, &in, s->input.ngrants, "within freeze", cal.id);
	}
}

static void
ask(struct stop *s, struct doc *d, const struct policy *p)
{
	const struct policy_overlay all = {
	    .id = STR("emergency-freeze"), .effects = s->input.in.effects};
	struct policy_input in = s->input.in;

	if (s->input.ngrants != 0)
		put_answer(s, d, p, &in, 0, "without the signatures", STR_NONE);
	if (in.nlifts != 0) {
		in.nlifts = 0;
		put_answer(s, d, p, &in, s->input.ngrants, "with nothing lifted", STR_NONE);
	}
	in_freezes(s, d, p);
	in = s->input.in;
	in.overlays = &all;
	in.noverlays = 1;
	put_answer(s, d, p, &in, s->input.ngrants, "under an emergency freeze", STR_NONE);
}

static void
ask_other(struct stop *s, struct doc *d)
{
	struct policy_input in = s->input.in;
	struct policy_input there;

	if (s->other == NULL)
		return;
	there =
	    policy_input_for(s->other, in.target); /* what the target is, is the policy's to say */
	in.kind = there.kind;
	in.env = there.env;
	put_answer(s, d, s->other, &in, s->input.ngrants, "under policy", policy_name(s->other));
}

static void
put_head(struct doc *d, const struct record *r, enum verdict v)
{
	doc_begin(d, 1);
	doc_words(d, "record %" PRIu64 " was %s", r->seq,
	    v == VERDICT_ALLOW	? "allowed"
	    : v == VERDICT_DENY ? "stopped: denied"
				: "stopped: it had to wait for people");
	doc_end(d);
}

void
stop_record(void *arg, const struct record *r, struct doc *d)
{
	struct stop *s = arg;
	const struct canon_node *data = canon_tree_set(s->tree, r->data);
	struct str digest = canon_text(canon_member(canon_member(data, "decision"), "policy"));
	const struct policy *p;
	const char *why = NULL;
	struct err err = {0};

	if (replay_input_read(data, r, &s->input, &err) != 0) {
		doc_begin(d, 1);
		doc_words(d, "record %" PRIu64 ": not known: %s", r->seq, err.msg);
		doc_end(d);
		return;
	}
	put_head(d, r, s->input.verdict);
	p = replay_case_policy(s->c, digest, &why);
	if (s->input.verdict == VERDICT_ALLOW && p != NULL)
		ask(s, d, p);
	if (p == NULL) {
		doc_begin(d, 2);
		doc_words(d, "the policy that judged it cannot be asked: %s", why);
		doc_end(d);
	}
	ask_other(s, d);
}
