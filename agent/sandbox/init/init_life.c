/*
 * The life of execs in pid 1. Minders see to their own trees; here is what one of them cannot do,
 * as code inside can fork faster than it kills, stop it or kill it: then everything else stands
 * still until that tree is gone. Runs in pid 1 only, and never waits.
 */
#include "agent/sandbox/init/init_life.h"
#include "agent/sandbox/init/init_again.h"
#include "agent/sandbox/init/init_cpus.h"
#include "agent/sandbox/init/init_wire.h"

#include "common/banned.h"

#define ALONE_MS 50  /* so long a tree may take to end while the others run */
#define END_MS 30000 /* and so long at all: then the sandbox ends */

static bool held;      /* INSIDE_HOLD */
static bool frozen;    /* all stand still but the minders of trees that do not end otherwise */
static long frozen_ms; /* when it was last done */
static bool urgent;    /* there is such a tree, or one that has been told to end */
static bool roams;     /* pid 1 has been given its processors, and what it makes has them */
static bool told;      /* a start, since streams were made ahead */

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
	again_stopped();
}

/* While programs are held: helpers, and minders by their number. */
static bool
may_go(int pid, int group)
{
	bool may = !held;

	for (struct proc *p = table_waiting(); p != NULL && !may; p = p->next)
		may = pid == p->minder;
	for (struct proc *p = table_first(); p != NULL && !may; p = p->next)
		may = pid == p->minder || ((p->order.flags & INSIDE_HELPER) != 0 && !p->told &&
					      (pid == LOOK(p->main) || group == LOOK(p->main)));
	return may && !frozen;
}

/* Nobody but pid 1 stops helpers, and they are hidden from /proc. */
static void
helpers_go(void)
{
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if ((p->order.flags & INSIDE_HELPER) != 0 && LOOK(p->main) > 0 && !p->told) {
			(void)sys_kill(p->main, SIGCONT);
			(void)sys_kill(-p->main, SIGCONT);
		}
}

/* What goes on while programs are held: minders, and helpers with their group. */
static void
hold_spare(void)
{
	for (struct proc *p = table_waiting(); p != NULL; p = p->next)
		(void)sys_kill(p->minder, SIGCONT);
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (p->minder != 0)
			(void)sys_kill(p->minder, SIGCONT);
	helpers_go();
}

static void
all_continue(void)
{
	if (held)
		hold_spare();
	else
		(void)sys_kill(-1, SIGCONT);
	again_going();
}

/* --- one exec ----------------------------------------------------------------------------- */

/* A minder of its own, on the same table of descriptors where the kernel is the host's. */
static bool
minder_start(struct proc *p)
{
	const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_PARENT_SETTID | SIGCHLD;
	int pid;

	p->apart = false;
	p->roams = roams;
	pid = sys_clone_run(minder_may_lack ? flags : flags | CLONE_FILES, p->stack + PROC_STACK,
	    &p->minder, minder_run, p);
	if (minder_may_lack)
		table_close_inner(p);
	if (pid > 0)
		return true;
	p->minder = 0;
	p->step = STEP_PROCESS;
	p->error = -pid;
	return false;
}

/* The first order need not wait for its begin, either. */
void
life_begin(void)
{
	struct proc *p = minder_may_lack ? NULL : table_take(1);

	if (p == NULL)
		return;
	minder_may_yield = sys_call(SYS_sched_getscheduler, 0, 0, 0, 0, 0) == SCHED_OTHER;
	p->over = OVER_WAITS;
	(void)minder_start(p);
	table_release(p);
	child_streams_ahead();
}

static bool
minder_order(struct proc *p)
{
	TELL(p->taken, 0);
	TELL(p->over, OVER_NOT);
	if (p->minder == 0)
		return minder_start(p);
	(void)sys_kill(p->minder, SIGUSR1);
	return true;
}

static void
proc_start(struct proc *p)
{
	p->state = PROC_STARTING;
	if (child_streams(p) && minder_order(p))
		return;
	tell_failed(p);
	table_release(p);
}

/* Nothing else is to come before its end is told. */
static bool
end_is_known(const struct proc *p)
{
	bool nothing_left = p->minder == 0 || LOOK(p->over) == OVER_WAITS;

	return LOOK(p->state) == PROC_ENDED &&
	       ((p->order.flags & INSIDE_KEEP) != 0 || (nothing_left && !LOOK(minder_lacks)));
}

/* What its minder has told since. */
static void
proc_progress(struct proc *p)
{
	int state = LOOK(p->state);

	/* The program has its own; until then the minder shares ours. */
	if (state > PROC_STARTING)
		table_close_inner(p);
	if (state >= PROC_STARTED && !p->announced) {
		tell_spawned(p, end_is_known(p));
		cpus_give(&roams);
		told = true;
	}
	if (state == PROC_ENDED && (p->order.flags & INSIDE_KEEP) != 0 && !p->told &&
	    p->step != STEP_TELL)
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
	if (p->state == PROC_FAILED || p->state == PROC_STARTING || p->state == PROC_PARKED ||
	    p->step == STEP_TELL)
		tell_failed(p);
	else {
		if (!p->told)
			tell_exited(p);
		if ((p->order.flags & INSIDE_KEEP) != 0)
			tell_emptied(p);
	}
	table_release(p);
}

void
life_kill(struct proc *p)
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

/*
 * Code inside has killed a minder, so what was its tree is pid 1's, and cannot be told from that
 * of another lost one: all of it ends. Status and step, if its end was not seen yet.
 */
static void
proc_lose(struct proc *p)
{
	/* While it waited: another one does as well. */
	if (LOOK(p->taken) == 0) {
		if (!minder_order(p))
			proc_gone(p);
		return;
	}
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

/*
 * Without sub-reapers what it left is among pid 1's children, and can be told from what others left
 * only when there are no others: then it is ended before its end is told.
 */
static void
proc_end(struct proc *p)
{
	if (!LOOK(minder_lacks) || (p->order.flags & INSIDE_KEEP) != 0 || table_first() != p ||
	    p->next != NULL) {
		proc_gone(p);
		return;
	}
	p->lost = true;
	p->urgent_ms = p->urgent_ms != 0 ? p->urgent_ms : awake_ms();
	urgent = true;
}

static void
minder_ended(struct proc *p, int status)
{
	if (table_waiter_gone(p))
		return;
	p->minder = 0;
	if (p->state == PROC_PARKED)
		return;
	if (LOOK(p->over) != OVER_NOT || WIFEXITED(status))
		proc_end(p);
	else
		proc_lose(p);
}

static void
reap(void)
{
	struct rusage usage;
	int status = 0, pid;

	while ((pid = sys_wait(WNOHANG | WUNTRACED, &status, &usage)) > 0) {
		struct proc *p = table_of_minder(pid);

		if (WIFSTOPPED(status)) {
			/* By code inside; or by us. */
			if (p != NULL && !frozen)
				(void)sys_kill(pid, SIGCONT);
		} else if (p == NULL)
			orphan_gone(pid, status, &usage);
		else
			minder_ended(p, status);
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
	if (frozen && now - frozen_ms < LIFE_TICK_MS)
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

/* A signal was ordered that its minder has not sent yet. */
static bool
signals_wait(void)
{
	for (struct proc *p = table_first(); p != NULL; p = p->next)
		if (p->minder != 0 && p->state > PROC_PARKED && LOOK(p->over) == OVER_NOT &&
		    (LOOK(p->signals) != 0 || LOOK(p->sending) != 0))
			return true;
	return false;
}

/* One order after the other. */
static bool
proc_waits(const struct proc *p)
{
	return (held && (p->order.flags & INSIDE_HELPER) == 0) || signals_wait();
}

static void
parked_start(void)
{
	for (struct proc *p = table_first(), *next; p != NULL; p = next) {
		next = p->next;
		if (p->state == PROC_PARKED && !proc_waits(p))
			proc_start(p);
	}
}

static bool
life_urgent(void)
{
	return urgent || frozen;
}

int
life_wait_ms(void)
{
	int again = again_wait_ms();

	return life_urgent() && (again < 0 || again > LIFE_TICK_MS) ? LIFE_TICK_MS : again;
}

void
life_turn(void)
{
	reap();
	for (struct proc *p = table_first(), *next; p != NULL; p = next) {
		next = p->next;
		if (p->lost)
			continue;
		proc_progress(p);
		if (p->step == STEP_TELL && LOOK(p->kill) == 0)
			life_kill(p);
		/* Nothing is left; its minder stays. */
		if (p->minder != 0 && LOOK(p->over) == OVER_WAITS && p->state > PROC_STARTING)
			proc_end(p);
	}
	if (life_urgent())
		urgent_turn();
	parked_start();
	/* For the next order: whoever waits for this one has been told. */
	if (told && !minder_may_lack)
		child_streams_ahead();
	told = false;
	if (again_turn(may_go) && !frozen)
		helpers_go();
}

/* --- orders ------------------------------------------------------------------------------- */

void
life_start(struct proc *p)
{
	if (proc_waits(p))
		p->state = PROC_PARKED;
	else
		proc_start(p);
}

void
life_hold(bool on)
{
	held = on;
	if (held)
		all_stop();
	if (!frozen)
		all_continue();
	if (!held)
		parked_start();
}
