/*
 * `cofferdam log index`: makes the index of a log, or brings it up to date. Runs as whoever may
 * read the log and write the index; changes nothing in the log. The index is a help and no
 * evidence.
 */
#include "cmd/cmd_log_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "common/clock.h"

#include "common/banned.h"

#define INDEX_DIR "index"
#define INDEX_FILE "log.db"
#define TELL_US UINT64_C(2000000)

/* SQLite wants a path; the state directory is one that we hold open. */
int
log_index_path(const struct cmd_place *p, const char *file, struct buf *ret, struct err *err)
{
	char link[64], path[PATH_MAX];
	AUTO_FD int dir = -1;
	ssize_t n;
	int r;

	if (file != NULL || p->statedir < 0) {
		if (file == NULL)
			return 0;
		buf_put_z(ret, file);
		r = index_may_replace(file, err);
		return r != 0 ? r : cmd_place_outside(p, file, O_PATH, &dir, err);
	}
	if (mkdirat(p->statedir, INDEX_DIR, 0700) != 0 && errno != EEXIST)
		return err_sys(err, ERR_CONFIG, errno,
		    "%s: cannot be made (give --index FILE, or --scan for none)", INDEX_DIR);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", p->statedir);
	n = readlink(link, path, sizeof(path));
	if (n < 0 || (size_t)n == sizeof(path))
		return err_sys(err, ERR_SYSTEM, errno, "%s", link);
	buf_put(ret, path, (size_t)n);
	buf_put_z(ret, "/" INDEX_DIR "/" INDEX_FILE);
	return 0;
}

struct telling {
	uint64_t since, last;
	bool told;
};

static void
tell(void *arg, uint64_t done, uint64_t seq)
{
	struct telling *t = arg;
	uint64_t now = clock_boot_us();

	if (now - t->last < TELL_US)
		return;
	t->last = now;
	t->told = true;
	(void)fprintf(stderr, "cofferdam: indexing: record %" PRIu64 ", %" PRIu64 " a second\n",
	    seq, done * 1000000 / (now - t->since + 1));
}

int
log_index_open(const struct cmd_place *p, const char *path, struct index **ret, struct err *err)
{
	struct telling t = {.since = clock_boot_us(), .last = clock_boot_us()};
	const struct index_watch watch = {tell, &t};
	AUTO(index) struct index *x = NULL;
	bool anew = false;
	int r = index_open(path, p->logdir, &x, &anew, err);

	if (anew)
		(void)fprintf(stderr, "cofferdam: the index was of another log or version, or "
				      "damaged: it is made anew\n");
	if (r == 0)
		r = index_update(x, p->logdir, &watch, err);
	*ret = TAKE_PTR(x); /* also with a log that does not read on: what is before it */
	return r;
}

static int
say_size(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	(void)printf("%s: up to date, %.1f MB\n", path, (double)st.st_size / 1e6);
	return 0;
}

struct args {
	const char *state, *dir, *index;
	bool rebuild;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--index", OPTION_TEXT, AT(index), 0, 0, "FILE", LOG_INDEX_IS},
    {"--rebuild", OPTION_FLAG, AT(rebuild), 0, 0, NULL, "make it anew"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

int
cmd_log_index(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO(index) struct index *x = NULL;
	AUTO_BUF struct buf path = BUF(PATH_MAX);
	AUTO_FREE char *z = NULL;
	struct args a = {0};
	struct err err = {0};

	if (!ARGS_READ("log index", rows, argc, argv, &a))
		return CMD_USAGE;
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    log_index_path(&place, a.index, &path, &err) != 0)
		return log_fail(&err);
	if (path.n == 0) {
		(void)fprintf(
		    stderr, "cofferdam: a log directory keeps no index: give --index FILE\n");
		return CMD_USAGE;
	}
	z = buf_dup_z(&path);
	if ((a.rebuild && index_remove(z, &err) != 0) || log_index_open(&place, z, &x, &err) != 0 ||
	    say_size(z, &err) != 0)
		return log_fail(&err);
	return CMD_OK;
}
