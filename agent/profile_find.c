/*
 * Finds profiles (process: cofferdam-agent, as the person who calls). Looks into two directories
 * and nowhere else: never the working directory, which an agent's work may have filled.
 */
#include "agent/profile_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "agent/profile_check.h"

#include "common/banned.h"

char *
profile_dir_own(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config != NULL && config[0] == '/')
		return xasprintf("%s/cofferdam/profiles", config);
	if (home != NULL && home[0] == '/')
		return xasprintf("%s/.config/cofferdam/profiles", home);
	return NULL;
}

char *
profile_dir_installed(void)
{
	return proc_share("profiles");
}

/* --- one file -------------------------------------------------------------------- */

static int
file_read(const char *path, struct buf *out, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(
		    err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	for (;;) {
		uint8_t room[16384];
		ssize_t n = read(fd, room, sizeof(room));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s", path);
		if (n == 0)
			return 0;
		buf_put(out, room, (size_t)n);
		if (buf_over(out))
			return err_set(
			    err, ERR_TOO_LARGE, "%s: over %zu bytes", path, PROFILE_SIZE_MAX);
	}
}

static int
load_from(const char *dir, const char *name, bool theirs, struct profile **ret, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s" PROFILE_SUFFIX, dir, name);
	AUTO_BUF struct buf b = BUF(PROFILE_SIZE_MAX);
	AUTO(profile) struct profile *p = NULL;
	int rc;

	if ((rc = file_read(path, &b, err)) != 0 ||
	    (rc = profile_parse(buf_str(&b), path, &p, err)) != 0)
		return rc;
	if (strcmp(p->name, name) != 0)
		return err_set(err, ERR_INVALID,
		    "%s: its name must be the file's, \"%s\", is \"%s\"", path, name, p->name);
	p->theirs = theirs;
	*ret = TAKE_PTR(p);
	return 0;
}

int
profile_load(const char *name, struct profile **ret, struct err *err)
{
	AUTO_FREE char *own = profile_dir_own(), *installed = profile_dir_installed();
	int rc = ERR_NOT_FOUND;

	if (!profile_check_name(str_z(name)))
		return err_set(err, ERR_INVALID,
		    "a profile's name is of small letters, digits and '-', is \"%s\"", name);
	if (own != NULL)
		rc = load_from(own, name, true, ret, err);
	if (rc == ERR_NOT_FOUND)
		rc = load_from(installed, name, false, ret, err);
	if (rc != ERR_NOT_FOUND)
		return rc;
	return err_set(err, ERR_NOT_FOUND,
	    "there is no profile \"%s\" in %s%s%s (cofferdam profile list shows all)", name,
	    own != NULL ? own : "", own != NULL ? " or " : "", installed);
}

/* --- all of them ----------------------------------------------------------------- */

static bool
listed(const struct profile_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i]->name, name) == 0)
			return true;
	return false;
}

static void
dir_read(struct profile_list *l, const char *dir, bool theirs)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		AUTO_FREE char *name = NULL;
		struct str s = str_z(names[i]->d_name);
		struct err e = {0};

		if (s.p[0] != '.' && str_has_suffix(s, PROFILE_SUFFIX)) {
			name = str_dup(str_mem(s.p, s.n - strlen(PROFILE_SUFFIX)));
			if (l->n == PROFILES_MAX || listed(l, name)) {
				/* the person's own */
			} else if (load_from(dir, name, theirs, &l->v[l->n], &e) == 0) {
				l->n++;
			} else {
				log_warn("%s", e.msg);
				l->broken++;
			}
		}
		free(names[i]);
	}
	free(names);
}

static int
by_name(const void *a, const void *b)
{
	const struct profile *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

void
profile_list_read(struct profile_list *ret)
{
	AUTO_FREE char *own = profile_dir_own(), *installed = profile_dir_installed();

	*ret = (struct profile_list){0};
	if (own != NULL)
		dir_read(ret, own, true);
	dir_read(ret, installed, false);
	if (ret->n != 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
}

void
profile_list_free(struct profile_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		profile_free(l->v[i]);
}

static bool
is_for(const struct profile *p, const char *program)
{
	const char *slash = strrchr(program, '/');
	const char *name = slash != NULL ? slash + 1 : program;

	for (size_t i = 0; i < p->ncommands; i++)
		if (strcmp(p->commands[i], name) == 0)
			return true;
	return false;
}

int
profile_choose(const char *name, const char *program, struct profile **ret, struct err *err)
{
	AUTO_PROFILES struct profile_list l = {0};
	size_t found = 0, at = 0;

	if (name != NULL)
		return profile_load(name, ret, err);
	profile_list_read(&l);
	for (size_t i = 0; i < l.n; i++) {
		if (!is_for(l.v[i], program))
			continue;
		if (found++ == 0)
			at = i;
		else
			log_warn("profiles %s and %s are both for %s: none is taken, say which by "
				 "--profile",
			    l.v[at]->name, l.v[i]->name, program);
	}
	if (found != 1)
		return 0;
	*ret = TAKE_PTR(l.v[at]);
	log_info("profile %s, by the command's name (--no-profile: none)", (*ret)->name);
	return 0;
}
