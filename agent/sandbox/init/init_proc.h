/*
 * One exec as pid 1 and its minder see it: both run in the same memory. Fields are written by the
 * side that is named; what the other side looks at meanwhile is read and written as one word.
 */
#ifndef INIT_PROC_H
#define INIT_PROC_H

#include <signal.h>
#include <sys/resource.h>

#include "agent/sandbox/init/init_order.h"
#include "agent/sandbox/init/init_sys.h"

#define PROC_ALIVE_MAX 256
#define PROC_SLOTS 512	 /* more than alive: of some only what they left running is there (KEEP) */
#define PROC_FDS_MAX 4	 /* extra ones */
#define PROC_GIVEN_MAX 3 /* INSIDE_GIVEN */
#define PROC_FIRST_FD 10
#define PROC_SMALL 8192 /* an order up to this needs no memory of its own */
#define PROC_STACK 8192

#define NULL_FD 0 /* /dev/null, as pid 1's 0, 1 and 2 */
#define SIGNAL_BIT(s) ((uint64_t)1 << ((s)-1))

enum proc_state {
	PROC_FREE = 0,
	PROC_PARKED,   /* ordered while everything is held, or behind a signal that is not sent yet;
			  no minder yet */
	PROC_STARTING, /* the minder works */
	PROC_FAILED,   /* step and error say why; the minder ends */
	PROC_STARTED,  /* the program runs */
	PROC_ENDED,    /* the program has ended: status and usage */
};

enum minder_over {
	OVER_NOT = 0, /* pid 1's word: begin */
	OVER_WAITS,   /* the minder's: nothing is left, and it waits for another word */
	OVER_LEAVE,   /* pid 1's: end */
};

enum proc_step {
	STEP_PROCESS = 0, /* a new process */
	STEP_CODE,
	STEP_PIPE,
	STEP_TTY,
	STEP_STDIO, /* descriptors of the program */
	STEP_CHDIR,
	STEP_EXEC,
	STEP_KILLED,
	STEP_TELL, /* it ran, but its streams could not be handed out: it is ended */
};

struct proc {
	/* pid 1's */
	uint32_t id;	   /* the supervisor's number */
	bool inner_closed; /* the program's ends are closed; their numbers stay for its start */
	bool announced;	   /* SPAWNED is sent */
	bool told;	   /* EXITED is sent */
	bool lost;	   /* the minder was killed by code inside */
	long urgent_ms;	   /* since when it is to end; 0: it is not */
	struct proc *next; /* of the free or of the used */
	struct order order;
	char *big; /* an order over PROC_SMALL */
	size_t big_size;
	int fds[PROC_FDS_MAX + PROC_GIVEN_MAX], nfds;
	int out[2], err[2], in[2], tty[2]; /* read end and write end; terminal and its other side */
	/* the minder's */
	int state;
	int main; /* pid of the program; written by the kernel before it runs */
	enum proc_step step;
	int error;
	int status;
	struct rusage usage;
	int help;    /* it does not get to the end of the tree while others run */
	int sending; /* what it has taken from signals */
	char code_path[sizeof(ORDER_CODE_DIR) + ORDER_CODE_NAME_MAX + 2];
	/* pid 1's, for the minder */
	int kill;
	uint64_t signals;
	/* of its minder, which may stay for the next order */
	int minder; /* 0: none */
	int over;   /* enum minder_over */
	int taken;  /* the minder's: it has begun */
	bool apart; /* the minder's: descriptors of its own, so it ends with its program */
	bool roams; /* it has been given its processors (init_cpus.h), and what it makes has them */
	/* memory */
	char scratch[4096 + 512]; /* a path; what /proc says */
	char small[PROC_SMALL] __attribute__((aligned(16)));
	char stack[PROC_STACK] __attribute__((aligned(16)));
};

#define LOOK(v) __atomic_load_n(&(v), __ATOMIC_ACQUIRE)
#define TELL(v, x) __atomic_store_n(&(v), (x), __ATOMIC_RELEASE)

/* init_minder.c: the minder of an exec, from its start to the end of all that came from it. */
void minder_run(void *proc);
/*
 * SIGKILL to each child of the calling process but those that spare() names. The number of those
 * it found, dead ones that nobody has waited for as well; -errno when it cannot see them.
 */
int minder_children_kill(char *scratch, size_t size, bool (*spare)(int pid));
/* The kernel (an old gVisor) may lack sub-reapers. */
extern bool minder_may_lack;
/* It does: who loses its parent comes to pid 1, not to its minder. */
extern bool minder_lacks;
/* Pid 1 runs under the kernel's usual policy; written once before there is anybody else. */
extern bool minder_may_yield;
/* What pid 1 looks at again: wakes it. */
void minder_wake_init(void);

/*
 * init_child.c. How many descriptors a program may have open, once, before the first: as asked, and
 * at most half of what pid 1 may, which keeps all of that. The kernel counts the descriptors that
 * wait in unix sockets by user, for code inside and pid 1 together, and refuses to send more when
 * the count is over the sender's limit: so code inside cannot stop pid 1 from sending. Returns it.
 */
unsigned child_files_limit(unsigned asked);
/* False: step and error are set. */
/* Before the rest: what came with the order. False: they are too few, or too many. */
bool child_given(struct proc *p);
bool child_streams(struct proc *p); /* pipes or terminal; in pid 1 */
void child_streams_ahead(void);	    /* pipes for the next one; in pid 1 */
bool child_start(struct proc *p);   /* in the minder */

#endif
