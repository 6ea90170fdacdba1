/*
 * A small epoll loop: descriptors, one-shot timers (CLOCK_MONOTONIC/BOOTTIME by
 * timerfd), signals (signalfd), children (pidfd) and a step before each sleep, where the
 * writer syncs once for all that came in and then lets the answers go.
 * Objects may be deleted inside any callback, also their own.
 */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "common/err.h"

struct loop;
struct loop_io;
struct loop_timer;
typedef void loop_io_fn(void *arg, uint32_t events); /* EPOLL* bits */
typedef void loop_fn(void *arg);
typedef void loop_signal_fn(void *arg, int signo);
typedef void loop_child_fn(void *arg, pid_t pid, int status); /* status as of waitpid(2), reaped */

struct loop *loop_new(void); /* dies when the kernel gives no descriptor */
void loop_free(struct loop *l);
/* In a child that was forked: lets go of the parent's loop, which shares its kernel side, without
 * touching what is watched there. Nothing else may be called on it then. */
void loop_forget(struct loop *l);
/* Runs until loop_stop; returns the value given there. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l, int rc);
/* For who waits elsewhere: one turn that does not wait, after which the descriptor is readable when
 * there is something to do. True: loop_stop was called. */
bool loop_turn(struct loop *l);
int loop_fd(const struct loop *l);
uint64_t loop_now_ms(const struct loop *l); /* CLOCK_BOOTTIME, of this turn */

/* The fd stays the caller's; delete the io before closing the fd. */
struct loop_io *loop_io_add(struct loop *l, int fd, uint32_t events, loop_io_fn *fn, void *arg);
void loop_io_events(struct loop_io *io, uint32_t events);
void loop_io_del(struct loop_io *io); /* NULL is fine */

struct loop_timer *loop_timer_add(struct loop *l, uint64_t ms, loop_fn *fn, void *arg);
/* After a timer has fired it is gone: do not delete it. NULL is fine. */
void loop_timer_del(struct loop_timer *t);

/* Blocks the signal for the process and delivers it here. */
void loop_signal_add(struct loop *l, int signo, loop_signal_fn *fn, void *arg);
void loop_child_add(struct loop *l, pid_t pid, loop_child_fn *fn, void *arg);
void loop_before_sleep(struct loop *l, loop_fn *fn, void *arg); /* several: called in order */

#endif
