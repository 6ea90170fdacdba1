/*
 * What the supervisor and pid 1 of a sandbox say to each other over a unix stream socket, pid 1's
 * descriptor 3. Pid 1 links no C library: plain structs in the machine's own order, both ends are
 * built together (INSIDE_VERSION). A frame is struct inside_head and `size` bytes behind it;
 * descriptors travel with the head's first byte. The supervisor trusts nothing that it reads here:
 * types, sizes and numbers of descriptors are checked against the tables below.
 */
#ifndef AGENT_SANDBOX_INSIDE_H
#define AGENT_SANDBOX_INSIDE_H

#include <stdint.h>

#define INSIDE_VERSION 3
#define INSIDE_WIRE_FD 3
#define INSIDE_HELPER_FD 4 /* cofferdam-inside, opened by the back end; -1 there: none */
#define INSIDE_ORDER_MAX ((uint32_t)4 << 20) /* to pid 1 */
#define INSIDE_ANSWER_MAX 4096		     /* from pid 1 */

enum inside_type {
	/* to pid 1 */
	INSIDE_SPAWN = 1,  /* struct inside_spawn, strings; fds: extra */
	INSIDE_SIGNAL = 2, /* a = signal: to the process group of the program itself */
	INSIDE_KILL = 3,   /* the program and everything that came from it, until nothing is left */
	INSIDE_HOLD = 4,   /* a = 1: SIGSTOP to everything but pid 1 and helpers; 0: SIGCONT */
	/* from pid 1 */
	INSIDE_READY = 16,   /* text: members of a JSON object, what was measured */
	INSIDE_FATAL = 17,   /* text: why it cannot start; it ends */
	INSIDE_SPAWNED = 18, /* a = pid; fds: stdout, stderr unless merged, stdin if wanted; or the
				terminal */
	INSIDE_FAILED = 19,  /* a = errno; text: which step, of what */
	INSIDE_EXITED = 20,  /* struct inside_exited; all that came from it is gone as well, unless
				INSIDE_KEEP */
	INSIDE_EMPTIED = 21, /* after EXITED of INSIDE_KEEP, once: what it left is gone as well */
};

struct inside_head {
	uint32_t size; /* of what follows */
	uint16_t type, nfds;
	uint32_t proc; /* chosen by the supervisor, not 0, not used again */
	uint32_t a;
};

enum inside_flags {
	INSIDE_MERGE = 1,
	INSIDE_KEEP = 2, /* what it started may outlive it */
	INSIDE_STDIN = 4,
	INSIDE_TTY = 8,
	INSIDE_HELPER = 16, /* run INSIDE_HELPER_FD instead of argv[0] */
	INSIDE_GIVEN = 32,  /* the first descriptors are its stdout, stderr unless merged, stdin if
			       wanted; SPAWNED then has none; never a terminal */
};

/* Behind it: cwd, argc arguments, envc variables, each with its NUL; then, if code_size is not 0,
 * the path of a file, /tmp/.code/NAME (NUL), and the code: written to that file with mode 0600,
 * whose path becomes the last argument, unlinked at the end. */
struct inside_spawn {
	uint32_t flags, argc, envc, code_size;
	uint16_t rows, cols;
};

struct inside_exited {
	uint32_t status; /* as wait(2) has it */
	uint32_t pad;
	uint64_t user_us, system_us, peak_kib;
};

#endif
