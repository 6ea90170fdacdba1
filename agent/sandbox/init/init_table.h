/* The execs of a sandbox, as pid 1 has them, and what it tells the supervisor of each. */
#ifndef INIT_TABLE_H
#define INIT_TABLE_H

#include "agent/sandbox/init/init_proc.h"

/* The used ones, by ->next. */
struct proc *table_first(void);
struct proc *table_find(uint32_t id);
/* A clean one with this number, perhaps with a minder that waits; NULL: there are too many. */
struct proc *table_take(uint32_t id);
/* Closes and frees all that is its. If it has a minder, that waits. */
void table_release(struct proc *p);
/* The program's ends of its streams, and its extra descriptors. */
void table_close_inner(struct proc *p);
/* Nobody's, with minders that wait or are about to end; by ->next. */
struct proc *table_waiting(void);
/* Of the used and of the waiting; NULL: it is no minder. */
struct proc *table_of_minder(int pid);
bool table_is_minder(int pid);
/* If it is one of the waiting, whose minder has ended: it is free. */
bool table_waiter_gone(struct proc *p);

/* Receives the body of INSIDE_SPAWN into *p: NULL, or what is wrong with it; read to its end. */
const char *order_receive(struct proc *p, size_t n);

/* INSIDE_SPAWNED with its descriptors, which are then closed here; ended: and INSIDE_EXITED. */
void tell_spawned(struct proc *p, bool ended);
/* INSIDE_FAILED by p->step and p->error. */
void tell_failed(const struct proc *p);
void tell_exited(struct proc *p);
void tell_emptied(const struct proc *p);

#endif
