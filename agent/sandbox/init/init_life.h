/* The life of execs in pid 1: their start, what is seen of them, their end, all at once. */
#ifndef INIT_LIFE_H
#define INIT_LIFE_H

#include "agent/sandbox/init/init_table.h"

/* Once, when all else is there. */
void life_begin(void);
/* An order that table_take and order_receive have taken; answers by itself, sooner or later. */
void life_start(struct proc *p);
/* The program and all that came from it, until nothing is left. */
void life_kill(struct proc *p);
/* Everything but helpers stops, or goes on; what is ordered meanwhile begins then. */
void life_hold(bool on);
/* Looks at everything that has ended or changed: at SIGCHLD, and after life_wait_ms. */
void life_turn(void);
int life_wait_ms(void); /* -1: not before something happens */
#define LIFE_TICK_MS 10

#endif
