/*
 * The parts that make and unpack a snapshot of the directory they are given. Run inside: the tar is
 * made by the sandbox's own tar and read by it again, so the host never looks into it. First in the
 * stream are the modes of what its owner could not read, which is opened up for tar and closed
 * again. Other programs are stopped meanwhile, but nothing here relies on it for more than a
 * consistent picture.
 */
#include "agent/sandbox/inside_part.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define MODES_MAX ((size_t)16 << 20)
#define ROOM_LEFT ((uint64_t)64 << 10) /* with less of it a disk is full */

/* Appends u32 mode, str path to *modes for each file whose owner may not read it, and lets it. */
static int
open_up(char *dir, struct buf *modes, struct err *err)
{
	char *roots[] = {dir, NULL};
	FTS *f = fts_open(roots, FTS_PHYSICAL | FTS_XDEV, NULL);
	FTSENT *e;

	if (f == NULL)
		return inside_errno(err, errno, "snapshot", dir);
	while ((e = fts_read(f)) != NULL) {
		const struct stat *st = e->fts_statp;
		mode_t need = e->fts_info == FTS_D ? 0700 : e->fts_info == FTS_F ? 0400 : 0;

		if ((st->st_mode & need) == need)
			continue;
		if (chmod(e->fts_accpath, (st->st_mode & 07777) | need) != 0)
			continue; /* tar says what it cannot read */
		buf_u32(modes, st->st_mode & 07777);
		buf_lz(modes, e->fts_path);
	}
	(void)fts_close(f);
	return buf_over(modes) ? err_set(err, ERR_TOO_LARGE,
				     "snapshot: too many files without "
				     "read permission")
			       : 0;
}

/* Gives them back, what was opened last first: a parent closes after its children. */
static void
modes_apply(struct str modes)
{
	struct rd r = rd_init(modes);
	struct {
		uint32_t mode;
		struct str path;
	} *v = NULL;
	size_t n = 0;

	while (r.n != 0 && !r.bad) {
		v = xreallocarray(v, n + 1, sizeof(*v));
		v[n].mode = rd_u32(&r);
		v[n].path = rd_lstr(&r);
		n += !r.bad;
	}
	while (n-- > 0) {
		AUTO_FREE char *path = str_dup(v[n].path);

		(void)chmod(path, v[n].mode & 07777);
	}
	free(v);
}

/* Why there is no process: the limit that is likely, and how to get below it. */
static int
no_process(struct err *err)
{
	if (errno != EAGAIN)
		return inside_errno(err, errno, "snapshot", "fork");
	return err_set(err, ERR_SYSTEM,
	    "snapshot: tar cannot be started: the sandbox has as many processes and threads as its "
	    "limit pids lets it: end some (ps, kill NAME PROC), or create one with more");
}

/* Starts tar with the given end of a pipe as its stream; *ret_fd is ours. */
static pid_t
tar_start(const char *const *argv, bool reads, int *ret_fd, struct err *err)
{
	static char path[] = "PATH=/usr/bin:/bin", locale[] = "LC_ALL=C";
	static char *const env[] = {path, locale, NULL};
	int pipes[2];
	pid_t pid;

	if (access("/usr/bin/tar", X_OK) != 0 && access("/bin/tar", X_OK) != 0)
		return err_set(err, ERR_UNSUPPORTED,
		    "snapshot: there is no tar in this image: add it at /usr/bin/tar");
	if (pipe2(pipes, O_CLOEXEC) != 0)
		return inside_errno(err, errno, "snapshot", "pipe");
	pid = fork();
	if (pid == 0) {
		char *args[16];
		size_t n = 0;

		for (; n < ARRAY_LEN(args) - 1 && argv[n] != NULL; n++)
			args[n] = xstrdup(argv[n]);
		args[n] = NULL;
		(void)signal(SIGPIPE, SIG_DFL);
		if (dup2(reads ? pipes[0] : pipes[1], reads ? 0 : 1) >= 0) {
			/* Whoever reads our words must not see tar's: they go to standard error. */
			if (reads)
				(void)dup2(2, 1);
			(void)execve("/usr/bin/tar", args, env);
			(void)execve("/bin/tar", args, env);
		}
		_exit(127);
	}
	(void)close(reads ? pipes[0] : pipes[1]);
	*ret_fd = reads ? pipes[1] : pipes[0];
	if (pid > 0)
		return pid;
	pid = no_process(err);
	(void)close(*ret_fd);
	return pid;
}

/* 0, or what is wrong with how tar ended; `most` is the highest status that is fine. */
static int
tar_end(pid_t pid, int most, struct err *err)
{
	int st = 0;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return inside_errno(err, errno, "snapshot", "wait");
	if (WIFEXITED(st) && WEXITSTATUS(st) <= most)
		return 0;
	if (WIFEXITED(st))
		return err_set(err, ERR_INVALID, "tar: exit %d", WEXITSTATUS(st));
	if (WTERMSIG(st) == SIGKILL)
		return err_set(err, ERR_TOO_LARGE,
		    "tar was killed: the sandbox's memory limit was reached (or a program inside "
		    "did it); private /work and /tmp count as memory");
	return err_set(err, ERR_SYSTEM, "tar: signal %d", WTERMSIG(st));
}

static int
snapshot_tar(struct str modes, struct err *err)
{
	static const char leave_out[] = "--exclude=./" SWAP_PREFIX "*";
	static const char *const argv[] = {"tar", "--create", "--file=-", "--format=pax",
	    "--sparse", "--one-file-system", "--numeric-owner", "--sort=name", leave_out, ".",
	    NULL};
	static char room[FRAME_DATA_MAX];
	AUTO_BUF struct buf head = BUF(MODES_MAX + 4);
	AUTO_FD int fd = -1;
	pid_t pid;
	ssize_t k = 0;
	int rc;

	buf_lstr(&head, modes);
	pid = tar_start(argv, false, &fd, err);
	if (pid < 0)
		return err->code;
	rc = 0;
	while (rc == 0 && (k = read(fd, room, sizeof(room))) > 0) {
		/* Not before tar has begun: nobody wants the head of nothing. */
		if (head.n != 0)
			rc = inside_data(buf_str(&head), err);
		buf_reset(&head);
		if (rc == 0)
			rc = inside_data(str_mem(room, (size_t)k), err);
	}
	(void)close(TAKE_FD(fd));
	if (rc != 0) {
		struct err ignored;

		(void)tar_end(pid, 0, &ignored);
		return rc;
	}
	/* 1: a file changed while it was read. */
	return tar_end(pid, 1, err);
}

static int
enter(const char *dir, struct err *err)
{
	return chdir(dir) != 0 ? inside_errno(err, errno, "snapshot", dir) : 0;
}

int
inside_snapshot(char **argv, struct err *err)
{
	AUTO_BUF struct buf modes = BUF(MODES_MAX);
	char here[] = ".";
	int rc;

	if (enter(argv[1], err) != 0 || swap_lock(err) != 0 || swap_recover(err) != 0)
		return err->code;
	rc = open_up(here, &modes, err);
	if (rc == 0)
		rc = snapshot_tar(buf_str(&modes), err);
	modes_apply(buf_str(&modes));
	return rc;
}

/* The part of `s` that still belongs to the list of modes; true when the list is whole. */
static bool
modes_take(struct buf *modes, struct str *s, struct err *err)
{
	struct rd r;
	size_t want = 4, k;

	err_clear(err);
	for (;;) {
		if (modes->n >= 4) {
			r = rd_init(buf_str(modes));
			want = rd_u32(&r);
			if (want > MODES_MAX) {
				(void)err_set(err, ERR_INVALID, "not a snapshot");
				return false;
			}
			want += 4;
		}
		if (modes->n == want && want >= 4 && modes->n >= 4)
			return true;
		if (s->n == 0)
			return false;
		k = s->n < want - modes->n ? s->n : want - modes->n;
		buf_put(modes, s->p, k);
		s->p += k;
		s->n -= k;
	}
}

/* Input to tar until END. */
static int
restore_feed(int fd, struct buf *modes, struct err *err)
{
	AUTO_BUF struct buf body = BUF(FRAME_DATA_MAX);
	uint64_t got = 0;
	struct rd r;
	int type, rc = 0;

	while ((type = inside_take(&body, err)) == FRAME_DATA) {
		struct str s = buf_str(&body);

		got += s.n;
		if (!modes_take(modes, &s, err)) {
			if (err->code != 0)
				return err->code;
			continue;
		}
		if (rc == 0) /* a tar that has ended is judged by its status */
			rc = inside_write_all(fd, s);
	}
	if (type < 0)
		return type;
	r = rd_init(buf_str(&body));
	if (rd_u64(&r) != got || modes->n < 4)
		return err_set(err, ERR_INVALID, "the snapshot is cut");
	return 0;
}

static int
restore_tar(struct buf *modes, struct err *err)
{
	static const char *const argv[] = {"tar", "--extract", "--file=-", "--preserve-permissions",
	    "--no-same-owner", "--numeric-owner", "--delay-directory-restore", NULL};
	struct err cut = {0};
	AUTO_FD int fd = -1;
	pid_t pid = tar_start(argv, true, &fd, err);
	int rc;

	if (pid < 0)
		return err->code;
	rc = restore_feed(fd, modes, &cut);
	(void)close(TAKE_FD(fd));
	if (tar_end(pid, 0, err) == 0 && rc == 0)
		return 0;
	return rc != 0 ? err_set(err, cut.code, "%s", cut.msg) : err->code;
}

/* Into a directory beside what is there. */
static int
restore_beside(struct err *err)
{
	AUTO_BUF struct buf modes = BUF(MODES_MAX + 4);
	int rc;

	if (enter(SWAP_NEW, err) != 0)
		return err->code;
	rc = restore_tar(&modes, err);
	if (rc == 0)
		modes_apply((struct str){(const char *)modes.p + 4, modes.n - 4});
	return rc;
}

/* tar has its own words for a full disk; what fills it is known here alone. */
static int
no_room(const struct statvfs *v, struct err *err)
{
	uint64_t unit = v->f_frsize != 0 ? v->f_frsize : 1;

	return err_set(err, ERR_DISK_FULL,
	    "restore: /work has no room for the snapshot beside what is in it (limit %llu MiB, "
	    "all of it in use): remove something in it first, or create a sandbox with more --disk",
	    (unsigned long long)(v->f_blocks * unit >> 20));
}

static int
unchanged(struct err *err)
{
	struct err why = *err;

	return err_set(err, why.code, "%s; nothing was changed", why.msg);
}

static bool
full(const struct statvfs *v)
{
	return v->f_bavail * v->f_frsize < ROOM_LEFT || (v->f_files != 0 && v->f_favail == 0);
}

int
inside_restore(char **argv, struct err *err)
{
	AUTO_FD int here = -1;
	struct statvfs v;
	struct err ignored = {0};
	int rc;

	if (enter(argv[1], err) != 0 || swap_lock(err) != 0 || swap_recover(err) != 0)
		return err->code;
	here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0 || mkdir(SWAP_NEW, 0700) != 0)
		return inside_errno(err, errno, "restore", SWAP_NEW);
	rc = restore_beside(err);
	if (fchdir(here) != 0)
		return inside_errno(err, errno, "restore", argv[1]);
	if (rc == 0)
		return swap_commit(err);
	if (fstatvfs(here, &v) == 0 && full(&v))
		(void)no_room(&v, err);
	(void)tree_remove(SWAP_NEW, &ignored);
	return unchanged(err);
}
