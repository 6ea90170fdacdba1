/*
 * As root: the workspace's owner on disk is the agent inside, and new files are the owner's. Runs
 * in the supervisor, on a detached mount.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

static int
map_write(pid_t pid, const char *file, const char *text)
{
	AUTO_FD int fd = -1;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

/* Stands in the new namespace until its pipe closes. Beside the supervisor: raw calls only. */
static int
holder_main(void *arg)
{
	const int *hold = arg;
	char c;

	(void)RAW(SYS_close, hold[1]);
	while (RAW(SYS_read, hold[0], &c, 1) == -EINTR)
		continue;
	return 0;
}

int
native_userns_make(const char *users, const char *groups, int *ret, struct err *err)
{
	struct clone_args a = {.flags = CLONE_NEWUSER};
	struct native_region r = {0};
	char path[64];
	int hold[2], rc;
	pid_t pid;

	if ((rc = native_region_make(16 << 10, 0, &r, err)) != 0)
		return rc;
	if (pipe2(hold, O_CLOEXEC) != 0) {
		native_region_free(&r);
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pipe");
	}
	pid = native_spawn(&r, &a, holder_main, hold);
	(void)close(hold[0]);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	rc = pid < 0 ? (int)pid : map_write(pid, "uid_map", users);
	if (rc == 0)
		rc = map_write(pid, "gid_map", groups);
	if (rc == 0 && (*ret = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		rc = -errno;
	(void)close(hold[1]);
	while (pid > 0 && waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
		continue;
	native_region_free(&r);
	return rc == 0 ? 0 : err_sys(err, ERR_SYSTEM, -rc, "sandbox: id map of a user namespace");
}

static void
map_text(char *out, size_t size, unsigned disk, uid_t outside, uid_t maker)
{
	int n = snprintf(out, size, "%u %u 1\n", disk, outside);

	if (maker != 0 && maker != disk)
		(void)snprintf(out + n, size - (size_t)n, "%u %u 1\n", maker, maker);
}

int
native_idmap(int mount, const char *host, uid_t outside, uid_t maker, struct err *err)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP};
	char users[64], groups[64];
	AUTO_FD int ns = -1;
	struct stat st;
	int rc;

	if (fstat(mount, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: workspace %s", host);
	if (st.st_uid == outside)
		return 0;
	/* It only carries the map: on-disk owner <-> the sandbox's host id. */
	map_text(users, sizeof(users), st.st_uid, outside, maker);
	map_text(groups, sizeof(groups), st.st_gid, outside, maker);
	if ((rc = native_userns_make(users, groups, &ns, err)) != 0)
		return rc;
	a.userns_fd = (unsigned)ns;
	if (mount_setattr(mount, "", AT_EMPTY_PATH, &a, sizeof(a)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno,
		    "sandbox: workspace %s: its file system cannot be mounted with other owners: "
		    "use a directory on ext4, xfs, btrfs or tmpfs, or start as the user who owns "
		    "it",
		    host);
	return 0;
}
