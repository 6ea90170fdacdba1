/*
 * The system call filter of our processes: an allow-list, all else kills the process, and
 * the parent says so by name. Runs last of all confinement. The common set holds what the
 * loop, the wires, the clock and malloc need and nothing that opens, connects, starts or
 * maps code; a program names the rest it needs, in one table of its own.
 */
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/banned.h"

/* A test looks for this text in the programs: the shipped ones must not have it. */
#ifdef MODE_SANITIZED
const char proc_seccomp_marker[] = "cofferdam: MODE_SANITIZED build";
#endif

static const char *const common_calls[] = {
    /* wires and files that are open already */
    "read", "write", "readv", "writev", "pread64", "pwrite64", "recvmsg", "sendmsg", "recvfrom",
    "sendto", "close", "dup", "lseek", "fstat", "poll", "ppoll", "shutdown", "getsockopt",
    /* the loop */
    "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "timerfd_create", "timerfd_settime",
    "signalfd4",
    /* memory */
    "munmap", "mremap", "brk", "madvise", "mlock", "munlock",
    /* time, randomness, identity */
    "clock_gettime", "clock_nanosleep", "nanosleep", "gettimeofday", "getrandom", "getpid",
    "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo",
    /* what glibc does by itself */
    "futex", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "restart_syscall", "sched_yield",
    "sched_getaffinity", "rseq", "set_robust_list", "exit", "exit_group"};

/* Allowed only with such an argument. Several rows for one call: any of them. */
struct arg_rule {
	const char *name;
	unsigned arg;
	uint64_t mask, value;
};

#define U32 UINT64_C(0xffffffff)
static const struct arg_rule common_args[] = {
    /* No page is ever made executable. */
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    /* fstat(3) of newer glibc: an empty path, by AT_EMPTY_PATH. */
    {"newfstatat", 3, AT_EMPTY_PATH, AT_EMPTY_PATH},
    /* Reading limits, not setting them. */
    {"prlimit64", 2, UINT64_MAX, 0},
    {"fcntl", 1, U32, F_GETFD},
    {"fcntl", 1, U32, F_SETFD},
    {"fcntl", 1, U32, F_GETFL},
    {"fcntl", 1, U32, F_SETFL},
    {"fcntl", 1, U32, F_DUPFD_CLOEXEC},
    {"fcntl", 1, U32, F_ADD_SEALS},
    {"fcntl", 1, U32, F_GET_SEALS},
};

/* A name that a program lists may stand for less than the whole call. */
static const struct arg_rule named_args[] = {
    {"socket", 0, U32, AF_INET},
    {"socket", 0, U32, AF_INET6},
};

/* The number, or negative when this machine's kernel interface has no such call. */
static int
number(const char *name, int *ret, struct err *err)
{
	int nr = seccomp_syscall_resolve_name(name);

	if (nr == __NR_SCMP_ERROR)
		return err_set(err, ERR_INTERNAL, "no system call is named %s", name);
	*ret = nr;
	return 0;
}

static int
allow(scmp_filter_ctx ctx, const char *name, const struct scmp_arg_cmp *cmp, struct err *err)
{
	int nr = 0, rc = number(name, &nr, err);

	if (rc != 0 || nr < 0)
		return rc;
	rc = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nr, cmp != NULL ? 1 : 0, cmp);
	if (rc != 0 && rc != -EEXIST)
		return err_sys(err, ERR_SYSTEM, -rc, "seccomp rule for %s", name);
	return 0;
}

/* Adds the rows of that name, or all rows when name is NULL; *ret_any tells whether there were
 * some. */
static int
allow_args(scmp_filter_ctx ctx, const struct arg_rule *r, size_t n, const char *name, bool *ret_any,
    struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct scmp_arg_cmp cmp =
		    SCMP_CMP64(r[i].arg, SCMP_CMP_MASKED_EQ, r[i].mask, r[i].value);
		int rc;

		if (name != NULL && strcmp(name, r[i].name) != 0)
			continue;
		*ret_any = true;
		rc = allow(ctx, r[i].name, &cmp, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
fill(scmp_filter_ctx ctx, const char *const *names, struct err *err)
{
	/* abort(3) signals its own thread; nobody else can be signalled. */
	struct scmp_arg_cmp self = SCMP_CMP64(0, SCMP_CMP_EQ, (uint64_t)getpid(), 0);
	bool any = false;
	int rc = allow(ctx, "tgkill", &self, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(common_calls); i++)
		rc = allow(ctx, common_calls[i], NULL, err);
	if (rc == 0)
		rc = allow_args(ctx, common_args, ARRAY_LEN(common_args), NULL, &any, err);
	for (; rc == 0 && names != NULL && *names != NULL; names++) {
		any = false;
		rc = allow_args(ctx, named_args, ARRAY_LEN(named_args), *names, &any, err);
		if (rc == 0 && !any)
			rc = allow(ctx, *names, NULL, err);
	}
	return rc;
}

static int
attributes(scmp_filter_ctx ctx, struct err *err)
{
	int rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (rc == 0)
		rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
	if (rc != 0)
		return err_sys(err, ERR_SYSTEM, -rc, "seccomp");
	return 0;
}

int
proc_seccomp(const char *const *names, struct err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc;

	if (ctx == NULL)
		return err_set(
		    err, ERR_UNSUPPORTED, "seccomp cannot be set up (CONFIG_SECCOMP_FILTER)");
	rc = attributes(ctx, err);
	if (rc == 0)
		rc = fill(ctx, names, err);
#ifndef MODE_SANITIZED
	if (rc == 0) {
		rc = seccomp_load(ctx);
		if (rc != 0)
			rc = err_sys(
			    err, ERR_UNSUPPORTED, -rc, "seccomp filter (CONFIG_SECCOMP_FILTER)");
	}
#endif
	seccomp_release(ctx);
	return rc;
}
