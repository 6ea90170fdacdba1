/*
 * Who the code inside is and what it has inherited (I1 to I10). Started by a parent that leaves it
 * as much as it can: descriptors, secrets in the environment, a signal mask, a umask.
 */
#include <dirent.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/walls/walls.h"

#define ZERO16 "0000000000000000"

/* True unless /proc/self/status says `name` is `want`. */
static int
status_is_not(const char *name, const char *want)
{
	char *p;

	if (!slurp("/proc/self/status", room, sizeof(room)) || (p = strstr(room, name)) == NULL)
		return REACHED;
	p += strlen(name);
	p += strspn(p, " \t");
	p[strcspn(p, "\n")] = '\0';
	detail("%s %s", name + 1, p);
	return strcmp(p, want) != 0;
}

#define STATUS(id_, fn_, layers_, name_, want_, what_)       \
	WALL(id_, fn_, layers_, what_)                       \
	{                                                    \
		return status_is_not("\n" name_ ":", want_); \
	}
STATUS("I1-effective", i1_eff, "caps", "CapEff", ZERO16, "no capability is effective")
STATUS("I1-permitted", i1_prm, "caps", "CapPrm", ZERO16, "no capability is permitted")
STATUS("I1-inheritable", i1_inh, "caps", "CapInh", ZERO16, "no capability is inheritable")
STATUS("I1-bounding", i1_bnd, "caps", "CapBnd", ZERO16, "no capability is in the bounding set")
STATUS("I1-ambient", i1_amb, "caps", "CapAmb", ZERO16, "no capability is ambient")
STATUS("I2-no-new-privileges", i2_nnp, "caps", "NoNewPrivs", "1", "no_new_privs is set")
STATUS("I3-mode", i3_mode, "seccomp", "Seccomp", "2", "a system call filter is in force")
STATUS("I7-blocked", i7_blocked, "reset", "SigBlk", ZERO16, "no signal of the caller's is blocked")
STATUS("I7-ignored", i7_ignored, "reset", "SigIgn", ZERO16, "no signal of the caller's is ignored")
STATUS("I10-uid", i10_uid, "userns", "Uid", "1000\t1000\t1000\t1000",
    "the user is a plain one, in all four ids")
STATUS("I10-gid", i10_gid, "userns", "Gid", "1000\t1000\t1000\t1000",
    "so is the group, in all four ids")

WALL("I1-raise", i1_raise, "caps", "a capability can not be made ambient or permitted again")
{
	struct {
		uint32_t version;
		int pid;
	} h = {0x20080522, 0};
	uint32_t all[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};

	return failed(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0)) ||
	       failed(syscall(SYS_capset, &h, all));
}

WALL("I2-clear", i2_clear, "caps", "no_new_privs can not be taken back")
{
	return failed(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static int
run_inner(const char *path)
{
	int st;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl(path, path, "inner", (char *)NULL);
		_exit(0);
	}
	(void)waitpid(pid, &st, 0);
	detail("%s: status %#x", path, (unsigned)st);
	return WIFEXITED(st) ? WEXITSTATUS(st) != 0 : WTERMSIG(st) != SIGSYS;
}

WALL("I2-setuid-program", i2_setuid, "caps mounts userns", "a setuid root program gives nothing")
{
	const char *p = canary("suid", 0);

	return p == NULL ? SKIPPED : run_inner(p);
}

WALL("I2-file-capabilities", i2_filecaps, "caps mounts userns",
    "a program with file capabilities gives nothing")
{
	const char *p = canary("fcap", 0);

	return p == NULL ? SKIPPED : run_inner(p);
}

WALL("I3-count", i3_count, "seccomp", "there are exactly our filters")
{
	const char *want = canary("filters", 0);

	return want == NULL ? SKIPPED : status_is_not("\nSeccomp_filters:", want);
}

WALL("I3-own-filter", i3_own, "seccomp", "a filter of its own that allows all takes nothing away")
{
	struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog prog = {1, &all};

	(void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	return filtered(syscall(SYS_ptrace, 0, 0, 0, 0)) ||
	       filtered(syscall(SYS_keyctl, 0, -3, 0, 0, 0));
}

WALL("I4-environment", i4_env, "reset",
    "the environment has known names, and no secret of the caller's")
{
	static const char *const allowed[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG",
	    "TMPDIR", "TERM", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"};
	extern char **environ;
	const char *secret = canary("secret", 0);

	for (char **e = environ; *e != NULL; e++) {
		bool known = false;

		for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
			size_t n = strlen(allowed[i]);

			known |= strncmp(*e, allowed[i], n) == 0 && (*e)[n] == '=';
		}
		detail("%.200s", *e);
		if (!known || (secret != NULL && strstr(*e, secret) != NULL))
			return REACHED;
	}
	return REFUSED;
}

WALL("I5-descriptors", i5_fds, "reset", "no descriptor from 3 to 65535 is open")
{
	for (int fd = 3; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			detail("fd %d", fd);
			return REACHED;
		}
	return REFUSED;
}

WALL("I5-descriptor-parent", i5_parent, "mounts reset",
    "no path leads out through an open descriptor")
{
	for (int fd = 0; fd < 1024; fd++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/../../etc/shadow", fd);
		if (open(path, O_RDONLY) >= 0)
			return failed(0);
		if (openat(fd, "etc/shadow", O_RDONLY) >= 0 ||
		    openat(fd, "../../../etc/shadow", O_RDONLY) >= 0)
			return failed(0);
	}
	return REFUSED;
}

WALL(
    "I6-directory", i6_cwd, "reset mounts", "the working directory is /work, as everything sees it")
{
	char now[4096], link[4096] = "";

	if (getcwd(now, sizeof(now)) == NULL ||
	    readlink("/proc/self/cwd", link, sizeof(link) - 1) < 0)
		return REACHED;
	detail("%.200s %.200s", now, link);
	return strcmp(now, "/work") != 0 || strcmp(link, "/work") != 0;
}

WALL("I7-umask", i7_umask, "reset", "the umask is 022")
{
	return umask(0) != 022;
}

WALL("I7-nice", i7_nice, "reset", "the priority is no higher than the ordinary one")
{
	return getpriority(PRIO_PROCESS, 0) < 0;
}

WALL("I7-core-limit", i7_core, "reset", "core files are off, and can not be put on")
{
	struct rlimit r = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};

	return failed(setrlimit(RLIMIT_CORE, &r)) || getrlimit(RLIMIT_CORE, &r) != 0 ||
	       r.rlim_max != 0;
}

WALL("I7-limits-raise", i7_raise, "reset", "no hard limit can be raised")
{
	struct rlimit r = {.rlim_cur = 1u << 20, .rlim_max = 1u << 20};

	return failed(setrlimit(RLIMIT_NOFILE, &r)) || failed(setrlimit(RLIMIT_RTPRIO, &r)) ||
	       failed(setrlimit(RLIMIT_NICE, &r)) || failed(setrlimit(RLIMIT_SIGPENDING, &r));
}

WALL("I7-timer-slack", i7_slack, "reset", "the timer slack is the kernel's own")
{
	return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) != 50000;
}

WALL("I7-oom-score", i7_oom, "reset caps", "it can not make others die of memory before itself")
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (!slurp("/proc/self/oom_score_adj", room, sizeof(room)) || atoi(room) < 0)
		return REACHED;
	return fd >= 0 && failed(write(fd, "-900", 4));
}

WALL("I8-groups", i8_groups, "userns", "no supplementary group is left")
{
	gid_t g[64];
	int n = getgroups(64, g);

	detail("%d groups", n);
	/* An ordinary user's groups cannot be dropped; they show as the overflow id. */
	for (int i = 0; i < n; i++)
		if (g[i] != 1000 && g[i] != 65534)
			return REACHED;
	return n > 0 && canary("root", 0) != NULL && !(n == 1 && g[0] == 1000);
}

WALL("I8-groups-set", i8_set, "caps userns", "no group can be taken")
{
	gid_t g = 0, h = 6;

	return failed(setgroups(1, &g)) || failed(setgroups(1, &h)) || failed(setresgid(0, 0, 0));
}

CALL("I9-keyctl", i9_keyctl, "no keyring is reached by keyctl", SYS_keyctl, 0, -3, 0, 0, 0)
CALL("I9-add-key", i9_add_key, "no key can be added", SYS_add_key, BAD, BAD, BAD, 1, -2)
CALL(
    "I9-request-key", i9_request_key, "no key can be asked for", SYS_request_key, BAD, BAD, BAD, -2)

WALL("I9-session-key", i9_session, "seccomp reset userns",
    "the key in the caller's session keyring is not found")
{
	const char *name = canary("key", 0);

	if (name == NULL)
		return SKIPPED;
	return failed(syscall(SYS_keyctl, 10 /* SEARCH */, -3, "userns", name, 0)) ||
	       failed(syscall(SYS_request_key, "userns", name, NULL, 0));
}

WALL("I10-small-pid", i10_pid, "pidns", "process numbers are the sandbox's own")
{
	detail("pid %d, parent %d", getpid(), getppid());
	return getpid() > 2000;
}

WALL("I10-root", i10_root, "userns caps", "the user can not become root or another")
{
	return failed(setresuid(0, 0, 0)) || failed(setuid(0)) || failed(setreuid(1001, 1001)) ||
	       failed(setfsuid(0) == 0 && setfsuid(-1u) == 0 ? 0 : -1);
}

WALL("I10-map", i10_map, "userns", "root of the host is not in the map of users")
{
	unsigned long in, out, n;
	char *p = room, *end;

	if (!slurp("/proc/self/uid_map", room, sizeof(room)))
		return REACHED;
	for (; *p != '\0'; p = *end == '\n' ? end + 1 : end) {
		in = strtoul(p, &end, 10);
		out = strtoul(end, &end, 10);
		n = strtoul(end, &end, 10);
		detail("%lu %lu %lu", in, out, n);
		if (n == 0 || n > 65536 || (out == 0 && canary("root", 0) != NULL))
			return REACHED;
		end += strspn(end, " ");
	}
	return REFUSED;
}
