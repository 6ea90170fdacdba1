/*
 * The child enters its root: mounts the filled tmpfs over the host's root in its own mount
 * namespace, everything else below it, and lets go of the host's tree. Runs with all capabilities
 * of its own user namespace, before anything foreign.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/banned.h"

#define SAFE (MS_NOSUID | MS_NODEV)

int
native_attach(int fd, const char *inside, struct err *err)
{
	if (move_mount(fd, "", AT_FDCWD, inside, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: mount at /%s", inside);
	return 0;
}

static int
tmpfs_at(const char *inside, unsigned mib, const char *mode, unsigned long flags, int *ret_fd,
    struct err *err)
{
	char options[96];

	(void)snprintf(options, sizeof(options), "size=%um,nr_inodes=%llu,mode=%s", mib,
	    mib * 1024ull + 1024, mode);
	if (mount("tmpfs", inside, "tmpfs", SAFE | flags, options) != 0)
		return native_missing(err, errno, "a tmpfs", "the kernel needs CONFIG_TMPFS");
	if (ret_fd != NULL && (*ret_fd = open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /%s", inside);
	return 0;
}

/* The host's tree is below us from here on. */
static int
root_attach(const struct native_view *v, struct err *err)
{
	if (move_mount(v->root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
	    fchdir(v->root) != 0)
		return native_missing(err, errno, "a mount namespace",
		    "the kernel must be 5.12 or later and let this user make mount namespaces");
	return 0;
}

/* Only this mount lets device nodes work: what it holds was made by us, and it is read-only. */
static int
devices_attach(const struct native_view *v, struct err *err)
{
	struct mount_attr a = {
	    .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	AUTO_FD int fd = -1;

	if (!v->nodes)
		return 0;
	fd = open_tree(AT_FDCWD, "dev", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &a, sizeof(a)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /dev");
	return native_attach(fd, "dev", err);
}

static int
sources_attach(const struct super_spec *spec, struct native_view *v, struct err *err)
{
	for (size_t i = 0; i < v->n; i++) {
		int rc;

		if (v->s[i].fd < 0 || i == v->etc || (i == v->workspace && spec->overlay))
			continue;
		if ((rc = native_attach(v->s[i].fd, v->s[i].inside, err)) != 0)
			return rc;
	}
	return native_overlay_etc(v, err);
}

static int
work_mount(const struct super_spec *spec, struct native_view *v, struct err *err)
{
	unsigned mib = spec->limits.workspace_mib;

	if (spec->workspace == NULL)
		return tmpfs_at("work", mib, "755", 0, &v->work, err);
	if (spec->overlay)
		return native_overlay_work(mib, v, err);
	v->work = open("work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return v->work >= 0 ? 0 : err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /work");
}

static int
leave_host(struct err *err)
{
	if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 ||
	    chdir("/work") != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: pivot_root");
	return 0;
}

int
native_root_enter(const struct super_spec *spec, struct native_view *v, struct err *err)
{
	struct mount_attr ro = {
	    .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	unsigned mib = spec->limits.workspace_mib;
	int rc;

	/* A user namespace's mounts do not reach the host's; without one this must be said. */
	if (native_layer_off("userns") && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: private mounts");
#ifdef SANDBOX_TEST_LAYERS
	if (native_layer_off("pidns") && (rc = native_layer_proc(true, err)) != 0)
		return rc;
#endif
	if ((rc = root_attach(v, err)) != 0 || (rc = devices_attach(v, err)) != 0)
		return rc;
	/* From here copies of parts of it are read-only, too. */
	if (mount_setattr(AT_FDCWD, ".", 0, &ro, sizeof(ro)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: read-only root");
	if ((rc = sources_attach(spec, v, err)) != 0 ||
	    (rc = tmpfs_at("tmp", mib, "1777", 0, &v->tmp, err)) != 0 ||
	    (rc = tmpfs_at("dev/shm", NATIVE_SHM_MIB, "1777", MS_NOEXEC, NULL, err)) != 0 ||
	    (rc = work_mount(spec, v, err)) != 0 || (rc = native_proc_mount(err)) != 0)
		return rc;
	if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620") != 0)
		return native_missing(err, errno, "terminals of its own (devpts)",
		    "the kernel needs CONFIG_UNIX98_PTYS");
	return leave_host(err);
}
