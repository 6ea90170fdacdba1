/*
 * The supervisor in the caller's own process (`cofferdam sandbox exec` alone): saves the start of a
 * program. At first it is of the caller's own thread, and has its turns whenever the caller waits:
 * that saves all that threads cost one another. Before anything that it cannot wait for together
 * with the caller, it gets a thread. It shares nothing with the rest but the socket; nobody else of
 * this process may wait for children that are not its own.
 */
#include "agent/sandbox/sandbox.h"

#include <malloc.h>
#include <signal.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/super.h"

#include "common/banned.h"

#define STACK_SIZE ((size_t)1 << 20)

static void *
supervisor(void *arg)
{
	super_here_run(arg);
	return NULL;
}

/* Signals are the command line's to take. */
static void
here_leave(struct sandbox *sb)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

#ifdef M_ARENA_MAX
	(void)mallopt(M_ARENA_MAX, 1); /* a second arena costs more than sharing one */
#endif
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&sb->thread, &attr, supervisor, sb->here);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	/* Without it nobody would keep the time: as if it were over. */
	if (rc != 0)
		super_here_free(sb->here);
	sb->threaded = rc == 0;
	sb->turn = NULL;
}

static void
here_turn(struct sandbox *sb)
{
	if (!super_here_turn(sb->here))
		return;
	super_here_free(sb->here);
	sb->turn = NULL;
}

static void
here_end(struct sandbox *sb)
{
	if (sb->threaded)
		(void)pthread_join(sb->thread, NULL);
	else if (sb->turn != NULL)
		super_here_free(sb->here);
	sb->turn = NULL;
}

int
sandbox_create_once(const struct sandbox_spec *s, struct sandbox **ret, struct err *err)
{
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct err e = {0};
	AUTO_FD int theirs = -1;
	int pair[2];

	if (sandbox_spec_check(s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	if (s->name != NULL)
		return err_set(err, ERR_INVALID,
		    "sandbox: \"%s\" is to outlive its caller, so it needs a process of its own",
		    s->name);
	sb = client_for(s);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socketpair");
	sb->wire = pair[0];
	theirs = pair[1];
	sb->here = super_here(TAKE_FD(theirs));
	sb->turn = here_turn;
	sb->leave = here_leave;
	sb->end = here_end;
	sb->turn_fd = super_here_fd(sb->here);
	if (client_create(sb, s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	*ret = TAKE_PTR(sb);
	return 0;
}

int
sandbox_create_here(const struct sandbox_spec *s, struct sandbox **ret, struct err *err)
{
	int rc = sandbox_create_once(s, ret, err);

	if (rc == 0)
		client_leave(*ret);
	return rc;
}
