/*
 * Overlays, mounted by the child in its own user namespace: /work, whose changes stay in a tmpfs of
 * the workspace's size and never reach the directory below; and the /etc of an image below ours.
 * The layers are mounted where the overlay then covers them, so nothing inside can reach them.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/banned.h"

#define FIX "the kernel needs CONFIG_OVERLAY_FS, 5.11 or later, and its module loaded"

/* user.overlay.* attributes: those of "trusted" are not for a user namespace. */
static int
overlay_mount(const char *at, const char *options, unsigned long flags, struct err *err)
{
	if (mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV | flags, options) != 0)
		return native_missing(err, errno, "an overlay file system", FIX);
	return 0;
}

int
native_overlay_work(unsigned mib, struct native_view *v, struct err *err)
{
	static const char *const dirs[] = {"work/upper", "work/work", "work/lower"};
	char options[96];
	struct stat st;
	int rc;

	(void)snprintf(options, sizeof(options), "size=%um,nr_inodes=%llu,mode=755", mib,
	    mib * 1024ull + 1024);
	if (fstat(v->s[v->workspace].fd, &st) != 0 ||
	    mount("tmpfs", "work", "tmpfs", MS_NOSUID | MS_NODEV, options) != 0 ||
	    (v->work = open("work", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: upper side of /work");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) != 0)
			return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /%s", dirs[i]);
	/* The mode of /work itself is the upper side's. */
	if (chmod(dirs[0], st.st_mode & 0777) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /%s", dirs[0]);
	if ((rc = native_attach(v->s[v->workspace].fd, dirs[2], err)) != 0)
		return rc;
	rc = overlay_mount(
	    "work", "lowerdir=work/lower,upperdir=work/upper,workdir=work/work,userxattr", 0, err);
	if (rc != 0)
		return rc;
	/* It has a copy of that mount; in the list of mounts it would only tell the host's path. */
	(void)snprintf(options, sizeof(options), "/proc/self/fd/%d", v->s[v->workspace].fd);
	if (umount2(options, MNT_DETACH) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: lower side of /work");
	return 0;
}

int
native_overlay_etc(struct native_view *v, struct err *err)
{
	AUTO_FD int ours = -1;
	char options[64];
	int rc;

	if (v->etc >= v->n || v->s[v->etc].fd < 0)
		return 0;
	ours = open("etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ours < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /etc");
	if ((rc = native_attach(v->s[v->etc].fd, "etc", err)) != 0)
		return rc;
	(void)snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:etc,userxattr", ours);
	return overlay_mount("etc", options, MS_RDONLY, err);
}
