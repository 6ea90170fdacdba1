/*
 * Requests for several statements of one transaction (process: core). The digest binds their order;
 * the first is used when the request is consumed, the others only behind it, in the same
 * transaction, each judged again; what ends the transaction before the last of them commits
 * nothing. Must never let a step run under a request whose first step ran elsewhere.
 */
#include "broker/core_sequence.h"

#include <stdlib.h>

#include "broker/core_act.h"
#include "broker/core_pg.h"
#include "policy/statement.h"

#include "common/xalloc.h"

#include "common/banned.h"

/* --- which ------------------------------------------------------------------------ */

static bool
begins_with(const struct core_request *rq, const struct hash *steps, size_t n)
{
	if (rq->nsteps < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!hash_eq(&rq->steps[i], &steps[i]))
			return false;
	return true;
}

static struct core_request *
longest(const struct core_run *run, const struct hash *steps, size_t n, bool armed)
{
	struct core_request *rq, *found = NULL;

	TAILQ_FOREACH (rq, &run->requests, link)
		if ((armed ? core_request_armed(rq) : core_request_open(rq)) &&
		    begins_with(rq, steps, n) && (found == NULL || rq->nsteps > found->nsteps))
			found = rq;
	return found;
}

/* Outside a block the exchange's Sync commits: all steps must come before it. */
static bool
has_room(const struct core_action *a, const struct core_request *rq)
{
	const struct core_act *act = a->act;

	if (rq->nsteps == 1)
		return true;
	if (act == NULL || a->fence)
		return false;
	/* The text may begin the block, as its first statement. */
	if (act->txn.state == 'T' ||
	    (a->facts != NULL && a->facts->txn && !a->commits && !a->facts->rollback))
		return true;
	return act->kind != CORE_ACT_QUERY &&
	       (act->kind != CORE_ACT_SYNC || act->nexec - act->nactions >= rq->nsteps);
}

/* The digests of t's steps, with that of a behind them. */
static size_t
prefix(const struct core_txn *t, const struct core_action *a, struct hash out[CORE_STEPS_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; t != NULL && !a->fence && !t->many && i < t->nsteps; i++)
		out[n++] = t->steps[i].step->digest;
	out[n++] = a->digest;
	return n;
}

struct core_request *
core_sequence_find(const struct core_from *f, const struct core_action *a, enum core_use *ret_use)
{
	const struct core_txn *t = a->act != NULL ? &a->act->txn : NULL;
	bool fails = t != NULL && t->state == 'E';
	struct hash steps[CORE_STEPS_MAX + 1];
	struct core_request *rq;
	size_t n;

	*ret_use = CORE_USE_NOT;
	if (t != NULL && t->joint_used < t->joint_steps) {
		rq = core_approve_by_id(f->run->core, str_z(t->joint));
		if (rq != NULL && rq->run == f->run && rq->state == CORE_RQ_CONSUMED && !fails &&
		    !t->undone && hash_eq(&rq->steps[t->joint_used], &a->digest)) {
			*ret_use = CORE_USE_NEXT;
			return rq;
		}
	} else if (!fails) {
		rq = longest(f->run, &a->digest, 1, true);
		if (rq != NULL && has_room(a, rq)) {
			*ret_use = CORE_USE_FIRST;
			return rq;
		}
	}
	n = prefix(t, a, steps);
	return longest(f->run, steps, n, false);
}

/* --- what it says ------------------------------------------------------------------- */

struct steps {
	size_t n;
	const struct core_step *s[CORE_STEPS_MAX + 1];
};

/* Lines of a statement but the first are set in, so that none passes for the next statement. */
static void
show_step(struct buf *b, const struct core_step *s, size_t i, size_t n)
{
	struct str rest = str_z(s->show), line;

	buf_printf(b, "\n[%zu of %zu", i + 1, n);
	if (s->max_rows >= 0)
		buf_printf(b, ", at most %lld rows", (long long)s->max_rows);
	buf_put_z(b, "] ");
	while (str_cut(&rest, '\n', &line)) {
		buf_put_str(b, line);
		buf_put_z(b, "\n    ");
	}
	buf_put_str(b, rest);
}

static void
show(struct buf *b, const struct steps *l)
{
	if (l->n == 1) {
		buf_put_z(b, l->s[0]->show);
		return;
	}
	buf_printf(b, "[%zu statements of one transaction]", l->n);
	for (size_t i = 0; i < l->n; i++)
		show_step(b, l->s[i], i, l->n);
}

static void
rule_add(struct buf *b, struct str id)
{
	struct str list = buf_str(b), one;

	while (str_cut(&list, ',', &one))
		if (str_eq(one, id))
			return;
	if (str_eq(list, id))
		return;
	if (b->n != 0)
		buf_put_c(b, ',');
	buf_put_str(b, id);
}

static void
rules(struct buf *b, const struct steps *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct str rest = str_z(l->s[i]->rules), one;

		while (str_cut(&rest, ',', &one))
			rule_add(b, one);
		rule_add(b, rest);
	}
}

static void
slot_join(struct policy_slot *slots, size_t *n, const struct policy_slot *s)
{
	size_t k = 0;

	while (k < *n && str_cmp(slots[k].role, s->role) < 0)
		k++;
	if (k < *n && str_eq(slots[k].role, s->role)) {
		slots[k].count = s->count > slots[k].count ? s->count : slots[k].count;
		return;
	}
	memmove(&slots[k + 1], &slots[k], (*n - k) * sizeof(*slots));
	slots[k] = *s;
	(*n)++;
}

static void
slots(struct policy_slot out[POLICY_SLOTS_MAX + 1], size_t *n, const struct steps *l)
{
	*n = 0;
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < l->s[i]->nslots && *n <= POLICY_SLOTS_MAX; k++)
			slot_join(out, n, &l->s[i]->slots[k]);
}

static void
rels_add(struct core_request *rq, const struct core_step *s)
{
	for (size_t i = 0; i < s->nrels && rq->nrels < CORE_ACTION_RELS; i++) {
		bool there = false;

		for (size_t k = 0; k < rq->nrels; k++)
			there = there || strcmp(rq->rels[k], s->rels[i]) == 0;
		if (!there)
			rq->rels[rq->nrels++] = xstrdup(s->rels[i]);
	}
}

static int64_t
smaller(int64_t a, int64_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

static void
fold(struct core_request *rq, const struct steps *l)
{
	bool unlimited = false;

	rq->rels = xcalloc(CORE_ACTION_RELS, sizeof(*rq->rels));
	rq->steps = xcalloc(l->n, sizeof(*rq->steps));
	for (rq->nsteps = 0; rq->nsteps < l->n; rq->nsteps++) {
		const struct core_step *s = l->s[rq->nsteps];

		rq->steps[rq->nsteps] = s->digest;
		rq->effects |= s->effects;
		rq->statements = s->statements > rq->statements ? s->statements : rq->statements;
		rq->deferred = rq->deferred || s->deferred;
		rq->verify = rq->verify || s->verify;
		rels_add(rq, s);
		unlimited = unlimited || s->max_rows < 0;
		rq->max_rows = s->max_rows > rq->max_rows ? s->max_rows : rq->max_rows;
		rq->within_s = smaller(rq->within_s, s->within_s);
		rq->use_within_s = smaller(rq->use_within_s, s->use_within_s);
	}
	rq->max_rows = unlimited ? -1 : rq->max_rows;
	rq->action = digest_sequence(rq->steps, rq->nsteps);
}

/* As one they may need more people than there are, or more than people can be shown. */
static bool
possible(const struct core_from *f, const struct core_action *a, const struct steps *l)
{
	struct policy_slot joined[POLICY_SLOTS_MAX + 1];
	struct policy_input in = core_decide_input(f->run, str_z(core_from_target(f)), a);
	AUTO_BUF struct buf b = BUF(CORE_SHOWN_MAX + 1), ids = BUF(STATEMENT_LIST_MAX + 1);
	bool verify = false;
	size_t n;

	if (l->n > CORE_STEPS_MAX)
		return false;
	show(&b, l);
	rules(&ids, l);
	slots(joined, &n, l);
	for (size_t i = 0; i < l->n; i++)
		verify = verify || l->s[i]->verify;
	return !buf_over(&b) && b.n <= CORE_SHOWN_MAX && !buf_over(&ids) && n <= POLICY_SLOTS_MAX &&
	       policy_quorum_possible(f->run->core->policy, &in, joined, n, verify);
}

void
core_sequence_fill(struct core_request *rq, const struct core_from *f, const struct core_action *a)
{
	const struct core_txn *t = a->act != NULL && !a->fence ? &a->act->txn : NULL;
	struct core_step *own = core_step_new(a);
	struct policy_slot joined[POLICY_SLOTS_MAX + 1];
	AUTO_BUF struct buf text = BUF(2 * CORE_SHOWN_MAX), ids = BUF(65536);
	struct steps l = {0};
	size_t n;

	for (size_t i = 0; t != NULL && !t->many && i < t->nsteps; i++)
		l.s[l.n++] = t->steps[i].step;
	l.s[l.n++] = own;
	if (l.n > 1 && !possible(f, a, &l))
		l = (struct steps){.n = 1, .s = {own}};
	fold(rq, &l);
	rules(&ids, &l);
	rq->rule = buf_dup_z(&ids);
	slots(joined, &n, &l);
	for (rq->nslots = 0; rq->nslots < n; rq->nslots++)
		rq->slots[rq->nslots] = (struct policy_slot){
		    str_mem(str_dup(joined[rq->nslots].role), joined[rq->nslots].role.n),
		    joined[rq->nslots].count};
	if (l.n > 1)
		show(&text, &l);
	rq->show = l.n > 1 ? buf_dup_z(&text) : xstrdup(own->show);
	core_step_unref(own);
}

/* --- those before it ---------------------------------------------------------------- */

void
core_sequence_covers(const struct core_request *rq)
{
	AUTO_FREE char *why = xasprintf(CORE_COVERED "%s", rq->id);
	struct core_request *other;

	do {
		TAILQ_FOREACH (other, &rq->run->requests, link)
			if (other->state == CORE_RQ_PENDING && other->ngrants == 0 &&
			    !other->busy && other->nsteps < rq->nsteps &&
			    begins_with(rq, other->steps, other->nsteps))
				break;
		if (other != NULL)
			core_approve_end(other, CORE_RQ_VOID, why);
	} while (other != NULL);
}
