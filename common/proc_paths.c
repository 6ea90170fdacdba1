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

char *
proc_program(const char *name)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		AUTO_FREE char *beside = NULL;

		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash != NULL) {
			*slash = '\0';
			beside = xasprintf("%s/%s", self, name);
			if (access(beside, X_OK) == 0)
				return TAKE_PTR(beside);
		}
	}
	return xasprintf("%s/%s", COFFERDAM_LIBEXEC, name);
}
