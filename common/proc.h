/*
 * How a child of the broker starts and confines itself. The parent starts it with nothing
 * but /dev/null as 0 and 1, its own standard error as 2 and the wire to itself as 3, sends
 * P_CONFIG, then P_FD and P_WIRE as often as needed, then P_GO. proc_main() then confines
 * (own uid when started as root, no capabilities, no_new_privs, no core dumps, not dumpable,
 * Landlock, seccomp) and runs the loop.
 */
#ifndef COMMON_PROC_H
#define COMMON_PROC_H

#include <sys/types.h>

#include "common/ipc.h"
#include "common/json.h"
#include "common/loop.h"

#define PROC_PARENT_FD 3

struct proc;
struct proc_ops {
	enum ipc_role self;
	const char *name; /* for the log, e.g. "front" */
	/*
	 * Any may be NULL. In this order: config, each fd, go (still unconfined), then confinement,
	 * then each wire that came so far, serve, C_READY. Later: fd (an error is logged and the
	 * old one stays), wire (an error ends the process), parent_msg.
	 */
	int (*config)(void *arg, const struct json *config, struct err *err);
	int (*fd)(
	    void *arg, struct str name, int fd, struct err *err); /* takes fd, also on error */
	/* A wire arrived (also later, when a peer was restarted): takes fd. */
	int (*wire)(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err);
	int (*go)(void *arg, struct err *err); /* before confinement: load keys, open files */
	int (*serve)(
	    void *arg, struct err *err); /* confined: add sockets to the loop; then C_READY */
	ipc_msg_fn *parent_msg;		 /* other messages of the parent (K_*) */
	void (*stop)(void *arg);	 /* P_STOP; default: loop_stop(0) */
	/*
	 * Names of the system calls beyond the common set, NULL last. Landlock needs no list: a
	 * directory that came by P_FD may be read and written beneath, nothing else of the file
	 * system is reachable; TCP connect is left to upstream and courier alone.
	 */
	const char *const *syscalls;
	bool dirs_read_only; /* ... may be read beneath, not written */
};

/* Runs the child to its end; returns main()'s exit status. `arg` goes to every callback. */
int proc_main(const struct proc_ops *ops, struct loop *loop, void *arg);
/* The wire to the parent, for K_* messages. */
struct ipc *proc_parent(void);
/*
 * To be called when a wire to a peer is gone. A peer that died gets new wires from the parent
 * within moments; a peer that closed the wire because this side broke the rules does not. So unless
 * a new wire to that peer comes within PROC_ORPHAN_MS, this process ends, and is started afresh
 * with all of them.
 */
#define PROC_ORPHAN_MS 2000
void proc_wire_lost(enum ipc_role peer);

/*
 * Start a program of ours: environment empty, own session, dies with this process, descriptors
 * 0 and 1 /dev/null, 2 kept, 3 = wire_fd (stays the caller's), no other. Returns when exec
 * has worked: an error names the program.
 */
int proc_spawn(const char *program, const char *name, int wire_fd, pid_t *ret_pid, struct err *err);

/*
 * Seccomp: allow-list of the common set plus `names` (NULL last; may be NULL); everything else
 * kills the process (SIGSYS). "socket" in names means AF_INET and AF_INET6 only.
 */
int proc_seccomp(const char *const *names, struct err *err);

/*
 * Landlock: no file system access at all but beneath the already open directories given, no
 * TCP, no signal or abstract socket out of the process's own domain.
 */
struct proc_landlock_rule {
	int dirfd;
	bool write;
};
int proc_landlock(const struct proc_landlock_rule *rules, size_t n, struct err *err);
/* The same in steps: *ret_fd is a rule set, the caller closes it. */
int proc_landlock_open(bool tcp_connect, int *ret_fd, struct err *err);
int proc_landlock_allow(int ruleset, int dirfd, bool write, struct err *err);
int proc_landlock_enforce(int ruleset, struct err *err);

/* PR_SET_DUMPABLE 0, RLIMIT_CORE 0, PR_SET_NO_NEW_PRIVS. */
int proc_harden(struct err *err);
/* Root becomes uid:gid for good, without groups; read back; the parent-death signal is set again.
 */
int proc_become(uid_t uid, gid_t gid, struct err *err);
int proc_drop_caps(struct err *err);

#endif
