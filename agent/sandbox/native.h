/*
 * The native back end: launcher (outside, one per sandbox) and the child that becomes pid 1
 * inside. Order of one start: launcher reads the spec, makes cgroups and the filter, clones the
 * child into new namespaces, writes its id maps, puts it under the limits and says go; the child
 * builds network and mounts, sends the listeners out, drops everything and executes "init",
 * which measures what it really has and reports ready.
 */
#ifndef AGENT_SANDBOX_NATIVE_H
#define AGENT_SANDBOX_NATIVE_H

#include <linux/filter.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/sandbox.h"

#define NATIVE_UID_INSIDE 1000
#define NATIVE_UID_BASE 63200 /* host ids when started as root: this and 63 more */
#define NATIVE_UID_COUNT 64
#define NATIVE_EXE_FD 4

/* --- native_spec.c: the spec as the launcher holds it ---------------------------------- */
struct native_target {
	char *host, *address; /* host NULL: an address alone */
	uint16_t port;
};
struct native_bind {
	char *host_path, *inside;
};
struct native_spec {
	struct sandbox_limits limits;
	bool limits_optional;
	char *workspace;		    /* NULL: private */
	char *ca_pem, *ca_hash, *roots_pem; /* NULL: none */
	struct str keystore;		    /* owned */
	struct native_bind binds[SANDBOX_BINDS_MAX];
	size_t nbinds;
	struct native_target targets[SANDBOX_TARGETS_MAX];
	size_t ntargets;
};
int native_spec_decode(struct str body, struct native_spec *ret, struct err *err);

/* --- native_cgroup.c ------------------------------------------------------------------- */
#define NATIVE_CGROUP_DIRS 3
struct native_cgroup {
	int version;			/* 1, 2; 0: none */
	char *dirs[NATIVE_CGROUP_DIRS]; /* v1: memory, pids, cpu (some may be one); v2: one */
	int tasks[NATIVE_CGROUP_DIRS];	/* v1: open for the child; 0 or -1: none */
	size_t ndirs;
	char *memory; /* the directory that counts memory; one of dirs */
	bool swap_counted;
};
/* Directory of the caller's own cgroup for a v1 controller, or (NULL) of v2. The texts are those of
 * /proc/self. */
char *native_cgroup_own(const char *mountinfo, const char *self, const char *controller);
int native_cgroup_create(
    const struct sandbox_limits *l, struct native_cgroup *ret, struct err *err);
/* Version 1: open in the launcher, join in the child. Version 2: add in the launcher. */
int native_cgroup_open(struct native_cgroup *c, struct err *err);
int native_cgroup_join(const struct native_cgroup *c, struct err *err);
void native_cgroup_close(struct native_cgroup *c);
int native_cgroup_add(const struct native_cgroup *c, pid_t pid, struct err *err);
/* How many processes the memory limit has killed so far. */
uint64_t native_cgroup_ooms(const struct native_cgroup *c);
void native_cgroup_remove(struct native_cgroup *c);

/* --- native_seccomp.c ------------------------------------------------------------------ */
#define NATIVE_FILTERS 2
struct native_filter {
	struct sock_fprog prog[NATIVE_FILTERS]; /* loaded in this order */
	unsigned allowed;			/* system calls */
};
int native_filter_build(struct native_filter *ret, struct err *err);
/* To the child: built by the launcher while the child builds its world. Both in this order on one
 * machine. */
void native_filter_encode(const struct native_filter *f, struct buf *out);
int native_filter_decode(struct str body, struct native_filter *ret, struct err *err);
int native_filter_load(const struct native_filter *f, struct err *err);

/* --- native_mount.c, native_etc.c ------------------------------------------------------ */
struct native_source {
	const char *host, *inside;
	bool dir, optional, device, writable, exec;
	int fd; /* detached mount */
};
#define NATIVE_SOURCES_MAX 96
struct native_view {
	struct native_source s[NATIVE_SOURCES_MAX];
	size_t n;
	char *owned[16]; /* strings made for s */
	size_t nowned;
};
/* What the sandbox sees of the host. */
int native_view_plan(const struct native_spec *spec, struct native_view *v, struct err *err);
/* Opens all as detached mounts: in the launcher when it is root, else in the child. idmap_uid 0:
 * none. */
int native_view_open(struct native_view *v, uid_t idmap_uid, struct err *err);
void native_view_close(struct native_view *v);
/* In the child: the new root, mounted over /tmp of its own mount namespace, then entered. */
int native_root_enter(const struct native_spec *spec, struct native_view *v, struct err *err);
/* Beneath the current directory (the new root): /etc and its files. */
int native_etc_write(const struct native_spec *spec, struct err *err);
int native_file_write(const char *path, struct str content, mode_t mode, struct err *err);

/* --- native_net.c, native_lock.c, native_child.c, native_launch.c, native_init.c --------- */
int native_net_up(const struct native_spec *spec, int *listeners, struct err *err);
/* Landlock rules over the new root; *ret_abi is what the kernel has. */
int native_landlock(int exe_fd, int *ret_abi, struct err *err);
int native_caps_drop(struct err *err);
int native_reset(struct err *err); /* umask, nice, rlimits, own session, keyring */

struct native_child {
	const struct native_spec *spec;
	struct native_view *view;
	struct native_filter filter;
	int wire, exe_fd;
	bool root; /* the launcher is the host's root: sources are already open */
	const struct native_cgroup *cgroup;
};
_Noreturn void native_child_main(struct native_child *c);
int native_launcher_main(void);
int native_init_main(void);

/* Everything that a missing layer says: ERR_UNAVAILABLE with what to do. */
int native_missing(struct err *err, int errnum, const char *layer, const char *fix);
/* Whole small file into *out; the file is opened close-on-exec. */
int native_slurp(const char *path, struct buf *out, struct err *err);

#endif
