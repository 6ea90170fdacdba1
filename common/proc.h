/*
 * How a child of the broker starts and confines itself. Descriptor 3 is the wire to the
 * parent; everything above is closed first. The parent sends P_CONFIG, then P_WIRE and P_FD
 * as often as needed, then P_GO; proc_serve() then confines (own uid when started as root,
 * no_new_privs, no core dumps, not dumpable, rlimits, Landlock, seccomp) and runs the loop.
 */
#ifndef COMMON_PROC_H
#define COMMON_PROC_H

#include "common/ipc.h"
#include "common/json.h"
#include "common/loop.h"

#define PROC_PARENT_FD 3

struct proc;
struct proc_ops {
	enum ipc_role self;
	const char *name; /* for the log, e.g. "front" */
	/* Any may be NULL. They run before confinement (config, fd) or after (the rest). */
	int (*config)(void *arg, const struct json *config, struct err *err);
	int (*fd)(void *arg, struct str name, int fd, struct err *err); /* takes fd */
	/* A wire arrived (also later, when a peer was restarted): takes fd. */
	int (*wire)(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err);
	int (*go)(void *arg, struct err *err);		 /* before confinement: load keys, open files */
	int (*serve)(void *arg, struct err *err);	 /* confined: add sockets to the loop; then C_READY */
	ipc_msg_fn *parent_msg;				 /* other messages of the parent (K_*) */
	void (*stop)(void *arg);			 /* P_STOP; default: loop_stop(0) */
	/* Confinement: names of the system calls beyond the common set; Landlock paths. */
	const char *const *syscalls;
	bool keep_loop_exec;				 /* never set in shipped programs */
};

/* Runs the child to its end; returns main()'s exit status. `arg` goes to every callback. */
int proc_main(const struct proc_ops *ops, struct loop *loop, void *arg);
/* The wire to the parent, for K_* messages. */
struct ipc *proc_parent(void);

/* Seccomp: allow-list of the common set plus `names`; everything else kills the process (SIGSYS). */
int proc_seccomp(const char *const *names, struct err *err);
/* Landlock: no file system access at all but beneath the already open directories given. */
struct proc_landlock_rule {
	int dirfd;
	bool write;
};
int proc_landlock(const struct proc_landlock_rule *rules, size_t n, struct err *err);
/* PR_SET_DUMPABLE 0, RLIMIT_CORE 0, PR_SET_NO_NEW_PRIVS. */
int proc_harden(struct err *err);

#endif
