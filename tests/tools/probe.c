/*
 * (Longer than 500 lines: one flat table of attempts is what a reader wants here.)
 * Attack probe: runs inside a sandbox under test, tries what must not work and prints one
 * line for each ("refused NAME" or "REACHED NAME detail"), then what must work ("works NAME"
 * or "BROKEN NAME"). Exit status: how many went wrong. NEVER run it outside a sandbox.
 * Calls are made with bad pointers where that tells a filter (EPERM, ENOSYS) from kernel code
 * that was reached (EFAULT, EBADF, EINVAL). Canaries of the host come as NAME=VALUE arguments.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Arguments: secret= path= (many) pid= tcp= abstract= unix= shm= devshm= hostname= filters= root=
 */
static char **canaries;
static char detail[512];

/* The n-th value of a canary, or NULL. */
static const char *
canary(const char *name, int n)
{
	size_t k = strlen(name);

	for (char **p = canaries; *p != NULL; p++)
		if (strncmp(*p, name, k) == 0 && (*p)[k] == '=' && n-- == 0)
			return *p + k + 1;
	return NULL;
}

/* Every check returns true when the attack got somewhere. */
static bool
got(long rc)
{
	(void)snprintf(detail, sizeof(detail), "rc %ld errno %d (%s)", rc, errno, strerror(errno));
	return rc >= 0 || (errno != EPERM && errno != ENOSYS);
}

/* The same for calls where kernel code answers, but must not let it happen. */
static bool
done(long rc)
{
	(void)snprintf(detail, sizeof(detail), "rc %ld errno %d (%s)", rc, errno, strerror(errno));
	return rc >= 0;
}

static bool
slurp(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY);
	size_t n = 0;
	ssize_t k;

	out[0] = '\0';
	if (fd < 0)
		return false;
	while (n < size - 1 && (k = read(fd, out + n, size - 1 - n)) > 0)
		n += (size_t)k;
	(void)close(fd);
	for (size_t i = 0; i < n; i++)
		if (out[i] == '\0')
			out[i] = ' ';
	out[n] = '\0';
	return true;
}

static char room[1 << 20];

/* True unless /proc/self/status says `name` is `want`. */
static bool
status_is_not(const char *name, const char *want)
{
	char *p;

	if (!slurp("/proc/self/status", room, sizeof(room)) || (p = strstr(room, name)) == NULL)
		return true;
	p += strlen(name);
	p += strspn(p, " \t");
	p[strcspn(p, "\n")] = '\0';
	(void)snprintf(detail, sizeof(detail), "%s %s", name, p);
	return strcmp(p, want) != 0;
}

#define ZERO16 "0000000000000000"
#define STATUS(fn, name, want)                             \
	static bool fn(void)                               \
	{                                                  \
		return status_is_not("\n" name ":", want); \
	}
STATUS(i1_eff, "CapEff", ZERO16)
STATUS(i1_prm, "CapPrm", ZERO16)
STATUS(i1_inh, "CapInh", ZERO16)
STATUS(i1_bnd, "CapBnd", ZERO16)
STATUS(i1_amb, "CapAmb", ZERO16)
STATUS(i2_nnp, "NoNewPrivs", "1")
STATUS(i3_mode, "Seccomp", "2")
static bool
i3_count(void)
{
	return status_is_not(
	    "\nSeccomp_filters:", canary("filters", 0) != NULL ? canary("filters", 0) : "2");
}
STATUS(i7_blocked, "SigBlk", ZERO16)
STATUS(i7_ignored, "SigIgn", ZERO16)
STATUS(i10_uid, "Uid", "1000\t1000\t1000\t1000")
STATUS(i10_gid, "Gid", "1000\t1000\t1000\t1000")

static bool
i4_env(void)
{
	static const char *const allowed[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG",
	    "TMPDIR", "TERM", "PWD", "OLDPWD", "SHLVL", "_"};
	extern char **environ;
	const char *secret = canary("secret", 0);

	for (char **e = environ; *e != NULL; e++) {
		bool known = false;

		for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
			size_t n = strlen(allowed[i]);

			known |= strncmp(*e, allowed[i], n) == 0 && (*e)[n] == '=';
		}
		if (!known || (secret != NULL && strstr(*e, secret) != NULL)) {
			(void)snprintf(detail, sizeof(detail), "%.200s", *e);
			return true;
		}
	}
	return false;
}

static bool
i5_fds(void)
{
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			(void)snprintf(detail, sizeof(detail), "fd %d", fd);
			return true;
		}
	return false;
}

static bool
i5_fd_parent(void)
{
	for (int fd = 0; fd < 3; fd++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/../../etc/shadow", fd);
		if (open(path, O_RDONLY) >= 0)
			return true;
	}
	return false;
}

static bool
i6_cwd(void)
{
	char now[4096];

	if (getcwd(now, sizeof(now)) == NULL)
		return true;
	(void)snprintf(detail, sizeof(detail), "%.200s", now);
	return strcmp(now, "/work") != 0;
}

static bool
i7_core(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_CORE, &r) != 0 || r.rlim_max != 0;
}

static bool
i7_umask(void)
{
	return umask(0) != 022;
}

static bool
i7_core_raise(void)
{
	struct rlimit r = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};

	return done(setrlimit(RLIMIT_CORE, &r));
}

static bool
i8_groups(void)
{
	gid_t g[64];
	int n = getgroups(64, g);

	/* An ordinary user's groups cannot be dropped; they show as the overflow id. */
	for (int i = 0; i < n; i++)
		if (g[i] != 1000 && g[i] != 65534)
			return true;
	return n > 0 && canary("root", 0) != NULL && !(n == 1 && g[0] == 1000);
}

static bool
i10_pid(void)
{
	if (!slurp("/proc/self/stat", room, sizeof(room)))
		return true;
	return getpid() > 1000;
}

#define CALL(fn, ...)                             \
	static bool fn(void)                      \
	{                                         \
		return got(syscall(__VA_ARGS__)); \
	}
#define BAD ((void *)8)
CALL(i9_keyctl, SYS_keyctl, 0, -3, 0, 0, 0)
CALL(i9_add_key, SYS_add_key, BAD, BAD, BAD, 1, -2)
CALL(i9_request_key, SYS_request_key, BAD, BAD, BAD, -2)
CALL(p4_traceme, SYS_ptrace, 0, 0, 0, 0)
CALL(p4_attach, SYS_ptrace, 16, 1, 0, 0)
CALL(p4_seize, SYS_ptrace, 0x4206, 1, 0, 0)
CALL(p4_vm_readv, SYS_process_vm_readv, 1, BAD, 1, BAD, 1, 0)
CALL(p4_vm_writev, SYS_process_vm_writev, 1, BAD, 1, BAD, 1, 0)
CALL(p4_pidfd_getfd, SYS_pidfd_getfd, -1, 0, 0)
CALL(p4_kcmp, SYS_kcmp, 1, 1, 0, 0, 0)
CALL(p4_process_madvise, SYS_process_madvise, -1, BAD, 1, 4, 0)
CALL(m1_unshare_user, SYS_unshare, CLONE_NEWUSER)
CALL(m1_unshare_net, SYS_unshare, CLONE_NEWNET)
CALL(m1_unshare_ns, SYS_unshare, CLONE_NEWNS)
CALL(m1_clone_user, SYS_clone, CLONE_NEWUSER, 0, 0, 0, 0)
CALL(m1_clone_net, SYS_clone, CLONE_NEWNET, 0, 0, 0, 0)
CALL(m1_clone_pid, SYS_clone, CLONE_NEWPID, 0, 0, 0, 0)
CALL(m1_clone3, SYS_clone3, BAD, 64)
CALL(m2_mount, SYS_mount, "none", "/tmp", "tmpfs", 0, 0)
CALL(m2_remount_root, SYS_mount, "none", "/", 0, MS_REMOUNT | MS_BIND, 0)
CALL(m2_remount_usr, SYS_mount, "none", "/usr", 0, MS_REMOUNT | MS_BIND, 0)
CALL(m2_umount, SYS_umount2, "/proc", MNT_DETACH)
CALL(m2_umount_mask, SYS_umount2, "/proc/keys", 0)
CALL(m2_move_mount, SYS_move_mount, -1, BAD, -1, BAD, 0)
CALL(m2_open_tree, SYS_open_tree, -100, "/", 1)
CALL(m2_fsopen, SYS_fsopen, "tmpfs", 0)
CALL(m2_fsmount, SYS_fsmount, -1, 0, 0)
CALL(m2_fsconfig, SYS_fsconfig, -1, 0, 0, 0, 0)
CALL(m2_mount_setattr, SYS_mount_setattr, -1, BAD, 0, BAD, 0)
CALL(m2_pivot_root, SYS_pivot_root, "/tmp", "/tmp")
CALL(m2_chroot, SYS_chroot, "/tmp")
CALL(m3_setns, SYS_setns, -1, 0)
CALL(m5_sethostname, SYS_sethostname, "x", 1)
CALL(m5_setdomainname, SYS_setdomainname, "x", 1)
CALL(k1_uring_setup, SYS_io_uring_setup, 1, BAD)
CALL(k1_uring_enter, SYS_io_uring_enter, -1, 0, 0, 0, 0, 0)
CALL(k1_uring_register, SYS_io_uring_register, -1, 0, 0, 0)
CALL(k2_bpf, SYS_bpf, 0, BAD, 8)
CALL(k3_perf, SYS_perf_event_open, BAD, 0, -1, -1, 0)
CALL(k4_userfaultfd, SYS_userfaultfd, 1)
CALL(k6_open_by_handle, SYS_open_by_handle_at, -1, BAD, 0)
CALL(k6_name_to_handle, SYS_name_to_handle_at, -100, "/", BAD, BAD, 0)
CALL(k7_kexec, SYS_kexec_load, 0, 0, BAD, 0)
CALL(k7_kexec_file, SYS_kexec_file_load, -1, -1, 0, BAD, 0)
CALL(k7_init_module, SYS_init_module, BAD, 0, BAD)
CALL(k7_finit_module, SYS_finit_module, -1, BAD, 0)
CALL(k7_delete_module, SYS_delete_module, BAD, 0)
CALL(k8_reboot, SYS_reboot, 0, 0, 0, 0)
CALL(k8_swapon, SYS_swapon, BAD, 0)
CALL(k8_acct, SYS_acct, BAD)
CALL(k8_quotactl, SYS_quotactl, -1, BAD, 0, BAD)
CALL(k8_settime, SYS_clock_settime, 0, BAD)
CALL(k8_settimeofday, SYS_settimeofday, BAD, 0)
CALL(k8_adjtimex, SYS_adjtimex, BAD)
CALL(k8_syslog, SYS_syslog, 3, BAD, 1)
CALL(k8_vhangup, SYS_vhangup)
CALL(k8_personality, SYS_personality, 0x0040000)
CALL(k8_fanotify, SYS_fanotify_init, 0, 0)
CALL(k8_lookup_dcookie, SYS_lookup_dcookie, 0, BAD, 0)
CALL(k8_mbind, SYS_mbind, BAD, 0, 0, BAD, 0, 0)
CALL(k8_move_pages, SYS_move_pages, 1, 1, BAD, BAD, BAD, 0)
CALL(k8_migrate_pages, SYS_migrate_pages, 1, 1, BAD, BAD)
CALL(k8_seccomp_listener, SYS_seccomp, 1, 8, BAD)
CALL(k10_set_mm, SYS_prctl, PR_SET_MM, 1, 0, 0, 0)
CALL(k10_dispatch, SYS_prctl, 59, 1, 0, 0, BAD)
CALL(k12_new_number, 5000, 0, 0, 0)
CALL(k12_openat2, SYS_openat2, -100, BAD, BAD, 24)
CALL(k13_ioctl_high, SYS_ioctl, 0, 0x100000000ul | TIOCSTI, "x")
CALL(k13_prctl_high, SYS_prctl, 0x100000000ul | PR_SET_MM, 1, 0, 0, 0)
CALL(k13_clone_high, SYS_clone, 0x100000000ul | CLONE_NEWUSER, 0, 0, 0, 0)
CALL(t1_tiocsti, SYS_ioctl, 0, TIOCSTI, "x")
CALL(t2_tiocsti_bits, SYS_ioctl, 0, 0xdeadbeef00000000ul | TIOCSTI, "x")
CALL(t3_tioclinux, SYS_ioctl, 0, TIOCLINUX, "\3")
CALL(t3_tioclinux_bits, SYS_ioctl, 0, 0xffffffff00000000ul | TIOCLINUX, "\3")
#ifdef __x86_64__
CALL(k8_iopl, SYS_iopl, 3)
CALL(k8_ioperm, SYS_ioperm, 0x80, 1, 1)
CALL(k8_modify_ldt, SYS_modify_ldt, 0, BAD, 0)

static bool
k_x32(void)
{
	return done(syscall(0x40000000 | SYS_getpid));
}

static bool
k_int80(void)
{
	long rc;

	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	return rc > 0;
}
#endif

/* K9: neither EAFNOSUPPORT, EPERM nor ENOSYS means that the family's own code was asked. */
static bool
family(long f, int type)
{
	long rc = syscall(SYS_socket, f, type, 0);

	(void)snprintf(detail, sizeof(detail), "rc %ld errno %d", rc, errno);
	return rc >= 0 || (errno != EAFNOSUPPORT && errno != EPERM && errno != ENOSYS);
}
#define FAMILY(fn, f, type)             \
	static bool fn(void)            \
	{                               \
		return family(f, type); \
	}
FAMILY(k9_netlink, AF_NETLINK, SOCK_RAW)
FAMILY(k9_packet, AF_PACKET, SOCK_DGRAM)
FAMILY(k9_vsock, 40, SOCK_STREAM)
FAMILY(k9_alg, 38, SOCK_SEQPACKET)
FAMILY(k9_xdp, 44, SOCK_RAW)
FAMILY(k9_rds, 21, SOCK_SEQPACKET)
FAMILY(k9_bluetooth, 31, SOCK_RAW)
FAMILY(k9_tipc, 30, SOCK_STREAM)
FAMILY(k9_kcm, 41, SOCK_DGRAM)
FAMILY(k9_raw, AF_INET, SOCK_RAW)
FAMILY(k9_raw6, AF_INET6, SOCK_RAW)
FAMILY(k13_family_high, 0x100000000l | AF_NETLINK, SOCK_RAW)

static bool
f_create(const char *path)
{
	return done(open(path, O_WRONLY | O_CREAT, 0644));
}
#define CREATE(fn, path)               \
	static bool fn(void)           \
	{                              \
		return f_create(path); \
	}
CREATE(f1_root, "/x")
CREATE(f1_usr, "/usr/x")
CREATE(f1_usr_bin, "/usr/bin/env")
CREATE(f1_etc, "/etc/x")
CREATE(f1_hosts, "/etc/hosts")
CREATE(f1_dev, "/dev/x")
CREATE(f1_opt, "/opt/x")
CREATE(f1_proc_sys, "/proc/sys/kernel/hostname")
CREATE(p7_core_pattern, "/proc/sys/kernel/core_pattern")
CREATE(p7_modprobe, "/proc/sys/kernel/modprobe")
CREATE(p7_sysrq, "/proc/sysrq-trigger/x")

/* It can be opened, as a process's own files can, and is written once. */
static bool
p7_uid_map(void)
{
	int fd = open("/proc/self/uid_map", O_WRONLY);

	return fd >= 0 && write(fd, "0 0 1\n", 6) == 6;
}

static bool
f2_paths(void)
{
	static const char *const fixed[] = {"/etc/shadow", "/root", "/root/.ssh", "/home/x/.ssh",
	    "/etc/sudoers", "/sys/kernel", "/var/lib", "/run/docker.sock", "/boot",
	    "/etc/ssl/private"};
	const char *p;

	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (access(fixed[i], F_OK) == 0) {
			(void)snprintf(detail, sizeof(detail), "%s", fixed[i]);
			return true;
		}
	for (int i = 0; (p = canary("path", i)) != NULL; i++)
		if (access(p, F_OK) == 0) {
			(void)snprintf(detail, sizeof(detail), "%.200s", p);
			return true;
		}
	return false;
}

static bool
f3_aliases(void)
{
	static const char *const via[] = {"/proc/self/root/..", "/proc/1/root",
	    "/proc/self/cwd/../..", "/proc/1/cwd/..", "/work/../..",
	    "/proc/thread-self/root/../.."};
	char path[4600];
	const char *p;

	for (int i = 0; (p = canary("path", i)) != NULL; i++)
		for (size_t k = 0; k < sizeof(via) / sizeof(*via); k++) {
			(void)snprintf(path, sizeof(path), "%s%s", via[k], p);
			if (open(path, O_RDONLY) >= 0) {
				(void)snprintf(detail, sizeof(detail), "%.200s", path);
				return true;
			}
		}
	return false;
}

static bool
f3_symlink(void)
{
	const char *p = canary("path", 0);
	int fd;

	(void)unlink("/work/link");
	if (p == NULL || symlink(p, "/work/link") != 0)
		return p != NULL;
	fd = open("/work/link", O_RDONLY);
	return done(fd);
}

static bool
f6_hardlink(void)
{
	return done(link("/usr/bin/env", "/work/env"));
}

static bool
f7_mknod(void)
{
	return done(mknod("/work/sda", S_IFBLK | 0600, (dev_t)(8 << 8))) ||
	       done(mknod("/work/mem", S_IFCHR | 0600, (dev_t)(1 << 8 | 1)));
}

static int
file_make(const char *path)
{
	(void)unlink(path);
	return open(path, O_RDWR | O_CREAT, 0755);
}

static bool
f7_setuid(void)
{
	int fd = file_make("/work/suid");
	struct stat st;

	(void)chmod("/work/suid", 04755);
	(void)fchmod(fd, 04755);
	(void)syscall(SYS_fchmodat, AT_FDCWD, "/work/suid", 02755);
	(void)open("/work/suid2", O_RDWR | O_CREAT, 04755);
	(void)creat("/work/suid2", 04755);
	(void)syscall(SYS_open, "/work/suid2", O_RDWR | O_CREAT, 06755);
	(void)mknod("/work/suid2", S_IFREG | 04755, 0);
	(void)syscall(452 /* fchmodat2 */, AT_FDCWD, "/work/suid", 04755, 0);
	if (fstat(fd, &st) != 0 || (st.st_mode & 06000) != 0)
		return true;
	return stat("/work/suid2", &st) == 0 && (st.st_mode & 06000) != 0;
}

static bool
f7_filecaps(void)
{
	static const unsigned char cap[20] = {0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff};

	(void)file_make("/work/caps");
	return done(setxattr("/work/caps", "security.capability", cap, sizeof(cap), 0));
}

static bool
f7_immutable(void)
{
	int flags = 0x10, fd = file_make("/work/imm");

	return got(ioctl(fd, 0x40086602, &flags));
}

static bool
f13_full(void)
{
	int fd = file_make("/tmp/fill");
	long rc = fallocate(fd, 0, 0, 64l << 30);

	(void)unlink("/tmp/fill");
	return done(rc);
}

static bool
f14_names(void)
{
	const char *secret = canary("secret", 0), *host = canary("hostname", 0);

	if (!slurp("/proc/self/mountinfo", room, sizeof(room)))
		return true;
	if (secret != NULL && strstr(room, secret) != NULL)
		return true;
	(void)gethostname(room, sizeof(room));
	return host != NULL && strcmp(room, host) == 0;
}

static bool
p1_pids(void)
{
	const char *pid = canary("pid", 0);
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[64];
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += e->d_name[0] >= '0' && e->d_name[0] <= '9';
	(void)snprintf(detail, sizeof(detail), "%d processes", n);
	(void)snprintf(path, sizeof(path), "/proc/%s/status", pid != NULL ? pid : "none");
	return n > 5 || (pid != NULL && access(path, F_OK) == 0 && atol(pid) > 50);
}

static bool
p2_one(const char *what)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/1/%s", what);
	return done(open(path, O_RDONLY)) || done(readlink(path, room, 64));
}
#define PID1(fn, what)               \
	static bool fn(void)         \
	{                            \
		return p2_one(what); \
	}
PID1(p2_environ, "environ")
PID1(p2_maps, "maps")
PID1(p2_mem, "mem")
PID1(p2_root, "root")
PID1(p2_cwd, "cwd")
PID1(p2_fd, "fd")
PID1(p2_exe, "exe")
PID1(p2_cmdline, "cmdline")

static bool
p3_secret_in_proc(void)
{
	static const char *const files[] = {"cmdline", "environ"};
	const char *secret = canary("secret", 0);
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d != NULL && secret != NULL && (e = readdir(d)) != NULL)
		for (size_t i = 0; i < 2; i++) {
			char path[300];

			(void)snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, files[i]);
			/* this probe's own arguments carry it */
			if (slurp(path, room, sizeof(room)) && strstr(room, secret) != NULL &&
			    strstr(room, "probe") == NULL) {
				(void)snprintf(detail, sizeof(detail), "%.200s", path);
				return true;
			}
		}
	return false;
}

static bool
p8_files(void)
{
	static const char *const files[] = {"/proc/kcore", "/proc/kallsyms", "/proc/keys",
	    "/proc/timer_list", "/proc/config.gz", "/proc/kmsg", "/proc/cmdline", "/proc/iomem",
	    "/proc/sysvipc/shm", "/sys/kernel/security", "/sys/firmware"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (slurp(files[i], room, sizeof(room)) && room[0] != '\0') {
			(void)snprintf(detail, sizeof(detail), "%s", files[i]);
			return true;
		}
	return false;
}

static bool
p9_kill_host(void)
{
	const char *pid = canary("pid", 0);

	return pid != NULL && atol(pid) > 50 && done(kill((pid_t)atol(pid), 0));
}

/* Sent, but a pid namespace's init takes no signal from inside: it must still serve afterwards. */
static bool
p9_stop_init(void)
{
	(void)kill(1, SIGSTOP);
	(void)kill(1, SIGKILL);
	(void)kill(1, SIGSEGV);
	return getppid() == 0;
}

static bool
m3_nsfs(void)
{
	int fd = open("/proc/self/ns/user", O_RDONLY);

	return fd >= 0 && got(ioctl(fd, 0xb701));
}

static bool
m4_cgroup(void)
{
	return access("/sys/fs/cgroup", F_OK) == 0 ||
	       (slurp("/proc/self/cgroup", room, sizeof(room)) &&
		   strstr(room, "cofferdam") != NULL);
}

static bool
t4_ctty(void)
{
	return done(ioctl(0, TIOCSCTTY, 1));
}

static bool
t5_tty(void)
{
	return done(open("/dev/tty", O_RDWR));
}

static bool
tcp_to(const char *address, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	long rc;

	(void)inet_pton(AF_INET, address, &a.sin_addr);
	rc = connect(fd, (const struct sockaddr *)&a, sizeof(a));
	if (rc < 0 && errno == EINPROGRESS) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		socklen_t n = sizeof(errno);

		/* Refused by the loopback's own kernel, or on its way out? */
		if (poll(&p, 1, 1000) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &n) == 0)
			rc = errno == 0 ? 0 : -1;
	}
	(void)snprintf(detail, sizeof(detail), "rc %ld errno %d", rc, errno);
	/* in progress would mean that there is a way out */
	return rc == 0 || (errno != ENETUNREACH && errno != ECONNREFUSED && errno != EHOSTUNREACH);
}

static bool
n1_metadata(void)
{
	return tcp_to("169.254.169.254", 80);
}

static bool
n1_lan(void)
{
	return tcp_to("10.0.0.1", 443) || tcp_to("192.168.1.1", 80) || tcp_to("8.8.8.8", 53);
}

static bool
n1_host_loopback(void)
{
	const char *port = canary("tcp", 0);

	return port != NULL && tcp_to("127.0.0.1", (int)atol(port));
}

static bool
n4_dns(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(53)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	(void)inet_pton(AF_INET, "8.8.8.8", &a.sin_addr);
	return done(sendto(fd, "x", 1, 0, (const struct sockaddr *)&a, sizeof(a)));
}

static bool
n1_ipv6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	long rc;

	(void)inet_pton(AF_INET6, "2606:4700::1111", &a.sin6_addr);
	rc = connect(fd, (const struct sockaddr *)&a, sizeof(a));
	return rc == 0 || errno == EINPROGRESS;
}

static bool
unix_to(const char *path, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path), at = abstract ? 1 : 0;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (n + 1 >= sizeof(a.sun_path))
		return false;
	memcpy(a.sun_path + at, path, n);
	return done(connect(fd, (const struct sockaddr *)&a,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + n)));
}

static bool
n7_abstract(void)
{
	const char *p = canary("abstract", 0);

	return p != NULL && unix_to(p, true);
}

static bool
n7_path(void)
{
	const char *p = canary("unix", 0);

	return p != NULL && unix_to(p, false);
}

static bool
n11_shm(void)
{
	const char *key = canary("shm", 0);

	return key != NULL && done(shmget((key_t)atol(key), 0, 0));
}

static bool
n11_devshm(void)
{
	const char *p = canary("devshm", 0);
	char path[300];

	(void)snprintf(path, sizeof(path), "/dev/shm/%s", p != NULL ? p : "none");
	return done(open(path, O_RDONLY));
}
CALL(n11_mq, SYS_mq_open, "cofferdam", 0, 0, 0)

static bool
k11_nice(void)
{
	return done(setpriority(PRIO_PROCESS, 0, -5));
}

static bool
k11_fifo(void)
{
	struct {
		int p;
	} s = {.p = 10};

	return done(syscall(SYS_sched_setscheduler, 0, 1, &s));
}

/* --- what must work ----------------------------------------------------------------------- */

static bool
w_write(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);

	return fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0 && close(fd) == 0;
}

static bool
w_work(void)
{
	return w_write("/work/ok") && mkdir("/work/dir", 0755) == 0 &&
	       rename("/work/ok", "/work/dir/ok") == 0 && symlink("ok", "/work/dir/l") == 0 &&
	       link("/work/dir/ok", "/work/dir/h") == 0 && chmod("/work/dir/ok", 0755) == 0 &&
	       mkfifo("/work/dir/f", 0600) == 0 && unlink("/work/dir/f") == 0;
}

static bool
w_tmp(void)
{
	return w_write("/tmp/ok") && w_write("/dev/shm/ok") && w_write("/var/tmp/ok2");
}

static bool
w_null(void)
{
	return w_write("/tmp/x") && open("/dev/null", O_WRONLY) >= 0 &&
	       open("/dev/urandom", O_RDONLY) >= 0 && open("/dev/zero", O_RDONLY) >= 0;
}

static bool
w_stdout(void)
{
	return open("/dev/stdout", O_WRONLY) >= 0 && open("/dev/stderr", O_WRONLY) >= 0;
}

static void *
thread(void *arg)
{
	return arg;
}

static bool
w_thread(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, NULL) == 0;
}

static bool
w_fork(void)
{
	int st;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	return waitpid(pid, &st, 0) == pid && WEXITSTATUS(st) == 3;
}

static bool
w_loopback(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	return bind(s, (const struct sockaddr *)&a, sizeof(a)) == 0 && listen(s, 1) == 0 &&
	       getsockname(s, (struct sockaddr *)&a, &n) == 0 &&
	       connect(c, (const struct sockaddr *)&a, n) == 0;
}

static bool
w_unix(void)
{
	int p[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && socket(AF_UNIX, SOCK_DGRAM, 0) >= 0 &&
	       socket(AF_INET6, SOCK_STREAM, 0) >= 0;
}

static bool
w_abstract_own(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0own"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t n = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 4;

	return bind(s, (const struct sockaddr *)&a, n) == 0 && listen(s, 1) == 0 &&
	       connect(c, (const struct sockaddr *)&a, n) == 0;
}

static bool
w_memory(void)
{
	void *p = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	memset(p, 1, 32 << 20);
	return mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0 && memfd_create("m", 0) >= 0;
}

static bool
w_ioctl(void)
{
	int n, p[2];

	return pipe(p) == 0 && write(p[1], "abc", 3) == 3 && ioctl(p[0], FIONREAD, &n) == 0 &&
	       n == 3;
}

static bool
w_prctl(void)
{
	return prctl(PR_SET_NAME, "name") == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 &&
	       prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
}

static bool
w_proc(void)
{
	return slurp("/proc/cpuinfo", room, sizeof(room)) &&
	       slurp("/proc/meminfo", room, sizeof(room)) &&
	       slurp("/proc/sys/kernel/osrelease", room, sizeof(room)) &&
	       slurp("/proc/self/maps", room, sizeof(room)) && room[0] != '\0';
}

static bool
w_signal_own(void)
{
	int st;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)pause();
	return kill(pid, SIGTERM) == 0 && waitpid(pid, &st, 0) == pid && WTERMSIG(st) == SIGTERM;
}

static bool
w_sysv_own(void)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	void *p = id >= 0 ? shmat(id, NULL, 0) : (void *)-1;

	return (intptr_t)p != -1 && shmctl(id, IPC_RMID, NULL) == 0;
}

static bool
w_personality(void)
{
	return syscall(SYS_personality, 0xffffffff) == 0;
}

static bool
w_seccomp_own(void)
{
	unsigned action = 0x7fff0000;

	return syscall(SYS_seccomp, 2 /* GET_ACTION_AVAIL */, 0, &action) == 0;
}

#define A(f)                 \
	{                    \
#f, f, false \
	}
#define W(f)                \
	{                   \
#f, f, true \
	}
static const struct check {
	const char *name;
	bool (*fn)(void);
	bool works;
} checks[] = {A(i1_eff), A(i1_prm), A(i1_inh), A(i1_bnd), A(i1_amb), A(i2_nnp), A(i3_mode),
    A(i3_count), A(i4_env), A(i5_fds), A(i5_fd_parent), A(i6_cwd), A(i7_umask), A(i7_core),
    A(i7_core_raise), A(i7_blocked), A(i7_ignored), A(i8_groups), A(i9_keyctl), A(i9_add_key),
    A(i9_request_key), A(i10_uid), A(i10_gid), A(i10_pid), A(f1_root), A(f1_usr), A(f1_usr_bin),
    A(f1_etc), A(f1_hosts), A(f1_dev), A(f1_opt), A(f1_proc_sys), A(f2_paths), A(f3_aliases),
    A(f3_symlink), A(f6_hardlink), A(f7_mknod), A(f7_setuid), A(f7_filecaps), A(f7_immutable),
    A(f13_full), A(f14_names), A(p1_pids), A(p2_environ), A(p2_maps), A(p2_mem), A(p2_root),
    A(p2_cwd), A(p2_fd), A(p2_exe), A(p2_cmdline), A(p3_secret_in_proc), A(p4_traceme),
    A(p4_attach), A(p4_seize), A(p4_vm_readv), A(p4_vm_writev), A(p4_pidfd_getfd), A(p4_kcmp),
    A(p4_process_madvise), A(p7_core_pattern), A(p7_modprobe), A(p7_sysrq), A(p7_uid_map),
    A(p8_files), A(p9_kill_host), A(p9_stop_init), A(m1_unshare_user), A(m1_unshare_net),
    A(m1_unshare_ns), A(m1_clone_user), A(m1_clone_net), A(m1_clone_pid), A(m1_clone3), A(m2_mount),
    A(m2_remount_root), A(m2_remount_usr), A(m2_umount), A(m2_umount_mask), A(m2_move_mount),
    A(m2_open_tree), A(m2_fsopen), A(m2_fsmount), A(m2_fsconfig), A(m2_mount_setattr),
    A(m2_pivot_root), A(m2_chroot), A(m3_setns), A(m3_nsfs), A(m4_cgroup), A(m5_sethostname),
    A(m5_setdomainname), A(k1_uring_setup), A(k1_uring_enter), A(k1_uring_register), A(k2_bpf),
    A(k3_perf), A(k4_userfaultfd), A(k6_open_by_handle), A(k6_name_to_handle), A(k7_kexec),
    A(k7_kexec_file), A(k7_init_module), A(k7_finit_module), A(k7_delete_module), A(k8_reboot),
    A(k8_swapon), A(k8_acct), A(k8_quotactl), A(k8_settime), A(k8_settimeofday), A(k8_adjtimex),
    A(k8_syslog), A(k8_vhangup), A(k8_personality), A(k8_fanotify), A(k8_lookup_dcookie),
    A(k8_mbind), A(k8_move_pages), A(k8_migrate_pages), A(k8_seccomp_listener), A(k9_netlink),
    A(k9_packet), A(k9_vsock), A(k9_alg), A(k9_xdp), A(k9_rds), A(k9_bluetooth), A(k9_tipc),
    A(k9_kcm), A(k9_raw), A(k9_raw6), A(k10_set_mm), A(k10_dispatch), A(k11_nice), A(k11_fifo),
    A(k12_new_number), A(k12_openat2), A(k13_ioctl_high), A(k13_prctl_high), A(k13_clone_high),
    A(k13_family_high),
#ifdef __x86_64__
    A(k8_iopl), A(k8_ioperm), A(k8_modify_ldt), A(k_x32), A(k_int80),
#endif
    A(t1_tiocsti), A(t2_tiocsti_bits), A(t3_tioclinux), A(t3_tioclinux_bits), A(t4_ctty), A(t5_tty),
    A(n1_metadata), A(n1_lan), A(n1_host_loopback), A(n1_ipv6), A(n4_dns), A(n7_abstract),
    A(n7_path), A(n11_shm), A(n11_devshm), A(n11_mq), W(w_work), W(w_tmp), W(w_null), W(w_stdout),
    W(w_thread), W(w_fork), W(w_loopback), W(w_unix), W(w_abstract_own), W(w_memory), W(w_ioctl),
    W(w_prctl), W(w_proc), W(w_signal_own), W(w_sysv_own), W(w_seccomp_own), W(w_personality)};

/* Each in a process of its own: some end it. Status: 0 false, 1 true, else killed. */
static int
check_run(const struct check *c)
{
	int st = 0;
	pid_t pid = fork();

	if (pid == 0) {
		bool r;

		errno = 0;
		r = c->fn();
		if (r != c->works)
			(void)printf("# %s: %s\n", c->name, detail);
		(void)fflush(stdout);
		_exit(r ? 1 : 0);
	}
	(void)waitpid(pid, &st, 0);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 2;
}

int
main(int argc, char **argv)
{
	int wrong = 0;

	canaries = argv + (argc > 0);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (access("/etc/cofferdam", F_OK) != 0) {
		(void)printf("not in a sandbox: nothing is tried\n");
		return 99;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		int r = check_run(&checks[i]);
		bool good = checks[i].works ? r == 1 : r != 1;

		(void)printf("%s %s\n",
		    checks[i].works ? good ? "works" : "BROKEN"
		    : good	    ? "refused"
				    : "REACHED",
		    checks[i].name);
		wrong += !good;
	}
	return wrong > 98 ? 98 : wrong;
}
