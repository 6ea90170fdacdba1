/*
 * The minder of one exec: a process of its own that shares pid 1's memory, and to which everything
 * comes home that the program started, however far it was forked away. Code inside may send it
 * signals: all are blocked, but SIGSTOP and SIGKILL; pid 1 sees those (a killed minder's tree goes
 * to pid 1, which ends it). So it may end between any two instructions, and nothing of pid 1's may
 * be lost then: it tells pid 1 by single words, and opens nothing while it shares pid 1's table of
 * descriptors. It never touches the wire. When nothing is left of the program it waits for pid 1,
 * which keeps one for the next order: that saves its end and another's begin.
 */
#include "agent/sandbox/init/init_cpus.h"
#include "agent/sandbox/init/init_pids.h"
#include "agent/sandbox/init/init_proc.h"
#include "agent/sandbox/init/init_text.h"

#include <sys/prctl.h>

#include "common/banned.h"

/* Of the calling process; there where the kernel has CONFIG_PROC_CHILDREN. (A build of the tests
 * has another path here: as if it had not.) */
#ifndef MINDER_CHILDREN
#define MINDER_CHILDREN "/proc/thread-self/children"
#endif

/* What it kills has always had more children, for so many rounds or so long (a round may be slow
 * among many that run): then it wants help. */
#define ROUNDS_ALONE 32
#define ALONE_MS 50

bool minder_may_lack, minder_lacks, minder_may_yield;

/* Its parent, and pid 1 but in a build of the tests that has no pid namespace; 0 when it is gone.
 */
void
minder_wake_init(void)
{
	int parent = (int)sys_call(SYS_getppid, 0, 0, 0, 0, 0);

	if (parent > 0)
		(void)sys_kill(parent, SIGCHLD);
}

/* --- children ----------------------------------------------------------------------------- */

/* "12 345 6 ": *pid is what a read has ended in the midst of. */
static int
list_kill(const char *s, long n, int *pid, bool (*spare)(int pid))
{
	int found = 0;

	for (long i = 0; i < n; i++) {
		if (s[i] >= '0' && s[i] <= '9') {
			*pid = *pid * 10 + (s[i] - '0');
			continue;
		}
		if (*pid > 1 && (spare == NULL || !spare(*pid))) {
			(void)sys_kill(*pid, SIGKILL);
			found++;
		}
		*pid = 0;
	}
	return found;
}

struct scan {
	bool (*spare)(int pid);
	int self, found;
};

static void
scan_one(const char *name, void *arg)
{
	struct scan *s = arg;
	struct pids_stat st;
	int none = 0;

	if (!pids_stat(name, &st) || st.parent != s->self)
		return;
	s->found += list_kill(name, (long)strlen(name), &none, s->spare);
	s->found += list_kill(" ", 1, &none, s->spare);
}

/* Where the kernel keeps no list of children (CONFIG_PROC_CHILDREN), by everyone's parent. */
static int
scan_kill(char *scratch, size_t size, bool (*spare)(int pid))
{
	struct scan s = {spare, (int)sys_call(SYS_getpid, 0, 0, 0, 0, 0), 0};
	int rc = pids_each(scratch, size, scan_one, &s);

	return rc < 0 ? rc : s.found;
}

int
minder_children_kill(char *scratch, size_t size, bool (*spare)(int pid))
{
	int fd = sys_open(MINDER_CHILDREN, O_RDONLY, 0), found = 0, pid = 0;
	long n;

	if (fd == -ENOENT)
		return scan_kill(scratch, size, spare);
	if (fd < 0)
		return fd;
	while ((n = sys_read(fd, scratch, size)) > 0)
		found += list_kill(scratch, n, &pid, spare);
	(void)sys_close(fd);
	return n < 0 ? (int)n : found;
}

/* --- the tree ----------------------------------------------------------------------------- */

/* All that has ended is waited for. False: nothing is left. */
static bool
tree_reap(struct proc *p)
{
	struct rusage usage;
	int status = 0, pid;

	while ((pid = sys_wait(WNOHANG, &status, &usage)) > 0)
		if (pid == p->main && p->state != PROC_ENDED) {
			p->status = status;
			p->usage = usage;
			TELL(p->state, PROC_ENDED);
			if ((p->order.flags & INSIDE_KEEP) != 0)
				minder_wake_init();
		}
	return pid != -ECHILD;
}

/* What is opened from here on is lost with this process and not with pid 1. */
static void
table_part(struct proc *p)
{
	if (p->apart || minder_may_lack)
		return;
	(void)sys_call(SYS_close_range, ~0u, ~0u, CLOSE_RANGE_UNSHARE, 0, 0);
	p->apart = true;
}

/* The group at once while its number is certainly the program's, then child by child: those of
 * what dies become ours. */
static void
tree_kill(struct proc *p, int round, long since)
{
	if (p->state != PROC_ENDED)
		(void)sys_kill(-p->main, SIGKILL);
	table_part(p);
	(void)minder_children_kill(p->scratch, sizeof(p->scratch), NULL);
	if (LOOK(p->help) == 0 && (round >= ROUNDS_ALONE || sys_now_ms() - since > ALONE_MS)) {
		TELL(p->help, 1);
		minder_wake_init();
	}
}

static void
signals_send(struct proc *p)
{
	uint64_t todo;

	TELL(p->sending, 1);
	todo = __atomic_exchange_n(&p->signals, 0, __ATOMIC_ACQ_REL);
	for (int sig = 1; sig <= 64; sig++)
		if ((todo & SIGNAL_BIT(sig)) != 0 && p->state != PROC_ENDED)
			(void)sys_kill(-p->main, sig);
	TELL(p->sending, 0);
	minder_wake_init();
}

static void
tree_watch(struct proc *p)
{
	int round = 0;
	long since = 0;
	bool more = true;

	while (more) {
		bool end = LOOK(p->kill) != 0 ||
			   (p->state == PROC_ENDED && (p->order.flags & INSIDE_KEEP) == 0);

		if (LOOK(p->signals) != 0)
			signals_send(p);
		if (end && round == 0)
			since = sys_now_ms();
		if (end)
			tree_kill(p, round++, since);
		(void)sys_signal_wait(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGUSR1), !end ? -1
										 : round < 100
										     ? 5
										     : 50);
		more = tree_reap(p);
	}
}

/* One program, from its start until nothing of it is left. */
static void
exec_mind(struct proc *p, int reaper)
{
	if (reaper < 0) {
		p->step = STEP_PROCESS;
		p->error = -reaper;
	}
	if (p->order.code_path != NULL)
		table_part(p);
	if (reaper == 0 && child_start(p)) {
		if (p->apart || minder_may_lack)
			(void)sys_close_from(INSIDE_WIRE_FD);
		TELL(p->state, PROC_STARTED);
		cpus_give(&p->roams);
		/* On one processor with it this runs only when that has done with it: what has
		 * ended by now has its begin and its end told at once. */
		if (tree_reap(p)) {
			minder_wake_init();
			tree_watch(p);
		}
	} else
		TELL(p->state, PROC_FAILED);
	if (p->code_path[0] != '\0')
		(void)sys_unlink(p->code_path);
}

void
minder_run(void *proc)
{
	struct proc *p = proc;
	int rc = sys_prctl(PR_SET_CHILD_SUBREAPER, 1);

	/* It may be waiting; where pid 1's end is not the end of all it must not be left. */
	(void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);

	if (rc < 0 && minder_may_lack) {
		TELL(minder_lacks, true);
		rc = 0;
	}
	for (;;) {
		while (LOOK(p->over) == OVER_WAITS)
			(void)sys_signal_wait(SIGNAL_BIT(SIGUSR1), -1);
		if (LOOK(p->over) == OVER_LEAVE)
			sys_exit(0);
		TELL(p->taken, 1);
		exec_mind(p, rc);
		if (p->apart || minder_may_lack)
			sys_exit(0);
		TELL(p->over, OVER_WAITS);
		minder_wake_init();
	}
}
