/*
 * The sandbox contract: create, exec, destroy. Whoever calls this holds one program,
 * cofferdam-sandbox, by one socket; that program makes the namespaces, the limits and
 * the listeners, and ends everything when the socket closes. Nothing here is a boundary:
 * the boundary is built by the native back end and measured by its own pid 1.
 */
#ifndef AGENT_SANDBOX_SANDBOX_H
#define AGENT_SANDBOX_SANDBOX_H

#include "common/buf.h"
#include "common/err.h"

#define SANDBOX_TARGETS_MAX 252 /* listeners; SCM_RIGHTS takes 253 descriptors */
#define SANDBOX_BINDS_MAX 32
#define SANDBOX_ENV_MAX 512
#define SANDBOX_ARGS_MAX 4096
#define SANDBOX_CODE_MAX ((size_t)1 << 20)
#define SANDBOX_TRUST_MAX ((size_t)1 << 20) /* bytes of each form of certificates */

/* Zero in any field means its default (sandbox_limits_default). */
struct sandbox_limits {
	uint32_t wall_s;	/* whole life of the sandbox */
	uint32_t cpu_percent;	/* 100 is one processor */
	uint32_t memory_mib;	/* everything: programs, /tmp, /work when private */
	uint32_t pids;		/* processes and threads */
	uint32_t output_mib;	/* one exec's output; more ends it */
	uint32_t workspace_mib; /* private /work, and /tmp */
};

struct sandbox_target {
	const char *host;    /* name that resolves inside to address; "": none */
	const char *address; /* 127.x.y.z, not 127.0.0.1 */
	uint16_t port;
};

struct sandbox_bind {
	const char *host_path; /* seen read-only inside */
	const char
	    *inside; /* absolute; a new directory below /opt, /srv, /mnt, /home or a new top one */
};

/* All borrowed during sandbox_create. */
struct sandbox_spec {
	struct sandbox_limits limits;
	const char *workspace; /* directory that becomes /work; NULL: private, gone at the end */
	const struct sandbox_bind *binds;
	size_t nbinds;
	const struct sandbox_target *targets;
	size_t ntargets;
	const char *const *env; /* "NAME=value", NULL-terminated; NULL is none */
	const char *ca_pem;	/* CA of the run, that programs inside trust; NULL: none */
	const char *ca_hash;	/* its OpenSSL subject hash, 8 hex digits, for lookup by directory;
				   NULL: unknown */
	const char *roots_pem;	/* public authorities for the system's bundle; NULL: none */
	struct str keystore;	/* the bundle as PKCS #12, for Java; empty: none */
	bool limits_optional;	/* for tests: run without memory, pids and CPU limits if cgroups
				   cannot be had */
};

struct sandbox_limits sandbox_limits_default(void);
/* ERR_INVALID / ERR_TOO_LARGE naming field, value and limit. sandbox_create calls it. */
int sandbox_spec_check(const struct sandbox_spec *spec, struct err *err);

struct sandbox;
/*
 * Builds the sandbox. ERR_UNAVAILABLE names the layer that is missing and what to do: there is
 * no weaker fallback. On success every target has a listening socket inside.
 */
int sandbox_create(const struct sandbox_spec *spec, struct sandbox **ret, struct err *err);
/* Ends every process inside and waits until nothing is left. NULL is fine. */
void sandbox_destroy(struct sandbox *sb);
DEFINE_AUTO(sandbox, struct sandbox, sandbox_destroy)
/* What really holds, as one JSON object; measured from inside. Good until destroy. */
const char *sandbox_level(const struct sandbox *sb);
/* The listening socket of spec.targets[i], made in the sandbox's network namespace; the caller
 * closes. -1: taken. */
int sandbox_listener_take(struct sandbox *sb, size_t i);

enum sandbox_cause {
	SANDBOX_NONE = 0,
	SANDBOX_EXITED,	     /* value: exit status */
	SANDBOX_SIGNALLED,   /* value: signal */
	SANDBOX_TIMEOUT,     /* wall time of the exec or of the sandbox */
	SANDBOX_MEMORY,	     /* the memory limit killed at least one process; value as seen */
	SANDBOX_OUTPUT,	     /* more output than the limit */
	SANDBOX_KILLED,	     /* the caller's watch said so */
	SANDBOX_UNAVAILABLE, /* the sandbox itself went away */
};
const char *sandbox_cause_name(enum sandbox_cause c);

/* Bytes as they come; stream is 1 or 2 (always 1 when merged). */
typedef void sandbox_output_fn(void *arg, int stream, struct str bytes);
/* Called when *watch_fd is readable; true: end this exec now (SANDBOX_KILLED). It may change
 * *watch_fd. */
typedef bool sandbox_watch_fn(void *arg);

struct sandbox_exec {
	/* Either a language (bash sh python javascript perl) and code, or argv. */
	const char *language;
	struct str code;
	char *const *argv;	/* NULL-terminated; argv[0] is searched in the sandbox's PATH */
	const char *cwd;	/* absolute, inside; NULL: /work */
	struct str stdin_bytes; /* goes in first, when pipe_stdin */
	bool pipe_stdin;	/* give the program a pipe; else its standard input is empty */
	int stdin_fd; /* pumped into that pipe after stdin_bytes until end of file; -1: none */
	uint32_t timeout_s;	   /* 0: only the sandbox's own wall limit */
	bool merge;		   /* stdout and stderr in one stream, in order */
	bool background;	   /* leave what the program started running after it has exited */
	sandbox_output_fn *output; /* NULL: not wanted */
	void *output_arg;
	size_t head, tail;   /* bytes collected from the begin and the end of all output */
	const int *watch_fd; /* NULL or -1 inside: none; looked at anew each time */
	sandbox_watch_fn *watch;
	void *watch_arg;
};

struct sandbox_result {
	enum sandbox_cause cause;
	int value;
	uint64_t total; /* bytes written by the program, also those not kept */
	uint64_t duration_us;
	struct buf head, tail;
};

/*
 * Runs one program to its end; one at a time. ERR_NOT_FOUND when there is no such program or
 * interpreter, ERR_UNAVAILABLE when the sandbox is gone. Any cause of end is a success here.
 * *ret is initialised by the call; free with sandbox_result_free. The caller ignores SIGPIPE.
 */
int sandbox_exec(
    struct sandbox *sb, const struct sandbox_exec *x, struct sandbox_result *ret, struct err *err);
void sandbox_result_free(struct sandbox_result *r);
/* head, a line that says how much was left out, tail. */
void sandbox_result_text(const struct sandbox_result *r, struct buf *out);
/* "exit 0", "signal 9 (Killed)", "time limit" ...: for people and models. */
char *sandbox_result_words(const struct sandbox_result *r);

/* For the two that share the encoding with the launcher. */
void sandbox_spec_encode(const struct sandbox_spec *spec, struct buf *out);
void sandbox_exec_encode(const struct sandbox_exec *x, const char *const *env, struct buf *out);
const char *sandbox_interpreter(const char *language, const char **ret_ext);

#endif
