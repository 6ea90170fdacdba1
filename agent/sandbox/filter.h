/*
 * The system call filter of a sandbox. Its rules are one table (filter.tbl); filter_gen, a program
 * of the build, makes from it one BPF program for each machine, as a search tree (build/.../
 * filter_bpf.h), and the list that OCI run times read. What is refused by the table as worth
 * telling goes to a user notification, which the supervisor answers with the table's error and
 * counts; where there is no listener the same program is loaded with plain errors.
 */
#ifndef AGENT_SANDBOX_FILTER_H
#define AGENT_SANDBOX_FILTER_H

#include <linux/filter.h>

#include "common/buf.h"
#include "common/err.h"

/* The program for this machine. notify: told refusals are SECCOMP_RET_USER_NOTIF, else errors. */
struct sock_fprog filter_program(bool notify);
unsigned filter_allowed(void);		   /* how many calls it lets pass, also by argument */
const char *filter_call_name(unsigned nr); /* this machine's; NULL: unknown */
/*
 * Raw system calls only, so that a child that shares memory may call it. Loads the program into
 * the calling thread, which must have no_new_privs. *ret_notify: the listener, or -1 when notify is
 * false. 0 or -errno: -EINVAL, the kernel has no user notification (before 5.0) or no filters;
 * -EBUSY, a filter around this one has a listener already, and there can be only one.
 */
int filter_load(bool notify, int *ret_notify);
/* "seccomp" of an OCI config.json, as one JSON object: the same rules. */
const char *filter_oci(void);

/* --- the supervisor's end (filter_notify.c) ----------------------------------------------------
 */
struct filter_counts;
struct filter_counts *filter_counts_new(void);
void filter_counts_free(struct filter_counts *c);
/* The listener is readable: answers what is there, at most `max`, and counts by call and program
 * name. Never continues a call. False: the listener is at its end. */
bool filter_notify_turn(int listener, struct filter_counts *c, unsigned max);
/* JSON array [{"call":"ptrace","number":101,"program":"strace","count":3}], most first, at most 64
 * rows; programs' names are made printable. reset: counts begin anew. */
void filter_counts_json(struct filter_counts *c, bool reset, struct buf *out);

#endif
