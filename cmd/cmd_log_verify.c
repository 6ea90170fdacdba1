/*
 * `cofferdam log verify`: the verdict on a log directory, by public keys alone. Runs as whoever
 * wants to know; needs read access to the log and public keys, nothing else.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/verify.h"
#include "audit/verify_witness.h"
#include "cmd/cmd.h"
#include "cmd/cmd_help.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_log_deep.h"
#include "cmd/cmd_place.h"

#include "common/banned.h"

#define PINS_MAX 32

struct verify_args {
	const char *state, *dir, *vkey;
	const char *pin[PINS_MAX];
	size_t npins;
	bool deep, progress;
};

static bool
verify_args_read(int argc, char **argv, struct verify_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"vkey", required_argument, NULL, 'k'},
	    {"keys", required_argument, NULL, 'k'},
	    {"pin", required_argument, NULL, 'p'},
	    {"deep", no_argument, NULL, 'd'},
	    {"progress", no_argument, NULL, 'g'},
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
		else if (c == 'd')
			a->deep = true;
		else if (c == 'g')
			a->progress = true;
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

/* On a line of its own that is written over and cleared at the end. */
static void
told(void *arg, uint64_t records, size_t segment, size_t segments)
{
	bool *any = arg;

	*any = true;
	(void)fprintf(
	    stderr, "\r%" PRIu64 " records, segment %zu of %zu", records, segment, segments);
}

static void
found(void *arg, const struct log_fault *f)
{
	verdict_fault(arg, f);
}

/* Keys of witnesses stand beside those of the log. */
static int
read_witnesses(const struct verify_args *a, struct cosigners *ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF((size_t)1 << 16);
	int r;

	*ret = (struct cosigners){0};
	if (a->vkey == NULL)
		return 0;
	r = file_read(AT_FDCWD, a->vkey, &text, err);
	return r != 0 ? r : cosigners_parse(buf_str(&text), a->vkey, ret, err);
}

static int
judge(const struct cmd_place *place, const struct vkeys *keys, const struct pin *pins,
    const struct cosigners *who, const struct verify_args *a, struct verdict *v, struct err *err)
{
	bool any = false;
	int r = verify_log_told(place->logdir, keys, pins, a->npins,
	    a->progress || isatty(2) == 1 ? told : NULL, &any, v, err);

	if (any)
		(void)fprintf(stderr, "\r%60s\r", "");
	return r != 0 ? r : verify_witnesses(place->logdir, keys, who, v, err);
}

int
cmd_log_verify(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf out = BUF(65536);
	struct verify_args a = {0};
	struct pin pins[PINS_MAX];
	struct cosigners who;
	struct verdict v;
	struct vkeys keys;
	struct err err = {0};

	if (!verify_args_read(argc, argv, &a)) {
		(void)cmd_usage("log verify");
		(void)fprintf(stderr, "It ends with 0 verified, 1 tampered with, 2 usage or keys, "
				      "3 whole but with an\nunsigned or torn end, or "
				      "not all looked into that --deep asks for.\n");
		return CMD_USAGE;
	}
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0 ||
	    read_witnesses(&a, &who, &err) != 0 || open_pins(&a, &keys, pins, &err) != 0 ||
	    judge(&place, &keys, pins, &who, &a, &v, &err) != 0 ||
	    (a.deep && log_deep(&place, v.size, found, &v, &out, &v.unread, &err) != 0))
		return log_fail(&err);
	verdict_put(&out, &v);
	(void)fwrite(out.p, 1, out.n, stdout);
	return verdict_status(&v);
}
