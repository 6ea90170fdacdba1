/*
 * The holder of one program (a process of the keeper's): its streams go to those who listen, what
 * they say goes to it. It waits for who does not read, and hears the keeper meanwhile, so that a
 * program whose reader sleeps can still be ended.
 */
#include "agent/keeper_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define STREAMS_MAX 32
#define INPUT_MAX ((size_t)8 << 20) /* not yet taken by the program */
#define KEPT 65536		    /* of its output for the record, at each end */

struct program {
	struct keeper_holder h;
	uint32_t number, proc;
	int streams[STREAMS_MAX];
	size_t nstreams;
	int input; /* our end of its standard input; -1: closed or none */
	int terminal;
	int watch;	 /* epoll of the wire and of `input` */
	struct buf left; /* of the input */
	bool left_close, input_watched, started, kill, ended;
};

static void
stream_drop(struct program *p, size_t i)
{
	(void)close(p->streams[i]);
	p->streams[i] = p->streams[--p->nstreams];
}

static void other(void *arg, struct wire_msg *m);

static void
tell(struct program *p, uint8_t type, const struct buf *b)
{
	for (size_t i = 0; i < p->nstreams;)
		if (keeper_holder_send(&p->h, p->streams[i], type, b, other, p, &p->kill))
			i++;
		else
			stream_drop(p, i);
}

static void
tell_number(struct program *p, size_t i)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, p->number);
	if (!keeper_holder_send(&p->h, p->streams[i], KEEPER_STARTED, &b, other, p, &p->kill))
		stream_drop(p, i);
}

/* --- what the keeper says ------------------------------------------------------------------- */

static void
stream_add(struct program *p, struct wire_msg *m)
{
	if (m->nfds != 1 || p->nstreams == STREAMS_MAX || p->ended)
		return;
	p->streams[p->nstreams++] = TAKE_FD(m->fds[0]);
	if (p->started)
		tell_number(p, p->nstreams - 1);
}

static void
input_watch(struct program *p, bool on)
{
	struct epoll_event e = {.events = EPOLLOUT};

	if (on == p->input_watched || p->input < 0)
		return;
	(void)epoll_ctl(p->watch, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, p->input, &e);
	p->input_watched = on;
}

static void
input_flush(struct program *p)
{
	while (p->left.n != 0 && p->input >= 0) {
		ssize_t n = write(p->input, p->left.p, p->left.n);

		if (n > 0) {
			buf_drop(&p->left, (size_t)n);
		} else if (errno == EAGAIN) {
			input_watch(p, true);
			return;
		} else if (errno != EINTR) {
			buf_reset(&p->left);
		}
	}
	input_watch(p, false);
	if (p->left_close)
		cleanup_close_fd(&p->input);
}

static void
on_input(struct program *p, struct rd *r)
{
	bool close = rd_u8(r) == 1;
	struct str s = rd_lstr(r);

	if (!rd_end(r) || p->input < 0 || p->left.n + s.n > INPUT_MAX)
		return;
	buf_put_str(&p->left, s);
	p->left_close = p->left_close || close;
	input_flush(p);
}

static void
on_signal(struct program *p, struct rd *r)
{
	uint32_t signal = rd_u32(r);
	struct err e = {0};

	if (!rd_end(r))
		return;
	if (signal == SIGKILL || !p->started)
		p->kill = true;
	else
		(void)sandbox_proc_signal(p->h.sandbox, p->proc, (int)signal, &e);
}

static void
on_resize(struct program *p, struct rd *r)
{
	struct winsize w = {.ws_row = rd_u16(r), .ws_col = rd_u16(r)};

	if (rd_end(r) && p->terminal >= 0)
		(void)ioctl(p->terminal, TIOCSWINSZ, &w);
}

static void
other(void *arg, struct wire_msg *m)
{
	struct program *p = arg;
	struct rd r = rd_init(buf_str(&m->body));

	switch (m->type) {
	case HOLD_STREAM: stream_add(p, m); return;
	case HOLD_INPUT: on_input(p, &r); return;
	case HOLD_SIGNAL: on_signal(p, &r); return;
	case HOLD_RESIZE: on_resize(p, &r); return;
	}
}

/* --- while it runs ---------------------------------------------------------------------------- */

static bool
on_watch(void *arg)
{
	struct program *p = arg;
	struct pollfd f = {.fd = p->h.wire, .events = POLLIN};
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (poll(&f, 1, 0) > 0) {
		if (wire_recv(p->h.wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
			p->h.gone = true;
		else
			other(p, &m);
	}
	if (p->input_watched)
		input_flush(p);
	return p->kill || p->h.gone;
}

static void
on_started(void *arg, uint32_t proc)
{
	struct program *p = arg;

	p->proc = proc;
	p->started = true;
	for (size_t i = p->nstreams; i-- > 0;)
		tell_number(p, i);
}

static void
on_output(void *arg, int stream, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	buf_u32(&b, (uint32_t)stream);
	buf_put_str(&b, bytes);
	tell(arg, KEEPER_OUTPUT, &b);
}

/* Both ends of a pipe, ours non-blocking; the other stays with sandbox_exec. */
static int
input_open(struct program *p, struct sandbox_exec *x, struct err *err)
{
	int pair[2];

	if (!x->pipe_stdin && !x->tty)
		return 0;
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	x->stdin_fd = pair[0];
	p->input = pair[1];
	return 0;
}

static int
run(struct program *p, const struct keeper_run *k, struct keeper_order *o, struct sandbox_result *r,
    struct err *err)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct sandbox_exec *x = &o->x;
	int rc;

	x->started = on_started;
	x->output = on_output;
	x->output_arg = p;
	x->head = x->tail = KEPT;
	x->watch = on_watch;
	x->watch_arg = p;
	x->watch_fd = &p->watch;
	x->terminal = &p->terminal;
	if (o->language != NULL)
		x->argv = NULL;
	p->watch = epoll_create1(EPOLL_CLOEXEC);
	if (p->watch < 0 || epoll_ctl(p->watch, EPOLL_CTL_ADD, p->h.wire, &e) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "epoll");
	if ((rc = sandbox_attach(k->ask.id, &p->h.sandbox, err)) != 0 ||
	    (rc = input_open(p, x, err)) != 0)
		return rc;
	return sandbox_exec(p->h.sandbox, x, r, err);
}

static void
tell_failed(struct program *p, const struct err *why)
{
	AUTO_BUF struct buf b = BUF(8192);

	keeper_error_put(&b, why);
	tell(p, KEEPER_FAILED, &b);
}

static void
tell_gone(struct program *p)
{
	struct err e = {0};

	(void)wire_send(p->h.wire, HOLD_GONE, NULL, NULL, 0, &e);
}

static void
tell_ended(struct program *p, const struct sandbox_result *r)
{
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_FREE char *words = sandbox_result_words(r);

	keeper_ended_put(&b, r, SANDBOX_CELL_OK, "", words, "");
	tell(p, KEEPER_ENDED, &b);
}

void
keeper_program_hold(struct keeper_run *k, struct keeper_order *o, uint32_t number, uint64_t turn,
    int wire, int stream)
{
	struct program p = {
	    .number = number, .input = -1, .terminal = -1, .left = BUF(INPUT_MAX), .nstreams = 1};
	struct sandbox_result r = {0};
	struct err e = {0};
	int rc;

	keeper_holder_enter(&wire, &stream, k->self);
	p.h.wire = wire;
	p.streams[0] = stream;
	rc = run(&p, k, o, &r, &e);
	p.ended = true;
	if (rc == 0) {
		keeper_holder_result(&p.h, &r, turn, NULL, other, &p);
		p.kill = false; /* it is over: who listens is told */
		tell_ended(&p, &r);
	} else {
		keeper_holder_refused(&p.h, e.msg, turn, NULL, other, &p);
		p.kill = false;
		tell_failed(&p, &e);
	}
	if ((rc == 0 && r.cause == SANDBOX_UNAVAILABLE) || rc == ERR_UNAVAILABLE)
		tell_gone(&p);
	_exit(0);
}
