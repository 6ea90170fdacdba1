/* Processes and what /proc says of them (P1 to P10). */
#include <dirent.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/walls/walls.h"

WALL("P1-processes", p1_pids, "pidns", "no process of the host is listed")
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += e->d_name[0] >= '0' && e->d_name[0] <= '9';
	detail("%d processes", n);
	return n > 6;
}

WALL("P1-host-process", p1_host, "pidns", "nor is one found by its number")
{
	const char *pid = canary("pid", 0), *comm = canary("comm", 0);

	if (pid == NULL || comm == NULL)
		return SKIPPED;
	(void)snprintf(room, sizeof(room), "/proc/%s/comm", pid);
	return slurp(room, room, 64) && strncmp(room, comm, strlen(comm)) == 0;
}

static int
pid1(const char *what)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/1/%s", what);
	return failed(open(path, O_RDONLY)) || failed(readlink(path, room, 64));
}
#define PID1(id_, fn_, file_, what_)  \
	WALL(id_, fn_, "init", what_) \
	{                             \
		return pid1(file_);   \
	}
PID1("P2-environ", p2_environ, "environ", "pid 1 shows no environment")
PID1("P2-maps", p2_maps, "maps", "pid 1 shows no map of its memory")
PID1("P2-memory", p2_mem, "mem", "the memory of pid 1 can not be opened")
PID1("P2-root", p2_root, "root", "the root of pid 1 can not be followed")
PID1("P2-directory", p2_cwd, "cwd", "the directory of pid 1 can not be followed")
PID1("P2-descriptors", p2_fd, "fd", "the descriptors of pid 1 can not be listed")
PID1("P2-program", p2_exe, "exe", "the program of pid 1 can not be followed")
PID1("P2-auxv", p2_auxv, "auxv", "pid 1 shows no addresses")
PID1("P2-stack", p2_stack, "stack", "pid 1 shows no kernel stack")
PID1("P2-io", p2_io, "io", "pid 1 shows no counters")

WALL("P2-command-line", p2_cmdline, "init", "the command line of pid 1 tells nothing")
{
	const char *secret = canary("secret", 0), *dir = canary("hostdir", 0);

	if (!slurp("/proc/1/cmdline", room, sizeof(room)))
		return REFUSED;
	detail("%.200s", room);
	return strlen(room) > 64 || (secret != NULL && strstr(room, secret) != NULL) ||
	       (dir != NULL && strstr(room, dir) != NULL);
}

WALL("P3-secrets", p3_secret, "pidns reset init", "no process shows a secret of the caller's")
{
	static const char *const files[] = {"cmdline", "environ", "comm", "status"};
	const char *secret = canary("secret", 0);
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d != NULL && secret != NULL && (e = readdir(d)) != NULL)
		for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
			char path[300];

			(void)snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, files[i]);
			detail("%.200s", path);
			/* this probe's own arguments carry it */
			if (slurp(path, room, sizeof(room)) && strstr(room, secret) != NULL &&
			    strstr(room, "probe") == NULL)
				return REACHED;
		}
	return secret == NULL ? SKIPPED : REFUSED;
}

CALL("P4-trace-me", p4_traceme, "nothing can be traced", SYS_ptrace, PTRACE_TRACEME, 0, 0, 0)
CALL("P4-attach", p4_attach, "pid 1 can not be attached to", SYS_ptrace, PTRACE_ATTACH, 1, 0, 0)
CALL("P4-seize", p4_seize, "nor seized", SYS_ptrace, PTRACE_SEIZE, 1, 0, 0)
CALL("P4-read-memory", p4_readv, "the memory of another can not be read", SYS_process_vm_readv, 1,
    BAD, 1, BAD, 1, 0)
CALL("P4-write-memory", p4_writev, "nor written", SYS_process_vm_writev, 1, BAD, 1, BAD, 1, 0)
CALL("P4-take-descriptor", p4_getfd, "nor descriptors taken out of it", SYS_pidfd_getfd, -1, 0, 0)
CALL("P4-compare", p4_kcmp, "nor kernel objects compared", SYS_kcmp, 1, 1, 0, 0, 0)
CALL("P4-advise", p4_advise, "nor advice given about its memory", SYS_process_madvise, -1, BAD, 1,
    4, 0)
CALL("P4-release", p4_mrelease, "nor its memory released", SYS_process_mrelease, -1, 0)

WALL("P4-siblings", p4_siblings, "seccomp", "nor can that be done to a child of its own")
{
	static char secret[16] = "0123456789";
	char got[16];
	struct iovec here = {got, sizeof(got)}, there = {secret, sizeof(secret)};
	pid_t pid = fork();
	int fd;

	if (pid == 0)
		for (;;)
			(void)pause();
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return filtered(syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0)) ||
	       filtered(syscall(SYS_pidfd_getfd, fd, 0, 0)) ||
	       filtered(syscall(SYS_ptrace, PTRACE_SEIZE, pid, 0, 0));
}

static int
status_of(pid_t pid)
{
	int st = 0;

	(void)waitpid(pid, &st, 0);
	detail("status %#x", (unsigned)st);
	return WIFEXITED(st) ? WEXITSTATUS(st) != 0 : WTERMSIG(st) != SIGSYS;
}

WALL("P5-memory-file", p5_memfd, "seccomp caps mounts",
    "a program out of a memory file has no more rights")
{
	int in = open("/proc/self/exe", O_RDONLY), out = memfd_create("x", 0);
	char name[] = "probe", word[] = "inner", *argv[] = {name, word, NULL}, *envp[] = {NULL};
	ssize_t n;
	pid_t pid;

	while ((n = read(in, room, sizeof(room))) > 0)
		(void)!write(out, room, (size_t)n);
	pid = fork();
	if (pid == 0) {
		(void)syscall(SYS_execveat, out, "", argv, envp, AT_EMPTY_PATH);
		_exit(0);
	}
	return status_of(pid);
}

WALL("P5-copy", p5_copy, "seccomp caps mounts", "nor has a copy of it under another name")
{
	int in = open("/proc/self/exe", O_RDONLY),
	    out = open("/work/kopie", O_WRONLY | O_CREAT, 0755);
	ssize_t n;
	pid_t pid;

	while ((n = read(in, room, sizeof(room))) > 0)
		(void)!write(out, room, (size_t)n);
	(void)close(out);
	pid = fork();
	if (pid == 0) {
		(void)execl("/proc/self/root/work/kopie", "env", "inner", (char *)NULL);
		_exit(0);
	}
	return status_of(pid);
}

WALL("P5-loader", p5_loader, "mounts", "nor has one that the loader itself maps")
{
	const char *lines[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"};
	pid_t pid = fork();

	if (pid == 0) {
		for (size_t i = 0; i < 2; i++)
			(void)execl(
			    lines[i], "ld", "/usr/bin/test", "-r", "/etc/shadow", (char *)NULL);
		_exit(1);
	}
	return !status_of(pid);
}

#define WRITABLE(id_, fn_, layers_, path_, what_)                   \
	WALL(id_, fn_, layers_, what_)                              \
	{                                                           \
		return failed(open(path_, O_WRONLY)) ||             \
		       failed(open(path_, O_RDWR | O_CREAT, 0644)); \
	}
WRITABLE("P6-own-program", p6_self, "mounts landlock", "/proc/self/exe",
    "its own program on disk can not be written")
WRITABLE("P6-init-program", p6_init, "init mounts landlock", "/proc/1/exe", "nor can that of pid 1")

WALL("P6-busy", p6_busy, "init mounts landlock",
    "nor once it has ended, by whoever kept a descriptor")
{
	int fd = open("/proc/1/exe", O_PATH);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd >= 0 && failed(open(path, O_WRONLY));
}

WRITABLE("P7-core-pattern", p7_core, "mounts userns", "/proc/sys/kernel/core_pattern",
    "core_pattern can not be written")
WRITABLE(
    "P7-modprobe", p7_modprobe, "mounts userns", "/proc/sys/kernel/modprobe", "nor modprobe's path")
WRITABLE("P7-sysrq", p7_sysrq, "mounts userns", "/proc/sysrq-trigger", "nor sysrq-trigger")
WRITABLE("P7-binfmt", p7_binfmt, "mounts", "/proc/sys/fs/binfmt_misc/register",
    "nor a format of programs registered")
WRITABLE("P7-ns-last-pid", p7_last, "mounts caps", "/proc/sys/kernel/ns_last_pid",
    "nor the next process number")

WALL("P7-uid-map", p7_map, "userns", "the map of users can not be written")
{
	int fd = open("/proc/self/uid_map", O_WRONLY);

	return fd >= 0 && failed(write(fd, "0 0 1\n", 6));
}

WALL("P7-other-oom", p7_oom, "init", "nor can the memory score of pid 1")
{
	int fd = open("/proc/1/oom_score_adj", O_WRONLY);

	return fd >= 0 && failed(write(fd, "1000", 4));
}

WALL("P7-other-maps", p7_maps, "userns", "nor the map of groups, nor whether groups can be set")
{
	int groups = open("/proc/self/gid_map", O_WRONLY);
	int set = open("/proc/self/setgroups", O_WRONLY);

	return (groups >= 0 && failed(write(groups, "0 0 1\n", 6))) ||
	       (set >= 0 && failed(write(set, "allow", 5)));
}

WALL("P7-init-name", p7_name, "init", "nor can pid 1 be given another name, dump or slack")
{
	return failed(open("/proc/1/comm", O_WRONLY)) ||
	       failed(open("/proc/1/task/1/comm", O_WRONLY)) ||
	       failed(open("/proc/1/coredump_filter", O_WRONLY)) ||
	       failed(open("/proc/1/clear_refs", O_WRONLY)) ||
	       failed(write(open("/proc/1/timerslack_ns", O_WRONLY), "1", 1));
}

WALL("P7-pressure", p7_pressure, "pidns mounts", "nor can anything wait for the host's pressure")
{
	return failed(open("/proc/pressure/cpu", O_RDWR)) ||
	       failed(open("/proc/pressure/memory", O_WRONLY));
}

#define UNREADABLE(id_, fn_, path_, what_)                                         \
	WALL(id_, fn_, "mounts userns", what_)                                     \
	{                                                                          \
		bool there_ = slurp(path_, room, sizeof(room)) && room[0] != '\0'; \
		detail("%.200s", room);                                            \
		return there_;                                                     \
	}
UNREADABLE("P8-kcore", p8_kcore, "/proc/kcore", "the memory of the kernel can not be read")
UNREADABLE("P8-symbols", p8_kallsyms, "/proc/kallsyms", "nor its symbols")
UNREADABLE("P8-keys", p8_keys, "/proc/keys", "nor its keys")
UNREADABLE("P8-timers", p8_timers, "/proc/timer_list", "nor its timers")
UNREADABLE("P8-config", p8_config, "/proc/config.gz", "nor its configuration")
UNREADABLE("P8-messages", p8_kmsg, "/proc/kmsg", "nor its messages")
UNREADABLE("P8-boot-line", p8_cmdline, "/proc/cmdline", "nor its command line")
UNREADABLE("P8-memory-map", p8_iomem, "/proc/iomem", "nor its map of memory")
UNREADABLE("P8-firmware", p8_firmware, "/sys/firmware/dmi/tables/DMI", "nor the firmware's tables")

WALL("P8-sysv-table", p8_sysv, "ipcns mounts", "nor the table of shared memory of the host")
{
	const char *key = canary("shm", 0);

	if (key == NULL)
		return SKIPPED;
	return slurp("/proc/sysvipc/shm", room, sizeof(room)) && strstr(room, key) != NULL;
}

WALL("P9-signal-host", p9_kill, "pidns", "no process of the host can be signalled")
{
	const char *pid = canary("pid", 0), *same = canary("samepid", 0);

	if (pid == NULL)
		return SKIPPED;
	return (atol(pid) > 2000 && failed(kill((pid_t)atol(pid), 0))) ||
	       (same != NULL && atol(same) > 2000 && failed(kill((pid_t)atol(same), SIGKILL)));
}

/* Sent, but a pid namespace's first process takes no signal from inside: it must still serve. */
WALL("P9-signal-init", p9_init, "pidns", "pid 1 takes no signal from inside")
{
	(void)kill(1, SIGSTOP);
	(void)kill(1, SIGKILL);
	(void)kill(1, SIGSEGV);
	(void)kill(1, SIGTRAP);
	(void)usleep(50000);
	return kill(1, 0) != 0 && errno != EPERM;
}

WALL("P9-signal-parent-group", p9_group, "pidns", "the caller's process group is not reached")
{
	detail("group %d session %d", getpgid(0), getsid(0));
	/* 0 is a leader outside: a group or session that it shares with the caller */
	return getpgid(0) == 0 || getsid(0) == 0;
}

WALL("P9-limit-init", p9_limit, "seccomp", "the limits of pid 1 can not be changed")
{
	struct rlimit r = {.rlim_cur = 3, .rlim_max = 3};

	return failed(prlimit(1, RLIMIT_NOFILE, &r, NULL));
}

ALONE("P9-signal-all", p9_all, "pidns", "",
    "a signal to all ends what is inside, and nothing outside")
{
	(void)kill(-1, SIGKILL);
	return REFUSED;
}

ALONE("P10-core", p10_core, "reset", "--workspace @ws",
    "a crash writes no core file, and starts no handler of the host's")
{
	pid_t pid = fork();
	int st = 0;

	if (pid == 0) {
		struct rlimit r = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

		(void)setrlimit(RLIMIT_CORE, &r);
		(void)prctl(PR_SET_DUMPABLE, 1);
		(void)chdir("/work");
		abort();
	}
	(void)waitpid(pid, &st, 0);
	return WCOREDUMP(st) || access("/work/core", F_OK) == 0;
}
