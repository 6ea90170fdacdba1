/*
 * `cofferdam sandbox` files, snapshot, restore (the command line, as the person who types it). The
 * work is done inside, with the rights of the code inside; a file of this side is opened before,
 * and nothing that a sandbox says chooses which.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/log.h"
#include "agent/sandbox/cli.h"

#include "common/banned.h"

#define SIZE_DEFAULT (UINT64_C(1) << 30)
#define LIST_MAX ((size_t)16 << 20)

static uint64_t
max_of(const struct cli *c)
{
	return c->max != 0 ? c->max : SIZE_DEFAULT;
}

/* arg: what went wrong, an errno. */
static int
out_sink(void *arg, struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(STDOUT_FILENO, s.p, s.n);

		if (k < 0 && errno != EINTR) {
			*(int *)arg = errno;
			return -1;
		}
		if (k > 0) {
			s.p += k;
			s.n -= (size_t)k;
		}
	}
	return 0;
}

static int
file_read(struct sandbox *sb, const struct cli *c, struct err *err)
{
	int errnum = 0;
	int rc = sandbox_file_read(sb, c->words[2], max_of(c), out_sink, &errnum, err);

	return errnum == 0 ? rc
			   : err_sys(err, errnum == ENOSPC ? ERR_DISK_FULL : ERR_SYSTEM, errnum,
				 "sandbox: read %s: standard output", c->words[2]);
}

static int
file_write(struct sandbox *sb, const struct cli *c, struct err *err)
{
	return sandbox_file_write(sb, c->words[2], STDIN_FILENO, max_of(c), (unsigned)c->mode, err);
}

static int
json_out(int rc, const struct buf *b)
{
	if (rc == 0)
		(void)printf("%.*s\n", STR_ARG(buf_str(b)));
	return rc;
}

static int
file_list(struct sandbox *sb, const struct cli *c, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LIST_MAX);
	unsigned depth = c->depth != 0 ? (unsigned)c->depth : 1;

	return json_out(sandbox_file_list(sb, c->words[2], depth, &b, err), &b);
}

static int
file_stat(struct sandbox *sb, const struct cli *c, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LIST_MAX);

	return json_out(sandbox_file_stat(sb, c->words[2], &b, err), &b);
}

static int
file_mkdir(struct sandbox *sb, const struct cli *c, struct err *err)
{
	return sandbox_file_mkdir(sb, c->words[2], err);
}

static int
file_rename(struct sandbox *sb, const struct cli *c, struct err *err)
{
	return sandbox_file_rename(sb, c->words[2], c->words[3], err);
}

static int
file_remove(struct sandbox *sb, const struct cli *c, struct err *err)
{
	return sandbox_file_remove(sb, c->words[2], c->tree, err);
}

static bool
change_put(void *arg UNUSED, struct str json)
{
	return printf("%.*s\n", STR_ARG(json)) > 0 && fflush(stdout) == 0;
}

/* Until SIGINT or SIGTERM, or nobody reads. */
static int
file_watch(struct sandbox *sb, const struct cli *c, struct err *err)
{
	AUTO_FD int stop = -1;
	sigset_t take;

	(void)sigemptyset(&take);
	(void)sigaddset(&take, SIGINT);
	(void)sigaddset(&take, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &take, NULL);
	stop = signalfd(-1, &take, SFD_CLOEXEC);
	return sandbox_file_watch(sb, c->words[2], c->tree, stop, change_put, NULL, err);
}

static const struct verb {
	const char *name;
	int (*run)(struct sandbox *sb, const struct cli *c, struct err *err);
	size_t words; /* with the verb and the name */
} verbs[] = {{"read", file_read, 3}, {"write", file_write, 3}, {"list", file_list, 3},
    {"stat", file_stat, 3}, {"mkdir", file_mkdir, 3}, {"rename", file_rename, 4},
    {"remove", file_remove, 3}, {"watch", file_watch, 3}};

/* Says what is wrong. */
static bool
verb_check(const struct verb *v, const struct cli *c)
{
	if (v == NULL)
		log_error(
		    "\"%s\" is no VERB: read, write, list, stat, mkdir, rename, remove or watch",
		    c->words[0]);
	else if (c->nwords < v->words)
		log_error("%s is missing: cofferdam sandbox files %s NAME PATH%s",
		    c->nwords == 2 ? "PATH" : "TO", v->name, v->words == 4 ? " TO" : "");
	else if (c->nwords > v->words)
		log_error("\"%s\" is a word too many", c->words[v->words]);
	else
		return true;
	return false;
}

int
cli_files(const struct cli *c)
{
	const struct verb *v = NULL;
	struct cli own = *c;
	struct sandbox *sb = NULL;
	struct err e = {0};
	int status, rc;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, c->words[0]) == 0)
			v = &verbs[i];
	if (v != NULL && v->run == file_list && own.nwords == 2)
		own.words[own.nwords++] = ".";
	if (!verb_check(v, &own))
		return CLI_USAGE;
	if ((status = cli_attach(c->words[1], &sb)) != CLI_OK)
		return status;
	rc = v->run(sb, &own, &e);
	sandbox_detach(sb);
	return rc == 0 ? CLI_OK : cli_fail(&e);
}

/* --- snapshots ------------------------------------------------------------------------------- */

/* Appears whole or not at all. */
int
cli_snapshot(const struct cli *c)
{
	bool out = strcmp(c->words[1], "-") == 0;
	AUTO_FD int fd = out ? dup(STDOUT_FILENO)
			     : open(c->words[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct sandbox *sb = NULL;
	struct err e = {0};
	int status, rc = 0;

	if (fd < 0) {
		(void)err_sys(&e, ERR_SYSTEM, errno, "%s", c->words[1]);
		return cli_fail(&e);
	}
	if ((status = cli_attach(c->words[0], &sb)) == CLI_OK) {
		rc = sandbox_snapshot(sb, fd, max_of(c), &e);
		sandbox_detach(sb);
	}
	if ((status != CLI_OK || rc != 0) && !out)
		(void)unlink(c->words[1]);
	return status != CLI_OK ? status : rc == 0 ? CLI_OK : cli_fail(&e);
}

int
cli_restore(const struct cli *c)
{
	AUTO_FD int fd = strcmp(c->words[1], "-") == 0 ? dup(STDIN_FILENO)
						       : open(c->words[1], O_RDONLY | O_CLOEXEC);
	struct sandbox *sb = NULL;
	struct err e = {0};
	int status, rc;

	if (fd < 0) {
		(void)err_sys(&e, ERR_SYSTEM, errno, "%s", c->words[1]);
		return cli_fail(&e);
	}
	if ((status = cli_attach(c->words[0], &sb)) != CLI_OK)
		return status;
	rc = sandbox_restore(sb, fd, &e);
	sandbox_detach(sb);
	return rc == 0 ? CLI_OK : cli_fail(&e);
}
