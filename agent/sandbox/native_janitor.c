/*
 * The janitor: a process that outlives a killed supervisor by a moment, to remove the control
 * groups that nothing else would, and the files of its name, whose lock it holds until then. It
 * shares the supervisor's memory and sleeps on a pipe whose other end only that holds; no signal
 * but SIGKILL reaches it. While the supervisor waits for the starting child it also writes that
 * child's id maps, with the supervisor's rights. Pid 1 of the sandbox dies with the supervisor by
 * itself. It runs beside the supervisor, so it uses native_raw.h and its own stack, and nothing
 * else.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/sandbox/native_raw.h"

#include "common/banned.h"

#define STACK ((size_t)16 << 10)
#define LOCK_FD 1
#define TURNS 500 /* of 10 ms: until everything in a group is gone */
#define PATHS_MAX 4096
#define NAME_PATH_MAX 256
#define TOLD_MAX 16 /* also those that could not be made */

/* Above its stack: the supervisor's own memory may change or go. */
struct task {
	int order;   /* the pipe's end to read */
	int lock;    /* of the name; -1: none */
	size_t n;    /* written last */
	size_t used; /* of text */
	struct {
		unsigned path; /* in text */
		bool thaw;
	} g[TOLD_MAX];
	char text[PATHS_MAX];
	/* Of the name: socket, where that is bound, lock; the directory, "" if that stays. */
	char names[4][NAME_PATH_MAX];
};

static size_t
put_text(char *out, const char *text)
{
	size_t n = 0;

	for (; text[n] != '\0'; n++)
		out[n] = text[n];
	out[n] = '\0';
	return n;
}

static size_t
put_number(char *out, unsigned v)
{
	char digits[12];
	size_t n = 0, k = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	while (n != 0)
		out[k++] = digits[--n];
	out[k] = '\0';
	return k;
}

static long
file_put(const char *path, const char *text, size_t n)
{
	long fd = RAW(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return fd;
	rc = RAW(SYS_write, fd, text, n);
	(void)RAW(SYS_close, fd);
	return rc < 0 ? rc : 0;
}

static long
map_file(pid_t pid, const char *name, unsigned outside)
{
	char path[64], text[64];
	size_t n = put_text(path, "/proc/");

	n += put_number(path + n, (unsigned)pid);
	n += put_text(path + n, "/");
	(void)put_text(path + n, name);
	n = put_number(text, NATIVE_UID_INSIDE);
	n += put_text(text + n, " ");
	n += put_number(text + n, outside);
	n += put_text(text + n, " 1");
	return file_put(path, text, n);
}

void
native_map_write(struct native_idmap *m)
{
	long rc = map_file(m->child, "uid_map", m->uid);

	if (rc == 0)
		rc = map_file(m->child, "gid_map", m->gid);
	m->state = (uint32_t)(1 - rc);
	(void)RAW(SYS_futex, &m->state, FUTEX_WAKE, 1);
}

/* A frozen group of version 1 does not let its processes die; of version 2 what is left is killed,
 * as a run time's processes do not all die with the supervisor. */
static void
groups_remove(const struct task *t)
{
	const struct timespec turn = {.tv_nsec = 10000000};

	for (size_t i = 0; i < t->n; i++) {
		char path[PATHS_MAX];
		size_t n = put_text(path, t->text + t->g[i].path);

		(void)put_text(path + n, "/freezer.state");
		if (t->g[i].thaw)
			(void)file_put(path, "THAWED", 6);
		(void)put_text(path + n, "/cgroup.kill");
		(void)file_put(path, "1", 1);
	}
	for (size_t i = 0; i < t->n; i++)
		for (int k = 0; k < TURNS; k++) {
			if (RAW(SYS_unlinkat, AT_FDCWD, t->text + t->g[i].path,
				0x200 /* AT_REMOVEDIR */) != -EBUSY)
				break;
			(void)RAW(SYS_nanosleep, &turn, NULL);
		}
}

/* Ours alone as long as the file that we hold the lock of is the one of that path: who lets a name
 * go takes that file away, and nobody else does while it is locked. */
static void
names_remove(const struct task *t)
{
	struct stat held, there;

	if (t->lock < 0 || RAW(SYS_newfstatat, LOCK_FD, "", &held, AT_EMPTY_PATH) != 0 ||
	    RAW(SYS_newfstatat, AT_FDCWD, t->names[2], &there, AT_SYMLINK_NOFOLLOW) != 0 ||
	    held.st_dev != there.st_dev || held.st_ino != there.st_ino)
		return;
	for (size_t i = 0; i < 3; i++)
		(void)RAW(SYS_unlinkat, AT_FDCWD, t->names[i], 0);
	if (t->names[3][0] != '\0')
		(void)RAW(SYS_unlinkat, AT_FDCWD, t->names[3], 0x200 /* AT_REMOVEDIR */);
}

static int
janitor_main(void *arg)
{
	struct task *t = arg;
	char order = 0;

	(void)RAW(SYS_setsid);
	(void)RAW(SYS_prctl, PR_SET_NAME, "cofferdam-tidy");
	/* Above all not the pipe's other end. */
	if (RAW(SYS_dup3, t->order, 0, 0) < 0 && t->order != 0)
		return 1;
	if (t->lock >= 0 && t->lock != LOCK_FD && RAW(SYS_dup3, t->lock, LOCK_FD, 0) < 0)
		t->lock = -1;
	(void)RAW(SYS_close_range, t->lock >= 0 ? LOCK_FD + 1 : LOCK_FD, ~0u, 0);
	while (RAW(SYS_read, 0, &order, 1) == -EINTR)
		continue;
	groups_remove(t);
	names_remove(t);
	return 0;
}

int
native_janitor_tell(struct native_janitor *j, const char *path, bool thaw, struct err *err)
{
	struct task *t = native_region_shared(&j->region);
	size_t n = strlen(path) + 1;

	/* With room behind for a file's name. */
	if (t->n == ARRAY_LEN(t->g) || t->used + n + 16 > sizeof(t->text))
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: the paths of its control groups are over %zu bytes, or over %d",
		    sizeof(t->text), TOLD_MAX);
	memcpy(t->text + t->used, path, n);
	t->g[t->n].path = (unsigned)t->used;
	t->g[t->n].thaw = thaw;
	t->used += n;
	__atomic_store_n(&t->n, t->n + 1, __ATOMIC_RELEASE);
	return 0;
}

static int
name_tell(struct task *t, const struct super_name *name, struct err *err)
{
	const char *files[4] = {NULL};

	t->lock = -1;
	if (name == NULL)
		return 0;
	files[0] = name->path;
	files[1] = name->early;
	files[2] = name->lock_path;
	files[3] = name->dir != NULL ? name->dir : "";
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (strlen(files[i]) >= NAME_PATH_MAX)
			return err_set(err, ERR_TOO_LARGE, "sandbox: %s is over %d bytes", files[i],
			    NAME_PATH_MAX - 1);
		memcpy(t->names[i], files[i], strlen(files[i]) + 1);
	}
	t->lock = name->lock;
	return 0;
}

int
native_janitor_start(struct native_janitor *j, const struct super_name *name, struct err *err)
{
	struct clone_args a = {0};
	struct task *t;
	int p[2], rc;
	pid_t pid;

	if ((rc = native_region_make(STACK, sizeof(*t), &j->region, err)) != 0)
		return rc;
	t = native_region_shared(&j->region);
	if ((rc = name_tell(t, name, err)) != 0)
		return rc;
	j->named = name != NULL;
	if (pipe2(p, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: pipe of the janitor");
	t->order = p[0];
	j->order = p[1];
	pid = native_spawn(&j->region, &a, janitor_main, t);
	(void)close(p[0]);
	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, -pid, "sandbox: janitor");
	j->pid = pid;
	return 0;
}

int
native_map_wait(struct native_idmap *m, struct err *err)
{
	const struct timespec limit = {.tv_sec = 10};
	long rc = 0;

	while (rc == 0 && m->state == 0) {
		rc = RAW(SYS_futex, &m->state, FUTEX_WAIT, 0, &limit);
		if (rc == -EAGAIN || rc == -EINTR)
			rc = 0;
	}
	if (rc == 0 && m->state != 1)
		rc = -(long)(m->state - 1);
	if (rc != 0)
		return native_missing(err, (int)-rc, "the id map of a user namespace",
		    "the supervisor's root must be able to map host ids (in a container: give it a "
		    "range of ids)");
	return 0;
}

void
native_janitor_end(struct native_janitor *j)
{
	if (j->pid > 0) {
		(void)kill(j->pid, SIGKILL);
		while (waitpid(j->pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
			continue;
	}
	if (j->order > 0)
		(void)close(j->order);
	native_region_free(&j->region);
	*j = (struct native_janitor){0};
}
