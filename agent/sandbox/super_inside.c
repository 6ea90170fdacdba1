/*
 * The wire to pid 1. Runs in the supervisor. Pid 1 lives among hostile code, so each frame is
 * checked against the state before anything is done with it: a known type at its time, the right
 * size, the right number of descriptors, a program that was asked for. Anything else ends the
 * sandbox. What it says in words is made printable before anybody sees it.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define OUT_MAX ((size_t)8 << 20)

char *
super_printable(struct str s)
{
	char *p = str_dup(s);

	for (size_t i = 0; i < s.n; i++)
		if (p[i] < 0x20 || p[i] > 0x7e)
			p[i] = '?';
	return p;
}

static void
lost(struct super *s, const char *why)
{
	super_end(s, SANDBOX_UNAVAILABLE, why);
}

static void
events_set(struct super *s)
{
	if (s->inside_io != NULL)
		loop_io_events(
		    s->inside_io, EPOLLIN | (s->inside_out.first != NULL ? EPOLLOUT : 0u));
}

int
super_inside_send(struct super *s, uint16_t type, uint32_t proc, uint32_t a, struct str body,
    const int *fds, size_t nfds)
{
	struct inside_head h = {
	    .size = (uint32_t)body.n, .type = type, .nfds = (uint16_t)nfds, .proc = proc, .a = a};
	int rc;

	if (s->inside_io == NULL)
		return -1;
	rc = super_queue_put(
	    &s->inside_out, s->box.inside, str_mem(&h, sizeof(h)), body, fds, nfds, OUT_MAX);
	if (rc == -ETOOMANYREFS)
		return rc;
	if (rc != 0) {
		lost(s, "sandbox: pid 1 takes no more orders");
		return -1;
	}
	if (s->inside_out.first != NULL && s->inside_by == 0)
		s->inside_by = super_clock(s) + super_times.stuck;
	events_set(s);
	return 0;
}

/* --- what it says -------------------------------------------------------------------------- */

/* A pipe or a socket that goes the right way, or a terminal; nothing that could hold its reader. */
static bool
fd_is_fit(int fd, bool tty, bool input)
{
	int mode = fcntl(fd, F_GETFL);
	struct stat st;

	if (mode < 0 || fstat(fd, &st) != 0)
		return false;
	if (tty)
		return S_ISCHR(st.st_mode) && isatty(fd) == 1;
	if (S_ISSOCK(st.st_mode))
		return true;
	return S_ISFIFO(st.st_mode) && ((mode & O_ACCMODE) == O_RDWR ||
					   (mode & O_ACCMODE) == (input ? O_WRONLY : O_RDONLY));
}

static bool
spawned_is_fit(const struct super *s, const struct super_exec *x)
{
	size_t outs = (x->flags & INSIDE_MERGE) != 0 ? 1 : 2, want = outs;

	want += (x->flags & INSIDE_STDIN) != 0 ? 1 : 0;
	if ((x->flags & INSIDE_TTY) != 0)
		want = outs = 1;
	if (x->ngiven != 0)
		want = outs = 0;
	if (s->head.nfds != want || s->head.size != 0 || (int32_t)s->head.a <= 0)
		return false;
	for (size_t i = 0; i < want; i++)
		if (!fd_is_fit(s->inside_fds[i], (x->flags & INSIDE_TTY) != 0, i >= outs))
			return false;
	return true;
}

/* What stands behind SPAWNED, if that is its end; else it is judged when it is its turn. */
static bool
end_is_next(struct super *s, const struct super_exec *x, struct inside_exited *ret)
{
	const char *next = s->in + sizeof(s->head);
	struct inside_head h;

	if (s->have < 2 * sizeof(h) + sizeof(*ret))
		return false;
	memcpy(&h, next, sizeof(h));
	if (h.type != INSIDE_EXITED || h.proc != x->proc || h.nfds != 0 || h.size != sizeof(*ret))
		return false;
	memcpy(ret, next + sizeof(h), sizeof(*ret));
	s->served += sizeof(h) + sizeof(*ret);
	return true;
}

static void
exec_spawned(struct super *s, struct super_exec *x)
{
	bool given = x->ngiven != 0;
	int *fds = given ? x->given : s->inside_fds;
	size_t n = given ? x->ngiven : s->head.nfds;
	struct inside_exited end;

	if (end_is_next(s, x, &end))
		super_exec_ran(x, fds, n, &end);
	else
		super_exec_started(x, fds, n);
	super_fds_close(x->given, &x->ngiven);
}

/* True: it was fit. */
static bool
exec_answer(struct super *s, struct super_exec *x)
{
	struct inside_exited end;

	if (x != NULL && s->head.type == INSIDE_EMPTIED && x->left && s->head.nfds == 0 &&
	    s->head.size == 0) {
		super_exec_emptied(x);
		return true;
	}
	if (x == NULL || x->state == SUPER_ENDED)
		return false;
	if (s->head.type == INSIDE_SPAWNED && x->state == SUPER_ASKED && spawned_is_fit(s, x)) {
		exec_spawned(s, x);
		return true;
	}
	if (s->head.nfds != 0)
		return false;
	if (s->head.type == INSIDE_FAILED && x->state == SUPER_ASKED && s->head.a != 0 &&
	    s->head.a < 4096) {
		super_exec_failed(x, (int)s->head.a, str_mem(s->answer, s->head.size));
		return true;
	}
	if (s->head.type != INSIDE_EXITED || x->state != SUPER_RUNS || s->head.size != sizeof(end))
		return false;
	memcpy(&end, s->answer, sizeof(end));
	super_exec_exited(x, &end);
	return true;
}

/* Members of an object as our own pid 1 writes them: no text that could close it. */
static bool
facts_are_fit(struct str t)
{
	int depth = 0;
	bool in = false;

	for (size_t i = 0; i < t.n; i++) {
		char c = t.p[i];

		if (c < 0x20 || c > 0x7e || c == '\\')
			return false;
		if (c == '"')
			in = !in;
		else if (!in && (c == '{' || c == '['))
			depth++;
		else if (!in && (c == '}' || c == ']') && --depth < 0)
			return false;
	}
	return depth == 0 && !in;
}

static bool
start_answer(struct super *s)
{
	struct str text = str_mem(s->answer, s->head.size);

	if (s->head.nfds != 0 || s->state != SUPER_STARTING)
		return false;
	if (s->head.type == INSIDE_FATAL) {
		AUTO_FREE char *say = super_printable(text);
		AUTO_FREE char *all = xasprintf("sandbox: pid 1 cannot start: %s", say);

		super_start_failed(s, ERR_UNAVAILABLE, all);
		return true;
	}
	if (s->head.type != INSIDE_READY || !facts_are_fit(text))
		return false;
	s->facts = str_dup(text);
	super_ready(s);
	return true;
}

static bool
frame_serve(struct super *s)
{
	switch (s->head.type) {
	case INSIDE_READY:
	case INSIDE_FATAL: return s->head.proc == 0 && start_answer(s);
	case INSIDE_SPAWNED:
	case INSIDE_FAILED:
	case INSIDE_EXITED:
	case INSIDE_EMPTIED: return exec_answer(s, super_exec_find(s, s->head.proc));
	default: return false;
	}
}

/* --- bytes --------------------------------------------------------------------------------- */

/* > 0: the first one is whole; 0: not yet; < 0: it cannot be one. */
static int
frame_look(struct super *s)
{
	const size_t hn = sizeof(s->head);

	if (s->have < hn)
		return 0;
	memcpy(&s->head, s->in, hn);
	if (s->head.size > INSIDE_ANSWER_MAX)
		return -1;
	return s->have < hn + s->head.size ? 0 : 1;
}

/*
 * The kernel gives the descriptors of one message with its bytes and ends there, but may give bytes
 * of earlier ones before it: so they are of the first frame that names any. While some wait for the
 * rest of theirs no more than that is read. Returns as super_recv.
 */
static ssize_t
more_read(struct super *s)
{
	const size_t hn = sizeof(s->head);
	size_t want = SUPER_INSIDE_ROOM;

	if (s->inside_nfds != 0)
		want = s->have < hn ? hn : hn + s->head.size;
	return super_recv(s->box.inside, s->in + s->have, want - s->have, s->inside_fds,
	    &s->inside_nfds, ARRAY_LEN(s->inside_fds));
}

/* As frame_look, and what is there is read. */
static int
frame_read(struct super *s)
{
	int got = frame_look(s);

	while (got == 0) {
		ssize_t k = more_read(s);

		if (k <= 0)
			return (int)k;
		s->have += (size_t)k;
		got = frame_look(s);
	}
	return got;
}

/* The first frame goes. False: it came with others than it names, or some are left of the last. */
static bool
frame_serve_first(struct super *s)
{
	bool named = s->head.nfds != 0, ok;

	s->answer = s->in + sizeof(s->head);
	s->served = sizeof(s->head) + s->head.size;
	ok = named ? s->inside_nfds == s->head.nfds : s->inside_nfds == 0 || s->have > s->served;
	ok = ok && frame_serve(s);
	if (named)
		super_fds_close(s->inside_fds, &s->inside_nfds);
	s->have -= s->served;
	memmove(s->in, s->in + s->served, s->have);
	return ok && (s->have != 0 || s->inside_nfds == 0);
}

/* One frame of what has come; more: and of what may come now. False: there is none. */
static bool
turn(struct super *s, bool more)
{
	int got = more ? frame_read(s) : frame_look(s);
	bool ok;

	if (got == 0)
		return false;
	ok = got > 0 && frame_serve_first(s);
	if (!ok && s->inside_io != NULL)
		lost(s,
		    got > 0 ? "sandbox: pid 1 said what it may not say" : "sandbox: pid 1 is gone");
	return true;
}

static void
on_inside(void *arg, uint32_t events)
{
	struct super *s = arg;
	bool moved = false;

	if ((events & EPOLLOUT) != 0) {
		if (!super_queue_flush(&s->inside_out, s->box.inside, &moved)) {
			lost(s, "sandbox: pid 1 is gone");
			return;
		}
		if (s->inside_out.first == NULL)
			s->inside_by = 0;
		else if (moved)
			s->inside_by = super_clock(s) + super_times.stuck;
		events_set(s);
	}
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || !turn(s, true))
		return;
	/* Nobody tells of what is here already. */
	while (s->inside_io != NULL && turn(s, false))
		continue;
}

/* What it said last comes first: why it could not start, how the last program ended. */
static void
on_pid(void *arg, uint32_t events UNUSED)
{
	struct super *s = arg;

	for (int i = 0; i < 1024 && s->inside_io != NULL && turn(s, true); i++)
		continue;
	if (s->inside_io != NULL)
		lost(s, "sandbox: pid 1 is gone");
}

static void
on_notify(void *arg, uint32_t events UNUSED)
{
	super_notify_turn(arg);
}

void
super_inside_begin(struct super *s)
{
	s->in = xmalloc(SUPER_INSIDE_ROOM);
	s->inside_io = loop_io_add(s->loop, s->box.inside, EPOLLIN, on_inside, s);
	if (s->box.pidfd >= 0)
		s->pid_io = loop_io_add(s->loop, s->box.pidfd, EPOLLIN, on_pid, s);
	if (s->box.notify >= 0) {
		s->refused = filter_counts_new();
		s->notify_io = loop_io_add(s->loop, s->box.notify, EPOLLIN, on_notify, s);
	}
}

void
super_inside_end(struct super *s)
{
	loop_io_del(TAKE_PTR(s->inside_io));
	loop_io_del(TAKE_PTR(s->pid_io));
	loop_io_del(TAKE_PTR(s->notify_io));
	super_queue_free(&s->inside_out);
	super_fds_close(s->inside_fds, &s->inside_nfds);
	s->inside_by = 0;
}

void
super_notify_turn(struct super *s)
{
	if (s->notify_io != NULL && !filter_notify_turn(s->box.notify, s->refused, 64))
		loop_io_del(TAKE_PTR(s->notify_io));
}
