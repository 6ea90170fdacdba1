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
#define SANDBOX_LABELS_MAX 32
#define SANDBOX_NAME_MAX 40
#define SANDBOX_EXEC_FDS_MAX 4
#define SANDBOX_PROCS_MAX 256		  /* execs alive at once */
#define SANDBOX_LOG_MAX ((size_t)1 << 20) /* kept of the output of a spawned program */
#define SANDBOX_FIRST_FD 10
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
	uint32_t workspace_mib; /* private or overlaid /work, and /tmp */
	uint32_t open_files;	/* descriptors of one process */
	uint32_t linger_s;	/* a named sandbox lives on so long without any caller */
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

/* Layers of the wall. A sandbox has all of them, or it does not start; except those that its
 * spec lets it lack, if the kernel does not have them: then the level names what is not there. */
enum sandbox_layer {
	SANDBOX_LAYER_LIMITS = 1,   /* cgroups: memory, processes, processor time */
	SANDBOX_LAYER_LANDLOCK = 2, /* file rights behind the mounts */
	SANDBOX_LAYER_FREEZER = 4,  /* pause */
	SANDBOX_LAYER_NOTIFY = 8,   /* names of refused system calls */
};

/* All borrowed during sandbox_create. */
struct sandbox_spec {
	struct sandbox_limits limits;
	const char *backend; /* native, crun, runc, runsc; NULL: native */
	const char *name;    /* for others to attach to: [a-z0-9][a-z0-9-]{0,39}; NULL: it ends with
				its caller */
	const char *const *labels; /* "key=value" of the caller's, shown by list; NULL-terminated or
				      NULL */
	const char *image;	   /* a root file system, read only; NULL: the host's programs */
	const char *workspace; /* directory that becomes /work; NULL: private, gone at the end */
	bool
	    tied; /* a named one: it ends with the connection that made it, whoever else is there */
	bool
	    home; /* /home/user is a link to /work, as programs written for other services expect */
	bool overlay; /* of the workspace only a copy is changed, which is gone at the end */
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
	unsigned may_lack;	/* of enum sandbox_layer */
};

struct sandbox_limits sandbox_limits_default(void);
/* ERR_INVALID / ERR_TOO_LARGE naming field, value and limit. sandbox_create calls it. */
int sandbox_spec_check(const struct sandbox_spec *spec, struct err *err);

struct sandbox;
/*
 * Builds the sandbox in a supervisor of its own (cofferdam-sandbox). ERR_UNAVAILABLE names the
 * layer that is missing and what to do: there is no weaker fallback. On success every target has
 * a listening socket inside. ERR_EXISTS: the name is taken.
 */
int sandbox_create(const struct sandbox_spec *spec, struct sandbox **ret, struct err *err);
/* The same in a thread of this process, and so faster: for one command from the command line. */
int sandbox_create_here(const struct sandbox_spec *spec, struct sandbox **ret, struct err *err);
/*
 * And without that thread at first: until something else than sandbox_exec, sandbox_streams_run,
 * sandbox_level and sandbox_destroy is called, the sandbox's time is kept inside of these alone.
 */
int sandbox_create_once(const struct sandbox_spec *spec, struct sandbox **ret, struct err *err);
/*
 * The same, or one that was built ahead: who used sandbox_create_spare with the same spec before,
 * from the same place and with the same rights and limits, had it begun, and so it is here, for up
 * to `seconds` (1 to 3600) unused; at most four of a user. Each is used once. It is never waited
 * for, and when it is let go, sandbox_destroy does not wait until nothing is left of it. Native, no
 * name, no targets.
 */
int sandbox_create_spare(
    const struct sandbox_spec *spec, uint32_t seconds, struct sandbox **ret, struct err *err);
/* A named sandbox of this user. ERR_NOT_FOUND: there is none (any more). */
int sandbox_attach(const char *name, struct sandbox **ret, struct err *err);
/* Ends every process inside and waits until nothing is left. NULL is fine. */
void sandbox_destroy(struct sandbox *sb);
DEFINE_AUTO(sandbox, struct sandbox, sandbox_destroy)
/* Lets go of a named sandbox: it lives on for its limit linger_s. Else as sandbox_destroy. */
void sandbox_detach(struct sandbox *sb);
/*
 * All named sandboxes of this user as a JSON array of what sandbox_inspect gives; names of dead
 * ones are cleared away. *ret is appended to.
 */
int sandbox_list(struct buf *ret, struct err *err);

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
	SANDBOX_KILLED,	     /* the caller's watch said so, or an order to kill */
	SANDBOX_UNAVAILABLE, /* the sandbox itself went away */
	SANDBOX_DISK,	/* it failed, and /work or /tmp is full; value: exit status or signal */
	SANDBOX_POLICY, /* ended by the system call filter; value as seen */
};
const char *sandbox_cause_name(enum sandbox_cause c);

/* Bytes as they come; stream is 1 or 2 (always 1 when merged). */
typedef void sandbox_output_fn(void *arg, int stream, struct str bytes);
/* Called once the program runs, with its number. */
typedef void sandbox_started_fn(void *arg, uint32_t proc);
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
	uint32_t timeout_s; /* 0: only the sandbox's own wall limit */
	bool merge;	    /* stdout and stderr in one stream, in order */
	bool tied;	    /* it ends when this caller goes, however that ends */
	bool background;    /* leave what the program started running after it has exited */
	bool tty;	    /* a terminal inside, of rows and cols; all in one stream */
	uint16_t rows, cols;
	const char *const
	    *env;	/* "NAME=value" in addition to the spec's; NULL-terminated or NULL */
	bool helper;	/* argv[0] names a part of cofferdam-inside, run by descriptor; argv are its
			   arguments */
	const int *fds; /* become 10, 11 ... inside; borrowed */
	size_t nfds;	/* at most SANDBOX_EXEC_FDS_MAX */
	int *terminal;	/* NULL, or gets the terminal's descriptor while it runs, to set its size */
	sandbox_started_fn *started; /* NULL: not wanted; its arg is output_arg */
	sandbox_output_fn *output;   /* NULL: not wanted */
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
	uint64_t user_us, system_us, peak_kib; /* of the program and what it waited for */
	char *refused; /* JSON array of refused system calls: [{"call","program","count"}]; NULL:
			  none known */
	struct buf head, tail;
};

/*
 * Runs one program to its end; one at a time for each struct sandbox; spawned ones and contexts may
 * be there at the same time. ERR_NOT_FOUND when there is no such program or
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

/*
 * --- programs that go on by themselves (sandbox_proc.c). The supervisor keeps their output, the
 * last SANDBOX_LOG_MAX bytes, so they outlive their caller. All calls: ERR_UNAVAILABLE, the sandbox
 * is gone; ERR_NOT_FOUND, no such process (ids are not used again; the last 64 that ended are
 * known).
 */
/* output, watch, head and tail are not looked at. */
int sandbox_spawn(
    struct sandbox *sb, const struct sandbox_exec *x, uint32_t *ret_proc, struct err *err);
/* JSON array: {"proc","argv","state":"running|ended","cause","value","started_ms","output"}. */
int sandbox_proc_list(struct sandbox *sb, struct buf *ret, struct err *err);
struct sandbox_logs {
	uint64_t first, next; /* offsets of what was returned; first > asked: older was dropped */
	bool running;
};
/* Appends to *ret what stands at and behind `from`; waits up to wait_ms for one byte or the end. */
int sandbox_proc_logs(struct sandbox *sb, uint32_t proc, uint64_t from, uint32_t wait_ms,
    struct buf *ret, struct sandbox_logs *ret_at, struct err *err);
int sandbox_proc_signal(struct sandbox *sb, uint32_t proc, int signal, struct err *err);
/* Ends it and all that came from it. */
int sandbox_proc_kill(struct sandbox *sb, uint32_t proc, struct err *err);
/* To its standard input (spawned with pipe_stdin or tty); close: end of file behind it.
 * ERR_TIMEOUT: it does not read. */
int sandbox_proc_input(
    struct sandbox *sb, uint32_t proc, struct str bytes, bool close, struct err *err);
int sandbox_proc_resize(
    struct sandbox *sb, uint32_t proc, uint16_t rows, uint16_t cols, struct err *err);
/* ERR_TIMEOUT if it has not ended by then. The output is not in *ret: see sandbox_proc_logs. */
int sandbox_proc_wait(struct sandbox *sb, uint32_t proc, uint32_t timeout_ms,
    struct sandbox_result *ret, struct err *err);

/* --- the sandbox as a whole (sandbox_control.c) ------------------------------------------------
 */
/* Nothing inside runs until resume; deadlines of programs and of the sandbox wait, for a day at
 * most. ERR_UNAVAILABLE: no freezer here. */
int sandbox_pause(struct sandbox *sb, struct err *err);
int sandbox_resume(struct sandbox *sb, struct err *err);
/* The sandbox ends in `seconds` from now, whatever was said before. 1 to 86400. */
int sandbox_extend(struct sandbox *sb, uint32_t seconds, struct err *err);
/* Level, limits, labels, usage now, programs, counts of refused system calls: one JSON object. */
int sandbox_inspect(struct sandbox *sb, struct buf *ret, struct err *err);
/*
 * Targets that appear and go while it runs. ret_fds[i] is the listener of add[i]; the caller
 * closes. A removed one refuses from now on, and accept on its listener fails, in whoever holds it.
 * All or nothing. ERR_NOT_FOUND: a removed one is not there; ERR_EXISTS: an added one is.
 */
int sandbox_network(struct sandbox *sb, const struct sandbox_target *add, size_t nadd,
    const struct sandbox_target *drop, size_t ndrop, int *ret_fds, struct err *err);

/* --- ready-made sandboxes, each used once (sandbox_pool.c) ---------------------------------------
 */
struct sandbox_pool;
/* Keeps `ready` sandboxes of this spec (1 to 64) built ahead; the spec is copied. Unnamed only. */
int sandbox_pool_open(
    const struct sandbox_spec *spec, size_t ready, struct sandbox_pool **ret, struct err *err);
/*
 * A fresh one, at once if one is ready, else built now. Another is begun for it when sandbox_exec
 * has waited 5 ms for a program in it, or it is destroyed; at once only if none is left.
 */
int sandbox_pool_take(struct sandbox_pool *p, struct sandbox **ret, struct err *err);
void sandbox_pool_close(struct sandbox_pool *p);
DEFINE_AUTO(sandbox_pool, struct sandbox_pool, sandbox_pool_close)

/*
 * --- files (sandbox_file.c): done inside by cofferdam-inside with the rights of the code inside,
 * so no link or race there can reach the host. Paths are absolute inside or relative to /work. All
 * that comes back was written by code that nobody trusts.
 */
typedef int sandbox_file_sink_fn(void *arg, struct str bytes); /* not 0: stop */
/* ERR_TOO_LARGE over max bytes, ERR_NOT_FOUND, ERR_INVALID (not a regular file). */
int sandbox_file_read(struct sandbox *sb, const char *path, uint64_t max,
    sandbox_file_sink_fn *sink, void *arg, struct err *err);
/* From src_fd to its end, at most max bytes; appears whole or not at all. Parents are made. mode 0:
 * 0644. */
int sandbox_file_write(
    struct sandbox *sb, const char *path, int src_fd, uint64_t max, unsigned mode, struct err *err);
/*
 * JSON array of {"name","path","type":"file|dir|link|other","size","mode","mtime_ms","target"};
 * depth 1: the directory alone, at most 128; at most 10000 entries, then ERR_TOO_LARGE. A path that
 * is no UTF-8 has its bytes in hex as "bytes". Links are not followed, here and in stat.
 */
int sandbox_file_list(
    struct sandbox *sb, const char *path, unsigned depth, struct buf *ret, struct err *err);
int sandbox_file_stat(struct sandbox *sb, const char *path, struct buf *ret, struct err *err);
int sandbox_file_mkdir(struct sandbox *sb, const char *path, struct err *err);
int sandbox_file_rename(struct sandbox *sb, const char *from, const char *to, struct err *err);
int sandbox_file_remove(struct sandbox *sb, const char *path, bool tree, struct err *err);
/*
 * One call for each change below path, as a JSON object {"op":"create|write|remove|rename|chmod|
 * overflow","path","to"}, "to" of a rename alone; until it returns false or stop_fd (-1: none) is
 * readable. overflow: changes were lost, or there are too many directories to watch below path.
 */
typedef bool sandbox_change_fn(void *arg, struct str json);
int sandbox_file_watch(struct sandbox *sb, const char *path, bool tree, int stop_fd,
    sandbox_change_fn *change, void *arg, struct err *err);
/* The same; `ready` is called when nothing is missed from then on. */
int sandbox_file_watch_ready(struct sandbox *sb, const char *path, bool tree, int stop_fd,
    void (*ready)(void *arg), sandbox_change_fn *change, void *arg, struct err *err);

/* --- snapshot of /work (sandbox_snapshot.c): a tar, made and unpacked inside
 * ------------------------ */
/* Other programs are stopped meanwhile. At most max bytes. */
int sandbox_snapshot(struct sandbox *sb, int dst_fd, uint64_t max, struct err *err);
/*
 * /work becomes what the snapshot holds, whole or not at all: it is unpacked beside what is there,
 * so there must be room for both, and takes its place when all of it was right. ERR_INVALID: not a
 * snapshot, or one that is cut or damaged. ERR_DISK_FULL: no room. On these nothing was changed.
 */
int sandbox_restore(struct sandbox *sb, int src_fd, struct err *err);

/* --- stateful contexts (sandbox_context.c): one interpreter that keeps its variables
 * ---------------- */
struct sandbox_context;
/* language: python, bash, javascript. ERR_NOT_FOUND: no such interpreter inside. ERR_TIMEOUT: it
 * has not begun in timeout_ms (0, or over 30 s: 30 s), and was ended. */
int sandbox_context_open(struct sandbox *sb, const char *language, const char *cwd,
    uint32_t timeout_ms, struct sandbox_context **ret, struct err *err);
/* Of a program with these first and last arguments: the language, if it is a context's interpreter;
 * else NULL. For lists that people read: code inside may look like one. */
const char *sandbox_context_language(const char *program, const char *last);
enum sandbox_cell_end {
	SANDBOX_CELL_OK = 0,
	SANDBOX_CELL_ERROR,	  /* an exception or a status: an answer, not a failure */
	SANDBOX_CELL_INTERRUPTED, /* time or watch: interrupted, variables are still there */
	SANDBOX_CELL_LOST, /* the interpreter ended (exit, killed, memory): a new one is begun */
};
struct sandbox_cell {
	struct str code;
	uint32_t timeout_ms; /* 0: none; then interrupt, 2 s later the end of the interpreter; also
				of the start of one, which has 30 s at most */
	sandbox_output_fn *output; /* stream 1, 2; NULL: not wanted */
	/* A result or display: JSON object of MIME type to text (binary types in base64). At most
	 * 1000 and 64 MiB of a cell. */
	void (*display)(void *arg, bool result, struct str json);
	void *arg;
	const int *watch_fd;
	sandbox_watch_fn *watch;
	void *watch_arg;
	size_t head, tail;
};
struct sandbox_cell_result {
	enum sandbox_cell_end end;
	enum sandbox_cause cause; /* of LOST and INTERRUPTED */
	int value;
	char *error_name, *error_value, *traceback; /* of ERROR; of LOST "lost" and why, in words */
	struct sandbox_result out;		    /* output as head and tail; total; duration */
};
int sandbox_context_run(struct sandbox_context *c, const struct sandbox_cell *cell,
    struct sandbox_cell_result *ret, struct err *err);
void sandbox_cell_free(struct sandbox_cell_result *r);
/* A fresh interpreter: all variables are gone. */
int sandbox_context_restart(struct sandbox_context *c, struct err *err);
void sandbox_context_close(struct sandbox_context *c);
DEFINE_AUTO(sandbox_context, struct sandbox_context, sandbox_context_close)

/* For the two that share the encoding with the supervisor. */
void sandbox_spec_encode(const struct sandbox_spec *spec, struct buf *out);
void sandbox_exec_encode(const struct sandbox_exec *x, const char *const *env, struct buf *out);
const char *sandbox_interpreter(const char *language, const char **ret_ext);

#endif
