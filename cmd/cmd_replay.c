/*
 * `cofferdam replay`: the decision path as it was recorded (timeline), and what a policy says to it
 * now (whatif). Runs as the reviewer; reads the log, and content as far as its keys can be read.
 * Verifies first: a timeline over a log that does not hold says so before and after.
 */
#include "cmd/cmd_replay.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/replay_timeline.h"
#include "audit/verify.h"
#include "cmd/cmd.h"
#include "common/log.h"

#include "common/banned.h"

#define LINES 24

struct args {
	const char *state, *vkey, *run;
	bool full;
};

static int
usage(void)
{
	(void)fprintf(stderr,
	    "usage: cofferdam replay timeline [--state DIR] [--vkey FILE] [--full] [RUN]\n"
	    "       cofferdam replay whatif [--state DIR] [--policy FILE] [--at TIME] [--all] "
	    "[RUN]\n"
	    "whatif ends with 0 when every verdict is the recorded one, else 1.\n");
	return CMD_USAGE;
}

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

static bool
parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"vkey", required_argument, NULL, 'k'},
	    {"full", no_argument, NULL, 'f'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const char **to = c == 's' ? &a->state : c == 'k' ? &a->vkey : NULL;

		if (to != NULL)
			*to = optarg;
		else if (c == 'f')
			a->full = true;
		else
			return false;
	}
	if (optind < argc)
		a->run = argv[optind++];
	return optind == argc;
}

static void
print(void *arg UNUSED, struct str text)
{
	(void)fwrite(text.p, 1, text.n, stdout);
}

static int
walk(struct cmd_place *place, struct timeline *t, struct err *err)
{
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	int n = chain_open(place->logdir, 0, &c, err);

	while (n == 0 && (n = chain_next(c, &r, &leaf, err)) == 1) {
		timeline_record(t, &r);
		n = 0;
		if (chain_fault(c)->kind != LOG_KIND_NONE)
			break;
	}
	chain_free(c);
	return n;
}

static int
timeline(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO(replay_blobs) struct replay_blobs *blobs = NULL;
	AUTO_BUF struct buf verdict = BUF(65536);
	AUTO_FD int keysdir = -1;
	struct args a = {0};
	struct replay_opts o = {0};
	struct timeline *t;
	struct vkeys keys;
	struct verdict v;
	struct err err = {0};
	size_t shown;
	int n;

	if (!parse_args(argc, argv, &a))
		return usage();
	o.run = a.run;
	o.lines = a.full ? 0 : LINES;
	if (cmd_place_open(NULL, a.state, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    verify_log(place.logdir, &keys, NULL, 0, &v, &err) != 0)
		return replay_fail(&err);
	keysdir = replay_keysdir(&place);
	if (replay_blobs_open(place.logdir, keysdir, &blobs, &err) != 0)
		return replay_fail(&err);
	verdict_put(&verdict, &v);
	if (verdict_status(&v) == 1)
		print(NULL, buf_str(&verdict));
	o.verified = v.verified;
	t = timeline_new(&o, blobs, print, NULL);
	n = walk(&place, t, &err);
	shown = timeline_end(t);
	timeline_free(t);
	(void)printf("\nlog: %.*s", STR_ARG(buf_str(&verdict)));
	if (n != 0)
		return replay_fail(&err);
	if (a.run != NULL && shown == 0) {
		(void)fprintf(stderr, "cofferdam: the log has no run %s\n", a.run);
		return CMD_FAILED;
	}
	return verdict_status(&v) == 1 || verdict_status(&v) == 2 ? CMD_FAILED : CMD_OK;
}

int
cmd_replay(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} verbs[] = {{"timeline", timeline}, {"whatif", replay_whatif}};

	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	return usage();
}
