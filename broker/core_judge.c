/*
 * The walk over one act's messages (process: core). Each Execute and Query is judged on its
 * own with the state that the messages before it leave; the first that is not allowed cuts the
 * act there. Messages come from front, which may lie: they were checked to be of their
 * layouts, and what is judged here is what is leased.
 */
#include "broker/core_act.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_lift.h"
#include "broker/core_sequence.h"
#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct walk {
	struct core_act *act;
	struct core_conn *conn;
	size_t at;    /* of the message */
	size_t facts; /* texts seen */
};

/* In a failed transaction a lone COMMIT rolls back: it commits nothing. */
static bool
commits(const struct walk *w, const struct core_facts *f)
{
	return f->commit && !(w->act->txn.state == 'E' && f->view.statements == 1);
}

/* --- one verdict ----------------------------------------------------------------- */

/* What the names and the transaction are after this action, if it runs. */
static void
apply(struct walk *w, struct core_action *a)
{
	struct core_act *act = w->act;
	struct core_txn *t = &act->txn;
	const struct core_facts *f = a->facts;
	struct hash link[2] = {t->chain, a->digest};

	act->effects |= a->effects;
	t->effects |= a->effects;
	if (t->began_us == 0)
		t->began_us = a->now.us;
	t->chain = hash_sha256(str_mem(link, sizeof(link)));
	t->n++;
	if (a->consume)
		core_txn_grants_add(t, a->grants, a->ngrants);
	core_txn_lifted_add(t, &a->d);
	if (a->consume || a->next)
		core_txn_step_used(t, a);
	if (f == NULL)
		return;
	core_txn_points(t, f);
	if (a->commits || f->commit || f->rollback) {
		core_txn_reset(t);
		if (f->view.statements > 1 || a->inner != NULL)
			t->effects =
			    a->effects; /* what of the same text comes after is not known apart */
	} else if (f->txn) {
		t->state = 'T'; /* BEGIN; or in a failed one, ROLLBACK TO */
	}
}

static void
keep(struct core_act *act, struct str *name)
{
	act->kept = xreallocarray(act->kept, act->nkept + 1, sizeof(*act->kept));
	act->kept[act->nkept] = str_dup(*name);
	name->p = act->kept[act->nkept++];
}

/* Grants of a transaction are its own, and go with it: a COMMIT's must last for its record. */
static void
keep_grants(struct core_act *act, struct core_action *a)
{
	for (size_t i = 0; i < a->ngrants; i++) {
		keep(act, &a->grants[i].person);
		keep(act, &a->grants[i].role);
	}
}

/* Signatures of a transaction cover the end of it, not what else stands in the same text. */
static bool
only_ends(const struct core_action *a)
{
	return a->facts != NULL && a->facts->view.txn_only;
}

/* Does it commit what was signed as one, before all of that has run? */
static const char *
partial(const struct walk *w, const struct core_action *a)
{
	const struct core_act *act = w->act;
	/* A simple Query ends the implicit transaction of what was sent before it without Sync. */
	bool ends = a->commits || (act->kind == CORE_ACT_QUERY && act->txn.state == 'I');
	enum core_use use;

	if (!ends || core_txn_partial(&act->txn, false) == NULL)
		return NULL;
	(void)core_sequence_find(&w->conn->from, a, &use);
	return core_txn_partial(&act->txn, use == CORE_USE_NEXT);
}

static bool
judge(struct walk *w, struct core_action *a)
{
	struct core_act *act = w->act;
	const struct core_txn unsigned_txn = {.state = act->txn.state};
	const struct core_txn *txn = a->commits && only_ends(a) ? &act->txn : &unsigned_txn;

	a->act = act;
	if (a->effects == 0)
		a->effects = EFFECT_opaque;
	a->at = w->at;
	if (a->commits)
		a->effects |= act->txn.effects;
	if (core_action_only_ends(a))
		a->began_us = act->txn.began_us;
	a->txn_state = act->txn.state;
	a->txn_effects = act->txn.effects;
	a->show = core_act_show(a);
	a->digest = core_act_digest(w->conn, a, &act->txn);
	if (a->refuse_why == NULL) {
		a->refuse_why = partial(w, a);
		a->refuse_state = a->refuse_why != NULL ? "42501" : NULL;
	}
	if (a->refuse_why != NULL)
		core_decide_refuse(&w->conn->from, a, txn, a->refuse_state, a->refuse_why);
	else
		core_decide_judge(&w->conn->from, a, txn);
	core_act_limits(act, a);
	keep_grants(act, a);
	core_decide_finish(&w->conn->from, a);
	act->actions[act->nactions++] = a;
	if (a->d.verdict != VERDICT_ALLOW) {
		if (a->request != NULL)
			core_txn_step_refused(&act->txn, a);
		act->refused = true;
		return false;
	}
	if (a->consume && !core_approve_consume(a->request, a->id))
		act->failed = true;
	if (!core_lift_use(w->conn->from.run, a, txn))
		act->failed = true;
	if ((a->effects & CORE_EFFECTS_SCHEMA) != 0)
		core_approve_schema_changed(&w->conn->from, a->request);
	act->wrap = act->wrap || (a->d.max_rows >= 0 && a->dml);
	act->copy_in = act->copy_in || core_act_copies_in(a);
	apply(w, a);
	return true;
}

/* --- messages -------------------------------------------------------------------- */

/* A ceiling or an impossible name: opaque, with these words. */
static void
cannot(struct core_action *a, const struct err *err)
{
	a->refuse_state = err_sqlstate(err->code);
	a->refuse_why = err->code == ERR_TOO_LARGE
			    ? "over a limit of prepared statements and portals of one connection"
			    : "not supported";
}

static void
sql_names(struct walk *w, struct core_action *a)
{
	struct core_stmts *s = &w->conn->stmts;
	const struct core_facts *f = a->facts;
	struct err err = {0};

	for (size_t i = 0; i < f->dealloc.n; i++)
		core_stmts_close(s, CORE_NAME_STMT, f->dealloc.s[i]);
	if (f->dealloc_all)
		core_stmts_close_all(s);
	for (size_t i = 0; i < f->prep.n; i++) {
		struct core_stmt *st = core_stmt_new(a->text, STR(""), a->facts);

		/* Over a ceiling the name stays what it was; the act was judged already, so it ends
		 * opaque later. */
		if (core_stmts_put(s, CORE_NAME_STMT, f->prep.s[i], st, STR(""), &err) != 0)
			core_stmts_close(s, CORE_NAME_STMT, f->prep.s[i]);
		core_stmt_unref(st);
	}
}

/* Behind it comes its data, or a Sync that the server reads over, and nothing else. */
static void
copy_must_be_last(const struct walk *w, struct core_action *a)
{
	struct str s = buf_str(&w->act->msgs);
	struct pgwire_msg m;

	if (!core_act_copies_in(a))
		return;
	s = str_mem(s.p + w->at, s.n - w->at);
	for (size_t i = 0; pgwire_next(s, SIZE_MAX, &m, NULL) == 1; i++) {
		if (i != 0 && m.type != 'S' && m.type != 'H') {
			a->refuse_state = "08P01";
			a->refuse_why = "something else than its data follows COPY FROM STDIN";
		}
		s = str_mem(s.p + m.whole.n, s.n - m.whole.n);
	}
}

static bool
on_query(struct walk *w, struct rd *r)
{
	struct core_action *a = core_action_new(CORE_OP_QUERY);
	struct core_facts *f = w->act->facts[w->facts++];

	a->text = pgwire_rd_z(r);
	core_act_facts(a, f);
	core_act_executes(&w->conn->stmts, a);
	a->commits = a->commits || commits(w, f);
	if (!judge(w, a))
		return false;
	/* A simple Query ends the unnamed ones. */
	core_stmts_close(&w->conn->stmts, CORE_NAME_STMT, STR(""));
	core_stmts_close(&w->conn->stmts, CORE_NAME_PORTAL, STR(""));
	sql_names(w, a);
	return true;
}

static bool
on_function(struct walk *w, struct rd *r)
{
	struct core_action *a = core_action_new(CORE_OP_FUNCTION);

	a->text = str_mem(r->p, r->n);
	a->effects = EFFECT_opaque;
	a->statements = 1;
	return judge(w, a);
}

static bool
refuse_parse(struct walk *w, struct str text, struct core_facts *f, const struct err *err)
{
	struct core_action *a = core_action_new(CORE_OP_PREPARE);

	a->text = text;
	core_act_facts(a, f);
	if (err != NULL)
		cannot(a, err);
	return judge(w, a);
}

static bool
on_parse(struct walk *w, struct rd *r)
{
	struct core_facts *f = w->act->facts[w->facts++];
	struct str name = pgwire_rd_z(r), text = pgwire_rd_z(r), types;
	struct core_stmt *st;
	struct err err = {0};
	int rc;

	types = rd_bytes(r, (size_t)4 * rd_u16(r));
	/* EXECUTE is resolved when it runs; everything else that escapes is refused at once. */
	if ((f->view.effects & EFFECT_SET_ESCAPE) != 0 &&
	    !(f->exec.n != 0 && (f->view.effects_resolved & EFFECT_SET_ESCAPE) == 0))
		return refuse_parse(w, text, f, NULL);
	st = core_stmt_new(text, types, f);
	rc = core_stmts_put(&w->conn->stmts, CORE_NAME_STMT, name, st, STR(""), &err);
	core_stmt_unref(st);
	return rc == 0 || refuse_parse(w, text, f, &err);
}

static struct core_stmt *
known(const struct core_name *n)
{
	return n != NULL && !n->unknown ? n->stmt : NULL;
}

static bool
on_bind(struct walk *w, struct rd *r)
{
	struct str portal = pgwire_rd_z(r), name = pgwire_rd_z(r), body = str_mem(r->p, r->n);
	struct core_stmt *st = known(core_stmts_get(&w->conn->stmts, CORE_NAME_STMT, name));
	struct core_action *a;
	struct err err = {0};

	if (name.n <= CORE_NAME_MAX &&
	    core_stmts_put(&w->conn->stmts, CORE_NAME_PORTAL, portal, st, body, &err) == 0)
		return true;
	a = core_action_new(CORE_OP_PREPARE);
	a->text = st != NULL ? str_mem(st->text, st->n) : STR("");
	a->stmt = core_stmt_ref(st);
	a->statements = 1;
	a->effects = EFFECT_opaque;
	if (err.code == 0)
		(void)err_set(&err, ERR_TOO_LARGE, "name");
	cannot(a, &err);
	return judge(w, a);
}

static bool
has_params(struct str body)
{
	struct rd r = rd_init(body);

	(void)rd_bytes(&r, (size_t)2 * rd_u16(&r));
	return rd_u16(&r) != 0;
}

static bool
on_execute(struct walk *w, struct rd *r)
{
	struct core_action *a = core_action_new(CORE_OP_EXECUTE);
	struct str portal = pgwire_rd_z(r), body;
	const struct core_name *n = core_stmts_get(&w->conn->stmts, CORE_NAME_PORTAL, portal);

	a->max_fetch = rd_u32(r);
	a->statements = 1;
	if (known(n) == NULL) { /* bound to a statement, or by a way, that core does not know */
		a->effects = EFFECT_opaque;
		a->refuse_state = "42501";
		a->refuse_why =
		    "the broker does not know which statement this portal runs: prepare it again";
		return judge(w, a);
	}
	a->stmt = core_stmt_ref(n->stmt);
	a->text = str_mem(n->stmt->text, n->stmt->n);
	body = str_mem(n->params, n->nparams);
	if (has_params(body))
		a->params = body;
	core_act_facts(a, n->stmt->facts);
	core_act_executes(&w->conn->stmts, a);
	a->commits = a->commits || commits(w, n->stmt->facts);
	copy_must_be_last(w, a);
	if (!judge(w, a))
		return false;
	sql_names(w, a);
	return true;
}

static bool
on_close(struct walk *w, struct rd *r)
{
	enum core_name_kind kind = rd_u8(r) == 'S' ? CORE_NAME_STMT : CORE_NAME_PORTAL;

	core_stmts_close(&w->conn->stmts, kind, pgwire_rd_z(r));
	return true;
}

static bool
on_other(struct walk *w, struct rd *r) /* Describe, Sync, Flush */
{
	(void)w;
	(void)r;
	return true;
}

static const struct {
	char type;
	bool (*fn)(struct walk *w, struct rd *body); /* false: refused here */
} messages[] = {
    {'Q', on_query},
    {'F', on_function},
    {'P', on_parse},
    {'B', on_bind},
    {'E', on_execute},
    {'C', on_close},
    {'D', on_other},
    {'S', on_other},
    {'H', on_other},
};

static bool
step(struct walk *w, const struct pgwire_msg *m)
{
	struct rd r = rd_init(m->body);

	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].type == m->type)
			return messages[i].fn(w, &r);
	return false; /* not reached: core_act.c has checked the types */
}

/* An exchange that executes nothing still sends bytes: it is one action, a read. */
static void
prepare_only(struct walk *w)
{
	struct core_act *act = w->act;
	struct core_action *a = core_action_new(CORE_OP_PREPARE);
	struct pgwire_msg m;

	a->effects = EFFECT_read;
	a->statements = 1;
	w->at = 0;
	for (struct str s = buf_str(&act->msgs); pgwire_next(s, SIZE_MAX, &m, NULL) == 1;
	     s = str_mem(s.p + m.whole.n, s.n - m.whole.n)) {
		struct rd r = rd_init(m.body);

		if (m.type != 'P')
			continue;
		(void)pgwire_rd_z(&r);
		a->text = pgwire_rd_z(&r);
		a->facts = core_facts_ref(act->facts[0]);
		break;
	}
	(void)judge(w, a);
}

/* Outside a block the Sync commits: not what was signed as one, before all of it has run. */
static void
sync_partial(struct walk *w)
{
	struct core_act *act = w->act;
	const char *why = core_txn_partial(&act->txn, false);
	struct core_action *a;

	if (act->kind != CORE_ACT_SYNC || act->txn.state != 'I' || w->conn->skipping || why == NULL)
		return;
	a = core_action_new(CORE_OP_PREPARE);
	a->text = STR("");
	a->statements = 1;
	a->refuse_state = "42501";
	a->refuse_why = why;
	w->at = act->msgs.n - 5; /* of the Sync */
	(void)judge(w, a);
}

static void
poison(struct core_act *act)
{
	uint8_t r[16];
	AUTO_BUF struct buf b = BUF(64);

	rand_bytes(r, sizeof(r));
	buf_put_z(&b, "cofferdam_refused_");
	enc_hex(&b, str_mem(r, sizeof(r)));
	memcpy(act->poison, b.p, b.n);
}

void
core_act_judge(struct core_act *act)
{
	struct core_conn *conn = act->conn;
	struct walk w = {.act = act, .conn = conn};
	struct str s = buf_str(&act->msgs);
	bool whole = act->kind == CORE_ACT_QUERY || act->kind == CORE_ACT_SYNC;
	struct pgwire_msg m;

	act->send = s.n;
	while (!act->refused && s.n != 0 && pgwire_next(s, SIZE_MAX, &m, NULL) == 1) {
		w.at = (size_t)(s.p - (const char *)act->msgs.p);
		(void)step(&w, &m);
		s.p += m.whole.n;
		s.n -= m.whole.n;
	}
	if (act->nactions == 0)
		prepare_only(&w);
	if (!act->refused)
		sync_partial(&w);
	if (!act->refused)
		return;
	/* Bytes go upstream only under an action that is allowed. */
	act->send = act->nactions > 1 ? act->actions[act->nactions - 1]->at : 0;
	act->nothing_sent =
	    act->nactions == 1 && conn->txn.state == 'I' && !conn->pipeline && whole;
	if (!act->nothing_sent)
		poison(act);
}
