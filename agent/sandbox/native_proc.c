/*
 * The sandbox's /proc: its own processes, and over the rest of it masks where something of the
 * kernel's or the host's could be read or set. What stands there for a process may be written by
 * the rights that it has over that process: names of threads, its score when memory runs out, its
 * timer slack. Runs in the child, in its new root, before anything foreign.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

#define FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/*
 * Kernel state that no program needs and that anybody could read. What only its owner may open (the
 * host's root, who is nobody here: kcore, kmsg, kpage*, slabinfo, timer_list,
 * vmallocinfo) is left as it is: a mask over it would hide nothing and cost a mount.
 */
static const struct {
	const char *path;
	bool dir;
} masks[] = {{"proc/cmdline", false}, {"proc/config.gz", false}, {"proc/diskstats", false},
    {"proc/interrupts", false}, {"proc/iomem", false}, {"proc/ioports", false},
    {"proc/kallsyms", false}, {"proc/key-users", false}, {"proc/keys", false},
    {"proc/latency_stats", false}, {"proc/mdstat", false}, {"proc/partitions", false},
    {"proc/swaps", false}, {"proc/modules", false}, {"proc/sched_debug", false},
    {"proc/acpi", true}, {"proc/asound", true}, {"proc/bus", true}, {"proc/driver", true},
    {"proc/fs", true}, {"proc/irq", true}, {"proc/scsi", true}, {"proc/sysvipc", true},
    {"proc/tty", true}};

/* Settings of the kernel; triggers of its own, some of which anybody may set. A mask would be a
 * file that can be written. */
static const char *const fixed[] = {"proc/mtrr", "proc/pressure", "proc/sys", "proc/sysrq-trigger"};

const char *
native_proc_fixed(size_t i)
{
	return i < ARRAY_LEN(fixed) ? fixed[i] : NULL;
}

const char *
native_proc_mask(size_t i)
{
	return i < ARRAY_LEN(masks) ? masks[i].path : NULL;
}

/* This kernel may not have it. */
static int
mask(const char *path, bool dir, struct err *err)
{
	long rc = RAW(SYS_mount, dir ? "run" : "dev/null", path, NULL, MS_BIND, NULL);

	return rc == 0 || rc == -ENOENT
		   ? 0
		   : err_sys(err, ERR_UNAVAILABLE, (int)-rc, "sandbox: mask of /%s", path);
}

static int
fix(const char *path, struct err *err)
{
	struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
	AUTO_FD int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &ro, sizeof(ro)) != 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: read-only /%s", path);
	return native_attach(fd, path, err);
}

int
native_proc_mount(struct err *err)
{
#ifdef SANDBOX_TEST_LAYERS
	if (native_layer_off("pidns"))
		return native_layer_proc(false, err);
#endif
	if (mount("proc", "proc", "proc", FLAGS, "hidepid=2") != 0)
		return native_missing(err, errno, "an own /proc",
		    "in a container: start that with an unmasked /proc, e.g. --security-opt "
		    "systempaths=unconfined");
	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		int rc = mask(masks[i].path, masks[i].dir, err);

		if (rc != 0)
			return rc;
	}
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		int rc = fix(fixed[i], err);

		if (rc != 0)
			return rc;
	}
	return 0;
}
