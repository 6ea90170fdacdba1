/*
 * Requests that are answered later: output that is to come, and the end of a program. Runs in the
 * supervisor. Each belongs to one connection, of which it is gone first.
 */
#include "agent/sandbox/super_state.h"

#include "common/xalloc.h"

#include "common/banned.h"

struct super_waiter {
	struct super_waiter *next;
	struct super_conn *conn;
	struct super_exec *exec;
	struct loop_timer *timer;
	uint32_t tag;
	bool logs;
	uint64_t from;
	size_t max;
};

static void
logs_send(const struct super_waiter *w)
{
	AUTO_BUF struct buf bytes = BUF(SANDBOX_LOG_MAX), b = BUF(SANDBOX_LOG_MAX + 64);
	uint64_t first = w->from, next;

	super_log_get(w->exec, &first, &next, w->max, &bytes);
	buf_u64(&b, first);
	buf_u64(&b, next);
	buf_u8(&b, w->exec->state != SUPER_ENDED);
	buf_lstr(&b, buf_str(&bytes));
	(void)super_conn_send(w->conn, CALL_DONE, w->tag, &b, NULL, 0);
}

static void
end_send(const struct super_waiter *w)
{
	AUTO_BUF struct buf b = BUF(65536);

	super_exec_end_put(w->exec, &b);
	(void)super_conn_send(w->conn, CALL_DONE, w->tag, &b, NULL, 0);
}

static bool
is_ready(const struct super_waiter *w)
{
	return w->exec->state == SUPER_ENDED || (w->logs && w->exec->total > w->from);
}

/* What there is; `late`: the time is over. */
static void
answer(struct super_waiter *w, bool late)
{
	if (w->logs)
		logs_send(w);
	else if (!late)
		end_send(w);
	else
		super_conn_error(
		    w->conn, w->tag, ERR_TIMEOUT, "sandbox: the program has not ended yet");
}

static void
waiter_free(struct super_waiter *w)
{
	loop_timer_del(w->timer);
	w->conn->waiters--;
	free(w);
}

static void
on_late(void *arg)
{
	struct super_waiter *w = arg, **at = &w->conn->s->waiters;

	w->timer = NULL;
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	answer(w, true);
	waiter_free(w);
}

static void
waiter_add(struct super_conn *c, struct super_waiter w, uint32_t ms)
{
	struct super_waiter *p;

	if (w.exec == NULL) {
		super_conn_error(c, w.tag, ERR_NOT_FOUND, "sandbox: no such program");
	} else if (is_ready(&w) || ms == 0) {
		answer(&w, !is_ready(&w));
	} else if (c->waiters >= (c->kind == SUPER_WHOLE ? SUPER_WAITERS_MAX : 1u)) {
		super_conn_error(c, w.tag, ERR_TOO_LARGE, "sandbox: too many requests wait");
	} else {
		p = xcalloc(1, sizeof(*p));
		*p = w;
		p->next = c->s->waiters;
		c->s->waiters = p;
		c->waiters++;
		p->timer = loop_timer_add(c->s->loop, ms, on_late, p);
	}
}

void
super_wait_logs(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super_waiter w = {.conn = c, .tag = tag, .logs = true};
	uint32_t ms, max;

	w.exec = super_exec_find(c->s, rd_u32(r));
	w.from = rd_u64(r);
	ms = rd_u32(r);
	max = rd_u32(r);
	w.max = max < SANDBOX_LOG_MAX ? max : SANDBOX_LOG_MAX;
	if (w.exec != NULL && !w.exec->spawned) {
		super_conn_error(c, tag, ERR_STATE,
		    "sandbox: the program's output went to its caller, not into a log");
		return;
	}
	waiter_add(c, w, ms);
}

void
super_wait_end(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super_waiter w = {.conn = c, .tag = tag};

	w.exec = super_exec_find(c->s, rd_u32(r));
	waiter_add(c, w, rd_u32(r));
}

/* Takes those out first: an answer may drop its connection, and with it others of the list. */
static struct super_waiter *
take_ready(struct super *s, const struct super_exec *x)
{
	struct super_waiter **at = &s->waiters, *w;

	for (; (w = *at) != NULL; at = &w->next)
		if (w->exec == x && is_ready(w)) {
			*at = w->next;
			return w;
		}
	return NULL;
}

void
super_waiters_wake(struct super_exec *x)
{
	struct super_waiter *w;

	while ((w = take_ready(x->s, x)) != NULL) {
		answer(w, false);
		waiter_free(w);
	}
}

void
super_waiters_drop(struct super *s, const struct super_conn *c)
{
	struct super_waiter **at = &s->waiters, *w;

	while ((w = *at) != NULL) {
		if (w->conn != c) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		waiter_free(w);
	}
}

void
super_waiters_lost(struct super_exec *x)
{
	struct super_waiter **at, *w;

	for (at = &x->s->waiters; (w = *at) != NULL;) {
		if (w->exec != x) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		super_conn_error(w->conn, w->tag, ERR_NOT_FOUND, "sandbox: no such program");
		waiter_free(w);
		at = &x->s->waiters;
	}
}
