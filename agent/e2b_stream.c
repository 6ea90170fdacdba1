/*
 * A program's events to its client (process: a worker of cofferdam-sandboxd): a stream of
 * Connect's, kept alive, until the program ends, its time is over, or nobody reads any more; the
 * program goes on in the last case, as SDKs expect. A client that does not read holds its program,
 * not the server.
 */
#include "agent/e2b_stream.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define EARLY_US 250000

struct stream {
	struct e2b_request *q;
	struct keeper_stream *s;
	uint32_t number;
	bool pty, kill; /* kill: at its time's end, if this is who began it */
	uint64_t until_us, ping_us, ping_every_us;
};

/* --- messages --------------------------------------------------------------------------------- */

static void
event_open(struct jcs *j, struct buf *b, const char *what)
{
	jcs_init(j, b);
	jcs_open(j, NULL);
	jcs_open(j, "event");
	jcs_open(j, what);
}

static int
event_send(struct stream *t, struct jcs *j, struct buf *b, struct err *err)
{
	jcs_close(j);
	jcs_close(j);
	jcs_close(j);
	return e2b_frame_send(t->q, b, err);
}

static int
send_start(struct stream *t, uint32_t number, struct err *err)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct jcs j;

	t->number = number;
	event_open(&j, &b, "start");
	jcs_int(&j, "pid", number);
	return event_send(t, &j, &b, err);
}

static int
send_data(struct stream *t, const struct keeper_event *ev, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_FRAME_MAX), text = BUF(E2B_FRAME_MAX);
	struct jcs j;

	enc_base64(&text, ev->bytes);
	event_open(&j, &b, "data");
	jcs_str(&j, t->pty ? "pty" : ev->number == 2 ? "stderr" : "stdout", buf_str(&text));
	return event_send(t, &j, &b, err);
}

static int
send_ping(struct stream *t, struct err *err)
{
	AUTO_BUF struct buf b = BUF(256);
	struct jcs j;

	event_open(&j, &b, "keepalive");
	return event_send(t, &j, &b, err);
}

static const char *
signal_word(int signo)
{
	return signo == SIGKILL	  ? "killed"
	       : signo == SIGTERM ? "terminated"
	       : signo == SIGINT  ? "interrupt"
	       : signo == SIGSEGV ? "segmentation fault"
	       : signo == SIGPIPE ? "broken pipe"
	       : signo == SIGABRT ? "aborted"
				  : NULL;
}

/* As Go's os.ProcessState says it, since programs may look for that. */
static char *
status_words(const struct keeper_event *ev)
{
	if (ev->cause == SANDBOX_EXITED)
		return xasprintf("exit status %d", ev->value);
	if (ev->cause == SANDBOX_KILLED)
		return xstrdup("signal: killed");
	if (ev->cause == SANDBOX_SIGNALLED && signal_word(ev->value) != NULL)
		return xasprintf("signal: %s", signal_word(ev->value));
	if (ev->cause == SANDBOX_SIGNALLED)
		return xasprintf("signal: signal %d", ev->value);
	return str_dup(ev->error);
}

static int
send_end(struct stream *t, const struct keeper_event *ev, struct err *err)
{
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_FREE char *words = status_words(ev);
	bool exited = ev->cause == SANDBOX_EXITED;
	struct jcs j;

	event_open(&j, &b, "end");
	if (!exited || ev->value != 0)
		jcs_str_lossy(&j, "error", str_z(words));
	jcs_int(&j, "exitCode", exited ? ev->value : -1);
	jcs_bool(&j, "exited", exited);
	jcs_str_lossy(&j, "status", str_z(words));
	return event_send(t, &j, &b, err);
}

/* --- its course ---------------------------------------------------------------------------------
 */

static void
end_late(struct stream *t)
{
	struct err e = {0}, ignored = {0};

	if (t->kill)
		(void)keeper_signal(t->q->keeper, t->number, SIGKILL, &ignored);
	(void)err_set(&e, ERR_TIMEOUT, "the command's time is over");
	e2b_frame_end(t->q, &e);
}

/* 0: it goes on; 1: it is over; else nobody reads any more. */
static int
one_event(struct stream *t, struct err *err)
{
	struct keeper_event ev;
	struct err e = {0};
	int rc = keeper_next(t->s, 0, &ev, &e);

	if (rc == ERR_TIMEOUT)
		return 0;
	if (rc != 0) {
		e2b_frame_end(t->q, &e);
		return 1;
	}
	switch (ev.type) {
	case KEEPER_STARTED: return send_start(t, ev.number, err);
	case KEEPER_OUTPUT: return send_data(t, &ev, err);
	case KEEPER_DISPLAY: return 0;
	case KEEPER_FAILED:
		(void)err_set(&e, ev.code, "%.*s", STR_ARG(ev.bytes));
		e2b_frame_end(t->q, &e);
		return 1;
	case KEEPER_ENDED:
		if (ev.cause == SANDBOX_TIMEOUT)
			(void)err_set(&e, ERR_TIMEOUT, "the command's time is over");
		else if (ev.cause == SANDBOX_UNAVAILABLE)
			(void)err_set(&e, ERR_UNAVAILABLE, "the sandbox has ended");
		else if ((rc = send_end(t, &ev, err)) != 0)
			return rc;
		e2b_frame_end(t->q, e.code != 0 ? &e : NULL);
		return 1;
	}
	return 0;
}

static int
wait_ms(const struct stream *t, uint64_t now)
{
	uint64_t at = t->ping_us;

	if (t->until_us != 0 && t->until_us < at)
		at = t->until_us;
	return at <= now ? 0 : (int)((at - now + 999) / 1000);
}

/* False: it is over. */
static bool
turn(struct stream *t)
{
	uint64_t now = clock_boot_us();
	struct pollfd p[2] = {{.fd = keeper_stream_fd(t->s), .events = POLLIN},
	    {.fd = serve_fd(t->q->conn), .events = POLLIN}};
	struct err e = {0};

	if (poll(p, ARRAY_LEN(p), wait_ms(t, now)) < 0)
		return true;
	now = clock_boot_us();
	if (p[1].revents != 0 && serve_gone(t->q->conn)) {
		/* SDKs keep the same time, and may be a moment ahead. */
		if (t->kill && t->until_us != 0 && now + EARLY_US >= t->until_us)
			(void)keeper_signal(t->q->keeper, t->number, SIGKILL, &e);
		return false;
	}
	if (p[0].revents != 0 && one_event(t, &e) != 0)
		return false;
	if (t->until_us != 0 && now >= t->until_us) {
		end_late(t);
		return false;
	}
	if (now >= t->ping_us) {
		t->ping_us = now + t->ping_every_us;
		return send_ping(t, &e) == 0;
	}
	return true;
}

void
e2b_stream(struct e2b_request *q, struct keeper_stream *s, bool pty, bool began)
{
	uint64_t now = clock_boot_us(), ms = e2b_timeout_ms(q);
	struct stream t = {.q = q,
	    .s = s,
	    .pty = pty,
	    .kill = began,
	    .until_us = ms != 0 ? now + ms * 1000 : 0,
	    .ping_every_us = e2b_keepalive_s(q) * 1000000};

	t.ping_us = now + t.ping_every_us;
	while (turn(&t))
		continue;
}
