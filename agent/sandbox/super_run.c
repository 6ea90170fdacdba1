/*
 * The life of one sandbox: asked for by a first caller, started by a back end, served in one loop,
 * ended. Runs in the supervisor, a process of its own or a thread of the command line; as a thread
 * it must change nothing of the process around it. Whatever happens, what was made is ended by
 * the same function, once.
 */
#include "agent/sandbox/super.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/xalloc.h"
#include "agent/sandbox/super_state.h"

#include "common/banned.h"

/* --- end -------------------------------------------------------------------------------------- */

static bool
ooms_rose(struct super *s)
{
	struct backend_usage u = {0};
	uint64_t least = UINT64_MAX;

	for (const struct super_exec *x = s->execs; x != NULL; x = x->next)
		if (x->state != SUPER_ENDED && x->ooms < least)
			least = x->ooms;
	if (least != UINT64_MAX && s->box.backend->usage != NULL)
		s->box.backend->usage(&s->box, &u);
	return u.oom_kills > least;
}

static void
box_close(struct backend_box *b)
{
	int *const one[] = {&b->inside, &b->pidfd, &b->notify};

	for (size_t i = 0; i < ARRAY_LEN(one); i++) {
		if (*one[i] >= 0)
			(void)close(*one[i]);
		*one[i] = -1;
	}
	super_fds_close(b->listeners, &b->nlisteners);
	buf_free(&b->level);
}

/* Nothing was run whose end would tell of it: who keeps it ready for later looks for this. */
static void
unasked_tell(struct super *s)
{
	for (struct super_conn *c = s->conns; c != NULL; c = c->next)
		if (c->known)
			super_conn_error(c, 0, ERR_UNAVAILABLE, "%s", s->why);
}

void
super_listener_close(struct super *s)
{
	if (s->listener_io != NULL) {
		loop_io_del(TAKE_PTR(s->listener_io));
		(void)close(TAKE_FD(s->listener));
	}
	if (s->name.path != NULL)
		(void)unlink(s->name.path);
}

void
super_end(struct super *s, enum sandbox_cause cause, const char *why)
{
	bool oom = false;

	if (s->state == SUPER_DEAD)
		return;
	super_notify_turn(s);
	if (cause == SANDBOX_UNAVAILABLE && s->box.backend != NULL)
		oom = ooms_rose(s);
	s->state = SUPER_DEAD;
	s->why = xstrdup(why);
	super_listener_close(s);
	super_inside_end(s);
	if (s->box.backend != NULL)
		s->box.backend->end(&s->box);
	box_close(&s->box);
	super_name_free(&s->name);
	super_execs_lost(s, cause, oom);
	if (cause != SANDBOX_KILLED && s->creator == NULL && s->spec.name == NULL &&
	    s->next_proc == 0)
		unasked_tell(s);
	if (s->creator != NULL) {
		s->over = true;
		super_conn_error(
		    TAKE_PTR(s->creator), s->create_tag, ERR_UNAVAILABLE, "%s", s->why);
	}
}

/* --- start --------------------------------------------------------------------------------------
 */

void
super_start_failed(struct super *s, int code, const char *text)
{
	struct super_conn *c = TAKE_PTR(s->creator);

	s->over = true;
	super_end(s, SANDBOX_UNAVAILABLE, text);
	if (c != NULL)
		super_conn_error(c, s->create_tag, code, "%s", text);
}

static int
start(struct super *s, struct str body, struct err *err)
{
	const char *name;
	int rc;

	if ((rc = super_spec_decode(body, &s->spec, err)) != 0)
		return rc;
	name = s->spec.backend != NULL ? s->spec.backend : "native";
	if (s->spec.name != NULL && !s->process)
		return err_set(err, ERR_INVALID,
		    "sandbox: \"%s\": a named one needs a supervisor of its own", s->spec.name);
	if (s->spec.name != NULL && (rc = super_name_take(s->spec.name, &s->name, err)) != 0)
		return rc;
	s->spec.spare = s->spare != NULL;
	s->box.name = s->name.path != NULL ? &s->name : NULL;
	s->box.backend = backend_find(name);
	if (s->box.backend == NULL)
		return err_set(err, ERR_UNSUPPORTED,
		    "sandbox: there is no back end \"%s\" (native crun runc runsc)", name);
	if (s->spec.spare && s->box.backend->still == NULL)
		return err_set(err, ERR_UNSUPPORTED, "sandbox: no spares of back end \"%s\"", name);
	if ((rc = s->box.backend->start(&s->spec, &s->box, err)) != 0)
		return rc;
	if ((s->box.lacks & ~s->spec.may_lack) != 0)
		return err_set(err, ERR_UNAVAILABLE,
		    "sandbox: a layer is missing that the spec does not let it lack (%u)",
		    s->box.lacks);
	if (s->box.nlisteners != s->spec.ntargets)
		return err_set(err, ERR_INTERNAL, "sandbox: %zu listeners for %zu targets",
		    s->box.nlisteners, s->spec.ntargets);
	return 0;
}

void
super_begin(struct super *s, struct str spec)
{
	struct err e = {0};

	s->created_ms = super_wall_ms();
	s->state = SUPER_STARTING;
	if (start(s, spec, &e) != 0) {
		super_start_failed(s, e.code, e.msg);
		return;
	}
	s->ready_by = super_clock(s) + super_times.ready;
	s->deadline = super_clock(s) + s->spec.limits.wall_s * INT64_C(1000);
	super_inside_begin(s);
}

void
super_create(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super *s = c->s;
	struct str spec = rd_lstr(r);

	c->known = true;
	s->creator = c;
	c->maker = true;
	s->create_tag = tag;
	if (rd_end(r))
		super_begin(s, spec);
	else
		super_start_failed(s, ERR_PROTOCOL, "sandbox: malformed request");
}

static bool
peer_is(int fd, uid_t uid)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0 && u.uid == uid;
}

bool
super_peer_is_own(int fd)
{
	return peer_is(fd, geteuid());
}

static void
on_listener(void *arg, uint32_t events UNUSED)
{
	static const size_t most[SUPER_KINDS] = {
	    SUPER_CONNS_MAX, SUPER_CONTROL_MAX, SUPER_REFUSED_MAX};
	struct super *s = arg;
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int kind = SUPER_WHOLE;

	if (fd < 0)
		return;
	/* A few more are told that there are too many; a flood is not. */
	while (kind < SUPER_KINDS && super_conns_kind(s, (enum super_conn_kind)kind) >= most[kind])
		kind++;
	if ((!super_peer_is_own(fd) && !peer_is(fd, 0)) || kind == SUPER_KINDS)
		(void)close(fd);
	else
		super_conn_new(s, fd, (enum super_conn_kind)kind);
}

static void
on_term(void *arg, int signo UNUSED)
{
	struct super *s = arg;

	s->over = true;
	super_spare_last(s);
	super_end(s, SANDBOX_KILLED, "sandbox: its supervisor was told to end");
}

void
super_ready(struct super *s)
{
	AUTO_BUF struct buf level = BUF(65536), b = BUF(65536 + 4);
	struct super_conn *c;
	struct err e = {0};

	s->ready_by = 0;
	super_level_make(s, &level);
	s->level = buf_dup_z(&level);
	if (s->name.path != NULL) {
		if (super_name_listen(&s->name, &s->listener, &e) != 0) {
			super_start_failed(s, e.code, e.msg);
			return;
		}
		s->listener_io = loop_io_add(s->loop, s->listener, EPOLLIN, on_listener, s);
	}
	s->state = SUPER_LIVE;
	buf_lz(&b, s->level);
	c = TAKE_PTR(s->creator);
	if (c == NULL || super_conn_send(c, CALL_CREATED, s->create_tag, &b, s->box.listeners,
			     s->box.nlisteners))
		return;
	s->over = true;
	super_end(s, SANDBOX_UNAVAILABLE, WIRE_IN_FLIGHT);
}

/* --- the loop --------------------------------------------------------------------------------- */

static bool
all_is_sent(const struct super *s)
{
	for (const struct super_conn *c = s->conns; c != NULL; c = c->next)
		if (!c->dead && c->out.first != NULL)
			return false;
	return true;
}

/* Before each sleep: what the turn left to do. */
static void
on_turn_end(void *arg)
{
	struct super *s = arg;
	size_t callers;

	super_conns_sweep(s);
	if (s->untied && s->state != SUPER_DEAD) {
		s->over = true;
		super_end(s, SANDBOX_KILLED, "sandbox: who made it is gone");
	}
	callers = super_conns_count(s);
	if (callers == 0 && s->state != SUPER_DEAD && !super_spare_waits(s)) {
		if (s->spec.name == NULL || s->state == SUPER_NEW || s->state == SUPER_STARTING)
			super_end(s, SANDBOX_KILLED, "sandbox: its caller is gone");
		else if (s->linger_by == 0)
			s->linger_by = super_clock(s) + s->spec.limits.linger_s * INT64_C(1000);
	}
	super_execs_sweep(s);
	if (s->state == SUPER_DEAD && (callers == 0 || (s->over && all_is_sent(s))))
		loop_stop(s->loop, 0);
	super_time_arm(s);
}

/* What only a process of its own may do. */
static void
process_prepare(struct super *s, int wire)
{
	struct rlimit r;

	(void)close_range((unsigned)wire + 1, ~0u, 0);
	(void)umask(022);
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
	if (chdir("/") != 0)
		s->over = true;
}

static void
super_free(struct super *s)
{
	super_execs_free(s);
	while (s->conns != NULL) {
		super_conn_drop(s->conns);
		super_conns_sweep(s);
	}
	loop_timer_del(s->timer);
	super_spare_free(s);
	loop_free(s->loop);
	super_spec_free(&s->spec);
	if (s->refused != NULL)
		filter_counts_free(s->refused);
	free(s->in);
	free(s->facts);
	free(s->level);
	free(s->why);
	free(s);
}

static struct super *
super_new(int wire, bool process)
{
	struct super *s = xcalloc(1, sizeof(*s));

	(void)fcntl(wire, F_SETFD, FD_CLOEXEC);
	s->process = process;
	s->listener = s->name.lock = -1;
	s->box = (struct backend_box){.inside = -1, .pidfd = -1, .notify = -1};
	s->box.level = BUF(32768);
	if (process)
		process_prepare(s, wire);
	s->loop = loop_new();
	loop_before_sleep(s->loop, on_turn_end, s);
	super_conn_new(s, wire, SUPER_WHOLE);
	if (process)
		loop_signal_add(s->loop, SIGTERM, on_term, s);
	return s;
}

void
super_here_free(struct super *s)
{
	super_end(s, SANDBOX_KILLED, "sandbox: its supervisor ended");
	super_free(s);
}

int
super_main(int wire, bool process)
{
	struct super *s = super_new(wire, process);
	int rc = s->over ? 1 : loop_run(s->loop);

	/* The next one begins when nothing of this one is left. */
	super_end(s, SANDBOX_KILLED, "sandbox: its supervisor ended");
	super_spare_next(s);
	super_here_free(s);
	return rc;
}

struct super *
super_here(int wire)
{
	return super_new(wire, false);
}

int
super_here_fd(const struct super *s)
{
	return loop_fd(s->loop);
}

bool
super_here_turn(struct super *s)
{
	return loop_turn(s->loop);
}

void
super_here_run(struct super *s)
{
	(void)loop_run(s->loop);
	super_here_free(s);
}
