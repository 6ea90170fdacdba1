/*
 * A pager as git has it: only on a terminal, COFFERDAM_PAGER before PAGER before less, LESS=FRX
 * where LESS is not set, none where it is empty or cat. Runs as the reviewer, whose environment
 * names the command; nothing of the log reaches a shell.
 */
#include "cmd/cmd_replay_pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"

#include "common/banned.h"

#define COLUMNS_MAX 10000

static const char *
setting(const char *name)
{
	const char *v = getenv(name);

	return v != NULL ? v : "";
}

static unsigned
columns(void)
{
	struct winsize w = {0};
	uint64_t n;

	if (str_to_u64(str_z(setting("COLUMNS")), COLUMNS_MAX, &n) && n != 0)
		return (unsigned)n;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col != 0 ? w.ws_col : 80;
}

static const char *
command(void)
{
	const char *ours = getenv("COFFERDAM_PAGER"), *all = getenv("PAGER");
	const char *use = ours != NULL ? ours : all != NULL ? all : "less";

	return use[0] != '\0' && strcmp(use, "cat") != 0 ? use : NULL;
}

static void
child(const char *use, int in)
{
	if (dup2(in, STDIN_FILENO) < 0)
		_exit(127);
	(void)setenv("LESS", "FRX", 0);
	(void)execl("/bin/sh", "sh", "-c", use, (char *)NULL);
	_exit(127);
}

void
pager_begin(struct pager *p, bool no_pager)
{
	AUTO_FD int in = -1, out = -1;
	int fds[2];
	const char *use = command();

	*p = (struct pager){.saved = -1};
	if (!isatty(STDOUT_FILENO))
		return;
	p->width = columns();
	p->colour = setting("NO_COLOR")[0] == '\0' && strcmp(setting("TERM"), "dumb") != 0 &&
		    setting("TERM")[0] != '\0';
	if (no_pager || use == NULL || pipe2(fds, O_CLOEXEC) != 0)
		return;
	in = fds[0];
	out = fds[1];
	(void)fflush(stdout);
	p->pid = fork();
	if (p->pid == 0)
		child(use, in);
	if (p->pid < 0) {
		p->pid = 0;
		return;
	}
	p->saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	(void)dup2(out, STDOUT_FILENO);
	(void)signal(SIGPIPE, SIG_IGN); /* who leaves the pager early has read enough */
}

void
pager_end(struct pager *p)
{
	int status;

	(void)fflush(stdout);
	if (p->pid == 0)
		return;
	(void)dup2(p->saved, STDOUT_FILENO);
	cleanup_close_fd(&p->saved);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
}
