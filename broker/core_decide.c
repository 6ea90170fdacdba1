/*
 * Verdicts (process: core). Facts come from the parser, the policy from the recorded bundle,
 * time from core's own clock. Whatever core refuses for reasons of its own is expressed as
 * an effect first, so that the recorded input gives the recorded verdict when replayed.
 */
#include "broker/core_decide.h"

#include <stdlib.h>

#include "broker/core_act.h"
#include "broker/core_approve.h"
#include "broker/core_attempt.h"
#include "broker/core_lift.h"
#include "broker/core_pg.h"
#include "broker/core_rate.h"
#include "broker/core_sequence.h"
#include "broker/core_steer.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- actions --------------------------------------------------------------------- */

struct core_action *
core_action_new(enum core_op op)
{
	struct core_action *a = xcalloc(1, sizeof(*a));

	core_id(a->id, "a-");
	a->op = op;
	return a;
}

void
core_action_free(struct core_action *a)
{
	if (a == NULL)
		return;
	core_stmt_unref(a->stmt);
	free(a->inner);
	core_facts_unref(a->facts);
	core_lift_beside_free(a->beside);
	free(a->unwitnessed);
	free(a->show);
	free(a->preview);
	free(a->unshown);
	free(a->sqlstate);
	free(a->message);
	free(a->detail);
	free(a->hint);
	free(a);
}

const char *
core_op_name(enum core_op op)
{
	switch (op) {
	case CORE_OP_CONNECT: return "connect";
	case CORE_OP_QUERY: return "query";
	case CORE_OP_EXECUTE: return "execute";
	case CORE_OP_PREPARE: return "prepare";
	case CORE_OP_FUNCTION: return "function_call";
	case CORE_OP_HTTP: return "http"; /* the record has its method */
	case CORE_OP_CANCEL: return "cancel";
	}
	return "invalid";
}

bool
core_action_only_ends(const struct core_action *a)
{
	return a->commits && a->facts != NULL && a->facts->view.txn_only && a->statements == 1;
}

bool
core_effects_read(uint32_t effects, uint32_t txn_effects)
{
	return effects != 0 && ((effects | txn_effects) & ~EFFECT_SET_DATA) == 0;
}

bool
core_action_reads(const struct core_action *a)
{
	return core_effects_read(a->effects, a->txn_effects);
}

bool
core_action_outdated(const struct core *c, const struct core_action *a)
{
	return c->policy == NULL || !hash_eq(policy_digest(c->policy), &a->policy);
}

const char *
core_from_target(const struct core_from *f)
{
	return f->target != NULL ? f->target->id : "";
}

struct policy_input
core_decide_input(const struct core_run *run, struct str target, const struct core_action *a)
{
	struct policy_input in = {0};

	if (run->core->policy != NULL)
		in = policy_input_for(run->core->policy, target);
	in.agent = str_z(run->agent);
	in.run = str_z(run->id);
	in.owner = str_z(run->owner);
	core_steer_words(run, &in);
	in.effects = a->effects;
	in.statements = a->statements;
	in.deferred = a->deferred;
	in.relations = a->rels;
	in.nrelations = a->nrels;
	in.at = a->now;
	in.began_us = a->began_us;
	in.rates = a->rates;
	in.nrates = a->nrates;
	core_lift_beside_input(a->beside, &in);
	return in;
}

/* --- words for people ------------------------------------------------------------ */

static void
rules_put(struct buf *b, const struct decision *d)
{
	if (d->nrules == 0) { /* the zero decision */
		buf_put_z(b, "no policy is active");
		return;
	}
	for (size_t i = 0; i < d->nrules; i++) {
		const char *noun = i < d->noverlays ? "emergency freeze" : "rule";
		size_t of_it = i < d->noverlays ? d->noverlays : d->nrules - d->noverlays;

		if (i != 0)
			buf_put_z(b, ", ");
		if (i == 0 || i == d->noverlays)
			buf_printf(b, "%s%s ", noun, of_it == 1 ? "" : "s");
		buf_put_str(b, d->rules[i]);
	}
	if (d->calendar.n != 0)
		buf_printf(b, " (calendar %.*s%s)", STR_ARG(d->calendar),
		    d->calendar_unknown ? ", not known now" : "");
	if (d->until_us != 0) {
		char t[CLOCK_TEXT_SIZE];

		clock_format_s(d->until_us, t);
		buf_printf(b, " until %s", t);
	}
}

static void
detail_put(struct buf *b, const struct core_action *a)
{
	const struct decision *d = &a->d;

	buf_printf(b, "action=%s rule=", a->id);
	for (size_t i = 0; i < d->nrules; i++)
		buf_printf(b, "%s%.*s", i != 0 ? "," : "", STR_ARG(d->rules[i]));
	if (d->calendar.n != 0)
		buf_printf(b, " calendar=%.*s", STR_ARG(d->calendar));
	if (d->until_us != 0) {
		char t[CLOCK_TEXT_SIZE];

		clock_format_s(d->until_us, t);
		buf_printf(b, " until=%s", t);
	}
	buf_put_z(b, " effects=");
	effect_put(b, a->effects);
	if (a->linked)
		buf_printf(b, " link=%llu", (unsigned long long)a->link);
	if (d->why.n != 0)
		buf_printf(b, "\n%.*s", STR_ARG(d->why));
}

static void
hint_put(struct buf *b, const struct core_from *f, const struct core_action *a)
{
	const char *noun = f->pg != NULL ? "statement" : "request";

	if (a->d.verdict != VERDICT_NEEDS_APPROVAL)
		return;
	if (a->request != NULL && a->approved) {
		buf_printf(b,
		    "request %s is approved for statements of one transaction, from the first of "
		    "them on: ROLLBACK, then send exactly the same transaction again",
		    a->request->id);
	} else if (a->request != NULL) {
		bool block = a->txn_state == 'T' || a->txn_state == 'E';

		buf_printf(b, "request %s: ask ", a->request->id);
		policy_slots_put(b, a->request->slots, a->request->nslots, ", ");
		buf_printf(b,
		    " to run: cofferdam approve %s --as NAME; then %ssend exactly the same %s "
		    "again. No answer means no: do not seek the same effect by another %s",
		    a->request->id, block ? "ROLLBACK and " : "", block ? "transaction" : noun,
		    noun);
		if (block)
			buf_printf(b,
			    ". This request is for %zu of its statements: send the rest of it "
			    "before that ROLLBACK, and one request is for all that need approval",
			    a->request->nsteps);
	} else if (a->unshown != NULL) {
		buf_printf(b,
		    "nobody is asked without a preview, says the rule. What has one can be asked "
		    "for: "
		    "a %s by itself that the target can be asked about beforehand",
		    noun);
	} else if (a->d.unsatisfiable) {
		buf_put_z(b, "nobody can give this approval: too few people hold the roles besides "
			     "the run's owner");
	} else {
		buf_printf(b, "the run has %d open requests, the limit", CORE_PENDING_MAX);
	}
}

/* A statement that does not parse gets the server's own SQLSTATE: drivers act on it. */
static const char *
sqlstate_for(const struct core_action *a)
{
	if (a->refuse_state != NULL)
		return a->refuse_state;
	if (a->facts != NULL && a->facts->status == CORE_FACTS_INVALID)
		return "42601";
	if (a->facts != NULL && a->facts->status == CORE_FACTS_COMPLEX)
		return "54001";
	return "42501";
}

static void
message_put(struct buf *b, const struct core_action *a)
{
	const char *why = a->refuse_why;

	if (why == NULL && a->facts != NULL && a->facts->status != CORE_FACTS_OK)
		why = a->facts->why;
	if (a->d.verdict == VERDICT_NEEDS_APPROVAL && a->unshown != NULL) {
		buf_printf(b, "needs a preview, and there is none (%s): ", a->unshown);
	} else if (a->d.verdict == VERDICT_NEEDS_APPROVAL) {
		buf_put_z(b, "needs approval by ");
		policy_slots_put(b, a->d.slots, a->d.nslots, ", ");
		buf_put_z(b, ": ");
	} else if (why != NULL) {
		buf_printf(b, "%s (denied by policy: ", why);
	} else {
		buf_put_z(b, "denied by policy: ");
	}
	rules_put(b, &a->d);
	if (a->d.verdict != VERDICT_NEEDS_APPROVAL && why != NULL)
		buf_put_c(b, ')');
}

void
core_decide_words(const struct core_from *f, struct core_action *a)
{
	AUTO_BUF struct buf m = BUF(8192);
	AUTO_BUF struct buf d = BUF(8192);
	AUTO_BUF struct buf h = BUF(4096);

	message_put(&m, a);
	detail_put(&d, a);
	hint_put(&h, f, a);
	free(a->sqlstate);
	free(a->message);
	free(a->detail);
	free(a->hint);
	a->sqlstate = xstrdup(sqlstate_for(a));
	a->message = buf_dup_z(&m);
	a->detail = buf_dup_z(&d);
	a->hint = buf_dup_z(&h);
}

/* --- the verdict ----------------------------------------------------------------- */

static void
eval_with(const struct core *c, const struct policy_input *in, struct core_action *a,
    const struct policy_grant *g, size_t n)
{
	a->ngrants = n < APPROVAL_GRANTS_MAX ? n : APPROVAL_GRANTS_MAX;
	for (size_t i = 0; i < a->ngrants; i++)
		a->grants[i] = g[i];
	policy_judge(c->policy, in, a->grants, a->ngrants, &a->d);
}

/*
 * An armed request: its people's signatures count if everything still holds. If the policy
 * now asks for more, the grants that count are shown in the record, and what was signed is
 * void; if it only has run out, it is as if nobody had asked.
 */
static struct core_request *
try_armed(struct core_run *run, struct core_request *rq, const struct policy_input *in,
    struct core_action *a)
{
	AUTO_FREE struct approval_result *r = xcalloc(1, sizeof(*r));
	bool more;

	core_approve_judge(run->core, rq, false, in, r);
	if (r->verdict == VERDICT_ALLOW && r->decision.verdict == VERDICT_ALLOW) {
		eval_with(run->core, in, a, r->counted, r->ncounted);
		a->consume = a->d.verdict == VERDICT_ALLOW;
		free(a->preview);
		a->preview = rq->preview != NULL ? xstrdup(rq->preview) : NULL;
		return rq;
	}
	more = r->decision.verdict != VERDICT_ALLOW;
	eval_with(run->core, in, a, r->counted, more ? r->ncounted : 0);
	if (r->ended) {
		core_approve_end_for(rq, r->reason);
		return NULL;
	}
	if (a->d.verdict == VERDICT_NEEDS_APPROVAL && r->reason == APPROVAL_REASON_freeze_started) {
		core_approve_end_for(rq, r->reason);
		return NULL;
	}
	return rq;
}

/* A step behind the first: the request is used already, and all else is judged as at that time. */
static void
try_next(struct core_run *run, const struct core_request *rq, const struct policy_input *in,
    struct core_action *a)
{
	AUTO_FREE struct approval_result *r = xcalloc(1, sizeof(*r));

	core_approve_judge(run->core, rq, true, in, r);
	a->next = r->verdict == VERDICT_ALLOW && r->decision.verdict == VERDICT_ALLOW;
	eval_with(run->core, in, a, r->counted, a->next ? r->ncounted : 0);
	a->next = a->next && a->d.verdict == VERDICT_ALLOW;
}

/* Nobody waits for people with these: where they need approval they are refused. */
static bool
people_asked(const struct core_action *a)
{
	return a->op != CORE_OP_CONNECT && a->op != CORE_OP_CANCEL;
}

static bool
moves_schema(const struct core_conn *conn)
{
	const struct core_act *act = conn->act;
	uint32_t effects = conn->txn.effects | (act != NULL ? act->effects : 0);

	return (effects & CORE_EFFECTS_SCHEMA) != 0;
}

/*
 * Does another connection of this run to the same target have a schema change in flight or in an
 * open transaction? It may come into force at any moment.
 */
static bool
schema_moving(const struct core_conn *conn)
{
	const struct core_conn *other;

	for (size_t i = 0; i < CORE_CONN_BUCKETS; i++)
		LIST_FOREACH (other, &conn->from.run->core->conns[i], link)
			if (other != conn && other->from.run == conn->from.run &&
			    other->from.target == conn->from.target && moves_schema(other))
				return true;
	return false;
}

void
core_decide_beside(const struct core_from *f, struct core_action *a, const struct core_txn *txn)
{
	core_lift_beside_free(a->beside);
	a->beside = core_lift_beside(f->run, str_z(core_from_target(f)), txn, a->now);
}

/* A run may have fewer effects than the policy gives; what its loop asks a model is none of them.
 */
static bool
beyond_most(const struct core_from *f, const struct core_action *a)
{
	const struct policy *p = f->run->core->policy;
	const struct policy_target *t =
	    p != NULL ? policy_target(p, str_z(core_from_target(f))) : NULL;

	return (a->effects & ~f->run->most) != 0 &&
	       (t == NULL || t->model == TARGET_MODEL_NONE || !f->run->loop);
}

void
core_decide_judge(const struct core_from *f, struct core_action *a, const struct core_txn *txn)
{
	struct core_run *run = f->run;
	struct core *c = run->core;
	struct core_request *rq = NULL;
	enum core_use use = CORE_USE_NOT;
	struct policy_input in;

	if (a->refuse_why == NULL && beyond_most(f, a)) {
		core_decide_refuse(f, a, txn, "42501", "the run was started without such effects");
		return;
	}
	a->now = core_now(c);
	core_decide_beside(f, a, people_asked(a) ? txn : NULL);
	in = core_decide_input(run, str_z(core_from_target(f)), a);
	if (c->policy == NULL) { /* the zero decision denies */
		a->d = (struct decision){0};
		return;
	}
	a->policy = *policy_digest(c->policy);
	core_rate_fill(c, &in, a);
	in.nrates = a->nrates;
	if (people_asked(a) && a->refuse_why == NULL)
		rq = core_sequence_find(f, a, &use);
	if (rq != NULL && (core_request_armed(rq) || use == CORE_USE_NEXT) && f->pg != NULL &&
	    schema_moving(f->pg)) {
		core_approve_end(rq, CORE_RQ_VOID, "the schema is being changed");
		use = CORE_USE_NOT;
		rq = NULL;
	}
	a->approved = rq != NULL && core_request_armed(rq) && use == CORE_USE_NOT;
	if (use == CORE_USE_FIRST)
		rq = try_armed(run, rq, &in, a);
	else if (use == CORE_USE_NEXT)
		try_next(run, rq, &in, a);
	else if (a->commits)
		eval_with(c, &in, a, txn->grants, txn->ngrants);
	else
		eval_with(c, &in, a, NULL, 0);
	if (use == CORE_USE_NEXT && !a->next)
		rq = NULL; /* what was signed does not let it pass any more */
	if (a->d.verdict == VERDICT_NEEDS_APPROVAL || a->consume || a->next)
		a->request = rq;
}

void
core_decide_refuse(const struct core_from *f, struct core_action *a, const struct core_txn *txn,
    const char *sqlstate, const char *why)
{
	/* What is malformed is refused as that. */
	if ((a->effects & EFFECT_invalid) == 0)
		a->effects |= EFFECT_opaque;
	a->refuse_state = sqlstate;
	a->refuse_why = why;
	a->consume = a->next = a->approved = false;
	a->request = NULL;
	core_decide_judge(f, a, txn);
	/* No policy can permit opaque (a load error); core would not let it pass either. */
	a->d.verdict = VERDICT_DENY;
}

void
core_decide_unused(const struct core_from *f, struct core_action *a)
{
	struct policy_input in = core_decide_input(f->run, str_z(core_from_target(f)), a);

	a->consume = false;
	eval_with(f->run->core, &in, a, NULL, 0);
	if (a->d.verdict != VERDICT_NEEDS_APPROVAL)
		a->request = NULL;
}

bool
core_decide_holds(const struct core_from *f, const struct core_action *a)
{
	struct core *c = f->run->core;
	struct policy_input in = core_decide_input(f->run, str_z(core_from_target(f)), a),
			    fresh = in;
	AUTO_FREE struct decision *d = xcalloc(1, sizeof(*d));
	struct core_beside *beside;

	if (c->policy == NULL || core_action_outdated(c, a))
		return false;
	in.at = core_now(c);
	beside = core_lift_beside(f->run, in.target, NULL, in.at);
	core_lift_beside_input(beside, &fresh);
	in.overlays = fresh.overlays;
	in.noverlays = fresh.noverlays;
	policy_judge(c->policy, &in, a->grants, a->ngrants, d);
	core_lift_beside_free(beside);
	return d->verdict == VERDICT_ALLOW;
}

void
core_decide_finish(const struct core_from *f, struct core_action *a)
{
	struct core_run *run = f->run;

	if (a->d.verdict == VERDICT_ALLOW) {
		struct policy_input in = core_decide_input(run, str_z(core_from_target(f)), a);

		core_rate_count(run->core, &in, a);
		return;
	}
	core_attempt_link(run, str_z(core_from_target(f)), a);
	if (a->d.verdict == VERDICT_NEEDS_APPROVAL && a->request == NULL && !a->d.unsatisfiable &&
	    people_asked(a) && run->npending < CORE_PENDING_MAX) {
		a->request = core_approve_new(f, a);
		a->request_new = true;
	}
	core_attempt_refused(f, a);
	core_decide_words(f, a);
}
