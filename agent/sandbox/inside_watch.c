/*
 * The part that watches: tells of changes below a directory until its input ends. Runs inside. It
 * keeps a path for each watched directory, as the kernel speaks of directories by number; what it
 * cannot follow (too many directories, too many changes at once) it reports as an overflow, never
 * as silence.
 */
#include "agent/sandbox/inside_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define DIRS_MAX 8192
#define PAIR_MS 20 /* how long the second half of a rename may take */
#define MASK                                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
	    IN_DONT_FOLLOW | IN_ONLYDIR)

struct dir {
	int wd;
	char *path;
};
struct watch {
	int fd;
	bool tree;
	struct dir dirs[DIRS_MAX];
	size_t n;
	char *from; /* first half of a rename */
	uint32_t cookie;
	bool from_dir;
	char *last; /* path of the last change told, if that was a write; else NULL */
	struct err *err;
	bool over; /* nobody reads */
};

static void
tell(struct watch *w, enum frame_op op, const char *path, const char *to)
{
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX);

	if (op == OP_WRITE && w->last != NULL && strcmp(w->last, path) == 0)
		return;
	free(w->last);
	w->last = op == OP_WRITE ? xstrdup(path) : NULL;
	buf_u8(&b, (uint8_t)op);
	buf_lz(&b, path);
	buf_lz(&b, to);
	if (buf_over(&b)) {
		buf_reset(&b);
		buf_u8(&b, OP_OVERFLOW);
		buf_lz(&b, NULL);
		buf_lz(&b, NULL);
	}
	w->over = w->over || inside_put(FRAME_CHANGE, buf_str(&b), w->err) != 0;
}

static char *
below(const char *dir, const char *name)
{
	return xasprintf("%s%s%s", dir, strcmp(dir, "/") != 0 ? "/" : "", name);
}

static struct dir *
dir_of(struct watch *w, int wd)
{
	for (size_t i = w->n; i-- > 0;)
		if (w->dirs[i].wd == wd)
			return &w->dirs[i];
	return NULL;
}

static void
dir_drop(struct watch *w, struct dir *d)
{
	free(d->path);
	*d = w->dirs[--w->n];
}

/* Is path `dir` or below it? */
static bool
within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static void
tree_drop(struct watch *w, const char *path)
{
	for (size_t i = w->n; i-- > 0;) {
		if (!within(w->dirs[i].path, path))
			continue;
		(void)inotify_rm_watch(w->fd, w->dirs[i].wd);
		dir_drop(w, &w->dirs[i]);
	}
}

static void
tree_move(struct watch *w, const char *from, const char *to)
{
	for (size_t i = 0; i < w->n; i++) {
		char *old = w->dirs[i].path;

		if (!within(old, from))
			continue;
		w->dirs[i].path = xasprintf("%s%s", to, old + strlen(from));
		free(old);
	}
}

/* Watches path and what is below it. fresh: all of that is new, and told. */
static int
dir_add(struct watch *w, const char *path, bool fresh, unsigned depth)
{
	struct dirent *e;
	struct dir *d;
	DIR *at;
	int wd;

	if (w->n == DIRS_MAX || depth == FRAME_DEPTH_MAX)
		return -ENOSPC;
	wd = inotify_add_watch(w->fd, path, MASK);
	if (wd < 0)
		return -errno;
	d = dir_of(w, wd);
	if (d != NULL) /* reached twice: the newer path is right */
		dir_drop(w, d);
	w->dirs[w->n++] = (struct dir){.wd = wd, .path = xstrdup(path)};
	if (!w->tree || (at = opendir(path)) == NULL)
		return 0;
	while (!w->over && (e = readdir(at)) != NULL) {
		AUTO_FREE char *sub = below(path, e->d_name);
		struct stat st;
		int rc;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(dirfd(at), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (fresh)
			tell(w, OP_CREATE, sub, NULL);
		if (fresh && S_ISREG(st.st_mode) && st.st_size > 0)
			tell(w, OP_WRITE, sub, NULL); /* before we looked */
		rc = S_ISDIR(st.st_mode) ? dir_add(w, sub, fresh, depth + 1) : 0;
		if (rc == -ENOSPC || rc == -EMFILE || rc == -ENOMEM)
			tell(w, OP_OVERFLOW, sub, NULL);
	}
	(void)closedir(at);
	return 0;
}

static void
dir_new(struct watch *w, const char *path)
{
	if (w->tree && dir_add(w, path, true, 1) == -ENOSPC)
		tell(w, OP_OVERFLOW, path, NULL);
}

/* The first half of a rename stayed alone: it went out of what is watched. */
static void
from_flush(struct watch *w)
{
	if (w->from == NULL)
		return;
	tell(w, OP_REMOVE, w->from, NULL);
	if (w->from_dir)
		tree_drop(w, w->from);
	free(w->from);
	w->from = NULL;
}

static void
moved_to(struct watch *w, const struct inotify_event *e, const char *path)
{
	if (w->from == NULL || w->cookie != e->cookie) {
		from_flush(w);
		tell(w, OP_CREATE, path, NULL);
		if ((e->mask & IN_ISDIR) != 0)
			dir_new(w, path);
		return;
	}
	tell(w, OP_RENAME, w->from, path);
	if (w->from_dir)
		tree_move(w, w->from, path);
	free(w->from);
	w->from = NULL;
}

static void
event(struct watch *w, const struct inotify_event *e)
{
	struct dir *d = dir_of(w, e->wd);
	AUTO_FREE char *path = NULL;

	if ((e->mask & IN_Q_OVERFLOW) != 0) {
		tell(w, OP_OVERFLOW, w->n != 0 ? w->dirs[0].path : "", NULL);
		return;
	}
	if (d == NULL)
		return;
	if ((e->mask & IN_IGNORED) != 0) {
		dir_drop(w, d);
		return;
	}
	if (e->len == 0)
		return; /* the directory itself: its parent tells */
	path = below(d->path, e->name);
	if ((e->mask & IN_MOVED_TO) == 0)
		from_flush(w);
	if ((e->mask & IN_MOVED_FROM) != 0) {
		w->from = TAKE_PTR(path);
		w->cookie = e->cookie;
		w->from_dir = (e->mask & IN_ISDIR) != 0;
	} else if ((e->mask & IN_MOVED_TO) != 0) {
		moved_to(w, e, path);
	} else if ((e->mask & IN_CREATE) != 0) {
		tell(w, OP_CREATE, path, NULL);
		if ((e->mask & IN_ISDIR) != 0)
			dir_new(w, path);
	} else if ((e->mask & IN_DELETE) != 0) {
		tell(w, OP_REMOVE, path, NULL);
	} else if ((e->mask & IN_MODIFY) != 0) {
		tell(w, OP_WRITE, path, NULL);
	} else {
		tell(w, OP_CHMOD, path, NULL);
	}
}

static void
events(struct watch *w)
{
	_Alignas(struct inotify_event) static char room[65536];
	ssize_t k = read(w->fd, room, sizeof(room));

	for (ssize_t off = 0; off < k && !w->over;) {
		const struct inotify_event *e = (const void *)(room + off);

		event(w, e);
		off += (ssize_t)(sizeof(*e) + e->len);
	}
}

int
inside_watch(char **argv, struct err *err)
{
	static struct watch w;
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
	size_t n = strlen(argv[1]);
	AUTO_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int rc;

	if (fd < 0)
		return inside_errno(err, errno, "watch", argv[1]);
	while (n > 1 && argv[1][n - 1] == '/')
		argv[1][--n] = '\0';
	w = (struct watch){.fd = fd, .tree = strcmp(argv[2], "tree") == 0, .err = err};
	p[1].fd = fd;
	rc = dir_add(&w, argv[1], false, 0);
	if (rc == -ENOTDIR)
		return err_set(err, ERR_INVALID, "watch %s: not a directory", argv[1]);
	if (rc != 0)
		return inside_errno(err, -rc, "watch", argv[1]);
	tell(&w, OP_READY, argv[1], NULL);
	while (!w.over && p[0].revents == 0) {
		if (poll(p, 2, w.from != NULL ? PAIR_MS : -1) == 0)
			from_flush(&w);
		if (p[1].revents != 0)
			events(&w);
	}
	return w.over ? err->code : 0;
}
