/*
 * Pid 1 of a sandbox. Executed by the back end with a bare environment, after everything was given
 * up: it has no more rights than the code that it starts, and is only harder to reach (not
 * dumpable, deaf to signals from inside). It starts programs by order of the supervisor, reaps, and
 * sees to it that nothing of a program is left at its end. When the supervisor goes away it ends,
 * and the kernel ends all inside with it. It never waits for anything that code inside can hold:
 * whatever may take time is done by minders (init_minder.c).
 *
 * Descriptors: 3 the wire (inside.h), 4 cofferdam-inside or nothing. argv[1], if there: words
 * parted by commas. "landlock": the kernel may lack Landlock. "oci": another run time built the
 * walls; the same is measured, but Landlock may be absent. Any other word is refused.
 */
#include "agent/sandbox/init/init_measure.h"
#include "agent/sandbox/init/init_table.h"
#include "agent/sandbox/init/init_wire.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "common/banned.h"

#define SIGNAL_FD 5
#define TICK_MS 10
#define ALONE_MS 50  /* so long a tree may take to end while the others run */
#define END_MS 30000 /* and so long at all: then the sandbox ends */

static bool have_helper;
static bool held;      /* INSIDE_HOLD */
static bool frozen;    /* all stand still but the minders of trees that do not end otherwise */
static long frozen_ms; /* when it was last done */
static bool urgent;    /* there is such a tree, or one that has been told to end */

/*
 * Milliseconds in which pid 1 could see to something, never 0: goes on by a tenth of a second at
 * most from one look to the next, as all of the sandbox may have been frozen between them.
 */
static long
awake_ms(void)
{
	static long last, awake = 1;
	long now = sys_now_ms(), since = now - last;

	awake += since < 100 ? since : 100;
	last = now;
	return awake;
}

/* --- everything at once ------------------------------------------------------------------- */

/* kill(-1) is one step for the kernel: no fork slips through. */
static void
all_stop(void)
{
	(void)sys_kill(-1, SIGSTOP);
}

/* What goes on while programs are held: minders, and helpers with their group. */
static void
hold_spare(void)
{
	for (struct proc *p = table_first(); p != NULL; p = p->next) {
		if (p->minder != 0)
			(void)sys_kill(p->minder, SIGCONT);
		if ((p->order.flags & INSIDE_HELPER) != 0 && LOOK(p->main) > 0 && !p->told) {
			(void)sys_kill(p->main, SIGCONT);
			(void)sys_kill(-p->main, SIGCONT);
		}
	}
}

static void
all_continue(void)
{
	if (held)
		hold_spare();
	else
		(void)sys_kill(-1, SIGCONT);
}

/* --- one exec ----------------------------------------------------------------------------- */

static void
proc_start(struct proc *p)
{
	int pid;

	p->state = PROC_STARTING;
	if (child_streams(p)) {
		pid = sys_clone_run(CLONE_VM | CLONE_FS | CLONE_PARENT_SETTID | SIGCHLD,
		    p->stack + PROC_STACK, &p->minder, minder_run, p);
		table_close_inner(p);
		if (pid > 0)
			return;
		p->step = STEP_PROCESS;
		p->error = -pid;
	}
	tell_failed(p);
	table_release(p);
}

/* What its minder has told since. */
static void
proc_progress(struct proc *p)
{
	int state = LOOK(p->state);

	if (state >= PROC_STARTED && !p->announced)
		tell_spawned(p);
	if (state == PROC_ENDED && (p->order.flags & INSIDE_KEEP) != 0 && !p->told)
		tell_exited(p);
	if (LOOK(p->help) != 0 && p->urgent_ms == 0)
		p->urgent_ms = awake_ms();
	urgent = urgent || p->urgent_ms != 0;
}

/* Nothing of it is left. */
static void
proc_gone(struct proc *p)
{
	proc_progress(p);
	if (p->state == PROC_FAILED || p->state == PROC_STARTING || p->state == PROC_PARKED)
		tell_failed(p);
	else if (!p->told)
		tell_exited(p);
	table_release(p);
}

static void
proc_kill(struct proc *p)
{
	if (p->urgent_ms == 0)
		p->urgent_ms = awake_ms();
	urgent = true;
	TELL(p->kill, 1);
	if (p->state == PROC_PARKED) {
		p->step = STEP_KILLED;
		p->error = ECANCELED;
		proc_gone(p);
		return;
	}
	/* While it starts its minder waits for it, and has reaped nothing yet. */
	if (LOOK(p->state) == PROC_STARTING && LOOK(p->main) > 0)
		(void)sys_kill(p->main, SIGKILL);
	if (p->minder != 0)
		(void)sys_kill(p->minder, SIGUSR1);
}

/* --- what has ended ----------------------------------------------------------------------- */

static struct proc *
proc_of_minder(int pid)
{
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (p->minder == pid)
			return p;
	return NULL;
}

/*
 * Code inside has killed a minder, so what was its tree is pid 1's, and cannot be told from that
 * of another lost one: all of it ends. Status and step, if its end was not seen yet.
 */
static void
proc_lose(struct proc *p)
{
	p->minder = 0;
	p->lost = true;
	urgent = true;
	if (p->urgent_ms == 0)
		p->urgent_ms = awake_ms();
	if (p->state == PROC_STARTING && (p->main == 0 || p->error != 0)) {
		p->step = STEP_KILLED;
		p->error = ECANCELED;
	} else if (p->state == PROC_STARTING || p->state == PROC_STARTED) {
		/* It may have begun, so it has. */
		p->state = PROC_STARTED;
		p->status = SIGKILL;
	}
}

static void
orphan_gone(int pid, int status, const struct rusage *usage)
{
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (p->lost && p->main == pid && p->state == PROC_STARTED) {
			p->state = PROC_ENDED;
			p->status = status;
			p->usage = *usage;
		}
}

static void
reap(void)
{
	struct rusage usage;
	int status, pid;

	while ((pid = sys_wait(WNOHANG | WUNTRACED, &status, &usage)) > 0) {
		struct proc *p = proc_of_minder(pid);

		if (WIFSTOPPED(status)) {
			/* By code inside; or by us. */
			if (p != NULL && !frozen)
				(void)sys_kill(pid, SIGCONT);
		} else if (p == NULL)
			orphan_gone(pid, status, &usage);
		else if (WIFEXITED(status))
			proc_gone(p);
		else
			proc_lose(p);
	}
}

/* --- trees that do not want to end -------------------------------------------------------- */

static bool
proc_wants_peace(const struct proc *p, long now)
{
	return p->lost || LOOK(p->help) != 0 ||
	       (p->urgent_ms != 0 && now - p->urgent_ms > ALONE_MS);
}

/* Only what is to end may move. Again and again: a stopped minder could not kill. */
static void
all_freeze(long now)
{
	if (frozen && now - frozen_ms < TICK_MS)
		return;
	frozen = true;
	frozen_ms = now;
	all_stop();
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (proc_wants_peace(p, now) && p->minder != 0) {
			(void)sys_kill(p->minder, SIGCONT);
			if (LOOK(p->state) == PROC_STARTING && LOOK(p->main) > 0)
				(void)sys_kill(p->main, SIGKILL);
		}
}

/* Pid 1's own children that are no minders, until there are none. */
static void
lost_end(void)
{
	static char scratch[4096];
	int n = minder_children_kill(scratch, sizeof(scratch), table_is_minder);

	if (n < 0)
		wire_fatal("pid 1 cannot read /proc, so it cannot end what was left");
	if (n > 0)
		return;
	for (struct proc *p = table_first(), *next; p != NULL; p = next) {
		next = p->next;
		if (!p->lost)
			continue;
		if (p->code_path[0] != '\0')
			(void)sys_unlink(p->code_path);
		proc_gone(p);
	}
}

static void
urgent_turn(void)
{
	bool peace = false, lost = false;
	long now = awake_ms();

	urgent = false;
	for (struct proc *p = table_first(); p != NULL; p = p->next) {
		if (p->urgent_ms == 0)
			continue;
		if (now - p->urgent_ms > END_MS)
			wire_fatal("what a program left does not end within 30 seconds");
		urgent = true;
		lost = lost || p->lost;
		peace = peace || proc_wants_peace(p, now);
	}
	if (peace)
		all_freeze(now);
	if (lost)
		lost_end();
	if (!peace && frozen) {
		frozen = false;
		all_continue();
	}
}

static void
turn(void)
{
	reap();
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (!p->lost)
			proc_progress(p);
	if (urgent || frozen)
		urgent_turn();
}

/* --- orders ------------------------------------------------------------------------------- */

static void
order_refuse(const struct inside_head *h, int error, const char *why)
{
	char text[400];
	struct text t = TEXT(text);

	text_put(&t, "order refused: ");
	text_put(&t, why);
	wire_send_text(INSIDE_FAILED, h->proc, (uint32_t)error, text);
}

/* Room for it, which owns the descriptors from here on; or NULL, and why. */
static struct proc *
order_room(
    const struct inside_head *h, const int *fds, int nfds, int *ret_error, const char **ret_why)
{
	struct proc *p = NULL;

	*ret_error = EINVAL;
	if (h->proc == 0 || table_find(h->proc) != NULL)
		*ret_why = "its number is 0, or another program's";
	else if (nfds < 0 || nfds != h->nfds)
		*ret_why = "it has not the descriptors that it names, or more than 4";
	else if ((p = table_take(h->proc)) == NULL) {
		*ret_why = "256 programs are there, which is the limit; end one first";
		*ret_error = EAGAIN;
	}
	for (int i = 0; i < nfds; i++)
		if (p == NULL)
			(void)sys_close(fds[i]);
		else
			p->fds[p->nfds++] = fds[i];
	return p;
}

static void
order_spawn(const struct inside_head *h, const int *fds, int nfds)
{
	const char *why = NULL;
	int error;
	struct proc *p = order_room(h, fds, nfds, &error, &why);
	bool helper;

	if (p == NULL) {
		wire_drop(h->size);
		order_refuse(h, error, why);
		return;
	}
	why = order_receive(p, h->size);
	helper = (p->order.flags & INSIDE_HELPER) != 0;
	if (why == NULL && helper && !have_helper) {
		why = "this sandbox has no cofferdam-inside";
		error = ENOENT;
	}
	if (why != NULL) {
		table_release(p);
		order_refuse(h, error, why);
	} else if (held && !helper)
		p->state = PROC_PARKED;
	else
		proc_start(p);
}

static void
order_signal(const struct inside_head *h)
{
	struct proc *p = table_find(h->proc);

	if (p == NULL)
		return; /* crossed with its end */
	if (h->a < 1 || h->a > 64) {
		order_refuse(h, EINVAL, "a signal must be from 1 to 64");
		return;
	}
	(void)__atomic_or_fetch(&p->signals, SIGNAL_BIT(h->a), __ATOMIC_ACQ_REL);
	if (p->minder != 0)
		(void)sys_kill(p->minder, SIGUSR1);
}

static void
order_hold(const struct inside_head *h)
{
	held = h->a != 0;
	if (held)
		all_stop();
	if (!frozen)
		all_continue();
	for (struct proc *p = table_first(), *next; !held && p != NULL; p = next) {
		next = p->next;
		if (p->state == PROC_PARKED)
			proc_start(p);
	}
}

static void
order_take(void)
{
	struct inside_head h;
	struct proc *p;
	int fds[PROC_FDS_MAX], nfds = 0;

	wire_read(&h, sizeof(h), fds, &nfds, PROC_FDS_MAX);
	if (h.size > INSIDE_ORDER_MAX)
		wire_fatal("an order of more than 4 MiB");
	if (h.type == INSIDE_SPAWN) {
		order_spawn(&h, fds, nfds);
		return;
	}
	while (nfds > 0)
		(void)sys_close(fds[--nfds]);
	wire_drop(h.size);
	if (h.size != 0 || h.nfds != 0)
		order_refuse(&h, EINVAL, "it has a body or descriptors, must have none");
	else if (h.type == INSIDE_SIGNAL)
		order_signal(&h);
	else if (h.type == INSIDE_KILL && (p = table_find(h.proc)) != NULL)
		proc_kill(p);
	else if (h.type == INSIDE_HOLD)
		order_hold(&h);
	else if (h.type != INSIDE_KILL)
		order_refuse(&h, EINVAL, "there is no order of this type");
}

/* --- start -------------------------------------------------------------------------------- */

/* argv[1]; false: a word that is none. */
static bool
words_take(const char *s, bool *ret_landlock)
{
	while (*s != '\0') {
		size_t n = 0;

		while (s[n] != '\0' && s[n] != ',')
			n++;
		if (!(n == 8 && memcmp(s, "landlock", 8) == 0) &&
		    !(n == 3 && memcmp(s, "oci", 3) == 0))
			return false;
		*ret_landlock = false;
		s += n + (s[n] == ',' ? 1 : 0);
	}
	return true;
}

static void
fd_place(int fd, int at, int flags)
{
	if (fd < 0 || (fd != at && sys_call(SYS_dup3, fd, at, flags, 0, 0) < 0))
		wire_fatal("pid 1 cannot open its descriptors: /dev/null, signalfd");
}

static void
fds_set(void)
{
	uint64_t child = SIGNAL_BIT(SIGCHLD);
	int fd;

	if (sys_fcntl(INSIDE_WIRE_FD, F_SETFD, FD_CLOEXEC) < 0)
		sys_exit(1);
	have_helper = sys_fcntl(INSIDE_HELPER_FD, F_SETFD, FD_CLOEXEC) == 0;
	(void)sys_close_from(INSIDE_HELPER_FD + 1);
	fd = sys_open("/dev/null", O_RDWR, 0);
	for (int i = 0; i < 3; i++)
		fd_place(fd, i, 0);
	if (fd > INSIDE_WIRE_FD)
		(void)sys_close(fd);
	fd = (int)sys_call(
	    SYS_signalfd4, -1, P(&child), sizeof(child), SFD_CLOEXEC | SFD_NONBLOCK, 0);
	fd_place(fd, SIGNAL_FD, O_CLOEXEC);
	if (fd != SIGNAL_FD)
		(void)sys_close(fd);
}

static void
start(long argc, char **argv)
{
	static char facts[512];
	struct text t = TEXT(facts);
	bool landlock = true;

	if (sys_prctl(PR_SET_DUMPABLE, 0) < 0 || sys_prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		sys_exit(1);
	/* Of the environment nothing stays, not even in memory. */
	for (char **e = argv + argc + 1; *e != NULL; e++)
		memset(*e, 0, strlen(*e));
	sys_mask(~(uint64_t)0);
	fds_set();
	(void)sys_call(SYS_umask, 022, 0, 0, 0, 0);
	if (argc > 1 && !words_take(argv[1], &landlock))
		wire_fatal("pid 1 was told to do without what is neither landlock nor oci");
	if (!measure(landlock, &t))
		wire_fatal(facts);
	wire_send_text(INSIDE_READY, 0, 0, facts);
}

_Noreturn void init_run(long *stack) __attribute__((visibility("hidden")));
_Noreturn void
init_run(long *stack)
{
	start(stack[0], (char **)(stack + 1));
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = INSIDE_WIRE_FD, .events = POLLIN}, {.fd = SIGNAL_FD, .events = POLLIN}};
		char drop[sizeof(struct signalfd_siginfo)];

		(void)sys_poll(p, 2, urgent || frozen ? TICK_MS : -1);
		if (p[1].revents != 0)
			(void)sys_read(SIGNAL_FD, drop, sizeof(drop));
		if (p[1].revents != 0 || urgent || frozen)
			turn();
		if (p[0].revents != 0)
			order_take();
	}
}
