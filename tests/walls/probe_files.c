/*
 * Files: what is outside must not be read, what is ours must not be written, and nothing may be
 * left behind that has force outside (F1 to F16).
 */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "tests/walls/walls.h"

#define WALL_CREATE(id_, fn_, layers_, path_, what_)                  \
	WALL(id_, fn_, layers_, what_)                                \
	{                                                             \
		return failed(open(path_, O_WRONLY | O_CREAT, 0644)); \
	}
WALL_CREATE("F1-root", f1_root, "mounts landlock userns", "/x", "nothing can be made in /")
WALL_CREATE("F1-usr", f1_usr, "mounts landlock userns", "/usr/x", "nothing can be made in /usr")
WALL_CREATE("F1-program", f1_env, "mounts landlock userns", "/usr/bin/env",
    "no program of the host can be written")
WALL_CREATE(
    "F1-library", f1_lib, "mounts landlock userns", "/usr/lib/x.so", "no library can be made")
WALL_CREATE("F1-etc", f1_etc, "mounts landlock userns", "/etc/x", "nothing can be made in /etc")
WALL_CREATE(
    "F1-hosts", f1_hosts, "mounts landlock userns", "/etc/hosts", "/etc/hosts can not be written")
WALL_CREATE("F1-dev", f1_dev, "mounts landlock userns", "/dev/x", "nothing can be made in /dev")
WALL_CREATE("F1-opt", f1_opt, "mounts landlock userns", "/opt/x", "nothing can be made in /opt")
WALL_CREATE("F1-sysctl", f1_sysctl, "mounts userns", "/proc/sys/kernel/hostname",
    "no sysctl can be written")
WALL_CREATE("F1-netns-sysctl", f1_net, "mounts userns caps", "/proc/sys/net/ipv4/ip_forward",
    "not even one of its own network namespace")

/* Everything that was bound read-only at the test's wish. */
WALL("F1-bind", f1_bind, "mounts landlock",
    "a directory bound read-only can not be written, though its rights allow it")
{
	const char *p = canary("bind", 0);

	if (p == NULL)
		return SKIPPED;
	(void)snprintf(room, sizeof(room), "%s/made", p);
	return failed(open(room, O_WRONLY | O_CREAT, 0644)) || failed(mkdir(room, 0755)) ||
	       failed(symlink("x", room));
}

WALL("F1-change", f1_change, "mounts landlock userns",
    "nothing of the host's can be removed, renamed or given another mode")
{
	return failed(unlink("/usr/bin/env")) || failed(rename("/usr/bin/env", "/work/env")) ||
	       failed(chmod("/usr/bin/env", 0777)) || failed(chown("/usr/bin/env", 1000, 1000)) ||
	       failed(utimensat(AT_FDCWD, "/usr/bin/env", NULL, 0));
}

#define WALL_HIDDEN(id_, fn_, path_, what_)                                                      \
	WALL(id_, fn_, "mounts userns", what_)                                                   \
	{                                                                                        \
		struct stat st_;                                                                 \
		return failed(stat(path_, &st_) == 0 ? 0 : -1) || failed(open(path_, O_RDONLY)); \
	}
WALL_HIDDEN("F2-shadow", f2_shadow, "/etc/shadow", "/etc/shadow is not there")
WALL_HIDDEN("F2-sudoers", f2_sudoers, "/etc/sudoers", "/etc/sudoers is not there")
WALL_HIDDEN("F2-private-keys", f2_ssl, "/etc/ssl/private", "the host's private keys are not there")
WALL_HIDDEN("F2-host-keys", f2_hostkeys, "/etc/ssh/ssh_host_ed25519_key",
    "the host's ssh keys are not there")
WALL_HIDDEN("F2-root-home", f2_root, "/root", "the home of root is not there")
WALL_HIDDEN("F2-var-lib", f2_varlib, "/var/lib/dpkg", "the host's /var/lib is not there")
WALL_HIDDEN("F2-boot", f2_boot, "/boot", "/boot is not there")
WALL_HIDDEN("F2-sys", f2_sys, "/sys/kernel", "sysfs is not there")
WALL_HIDDEN("F2-cron", f2_cron, "/etc/crontab", "the host's other /etc is not there")

WALL("F2-home-secrets", f2_home, "mounts", "files that tools keep for the user are not there")
{
	const char *p = canary("path", 0);

	for (int i = 0; (p = canary("path", i)) != NULL; i++)
		if (failed(access(p, F_OK)) || failed(open(p, O_RDONLY)))
			return REACHED;
	return canary("path", 0) == NULL ? SKIPPED : REFUSED;
}

WALL("F2-broker-state", f2_state, "mounts", "the broker's keys, policy and log are not there")
{
	const char *p = canary("state", 0);

	return p == NULL ? SKIPPED : failed(access(p, F_OK));
}

WALL("F3-aliases", f3_aliases, "mounts pidns", "nor are they by any roundabout path")
{
	static const char *const via[] = {"/proc/self/root/..", "/proc/1/root", "/proc/1/cwd",
	    "/proc/self/cwd/../..", "/proc/1/cwd/..", "/work/../..", "/proc/thread-self/root/../..",
	    "/proc/self/task/1/root", "/dev/fd/0/..", "/proc/self/exe/../../..", "/opt/../../..",
	    "/proc/self/map_files/.."};
	const char *p;

	for (int i = 0; (p = canary("path", i)) != NULL; i++)
		for (size_t k = 0; k < sizeof(via) / sizeof(*via); k++) {
			(void)snprintf(room, sizeof(room), "%s%s", via[k], p);
			if (open(room, O_RDONLY) >= 0) {
				detail("%.200s", room);
				return REACHED;
			}
		}
	return canary("path", 0) == NULL ? SKIPPED : REFUSED;
}

WALL("F3-other-pids", f3_pids, "mounts pidns", "nor through the root of any process number")
{
	const char *p = canary("path", 0);

	if (p == NULL)
		return SKIPPED;
	for (int pid = 1; pid < 3000; pid++) {
		(void)snprintf(room, sizeof(room), "/proc/%d/root%s", pid, p);
		if (open(room, O_RDONLY) >= 0) {
			detail("%.200s", room);
			return REACHED;
		}
	}
	return REFUSED;
}

WALL("F3-symlink", f3_symlink, "mounts", "nor through a symbolic link made inside")
{
	const char *p = canary("path", 0);

	(void)unlink("/work/link");
	if (p == NULL || symlink(p, "/work/link") != 0)
		return p == NULL ? SKIPPED : REACHED;
	return failed(open("/work/link", O_RDONLY));
}

WALL("F3-spelling", f3_case, "mounts", "nor by another spelling of the name")
{
	static const char *const names[] = {"/ETC/SHADOW", "/etc/./shadow", "//etc//shadow",
	    "/etc/shadow/", "/etc/shadow-", "/etc/gshadow", "/etc/\xef\xbd\x93hadow",
	    "/etc/sha\xcc\x88"
	    "dow"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (failed(open(names[i], O_RDONLY)))
			return REACHED;
	return REFUSED;
}

WALL("F6-hardlink", f6_link, "mounts landlock userns",
    "a file of the host's can not be hard-linked into the workspace")
{
	(void)unlink("/work/env");
	return failed(link("/usr/bin/env", "/work/env")) ||
	       failed(linkat(AT_FDCWD, "/proc/self/exe", AT_FDCWD, "/work/env", AT_SYMLINK_FOLLOW));
}

WALL("F7-block-device", f7_block, "seccomp landlock caps", "no block device can be made")
{
	return failed(mknod("/work/sda", S_IFBLK | 0600, makedev(8, 0))) ||
	       failed(mknod("/tmp/sda", S_IFBLK | 0600, makedev(8, 0)));
}

WALL("F7-character-device", f7_char, "seccomp landlock caps", "no character device can be made")
{
	return failed(mknod("/work/mem", S_IFCHR | 0600, makedev(1, 1))) ||
	       failed(mknod("/dev/shm/mem", S_IFCHR | 0600, makedev(1, 1)));
}

WALL("F7-device-nodes", f7_nodes, "mounts", "there is no device but the harmless ones")
{
	static const char *const names[] = {"/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/port",
	    "/dev/kvm", "/dev/fuse", "/dev/sda", "/dev/vda", "/dev/loop0", "/dev/loop-control",
	    "/dev/userfaultfd", "/dev/net/tun", "/dev/vhost-net", "/dev/vsock", "/dev/tty0",
	    "/dev/tty1", "/dev/console", "/dev/ttyS0", "/dev/hwrng", "/dev/mapper/control",
	    "/dev/btrfs-control", "/dev/snd", "/dev/input", "/dev/dri", "/dev/cpu_dma_latency"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		detail("%s", names[i]);
		if (access(names[i], F_OK) == 0)
			return REACHED;
	}
	return REFUSED;
}

static bool
is_setid(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && (st.st_mode & 06000) != 0 && S_ISREG(st.st_mode);
}

WALL("F7-setuid-bit", f7_setuid, "seccomp", "no call can give a file the setuid or setgid bit")
{
	int fd = open("/work/suid", O_RDWR | O_CREAT, 0755);

	(void)chmod("/work/suid", 04755);
	(void)fchmod(fd, 04755);
	(void)fchmod(fd, 02755);
	(void)syscall(SYS_fchmodat, AT_FDCWD, "/work/suid", 02755);
	(void)syscall(452 /* fchmodat2 */, AT_FDCWD, "/work/suid", 04755, 0);
	(void)open("/work/suid2", O_RDWR | O_CREAT, 04755);
	(void)creat("/work/suid2", 04755);
	(void)syscall(SYS_open, "/work/suid2", O_RDWR | O_CREAT, 06755);
	(void)mknod("/work/suid2", S_IFREG | 04755, 0);
	fd = open("/work", O_RDWR | O_TMPFILE, 04755);
	(void)snprintf(room, sizeof(room), "/proc/self/fd/%d", fd);
	(void)linkat(AT_FDCWD, room, AT_FDCWD, "/work/suid3", AT_SYMLINK_FOLLOW);
	return is_setid("/work/suid") || is_setid("/work/suid2") || is_setid("/work/suid3");
}

static int
file_make(const char *path)
{
	(void)unlink(path);
	return open(path, O_RDWR | O_CREAT, 0755);
}

WALL("F7-file-capability", f7_filecaps, "caps", "no file can be given a capability")
{
	static const unsigned char cap[20] = {0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff};

	(void)file_make("/work/caps");
	return failed(setxattr("/work/caps", "security.capability", cap, sizeof(cap), 0));
}

WALL("F7-immutable", f7_immutable, "seccomp caps", "no file can be made immutable")
{
	int flags = 0x10, fd = file_make("/work/imm");
	struct fsxattr x = {.fsx_xflags = 0x8};

	return filtered(ioctl(fd, FS_IOC_SETFLAGS, &flags)) ||
	       filtered(ioctl(fd, FS_IOC_FSSETXATTR, &x));
}

WALL("F7-freeze", f7_freeze, "seccomp caps", "no file system can be frozen or trimmed")
{
	int fd = open("/work", O_RDONLY | O_DIRECTORY);
	uint64_t range[3] = {0, ~0ull, 0};

	return failed(ioctl(fd, FIFREEZE, 0)) || failed(ioctl(fd, FITRIM, range));
}

WALL("F7-trusted-attribute", f7_trusted, "caps", "no trusted or security attribute can be set")
{
	(void)file_make("/work/attr");
	return failed(setxattr("/work/attr", "trusted.overlay.opaque", "y", 1, 0)) ||
	       failed(setxattr("/work/attr", "security.ima", "\4x", 2, 0));
}

WALL(
    "F6-lease", f6_lease, "seccomp", "no lease holds up the host's open of a file in the workspace")
{
	return failed(fcntl(open("/work/lease", O_RDWR | O_CREAT, 0644), F_SETLEASE, F_WRLCK));
}

WALL("F10-dotdot", f10_dotdot, "mounts", "no number of .. leads above the root")
{
	struct stat a, b;

	(void)memset(room, 0, 4096);
	for (int i = 0; i < 200; i++)
		(void)memcpy(room + 3 * i, "../", 4);
	return stat("/", &a) != 0 || stat(room, &b) != 0 || a.st_ino != b.st_ino ||
	       a.st_dev != b.st_dev;
}

WALL("F11-mount-points", f11_points, "mounts landlock userns",
    "the writable directories can not be moved away or removed")
{
	return failed(rename("/work", "/tmp/w")) || failed(rename("/tmp", "/work/t")) ||
	       failed(rmdir("/work")) || failed(rmdir("/dev/shm")) ||
	       failed(rename("/etc", "/tmp/etc")) ||
	       failed(renameat2(AT_FDCWD, "/work", AT_FDCWD, "/tmp", RENAME_EXCHANGE));
}

WALL("F12-whiteout", f12_whiteout, "seccomp landlock", "no whiteout of an overlay can be made")
{
	int rc = mknod("/work/white", S_IFCHR, makedev(0, 0));

	if (failed(rc))
		return REACHED;
	(void)file_make("/work/from");
	return failed(renameat2(AT_FDCWD, "/work/from", AT_FDCWD, "/work/to", RENAME_WHITEOUT));
}

/* The source of a bind stands there; that is known to be told. */
WALL("F14-mountinfo", f14_mounts, "mounts",
    "the table of mounts names no directory of the host but what was bound")
{
	const char *p = canary("hostdir", 0);

	if (p == NULL || !slurp("/proc/self/mountinfo", room, sizeof(room)))
		return p == NULL ? SKIPPED : REACHED;
	for (char *line = strtok(room, "\n"); line != NULL; line = strtok(NULL, "\n"))
		if (strstr(line, p) != NULL && strstr(line, " /opt/") == NULL &&
		    strstr(line, " /work ") == NULL) {
			detail("%.300s", line);
			return REACHED;
		}
	return REFUSED;
}

WALL("F14-maps", f14_maps, "mounts init", "the map of memory names no directory of the host")
{
	const char *p = canary("hostdir", 0);

	if (p == NULL || !slurp("/proc/self/maps", room, sizeof(room)))
		return p == NULL ? SKIPPED : REACHED;
	return strstr(room, p) != NULL;
}

WALL("F14-host-name", f14_host, "utsns", "the host's name is not told")
{
	const char *host = canary("hostname", 0);
	char now[256] = "";

	(void)gethostname(now, sizeof(now) - 1);
	if (host != NULL && strcmp(now, host) == 0)
		return REACHED;
	return host == NULL ? SKIPPED
			    : slurp("/etc/hostname", room, sizeof(room)) &&
				  strncmp(room, host, strlen(host)) == 0;
}

WALL("F14-machine-id", f14_machine, "mounts", "nor its machine id")
{
	const char *id = canary("machine", 0);

	for (int i = 0; i < 2; i++)
		if (slurp(i == 0 ? "/etc/machine-id" : "/var/lib/dbus/machine-id", room,
			sizeof(room)) &&
		    id != NULL && strncmp(room, id, 32) == 0)
			return REACHED;
	return id == NULL ? SKIPPED : REFUSED;
}

WALL("F14-host-users", f14_users, "mounts", "nor who its users are")
{
	return slurp("/etc/passwd", room, sizeof(room)) && strstr(room, "daemon") != NULL;
}

WALL("F16-truncate", f16_truncate, "mounts landlock userns",
    "a read-only file can not be made shorter")
{
	const char *p = canary("bindfile", 0);
	struct stat st;

	if (p == NULL)
		return SKIPPED;
	(void)!truncate(p, 0);
	(void)open(p, O_RDONLY | O_TRUNC);
	(void)!ftruncate(open(p, O_RDONLY), 0);
	(void)fallocate(open(p, O_RDONLY), 3, 0, 4096);
	return stat(p, &st) != 0 || st.st_size == 0 || failed(truncate(p, 0));
}

WALL("F16-map-write", f16_map, "mounts landlock", "nor be written through a shared map")
{
	const char *p = canary("bindfile", 0);
	int fd = p != NULL ? open(p, O_RDONLY) : -1;
	void *m;

	if (p == NULL)
		return SKIPPED;
	m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return REFUSED;
	return failed(mprotect(m, 4096, PROT_READ | PROT_WRITE)) || failed(open(p, O_RDWR));
}

WALL("F16-reopen", f16_reopen, "mounts landlock",
    "nor be opened for writing through its own descriptor")
{
	const char *p = canary("bindfile", 0);
	char path[64];

	if (p == NULL)
		return SKIPPED;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", open(p, O_RDONLY));
	return failed(open(path, O_RDWR));
}

WALL(
    "F16-attributes", f16_attr, "mounts seccomp landlock userns", "nor have its attributes changed")
{
	const char *p = canary("bindfile", 0);

	if (p == NULL)
		return SKIPPED;
	return failed(setxattr(p, "user.x", "y", 1, 0)) || failed(chmod(p, 0777)) ||
	       failed(utimensat(AT_FDCWD, p, NULL, 0)) || failed(removexattr(p, "user.x"));
}

ALONE("F12-overlay", f12_overlay, "mounts", "--overlay @ws",
    "what is changed in an overlay stays in it")
{
	int fd = open("/work/kept", O_WRONLY | O_TRUNC);

	(void)!write(fd, "changed", 7);
	(void)close(fd);
	(void)unlink("/work/gone");
	(void)rename("/work/moved", "/work/elsewhere");
	(void)mkdir("/work/.git", 0755);
	(void)mkdir("/work/.git/hooks", 0755);
	(void)close(open("/work/.git/hooks/pre-commit", O_WRONLY | O_CREAT, 0755));
	(void)close(open("/work/.mcp.json", O_WRONLY | O_CREAT, 0644));
	(void)close(open("/work/AGENTS.md", O_WRONLY | O_CREAT, 0644));
	/* Names and attributes that an overlay reads on its upper side. */
	(void)setxattr("/work/dir", "user.overlay.redirect", "/etc", 4, 0);
	(void)setxattr("/work/dir", "user.overlay.opaque", "y", 1, 0);
	(void)setxattr("/work/dir", "trusted.overlay.redirect", "/etc", 4, 0);
	return access("/work/dir/shadow", F_OK) == 0 || access("/work/elsewhere", F_OK) != 0;
}

ALONE("F13-tmp-full", f13_tmp, "limits", "--disk 8", "/tmp ends at its size")
{
	int fd = open("/tmp/fill", O_WRONLY | O_CREAT, 0644);

	for (int i = 0; i < 64; i++)
		if (write(fd, room, sizeof(room)) != (ssize_t)sizeof(room))
			return errno != ENOSPC && errno != EDQUOT && errno != 0;
	return REACHED;
}

ALONE("F13-work-full", f13_work, "limits", "--disk 8", "a private /work ends at its size")
{
	int fd = open("/work/fill", O_WRONLY | O_CREAT, 0644);

	return failed(fallocate(fd, 0, 0, 1l << 34)) || (fallocate(fd, 0, 0, 9 << 20) == 0);
}

static int
inodes(const char *dir)
{
	char path[64];

	for (int i = 0; i < 2000000; i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s/%d", dir, i);
		fd = open(path, O_WRONLY | O_CREAT, 0600);
		detail("%d files", i);
		if (fd < 0)
			return errno != ENOSPC && errno != EDQUOT;
		(void)close(fd);
	}
	return REACHED;
}

ALONE("F13-tmp-inodes", f13_inodes, "limits", "--disk 8", "/tmp takes so many files only")
{
	return inodes("/tmp");
}

ALONE("F13-work-inodes", f13_work_inodes, "limits", "--disk 8", "so does a private /work")
{
	return inodes("/work");
}

ALONE("F13-shm-inodes", f13_shm_inodes, "limits", "--disk 8", "so does /dev/shm")
{
	return inodes("/dev/shm");
}
