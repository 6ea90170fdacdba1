/*
 * A back end starts pid 1 (cofferdam-init) of one sandbox behind its walls and ends it. Runs in the
 * supervisor; which one is chosen by the spec's name. It reports what it really built; the
 * supervisor does the rest, the same for each.
 */
#ifndef AGENT_SANDBOX_BACKEND_H
#define AGENT_SANDBOX_BACKEND_H

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/sandbox.h"

struct spec_target {
	char *host, *address; /* host NULL: an address alone */
	uint16_t port;
};
struct spec_bind {
	char *host_path, *inside;
};
/* The spec as the supervisor holds it: sandbox_spec with owned strings (super_spec.c decodes). */
struct super_spec {
	struct sandbox_limits limits;		  /* no zero */
	char *backend, *name, *image, *workspace; /* NULL: default or none */
	bool overlay, tied, home;
	bool spare; /* its back end is asked before it is used (still) */
	unsigned may_lack;
	char *ca_pem, *ca_hash, *roots_pem; /* NULL: none */
	struct str keystore;
	char **labels; /* NULL-terminated */
	char **env;    /* the same; kept for ATTACH alone, EXEC brings its own */
	struct spec_bind binds[SANDBOX_BINDS_MAX];
	size_t nbinds;
	struct spec_target targets[SANDBOX_TARGETS_MAX];
	size_t ntargets;
};
int super_spec_decode(struct str body, struct super_spec *ret, struct err *err);
void super_spec_free(struct super_spec *s);

/* Files by which others find a sandbox (super_name.c); the back end sees to it that they go with a
 * supervisor that was killed, which the lock is held for until then. */
struct super_name {
	char *path, *lock_path; /* NULL: none */
	char *early;		/* where the socket is bound first */
	char *dir;		/* goes with the last name in it; NULL: it stays */
	int lock;
};

/* What a started sandbox is to the supervisor. Descriptors are the supervisor's to close; -1: none.
 */
struct backend_box {
	const struct backend *backend;
	const struct super_name *name; /* NULL: none; borrowed from before the start on */
	void *own;		       /* the back end's state, freed by its end() */
	int inside;		       /* wire of inside.h */
	pid_t child;		       /* pid 1 or who stands for it; a child of the supervisor */
	int pidfd;		       /* of child: readable when everything is gone */
	int notify;		       /* seccomp user notification */
	int listeners[SANDBOX_TARGETS_MAX];
	size_t nlisteners;
	unsigned lacks;	  /* of enum sandbox_layer: allowed by the spec, and really not there */
	struct buf level; /* JSON members: what this back end built (without braces) */
	char *cgroups[8]; /* directories that are gone after the end */
};

struct backend_usage {
	uint64_t memory_bytes, memory_peak_bytes, pids, cpu_us, disk_bytes, disk_max_bytes;
	uint64_t oom_kills; /* so far; a rise during an exec is SANDBOX_MEMORY */
	bool disk_full;	    /* /work or /tmp has no room for one more page or file */
};

struct backend {
	const char *name;
	/* Up to pid 1 executed and its wire there: the supervisor then waits for INSIDE_READY.
	 * ERR_UNAVAILABLE names the layer and the fix. */
	int (*start)(const struct super_spec *s, struct backend_box *ret, struct err *err);
	/* Kills everything and waits until nothing is left, also half-made things. Any state. */
	void (*end)(struct backend_box *b);
	int (*freeze)(struct backend_box *b, bool on, struct err *err);
	void (*usage)(struct backend_box *b, struct backend_usage *ret);
	/* usage's oom_kills alone; may be NULL. */
	uint64_t (*ooms)(struct backend_box *b);
	/* A listener inside the sandbox's network and its name in /etc/hosts. */
	int (*listen)(
	    struct backend_box *b, const struct spec_target *t, int *ret_fd, struct err *err);
	/* No descriptor comes out of it: pipes are made outside and go in with the order
	 * (INSIDE_GIVEN), and there is no terminal. */
	bool pipes_in;
	/* Of a spare: it shows what one that is built now would show. False from the first false
	 * on. NULL: this back end cannot tell. */
	bool (*still)(struct backend_box *b);
	/* Writes /etc/hosts anew for these targets. */
	int (*hosts)(struct backend_box *b, const struct spec_target *t, size_t n, struct err *err);
};

/* NULL: there is no back end of that name. */
const struct backend *backend_find(const char *name); /* super_backend.c */
extern const struct backend backend_native, backend_crun, backend_runc, backend_runsc;

/* The text of /etc/hosts for these targets; used by all back ends (super_hosts.c). */
void backend_hosts_text(const struct spec_target *t, size_t n, struct buf *out);
/* The files of the sandbox's /etc as path (below the root) and content, in order; directories have
 * content.p NULL (super_etc.c). Calls fn for each; stops at the first error. */
typedef int backend_file_fn(void *arg, const char *path, struct str content, struct err *err);
typedef int backend_link_fn(void *arg, const char *path, const char *to, struct err *err);
int backend_etc(const struct super_spec *s, backend_file_fn *file, backend_link_fn *link, void *arg,
    struct err *err);

#endif
