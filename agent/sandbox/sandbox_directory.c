/*
 * Where named sandboxes listen: one directory of the user's own. Both sides of a call make and
 * check it (any caller, cofferdam-sandbox), since /tmp may be its parent: a directory that is
 * somebody else's, a link, or open to others is refused and never used.
 */
#include "agent/sandbox/call.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/str.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FALLBACK "/tmp/cofferdam-sandbox-"

char *
call_directory_path(void)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		return xstrdup("/run/cofferdam-sandbox");
	if (runtime != NULL && runtime[0] == '/' && access(runtime, W_OK) == 0)
		return xasprintf("%s/cofferdam-sandbox", runtime);
	return xasprintf(FALLBACK "%u", (unsigned)geteuid());
}

char *
call_directory(bool make, struct err *err)
{
	AUTO_FREE char *path = call_directory_path();
	struct stat st;

	if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
		return (void)err_sys(err, ERR_SYSTEM, errno, "sandbox: mkdir %s", path), NULL;
	if (lstat(path, &st) != 0)
		return (void)err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno,
			   "sandbox: %s", path),
		       NULL;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return (void)err_set(err, ERR_DENIED,
			   "sandbox: %s must be a directory of user %u that others cannot enter "
			   "(mode 0700): %s",
			   path, (unsigned)geteuid(),
			   geteuid() != 0 && st.st_uid != geteuid()
			       ? "it is not yours, so set XDG_RUNTIME_DIR to a directory of your "
				 "own"
			       : "remove it"),
		       NULL;
	return TAKE_PTR(path);
}

char *
call_directory_passing(void)
{
	AUTO_FREE char *path = call_directory_path();

	return str_has_prefix(str_z(path), FALLBACK) ? TAKE_PTR(path) : NULL;
}

void
call_directory_clear(void)
{
	AUTO_FREE char *path = call_directory_passing();

	if (path != NULL)
		(void)rmdir(path);
}
