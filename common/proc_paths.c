/*
 * Finds our own programs: beside the running one (a build tree, a test), else in the
 * installed place. Runs in the parent and the command line. Never looks at PATH or at any
 * other part of the environment: who sets these must not choose what is started.
 */
#include "common/proc_paths.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* NULL: not there. */
static char *
beside(const char *name, int mode)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	AUTO_FREE char *path = NULL;
	char *slash;

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash == NULL)
		return NULL;
	*slash = '\0';
	path = xasprintf("%s/%s", self, name);
	return access(path, mode) == 0 ? TAKE_PTR(path) : NULL;
}

char *
proc_program(const char *name)
{
	char *own = beside(name, X_OK);

	return own != NULL ? own : xasprintf("%s/%s", COFFERDAM_LIBEXEC, name);
}

char *
proc_share(const char *name)
{
	char *own = beside(name, R_OK | X_OK);

	return own != NULL ? own : xasprintf("%s/%s", COFFERDAM_SHARE, name);
}
