/*
 * Where a `cofferdam log verify` that was ended goes on. Runs as whoever verifies; the file is
 * theirs. It holds a checkpoint as the log signed it and nothing of its own: whoever cannot sign as
 * the log cannot make one that stands for other records. What it says beyond --pin is that a run
 * judged what is before it, so nobody else may write it, and it never goes past a finding.
 */
#include "cmd/cmd_log_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/segment.h"
#include "cmd/cmd_log.h"
#include "common/clock.h"

#include "common/banned.h"

#define EVERY_US UINT64_C(2000000)
#define WANTED "must be a checkpoint of this log, as --resume writes it, or not be there"
#define OTHERS_WRITE (mode_t)0022

/* --- what is there ----------------------------------------------------------------------- */

static int
check_place(const struct log_resume *r, const struct stat *st, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_CONFIG, "%s is %s, %s", r->file,
		    S_ISDIR(st->st_mode) ? "a directory" : "no regular file", WANTED);
	if (st->st_uid != geteuid())
		return err_set(err, ERR_CONFIG,
		    "%s belongs to uid %u, must be of uid %u: its owner decides which records are "
		    "not judged again",
		    r->file, st->st_uid, geteuid());
	if ((st->st_mode & OTHERS_WRITE) != 0)
		return err_set(err, ERR_CONFIG,
		    "%s has mode %04o, must be 0600: who can write it decides which records are "
		    "not judged again",
		    r->file, st->st_mode & 07777);
	return 0;
}

/* The newest checkpoint of the log says whose it is; where it does not hold, the verdict tells. */
static int
check_origin(const struct log_resume *r, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	struct checkpoint cp;

	if (log_newest(r->logdir, r->keys, &note, NULL) != 0 ||
	    checkpoint_open(buf_str(&note), r->keys, &cp, &key, NULL) != 0 ||
	    strcmp(cp.origin, r->pin.cp.origin) == 0)
		return 0;
	return err_set(err, ERR_CONFIG, "%s is of the log %s, this one is %s; %s", r->file,
	    r->pin.cp.origin, cp.origin, WANTED);
}

static int
read_file(struct log_resume *r, struct err *err)
{
	/* O_NONBLOCK: a fifo must not hold us. */
	AUTO_FD int fd = openat(r->dir, r->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const struct vkey *key;
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == ELOOP)
		return err_set(err, ERR_CONFIG, "%s is a symbolic link, %s", r->file, WANTED);
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", r->file);
	if ((rc = check_place(r, &st, err)) != 0 ||
	    (rc = file_read_fd(fd, r->file, &r->before, err)) != 0)
		return rc;
	if (checkpoint_open(buf_str(&r->before), r->keys, &r->pin.cp, &key, err) != 0) {
		(void)err_wrap(err, "%s, which " WANTED, r->file);
		err->code = ERR_CONFIG; /* it says nothing about the log */
		return ERR_CONFIG;
	}
	if (r->pin.cp.size == 0)
		return err_set(
		    err, ERR_CONFIG, "%s is a checkpoint of no record, %s", r->file, WANTED);
	r->size = r->pin.cp.size;
	return check_origin(r, err);
}

int
log_resume_open(const char *file, const struct cmd_place *place, const struct vkeys *keys,
    struct log_resume *ret, struct err *err)
{
	const char *slash = strrchr(file, '/');
	int rc;

	ret->file = file;
	ret->name = slash == NULL ? file : slash + 1;
	ret->logdir = place->logdir;
	ret->keys = keys;
	ret->pin.name = file;
	ret->last_us = clock_boot_us();
	buf_init(&ret->before, CHECKPOINT_MAX);
	if (*ret->name == '\0')
		return err_set(err, ERR_CONFIG, "\"%s\" names no file, %s", file, WANTED);
	if ((rc = cmd_place_outside(place, file, O_RDONLY, &ret->dir, err)) != 0)
		return rc;
	if (faccessat(ret->dir, ".", W_OK | X_OK, AT_EACCESS) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s: its directory", file);
	return read_file(ret, err);
}

void
log_resume_close(struct log_resume *r)
{
	cleanup_close_fd(&r->dir);
	buf_free(&r->before);
}

/* --- what is written ------------------------------------------------------------------------ */

/* The head that held, as the log has it still. */
static int
write_held(struct log_resume *r, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	struct checkpoint cp;
	int rc = log_read_file(r->logdir, r->held_name, &note, err);

	if (rc == 0)
		rc = checkpoint_open(buf_str(&note), r->keys, &cp, &key, err);
	if (rc == 0 && (cp.size != r->held.size || !hash_eq(&cp.root, &r->held.root)))
		rc = err_set(err, ERR_TAMPER, "%s is another one than it was", r->held_name);
	if (rc == 0)
		rc = file_replace(r->dir, r->name, buf_str(&note), 0600, err);
	if (rc == 0)
		r->size = r->held.size;
	return rc;
}

/* Never back: a run that reads all again passes heads that another one has kept. */
static void
keep(struct log_resume *r)
{
	struct err err = {0};

	r->last_us = clock_boot_us();
	if (r->held.size <= r->size || write_held(r, &err) == 0)
		return;
	if (!r->failed)
		(void)fprintf(stderr, "cofferdam: %s is not kept up: %s\n", r->file, err.msg);
	r->failed = true;
}

void
log_resume_held(void *arg, const char *name, const struct checkpoint *cp)
{
	struct log_resume *r = arg;

	r->held = *cp;
	(void)snprintf(r->held_name, sizeof(r->held_name), "%s", name);
	if (clock_boot_us() - r->last_us >= EVERY_US)
		keep(r);
}

/* As it was before this run. */
static void
take_back(struct log_resume *r)
{
	struct err err = {0};
	int rc = 0;

	if (r->pin.cp.size != 0)
		rc = file_replace(r->dir, r->name, buf_str(&r->before), 0600, &err);
	else if (unlinkat(r->dir, r->name, 0) != 0 && errno != ENOENT)
		rc = err_sys(&err, ERR_SYSTEM, errno, "%s", r->name);
	if (rc != 0)
		(void)fprintf(stderr, "cofferdam: %s is not taken back: %s\n", r->file, err.msg);
	r->failed |= rc != 0;
	r->size = r->pin.cp.size;
}

/* The first record that a finding touches; 0 where not all are known. */
static uint64_t
first_found(const struct verdict *v)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < v->nfaults; i++)
		if (v->faults[i].seq < first)
			first = v->faults[i].seq;
	return v->more != 0 ? 0 : first;
}

bool
log_resume_end(struct log_resume *r, const struct verdict *v)
{
	if (verdict_clean(v))
		keep(r);
	else if (r->size != r->pin.cp.size && first_found(v) < r->size)
		take_back(r);
	return !r->failed;
}

/* --- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void
on_signal(int sig)
{
	stopped = sig;
}

const volatile sig_atomic_t *
log_resume_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM};
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, old;

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &act, NULL);
	return &stopped;
}

int
log_resume_stopped(struct log_resume *r, const struct verdict *v)
{
	int sig = stopped;

	(void)log_resume_end(r, v);
	(void)fprintf(stderr,
	    "cofferdam: stopped by SIG%s behind %" PRIu64 " records; %" PRIu64
	    " are signed, %zu findings so far; ",
	    sigabbrev_np(sig), v->size, v->newest, v->nfaults + v->more);
	if (r->size != 0)
		(void)fprintf(stderr,
		    "%s has the head of size %" PRIu64 ": the same again goes on there\n", r->file,
		    r->size);
	else
		(void)fprintf(
		    stderr, "%s is not there: no head was reached that could be kept\n", r->file);
	(void)raise(sig);
	return 128 + sig; /* it is blocked */
}
