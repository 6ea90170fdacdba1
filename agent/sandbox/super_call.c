/*
 * What callers may ask, one row each: when, how large, with how many descriptors. Runs in the
 * supervisor. A request that does not fit its row ends the connection; one that cannot be done is
 * answered with an error.
 */
#include "agent/sandbox/super_state.h"

#include <sys/ioctl.h>

#include "common/banned.h"

#define INPUT_MAX ((size_t)64 << 10)

/* Answers if there is none. */
static struct super_exec *
exec_or_error(struct super_conn *c, uint32_t tag, uint32_t proc)
{
	struct super_exec *x = super_exec_find(c->s, proc);

	if (x == NULL)
		super_conn_error(c, tag, ERR_NOT_FOUND, "sandbox: no program %u", proc);
	return x;
}

static void
do_exec(struct super_conn *c, uint32_t tag, struct rd *r, int *fds, size_t nfds)
{
	super_exec_start(c, tag, r, fds, nfds);
}

static void
do_kill(struct super_conn *c, uint32_t tag UNUSED, struct rd *r)
{
	struct super_exec *x = super_exec_find(c->s, rd_u32(r));
	uint8_t cause = rd_u8(r);

	if (x != NULL)
		super_exec_kill(x, cause > SANDBOX_NONE && cause <= SANDBOX_POLICY
				       ? (enum sandbox_cause)cause
				       : SANDBOX_KILLED);
}

static void
do_procs(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	AUTO_BUF struct buf json = BUF(WIRE_BODY_MAX), b = BUF(WIRE_BODY_MAX);

	super_procs(c->s, &json);
	buf_lstr(&b, buf_str(&json));
	(void)super_conn_send(c, CALL_DONE, tag, &b, NULL, 0);
}

static void
do_inspect(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	AUTO_BUF struct buf json = BUF(WIRE_BODY_MAX), b = BUF(WIRE_BODY_MAX);

	super_inspect(c->s, &json);
	buf_lstr(&b, buf_str(&json));
	(void)super_conn_send(c, CALL_DONE, tag, &b, NULL, 0);
}

static void
do_signal(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super_exec *x = exec_or_error(c, tag, rd_u32(r));
	uint32_t sig = rd_u32(r);

	if (x == NULL)
		return;
	if (sig < 1 || sig > 64) {
		super_conn_error(
		    c, tag, ERR_INVALID, "sandbox: signal must be from 1 to 64, is %u", sig);
	} else if (x->state == SUPER_ENDED) {
		super_conn_error(c, tag, ERR_STATE, "sandbox: program %u has ended", x->proc);
	} else if (super_inside_send(c->s, INSIDE_SIGNAL, x->proc, sig, STR_NONE, NULL, 0) == 0) {
		super_conn_done(c, tag);
	} else {
		super_conn_error(c, tag, ERR_UNAVAILABLE, "%s", c->s->why);
	}
}

/* A terminal has no end of file of its own: its end is a character. */
static void
input_close(struct super_exec *x)
{
	if ((x->flags & INSIDE_TTY) != 0) {
		(void)!write(x->in, "\4", 1);
		return;
	}
	(void)close(TAKE_FD(x->in));
}

static void
do_input(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super_exec *x = super_exec_find(c->s, rd_u32(r));
	bool close_it = rd_u8(r) != 0;
	struct str bytes = rd_lstr(r);
	AUTO_BUF struct buf b = BUF(8);
	ssize_t k = 0;

	if (!rd_end(r) || bytes.n > INPUT_MAX) {
		super_conn_error(c, tag, ERR_TOO_LARGE, "sandbox: input of %zu bytes, limit %zu",
		    bytes.n, INPUT_MAX);
		return;
	}
	if (x == NULL) {
		super_conn_error(c, tag, ERR_NOT_FOUND, "sandbox: no such program");
		return;
	}
	if (x->in >= 0 && bytes.n != 0)
		k = write(x->in, bytes.p, bytes.n);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		k = 0;
	if (x->in < 0 || k < 0) {
		super_conn_error(c, tag, ERR_STATE,
		    "sandbox: program %u does not take input (any more)", x->proc);
		return;
	}
	if (close_it && (size_t)k == bytes.n)
		input_close(x);
	buf_u32(&b, (uint32_t)k);
	(void)super_conn_send(c, CALL_DONE, tag, &b, NULL, 0);
}

static void
do_resize(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super_exec *x = exec_or_error(c, tag, rd_u32(r));
	struct winsize w = {0};

	w.ws_row = rd_u16(r);
	w.ws_col = rd_u16(r);
	if (x == NULL)
		return;
	if ((x->flags & INSIDE_TTY) == 0 || x->in < 0 || ioctl(x->in, TIOCSWINSZ, &w) != 0)
		super_conn_error(
		    c, tag, ERR_STATE, "sandbox: program %u has no terminal here", x->proc);
	else
		super_conn_done(c, tag);
}

static void
do_pause(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	super_box_pause(c, tag, true);
}

static void
do_resume(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	super_box_pause(c, tag, false);
}

static void
do_extend(struct super_conn *c, uint32_t tag, struct rd *r)
{
	uint32_t seconds = rd_u32(r);

	if (seconds < 1 || seconds > 86400) {
		super_conn_error(
		    c, tag, ERR_INVALID, "sandbox: time must be from 1 to 86400 s, is %u", seconds);
		return;
	}
	c->s->deadline = super_clock(c->s) + seconds * INT64_C(1000);
	if (tag != 0)
		super_conn_done(c, tag);
}

static void
do_hold(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super *s = c->s;
	bool on = rd_u8(r) != 0;

	if (s->holder != NULL && s->holder != c) {
		super_conn_error(c, tag, ERR_STATE, "sandbox: another caller holds its programs");
		return;
	}
	s->holder = on ? c : NULL;
	super_execs_held(s);
	if (super_inside_send(s, INSIDE_HOLD, 0, on ? 1 : 0, STR_NONE, NULL, 0) == 0)
		super_conn_done(c, tag);
	else
		super_conn_error(c, tag, ERR_UNAVAILABLE, "%s", s->why);
}

static void
do_end(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	super_end(c->s, SANDBOX_KILLED, "sandbox: it was ended");
	c->s->over = true;
	super_conn_done(c, tag);
}

static void
do_detach(struct super_conn *c, uint32_t tag, struct rd *r UNUSED)
{
	if (c->s->spec.name == NULL && !super_spare_waits(c->s))
		super_conn_error(
		    c, tag, ERR_STATE, "sandbox: one without a name ends with its caller");
	else
		super_conn_done(c, tag);
}

static void
do_attach(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super *s = c->s;
	unsigned version = rd_u8(r);
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	uint32_t n = 0;

	if (version != CALL_VERSION) {
		super_conn_error(c, tag, ERR_PROTOCOL,
		    "sandbox: the caller speaks version %u, the supervisor %d", version,
		    CALL_VERSION);
		return;
	}
	c->known = true;
	buf_lz(&b, s->level);
	buf_u32(&b, s->spec.limits.output_mib);
	while (s->spec.env[n] != NULL)
		n++;
	buf_u32(&b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_lz(&b, s->spec.env[i]);
	(void)super_conn_send(c, CALL_DONE, tag, &b, NULL, 0);
}

/* --- the table -----------------------------------------------------------------------------------
 */

#define ANY SIZE_MAX

static const struct row {
	uint8_t type;
	bool dead;    /* also when the sandbox is gone */
	bool control; /* also by a caller over the limit */
	bool spare;   /* also of a spare that waits */
	size_t size;  /* of the body without the tag */
	void (*fn)(struct super_conn *c, uint32_t tag, struct rd *r);
} rows[] = {
    {CALL_KILL, true, true, false, 5, do_kill},
    {CALL_PROCS, false, true, true, 0, do_procs},
    {CALL_LOGS, true, false, false, 20, super_wait_logs},
    {CALL_SIGNAL, false, true, false, 8, do_signal},
    {CALL_INPUT, false, false, false, ANY, do_input},
    {CALL_RESIZE, false, false, false, 8, do_resize},
    {CALL_WAIT, true, true, false, 8, super_wait_end},
    {CALL_PAUSE, false, true, false, 0, do_pause},
    {CALL_RESUME, false, true, false, 0, do_resume},
    {CALL_EXTEND, false, true, false, 4, do_extend},
    {CALL_INSPECT, false, true, true, 0, do_inspect},
    {CALL_NETWORK, false, false, false, ANY, super_network},
    {CALL_HOLD, false, false, false, 1, do_hold},
    {CALL_END, true, true, true, 0, do_end},
    {CALL_DETACH, true, true, true, 0, do_detach},
};

static void
too_many(struct super_conn *c, uint32_t tag)
{
	c->leaving = true;
	super_conn_error(c, tag, ERR_STATE,
	    "sandbox: %d callers are attached, limit %d, and %d more to control it, limit %d: try "
	    "again when one has gone",
	    SUPER_CONNS_MAX, SUPER_CONNS_MAX, SUPER_CONTROL_MAX, SUPER_CONTROL_MAX);
}

/* A caller over the limit becomes one as the others when there is room by now. */
static bool
is_over(struct super_conn *c)
{
	if (c->kind == SUPER_CONTROL && super_conns_kind(c->s, SUPER_WHOLE) < SUPER_CONNS_MAX)
		c->kind = SUPER_WHOLE;
	return c->kind != SUPER_WHOLE;
}

static bool
first_call(struct super_conn *c, uint8_t type, uint32_t tag, struct rd *r)
{
	if (type == CALL_CREATE && c->s->state == SUPER_NEW) {
		super_create(c, tag, r);
		return true;
	}
	if (type == CALL_SPARE && c->s->state == SUPER_NEW && c->s->process) {
		super_spare_create(c, tag, r);
		return true;
	}
	if (type == CALL_TAKE && super_spare_waits(c->s)) {
		super_spare_take(c, tag, r);
		return true;
	}
	if (type != CALL_ATTACH || r->n != 1 || c->s->state == SUPER_NEW)
		return false;
	if (c->kind == SUPER_REFUSED)
		too_many(c, tag);
	else if (c->s->state == SUPER_DEAD)
		super_conn_error(c, tag, ERR_UNAVAILABLE, "%s", c->s->why);
	else
		do_attach(c, tag, r);
	return true;
}

bool
super_call(struct super_conn *c, uint8_t type, struct str body, int *fds, size_t nfds)
{
	struct super *s = c->s;
	struct rd r = rd_init(body);
	uint32_t tag = rd_u32(&r);
	const struct row *row = NULL;

	if (r.bad || (nfds != 0 && type != CALL_EXEC))
		return false;
	if (!c->known)
		return first_call(c, type, tag, &r);
	if (s->state == SUPER_STARTING || s->creator == c)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].type == type)
			row = &rows[i];
	if ((row == NULL && type != CALL_EXEC) ||
	    (row != NULL && row->size != ANY && row->size != r.n))
		return false;
	if (s->state == SUPER_DEAD && (row == NULL || !row->dead))
		super_conn_error(c, tag, ERR_UNAVAILABLE, "%s", s->why);
	else if ((row == NULL || !row->spare) && super_spare_waits(s))
		super_conn_error(c, tag, ERR_STATE,
		    "sandbox: %s waits for a `sandbox exec --spare`: it may be listed, inspected "
		    "and "
		    "killed, and nothing else",
		    super_spare_name(s));
	else if ((row == NULL || !row->control) && is_over(c))
		super_conn_error(c, tag, ERR_STATE,
		    "sandbox: %d callers are attached, limit %d: one more may list, inspect, "
		    "signal, kill, wait, pause, resume and extend; for the rest try again when "
		    "one has gone",
		    SUPER_CONNS_MAX, SUPER_CONNS_MAX);
	else if (row == NULL)
		do_exec(c, tag, &r, fds, nfds);
	else
		row->fn(c, tag, &r);
	return true;
}
