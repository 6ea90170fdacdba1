/*
 * The switch that leaves layers of the wall out, for tests that show what each one stops. Only in
 * builds made for these tests; a test looks for its name in what is shipped.
 */
#include "agent/sandbox/native.h"

#ifdef SANDBOX_TEST_LAYERS

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "common/banned.h"

bool
native_layer_off(const char *layer)
{
	struct str rest = str_z(getenv("COFFERDAM_LAYERS_OFF")), one;

	while (str_cut(&rest, ',', &one))
		if (str_eqz(one, layer))
			return true;
	return str_eqz(rest, layer);
}

/* The rules go by files, so they hold as well where the host's own tree is seen. */
int
native_layer_rules(int set, uint64_t look, struct err *err)
{
	static const char *const rows[] = {
	    "/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/opt", "/dev"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FD int fd = open(rows[i], O_PATH | O_CLOEXEC);
		struct landlock_path_beneath_attr a = {.allowed_access = look, .parent_fd = fd};

		/* A rule for a file takes no rights of directories. */
		if (strncmp(rows[i], "/etc", 4) == 0)
			a.allowed_access &=
			    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
		if (fd >= 0 &&
		    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &a, 0) != 0)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: Landlock rule for %s", rows[i]);
	}
	return 0;
}

/* A new /proc belongs to a new pid namespace; without one there is the host's. */
int
native_layer_proc(bool open, struct err *err)
{
	static int fd = -1;

	if (open)
		fd = open_tree(
		    AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	else if (fd >= 0)
		return native_attach(fd, "proc", err);
	return fd >= 0 ? 0 : err_sys(err, ERR_UNAVAILABLE, errno, "sandbox: /proc");
}

#endif
