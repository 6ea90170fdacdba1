/*
 * Where the caller's own control groups are: its path in each hierarchy, under the place where that
 * is mounted. Runs in the supervisor; both texts are the kernel's.
 */
#include "agent/sandbox/native.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define ROOT_INODE 1 /* of the whole tree: no part of it is mounted there */

static bool
has_word(struct str list, const char *word, char sep)
{
	struct str one;

	while (str_cut(&list, sep, &one))
		if (str_eqz(one, word))
			return true;
	return str_eqz(str_trim(list), word);
}

/* The path of this process in the hierarchy of a controller, from /proc/self/cgroup. */
static bool
self_path(const char *self, const char *controller, struct str *ret)
{
	struct str text = str_z(self), line;

	while (str_cut(&text, '\n', &line)) {
		struct str id, names;

		if (!str_cut(&line, ':', &id) || !str_cut(&line, ':', &names))
			continue;
		if (controller == NULL ? names.n == 0 && str_eqz(id, "0")
				       : has_word(names, controller, ',')) {
			*ret = line;
			return true;
		}
	}
	return false;
}

char *
native_cgroup_usual(const char *self)
{
	static const char *const usual[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	struct str path;
	struct statfs fs;
	struct stat st;

	if (!self_path(self, NULL, &path))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (statfs(usual[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC &&
		    stat(usual[i], &st) == 0 && st.st_ino == ROOT_INODE)
			return xasprintf("%s%.*s", usual[i], str_eqz(path, "/") ? 0 : (int)path.n,
			    path.n != 0 ? path.p : "");
	return NULL;
}

char *
native_cgroup_own(const char *mountinfo, const char *self, const char *controller)
{
	struct str text = str_z(mountinfo), line, path;

	if (!self_path(self, controller, &path))
		return NULL;
	while (str_cut(&text, '\n', &line)) {
		/* id parent major:minor root mountpoint options ... - type source superoptions */
		struct str f[6], tail = line, kind;
		bool ok = true, dash = false;

		for (size_t i = 0; ok && i < ARRAY_LEN(f); i++)
			ok = str_cut(&tail, ' ', &f[i]);
		while (ok && !dash && str_cut(&tail, ' ', &kind))
			dash = str_eqz(kind, "-");
		if (!dash || !str_cut(&tail, ' ', &kind) ||
		    !str_eqz(kind, controller != NULL ? "cgroup" : "cgroup2"))
			continue;
		(void)str_cut(&tail, ' ', &kind);
		if (controller != NULL && !has_word(tail, controller, ','))
			continue;
		/* A container sees a part of the tree mounted: take that prefix off. */
		if (!str_eqz(f[3], "/")) {
			if (path.n < f[3].n || memcmp(path.p, f[3].p, f[3].n) != 0)
				continue;
			path.p += f[3].n;
			path.n -= f[3].n;
		}
		return xasprintf("%.*s%.*s", STR_ARG(f[4]), str_eqz(path, "/") ? 0 : (int)path.n,
		    path.n != 0 ? path.p : "");
	}
	return NULL;
}
