/* The supervisor of one sandbox: serves its callers, keeps time, output and limits, ends all. */
#ifndef AGENT_SANDBOX_SUPER_H
#define AGENT_SANDBOX_SUPER_H

#include <stdbool.h>

/* In the environment of cofferdam-sandbox: it outlives who starts it. */
#define SUPER_STAYS "COFFERDAM_SANDBOX_STAYS"

/*
 * Serves the caller at `wire` until the sandbox has ended; owns wire. process: this is a process of
 * its own (cofferdam-sandbox), which may close other descriptors, change directory and leave its
 * session; else a thread of the command line, which must leave all that alone. Returns an exit
 * status.
 */
int super_main(int wire, bool process);

/*
 * The same in the caller's own thread, piece by piece: a turn when the descriptor is readable, the
 * first at once. True: it is over. super_here_free also ends what is not over. super_here_run: all
 * turns, as a thread of its own, which then frees it.
 */
struct super;
struct super *super_here(int wire);
int super_here_fd(const struct super *s);
bool super_here_turn(struct super *s);
void super_here_run(struct super *s);
void super_here_free(struct super *s);

#endif
