/*
 * Which system calls code in a sandbox may make. Built in the launcher, loaded by the child
 * before it executes pid 1, so that nothing inside ever ran without it. Two filters, because
 * the kernel takes the stricter of their answers: the first lists what exists (all else is
 * ENOSYS, known dangers EPERM, other machine words kill), the second looks at arguments.
 * Arguments the kernel reads as 32 bits are compared as 32 bits (CVE-2019-10063).
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* Names that the library or the machine does not know are passed over. */
static const char allowed[] =
    "accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown "
    "clock_getres clock_gettime clock_nanosleep clone close close_range connect copy_file_range "
    "creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait "
    "epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat "
    "faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl fdatasync "
    "fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex "
    "futex_waitv futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents "
    "getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid "
    "getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname "
    "getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init "
    "inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup "
    "io_submit ioctl ioprio_get kill landlock_add_rule landlock_create_ruleset "
    "landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr "
    "lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create mincore mkdir mkdirat "
    "mknod mknodat mlock mlock2 mlockall mmap mprotect mremap msgctl msgget msgrcv msgsnd msync "
    "munlock munlockall munmap nanosleep newfstatat open openat pause pidfd_open "
    "pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 "
    "preadv preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead readlink "
    "readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat renameat2 "
    "restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo "
    "rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max "
    "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
    "sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler sched_yield "
    "seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto "
    "set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups "
    "setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid "
    "setsockopt setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd "
    "signalfd4 socket socketpair splice stat statfs statx symlink symlinkat sync "
    "sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete "
    "timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime "
    "timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes "
    "vfork vmsplice wait4 waitid write writev";

/*
 * Known, and never: EPERM, so that a program sees a refusal and not an old kernel. (clone3
 * is not here: ENOSYS makes every C library fall back to clone, whose flags can be read.)
 */
static const char refused[] =
    "acct add_key adjtimex afs_syscall bpf chroot clock_adjtime clock_settime create_module "
    "delete_module fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick "
    "get_kernel_syms init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl "
    "ioprio_set kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind memfd_secret "
    "migrate_pages modify_ldt mount mount_setattr move_mount move_pages mq_getsetattr mq_notify "
    "mq_open mq_timedreceive mq_timedsend mq_unlink name_to_handle_at nfsservctl "
    "open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root "
    "process_madvise process_mrelease process_vm_readv process_vm_writev ptrace query_module "
    "quotactl quotactl_fd reboot remap_file_pages request_key sched_setattr set_mempolicy "
    "set_mempolicy_home_node setdomainname sethostname setns settimeofday swapoff swapon sysfs "
    "syslog umount2 unshare uselib userfaultfd ustat vhangup vserver";

#define LOW32 0xffffffffu

/* The answer is `error` when the argument matches; for MASKED_EQ a is the mask, b the value. */
static const struct arg_rule {
	const char *name;
	unsigned arg;
	enum scmp_compare op;
	scmp_datum_t a, b;
	int error;
} arg_rules[] = {
    /* terminal input and console */
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, TIOCSTI, EPERM},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, TIOCLINUX, EPERM},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, TIOCCONS, EPERM},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, TIOCSETD, EPERM},
    /* file flags (immutable and so on) and name space questions */
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, 0x40086602 /* FS_IOC_SETFLAGS */, EPERM},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, LOW32, 0x401c5820 /* FS_IOC_FSSETXATTR */, EPERM},
    {"ioctl", 1, SCMP_CMP_MASKED_EQ, 0xff00, 0xb700 /* nsfs */, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWNS, CLONE_NEWNS, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWCGROUP, CLONE_NEWCGROUP, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWUTS, CLONE_NEWUTS, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWIPC, CLONE_NEWIPC, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWPID, CLONE_NEWPID, EPERM},
    {"clone", 0, SCMP_CMP_MASKED_EQ, CLONE_NEWNET, CLONE_NEWNET, EPERM},
    /* only AF_UNIX 1, AF_INET 2, AF_INET6 10; no raw sockets; compared whole, so no high bits */
    {"socket", 0, SCMP_CMP_LT, 1, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_GT, 10, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 3, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 4, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 5, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 6, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 7, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 8, 0, EAFNOSUPPORT},
    {"socket", 0, SCMP_CMP_EQ, 9, 0, EAFNOSUPPORT},
    {"socket", 1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW, EPERM},
    {"socket", 1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_PACKET, EPERM},
    {"socketpair", 0, SCMP_CMP_NE, AF_UNIX, 0, EAFNOSUPPORT},
    {"prctl", 0, SCMP_CMP_MASKED_EQ, LOW32, PR_SET_MM, EPERM},
    {"prctl", 0, SCMP_CMP_MASKED_EQ, LOW32, PR_SET_PTRACER, EPERM},
    {"prctl", 0, SCMP_CMP_MASKED_EQ, LOW32, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, EPERM},
    {"seccomp", 1, SCMP_CMP_MASKED_EQ, 8 /* NEW_LISTENER */, 8, EPERM},
    /* a setuid file in the workspace would have force on the host: nosuid holds only inside */
    {"chmod", 1, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"chmod", 1, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"fchmod", 1, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"fchmod", 1, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"fchmodat", 2, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"fchmodat", 2, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"creat", 1, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"creat", 1, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"mkdir", 1, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"mkdirat", 2, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"mknod", 1, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"mknod", 1, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"mknod", 1, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR, EPERM},
    {"mknod", 1, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK, EPERM},
    {"mknodat", 2, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID, EPERM},
    {"mknodat", 2, SCMP_CMP_MASKED_EQ, S_ISGID, S_ISGID, EPERM},
    {"mknodat", 2, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR, EPERM},
    {"mknodat", 2, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK, EPERM},
};

/* open and openat read their mode only when they create: O_CREAT, or O_TMPFILE's own bit. */
static const struct {
	const char *name;
	unsigned flags, mode;
} open_rules[] = {{"open", 1, 2}, {"openat", 2, 3}};
static const scmp_datum_t open_creates[] = {0100 /* O_CREAT */, 020000000 /* __O_TMPFILE */};

DEFINE_AUTO(filter, void, seccomp_release)

static int
words_add(scmp_filter_ctx ctx, uint32_t action, const char *words, unsigned *count)
{
	struct str rest = str_z(words), word;

	while (rest.n != 0) {
		AUTO_FREE char *name = NULL;
		int nr;

		if (!str_cut(&rest, ' ', &word)) {
			word = rest;
			rest.n = 0;
		}
		name = str_dup(word);
		nr = seccomp_syscall_resolve_name(name);
		if (nr < 0)
			continue;
		if (seccomp_rule_add(ctx, action, nr, 0) != 0)
			return -EINVAL;
		(*count)++;
	}
	return 0;
}

/* Asking (0xffffffff) and the plain Linux personality (0) change nothing; all else would. */
static int
personality_add(scmp_filter_ctx ctx)
{
	int nr = seccomp_syscall_resolve_name("personality");

	if (nr < 0)
		return 0;
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1, SCMP_CMP64(0, SCMP_CMP_EQ, 0, 0)) !=
		   0 ||
	       seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1, SCMP_CMP64(0, SCMP_CMP_EQ, LOW32, 0)) !=
		   0;
}

/* The library has no way to a program but a descriptor. */
static int
program_take(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
	AUTO_FD int fd = memfd_create("filter", MFD_CLOEXEC);
	off_t size;

	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (fd < 0 || seccomp_export_bpf(ctx, fd) != 0)
		return -EINVAL;
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || (size_t)size > BPF_MAXINSNS * sizeof(struct sock_filter))
		return -E2BIG;
	ret->len = (unsigned short)((size_t)size / sizeof(struct sock_filter));
	ret->filter = xmalloc((size_t)size);
	return pread(fd, ret->filter, (size_t)size, 0) == (ssize_t)size ? 0 : -EIO;
}

static int
arguments_add(scmp_filter_ctx ctx)
{
	for (size_t i = 0; i < ARRAY_LEN(arg_rules); i++) {
		const struct arg_rule *r = &arg_rules[i];
		int nr = seccomp_syscall_resolve_name(r->name);

		if (nr >= 0 && seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)r->error), nr, 1,
				   SCMP_CMP64(r->arg, r->op, r->a, r->b)) != 0)
			return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_LEN(open_rules) * ARRAY_LEN(open_creates) * 2; i++) {
		scmp_datum_t bit = i % 2 == 0 ? S_ISUID : S_ISGID, create = open_creates[i / 2 % 2];
		unsigned k = (unsigned)i / 4;
		int nr = seccomp_syscall_resolve_name(open_rules[k].name);

		if (nr >= 0 &&
		    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), nr, 2,
			SCMP_CMP64(open_rules[k].flags, SCMP_CMP_MASKED_EQ, create, create),
			SCMP_CMP64(open_rules[k].mode, SCMP_CMP_MASKED_EQ, bit, bit)) != 0)
			return -EINVAL;
	}
	return 0;
}

int
native_filter_build(struct native_filter *f, struct err *err)
{
	AUTO(filter) void *list = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	AUTO(filter) void *args = seccomp_init(SCMP_ACT_ALLOW);
	unsigned ignored = 0;

	*f = (struct native_filter){0};
	if (list == NULL || args == NULL ||
	    seccomp_attr_set(list, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0 ||
	    seccomp_attr_set(args, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0 ||
	    words_add(list, SCMP_ACT_ALLOW, allowed, &f->allowed) != 0 ||
	    words_add(list, SCMP_ACT_ERRNO(EPERM), refused, &ignored) != 0 ||
	    personality_add(list) != 0 || arguments_add(args) != 0 ||
	    program_take(list, &f->prog[0]) != 0 || program_take(args, &f->prog[1]) != 0)
		return native_missing(
		    err, errno, "the system call filter", "libseccomp does not know this machine");
	return 0;
}

void
native_filter_encode(const struct native_filter *f, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(f->prog); i++)
		buf_lstr(
		    out, str_mem(f->prog[i].filter, f->prog[i].len * sizeof(*f->prog[i].filter)));
}

int
native_filter_decode(struct str body, struct native_filter *f, struct err *err)
{
	struct rd r = rd_init(body);

	for (size_t i = 0; i < ARRAY_LEN(f->prog); i++) {
		struct str s = rd_lstr(&r);
		size_t n = s.n / sizeof(*f->prog[i].filter);

		if (n == 0 || n > BPF_MAXINSNS || s.n % sizeof(*f->prog[i].filter) != 0)
			return err_set(err, ERR_PROTOCOL, "sandbox: malformed filter");
		f->prog[i].len = (unsigned short)n;
		f->prog[i].filter = xmalloc(s.n);
		memcpy(f->prog[i].filter, s.p, s.n);
	}
	return rd_end(&r) ? 0 : err_set(err, ERR_PROTOCOL, "sandbox: malformed filter");
}

int
native_filter_load(const struct native_filter *f, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(f->prog); i++)
		if (syscall(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, &f->prog[i]) != 0)
			return native_missing(err, errno, "the system call filter",
			    "the kernel needs CONFIG_SECCOMP_FILTER");
	return 0;
}
