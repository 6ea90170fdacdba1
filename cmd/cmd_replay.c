/*
 * `cofferdam replay`: the decision path as it was recorded (timeline), what a policy says to it now
 * (whatif), a document on one run of it (report), and its code once more (rerun). Runs as the
 * reviewer; each verb has a file of its own.
 */
#include "cmd/cmd_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_help.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

int
replay_fail(const struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(err->msg));

	(void)fprintf(stderr, "cofferdam: %s\n", vis);
	return err->code == ERR_TAMPER ? CMD_FAILED : CMD_USAGE;
}

int
replay_keysdir(const struct cmd_place *p)
{
	return p->statedir < 0
		   ? -1
		   : openat(p->statedir, "keys/blob", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What is there and is no regular file, as /dev/stdout or a pipe, is written to: a rename would
 * take its place. */
static int
write_through(const char *path, const struct buf *b, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", path);
	return file_write_all(fd, buf_str(b)) == 0 ? 0
						   : err_sys(err, ERR_SYSTEM, errno, "%s", path);
}

int
replay_write(const struct cmd_place *p, const char *path, const struct buf *b, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FD int dir = -1;
	struct stat st;
	int r;

	if (buf_over(b))
		return err_set(err, ERR_TOO_LARGE,
		    "%s: over %zu bytes: without --full it is smaller", path, REPLAY_OUT_MAX);
	if (strcmp(path, "-") == 0)
		return file_write_all(STDOUT_FILENO, buf_str(b)) == 0
			   ? 0
			   : err_sys(err, ERR_SYSTEM, errno, "standard output");
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return write_through(path, b, err);
	if ((r = cmd_place_outside(p, path, O_RDONLY, &dir, err)) != 0)
		return r;
	return file_replace(dir, slash != NULL ? slash + 1 : path, buf_str(b), 0600, err);
}

int
cmd_replay(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} verbs[] = {{"timeline", replay_timeline}, {"whatif", replay_whatif},
	    {"report", replay_report}, {"rerun", replay_rerun}};

	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	return cmd_usage("replay");
}
