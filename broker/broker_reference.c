/*
 * Directories of reference data. Runs in the parent, which opens them for upstream and reads
 * nothing in them. Which directories of this machine may be shown at all is the operator's word, in
 * broker.json; which run sees them, and that it is recorded, the policy's. The state directory is
 * never one, nor any that holds it.
 */
#include "broker/broker_reference.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define NAME_MAX_ 64 /* as an id of a policy */

static bool
is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') ||
			(s.p[i] >= '0' && s.p[i] <= '9') || strchr("._-", s.p[i]) != NULL))
			return false;
	return s.n != 0 && s.n <= NAME_MAX_;
}

int
broker_references_parse(const struct json_doc *doc, const struct json *v,
    struct broker_references *ret, struct err *err)
{
	if (json_type(v) != JSON_OBJECT || json_count(v) > BROKER_REFERENCES_MAX)
		return json_err(doc, v, err, ERR_CONFIG,
		    "references must be an object of at most %d directories by name",
		    BROKER_REFERENCES_MAX);
	for (size_t i = 0; i < json_count(v); i++) {
		struct str name = json_key(v, i), path = json_str(json_at(v, i));

		if (!is_name(name))
			return json_err(doc, json_at(v, i), err, ERR_CONFIG,
			    "a reference's name must be 1 to %d of A-Z a-z 0-9 . _ -, is \"%.*s\"",
			    NAME_MAX_, STR_ARG(name));
		if (json_type(json_at(v, i)) != JSON_STRING || path.n < 2 || path.p[0] != '/' ||
		    memchr(path.p, '\0', path.n) != NULL)
			return json_err(doc, json_at(v, i), err, ERR_CONFIG,
			    "reference \"%.*s\" must be a directory by its whole path, as "
			    "/srv/docs",
			    STR_ARG(name));
		ret->v[ret->n++] = (struct broker_reference){str_dup(name), str_dup(path)};
	}
	return 0;
}

void
broker_references_free(struct broker_references *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].name);
		free(r->v[i].path);
	}
	r->n = 0;
}

/* dir is `at`, or stands above it: by identity, up to the root. */
static bool
is_above(const struct stat *dir, const char *at)
{
	AUTO_FD int fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, last = {0};

	while (fd >= 0 && fstat(fd, &st) == 0) {
		int up;

		if (st.st_dev == dir->st_dev && st.st_ino == dir->st_ino)
			return true;
		if (st.st_dev == last.st_dev && st.st_ino == last.st_ino)
			return false;
		last = st;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close(fd);
		fd = up;
	}
	return true; /* it cannot be told: then it is not shown */
}

int
broker_reference_open(
    const struct broker_reference *r, const char *state, int *ret_fd, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	    .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	AUTO_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, r->path, &how, sizeof(how));
	struct stat st, keys;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "broker.json: reference \"%s\": %s%s",
		    r->name, r->path,
		    errno == ELOOP ? " is reached through a link: give where that leads" : "");
	if (stat(state, &keys) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", state);
	if (is_above(&st, state) || is_above(&keys, r->path))
		return err_set(err, ERR_CONFIG,
		    "broker.json: reference \"%s\": %s is, holds or lies in the state directory, "
		    "where the keys are: give a directory of its own",
		    r->name, r->path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
broker_references_check(const struct broker_references *r, const char *state, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		AUTO_FD int fd = -1;

		rc = broker_reference_open(&r->v[i], state, &fd, err);
	}
	return rc;
}
