/*
 * `cofferdam log`: verify, show, head. Runs as whoever wants to know; needs read access to the log
 * and public keys, nothing else. Everything printed may have been written by an agent: control
 * characters never reach the terminal.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/verify.h"
#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log_erase.h"
#include "cmd/cmd_place.h"
#include "common/log.h"

#include "common/banned.h"

#define PINS_MAX 32
#define STATUS_OPEN_END 3 /* whole, but with an unsigned or torn end */

struct args {
	const char *state, *dir, *vkey, *run, *type;
	const char *pin[PINS_MAX];
	size_t npins;
	bool json;
};

static int
usage(void)
{
	(void)fprintf(stderr,
	    "usage: cofferdam log verify [--state DIR | DIR] [--vkey FILE] [--pin CHECKPOINT]...\n"
	    "       cofferdam log show [--state DIR | DIR] [--run RUN] [--type TYPE] [--json]\n"
	    "       cofferdam log head [--state DIR | DIR] [--vkey FILE]\n"
	    "       cofferdam log erase --subject WHOSE --reason TEXT [--state DIR] [--yes]\n"
	    "verify ends with 0 verified, 1 tampered with, 2 usage or keys, 3 whole but with an\n"
	    "unsigned or torn end.\n");
	return CMD_USAGE;
}

static int
fail(const struct err *err)
{
	(void)fprintf(stderr, "cofferdam: %s\n", err->msg);
	return err->code == ERR_TAMPER ? CMD_FAILED : CMD_USAGE;
}

static bool
parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"vkey", required_argument, NULL, 'k'},
	    {"pin", required_argument, NULL, 'p'},
	    {"run", required_argument, NULL, 'r'},
	    {"type", required_argument, NULL, 't'},
	    {"json", no_argument, NULL, 'j'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const char **to = c == 's'   ? &a->state
				  : c == 'k' ? &a->vkey
				  : c == 'r' ? &a->run
				  : c == 't' ? &a->type
					     : NULL;

		if (to != NULL)
			*to = optarg;
		else if (c == 'j')
			a->json = true;
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
open_pins(
    const struct args *a, const struct vkeys *keys, struct pin pins[PINS_MAX], struct err *err)
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

static int
log_verify(const struct args *a)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf out = BUF(65536);
	struct pin pins[PINS_MAX];
	struct verdict v;
	struct vkeys keys;
	struct err err = {0};

	if (cmd_place_open(a->state, a->dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a->vkey, &keys, &err) != 0 ||
	    open_pins(a, &keys, pins, &err) != 0 ||
	    verify_log(place.logdir, &keys, pins, a->npins, &v, &err) != 0)
		return fail(&err);
	verdict_put(&out, &v);
	(void)fwrite(out.p, 1, out.n, stdout);
	return verdict_status(&v);
}

static void
show_record(const struct args *a, const struct record *r)
{
	if (a->json) {
		(void)printf("%.*s\n", STR_ARG(r->body));
	} else {
		AUTO_FREE char *data = log_vis(r->data);

		(void)printf("%" PRIu64 " %.*s %-8.*s %-18.*s %.*s %s\n", r->seq, STR_ARG(r->time),
		    STR_ARG(r->src), STR_ARG(r->type), STR_ARG(r->run.n != 0 ? r->run : STR("-")),
		    data);
	}
}

static int
log_show(const struct args *a)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	struct err err = {0};
	int n, status = CMD_OK;

	if (cmd_place_open(a->state, a->dir, &place, &err) != 0 ||
	    chain_open(place.logdir, 0, &c, &err) != 0)
		return fail(&err);
	while ((n = chain_next(c, &r, &leaf, &err)) == 1)
		if ((a->run == NULL || str_eqz(r.run, a->run)) &&
		    (a->type == NULL || str_eqz(r.type, a->type)))
			show_record(a, &r);
	if (n != 0) {
		status = fail(&err);
	} else if (chain_fault(c)->kind != LOG_KIND_NONE) {
		(void)fprintf(stderr, "cofferdam: stopped at seq %" PRIu64 ": %s: %s\n",
		    chain_fault(c)->seq, log_kind_name(chain_fault(c)->kind), chain_fault(c)->text);
		status = chain_fault(c)->kind == LOG_KIND_TORN ? CMD_OK : CMD_FAILED;
	}
	chain_free(c);
	return status;
}

/* The newest checkpoint, as it is: to be kept elsewhere and given to --pin one day. */
static int
log_head(const struct args *a)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	AUTO_LOG_FILES struct log_files files = {0};
	AUTO_FD int dir = -1;
	const struct vkey *key;
	struct checkpoint cp;
	struct vkeys keys;
	char name[LOG_NAME_SIZE];
	struct err err = {0};

	if (cmd_place_open(a->state, a->dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a->vkey, &keys, &err) != 0 ||
	    log_files_list(place.logdir, LOG_CP, "", NULL, &files, &err) != 0 ||
	    log_open_dir(place.logdir, LOG_CP, &dir, &err) != 0)
		return fail(&err);
	if (files.n[0] == 0) {
		(void)fprintf(stderr, "cofferdam: the log has no checkpoint\n");
		return STATUS_OPEN_END;
	}
	log_name(name, files.number[0][files.n[0] - 1], "");
	if (log_read_file(dir, name, &note, &err) != 0 ||
	    checkpoint_open(buf_str(&note), &keys, &cp, &key, &err) != 0)
		return fail(&err);
	(void)fwrite(note.p, 1, note.n, stdout);
	return CMD_OK;
}

int
cmd_log(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct args *a);
	} verbs[] = {{"verify", log_verify}, {"show", log_show}, {"head", log_head}};
	struct args a = {0};

	if (argc >= 2 && strcmp(argv[1], "erase") == 0)
		return cmd_log_erase(argc - 1, argv + 1);
	if (argc < 2 || !parse_args(argc - 1, argv + 1, &a))
		return usage();
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(&a);
	return usage();
}
