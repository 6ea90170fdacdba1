/*
 * What this host has of what a full native sandbox needs, row by row, for `cofferdam doctor` (the
 * command line, as the person who types it). Reads the kernel's own files and tries what can be
 * tried in children that end at once; changes nothing.
 */
#include "agent/sandbox/native_doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "agent/sandbox/native.h"

#include "common/banned.h"

#define NEEDED true
#define USERNS_FIX \
	"let you make user namespaces: by sysctl, or in AppArmor by a profile with \"userns\""

#define LIMITS_FIX \
	"start it as root, or so: systemd-run --user --scope -p Delegate=yes cofferdam ..."

struct doctor {
	native_doctor_fn *row;
	void *arg;
};

static void
row(const struct doctor *d, const char *name, bool ok, bool needed, const char *found,
    const char *fix)
{
	d->row(d->arg, name, ok, needed, found, ok ? "" : fix);
}

/* The first line of a small file; "" when it is not there. */
static const char *
line_of(const char *path, char out[256])
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, 255) : 0;

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return out;
}

/* Runs fn in a child of its own; 0, or the errno that it exited with. */
static int
try(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (pid < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static void
tried(const struct doctor *d, const char *name, int (*fn)(void), bool needed, const char *fix)
{
	int rc = try(fn);

	row(d, name, rc == 0, needed, rc == 0 ? "tried: it works" : strerror(rc), fix);
}

static int
file_put(const char *file, const char *text)
{
	AUTO_FD int fd = open(file, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	return fd >= 0 && write(fd, text, n) == (ssize_t)n ? 0 : errno;
}

static int
map_put(const char *file, unsigned id)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "0 %u 1", id);
	return file_put(file, text);
}

/* --- tried in children ---------------------------------------------------------------- */

static int
try_userns(void)
{
	unsigned uid = geteuid(), gid = getegid();
	int rc;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return errno;
	rc = map_put("/proc/self/uid_map", uid);
	if (rc == 0)
		rc = file_put("/proc/self/setgroups", "deny");
	return rc == 0 ? map_put("/proc/self/gid_map", gid) : rc;
}

static int
try_namespaces(void)
{
	int rc = try_userns();

	if (rc != 0)
		return rc;
	return unshare(
		   CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) == 0
		   ? 0
		   : errno;
}

static int
try_mounts(void)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY};
	int rc = try_userns(), fd;

	if (rc != 0)
		return rc;
	fd = open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) != 0 ||
	    move_mount(fd, "", AT_FDCWD, "/usr", MOVE_MOUNT_F_EMPTY_PATH) != 0)
		return errno;
	return 0;
}

static int
tmpfs_over(const char *at)
{
	int rc = try_userns();

	if (rc != 0)
		return rc;
	return mount("tmpfs", at, "tmpfs", 0, "size=1m,mode=755") == 0 ? 0 : errno;
}

static int
try_overlay(void)
{
	int rc = tmpfs_over("/usr");

	if (rc != 0)
		return rc;
	if (mkdir("/usr/l", 0755) != 0 || mkdir("/usr/u", 0755) != 0 ||
	    mkdir("/usr/w", 0755) != 0 || mkdir("/usr/m", 0755) != 0 ||
	    mount("overlay", "/usr/m", "overlay", 0,
		"lowerdir=/usr/l,upperdir=/usr/u,workdir=/usr/w,userxattr") != 0)
		return errno;
	return 0;
}

static int
try_devpts(void)
{
	int rc = tmpfs_over("/usr");

	if (rc != 0)
		return rc;
	return mount("devpts", "/usr", "devpts", 0, "newinstance,ptmxmode=0666") == 0 ? 0 : errno;
}

/* As the supervisor does for a workspace of another owner: root alone needs it. */
static int
try_idmap(void)
{
	AUTO_FD int fd = open_tree(AT_FDCWD, "/var/tmp", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct err e = {0};

	if (fd < 0)
		return errno;
	return native_idmap(fd, "/var/tmp", native_uid_example(), 0, &e) == 0 ? 0 : EOPNOTSUPP;
}

static int
try_proc_child(void)
{
	/* First process of a new pid namespace. */
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2") == 0
		   ? 0
		   : errno;
}

static int
try_proc(void)
{
	int rc = try_userns();

	if (rc != 0)
		return rc;
	if (unshare(CLONE_NEWPID) != 0)
		return errno;
	return try(try_proc_child);
}

static int
try_notify(void)
{
	struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog prog = {.len = 1, .filter = allow};
	unsigned action = SECCOMP_RET_USER_NOTIF;

	if (syscall(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog) <
		0)
		return errno;
	return 0;
}

/* --- rows ----------------------------------------------------------------------------- */

static void
kernel_rows(const struct doctor *d)
{
	struct utsname u = {0};
	char text[64];
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)uname(&u);
	row(d, "kernel", true, NEEDED, u.release, "");
	(void)snprintf(text, sizeof(text), "ABI %ld", abi);
	row(d, "Landlock", abi >= 1, NEEDED, abi >= 1 ? text : strerror(errno),
	    "boot with landlock in the list of the kernel parameter lsm= (Linux 5.13 or later)");
	if (abi >= 1)
		row(d, "Landlock: signals and abstract sockets", abi >= 6, false, text,
		    "Linux 6.12 or later; the namespaces hold them without it");
	row(d, "pidfd", pidfd >= 0, NEEDED, pidfd >= 0 ? "there" : strerror(errno),
	    "Linux 5.4 or later");
	if (pidfd >= 0)
		(void)close(pidfd);
	tried(d, "seccomp with notifications", try_notify, NEEDED,
	    "the kernel needs CONFIG_SECCOMP_FILTER, 5.5 or later; in a container: a seccomp "
	    "profile that lets seccomp(2) pass");
}

static void
sysctl_row(
    const struct doctor *d, const char *name, const char *path, bool zero_is_good, const char *fix)
{
	char room[256];
	const char *v = line_of(path, room);

	if (*v == '\0')
		return; /* this kernel does not have it, so it forbids nothing */
	row(d, name, (strcmp(v, "0") == 0) == zero_is_good, geteuid() != 0, v, fix);
}

static void
namespace_rows(const struct doctor *d)
{
	sysctl_row(d, "user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", false,
	    "sysctl -w user.max_user_namespaces=15000");
	sysctl_row(d, "kernel.unprivileged_userns_clone",
	    "/proc/sys/kernel/unprivileged_userns_clone", false,
	    "sysctl -w kernel.unprivileged_userns_clone=1");
	sysctl_row(d, "kernel.apparmor_restrict_unprivileged_userns",
	    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", true,
	    "an AppArmor profile for cofferdam with \"userns\"");
	tried(d, "user namespaces", try_userns, NEEDED, USERNS_FIX);
	tried(d, "pid, net, ipc, uts and cgroup namespaces", try_namespaces, NEEDED, USERNS_FIX);
	tried(d, "open_tree, move_mount, mount_setattr", try_mounts, NEEDED,
	    "Linux 5.12 or later; in a container: a seccomp profile that lets them pass");
	tried(d, "an own /proc", try_proc, NEEDED,
	    "in a container: start that with an unmasked /proc, e.g. --security-opt "
	    "systempaths=unconfined");
	tried(d, "terminals (devpts)", try_devpts, NEEDED, "the kernel needs CONFIG_UNIX98_PTYS");
	tried(d, "overlayfs in a user namespace", try_overlay, false,
	    "modprobe overlay (Linux 5.11 or later); only --overlay and images need it");
	if (geteuid() == 0)
		tried(d, "id-mapped mounts", try_idmap, false,
		    "Linux 5.12 or later, and the workspace on ext4, xfs, btrfs or tmpfs; or start "
		    "as the user who owns the workspace");
}

static void
cgroup_rows(const struct doctor *d)
{
	struct sandbox_limits l = sandbox_limits_default();
	struct native_cgroup c = {0};
	struct err e = {0};
	unsigned lacks = 0;
	const struct native_group *f;
	bool ok = native_cgroup_create(&l, SANDBOX_LAYER_FREEZER, &c, &lacks, &e) == 0;
	char found[128];

	(void)snprintf(found, sizeof(found), "cgroup version %d: memory, pids, cpu%s", c.version,
	    c.swap_counted ? "" : "; swap is not counted");
	row(d, "limits", ok, NEEDED, ok ? found : e.msg, LIMITS_FIX);
	f = native_cgroup_role(&c, NATIVE_FREEZE);
	(void)snprintf(found, sizeof(found), "cgroup version %d", f != NULL ? f->version : 0);
	row(d, "freezer", f != NULL, NEEDED, f != NULL ? found : "not to be had", LIMITS_FIX);
	native_cgroup_remove(&c);
}

static void
memory_row(const struct doctor *d)
{
	struct sandbox_limits l = sandbox_limits_default();
	struct sysinfo s = {0};
	char found[96];
	uint64_t mib;

	(void)sysinfo(&s);
	mib = (uint64_t)s.totalram * s.mem_unit >> 20;
	(void)snprintf(found, sizeof(found), "%llu MiB, %u for one sandbox",
	    (unsigned long long)mib, l.memory_mib);
	row(d, "memory", mib > l.memory_mib, false, found,
	    "/work and /tmp are in memory: give a sandbox less (--memory, --disk)");
}

/* --- OCI run times --------------------------------------------------------------------- */

/* What `program --version` says first, within `size`; "" when it says nothing. */
static void
version_of(const char *program, char *out, size_t size)
{
	char flag[] = "--version", *argv[] = {(char *)(uintptr_t)program, flag, NULL};
	char *envp[] = {NULL};
	ssize_t n = 0, k;
	int p[2];
	pid_t pid;

	out[0] = '\0';
	if (pipe2(p, O_CLOEXEC) != 0)
		return;
	pid = fork();
	if (pid == 0) {
		(void)dup2(p[1], 1);
		(void)execve(program, argv, envp);
		_exit(127);
	}
	(void)close(p[1]);
	while (n < (ssize_t)size - 1 && (k = read(p[0], out + n, size - 1 - (size_t)n)) > 0)
		n += k;
	(void)close(p[0]);
	out[n] = '\0';
	out[strcspn(out, "\n")] = '\0';
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

static void
runtime_row(const struct doctor *d, const char *name)
{
	struct str rest = str_z(getenv("PATH")), one;
	char path[512], found[768], version[128], fix[128];
	bool more = true;

	(void)snprintf(fix, sizeof(fix), "apt install %s: only --backend %s needs it", name, name);
	while (more) {
		more = str_cut(&rest, ':', &one);
		if (!more)
			one = rest;
		if (one.n == 0 || one.p[0] != '/')
			continue;
		(void)snprintf(path, sizeof(path), "%.*s/%s", STR_ARG(one), name);
		if (access(path, X_OK) != 0)
			continue;
		version_of(path, version, sizeof(version));
		(void)snprintf(found, sizeof(found), "%s: %s", path, version);
		row(d, name, true, false, found, "");
		return;
	}
	row(d, name, false, false, "not in PATH", fix);
}

void
native_doctor(native_doctor_fn *fn, void *arg)
{
	static const char *const runtimes[] = {"crun", "runc", "runsc"};
	const struct doctor d = {fn, arg};

	kernel_rows(&d);
	namespace_rows(&d);
	cgroup_rows(&d);
	memory_row(&d);
	for (size_t i = 0; i < ARRAY_LEN(runtimes); i++)
		runtime_row(&d, runtimes[i]);
}
