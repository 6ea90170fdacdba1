/*
 * `cofferdam log keys`: which keys may sign which sizes of a log. Runs as whoever wants to know;
 * needs read access to the log and a public key to begin with, nothing else.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

struct keys_args {
	const char *state, *dir, *vkey;
};

static bool
args_read(int argc, char **argv, struct keys_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"keys", required_argument, NULL, 'k'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': a->state = optarg; break;
		case 'k': a->vkey = optarg; break;
		default: return false;
		}
	}
	if (optind < argc)
		a->dir = argv[optind++];
	return optind == argc;
}

/* As a key file has them: what verifiers may be given in place of the first key. */
static int
list(const struct keys_args *a, struct err *err)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf out = BUF((size_t)VKEYS_MAX * 512);
	struct vkeys keys;
	int rc = cmd_place_open(a->state, a->dir, &place, err);

	if (rc == 0)
		rc = cmd_place_keys(&place, a->vkey, &keys, err);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < keys.n; i++) {
		const struct vkey *k = &keys.key[i];

		vkey_put(&out, k);
		buf_printf(&out, " %" PRIu64 " ", k->first);
		if (k->last == UINT64_MAX)
			buf_put_c(&out, '-');
		else
			buf_printf(&out, "%" PRIu64, k->last);
		buf_put_z(&out, k->revoked ? " revoked\n" : "\n");
	}
	(void)fwrite(out.p, 1, out.n, stdout);
	return 0;
}

int
cmd_log_keys(int argc, char **argv)
{
	struct keys_args a = {0};
	struct err err = {0};

	if (!args_read(argc, argv, &a))
		return log_usage("keys");
	return list(&a, &err) == 0 ? CMD_OK : cmd_fail(&err);
}
