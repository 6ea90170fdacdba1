/*
 * `cofferdam log keys`: which keys may sign which sizes of a log. Runs as whoever wants to know;
 * needs read access to the log and a public key to begin with, nothing else.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

struct keys_args {
	const char *state, *dir, *vkey;
};

#define AT(f) offsetof(struct keys_args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE",
	"keys to begin with (default: the first of the state directory)"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

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

	if (!ARGS_READ("log keys", rows, argc, argv, &a))
		return CMD_USAGE;
	return list(&a, &err) == 0 ? CMD_OK : cmd_fail(&err);
}
