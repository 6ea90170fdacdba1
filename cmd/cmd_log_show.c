/*
 * `cofferdam log show`: records as lines for people, or their BODYs. Runs as whoever may read the
 * log. Prints what an agent wrote only with control characters made visible; stops at the first
 * record that does not fit and says so; believes no signature (verify does).
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/chain.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/log.h"

#include "common/banned.h"

struct show_args {
	const char *state, *dir, *run, *type;
	bool json;
};

#define AT(f) offsetof(struct show_args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--run", OPTION_TEXT, AT(run), 0, 0, "RUN", "of this run only"},
    {"--type", OPTION_TEXT, AT(type), 0, 0, "TYPE", "of this type only, as action"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, "the records as they are"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static void
show_record(const struct show_args *a, const struct record *r)
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
show_end(const struct log_fault *f)
{
	if (f->kind == LOG_KIND_NONE)
		return CMD_OK;
	(void)fprintf(stderr, "cofferdam: stopped at seq %" PRIu64 ": %s: %s\n", f->seq,
	    log_kind_name(f->kind), f->text);
	return f->kind == LOG_KIND_TORN ? CMD_OK : CMD_FAILED;
}

int
cmd_log_show(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	struct show_args a = {0};
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	struct err err = {0};
	int n, status;

	if (!ARGS_READ("log show", rows, argc, argv, &a))
		return CMD_USAGE;
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    chain_open(place.logdir, 0, &c, &err) != 0)
		return log_fail(&err);
	log_say_pruned(place.logdir);
	while ((n = chain_next(c, &r, &leaf, &err)) == 1)
		if ((a.run == NULL || str_eqz(r.run, a.run)) &&
		    (a.type == NULL || str_eqz(r.type, a.type)))
			show_record(&a, &r);
	status = n != 0 ? log_fail(&err) : show_end(chain_fault(c));
	chain_free(c);
	return status;
}
