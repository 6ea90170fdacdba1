/*
 * Fills the new root, a tmpfs that is mounted nowhere yet: directories, links, device nodes, /etc
 * and the places for mounts. Runs in the supervisor when that is root (the sandbox's user then owns
 * nothing of it), else in the child. It is ours alone, and what is looked up in it does not follow
 * links or leave it even if that were wrong.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/banned.h"

/*
 * All parents of a mount point, then the point itself. RESOLVE_BENEATH and NO_SYMLINKS hold it in
 * the root.
 */
int
native_point_make(int root, const char *inside, bool dir, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_DIRECTORY,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	AUTO_FD int parent = -1;
	int at = root, rc;
	const char *part = inside, *slash;

	while ((slash = strchr(part, '/')) != NULL) {
		char name[NAME_MAX + 1];
		int next;

		if ((size_t)(slash - part) >= sizeof(name))
			return err_set(err, ERR_INVALID, "sandbox: mount point /%s", inside);
		memcpy(name, part, (size_t)(slash - part));
		name[slash - part] = '\0';
		if (mkdirat(at, name, 0755) != 0 && errno != EEXIST)
			break;
		next = (int)syscall(SYS_openat2, at, name, &how, sizeof(how));
		if (next < 0)
			break;
		if (parent >= 0)
			(void)close(parent);
		at = parent = next;
		part = slash + 1;
	}
	if (slash != NULL)
		return err_sys(err, ERR_INVALID, errno, "sandbox: mount point /%s", inside);
	rc = dir ? mkdirat(at, part, 0755) : mknodat(at, part, S_IFREG | 0644, 0);
	if (rc != 0 && errno != EEXIST)
		return err_sys(err, ERR_INVALID, errno, "sandbox: mount point /%s", inside);
	return 0;
}

static int
etc_file(void *arg, const char *path, struct str content, struct err *err)
{
	const struct native_view *v = arg;
	AUTO_FD int fd = -1;
	size_t off = 0;

	if (content.p == NULL)
		return mkdirat(v->root, path, 0755) == 0 || errno == EEXIST
			   ? 0
			   : err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", path);
	fd = openat(v->root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", path);
	while (off < content.n) {
		ssize_t k = write(fd, content.p + off, content.n - off);

		if (k < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", path);
		off += k > 0 ? (size_t)k : 0;
	}
	return 0;
}

static int
etc_link(void *arg, const char *path, const char *to, struct err *err)
{
	const struct native_view *v = arg;

	if (symlinkat(to, v->root, path) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /%s", path);
	return 0;
}

static int
links_make(const struct super_spec *spec, const struct native_view *v, struct err *err)
{
	static const struct native_link rows[] = {{"dev/fd", "/proc/self/fd"},
	    {"dev/stdin", "/proc/self/fd/0"}, {"dev/stdout", "/proc/self/fd/1"},
	    {"dev/stderr", "/proc/self/fd/2"}, {"dev/ptmx", "pts/ptmx"}, {"var/tmp", "/tmp"},
	    {"var/run", "/run"}};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < v->nlinks; i++)
		rc = etc_link((void *)(uintptr_t)v, v->links[i].inside, v->links[i].to, err);
	/* An image has its own /var. */
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rows) - (spec->image != NULL ? 2 : 0); i++)
		rc = etc_link((void *)(uintptr_t)v, rows[i].inside, rows[i].to, err);
	if (rc == 0 && spec->home)
		rc = etc_link((void *)(uintptr_t)v, "home/user", "/work", err);
	return rc;
}

/* Where the host lets us; else they are mounts of the host's own. */
static bool
nodes_make(const struct native_view *v)
{
	static const struct {
		const char *path;
		unsigned minor, major;
	} rows[] = {{"dev/null", 3, 1}, {"dev/zero", 5, 1}, {"dev/full", 7, 1},
	    {"dev/random", 8, 1}, {"dev/urandom", 9, 1}, {"dev/tty", 0, 5}};
	mode_t mask = umask(0);
	bool ok = true;

	for (size_t i = 0; ok && i < ARRAY_LEN(rows); i++)
		ok = mknodat(v->root, rows[i].path, S_IFCHR | 0666,
			 makedev(rows[i].major, rows[i].minor)) == 0;
	(void)umask(mask);
	return ok;
}

int
native_root_fill(const struct super_spec *spec, struct native_view *v, bool nodes, struct err *err)
{
	static const char *const rows[] = {"etc", "dev", "dev/shm", "dev/pts", "proc", "tmp",
	    "work", "run", "opt", "srv", "mnt", "home", "var"};
	mode_t mask = umask(022);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rows); i++)
		if (mkdirat(v->root, rows[i], 0755) != 0)
			rc =
			    err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: directory /%s", rows[i]);
	if (rc == 0)
		rc = links_make(spec, v, err);
	if (rc == 0)
		rc = backend_etc(spec, etc_file, etc_link, v, err);
	(void)umask(mask);
	v->nodes = rc == 0 && nodes && nodes_make(v);
	return rc;
}
