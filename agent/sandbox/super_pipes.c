/*
 * Streams of a program in a back end whose kernel hands no descriptor out (gVisor): the pipes are
 * made here, and the program's ends go in with its order. Runs in the supervisor.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>

#include "common/banned.h"

static int
pipe_add(struct super_exec *x, bool out, int *inner, size_t *n, struct err *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pipe of a program");
	x->given[x->ngiven++] = p[out ? 0 : 1];
	inner[(*n)++] = p[out ? 1 : 0];
	return 0;
}

int
super_pipes_make(struct super_exec *x, int *inner, size_t *ret_n, struct err *err)
{
	int rc;

	if ((x->flags & INSIDE_TTY) != 0)
		return err_set(err, ERR_UNSUPPORTED,
		    "sandbox: back end %s has no terminals: run it without one",
		    x->s->box.backend->name);
	rc = pipe_add(x, true, inner, ret_n, err);
	if (rc == 0 && (x->flags & INSIDE_MERGE) == 0)
		rc = pipe_add(x, true, inner, ret_n, err);
	if (rc == 0 && (x->flags & INSIDE_STDIN) != 0)
		rc = pipe_add(x, false, inner, ret_n, err);
	return rc;
}
