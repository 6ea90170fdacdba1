/*
 * A leased exchange from U_SEND to U_DONE. Runs in upstream. What core judged is written to
 * the server byte for byte and hashed as written; nothing else of a client ever is but the data
 * of a COPY that the lease allows (upstream_copy.c).
 */
#include "broker/upstream_act.h"

#include <stdio.h>

#include "broker/upstream_copy.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define U_DONE_MAX 8192
#define OWN_MAX 8192

/* --- completions and errors ------------------------------------------------------ */

static void
completion(struct upstream_conn *c, const struct pgwire_msg *m)
{
	struct upstream_act *a = c->act;
	struct str tag = m->body.n != 0 ? str_mem(m->body.p, m->body.n - 1) : STR(""), verb;
	uint64_t n = 0;
	bool counted = pgwire_tag_rows(tag, &verb, &n);
	bool filled = c->copy.act == a->id && c->copy.state == COPY_ENDED;
	bool changes = counted && (str_eqz(verb, "INSERT") || str_eqz(verb, "UPDATE") ||
				      str_eqz(verb, "DELETE") || str_eqz(verb, "MERGE") ||
				      (filled && str_eqz(verb, "COPY")));

	upstream_text(tag, a->tag, sizeof(a->tag));
	a->rows += n;
	if (changes)
		a->changed += n;
	else if (a->wrap && a->over == ACT_OVER_NOT)
		a->over = ACT_OVER_UNCOUNTED;
	if (a->wrap && a->changed > a->max_rows && a->over == ACT_OVER_NOT)
		a->over = ACT_OVER_ROWS;
}

static void
error_note(struct upstream_act *a, const struct pgwire_error *e)
{
	if (a->sqlstate[0] != '\0')
		return;
	upstream_text(e->sqlstate, a->sqlstate, sizeof(a->sqlstate));
	upstream_text(e->message, a->message, sizeof(a->message));
}

static bool
carries_token(const struct upstream_act *a, const struct pgwire_error *e)
{
	return a->token[0] != '\0' && str_eqz(e->sqlstate, "42601") && e->message.n != 0 &&
	       memmem(e->message.p, e->message.n, a->token, strlen(a->token)) != NULL;
}

/* The server's complaint about our token is what aborted the transaction: the client reads why. */
static int
error(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	struct upstream_act *a = c->act;
	struct pgwire_error e, ours;
	int rc = pgwire_error_parse(m->body, &e, err);

	if (rc != 0)
		return rc;
	upstream_copy_stop(c);
	if (a->phase == ACT_POISON)
		buf_reset(&a->held); /* what the statement answered is not true any more */
	if (!carries_token(a, &e)) {
		a->failed = true;
		error_note(a, &e);
		upstream_answer_put(c, m->whole, true);
		return 0;
	}
	a->poisoned = true;
	rc = pgwire_error_parse(str_mem(a->refusal.p + 5, a->refusal.n - 5), &ours, err);
	if (rc != 0)
		return rc;
	error_note(a, &ours);
	upstream_answer_put(c, buf_str(&a->refusal), true);
	return 0;
}

static int
ready(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	char txn = '\0';

	if (m->body.n == 1)
		txn = m->body.p[0];
	if (txn != 'I' && txn != 'T' && txn != 'E')
		return err_set(err, ERR_PROTOCOL, "malformed ReadyForQuery");
	c->txn = txn;
	c->executed = false;
	/* Under a limit the last word is ours, when the state is known. */
	if (c->act->phase == ACT_RUN && !c->act->wrap)
		upstream_answer_put(c, m->whole, true);
	return 0;
}

/* The end of one of our own statements, or of the client's under COMMIT. */
static int
own_tail(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	struct upstream_act *a = c->act;

	if (m->type != 'E')
		return 0;
	/* COMMIT failed (a deferred constraint): an error comes in place of the completion. */
	if (a->phase == ACT_COMMIT)
		a->held.n = a->held_last;
	return error(c, m, err);
}

int
upstream_act_tail(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	struct upstream_act *a = c->act;

	if (m->type == 'Z')
		return ready(c, m, err);
	if (a->phase != ACT_RUN)
		return own_tail(c, m, err);
	if (m->type == 'E')
		return error(c, m, err);
	a->held_last = a->held.n;
	if (m->type == 'C')
		completion(c, m);
	upstream_answer_put(c, m->whole, true);
	return 0;
}

/* --- the end --------------------------------------------------------------------- */

static uint8_t
status(const struct upstream_act *a)
{
	if (a->over != ACT_OVER_NOT && a->wrap && !a->failed)
		return 3;
	if (a->poisoned)
		return 5;
	return a->failed ? 2 : 1;
}

static void
tell_done(struct upstream_hub *h, uint64_t id, struct upstream_act *a, uint8_t how, char txn)
{
	AUTO_BUF struct buf b = BUF(U_DONE_MAX);
	struct hash data = {0};

	if (a->preview) {
		upstream_preview_tell(h, id, a, how);
		return;
	}
	buf_u64(&b, id);
	buf_u64(&b, a->id);
	buf_u8(&b, how);
	buf_u8(&b, (uint8_t)txn);
	buf_u64(&b, a->wrap ? a->changed : a->rows);
	buf_u64(&b, a->bytes);
	buf_lz(&b, a->tag);
	buf_lz(&b, a->sqlstate);
	buf_lz(&b, a->message);
	buf_put(&b, a->sent.b, HASH_LEN);
	buf_u8(&b, a->copied != NULL);
	if (a->copied != NULL)
		data = hash_end(TAKE_PTR(a->copied));
	buf_u64(&b, a->copied_bytes);
	buf_put(&b, data.b, HASH_LEN);
	upstream_seal_done(h, TAKE_PTR(a->seal), &b);
}

static void
act_free(struct upstream_act *a)
{
	if (a == NULL)
		return;
	upstream_seal_free(a->seal);
	free(a->token);
	if (a->copied != NULL)
		(void)hash_end(a->copied);
	buf_free(&a->messages);
	buf_free(&a->refusal);
	buf_free(&a->stream);
	buf_free(&a->tail);
	buf_free(&a->held);
	free(a);
}
DEFINE_AUTO(act, struct upstream_act, act_free)

void
upstream_act_done(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;
	bool lost = a->over == ACT_OVER_SIZE && !a->wrap;

	upstream_act_flush(c);
	if (!lost) {
		upstream_answer_drain(c, &a->held, true);
		upstream_answer_drain(c, &a->tail, true);
	}
	tell_done(c->hub, c->id, a, status(a), c->txn);
	c->act = NULL;
	act_free(a);
	if (lost)
		upstream_conn_end(c, "54000", "the answer is larger than can be withheld");
}

void
upstream_act_drop(struct upstream_conn *c)
{
	act_free(TAKE_PTR(c->act));
}

void
upstream_act_lost(struct upstream_conn *c, const char *sqlstate, const char *message)
{
	AUTO(act) struct upstream_act *a = TAKE_PTR(c->act);

	if (a == NULL)
		return;
	upstream_text(
	    sqlstate != NULL ? str_z(sqlstate) : STR("08006"), a->sqlstate, sizeof(a->sqlstate));
	upstream_text(str_z(message), a->message, sizeof(a->message));
	tell_done(c->hub, c->id, a, 4, c->txn);
}

int
upstream_act_next(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;

	if (a->sync_owed) {
		AUTO_BUF struct buf sync = BUF(16);

		a->sync_owed = false;
		pgwire_put_sync(&sync);
		upstream_act_phase(c, ACT_RUN, &sync);
		return 0;
	}
	if (a->preview)
		return upstream_preview_next(c, err);
	if (a->wrap)
		return upstream_wrap_next(c, err);
	c->skip = a->plan.skip;
	upstream_act_done(c);
	return 0;
}

/* --- the beginning --------------------------------------------------------------- */

void
upstream_act_phase(struct upstream_conn *c, enum act_phase phase, const struct buf *messages)
{
	struct err err = {0};

	c->act->phase = phase;
	c->act->plan = (struct upstream_plan){0};
	if (upstream_plan_add(&c->act->plan, buf_str(messages), &err) != 0)
		fatal("own statement: %s", err.msg);
	upstream_conn_send(c, buf_str(messages));
}

static char
last_type(struct str s)
{
	struct pgwire_msg m = {0};

	while (s.n != 0 && pgwire_next(s, SIZE_MAX, &m, NULL) == 1) {
		s.p += m.whole.n;
		s.n -= m.whole.n;
	}
	return (char)(s.n == 0 ? m.type : '\0');
}

/* The client's messages, the token before their end, and the end itself where core left it to us.
 */
void
upstream_act_run(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;
	AUTO_BUF struct buf out = BUF(a->messages.n + OWN_MAX);
	struct str all = buf_str(&a->messages), head = all;
	char last = last_type(all);
	bool ends = last == 'S' || last == 'H';

	if (ends)
		head.n -= 5;
	buf_put_str(&out, head);
	if (a->token[0] != '\0' && a->kind == ACT_QUERY)
		pgwire_put_query(&out, str_z(a->token));
	else if (a->token[0] != '\0')
		pgwire_put_parse(&out, str_z(a->token), str_z(a->token));
	a->sync_owed = a->kind == ACT_SYNC && a->copy_in;
	if (a->kind == ACT_SYNC && !a->sync_owed)
		pgwire_put_sync(&out);
	else if (a->kind != ACT_QUERY)
		pgwire_put_flush(&out);
	a->sent = hash_sha256(all);
	buf_free(&a->messages);
	upstream_act_phase(c, ACT_RUN, &out);
	if (c->act != NULL)
		c->executed = c->executed || c->act->plan.executes;
}

/* Which messages a kind may hold; nothing else is sent, whoever asks. */
static int
check(const struct upstream_act *a, struct err *err)
{
	struct str s = buf_str(&a->messages);
	struct upstream_plan plan = {0};
	struct pgwire_msg m;
	size_t n = 0, executes = 0;
	int rc = upstream_plan_add(&plan, s, err);

	for (; rc == 0 && s.n != 0 && pgwire_next(s, SIZE_MAX, &m, err) == 1; n++) {
		bool simple = m.type == 'Q' || m.type == 'F';
		bool end = m.type == 'S' || m.type == 'H';

		executes += m.type == 'E';
		s.p += m.whole.n;
		s.n -= m.whole.n;
		if (simple != (a->kind == ACT_QUERY) || (simple && n != 0) || (end && s.n != 0) ||
		    (m.type == 'S' && a->kind != ACT_SYNC) ||
		    (m.type == 'H' && a->kind != ACT_FLUSH))
			return err_set(err, ERR_PROTOCOL,
			    "message type %u in an exchange of kind %u", (unsigned)(uint8_t)m.type,
			    (unsigned)a->kind);
	}
	if (rc == 0 && a->wrap && executes > 1)
		return err_set(err, ERR_PROTOCOL, "%zu Executes under one row limit", executes);
	if (rc == 0 && a->kind == ACT_QUERY && (n == 0) != (a->token[0] != '\0'))
		return err_set(err, ERR_PROTOCOL, "a Query and a token exclude each other");
	return rc;
}

static struct upstream_act *
act_new(const struct upstream_send *s)
{
	struct upstream_act *a = xcalloc(1, sizeof(*a));

	a->id = s->act;
	a->max_rows = s->max_rows;
	a->kind = (enum act_kind)s->kind;
	a->wrap = s->wrap != 0;
	a->hold_all = s->hold_all != 0 || a->wrap;
	a->copy_in = s->copy_in != 0;
	a->preview = s->preview;
	a->token = str_dup(s->token);
	a->sent = hash_sha256(STR(""));
	buf_init(&a->messages, IPC_BODY_MAX);
	buf_put_str(&a->messages, s->messages);
	buf_init(&a->refusal, 65536);
	pgwire_put_error(&a->refusal, "ERROR", &s->refusal);
	buf_init(&a->stream, 2 * UPSTREAM_FRAME_BYTES + UPSTREAM_MESSAGE_MAX);
	buf_init(&a->tail, UPSTREAM_TAIL_BYTES + UPSTREAM_MESSAGE_MAX);
	buf_init(&a->held, PGWIRE_HOLD_MAX - 65536);
	return a;
}

/* After an error the server ignores all up to Sync; so do we, and send nothing but that. */
static bool
skipped(struct upstream_conn *c)
{
	struct upstream_act *a = c->act;

	if (!c->skip)
		return false;
	/* A Sync alone loses nothing. */
	a->failed = a->kind != ACT_SYNC || a->messages.n > 5;
	if (a->failed)
		(void)snprintf(
		    a->message, sizeof(a->message), "skipped: an earlier message failed");
	if (a->kind != ACT_SYNC) {
		upstream_act_done(c);
		return true;
	}
	c->skip = false;
	a->wrap = a->hold_all = a->copy_in = false;
	a->token[0] = '\0';
	buf_reset(&a->messages);
	pgwire_put_sync(&a->messages);
	upstream_act_run(c);
	return true;
}

static int
start(struct upstream_conn *c, struct err *err)
{
	struct upstream_act *a = c->act;
	int rc;

	if (a->kind < ACT_QUERY || a->kind > ACT_CUT)
		return err_set(err, ERR_PROTOCOL, "kind %u", (unsigned)a->kind);
	rc = check(a, err);
	if (rc == 0 && a->preview)
		return upstream_preview_begin(c, err);
	if (rc != 0 || skipped(c))
		return rc;
	if (a->wrap && c->txn != 'E')
		upstream_wrap_begin(c);
	else
		upstream_act_run(c);
	/* An empty Flush is answered by nothing. */
	if (c->act != NULL && upstream_plan_done(&c->act->plan))
		return upstream_act_next(c, err);
	return 0;
}

void
upstream_act_begin(struct upstream_conn *c)
{
	unsigned long long id = c->act->id;
	struct err err = {0};

	c->act->waits = false;
	if (start(c, &err) != 0 && c->state != UP_DEAD) {
		log_error("lease %llu is not sent: %s", id, err.msg);
		upstream_conn_end(c, err_sqlstate(err.code), err.msg);
	}
}

void
upstream_act_send(struct upstream_hub *h, const struct upstream_send *s)
{
	AUTO(act) struct upstream_act *a = act_new(s);
	struct upstream_conn *c = upstream_hub_find(h, s->id);

	a->seal = upstream_seal_take(h, s->id, s->act);
	if (c == NULL || c->state != UP_READY) {
		(void)snprintf(a->sqlstate, sizeof(a->sqlstate), "08003");
		(void)snprintf(a->message, sizeof(a->message), "the connection does not exist");
		tell_done(h, s->id, a, 4, 'I');
		return;
	}
	if (c->act != NULL) {
		log_error(
		    "lease %llu is not sent: another is in flight", (unsigned long long)s->act);
		upstream_conn_end(c, "08P01", "an exchange is in flight already");
		return;
	}
	c->act = TAKE_PTR(a);
	/* A cancel that is late must not hit what comes next. */
	c->act->waits = c->cancel != NULL;
	if (!c->act->waits)
		upstream_act_begin(c);
}
