/*
 * `cofferdam log verify`: the verdict on a log directory, by public keys alone. Runs as whoever
 * wants to know; needs read access to the log and public keys, nothing else.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>

#include "audit/verify.h"
#include "cmd/cmd.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

#define PINS_MAX 32

struct verify_args {
	const char *state, *dir, *vkey;
	const char *pin[PINS_MAX];
	size_t npins;
};

static bool
verify_args_read(int argc, char **argv, struct verify_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"vkey", required_argument, NULL, 'k'},
	    {"keys", required_argument, NULL, 'k'},
	    {"pin", required_argument, NULL, 'p'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			a->state = optarg;
		else if (c == 'k')
			a->vkey = optarg;
		else if (c == 'p' && a->npins < PINS_MAX)
			a->pin[a->npins++] = optarg;
		else
			return false;
	}
	if (optind < argc)
		a->dir = argv[optind++];
	return optind == argc;
}

static int
open_pins(const struct verify_args *a, const struct vkeys *keys, struct pin pins[PINS_MAX],
    struct err *err)
{
	for (size_t i = 0; i < a->npins; i++) {
		AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
		const struct vkey *key;
		int r = file_read(AT_FDCWD, a->pin[i], &note, err);

		if (r != 0)
			return r;
		pins[i].name = a->pin[i];
		if (checkpoint_open(buf_str(&note), keys, &pins[i].cp, &key, err) != 0) {
			(void)err_wrap(err, "%s", a->pin[i]);
			err->code = ERR_CONFIG; /* a bad pin says nothing about the log */
			return ERR_CONFIG;
		}
	}
	return 0;
}

int
cmd_log_verify(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf out = BUF(65536);
	struct verify_args a = {0};
	struct pin pins[PINS_MAX];
	struct verdict v;
	struct vkeys keys;
	struct err err = {0};

	if (!verify_args_read(argc, argv, &a)) {
		(void)log_usage("verify");
		(void)fprintf(stderr, "It ends with 0 verified, 1 tampered with, 2 usage or keys, "
				      "3 whole but with an\nunsigned or torn end.\n");
		return CMD_USAGE;
	}
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    open_pins(&a, &keys, pins, &err) != 0 ||
	    verify_log(place.logdir, &keys, pins, a.npins, &v, &err) != 0)
		return log_fail(&err);
	verdict_put(&out, &v);
	(void)fwrite(out.p, 1, out.n, stdout);
	return verdict_status(&v);
}
