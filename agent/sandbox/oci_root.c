/*
 * Bundle and root file system of a run time. Runs in the child, with the supervisor's rights, in a
 * mount namespace of its own: what is mounted here nobody else sees, and it is gone with its last
 * process. The sources are the native back end's, so the same is seen with the same rights.
 */
#include "agent/sandbox/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/banned.h"

#define SAFE (MS_NOSUID | MS_NODEV)

static int
fail(struct err *err, const char *what)
{
	return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: %s for the run time", what);
}

/*
 * The control groups go out of the run time's sight; the one kind that it insists on goes through
 * /dev/shm, since a mount can be moved to where it is seen only.
 */
static int
home_make(const struct oci *o, struct err *err)
{
	static const char *const dirs[] = {
	    OCI_STATE, OCI_BUNDLE, OCI_ROOT, OCI_SHM, OCI_HOME "/cgroup"};
	AUTO_FD int devices = -1;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return fail(err, "private mounts");
	if (o->devices != NULL &&
	    (devices = open_tree(AT_FDCWD, OCI_DEVICES, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)) < 0)
		return fail(err, OCI_DEVICES);
	while (umount2("/sys/fs/cgroup", MNT_DETACH) == 0)
		continue;
	if (mount("tmpfs", OCI_HOME, "tmpfs", SAFE, "size=32m,nr_inodes=8192,mode=755") != 0)
		return fail(err, "a tmpfs at " OCI_HOME);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) != 0)
			return fail(err, dirs[i]);
	if (o->rt->kernel && chown(OCI_STATE, o->spare.root, o->spare.root) != 0)
		return fail(err, OCI_STATE);
	if (devices < 0)
		return 0;
	/* What it looks for: a tmpfs with nothing in it but groups of version 1. */
	if (mount("tmpfs", OCI_HOME "/cgroup", "tmpfs", SAFE, "size=16k,mode=755") != 0 ||
	    mkdir(OCI_DEVICES, 0755) != 0 ||
	    move_mount(devices, "", AT_FDCWD, OCI_DEVICES, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		return fail(err, OCI_DEVICES);
	return 0;
}

static int
text_write(const char *path, struct str text, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
		return fail(err, path);
	return 0;
}

/* A copy: nothing inside leads to the file that other sandboxes are started from. */
static int
program_copy(int from, const char *path, struct err *err)
{
	AUTO_FD int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	off_t at = 0;
	ssize_t k;

	if (to < 0)
		return fail(err, path);
	do {
		uint8_t room[16384];

		k = pread(from, room, sizeof(room), at);
		if (k < 0 || write(to, room, (size_t)k) != k)
			return fail(err, path);
		at += k;
	} while (k != 0);
	return fchmod(to, 0555) == 0 ? 0 : fail(err, path);
}

/* The sandbox's own: to write in, of a size. */
static int
tmpfs_at(const struct oci *o, const char *inside, unsigned mib, const char *mode,
    unsigned long flags, int *ret_fd, struct err *err)
{
	char options[128];

	(void)snprintf(options, sizeof(options), "size=%um,nr_inodes=%llu,mode=%s,uid=%u,gid=%u",
	    mib, mib * 1024ull + 1024, mode, o->spare.uid, o->spare.uid);
	if (mount("tmpfs", inside, "tmpfs", SAFE | flags, options) != 0)
		return native_missing(err, errno, "a tmpfs", "the kernel needs CONFIG_TMPFS");
	if (ret_fd != NULL && (*ret_fd = open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return fail(err, inside);
	return 0;
}

/* The upper side belongs to the sandbox's user, and only that. */
static int
work_make(const struct super_spec *spec, struct oci *o, struct err *err)
{
	int rc;

	if (spec->workspace == NULL)
		return tmpfs_at(
		    o, "work", spec->limits.workspace_mib, "755", 0, &o->view.work, err);
	if (!spec->overlay) {
		o->view.work = open("work", O_PATH | O_DIRECTORY | O_CLOEXEC);
		return o->view.work >= 0 ? 0 : fail(err, "/work");
	}
	rc = native_overlay_work(spec->limits.workspace_mib, &o->view, err);
	/* By the overlay, which would not see a new owner of its upper side. */
	if (rc == 0 && lchown("work", o->spare.uid, o->spare.uid) != 0)
		return fail(err, "owner of /work");
	return rc;
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

int
oci_root_make(struct oci_start *s, struct err *err)
{
	struct mount_attr plain = {.attr_clr = MOUNT_ATTR_NOSUID};
	struct native_view *v = &s->o->view;
	unsigned mib = s->spec->limits.workspace_mib;
	int rc;

	if ((rc = home_make(s->o, err)) != 0 ||
	    (rc = text_write(OCI_BUNDLE "/config.json", s->config, err)) != 0)
		return rc;
	if (move_mount(v->root, "", AT_FDCWD, OCI_ROOT, MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
	    chdir(OCI_ROOT) != 0)
		return fail(err, OCI_ROOT);
	/* gVisor's server of files makes it read-only, and forgets what it may not take off. */
	if (s->o->rt->kernel && mount_setattr(AT_FDCWD, ".", 0, &plain, sizeof(plain)) != 0)
		return fail(err, OCI_ROOT);
	if ((rc = program_copy(s->init, &OCI_INIT[1], err)) != 0 ||
	    (s->o->rt->kernel && (rc = program_copy(s->inside, &OCI_INSIDE[1], err)) != 0) ||
	    (rc = sources_attach(s->spec, v, err)) != 0 ||
	    (rc = tmpfs_at(s->o, "tmp", mib, "1777", 0, &v->tmp, err)) != 0 ||
	    (rc = tmpfs_at(s->o, OCI_SHM, NATIVE_SHM_MIB, "1777", MS_NOEXEC, NULL, err)) != 0)
		return rc;
	return work_make(s->spec, s->o, err);
}
