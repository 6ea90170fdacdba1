/*
 * The supervisor as a thread of the caller's own process (`cofferdam sandbox exec` alone): saves
 * the start of a program. The thread shares nothing with the rest but the socket; nobody else of
 * this process may wait for children that are not its own.
 */
#include "agent/sandbox/sandbox.h"

#include <malloc.h>
#include <signal.h>
#include <stdint.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/super.h"

#include "common/banned.h"

#define STACK_SIZE ((size_t)1 << 20)

static void *
supervisor(void *arg)
{
	(void)super_main((int)(intptr_t)arg, false);
	return NULL;
}

/* Signals are the command line's to take. */
static int
thread_start(struct sandbox *sb, int wire, struct err *err)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	(void)mallopt(M_ARENA_MAX, 1); /* a second arena costs more than sharing one */
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&sb->thread, &attr, supervisor, (void *)(intptr_t)wire);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (rc != 0)
		return err_sys(err, ERR_SYSTEM, rc, "sandbox: thread");
	sb->here = true;
	return 0;
}

int
sandbox_create_here(const struct sandbox_spec *s, struct sandbox **ret, struct err *err)
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
	if (thread_start(sb, theirs, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	theirs = -1; /* the thread's */
	if (client_create(sb, s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	*ret = TAKE_PTR(sb);
	return 0;
}
