/*
 * The surface of the kernel (K1 to K14) and the terminal (T1 to T5). Calls are made with bad
 * pointers: EPERM and ENOSYS are the filter's, EFAULT, EBADF and EINVAL come from kernel code that
 * was reached.
 */
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/walls/walls.h"

CALL("K1-uring-setup", k1_setup, "io_uring can not be set up", SYS_io_uring_setup, 1, BAD)
CALL("K1-uring-enter", k1_enter, "nor entered", SYS_io_uring_enter, -1, 0, 0, 0, 0, 0)
CALL("K1-uring-register", k1_register, "nor registered with", SYS_io_uring_register, -1, 0, 0, 0)
CALL("K2-bpf", k2_bpf, "no program can be loaded into the kernel", SYS_bpf, 0, BAD, 8)
CALL("K2-bpf-prog", k2_prog, "nor a socket filter of the new kind", SYS_bpf, 5, BAD, 128)
CALL("K3-perf", k3_perf, "no performance counter can be opened", SYS_perf_event_open, BAD, 0, -1,
    -1, 0)
CALL("K4-userfaultfd", k4_uffd, "page faults can not be served by the program", SYS_userfaultfd,
    0x8000000)
CALL("K4-userfaultfd-user", k4_uffd_user, "not even its own", SYS_userfaultfd, 1)
CALL("K5-keyctl-join", k5_join, "no session keyring can be joined", SYS_keyctl, 1, BAD, 0, 0, 0)
CALL("K5-keyctl-read", k5_read, "no key can be read", SYS_keyctl, 11, -5, BAD, 1, 0)
CALL("K5-keyctl-persistent", k5_pers, "no persistent keyring can be had", SYS_keyctl, 22, -1, -3, 0,
    0)
CALL("K6-open-by-handle", k6_open, "no file can be opened by a handle", SYS_open_by_handle_at, -1,
    BAD, 0)
CALL("K6-name-to-handle", k6_name, "nor a handle be had", SYS_name_to_handle_at, -100, BAD, BAD,
    BAD, 0)
CALL("K7-kexec", k7_kexec, "no other kernel can be loaded", SYS_kexec_load, 0, 0, BAD, 0)
CALL("K7-kexec-file", k7_kexecf, "nor from a file", SYS_kexec_file_load, -1, -1, 0, BAD, 0)
CALL("K7-init-module", k7_init, "no module can be loaded", SYS_init_module, BAD, 0, BAD)
CALL("K7-finit-module", k7_finit, "nor from a descriptor", SYS_finit_module, -1, BAD, 0)
CALL("K7-delete-module", k7_delete, "nor be removed", SYS_delete_module, BAD, 0)
CALL("K8-reboot", k8_reboot, "reboot is refused", SYS_reboot, 0, 0, 0, 0)
CALL("K8-swapon", k8_swapon, "swapon is refused", SYS_swapon, BAD, 0)
CALL("K8-swapoff", k8_swapoff, "swapoff is refused", SYS_swapoff, BAD)
CALL("K8-accounting", k8_acct, "acct is refused", SYS_acct, BAD)
CALL("K8-quota", k8_quota, "quotactl is refused", SYS_quotactl, -1, BAD, 0, BAD)
CALL("K8-clock-set", k8_settime, "the clock can not be set", SYS_clock_settime, 0, BAD)
CALL("K8-time-set", k8_settod, "nor the time of day", SYS_settimeofday, BAD, 0)
CALL("K8-clock-adjust", k8_adjtimex, "nor can it be adjusted", SYS_adjtimex, BAD)
CALL("K8-clock-adjust-any", k8_clkadj, "nor any other clock", SYS_clock_adjtime, 0, BAD)
CALL("K8-kernel-log", k8_syslog, "the kernel's messages can not be read", SYS_syslog, 3, BAD, 1)
CALL("K8-hang-up", k8_vhangup, "vhangup is refused", SYS_vhangup)
CALL("K8-fanotify", k8_fan, "fanotify is refused", SYS_fanotify_init, 0, 0)
CALL("K8-dcookie", k8_dcookie, "lookup_dcookie is refused", 212, 0, BAD, 0)
CALL("K8-bind-memory", k8_mbind, "mbind is refused", SYS_mbind, BAD, 0, 0, BAD, 0, 0)
CALL("K8-move-pages", k8_mpages, "move_pages is refused", SYS_move_pages, 1, 1, BAD, BAD, BAD, 0)
CALL("K8-migrate-pages", k8_migrate, "migrate_pages is refused", SYS_migrate_pages, 1, 1, BAD, BAD)
CALL("K8-filter-listener", k8_listener, "a filter with a listener is refused", SYS_seccomp, 1, 8,
    BAD)
CALL("K8-secret-memory", k8_secret, "memfd_secret is refused", SYS_memfd_secret, 0x1000)
CALL("K8-remap-pages", k8_remap, "remap_file_pages is refused", SYS_remap_file_pages, 0, 0, 0, 0, 0)
CALL("K8-nfs", k8_nfs, "nfsservctl is refused", 180, 0, BAD, BAD)
CALL("K8-async-io", k8_aio,
    "the host's one store of asynchronous requests is not there to be used up", SYS_io_setup, 1,
    BAD)
CALL("K10-memory-map", k10_mm, "the kernel's idea of its memory can not be changed", SYS_prctl,
    PR_SET_MM, 1, 0, 0, 0)
CALL("K10-dispatch", k10_dispatch, "system calls can not be dispatched to itself", SYS_prctl, 59, 1,
    0, 0, BAD)
CALL("K10-tracer", k10_tracer, "no tracer can be named", SYS_prctl, PR_SET_PTRACER, -1, 0, 0, 0)
CALL("K12-openat2", k12_openat2, "a call with flags behind a pointer is absent", SYS_openat2, -100,
    BAD, BAD, 24)
CALL("K13-ioctl", k13_ioctl, "garbage above the command of ioctl changes nothing", SYS_ioctl, 0,
    0x100000000ul | TIOCSTI, "x")
CALL("K13-prctl", k13_prctl, "nor above that of prctl", SYS_prctl, 0x100000000ul | PR_SET_MM, 1, 0,
    0, 0)
CALL("K13-clone", k13_clone, "nor above the flags of clone", SYS_clone,
    0x100000000ul | CLONE_NEWUSER, 0, 0, 0, 0)
CALL("K13-unshare", k13_unshare, "nor above those of unshare", SYS_unshare,
    0x100000000ul | CLONE_NEWNS)

WALL("K8-personality", k8_persona, "seccomp", "no other personality can be taken")
{
	/* 0x40000 is ADDR_NO_RANDOMIZE, 8 is the 32-bit one, 0x200000 gives back the page at 0 */
	return filtered(syscall(SYS_personality, 0x0040000)) ||
	       filtered(syscall(SYS_personality, 8)) ||
	       filtered(syscall(SYS_personality, 0x200000)) ||
	       filtered(syscall(SYS_personality, 0x100040000ul));
}

#ifdef __x86_64__
CALL("K8-iopl", k8_iopl, "no port of the machine can be had", SYS_iopl, 3)
CALL("K8-ioperm", k8_ioperm, "not even one", SYS_ioperm, 0x80, 1, 1)
CALL("K8-ldt", k8_ldt, "no segment can be made", SYS_modify_ldt, 0, BAD, 0)

#define X32(id_, fn_, nr_, what_, ...)                                       \
	WALL(id_, fn_, "seccomp", what_)                                     \
	{                                                                    \
		return filtered(syscall(0x40000000 | (nr_), ##__VA_ARGS__)); \
	}
X32("K13-x32", k13_x32, SYS_getpid, "the numbers of the x32 interface are refused")
X32("K13-x32-socket", k13_x32s, SYS_socket, "also for a socket", 16, 3, 0)
X32("K13-x32-exec", k13_x32e, 520, "also for execve", BAD, BAD, BAD)
X32("K13-x32-ptrace", k13_x32p, 521, "also for ptrace", 0, 0, 0, 0)

/* No signal of a machine that does not know the gate counts as the filter's. */
static void
no_gate(int sig)
{
	(void)sig;
	_exit(SKIPPED);
}

static int
gate(long nr, long a)
{
	long rc;

	(void)signal(SIGSEGV, no_gate);
	__asm__ volatile("int $0x80"
			 : "=a"(rc)
			 : "a"(nr), "b"(a)
			 : "memory", "r8", "r9", "r10", "r11");
	detail("int 0x80: %ld", rc);
	return rc != -EPERM && rc != -ENOSYS;
}

WALL("K13-int80", k13_int80, "seccomp", "the 32-bit gate is shut")
{
	return gate(20 /* getpid */, 0);
}

WALL("K13-int80-socket", k13_int80s, "seccomp", "also for socketcall")
{
	return gate(102, 1);
}

/* A whole 32-bit program: _exit(42) by int 0x80. */
WALL("K13-i386-program", k13_i386, "seccomp", "a 32-bit program does not run")
{
	static const unsigned char elf[] = {0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    2, 0, 3, 0, 1, 0, 0, 0, 0x54, 0x80, 4, 8, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x34,
	    0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0, /* header */
	    1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 4, 8, 0, 0x80, 4, 8, 0x60, 0, 0, 0, 0x60, 0, 0, 0, 5,
	    0, 0, 0, 0, 0x10, 0, 0, 0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80};
	int fd = open("/work/i386", O_WRONLY | O_CREAT, 0755), st = 0;
	pid_t pid;

	(void)!write(fd, elf, sizeof(elf));
	(void)close(fd);
	pid = fork();
	if (pid == 0) {
		(void)execl("/work/i386", "i386", (char *)NULL);
		_exit(errno == ENOEXEC ? SKIPPED : REFUSED);
	}
	(void)waitpid(pid, &st, 0);
	detail("status %#x", (unsigned)st);
	if (WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV)
		return SKIPPED;
	return WIFEXITED(st) ? WEXITSTATUS(st) == 42 ? REACHED : WEXITSTATUS(st) : REFUSED;
}
#endif

/* Neither EAFNOSUPPORT, EPERM nor ENOSYS means that the family's own code was asked. */
static int
family(long f, long type, long protocol)
{
	long rc = syscall(SYS_socket, f, type, protocol);
	int e = errno;

	(void)failed(rc);
	return rc >= 0 || (e != EAFNOSUPPORT && e != EPERM && e != ENOSYS);
}
#define FAMILY(id_, fn_, what_, f_, t_, p_) \
	WALL(id_, fn_, "seccomp", what_)    \
	{                                   \
		return family(f_, t_, p_);  \
	}
FAMILY("K9-netlink-route", k9_route, "no netlink socket", AF_NETLINK, SOCK_RAW, 0)
FAMILY("K9-netlink-netfilter", k9_nf, "also not to netfilter", AF_NETLINK, SOCK_RAW, 12)
FAMILY("K9-netlink-audit", k9_audit, "also not to audit", AF_NETLINK, SOCK_RAW, 9)
FAMILY("K9-netlink-uevent", k9_uevent, "also not to device events", AF_NETLINK, SOCK_DGRAM, 15)
FAMILY("K9-packet", k9_packet, "no packet socket", AF_PACKET, SOCK_DGRAM, 0)
FAMILY("K9-vsock", k9_vsock, "no socket to the machine's host", 40, SOCK_STREAM, 0)
FAMILY("K9-crypto", k9_alg, "no socket to the kernel's ciphers", 38, SOCK_SEQPACKET, 0)
FAMILY("K9-xdp", k9_xdp, "no XDP socket", 44, SOCK_RAW, 0)
FAMILY("K9-rds", k9_rds, "no RDS socket", 21, SOCK_SEQPACKET, 0)
FAMILY("K9-bluetooth", k9_bt, "no bluetooth socket", 31, SOCK_RAW, 0)
FAMILY("K9-tipc", k9_tipc, "no TIPC socket", 30, SOCK_STREAM, 0)
FAMILY("K9-kcm", k9_kcm, "no KCM socket", 41, SOCK_DGRAM, 0)
FAMILY("K9-smc", k9_smc, "no SMC socket", 43, SOCK_STREAM, 0)
FAMILY("K9-can", k9_can, "no CAN socket", 29, SOCK_RAW, 1)
FAMILY("K9-mctp", k9_mctp, "no MCTP socket", 45, SOCK_DGRAM, 0)
FAMILY("K9-raw", k9_raw, "no raw socket", AF_INET, SOCK_RAW, 1)
FAMILY("K9-raw6", k9_raw6, "also not of IPv6", AF_INET6, SOCK_RAW, 58)
FAMILY("K13-family", k13_family, "garbage above the family changes nothing",
    0x100000000l | AF_NETLINK, SOCK_RAW, 0)
FAMILY("K13-type", k13_type, "nor above the type", AF_INET, 0x100000000l | SOCK_RAW, 1)
FAMILY("K13-type-flags", k13_tflags, "nor do the flags of the type", AF_INET,
    SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 1)

WALL("K9-all-families", k9_all, "seccomp", "no family at all but unix and the two of the internet")
{
	for (int f = 0; f < 64; f++)
		for (int t = 1; t <= 10; t++)
			if (f != AF_UNIX && f != AF_INET && f != AF_INET6 && family(f, t, 0) != 0) {
				detail("family %d type %d", f, t);
				return REACHED;
			}
	return REFUSED;
}

WALL("K9-protocols", k9_protocols, "seccomp",
    "no protocol of the internet but TCP and UDP has a way in")
{
	static const int some[][2] = {{SOCK_SEQPACKET, 132 /* SCTP */}, {SOCK_STREAM, 132},
	    {SOCK_DCCP, 33}, {SOCK_STREAM, 256 /* SMC */}, {SOCK_DGRAM, 115 /* L2TP */},
	    {SOCK_DGRAM, 136 /* UDP-Lite */}};

	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		long rc = syscall(SYS_socket, AF_INET, some[i][0], some[i][1]);

		detail("protocol %d: rc %ld errno %d", some[i][1], rc, errno);
		/* ESOCKTNOSUPPORT comes behind the search for a module */
		if (rc >= 0 || (errno != EPROTONOSUPPORT && errno != EPERM && errno != ENOSYS))
			return REACHED;
	}
	return REFUSED;
}

WALL("K9-socketpair", k9_pair, "seccomp", "nor as a pair")
{
	int p[2];
	long rc = syscall(SYS_socketpair, AF_NETLINK, SOCK_RAW, 0, p);

	return rc >= 0 || (errno != EAFNOSUPPORT && errno != EPERM && errno != ENOSYS);
}

WALL("K11-nice", k11_nice, "caps reset", "the priority can not be raised")
{
	return failed(setpriority(PRIO_PROCESS, 0, -5));
}

WALL("K11-realtime", k11_fifo, "caps reset", "no real-time schedule can be had")
{
	struct {
		int priority;
	} s = {.priority = 10};
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} d = {48, 6 /* SCHED_DEADLINE */, 0, 0, 0, 10000000, 20000000, 20000000};

	return failed(syscall(SYS_sched_setscheduler, 0, 1, &s)) ||
	       failed(syscall(SYS_sched_setattr, 0, &d, 0));
}

WALL("K11-disk-priority", k11_io, "seccomp caps", "nor first place at the disk")
{
	return failed(syscall(SYS_ioprio_set, 1, 0, 1 << 13));
}

WALL("K11-lock-memory", k11_mlock, "reset caps", "no large memory can be locked")
{
	void *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED &&
	       (failed(mlock(p, 64 << 20)) ||
		   failed(mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0) != MAP_FAILED
			      ? 0
			      : -1));
}

WALL("K11-huge-pages", k11_huge, "caps", "no huge page can be had by shared memory")
{
	return failed(syscall(SYS_shmget, 0, 4 << 20, 04000 | 01600)) &&
	       access("/proc/sys/vm/nr_hugepages", W_OK) == 0;
}

WALL("K12-unknown", k12_new, "seccomp", "no system call beyond the known ones is let through")
{
	/* sparse numbers first, then all from the newest on; not 335 and 336, uretprobe and uprobe,
	 * which the kernel lets by every filter and answers with SIGILL */
	static const long some[] = {337, 400, 423, 1000, 4096, 5000, 65536, 0x3fffffff};

	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++)
		if (filtered(syscall(some[i], BAD, BAD, BAD)))
			return REACHED;
	for (long nr = 463; nr < 600; nr++)
		if (filtered(syscall(nr, BAD, BAD, BAD, BAD, BAD, BAD))) {
			detail("number %ld", nr);
			return REACHED;
		}
	return REFUSED;
}

/* One thread changes what the other's call points to while it is judged. */
static char racing[32] = "/proc/1/root";
static volatile bool racing_on = true;

static void *
racer(void *arg)
{
	while (racing_on) {
		(void)memcpy(racing, "/tmp\0", 6);
		(void)memcpy(racing, "/proc/1/root", 13);
	}
	return arg;
}

WALL("K14-argument-race", k14_race, "seccomp",
    "a call is refused whatever a second thread does to its arguments")
{
	pthread_t t;
	int r = REFUSED;

	if (pthread_create(&t, NULL, racer, NULL) != 0)
		return REACHED;
	for (int i = 0; i < 1000 && r == REFUSED; i++)
		r = filtered(syscall(SYS_mount, racing, "/tmp", "none", 0x1000, 0));
	racing_on = false;
	return r;
}

CALL("T1-push-input", t1_sti, "no input can be pushed into a terminal", SYS_ioctl, 0, TIOCSTI, "x")
CALL("T2-push-input-bits", t2_sti, "not with garbage above the command either", SYS_ioctl, 0,
    0xdeadbeef00000000ul | TIOCSTI, "x")
CALL("T3-console", t3_linux, "no selection can be pasted into a console", SYS_ioctl, 0, TIOCLINUX,
    "\3")
CALL("T3-console-bits", t3_linuxb, "not with garbage either", SYS_ioctl, 0,
    0xffffffff00000000ul | TIOCLINUX, "\3")
CALL("T3-console-take", t3_cons, "the console's output can not be taken", SYS_ioctl, 0, TIOCCONS, 0)
CALL("T3-line-discipline", t3_setd, "no line discipline can be chosen", SYS_ioctl, 0, TIOCSETD, BAD)

WALL("T1-push-input-own", t1_own, "seccomp", "not into a terminal of its own either")
{
	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY), zero = 0, s;

	if (m < 0 || ioctl(m, TIOCSPTLCK, &zero) != 0)
		return SKIPPED;
	(void)setsid();
	(void)snprintf(
	    room, sizeof(room), "/dev/pts/%d", ioctl(m, TIOCGPTN, &zero) == 0 ? zero : -1);
	s = open(room, O_RDWR);
	return s < 0 ? SKIPPED : filtered(ioctl(s, TIOCSTI, "x"));
}

WALL("T4-controlling", t4_ctty, "reset", "the caller's terminal can not be made its own")
{
	return failed(ioctl(0, TIOCSCTTY, 1)) || failed(ioctl(1, TIOCSCTTY, 1)) ||
	       failed(ioctl(2, TIOCSCTTY, 1));
}

WALL("T5-dev-tty", t5_tty, "reset", "there is no controlling terminal to open")
{
	return failed(open("/dev/tty", O_RDWR));
}

WALL("T5-other-terminals", t5_pts, "mounts", "no terminal of the host's is there")
{
	for (int i = 0; i < 64; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/dev/pts/%d", i);
		if (failed(open(path, O_RDWR | O_NOCTTY)))
			return REACHED;
	}
	return REFUSED;
}
