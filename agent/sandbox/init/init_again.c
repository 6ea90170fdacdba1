/*
 * Who stands still though all were told to go on. Runs in pid 1 only, and never waits.
 *
 * A process that is being made while SIGSTOP goes to all is born with it; the SIGCONT that follows
 * must take it away again, but the kernel (__send_signal_locked, seen in 6.18) drops a SIGCONT that
 * its receiver does not handle before it looks at children being made. So such a child stands still
 * for ever, and whoever waits for it, too. Only a child can be that was born around that time; all
 * others that are stopped have been stopped by code inside, and that is theirs.
 */
#include "agent/sandbox/init/init_again.h"
#include "agent/sandbox/init/init_pids.h"
#include "agent/sandbox/init/init_sys.h"
#include "agent/sandbox/init/init_text.h"

#include "common/banned.h"

#define TICK_MS 10     /* of start times in /proc (USER_HZ) */
#define BEFORE_MS 1000 /* it was being made when all were stopped, */
#define AFTER_MS 500   /* and its time of birth is set late */

/* When to look, in ms after all were told to go on: making a process takes longer under load. */
static const short looks[] = {5, 20, 100, 500, 2000};
#define LOOKS (sizeof(looks) / sizeof(looks[0]))

static size_t look = LOOKS;	  /* the next; LOOKS: none */
static long stopped_ms, going_ms; /* since boot */

static long
boot_ms(void)
{
	struct timespec ts = {0};

	(void)sys_call(SYS_clock_gettime, CLOCK_BOOTTIME, P(&ts), 0, 0, 0);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void
again_stopped(void)
{
	if (look != 0)
		stopped_ms = boot_ms();
	look = 0;
	going_ms = 0;
}

void
again_going(void)
{
	going_ms = boot_ms();
	look = 0;
}

int
again_wait_ms(void)
{
	long left;

	if (look == LOOKS || going_ms == 0)
		return -1;
	left = going_ms + looks[look] - boot_ms();
	return left > 0 ? (int)left : 0;
}

struct looking {
	bool (*may_go)(int pid, int group);
};

static void
pid_look(const char *name, void *arg)
{
	const struct looking *l = arg;
	struct pids_stat st;
	long at = 0;
	int pid = (int)pids_number(name, (long)strlen(name), &at);

	if (pid > 1 && pids_stat(name, &st) && st.state == 'T' &&
	    st.born * TICK_MS >= stopped_ms - BEFORE_MS &&
	    st.born * TICK_MS <= going_ms + AFTER_MS && l->may_go(pid, st.group))
		(void)sys_kill(pid, SIGCONT);
}

bool
again_turn(bool (*may_go)(int pid, int group))
{
	static char scratch[4096];
	struct looking l = {may_go};

	if (again_wait_ms() != 0)
		return false;
	look++;
	(void)pids_each(scratch, sizeof(scratch), pid_look, &l);
	return true;
}
