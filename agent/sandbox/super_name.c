/*
 * The name of a sandbox that others attach to: a socket in the user's own directory, and beside
 * it a lock file that is held as long as the supervisor lives. Runs in the supervisor. The lock
 * decides who has a name, so that a socket left by a dead one may be replaced, and one of a living
 * one never is.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define TRIES 100

/* True: the file that is locked is still the one of that path. */
static bool
still_there(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static bool
directory_again(struct err *err)
{
	AUTO_FREE char *dir = call_directory(true, err);

	return dir != NULL;
}

static int
lock_take(const char *name, const char *path, int *ret, struct err *err)
{
	for (int i = 0; i < TRIES; i++) {
		AUTO_FD int fd =
		    open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

		/* Who ended last took the directory away, too. */
		if (fd < 0 && errno == ENOENT && directory_again(err))
			continue;
		if (fd < 0)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", path);
		if (flock(fd, LOCK_EX | LOCK_NB) != 0)
			return err_set(err, ERR_EXISTS,
			    "sandbox: there is one named \"%s\": end it or take another name",
			    name);
		if (still_there(fd, path)) {
			*ret = TAKE_FD(fd);
			return 0;
		}
	}
	return err_set(err, ERR_EXISTS, "sandbox: the name \"%s\" comes and goes", name);
}

int
super_name_take(const char *name, struct super_name *ret, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	struct super_name n = {.lock = -1};
	struct err e = {0};

	dir = call_directory(true, &e);
	if (dir == NULL)
		return err_set(err, e.code, "%s", e.msg);
	n.path = xasprintf("%s/%s.sock", dir, name);
	n.early = xasprintf("%s/%s.early", dir, name);
	n.lock_path = xasprintf("%s/%s.lock", dir, name);
	n.dir = call_directory_passing();
	if (strlen(n.path) + 1 >= sizeof(((struct sockaddr_un *)0)->sun_path))
		(void)err_set(&e, ERR_TOO_LARGE, "sandbox: %s is too long for a socket", n.path);
	else if (lock_take(name, n.lock_path, &n.lock, &e) == 0)
		(void)unlink(n.path);
	if (n.lock < 0) {
		super_name_free(&n);
		return err_set(err, e.code, "%s", e.msg);
	}
	*ret = n;
	return 0;
}

/* It appears under its name only when it listens, and as a whole. */
int
super_name_listen(const struct super_name *n, int *ret_fd, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, n->early, strlen(n->early) + 1);
	(void)unlink(n->early);
	/* Linux makes the file with the socket's own mode: no moment with another one. */
	if (fd < 0 || fchmod(fd, 0600) != 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 ||
	    listen(fd, SUPER_CONNS_MAX) != 0 || rename(n->early, n->path) != 0) {
		(void)err_sys(err, ERR_SYSTEM, errno, "sandbox: %s", n->path);
		(void)unlink(n->early);
		return ERR_SYSTEM;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void
super_name_free(struct super_name *n)
{
	if (n->lock_path != NULL && n->lock >= 0) {
		(void)unlink(n->path);
		(void)unlink(n->lock_path);
		(void)close(n->lock);
		call_directory_clear();
	}
	free(n->path);
	free(n->early);
	free(n->dir);
	free(n->lock_path);
	*n = (struct super_name){.lock = -1};
}
