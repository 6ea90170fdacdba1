/*
 * Kills a sandbox's caller, its supervisor or both behind the N-th system call of one of them: each
 * moment of a start, once, and not by chance. Run by 48-sandbox-left.t, in its outer namespaces.
 *
 *	kill_at WHO N VICTIM... -- COMMAND...
 *
 * WHO counts its system calls: "caller" (COMMAND itself), "supervisor" (what has executed
 * cofferdam-sandbox), or "child" (what builds a sandbox: on another's memory, until it executes
 * pid 1). VICTIM is "caller" or "supervisor"; behind the word "term" it gets SIGTERM. Exit 0:
 * killed; 3: it ended before that.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "common/banned.h"

#define TRACEES 64
#define OPTIONS                                                                                   \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | \
	    PTRACE_O_TRACEEXEC)

enum kind { CHILD, CALLER, SUPERVISOR };
static const char *const kinds[] = {"child", "caller", "supervisor"};

struct tracee {
	pid_t pid; /* 0: free */
	enum kind kind;
	bool
	    stays; /* a supervisor that outlives its caller: what that one executed has forked it */
};
static struct tracee tracees[TRACEES];

static enum kind
kind_of(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(word, kinds[i]) == 0)
			return (enum kind)i;
	(void)fprintf(stderr, "kill_at: \"%s\" is none of child, caller, supervisor\n", word);
	exit(2);
}

/* A new one is a child until it executes something. */
static struct tracee *
tracee_of(pid_t pid)
{
	struct tracee *room = NULL;

	for (size_t i = 0; i < TRACEES; i++) {
		if (tracees[i].pid == pid)
			return &tracees[i];
		if (tracees[i].pid == 0 && room == NULL)
			room = &tracees[i];
	}
	if (room == NULL)
		exit(2);
	*room = (struct tracee){.pid = pid, .kind = CHILD};
	return room;
}

/* False: it is nobody's concern from now on. */
static bool
executed(struct tracee *t)
{
	char path[64], comm[32] = "";
	bool ours = false;
	FILE *f;

	if (t->kind == CALLER)
		return true;
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)t->pid);
	f = fopen(path, "re");
	if (f != NULL) {
		ours =
		    fgets(comm, sizeof(comm), f) != NULL && strcmp(comm, "cofferdam-sandb\n") == 0;
		(void)fclose(f);
	}
	if (ours)
		t->kind = SUPERVISOR;
	return ours;
}

static bool
behind_call(pid_t pid)
{
	struct ptrace_syscall_info info = {0};

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_EXIT;
}

static void
victims_kill(char **words)
{
	int sig = SIGKILL;

	for (char **w = words; strcmp(*w, "--") != 0; w++) {
		if (strcmp(*w, "term") == 0) {
			sig = SIGTERM;
			continue;
		}
		for (size_t i = 0; i < TRACEES; i++)
			if (tracees[i].pid != 0 && tracees[i].kind == kind_of(*w))
				(void)kill(tracees[i].pid, sig);
	}
}

static void
forked(const struct tracee *parent)
{
	struct tracee *t;
	unsigned long pid = 0;

	if (ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid) != 0)
		return;
	t = tracee_of((pid_t)pid);
	if (parent->kind == SUPERVISOR && !parent->stays) {
		t->kind = SUPERVISOR;
		t->stays = true;
	}
}

/* One stop of t. True: it was the moment. */
static bool
stopped(struct tracee *t, int status, enum kind who, long *left)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80)) {
		if (t->kind == who && behind_call(t->pid) && --*left == 0)
			return true;
		sig = 0;
	} else if (event == PTRACE_EVENT_EXEC && !executed(t)) {
		(void)ptrace(PTRACE_DETACH, t->pid, 0, 0);
		t->pid = 0;
		return false;
	} else if (sig == SIGTRAP || event == PTRACE_EVENT_STOP) {
		if (event == PTRACE_EVENT_FORK)
			forked(t);
		sig = 0;
	}
	(void)ptrace(PTRACE_SYSCALL, t->pid, 0, sig);
	return false;
}

/* Seized, not attached to: whom we let go of must not be left with a SIGSTOP. */
static pid_t
start(char **command)
{
	int go[2], status;
	pid_t pid = pipe(go) == 0 ? fork() : -1;

	if (pid == 0) {
		char c;

		(void)close(go[1]);
		if (read(go[0], &c, 1) == 1 && close(go[0]) == 0)
			(void)execv(command[0], command);
		_exit(2);
	}
	if (pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) != 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0 || waitpid(pid, &status, 0) != pid ||
	    ptrace(PTRACE_SYSCALL, pid, 0, 0) != 0 || write(go[1], "x", 1) != 1)
		exit(2);
	(void)close(go[0]);
	(void)close(go[1]);
	tracee_of(pid)->kind = CALLER;
	return pid;
}

int
main(int argc, char **argv)
{
	char **command = argv + 3;
	enum kind who;
	pid_t caller, pid;
	long left;
	int status;

	while (command < argv + argc && strcmp(*command, "--") != 0)
		command++;
	if (argc < 6 || command + 1 >= argv + argc) {
		(void)fprintf(stderr, "usage: kill_at WHO N VICTIM... -- COMMAND...\n");
		return 2;
	}
	who = kind_of(argv[1]);
	left = strtol(argv[2], NULL, 10);
	caller = start(command + 1);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		struct tracee *t = tracee_of(pid);

		if (!WIFSTOPPED(status)) {
			t->pid = 0;
			if (pid == caller)
				return 3;
			continue;
		}
		if (stopped(t, status, who, &left)) {
			/* Our own end lets go of the others. */
			victims_kill(argv + 3);
			return 0;
		}
	}
	return 3;
}
