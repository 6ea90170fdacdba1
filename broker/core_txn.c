/*
 * Transactions of PostgreSQL connections (process: core): what commits is judged with all that was
 * done, and what people signed as one is done as one. Savepoints are counted, not named: where it
 * is not known whether a step was undone, it counts as undone. Must never know less of a
 * transaction than the server does.
 */
#include "broker/core_txn.h"

#include <assert.h>
#include <stdlib.h>

#include "broker/core_approve.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- steps ----------------------------------------------------------------------- */

static char *
rules_joined(const struct decision *d)
{
	AUTO_BUF struct buf b = BUF(DECISION_RULES_MAX * (POLICY_ID_MAX + 1));

	for (size_t i = 0; i < d->nrules; i++) {
		if (i != 0)
			buf_put_c(&b, ',');
		buf_put_str(&b, d->rules[i]);
	}
	return buf_dup_z(&b);
}

struct core_step *
core_step_new(const struct core_action *a)
{
	const struct decision *d = &a->d;
	struct core_step *s = xcalloc(1, sizeof(*s));

	s->refs = 1;
	s->digest = a->digest;
	s->show = xstrdup(a->show);
	s->rules = rules_joined(d);
	s->effects = a->effects;
	s->statements = a->statements;
	s->deferred = a->deferred;
	s->verify = d->verify;
	s->rels = xcalloc(a->nrels, sizeof(*s->rels));
	for (s->nrels = 0; s->nrels < a->nrels; s->nrels++)
		s->rels[s->nrels] = str_dup(a->rels[s->nrels]);
	for (s->nslots = 0; s->nslots < d->nslots; s->nslots++) {
		struct str role = d->slots[s->nslots].role;

		s->slots[s->nslots] =
		    (struct policy_slot){str_mem(str_dup(role), role.n), d->slots[s->nslots].count};
	}
	s->max_rows = d->max_rows;
	s->within_s = d->within_s;
	s->use_within_s = d->use_within_s;
	return s;
}

void
core_step_unref(struct core_step *s)
{
	if (s == NULL || --s->refs != 0)
		return;
	for (size_t i = 0; i < s->nrels; i++)
		free(s->rels[i]);
	for (size_t i = 0; i < s->nslots; i++)
		free((void *)(uintptr_t)s->slots[i].role.p);
	free(s->rels);
	free(s->rules);
	free(s->show);
	free(s);
}

static void
step_add(struct core_txn *t, const struct core_action *a, bool used, bool joint)
{
	if (a->fence) /* not part of a transaction */
		return;
	if (t->nsteps == CORE_STEPS_MAX) {
		t->many = true;
		t->undone = t->undone || joint; /* nobody could tell any more */
		return;
	}
	t->steps[t->nsteps++] = (struct core_txn_step){.step = core_step_new(a),
	    .used = used,
	    .joint = joint,
	    .undoable = used && t->depth != 0};
}

void
core_txn_step_used(struct core_txn *t, const struct core_action *a)
{
	size_t n = core_request_steps(a->request);

	if (a->next) {
		t->joint_used++;
	} else if (n > 1) {
		memcpy(t->joint, core_request_id(a->request), CORE_ID_SIZE);
		t->joint_used = 1;
		t->joint_steps = n;
	}
	step_add(t, a, true, n > 1);
}

void
core_txn_step_refused(struct core_txn *t, const struct core_action *a)
{
	step_add(t, a, false, false);
}

/* --- savepoints ------------------------------------------------------------------- */

static void
undo(struct core_txn *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nsteps; i++) {
		struct core_txn_step *s = &t->steps[i];

		if (!s->undoable) {
			t->steps[n++] = *s;
			continue;
		}
		t->undone = t->undone || s->joint;
		core_step_unref(s->step);
	}
	t->nsteps = n;
}

void
core_txn_points(struct core_txn *t, const struct core_facts *f)
{
	t->saves += f->savepoints;
	t->depth += f->savepoints;
	if (f->rollback_to)
		undo(t);
	t->depth -= f->releases < t->depth ? f->releases : t->depth;
	for (size_t i = 0; t->depth == 0 && i < t->nsteps; i++)
		t->steps[i].undoable = false;
}

static bool
was_undoable(const struct core_txn *before, const struct core_txn_step *s, unsigned depth)
{
	for (size_t i = 0; i < before->nsteps; i++)
		if (before->steps[i].step == s->step)
			return before->steps[i].undoable;
	return s->used && depth != 0;
}

void
core_txn_failed(struct core_txn *t, const struct core_txn *before)
{
	t->depth = before->depth + (t->saves - before->saves);
	for (size_t i = 0; i < t->nsteps; i++)
		t->steps[i].undoable = was_undoable(before, &t->steps[i], t->depth);
}

const char *
core_txn_partial(const struct core_txn *t, bool next)
{
	if (t->undone)
		return "a part of what people signed for as one was undone: ROLLBACK, then send "
		       "all of it";
	if (t->joint_used + (next ? 1 : 0) < t->joint_steps)
		return "people signed for more statements of this transaction, as one: send all of "
		       "them, or ROLLBACK";
	return NULL;
}

/* --- the whole ---------------------------------------------------------------------- */

static void
grants_free(struct core_txn *t)
{
	for (size_t i = 0; i < t->ngrants; i++) {
		free((void *)(uintptr_t)t->grants[i].person.p);
		free((void *)(uintptr_t)t->grants[i].role.p);
	}
	free(t->grants);
	t->grants = NULL;
	t->ngrants = 0;
}

void
core_txn_reset(struct core_txn *t)
{
	grants_free(t);
	for (size_t i = 0; i < t->nsteps; i++)
		core_step_unref(t->steps[i].step);
	*t = (struct core_txn){.state = 'I'};
}

void
core_txn_grants_add(struct core_txn *t, const struct policy_grant *g, size_t n)
{
	for (size_t i = 0; i < n && t->ngrants < APPROVAL_GRANTS_MAX; i++) {
		struct policy_grant *to;

		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): NULL after core_txn_reset() */
		t->grants = xreallocarray(t->grants, t->ngrants + 1, sizeof(*t->grants));
		to = &t->grants[t->ngrants++];
		to->person = str_mem(str_dup(g[i].person), g[i].person.n);
		to->role = str_mem(str_dup(g[i].role), g[i].role.n);
		to->verified = g[i].verified;
	}
}

void
core_txn_lifted_add(struct core_txn *t, const struct decision *d)
{
	for (size_t i = 0; i < d->nlifted && t->nlifted < CORE_TXN_LIFTED; i++) {
		struct str id = d->lifted[i];

		if (id.n >= CORE_ID_SIZE)
			continue;
		memcpy(t->lifted[t->nlifted], id.p, id.n);
		t->lifted[t->nlifted++][id.n] = '\0';
	}
}

void
core_txn_copy(struct core_txn *to, const struct core_txn *from)
{
	const struct policy_grant *grants = from->grants;

	assert(to != from);
	core_txn_reset(to);
	*to = *from;
	to->grants = NULL;
	to->ngrants = 0;
	core_txn_grants_add(to, grants, from->ngrants);
	for (size_t i = 0; i < to->nsteps; i++)
		to->steps[i].step->refs++;
}
