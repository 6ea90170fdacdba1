/*
 * The sandbox's /proc: its own processes, and over the rest of it masks where something of the
 * kernel's or the host's could be read. Runs in the child, in its new root, before anything
 * foreign.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/banned.h"

#define FLAGS (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

/*
 * Kernel state that no program needs. A file that only its owner may use (the host's root, who is
 * nobody here) is left as it is: a mask over it would hide nothing and cost a mount.
 */
static const char *const masks[] = {"proc/cmdline", "proc/config.gz", "proc/interrupts",
    "proc/iomem", "proc/ioports", "proc/kallsyms", "proc/kcore", "proc/key-users", "proc/keys",
    "proc/kmsg", "proc/kpagecgroup", "proc/kpagecount", "proc/kpageflags", "proc/latency_stats",
    "proc/modules", "proc/sched_debug", "proc/slabinfo", "proc/sysrq-trigger", "proc/timer_list",
    "proc/vmallocinfo", "proc/acpi", "proc/asound", "proc/bus", "proc/driver", "proc/fs",
    "proc/irq", "proc/scsi", "proc/sysvipc", "proc/tty"};

static int
mask(const char *path, struct err *err)
{
	struct stat st;
	AUTO_FD int fd = -1;

	if (fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno == ENOENT)
			return 0;
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: mask of /%s", path);
	}
	if ((st.st_mode & 0077) == 0)
		return 0;
	fd = open_tree(AT_FDCWD, S_ISDIR(st.st_mode) ? "run" : "dev/null",
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: mask of /%s", path);
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
		int rc = mask(masks[i], err);

		if (rc != 0)
			return rc;
	}
	return 0;
}
