/*
 * Why a program ended, beyond its status: told from what the limits and callers did, never from
 * what pid 1 says. Runs in the supervisor.
 */
#include "agent/sandbox/super_state.h"

#include <signal.h>
#include <sys/wait.h>

#include "common/banned.h"

static uint64_t
ooms(struct super *s)
{
	struct backend_usage u = {0};

	if (s->box.backend->ooms != NULL)
		return s->box.backend->ooms(&s->box);
	if (s->box.backend->usage != NULL)
		s->box.backend->usage(&s->box, &u);
	return u.oom_kills;
}

/* Nothing runs and nothing is left: what was counted last still holds. */
static bool
is_quiet(const struct super *s)
{
	for (const struct super_exec *x = s->execs; x != NULL; x = x->next)
		if (x->state != SUPER_ENDED || x->left)
			return false;
	return true;
}

/* Nothing has run before the first. */
uint64_t
super_ooms_begin(struct super *s)
{
	if (s->next_proc == 1)
		return 0;
	return s->ooms_known && is_quiet(s) ? s->ooms : ooms(s);
}

static bool
by_kill(int status)
{
	return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL);
}

/*
 * The memory limit kills what it likes, a child or the program itself. When others ran at the
 * same time, only an end that looks like its work is taken for it.
 */
enum sandbox_cause
super_cause_find(const struct super_exec *x, int status)
{
	struct backend_usage u = {0};
	bool oom;

	x->s->ooms_known = false;
	if (x->killed != SANDBOX_NONE)
		return x->killed;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return SANDBOX_POLICY;
	x->s->ooms = ooms(x->s);
	x->s->ooms_known = true;
	oom = x->s->ooms > x->ooms;
	if (oom && (x->alone || by_kill(status)))
		return SANDBOX_MEMORY;
	if (status == 0)
		return SANDBOX_EXITED;
	if (x->s->box.backend->usage != NULL)
		x->s->box.backend->usage(&x->s->box, &u);
	if (u.disk_full)
		return SANDBOX_DISK;
	return WIFSIGNALED(status) ? SANDBOX_SIGNALLED : SANDBOX_EXITED;
}
