/*
 * The programs of a sandbox, from the order to the answer about their end. Runs in the supervisor.
 * Each order has one answer, STARTED or ERROR, and each that was started one EXITED, whatever
 * happens to pid 1; causes are told from what the limits, the clock and the callers did, not from
 * what pid 1 says.
 */
#include "agent/sandbox/super_state.h"

#include <sys/wait.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct super_exec *
super_exec_find(struct super *s, uint32_t proc)
{
	struct super_exec *x = s->execs;

	while (x != NULL && x->proc != proc)
		x = x->next;
	return x;
}

size_t
super_execs_alive(const struct super *s)
{
	size_t n = 0;

	for (const struct super_exec *x = s->execs; x != NULL; x = x->next)
		n += x->state != SUPER_ENDED ? 1 : 0;
	return n;
}

/* Not known any more; freed by the sweep at the end of the turn, callers may still hold it. */
static void
exec_forget(struct super_exec *x)
{
	struct super_exec **at = &x->s->execs;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->next = x->s->dead_execs;
	x->s->dead_execs = x;
	super_fds_close(x->given, &x->ngiven);
	super_log_close(x);
	super_waiters_lost(x);
}

void
super_execs_sweep(struct super *s)
{
	while (s->dead_execs != NULL) {
		struct super_exec *x = s->dead_execs;

		s->dead_execs = x->next;
		free(x->ring);
		free(x->argv);
		free(x->refused);
		free(x);
	}
}

/* The oldest that ended go first; one that left something keeps its row, but not its output. */
static void
ended_trim(struct super *s)
{
	size_t n = 0;

	for (struct super_exec *x = s->execs, *next; x != NULL; x = next) {
		next = x->next;
		if (x->state != SUPER_ENDED || ++n <= SUPER_KEPT_MAX)
			continue;
		if (!x->left) {
			exec_forget(x);
			continue;
		}
		super_log_close(x);
		free(TAKE_PTR(x->ring));
		x->ring_cap = 0;
	}
}

void
super_execs_free(struct super *s)
{
	while (s->execs != NULL)
		exec_forget(s->execs);
	super_execs_sweep(s);
}

void
super_execs_orphan(struct super *s, const struct super_conn *c)
{
	for (struct super_exec *x = s->execs; x != NULL; x = x->next)
		if (x->conn == c) {
			x->conn = NULL;
			x->orphan = x->state != SUPER_ENDED;
			if (x->tied)
				super_exec_kill(x, SANDBOX_KILLED);
		}
}

/* --- start ---------------------------------------------------------------------------------- */

static void
company_note(struct super *s, struct super_exec *x)
{
	x->alone = true;
	for (struct super_exec *o = s->execs; o != NULL; o = o->next)
		if (o->state != SUPER_ENDED)
			o->alone = x->alone = false;
}

/* What is ordered while a caller holds all programs begins after that, however long it takes. */
static int64_t
answer_by(const struct super_exec *x)
{
	bool waits = x->s->holder != NULL && (x->flags & INSIDE_HELPER) == 0;

	return waits ? 0 : super_clock(x->s) + super_times.spawn;
}

void
super_execs_held(struct super *s)
{
	for (struct super_exec *x = s->execs; x != NULL; x = x->next)
		if (x->state == SUPER_ASKED)
			x->answer_by = answer_by(x);
}

static struct super_exec *
exec_new(struct super_conn *c, uint32_t tag, uint32_t proc, struct super_order *o, bool spawn)
{
	struct super *s = c->s;
	struct super_exec *x = xcalloc(1, sizeof(*x));

	x->s = s;
	x->proc = proc;
	x->tag = tag;
	x->conn = c;
	x->flags = o->flags;
	x->spawned = spawn;
	x->tied = o->tied;
	x->out[0] = x->out[1] = x->in = -1;
	x->argv = TAKE_PTR(o->argv);
	x->started_ms = super_wall_ms();
	x->answer_by = answer_by(x);
	if (o->timeout_ms != 0)
		x->deadline = super_clock(s) + o->timeout_ms;
	x->ooms = super_ooms_begin(s);
	company_note(s, x);
	if (x->alone && s->refused != NULL) {
		AUTO_BUF struct buf old = BUF(65536);

		super_notify_turn(s);
		filter_counts_json(s->refused, true, &old);
	}
	x->next = s->execs;
	s->execs = x;
	return x;
}

static void
order_send(
    struct super_exec *x, struct super_order *o, const int *fds, size_t nfds, struct err *err)
{
	int all[ARRAY_LEN(x->given) + SANDBOX_EXEC_FDS_MAX];
	const uint32_t flags = x->flags | INSIDE_GIVEN;
	size_t inner = 0;

	if (x->s->box.backend->pipes_in) {
		memcpy(o->frame.p + offsetof(struct inside_spawn, flags), &flags, sizeof(flags));
		(void)super_pipes_make(x, all, &inner, err);
	}
	for (size_t i = 0; i < nfds; i++)
		all[inner + i] = fds[i];
	if (err->code == 0 && super_inside_send(x->s, INSIDE_SPAWN, x->proc, 0, buf_str(&o->frame),
				  all, inner + nfds) == -ETOOMANYREFS)
		(void)err_set(err, ERR_UNAVAILABLE, WIRE_IN_FLIGHT);
	super_fds_close(all, &inner);
}

void
super_exec_start(struct super_conn *c, uint32_t tag, struct rd *r, int *fds, size_t nfds)
{
	struct super *s = c->s;
	struct super_order o = {0};
	struct err e = {0};
	struct str body = rd_lstr(r);
	uint8_t spawn = rd_u8(r);
	struct super_exec *x;

	if (!rd_end(r) || spawn > 1 || nfds > SANDBOX_EXEC_FDS_MAX) {
		super_conn_error(c, tag, ERR_PROTOCOL, "sandbox: malformed order");
		return;
	}
	if (s->state == SUPER_PAUSED) {
		super_conn_error(c, tag, ERR_STATE, "sandbox: it is paused: resume it first");
		return;
	}
	if (super_execs_alive(s) >= SANDBOX_PROCS_MAX || s->next_proc == UINT32_MAX) {
		super_conn_error(c, tag, ERR_TOO_LARGE, "sandbox: %zu programs run, limit %d",
		    super_execs_alive(s), SANDBOX_PROCS_MAX);
		return;
	}
	if (super_order_make(body, s->next_proc + 1, &o, &e) != 0) {
		super_conn_error(c, tag, e.code, "%s", e.msg);
		return;
	}
	x = exec_new(c, tag, ++s->next_proc, &o, spawn == 1);
	order_send(x, &o, fds, nfds, &e);
	super_order_free(&o);
	if (e.code != 0) {
		super_conn_error(c, tag, e.code, "%s", e.msg);
		exec_forget(x);
	}
}

/* A spawned one's start is answered, its end is asked for. */
static void
started_send(struct super_exec *x, const int *fds, size_t nfds)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, x->proc);
	/* Nobody else could ever read what it writes. */
	if (x->conn != NULL && !super_conn_send(x->conn, CALL_STARTED, x->tag, &b, fds, nfds)) {
		x->conn = NULL;
		super_exec_kill(x, SANDBOX_KILLED);
	}
	if (x->spawned)
		x->conn = NULL;
}

void
super_exec_started(struct super_exec *x, int *fds, size_t nfds)
{
	size_t i = 1;

	x->state = SUPER_RUNS;
	x->answer_by = 0;
	if (!x->spawned) {
		started_send(x, fds, nfds);
		return;
	}
	x->out[0] = TAKE_FD(fds[0]);
	if ((x->flags & INSIDE_TTY) != 0)
		x->in = x->out[0];
	else if ((x->flags & INSIDE_MERGE) == 0) {
		x->out[1] = TAKE_FD(fds[1]);
		i = 2;
	}
	if ((x->flags & INSIDE_TTY) == 0 && (x->flags & INSIDE_STDIN) != 0)
		x->in = TAKE_FD(fds[i]);
	super_log_begin(x);
	started_send(x, NULL, 0);
}

void
super_exec_ran(struct super_exec *x, int *fds, size_t nfds, const struct inside_exited *end)
{
	if (x->spawned || x->conn == NULL) {
		super_exec_started(x, fds, nfds);
	} else {
		x->state = SUPER_RUNS;
		x->unsent = fds;
		x->nunsent = nfds;
	}
	super_exec_exited(x, end);
}

/* EAGAIN says nothing to who does not know whose limit it is. */
static void
pids_explain(struct super *s, struct err *e)
{
	const char *name = s->spec.name != NULL ? s->spec.name : "NAME";
	struct backend_usage u = {0};

	if ((s->box.lacks & SANDBOX_LAYER_LIMITS) != 0 || s->box.backend->usage == NULL)
		return;
	s->box.backend->usage(&s->box, &u);
	(void)err_set(e, e->code,
	    "%.400s: no process could be made: the limit pids (%u processes and threads, of which "
	    "%llu are there) is reached: end some (`cofferdam sandbox ps %s` lists programs and "
	    "what they left, `cofferdam sandbox kill %s PROC` ends one), or create one with more "
	    "--pids",
	    e->msg, s->spec.limits.pids, (unsigned long long)u.pids, name, name);
}

void
super_exec_failed(struct super_exec *x, int errnum, struct str text)
{
	AUTO_FREE char *what = super_printable(text);
	struct err e;

	(void)err_sys(
	    &e, errnum == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errnum, "sandbox: %s", what);
	if (errnum == EAGAIN)
		pids_explain(x->s, &e);
	if (x->conn != NULL)
		super_conn_error(x->conn, x->tag, e.code, "%s", e.msg);
	exec_forget(x);
}

/* --- end ------------------------------------------------------------------------------------- */

/* Each row says that it is of the whole sandbox: "shared". The names in it hold no quote. */
static void
rows_share(const struct buf *in, struct buf *out)
{
	bool quoted = false;

	for (size_t i = 0; i < in->n; i++) {
		char c = (char)in->p[i];

		buf_put_c(out, c);
		if (quoted && c == '\\' && i + 1 < in->n)
			buf_put_c(out, (char)in->p[++i]);
		else if (c == '"')
			quoted = !quoted;
		else if (c == '{' && !quoted)
			buf_put_z(out, "\"shared\":true,");
	}
}

static void
refused_take(struct super_exec *x)
{
	AUTO_BUF struct buf rows = BUF(32768), shared = BUF(65536);

	if (x->s->refused == NULL)
		return;
	super_notify_turn(x->s);
	filter_counts_json(x->s->refused, false, &rows);
	if (rows.n <= strlen("[]"))
		return;
	if (!x->alone)
		rows_share(&rows, &shared);
	x->refused = buf_dup_z(x->alone ? &rows : &shared);
}

void
super_exec_end_put(const struct super_exec *x, struct buf *out)
{
	buf_u8(out, (uint8_t)x->cause);
	buf_u32(out, x->value);
	buf_u64(out, x->end.user_us);
	buf_u64(out, x->end.system_us);
	buf_u64(out, x->end.peak_kib);
	buf_lz(out, x->refused);
}

static void
exited_send(struct super_exec *x, const struct buf *exited)
{
	AUTO_BUF struct buf started = BUF(16);

	if (x->conn == NULL)
		return;
	if (x->unsent == NULL) {
		(void)super_conn_send(x->conn, CALL_EXITED, x->tag, exited, NULL, 0);
		return;
	}
	buf_u32(&started, x->proc);
	(void)super_conn_send_both(x->conn, x->tag, &started, exited, x->unsent, x->nunsent);
	x->unsent = NULL;
}

/* Everybody who waits for its end hears of it. */
static void
ended(struct super_exec *x, enum sandbox_cause cause, int status)
{
	AUTO_BUF struct buf b = BUF(131072);
	struct super *s = x->s;

	x->state = SUPER_ENDED;
	x->cause = cause;
	x->value = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	x->deadline = x->kill_by = x->answer_by = 0;
	buf_u32(&b, x->proc);
	super_exec_end_put(x, &b);
	exited_send(x, &b);
	super_waiters_wake(x);
	if (!x->spawned && !x->orphan && !x->left)
		exec_forget(x);
	ended_trim(s);
}

void
super_exec_emptied(struct super_exec *x)
{
	x->left = false;
	if (!x->spawned && !x->orphan)
		exec_forget(x);
	ended_trim(x->s);
}

void
super_exec_exited(struct super_exec *x, const struct inside_exited *end)
{
	int status = (int)end->status;

	x->end = *end;
	if (x->spawned)
		super_log_drain(x);
	/* What goes on in the background still writes. */
	if ((x->flags & INSIDE_KEEP) == 0)
		super_log_close(x);
	x->left = (x->flags & INSIDE_KEEP) != 0;
	refused_take(x);
	ended(x, super_cause_find(x, status), status);
}

void
super_exec_kill(struct super_exec *x, enum sandbox_cause cause)
{
	/* What it left in the background is ended; it has its cause. */
	if (x->left)
		(void)super_inside_send(x->s, INSIDE_KILL, x->proc, 0, STR_NONE, NULL, 0);
	if (x->state == SUPER_ENDED || x->killed != SANDBOX_NONE)
		return;
	x->killed = cause;
	x->deadline = 0;
	x->kill_by = super_clock(x->s) + super_times.grace;
	(void)super_inside_send(x->s, INSIDE_KILL, x->proc, 0, STR_NONE, NULL, 0);
}

/* The one that is asked for next, whatever an answer did to the list. */
static struct super_exec *
alive_first(struct super *s)
{
	struct super_exec *x = s->execs;

	while (x != NULL && x->state == SUPER_ENDED)
		x = x->next;
	return x;
}

void
super_execs_lost(struct super *s, enum sandbox_cause cause, bool oom)
{
	struct super_exec *x;

	while ((x = alive_first(s)) != NULL) {
		if (x->state == SUPER_ASKED) {
			if (x->conn != NULL)
				super_conn_error(x->conn, x->tag, ERR_UNAVAILABLE, "%s", s->why);
			exec_forget(x);
			continue;
		}
		super_log_close(x);
		refused_take(x);
		ended(x, x->killed != SANDBOX_NONE ? x->killed : oom ? SANDBOX_MEMORY : cause, 0);
	}
}
