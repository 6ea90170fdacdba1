/*
 * What a caller and the supervisor of a sandbox say to each other, in frames of wire.h. Every body
 * begins with a u32 tag that the caller chose and the answer repeats; EXITED has the tag of its
 * EXEC. Each request gets exactly one DONE, STARTED or ERROR, but KILL, and EXTEND with tag 0,
 * which get none. Answers may come in another order than the requests. ERROR with tag 0 comes
 * unasked, when a sandbox without a name has ended and nothing was run in it: nobody hears of it
 * otherwise. A connection is one caller; several may be there (a named sandbox): 256, and 32 more
 * of which only KILL, PROCS, SIGNAL, WAIT, PAUSE, RESUME, EXTEND, INSPECT, END and DETACH are
 * taken; the rest is answered with ERR_STATE. Encodings as in common/buf.h: u8 u16 u32 u64
 * big-endian, str with u32 length, list with u32 count.
 */
#ifndef AGENT_SANDBOX_CALL_H
#define AGENT_SANDBOX_CALL_H

#include <stdbool.h>

#include "common/err.h"
#include "common/str.h"

/* First byte of a spec and of ATTACH: a named sandbox may outlive an upgrade of its callers. */
#define CALL_VERSION 1

enum call_type {
	CALL_CREATE = 1,  /* str spec (sandbox_spec_encode); once, on the first connection */
	CALL_CREATED = 2, /* str level JSON; fds: a listener for each target */
	CALL_ERROR = 3,	  /* u32 -code, str text */
	/*
	 * str exec (sandbox_exec_encode), u8 spawn; fds: those that become SANDBOX_FIRST_FD...
	 * inside. spawn 0: the pipes go to the caller, and EXITED comes to it. spawn 1: the
	 * supervisor keeps them. When the caller goes away its execs go on (their pipes are
	 * closed), but for those that were ordered as tied to it.
	 */
	CALL_EXEC = 4,
	CALL_STARTED = 5, /* u32 proc; fds: stdout, stderr unless merged, stdin if wanted; with a
			     tty the terminal alone; spawned: none */
	CALL_EXITED = 6, /* u32 proc, u8 cause, u32 value, u64 user us, u64 system us, u64 peak KiB,
			    str refused JSON ("" none) */
	CALL_KILL = 7,	 /* u32 proc, u8 cause that its EXITED shall have: the program and all that
			    came from it */
	/*
	 * u32 seconds, str what it is built from, str spec: a spare, once, on the first connection,
	 * which is closed then; nothing is answered. It listens, for one CALL_TAKE, and ends by
	 * itself after so many seconds (super_spare.c).
	 */
	CALL_SPARE = 9,
	/* u8 CALL_VERSION, u32 seconds of the next one, str what it is to be built from; first on a
	 * connection -> CREATED, and it is the caller's, as if created now; the same text must have
	 * come with SPARE, to the byte. ERROR: it is not to be had. */
	CALL_TAKE = 10,
	CALL_DONE = 8,	  /* by the request: */
	CALL_PROCS = 20,  /* -> str JSON array */
	CALL_LOGS = 21,	  /* u32 proc, u64 from, u32 wait ms, u32 max -> u64 first, u64 next, u8
			     running,  str bytes */
	CALL_SIGNAL = 22, /* u32 proc, u32 signal -> nothing */
	CALL_INPUT = 23,  /* u32 proc, u8 close, str bytes (at most 64 KiB) -> u32 taken: fewer when
			     it  does not read; the rest is sent again */
	CALL_RESIZE = 24, /* u32 proc, u16 rows, u16 cols -> nothing */
	CALL_WAIT =
	    25, /* u32 proc, u32 timeout ms -> as EXITED without tag and proc; ERR_TIMEOUT */
	CALL_PAUSE = 26,   /* -> nothing */
	CALL_RESUME = 27,  /* -> nothing */
	CALL_EXTEND = 28,  /* u32 seconds from now -> nothing */
	CALL_INSPECT = 29, /* -> str JSON object */
	CALL_NETWORK = 30, /* list(str host, str address, u16 port) add, the same drop -> fds:
			      listeners of add */
	CALL_HOLD = 31, /* u8 on: stop (SIGSTOP) or continue all programs but helpers -> nothing */
	CALL_END = 32,	/* -> nothing, when nothing is left; then the supervisor ends */
	CALL_DETACH = 33, /* -> nothing; the caller closes: not the end of a named sandbox */
	/* u8 CALL_VERSION; first on each further connection of a named sandbox -> str level JSON,
	 * u32 output MiB, list(str NAME=value): the environment that came with the spec. */
	CALL_ATTACH = 34,
};

/* Spares of a user, all together: the names spare-1 to spare-N. The lock file of each that waits
 * begins with CALL_HINT digits in hexadecimal of what it is built from (call_hint), so that nobody
 * has to ask those of others. */
#define CALL_SPARES_MAX 4
#define CALL_SPARE_NAME "spare-%u"
#define CALL_SPARE_S_MAX 3600
#define CALL_HINT 16
void call_hint(struct str built_from, char ret[CALL_HINT + 1]);

/* The run-time directory with NAME.sock of each named sandbox: /run/cofferdam-sandbox as root, else
 * $XDG_RUNTIME_DIR/cofferdam-sandbox, else /tmp/cofferdam-sandbox-UID; mode 0700, made and checked
 * (owner, mode, no link) by both sides. The caller frees. In sandbox_directory.c. */
char *call_directory(bool make, struct err *err);
/* Its path, whatever is there; the caller frees. */
char *call_directory_path(void);
/* The same if it is the one in /tmp, which goes with what is in it; else NULL. The caller frees. */
char *call_directory_passing(void);
/* Removes it if it is that one and empty. */
void call_directory_clear(void);

#endif
