/* What this host has of what the native back end needs, for `cofferdam doctor`. */
#ifndef AGENT_SANDBOX_NATIVE_DOCTOR_H
#define AGENT_SANDBOX_NATIVE_DOCTOR_H

#include <stdbool.h>

/*
 * One thing: what it is called ("user namespaces", "cgroup: memory, pids"), whether it is there,
 * what was found (a version, a number, a path, an error), and, if it is not there, what to do about
 * it in words (a sysctl, a profile, a package; "" otherwise). needed: without it there is no full
 * sandbox.
 */
typedef void native_doctor_fn(
    void *arg, const char *name, bool ok, bool needed, const char *found, const char *fix);
/* Looks at the kernel and tries what can be tried, in children of its own; changes nothing. */
void native_doctor(native_doctor_fn *row, void *arg);

#endif
