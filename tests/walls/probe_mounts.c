/*
 * Namespaces and mounts (M1 to M6): none can be made, left or looked at, and what is masked stays
 * masked.
 */
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/walls/walls.h"

#define UNSHARE(id_, fn_, flag_, what_) CALL(id_, fn_, what_, SYS_unshare, flag_)
#define CLONE(id_, fn_, flag_, what_) CALL(id_, fn_, what_, SYS_clone, flag_, 0, 0, 0, 0)
UNSHARE("M1-unshare-user", m1_uu, CLONE_NEWUSER, "unshare makes no user namespace")
UNSHARE("M1-unshare-mount", m1_um, CLONE_NEWNS, "unshare makes no mount namespace")
UNSHARE("M1-unshare-net", m1_un, CLONE_NEWNET, "unshare makes no network namespace")
UNSHARE("M1-unshare-pid", m1_up, CLONE_NEWPID, "unshare makes no pid namespace")
UNSHARE("M1-unshare-ipc", m1_ui, CLONE_NEWIPC, "unshare makes no ipc namespace")
UNSHARE("M1-unshare-cgroup", m1_uc, CLONE_NEWCGROUP, "unshare makes no cgroup namespace")
UNSHARE("M1-unshare-time", m1_ut, CLONE_NEWTIME, "unshare makes no time namespace")
CLONE("M1-clone-user", m1_cu, CLONE_NEWUSER, "clone makes no user namespace")
CLONE("M1-clone-mount", m1_cm, CLONE_NEWNS, "clone makes no mount namespace")
CLONE("M1-clone-net", m1_cn, CLONE_NEWNET, "clone makes no network namespace")
CLONE("M1-clone-pid", m1_cp, CLONE_NEWPID, "clone makes no pid namespace")
CLONE("M1-clone-ipc", m1_ci, CLONE_NEWIPC, "clone makes no ipc namespace")
CLONE("M1-clone-uts", m1_cs, CLONE_NEWUTS, "clone makes no uts namespace")
CLONE("M1-clone-cgroup", m1_cc, CLONE_NEWCGROUP, "clone makes no cgroup namespace")
CALL("M1-clone3", m1_clone3, "clone3, whose flags no filter can read, is absent", SYS_clone3, BAD,
    64)

CALL("M2-mount", m2_mount, "mount is refused", SYS_mount, BAD, "/tmp", BAD, 0, 0)
CALL("M2-bind", m2_bind, "so is a bind mount", SYS_mount, "/proc/1/root", "/tmp", 0, MS_BIND, 0)
CALL("M2-remount-root", m2_rr, "the root can not be mounted writable", SYS_mount, "none", "/", 0,
    MS_REMOUNT | MS_BIND, 0)
CALL("M2-remount-usr", m2_ru, "nor can /usr", SYS_mount, "none", "/usr", 0, MS_REMOUNT | MS_BIND, 0)
CALL("M2-propagation", m2_shared, "nor can mounts be made shared", SYS_mount, "none", "/", 0,
    MS_SHARED | MS_REC, 0)
CALL("M2-umount", m2_umount, "/proc can not be taken away", SYS_umount2, "/proc", MNT_DETACH)
CALL("M2-umount-mask", m2_mask, "nor can a mask over a file of it", SYS_umount2, "/proc/keys",
    MNT_DETACH)
CALL("M2-umount-work", m2_work, "nor what hides the directory beneath /work", SYS_umount2, "/work",
    MNT_DETACH)
CALL("M2-move-mount", m2_move, "move_mount is refused", SYS_move_mount, -1, BAD, -1, BAD, 0)
CALL("M2-open-tree", m2_tree, "open_tree is refused", SYS_open_tree, -100, "/", 1)
CALL("M2-fsopen", m2_fsopen, "fsopen is refused", SYS_fsopen, BAD, 0)
CALL("M2-fspick", m2_fspick, "fspick is refused", SYS_fspick, -1, BAD, 0)
CALL("M2-fsmount", m2_fsmount, "fsmount is refused", SYS_fsmount, -1, 0, 0)
CALL("M2-fsconfig", m2_fsconfig, "fsconfig is refused", SYS_fsconfig, -1, 0, 0, 0, 0)
CALL("M2-mount-setattr", m2_attr, "mount_setattr is refused", SYS_mount_setattr, -1, BAD, 0, BAD, 0)
CALL("M2-open-tree-attr", m2_tattr, "open_tree_attr is refused", 467, -1, BAD, 0, BAD, 0)
CALL("M2-listmount", m2_list, "listmount is refused", 458, BAD, BAD, 1, 0)
CALL("M2-statmount", m2_stat, "statmount is refused", 457, BAD, BAD, 1, 0)
CALL("M2-pivot-root", m2_pivot, "pivot_root is refused", SYS_pivot_root, BAD, BAD)
CALL("M2-chroot", m2_chroot, "chroot is refused", SYS_chroot, BAD)

CALL("M3-setns", m3_setns, "setns is refused", SYS_setns, -1, 0)

WALL("M3-setns-own", m3_own, "seccomp caps",
    "also with the descriptor of a namespace, or of a process")
{
	int fd = open("/proc/self/ns/net", O_RDONLY), p = (int)syscall(SYS_pidfd_open, 1, 0);

	return failed(syscall(SYS_setns, fd, 0)) ||
	       failed(syscall(SYS_setns, p, CLONE_NEWNS | CLONE_NEWNET));
}

WALL("M3-parent", m3_parent, "seccomp", "the parent of a namespace can not be asked for")
{
	int fd = open("/proc/self/ns/user", O_RDONLY), pid = open("/proc/self/ns/pid", O_RDONLY);

	return (fd >= 0 && filtered(ioctl(fd, 0xb701))) ||
	       (fd >= 0 && filtered(ioctl(fd, 0xb702))) ||
	       (pid >= 0 && filtered(ioctl(pid, 0xb702)));
}

WALL("M3-init-namespaces", m3_init, "init", "the namespaces of pid 1 can not be opened")
{
	return failed(open("/proc/1/ns/mnt", O_RDONLY)) ||
	       failed(open("/proc/1/ns/pid", O_RDONLY)) ||
	       failed(open("/proc/1/ns/user", O_RDONLY));
}

WALL("M4-cgroup-files", m4_files, "mounts", "there is no cgroup file system")
{
	return failed(access("/sys/fs/cgroup", F_OK)) ||
	       (slurp("/proc/self/mountinfo", room, sizeof(room)) &&
		   strstr(room, " - cgroup") != NULL);
}

WALL("M4-cgroup-name", m4_name, "cgroupns", "the names of the host's groups are not told")
{
	char *p;

	if (!slurp("/proc/self/cgroup", room, sizeof(room)))
		return REFUSED;
	for (p = room; (p = strstr(p, ":/")) != NULL; p += 2) {
		detail("%.100s", p);
		if (p[2] != '\n' && p[2] != '\0')
			return REACHED;
	}
	return REFUSED;
}

CALL("M5-host-name", m5_host, "the host name can not be set", SYS_sethostname, BAD, 1)
CALL("M5-domain-name", m5_domain, "nor the domain name", SYS_setdomainname, BAD, 1)

static int
masked(const char *via)
{
	static const char *const files[] = {"keys", "kcore", "timer_list", "kallsyms",
	    "sysrq-trigger", "config.gz", "kmsg", "iomem", "slabinfo", "vmallocinfo", "kpagecount",
	    "sched_debug"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[300];

		(void)snprintf(path, sizeof(path), "%s/%s", via, files[i]);
		detail("%s", path);
		if (slurp(path, room, sizeof(room)) && room[0] != '\0')
			return REACHED;
	}
	return REFUSED;
}

WALL("M6-masks", m6_masks, "mounts userns", "what is masked in /proc is empty or not there")
{
	return masked("/proc");
}

WALL("M6-masks-around", m6_around, "mounts userns", "also by other ways into /proc")
{
	return masked("/proc/self/root/proc") || masked("/proc/self/cwd/../proc") ||
	       masked("/proc/self/../") || masked("/proc/thread-self/../../..") ||
	       masked("/proc/self/task/../..");
}

WALL("M6-proc-writable", m6_ro, "mounts userns", "no file of the kernel's in /proc can be written")
{
	static const char *const files[] = {"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
	    "/proc/irq", "/proc/sys/vm/drop_caches", "/proc/mtrr", "/proc/bus/pci/00",
	    "/proc/fs/xfs", "/proc/acpi/wakeup"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		detail("%s", files[i]);
		if (open(files[i], O_WRONLY) >= 0)
			return REACHED;
	}
	return REFUSED;
}
