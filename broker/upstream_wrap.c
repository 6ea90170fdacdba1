/*
 * Row limits, kept mechanically. Runs in upstream. A statement leased with max_rows runs inside
 * a transaction: ours when the session was idle, else the client's. Its answer is withheld until
 * the rows it changed are counted; over the limit, or not countable, it is undone. The own
 * statements are named and closed again, so that the client's unnamed ones stay.
 */
#include "broker/upstream_act.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define OWN_MAX 1024

static void
own_statement(struct upstream_conn *c, struct buf *out, const char *sql)
{
	AUTO_FREE char *name = xasprintf("cofferdam_own_%llu", (unsigned long long)++c->own);

	pgwire_put_own_statement(out, str_z(name), str_z(sql));
	pgwire_put_sync(out);
}

static void
own_phase(struct upstream_conn *c, enum act_phase phase, bool sync_first, const char *sql)
{
	AUTO_BUF struct buf out = BUF(OWN_MAX);

	if (sync_first)
		pgwire_put_sync(&out);
	own_statement(c, &out, sql);
	upstream_act_phase(c, phase, &out);
}

/* What the client reads instead of its answer, and what core records. */
static void
over_refusal(struct upstream_act *a)
{
	AUTO_FREE char *text = NULL;
	struct pgwire_error e = {.sqlstate = STR("42501")};

	switch (a->over) {
	case ACT_OVER_NOT:
	case ACT_OVER_ROWS:
		text = xasprintf("row limit: %llu rows, signed limit %llu",
		    (unsigned long long)a->changed, (unsigned long long)a->max_rows);
		break;
	case ACT_OVER_UNCOUNTED:
		text = xasprintf("row limit: \"%.40s\" tells no changed rows, signed limit %llu",
		    a->tag, (unsigned long long)a->max_rows);
		break;
	case ACT_OVER_SIZE:
		e.sqlstate = STR("54000");
		text = xasprintf(
		    "the answer is larger than %zu bytes, which is what a statement under "
		    "a row limit may answer",
		    a->held.max);
		break;
	case ACT_OVER_ORDER:
		e.sqlstate = STR("0A000");
		text =
		    xasprintf("a statement under a row limit must be the first one after a Sync");
		break;
	}
	e.message = str_z(text);
	e.detail = STR("no row stays changed by this statement");
	buf_reset(&a->refusal);
	pgwire_put_error(&a->refusal, "ERROR", &e);
	upstream_text(e.sqlstate, a->sqlstate, sizeof(a->sqlstate));
	upstream_text(e.message, a->message, sizeof(a->message));
}

/* The answer as it stands, and the state after it. `skip`: the client still owes a Sync. */
static int
finish(struct upstream_conn *c, bool skip)
{
	struct upstream_act *a = c->act;

	/* A cut answer is none; one that is over the limit is not true any more. */
	if (a->over == ACT_OVER_SIZE || (a->over != ACT_OVER_NOT && !a->failed && !a->poisoned)) {
		over_refusal(a);
		buf_reset(&a->held);
		buf_put_str(&a->held, buf_str(&a->refusal));
	}
	if (a->kind == ACT_QUERY || a->kind == ACT_SYNC)
		pgwire_put_ready(&a->held, c->txn);
	else
		c->skip = skip;
	upstream_act_done(c);
	return 0;
}

/* Inside the client's transaction: it must fail as a whole, so that the change cannot be committed.
 */
static void
poison(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;
	AUTO_BUF struct buf out = BUF(OWN_MAX);
	uint8_t raw[16];
	AUTO_BUF struct buf token = BUF(128);

	rand_bytes(raw, sizeof(raw));
	buf_put_z(&token, "cofferdam_refused_");
	enc_hex(&token, str_mem(raw, sizeof(raw)));
	free(a->token);
	a->token = buf_dup_z(&token);
	over_refusal(a);
	pgwire_put_parse(&out, str_z(a->token), str_z(a->token));
	if (a->kind == ACT_QUERY || a->kind == ACT_SYNC)
		pgwire_put_sync(&out);
	else
		pgwire_put_flush(&out);
	upstream_act_phase(c, ACT_POISON, &out);
}

void
upstream_wrap_begin(struct upstream_conn *c)
{
	/* Whether a BEGIN or COMMIT ran meanwhile cannot be known before ReadyForQuery tells. */
	if (c->executed) {
		c->act->over = ACT_OVER_ORDER;
		poison(c);
	} else if (c->txn == 'I') {
		own_phase(c, ACT_BEGIN, false, "BEGIN");
	} else {
		upstream_act_run(c);
	}
}

/* The client's messages have run. */
static int
after_run(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;
	bool synced = a->kind == ACT_QUERY || a->kind == ACT_SYNC;
	bool bad = a->failed || a->poisoned;

	if (synced && c->txn == 'I')
		return err_set(err, ERR_STATE,
		    "a statement under a row limit ended its transaction by itself");
	if (!a->begun) {
		if (a->over != ACT_OVER_NOT && !bad) {
			poison(c);
			return 0;
		}
		return finish(c, a->plan.skip);
	}
	if (bad || a->over != ACT_OVER_NOT)
		own_phase(c, ACT_ROLLBACK, a->plan.skip, "ROLLBACK");
	else
		own_phase(c, ACT_COMMIT, false, "COMMIT");
	return 0;
}

static int
after_begin(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;

	if (a->plan.failed)
		return finish(c, true);
	if (c->txn != 'T') {
		upstream_conn_end(c, "55000", "the server did not begin a transaction");
		return 0;
	}
	a->begun = true;
	upstream_act_run(c);
	return 0;
}

static int
after_end(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;

	if (c->txn != 'I') {
		upstream_conn_end(c, "55000", "the server did not end the transaction");
		return 0;
	}
	return finish(c, a->phase == ACT_ROLLBACK || a->failed);
}

int
upstream_wrap_next(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;

	switch (a->phase) {
	case ACT_RUN: return after_run(c, err);
	case ACT_BEGIN: return after_begin(c);
	case ACT_COMMIT:
	case ACT_ROLLBACK: return after_end(c);
	case ACT_POISON: return finish(c, a->plan.skip);
	case ACT_PREVIEW: break; /* never under a limit */
	}
	return err_set(err, ERR_INTERNAL, "phase %d", (int)a->phase);
}
