/*
 * The OCI back ends: crun, runc and runsc. The supervisor prepares everything as for the native one
 * (limits, view, network, listeners), in a mount namespace that only the run time will have; the
 * bundle, the run time's own state and its root file system are a tmpfs in there, so nothing of
 * them can be left when the last process is gone. The run time builds the wall from config.json and
 * executes cofferdam-init, which measures it; from there on all back ends are the same.
 */
#ifndef AGENT_SANDBOX_OCI_H
#define AGENT_SANDBOX_OCI_H

#include "agent/sandbox/native.h"

/* The run time's world. A place that every host has and that nobody binds from; the control groups
 * disappear behind it, since the limits are ours. */
#define OCI_HOME "/sys/fs"
#define OCI_STATE OCI_HOME "/state"
#define OCI_BUNDLE OCI_HOME "/bundle"
#define OCI_ROOT OCI_BUNDLE "/rootfs"
#define OCI_SHM OCI_BUNDLE "/shm"
#define OCI_DEVICES "/sys/fs/cgroup/devices"
#define OCI_ID "sandbox"
#define OCI_INIT "/run/cofferdam-init"
#define OCI_INSIDE "/run/cofferdam-inside"

struct oci_runtime {
	const char *name;    /* program and Debian's package */
	const char *argv[7]; /* between the program and the bundle */
	/* A kernel of its own (gVisor): runs in a user namespace that we make, takes no descriptors
	 * but 0 to 2, hands none out, knows neither errors of filters nor all of /proc. */
	bool kernel;
	bool devices; /* does not start without cgroup version 1's devices */
	/* What it uses of the limits itself: so much more is given. spare: once it waits. */
	unsigned pids, spare, memory_mib;
};

struct oci { /* backend_box.own */
	const struct oci_runtime *rt;
	struct native_region region;
	struct native_uid spare; /* outside: the sandbox's user, and 0 inside, which is nobody's */
	struct native_cgroup cgroup;
	struct native_janitor janitor;
	struct native_view view;
	char *devices; /* the group for `devices`, below its mount */
	int log;       /* what the run time says */
};

/* Shared with the child until it executes the run time. */
struct oci_start {
	const struct super_spec *spec;
	struct oci *o;
	const char *path;	  /* the run time */
	struct str config;	  /* config.json */
	int wire, null, users;	  /* users: user namespace to run in; -1: this one */
	int init, inside, helper; /* to copy from; helper: for pid 1's descriptor */
	int listeners[SANDBOX_TARGETS_MAX];
	size_t nlisteners;
	bool executing;
	struct err err;
};

/* oci_config.c: config.json of one sandbox. */
void oci_config(const struct super_spec *s, const struct oci *o, struct buf *out);
/* oci_root.c: in the child, in its own mount namespace: bundle and root file system. */
int oci_root_make(struct oci_start *s, struct err *err);
/* oci_end.c: undoes whatever was begun. */
void oci_end(struct backend_box *b);
/* oci_child.c */
int oci_child_main(void *arg); /* struct oci_start */

#endif
