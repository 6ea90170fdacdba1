/*
 * What an action does (process: core): effects and what else the verdict needs, by the facts of its
 * text and of the texts that it EXECUTEs, and what of it core cannot hold to its limits. What core
 * does not know stays what the parser said.
 */
#include "broker/core_act.h"

#include "broker/core_approve.h"
#include "broker/core_witness.h"

#include "common/banned.h"

#define INNER_MAX ((size_t)262144)

static void
rels_add(struct core_action *a, const struct core_facts *f)
{
	for (size_t i = 0; i < f->rel.n && a->nrels < CORE_ACTION_RELS; i++)
		a->rels[a->nrels++] = f->rel.s[i];
}

/* PREPARE alone changes nothing yet; its EXECUTE is judged when it comes. */
static bool
only_prepares(const struct core_facts *f)
{
	return f->prep.n != 0 && f->view.statements == 1;
}

void
core_act_facts(struct core_action *a, struct core_facts *f)
{
	a->facts = core_facts_ref(f);
	a->effects |= f->view.effects;
	a->statements = f->view.statements;
	a->dml = (f->view.dml != 0 && !only_prepares(f)) || f->view.copy_in;
	a->hidden_dml = f->view.hidden_dml && !only_prepares(f);
	a->fence = f->view.fence;
	a->txn = f->txn;
	rels_add(a, f);
}

static bool
name_in(const struct core_names *l, struct str name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->s[i], name))
			return true;
	return false;
}

/*
 * EXECUTE p(...): with the effects of what p holds, if core knows that. Otherwise the mark
 * stays what it is, opaque. What this very text prepares is among its own effects already.
 */
void
core_act_executes(const struct core_stmts *s, struct core_action *a)
{
	AUTO_BUF struct buf b = BUF(INNER_MAX);
	const struct core_facts *f = a->facts;
	uint32_t inner = 0;

	for (size_t i = 0; i < f->exec.n; i++) {
		const struct core_name *n = core_stmts_get(s, CORE_NAME_STMT, f->exec.s[i]);
		const struct core_facts *g =
		    n != NULL && !n->unknown && n->stmt != NULL ? n->stmt->facts : NULL;

		if (n == NULL && name_in(&f->prep, f->exec.s[i]))
			continue;
		if (g == NULL || g->status != CORE_FACTS_OK || g->exec.n != 0)
			return;
		inner |= g->view.effects;
		a->dml = a->dml || g->view.dml != 0;
		a->hidden_dml = a->hidden_dml || g->view.hidden_dml;
		a->fence = a->fence || g->view.fence;
		a->txn = a->txn || g->txn;
		a->commits = a->commits || g->commit;
		rels_add(a, g);
		buf_printf(&b, "%s%.*s: %.*s", i != 0 ? "; " : "", STR_ARG(f->exec.s[i]),
		    STR_ARG(str_mem(n->stmt->text, n->stmt->n)));
	}
	if (f->exec.n == 0 || buf_over(&b))
		return;
	a->effects = f->view.effects_resolved | inner;
	if (b.n != 0)
		a->inner = buf_dup_z(&b);
}

/* --- what core cannot do, although it might be permitted --------------------------- */

bool
core_act_copies_in(const struct core_action *a)
{
	return a->facts != NULL && a->facts->view.copy_in;
}

static const char *
uncountable(const struct core_act *act, const struct core_action *a)
{
	if (a->hidden_dml)
		return "rows changed under WITH, EXPLAIN or COPY cannot be counted against the row "
		       "limit";
	if (!a->dml)
		return NULL;
	if (a->txn || a->fence)
		return "a change under a row limit cannot be sent together with transaction "
		       "control";
	if (core_act_copies_in(a) && a->statements > 1)
		return "COPY FROM STDIN under a row limit must be the only statement of its text";
	if (act->nexec > 1 || act->conn->pipeline)
		return "a change under a row limit must be the only statement of its exchange: "
		       "send it alone, or in a transaction that is open already";
	return NULL;
}

/* Said before an approval is used up, where it is known that it would be for nothing. */
static bool
unwitnessed(struct core_act *act, struct core_action *a)
{
	const struct core *c = act->conn->from.run->core;

	if (a->d.verdict != VERDICT_ALLOW || a->unwitnessed != NULL)
		return false;
	a->unwitnessed = core_witness_short(c, core_witness_needed(c, a->effects));
	if (a->unwitnessed == NULL)
		return false;
	core_decide_refuse(&act->conn->from, a, &act->txn, "57P03", a->unwitnessed);
	return true;
}

void
core_act_limits(struct core_act *act, struct core_action *a)
{
	const char *why = NULL;

	if (a->d.verdict == VERDICT_DENY || unwitnessed(act, a))
		return;
	if (a->d.verdict == VERDICT_NEEDS_APPROVAL && core_act_copies_in(a)) {
		core_decide_refuse(&act->conn->from, a, &act->txn, "0A000",
		    effects_sql_unapprovable(&a->facts->view));
		return;
	}
	if (a->d.max_rows >= 0)
		why = uncountable(act, a);
	if (why != NULL) {
		core_decide_refuse(&act->conn->from, a, &act->txn, "42501", why);
	} else if (a->d.verdict == VERDICT_NEEDS_APPROVAL && strlen(a->show) > CORE_SHOWN_MAX) {
		core_decide_refuse(&act->conn->from, a, &act->txn, "54000",
		    "the statement with its parameters is over 65536 bytes, more than people can "
		    "be shown");
	}
}
