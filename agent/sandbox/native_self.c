/*
 * What the kernel keeps by memory and not by process, so that a child which shares the supervisor's
 * changes it for both: whether it is dumpable, and how soon it is killed for want of memory. Runs
 * in the supervisor, around a child's start; the supervisor must not be easier to trace or to kill
 * for it afterwards.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/banned.h"

static void
oom_put(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, text, strlen(text));
}

static void
oom_get(struct native_self *s)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, s->oom, sizeof(s->oom) - 1) : 0;

	s->oom[n > 0 ? n : 0] = '\0';
}

void
native_self_take(struct native_self *s, bool root)
{
	*s = (struct native_self){.taken = true, .root = root, .dumpable = prctl(PR_GET_DUMPABLE)};
	if (root)
		return;
	/* It writes its own maps and its own oom_score_adj, which is so ours as well. */
	if (s->dumpable != 1)
		(void)prctl(PR_SET_DUMPABLE, 1);
	oom_get(s);
}

void
native_self_give(struct native_self *s, pid_t pid)
{
	char path[64];

	if (!s->taken)
		return;
	s->taken = false;
	if (!s->root) {
		/* The file is root's while its process is not dumpable. */
		if (prctl(PR_GET_DUMPABLE) != 1)
			(void)prctl(PR_SET_DUMPABLE, 1);
		oom_put("/proc/self/oom_score_adj", s->oom);
	}
	if (prctl(PR_GET_DUMPABLE) != s->dumpable && (s->dumpable == 0 || s->dumpable == 1))
		(void)prctl(PR_SET_DUMPABLE, s->dumpable);
	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	if (s->root && pid > 0)
		oom_put(path, NATIVE_OOM);
}
