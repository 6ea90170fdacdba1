/*
 * The native back end. Order of one start, in the supervisor but where said: start the janitor;
 * make the group in which the child is born; start the child, which shares our memory and our
 * descriptors; while it makes the namespaces that take long, map its ids and open what the sandbox
 * sees; while it builds network and mounts of that, make the other groups. Then we wait: the child
 * joins the groups, gives up everything and executes cofferdam-init. What the child makes for the
 * supervisor (listeners, the filter's notifications) it thus has made here.
 */
#ifndef AGENT_SANDBOX_NATIVE_H
#define AGENT_SANDBOX_NATIVE_H

#include <linux/sched.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/backend.h"

#define NATIVE_UID_INSIDE 1000
#define NATIVE_SHM_MIB 64 /* /dev/shm */

/*
 * native_layers.c: the layers by name (mounts landlock seccomp caps userns netns ipcns utsns pidns
 * cgroupns limits reset). A build for tests can leave some out, COFFERDAM_LAYERS_OFF says which,
 * with commas; no other build can.
 */
#ifdef SANDBOX_TEST_LAYERS
bool native_layer_off(const char *layer);
/* Without the mounts the whole host is seen: what programs need of it. */
int native_layer_rules(int set, uint64_t look, struct err *err);
int native_layer_proc(bool open, struct err *err);
#else
#define native_layer_off(layer) false
#endif

/* --- native_spawn.c: children that share our memory ------------------------------------- */
/* A stack, and above it (at its higher end) what a child and the supervisor share. */
struct native_region {
	void *base;
	size_t size, shared;
};
int native_region_make(size_t size, size_t shared, struct native_region *ret, struct err *err);
void *native_region_shared(const struct native_region *r);
void native_region_free(struct native_region *r);
/*
 * Runs fn(arg) on that stack in a child with the namespaces and options of a->flags; its value is
 * the exit status. With CLONE_VFORK returns when the child has executed another program or is gone.
 * Pid, or -errno. All signals are blocked in the child.
 */
pid_t native_spawn(
    const struct native_region *r, struct clone_args *a, int (*fn)(void *), void *arg);
/* The same, with CLONE_VFORK and our descriptors, and waits for its end: 0, or fn's status (1 to
 * 127), or -errno. */
int native_call(const struct native_region *r, int (*fn)(void *), void *arg);

/* --- native_cgroup.c (choice and making), native_usage.c ---------------------------------- */
enum native_role {
	NATIVE_MEMORY = 1,
	NATIVE_PIDS = 2,
	NATIVE_CPU = 4,
	NATIVE_TIME = 8, /* counts processor time */
	NATIVE_FREEZE = 16,
};
#define NATIVE_GROUPS_MAX 6
struct native_janitor;
struct native_group {
	char *path;
	int fd; /* the directory */
	int version;
	int tasks; /* version 1: to join by */
	int ooms;  /* native_usage.c: open from the first question on; -1: not yet */
	unsigned roles;
};
struct native_cgroup {
	struct native_group g[NATIVE_GROUPS_MAX];
	size_t n;
	int version; /* of the limits; 0: none */
	bool swap_counted;
	struct native_janitor *janitor; /* is told of each group before it is made; NULL: none */
	struct native_cgroup_own *own;	/* between the two steps of its making */
};
/* Directory of the caller's own cgroup for a v1 controller, or (NULL) of v2. The texts are those of
 * /proc/self. NULL: none. The caller frees. */
char *native_cgroup_own(const char *mountinfo, const char *self, const char *controller);
/* That of version 2 where nearly every host has it, without a look at all mounts. NULL: look. */
char *native_cgroup_usual(const char *self);
/*
 * A fresh group for each kind of limit and for the freezer, in two steps: first that of version 2,
 * in which a child can be born; then those of version 1, and what is wrong if there are none.
 * *ret_lacks: layers not to be had and allowed to lack. On error what was made is in *c, for
 * native_cgroup_remove.
 */
int native_cgroup_begin(const struct sandbox_limits *l, struct native_cgroup *c, struct err *err);
int native_cgroup_create(const struct sandbox_limits *l, unsigned may_lack, struct native_cgroup *c,
    unsigned *ret_lacks, struct err *err);
/* One more group, of a version 1 controller that limits nothing of ours. NULL: it is not there, or
 * there is no place. */
struct native_group *native_cgroup_extra(const char *controller, struct native_cgroup *c);
/* The group of a role; NULL: none. */
struct native_group *native_cgroup_role(struct native_cgroup *c, unsigned role);
/* Member "cgroup" of the level. */
void native_cgroup_level(struct native_cgroup *c, struct buf *out);
/* Descriptor of the version 2 group to be born in; -1: none. */
int native_cgroup_into(const struct native_cgroup *c);
/* In the child: version 1 groups. */
int native_cgroup_join(const struct native_cgroup *c, struct err *err);
/* The descriptors to join by are not needed any more. */
void native_cgroup_joined(struct native_cgroup *c);
int native_cgroup_freeze(struct native_cgroup *c, bool on, struct err *err);
void native_cgroup_usage(struct native_cgroup *c, struct backend_usage *ret);
uint64_t native_cgroup_ooms(struct native_cgroup *c);
/* Waits a moment for the last process to be gone. */
void native_cgroup_remove(struct native_cgroup *c);
int native_group_put(const struct native_group *g, const char *file, const char *text);

/* --- native_janitor.c --------------------------------------------------------------------- */
/*
 * Removes the groups when the supervisor is gone without having done it: it is there before the
 * first of them and goes after the last, so that a kill at any moment leaves none.
 */
struct native_janitor {
	pid_t pid; /* 0: none */
	int order; /* its pipe */
	bool named;
	struct native_region region;
};
struct native_idmap {
	volatile uint32_t state; /* 0: not yet; else 1 - errno, woken by futex */
	pid_t child;		 /* as the supervisor sees it */
	uid_t uid;
	gid_t gid;
};
/* And then the files of a name (NULL: none). */
int native_janitor_start(struct native_janitor *j, const struct super_name *name, struct err *err);
/* thaw: a freezer of version 1. What is never made does no harm. */
int native_janitor_tell(struct native_janitor *j, const char *path, bool thaw, struct err *err);
/* Once its work was done by others. Nothing happens where none was started. */
void native_janitor_end(struct native_janitor *j);
/* In the supervisor, while the child starts: raw calls alone. */
void native_map_write(struct native_idmap *map);
/* In the child: until it is done. */
int native_map_wait(struct native_idmap *map, struct err *err);

/* --- native_view.c (what is seen), native_fill.c, native_root.c, native_overlay.c, native_idmap.c
 */
struct native_source {
	const char *host, *inside;
	bool dir, optional, device, writable, exec;
	bool plain; /* its path may have no link */
	bool image; /* `inside` of the image's directory */
	int fd;	    /* detached mount */
};
#define NATIVE_SOURCES_MAX 80
struct native_link {
	const char *inside, *to;
};
struct native_view {
	struct native_source s[NATIVE_SOURCES_MAX];
	size_t n;
	size_t workspace, etc; /* which of s; n or more: none. etc: the image's own */
	struct native_link links[40];
	size_t nlinks;
	char *owned[64]; /* strings made for s and links */
	size_t nowned;
	bool nodes;    /* devices are files of root, not mounts */
	int root;      /* tmpfs; once the child has its root: that, read-only */
	int work, tmp; /* for fstatfs; of an overlay its upper side */
	bool limited;  /* work has a size of ours */
	uid_t maker;   /* another host id that makes files in the workspace, and gives them away; 0:
			  none */
};

/* What the sandbox sees of the host, or of the image. */
int native_view_plan(const struct super_spec *spec, struct native_view *v, struct err *err);
/* Opens all as detached mounts and fills a new root: in the supervisor when it is root (outside is
 * the sandbox's host id), else in the child (outside 0). */
int native_view_open(
    const struct super_spec *spec, struct native_view *v, uid_t outside, struct err *err);
/* What is not needed once the child has its root. */
void native_view_close(struct native_view *v);
void native_view_free(struct native_view *v);
/* Directories, links, /etc and, if it may, device nodes beneath v->root. */
int native_root_fill(
    const struct super_spec *spec, struct native_view *v, bool nodes, struct err *err);
/* A mount point at `inside` beneath the directory root. */
int native_point_make(int root, const char *inside, bool dir, struct err *err);
/* In the child: mounts the root over everything and enters it. */
int native_root_enter(const struct super_spec *spec, struct native_view *v, struct err *err);
int native_proc_mount(struct err *err);
/* What is masked of /proc, without the first slash; NULL behind the last. */
const char *native_proc_mask(size_t i);
/* And what is read-only of it. */
const char *native_proc_fixed(size_t i);
/* The detached mount fd at `inside` beneath the current directory. */
int native_attach(int fd, const char *inside, struct err *err);
/* /work as an overlay over v's workspace; the image's /etc beneath ours. */
int native_overlay_work(unsigned mib, struct native_view *v, struct err *err);
int native_overlay_etc(struct native_view *v, struct err *err);
/* A workspace's owner on disk becomes the id `outside`. */
/* A user namespace with these maps of users and of groups, as /proc/PID/uid_map takes them; nobody
 * is in it. */
int native_userns_make(const char *users, const char *groups, int *ret, struct err *err);
int native_idmap(int mount, const char *host, uid_t outside, uid_t maker, struct err *err);

/* --- native_seen.c: of a spare, what it shows and what the host has ------------------------ */
struct native_seen;
/* Before the view is planned; once it is; once it is opened, all still open. */
int native_seen_begin(struct native_seen **ret, struct err *err);
void native_seen_plan(struct native_seen *w, const struct native_view *v);
void native_seen_built(struct native_seen *w, const struct native_view *v);
/* What would be shown by this spec now is what is shown. False from the first false on. */
bool native_seen_still(
    struct native_seen *w, const struct super_spec *spec, const struct native_view *v);
void native_seen_free(struct native_seen *w);

/* --- native_net.c ------------------------------------------------------------------------- */
/* Raw calls alone: 0, or -errno. */
int native_net_raw(void);
/* Says what went wrong; 0: nothing. */
int native_net_check(int rc, struct err *err);
int native_listener_make(const struct spec_target *t, int *ret, struct err *err);
int native_listen(struct backend_box *b, const struct spec_target *t, int *ret, struct err *err);
/* In the namespaces of the box's child that flags name. */
int native_listen_in(
    const struct backend_box *b, int flags, const struct spec_target *t, int *ret, struct err *err);
int native_hosts_write(int root, const struct spec_target *t, size_t n, struct err *err);
int native_hosts(struct backend_box *b, const struct spec_target *t, size_t n, struct err *err);

/* --- native_lock.c: what the child gives up ----------------------------------------------- */
/* Landlock rules over the new root; 0 in *ret_abi: lacked, as allowed. */
int native_landlock(const int *exe, size_t nexe, bool may_lack, int *ret_abi, struct err *err);
int native_caps_drop(struct err *err);
/* All but the limit of open files, which pid 1 sets for each program. */
int native_reset(struct err *err);

/* --- native_self.c: what is of the memory, and so the supervisor's as well as a child's ---- */
#define NATIVE_OOM "300" /* oom_score_adj of all inside */
struct native_self {
	bool taken, root;
	int dumpable;
	char oom[8]; /* "": not known */
};
/* Before the child: as it needs it. */
void native_self_take(struct native_self *s, bool root);
/* Once it has its own memory, or is gone (pid 0): ours is as before, its oom_score_adj as it shall
 * be. Nothing if that was done. */
void native_self_give(struct native_self *s, pid_t pid);

/* --- native_cpus.c: where a start runs ---------------------------------------------------- */
#define NATIVE_CPUS_BYTES 128
struct native_cpus {
	bool known; /* there is more than one */
	uint64_t all[NATIVE_CPUS_BYTES / 8], one[NATIVE_CPUS_BYTES / 8];
};
/* Those of the calling thread, and the one that it is on. */
void native_cpus_find(struct native_cpus *c);
/* The calling thread keeps to that one, or may use all of them again. Raw calls alone. */
void native_cpus_hold(const struct native_cpus *c);
void native_cpus_free(const struct native_cpus *c);

/* --- native_uid.c: host ids when started as root ------------------------------------------ */
struct native_uid {
	uid_t uid;  /* group as well: nobody else's, and no other sandbox's */
	uid_t root; /* another such one, for a root inside that is not the sandbox's user */
	int lock;   /* holds both until closed, also by the end of the process; <= 0: none */
};
/* Root of the host's own namespace can map any id; root of a container may not. */
bool native_uid_can(void);
int native_uid_take(struct native_uid *ret, struct err *err);
void native_uid_free(struct native_uid *u);
/* The first of a range, as an example. */
uid_t native_uid_example(void);

/* --- native_child.c, native_box.c --------------------------------------------------------- */
/* How far the supervisor is. While it still makes groups, what the child does may fail in no way
 * that is looked for (errno is one for both) and allocate nothing. */
enum native_go {
	NATIVE_GO_VIEW = 1, /* the ids are mapped and the view is open (as root) */
	NATIVE_GO_ALL = 2,  /* all is there, and it waits */
};
/* Shared with the child while it starts. */
struct native_start {
	const struct super_spec *spec;
	struct native *n;
	struct native_idmap map;
	struct native_cpus cpus;
	uint64_t late;		      /* namespaces that the child makes itself */
	volatile uint32_t go;	      /* enum native_go, by futex */
	int net;		      /* of its network, as native_net_raw says */
	int wire, init, inside, null; /* the child's; inside -1: none */
	int supervisor;		      /* pidfd of ours */
	int notify, abi;	      /* found out by the child */
	unsigned lacks;
	int listeners[SANDBOX_TARGETS_MAX];
	size_t nlisteners;
	volatile uint32_t running; /* 0: it has executed pid 1, or failed */
	bool executing;
	struct err err;
};
struct native {	   /* backend_box.own */
	bool root; /* of the host: ids are spare ones, sources are opened outside */
	uid_t uid; /* outside */
	gid_t gid;
	bool starting; /* the child may still use what the supervisor has open */
	struct native_self self;
	struct native_uid spare; /* where both are from; of root alone */
	struct native_cgroup cgroup;
	struct native_janitor janitor;
	struct native_region region;
	struct native_view view;
	const struct super_spec *spec; /* borrowed for the sandbox's life */
	struct native_seen *seen;      /* of a spare alone */
};
int native_child_main(void *arg); /* struct native_start */

/* Beside the running one: an O_PATH descriptor. */
int native_program_open(const char *name, struct err *err);
/* Adds what the file system of fd has used, if counted, and whether it is full. */
void native_disk_usage(int fd, bool counted, struct backend_usage *ret);
/* Everything that a missing layer says: ERR_UNAVAILABLE with what to do. */
int native_missing(struct err *err, int errnum, const char *layer, const char *fix);
int native_namespaces_missing(struct err *err, int errnum);
/* Whole small file into *out, NUL-terminated behind its end. */
int native_slurp(const char *path, struct buf *out, struct err *err);

#endif
