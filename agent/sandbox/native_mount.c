/*
 * The view of the file system: a fresh tmpfs with detached, read-only copies of the
 * host's program directories and nothing of its data. Sources are opened by the launcher
 * when it is root (the child is then an unprivileged host id), else by the child itself.
 * Mount points are made only in directories that nobody else can write. Never follows a
 * link at a destination.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define ATTR_RO (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define ATTR_TMP (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define ATTR_PROC (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* Files of the host's /etc that programs need and that hold no secret. */
static const struct native_source fixed[] = {
    {.host = "/usr", .inside = "usr", .dir = true, .exec = true},
    {.host = "/etc/alternatives", .inside = "etc/alternatives", .dir = true, .optional = true},
    {.host = "/etc/ld.so.cache", .inside = "etc/ld.so.cache", .optional = true},
    {.host = "/etc/localtime", .inside = "etc/localtime", .optional = true},
    {.host = "/etc/services", .inside = "etc/services", .optional = true},
    {.host = "/etc/protocols", .inside = "etc/protocols", .optional = true},
    {.host = "/etc/mime.types", .inside = "etc/mime.types", .optional = true},
    {.host = "/etc/ssl/openssl.cnf", .inside = "etc/ssl/openssl.cnf", .optional = true},
    {.host = "/etc/java-17-openjdk",
	.inside = "etc/java-17-openjdk",
	.dir = true,
	.optional = true},
    {.host = "/etc/java-21-openjdk",
	.inside = "etc/java-21-openjdk",
	.dir = true,
	.optional = true},
    {.host = "/dev/null", .inside = "dev/null", .device = true},
    {.host = "/dev/zero", .inside = "dev/zero", .device = true},
    {.host = "/dev/full", .inside = "dev/full", .device = true},
    {.host = "/dev/random", .inside = "dev/random", .device = true},
    {.host = "/dev/urandom", .inside = "dev/urandom", .device = true},
    {.host = "/dev/tty", .inside = "dev/tty", .device = true, .optional = true},
};

static void
source_add(struct native_view *v, struct native_source s)
{
	if (v->n < NATIVE_SOURCES_MAX) {
		s.fd = -1;
		v->s[v->n++] = s;
	}
}

/* A link on the host stays a link; a directory (before the /usr merge) is seen as one. */
static void
top_dirs_add(struct native_view *v)
{
	static const char *const top[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(top); i++)
		if (lstat(top[i], &st) == 0 && S_ISDIR(st.st_mode))
			source_add(v,
			    (struct native_source){
				.host = top[i], .inside = top[i] + 1, .dir = true, .exec = true});
}

int
native_view_plan(const struct native_spec *spec, struct native_view *v, struct err *err)
{
	struct stat st;

	*v = (struct native_view){0};
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		source_add(v, fixed[i]);
	top_dirs_add(v);
	for (size_t i = 0; i < spec->nbinds; i++) {
		const struct native_bind *b = &spec->binds[i];

		if (stat(b->host_path, &st) != 0)
			return err_sys(err, ERR_INVALID, errno, "sandbox: bind %s", b->host_path);
		source_add(v, (struct native_source){.host = b->host_path,
				  .inside = b->inside + 1,
				  .dir = S_ISDIR(st.st_mode),
				  .exec = true});
	}
	if (spec->workspace == NULL)
		return 0;
	if (lstat(spec->workspace, &st) != 0 || !S_ISDIR(st.st_mode))
		return err_sys(err, ERR_INVALID, errno != 0 ? errno : ENOTDIR,
		    "sandbox: workspace %s is not a directory", spec->workspace);
	source_add(v, (struct native_source){.host = spec->workspace,
			  .inside = "work",
			  .dir = true,
			  .writable = true,
			  .exec = true});
	return 0;
}

static int
map_write(pid_t pid, const char *file, uid_t inside, uid_t outside)
{
	char path[64], text[64];
	int n = snprintf(text, sizeof(text), "%u %u 1", inside, outside);
	AUTO_FD int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, (size_t)n) == n ? 0 : -errno;
}

/* A user namespace that only carries a map: on-disk owner <-> the sandbox's host id. */
static int
idmap_namespace(const struct stat *st, uid_t outside, int *ret, struct err *err)
{
	char path[64];
	int hold[2], rc;
	pid_t pid;

	if (pipe2(hold, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pipe");
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		char c;

		(void)close(hold[1]);
		(void)!read(hold[0], &c, 1);
		_exit(0);
	}
	(void)close(hold[0]);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	rc = pid < 0 ? -errno : map_write(pid, "uid_map", st->st_uid, outside);
	if (rc == 0)
		rc = map_write(pid, "gid_map", st->st_gid, outside);
	*ret = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	(void)close(hold[1]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (*ret < 0)
		return err_sys(err, ERR_SYSTEM, rc != 0 ? -rc : errno, "sandbox: id map");
	return 0;
}

/* As root: the workspace's owner on disk is the agent inside, and new files are the owner's. */
static int
workspace_idmap(struct native_source *s, uid_t outside, struct err *err)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP};
	AUTO_FD int ns = -1;
	struct stat st;
	int rc;

	if (fstat(s->fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: workspace %s", s->host);
	if (st.st_uid == outside)
		return 0;
	if ((rc = idmap_namespace(&st, outside, &ns, err)) != 0)
		return rc;
	a.userns_fd = (unsigned)ns;
	if (mount_setattr(s->fd, "", AT_EMPTY_PATH, &a, sizeof(a)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno,
		    "sandbox: workspace %s: its file system cannot be mounted with other owners: "
		    "use a directory on ext4, xfs, btrfs or tmpfs, or start as the user who owns "
		    "it",
		    s->host);
	return 0;
}

static int
source_open(struct native_source *s, uid_t idmap_uid, struct err *err)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID, .propagation = MS_PRIVATE};

	s->fd = open_tree(AT_FDCWD, s->host,
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (s->writable ? 0 : AT_RECURSIVE));
	if (s->fd < 0 && s->optional && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (s->fd < 0)
		return native_missing(err, errno, s->host,
		    "the kernel must be 5.12 or later and let this user make mount namespaces");
	a.attr_set |= s->device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV;
	a.attr_set |= s->writable || s->device ? 0 : MOUNT_ATTR_RDONLY;
	a.attr_set |= s->exec ? 0 : MOUNT_ATTR_NOEXEC;
	if (s->writable && idmap_uid != 0) {
		int rc = workspace_idmap(s, idmap_uid, err);

		if (rc != 0)
			return rc;
	}
	if (mount_setattr(s->fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) != 0)
		return err_sys(
		    err, ERR_UNAVAILABLE, errno, "sandbox: read-only view of %s", s->host);
	return 0;
}

int
native_view_open(struct native_view *v, uid_t idmap_uid, struct err *err)
{
	for (size_t i = 0; i < v->n; i++) {
		int rc = source_open(&v->s[i], idmap_uid, err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

void
native_view_close(struct native_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		if (v->s[i].fd >= 0)
			(void)close(v->s[i].fd);
		v->s[i].fd = -1;
	}
}

/* --- in the child --------------------------------------------------------------------- */

static int
fs_make(const char *type, unsigned attr, const char *const *options, int *ret, struct err *err)
{
	AUTO_FD int fs = fsopen(type, FSOPEN_CLOEXEC);

	for (size_t i = 0; fs >= 0 && options != NULL && options[i] != NULL; i += 2)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i], options[i + 1], 0) != 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: %s option %s=%s",
			    type, options[i], options[i + 1]);
	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0 ||
	    (*ret = fsmount(fs, FSMOUNT_CLOEXEC, attr)) < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: mount of %s", type);
	return 0;
}

static int
attach(int fd, const char *inside, struct err *err)
{
	if (move_mount(fd, "", AT_FDCWD, inside, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: mount at /%s", inside);
	return 0;
}

static int
tmpfs_at(const char *inside, unsigned mib, const char *mode, unsigned attr, struct err *err)
{
	char size[24], inodes[24];
	const char *const options[] = {"size", size, "nr_inodes", inodes, "mode", mode, NULL};
	AUTO_FD int fd = -1;
	int rc;

	(void)snprintf(size, sizeof(size), "%um", mib);
	(void)snprintf(inodes, sizeof(inodes), "%llu", mib * 1024ull + 1024);
	if ((rc = fs_make("tmpfs", attr, options, &fd, err)) != 0)
		return rc;
	return attach(fd, inside, err);
}

/*
 * All parents of a destination, then the destination itself. The new root is ours alone
 * until pid 1 starts; RESOLVE_BENEATH and NO_SYMLINKS hold it in even if that were wrong.
 */
static int
mount_point_make(const char *inside, bool dir, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_DIRECTORY,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	AUTO_FREE char *path = xstrdup(inside);
	AUTO_FD int at = open(".", O_PATH | O_CLOEXEC | O_DIRECTORY);
	char *part = path, *slash;

	while ((slash = strchr(part, '/')) != NULL) {
		int next;

		*slash = '\0';
		if (mkdirat(at, part, 0755) != 0 && errno != EEXIST)
			break;
		next = (int)syscall(SYS_openat2, at, part, &how, sizeof(how));
		if (next < 0)
			return err_sys(err, ERR_INVALID, errno, "sandbox: mount point /%s", inside);
		(void)close(at);
		at = next;
		part = slash + 1;
	}
	if (slash == NULL && dir && (mkdirat(at, part, 0755) == 0 || errno == EEXIST))
		return 0;
	if (slash == NULL && !dir) {
		AUTO_FD int fd =
		    openat(at, part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

		if (fd >= 0)
			return 0;
	}
	return err_sys(err, ERR_INVALID, errno, "sandbox: mount point /%s", inside);
}

static int
links_make(struct err *err)
{
	static const char *const top[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
	static const char *const rows[][2] = {{"/proc/self/fd", "dev/fd"},
	    {"/proc/self/fd/0", "dev/stdin"}, {"/proc/self/fd/1", "dev/stdout"},
	    {"/proc/self/fd/2", "dev/stderr"}, {"/tmp", "var/tmp"}, {"/run", "var/run"}};
	char host[16], to[256];

	for (size_t i = 0; i < ARRAY_LEN(top); i++) {
		ssize_t k;

		(void)snprintf(host, sizeof(host), "/%s", top[i]);
		k = readlink(host, to, sizeof(to) - 1);
		if (k <= 0)
			continue;
		to[k] = '\0';
		if (symlink(to, top[i]) != 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: link /%s", top[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (symlink(rows[i][0], rows[i][1]) != 0)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: link /%s", rows[i][1]);
	return 0;
}

/* Kernel state that no program needs; the file rights would hide most of it as well. */
static int
proc_mask(struct err *err)
{
	static const char *const files[] = {"proc/kcore", "proc/keys", "proc/key-users",
	    "proc/kallsyms", "proc/kmsg", "proc/sysrq-trigger", "proc/timer_list",
	    "proc/sched_debug", "proc/latency_stats", "proc/config.gz", "proc/kpagecount",
	    "proc/kpageflags", "proc/kpagecgroup", "proc/modules", "proc/iomem", "proc/ioports",
	    "proc/interrupts", "proc/vmallocinfo", "proc/slabinfo", "proc/cmdline"};
	static const char *const dirs[] = {"proc/acpi", "proc/scsi", "proc/asound", "proc/bus",
	    "proc/fs", "proc/irq", "proc/driver", "proc/tty", "proc/sysvipc"};
	AUTO_FD int empty = -1;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		AUTO_FD int null = -1;

		if (access(files[i], F_OK) != 0)
			continue;
		null = open_tree(AT_FDCWD, "dev/null", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (null < 0)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: mask of %s", files[i]);
		if ((rc = attach(null, files[i], err)) != 0)
			return rc;
	}
	if ((rc = fs_make("tmpfs", ATTR_PROC, NULL, &empty, err)) != 0)
		return rc;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		AUTO_FD int one = -1;

		if (access(dirs[i], F_OK) != 0)
			continue;
		one = open_tree(empty, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		/* Kernels before 6.15 copy only what is mounted somewhere: make each its own. */
		if (one < 0 && (rc = fs_make("tmpfs", ATTR_PROC, NULL, &one, err)) != 0)
			return rc;
		if ((rc = attach(one, dirs[i], err)) != 0)
			return rc;
	}
	return 0;
}

static int
proc_at(const char *inside, struct err *err)
{
	static const char *const options[] = {"hidepid", "2", NULL};
	AUTO_FD int fd = -1;
	int rc;

	if (fs_make("proc", ATTR_PROC, options, &fd, err) != 0)
		return err_wrap(err, "an own /proc (in a container: start that with an unmasked "
				     "/proc, e.g. --security-opt systempaths=unconfined)");
	if ((rc = attach(fd, inside, err)) != 0)
		return rc;
	return proc_mask(err);
}

static int
dirs_make(struct err *err)
{
	static const char *const rows[] = {"etc", "dev", "dev/shm", "proc", "tmp", "work", "var",
	    "run", "opt", "srv", "mnt", "home"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (mkdir(rows[i], 0755) != 0)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: directory /%s", rows[i]);
	return 0;
}

static int
sources_attach(struct native_view *v, struct err *err)
{
	int rc;

	for (size_t i = 0; i < v->n; i++) {
		struct native_source *s = &v->s[i];

		if (s->fd < 0)
			continue;
		if ((rc = mount_point_make(s->inside, s->dir, err)) != 0 ||
		    (rc = attach(s->fd, s->inside, err)) != 0)
			return rc;
	}
	native_view_close(v);
	return 0;
}

int
native_root_enter(const struct native_spec *spec, struct native_view *v, struct err *err)
{
	struct mount_attr ro = {.attr_set = ATTR_RO};
	unsigned mib = spec->limits.workspace_mib;
	int rc;

	/* A mount namespace of our own, so this covers /tmp for nobody else. */
	if ((rc = tmpfs_at("/tmp", 16, "755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err)) != 0)
		return rc;
	if (chdir("/tmp") != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: new root");
	if ((rc = dirs_make(err)) != 0 || (rc = sources_attach(v, err)) != 0 ||
	    (rc = links_make(err)) != 0 || (rc = native_etc_write(spec, err)) != 0 ||
	    (rc = tmpfs_at("tmp", mib, "1777", ATTR_TMP, err)) != 0 ||
	    (rc = tmpfs_at("dev/shm", 64, "1777", ATTR_TMP | MOUNT_ATTR_NOEXEC, err)) != 0 ||
	    (spec->workspace == NULL && (rc = tmpfs_at("work", mib, "755", ATTR_TMP, err)) != 0) ||
	    (rc = proc_at("proc", err)) != 0)
		return rc;
	if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 ||
	    chdir("/") != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: pivot_root");
	if (mount_setattr(AT_FDCWD, "/", 0, &ro, sizeof(ro)) != 0 || chdir("/work") != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: read-only root");
	return 0;
}
