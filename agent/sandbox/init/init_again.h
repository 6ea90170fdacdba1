/* After all that was stopped was told to go on: those that do not, as the kernel lost it. */
#ifndef INIT_AGAIN_H
#define INIT_AGAIN_H

#include <stdbool.h>

/* All are told to stop; to go on. */
void again_stopped(void);
void again_going(void);
/* Milliseconds until again_turn has something to do; -1: never. */
int again_wait_ms(void);
/* SIGCONT to each that may go on and was made while all were stopped, if it is time to look: then
 * true. What hides itself from /proc is not found. */
bool again_turn(bool (*may_go)(int pid, int group));

#endif
