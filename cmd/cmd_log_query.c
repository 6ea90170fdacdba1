/*
 * `cofferdam log query`: records by plain filters, newest first. Runs as whoever may read the log.
 * Uses the index to find them and the log to show them; what an agent wrote reaches a terminal only
 * with control characters made visible.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_help.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_log_index.h"
#include "cmd/cmd_time.h"
#include "common/log.h"
#include "policy/effect.h"
#include "policy/policy.h"

#include "common/banned.h"

#define LIMIT_DEFAULT 100
#define TURNS 3
#define OPT_KIND 256 /* and the kind */

struct query_args {
	const char *state, *dir, *index;
	struct index_query q;
	bool json, scan, too_many;
	/* while showing */
	bool tty;
	uint64_t last;
	bool any;
	struct canon_tree *tree;
};

/* --- arguments ------------------------------------------------------------------------------ */

static void
add_term(void *arg, enum index_kind kind, struct str value)
{
	struct query_args *a = arg;

	a->too_many |= a->q.n == INDEX_TERMS_MAX;
	if (!a->too_many) {
		a->q.term[a->q.n].kind = kind;
		a->q.term[a->q.n++].value = value;
	}
}

static bool
bad(const char *option, const char *value, const char *must)
{
	AUTO_FREE char *vis = log_vis(str_z(value));

	(void)fprintf(stderr, "cofferdam: --%s %s: must be %s\n", option, vis, must);
	return false;
}

static bool
read_time(const char *option, const char *arg, bool end, int64_t *ret)
{
	return cmd_time_read(arg, end, ret) || bad(option, arg, CMD_TIME_WANTED);
}

static bool
read_number(const char *option, const char *arg, uint64_t *ret)
{
	return str_to_u64(str_z(arg), INT64_MAX, ret) || bad(option, arg, "a number");
}

/* Of a closed list a word that is not in it finds nothing: refused, or it would look like "nothing
 * of it happened". */
static bool
is_word(enum index_kind kind, const char *name, const char *arg)
{
	static const char *const src[] = {"broker", "agent", "human", "operator"};

	if (kind == INDEX_SRC) {
		for (size_t i = 0; i < ARRAY_LEN(src); i++)
			if (strcmp(arg, src[i]) == 0)
				return true;
		return bad(name, arg, "one of broker, agent, human, operator");
	}
	if (kind == INDEX_VERDICT) {
		for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++)
			if (strcmp(arg, verdict_name((enum verdict)v)) == 0)
				return true;
		return bad(name, arg, "one of allow, deny, needs_approval");
	}
	if (kind == INDEX_EFFECT && (arg[0] == '@' || effect_parse(str_z(arg)) == 0))
		return bad(name, arg, "one effect, as delete (format-policy.md lists them)");
	return true;
}

static bool
read_option(struct query_args *a, int c, const char *name)
{
	switch (c) {
	case 's': a->state = optarg; return true;
	case 'i': a->index = optarg; return true;
	case 'S': a->scan = true; return true;
	case 'j': a->json = true; return true;
	case 'o': a->q.oldest = true; return true;
	case 'n': return read_number(name, optarg, &a->q.limit);
	case 'f': return read_time(name, optarg, false, &a->q.from_us);
	case 't': return read_time(name, optarg, true, &a->q.to_us);
	case 'F': return read_number(name, optarg, &a->q.first);
	case 'L': return read_number(name, optarg, &a->q.last);
	case OPT_KIND + INDEX_TEXT: {
		size_t had = a->q.n;

		index_words(str_z(optarg), add_term, a);
		return a->q.n != had || a->too_many ||
		       bad(name, optarg,
			   "words of letters and digits, none over 64 bytes, no hashes");
	}
	default:
		if (c < OPT_KIND)
			return false;
		if (!is_word((enum index_kind)(c - OPT_KIND), name, optarg))
			return false;
		add_term(a, (enum index_kind)(c - OPT_KIND), str_z(optarg));
		return true;
	}
}

static bool
args_read(int argc, char **argv, struct query_args *a)
{
	static const struct option options[] = {
	    {"run", required_argument, NULL, OPT_KIND + INDEX_RUN},
	    {"type", required_argument, NULL, OPT_KIND + INDEX_TYPE},
	    {"src", required_argument, NULL, OPT_KIND + INDEX_SRC},
	    {"agent", required_argument, NULL, OPT_KIND + INDEX_AGENT},
	    {"person", required_argument, NULL, OPT_KIND + INDEX_PERSON},
	    {"target", required_argument, NULL, OPT_KIND + INDEX_TARGET},
	    {"effect", required_argument, NULL, OPT_KIND + INDEX_EFFECT},
	    {"verdict", required_argument, NULL, OPT_KIND + INDEX_VERDICT},
	    {"rule", required_argument, NULL, OPT_KIND + INDEX_RULE},
	    {"status", required_argument, NULL, OPT_KIND + INDEX_STATUS},
	    {"action", required_argument, NULL, OPT_KIND + INDEX_ACTION},
	    {"id", required_argument, NULL, OPT_KIND + INDEX_ID},
	    {"text", required_argument, NULL, OPT_KIND + INDEX_TEXT},
	    {"from", required_argument, NULL, 'f'},
	    {"to", required_argument, NULL, 't'},
	    {"first", required_argument, NULL, 'F'},
	    {"last", required_argument, NULL, 'L'},
	    {"limit", required_argument, NULL, 'n'},
	    {"oldest", no_argument, NULL, 'o'},
	    {"json", no_argument, NULL, 'j'},
	    {"index", required_argument, NULL, 'i'},
	    {"scan", no_argument, NULL, 'S'},
	    {"state", required_argument, NULL, 's'},
	    {NULL, 0, NULL, 0},
	};
	int c, at = 0;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, &at)) != -1)
		if (!read_option(a, c, options[at].name))
			return false;
	if (a->too_many)
		return bad("text", "...", "32 filters and words at most, together");
	if (optind < argc)
		a->dir = argv[optind++];
	return optind == argc;
}

/* --- showing -------------------------------------------------------------------------------- */

struct cell {
	struct buf *out;
	enum index_kind last;
	struct str value;
};

/* What the record can be found by, but for what has columns of its own. */
static void
put_term(void *arg, enum index_kind kind, struct str value)
{
	struct cell *c = arg;
	AUTO_FREE char *vis = NULL;

	if (kind == INDEX_RUN || kind == INDEX_TYPE || kind == INDEX_SRC || kind == INDEX_TEXT ||
	    (kind == c->last && str_eq(value, c->value)))
		return;
	vis = log_vis(value);
	buf_printf(c->out, "%s%s%s", kind == c->last ? "," : " ",
	    kind == c->last ? "" : index_kind_name(kind), kind == c->last ? "" : "=");
	buf_put_z(c->out, vis);
	c->last = kind;
	c->value = value;
}

static void
show_row(struct query_args *a, const struct record *r)
{
	AUTO_BUF struct buf out = BUF(RECORD_LINE_MAX * 8);
	struct cell cell = {.out = &out, .last = INDEX_NKINDS};

	buf_printf(&out, "%8" PRIu64 " %.19sZ %-8.*s %-16.*s %-14.*s", r->seq, r->time.p,
	    STR_ARG(r->src), STR_ARG(r->type), STR_ARG(r->run.n != 0 ? r->run : STR("-")));
	index_terms(r, a->tree, put_term, &cell);
	buf_put_c(&out, '\n');
	(void)fwrite(out.p, 1, out.n, stdout);
}

static bool
show(void *arg, const struct record *r, const struct hash *leaf)
{
	struct query_args *a = arg;
	char hex[HASH_HEX_SIZE];

	a->last = r->seq;
	a->any = true;
	if (!a->json) {
		show_row(a, r);
	} else {
		AUTO_FREE char *vis = a->tty ? log_vis(r->body) : NULL;

		hash_hex(leaf, hex);
		if (vis != NULL)
			(void)printf("{\"body\":%s,\"hash\":\"%s\"}\n", vis, hex);
		else
			(void)printf("{\"body\":%.*s,\"hash\":\"%s\"}\n", STR_ARG(r->body), hex);
	}
	return ferror(stdout) == 0;
}

/* --- the query ------------------------------------------------------------------------------ */

/* Goes on behind what was shown, after the index was made anew. */
static bool
go_on(struct query_args *a, uint64_t shown)
{
	if (a->q.limit != 0)
		a->q.limit -= shown;
	if (!a->any)
		return true;
	if (a->q.oldest)
		a->q.first = a->last + 1;
	else if (a->last != 0)
		a->q.last = a->last - 1;
	else
		return false;
	return true;
}

static int
query(struct query_args *a, const struct cmd_place *place, const char *path,
    struct index_found *found, struct err *err)
{
	for (int turn = 0;; turn++) {
		AUTO(index) struct index *x = NULL;
		struct err lag = {0};
		int r = 0;

		if (path != NULL)
			r = log_index_open(place, path, &x, &lag);
		if (r == ERR_STATE && turn < TURNS)
			continue; /* another has just put one in its place */
		if (r != 0 && (r != ERR_TAMPER || x == NULL)) {
			*err = lag;
			return r;
		}
		r = index_query(x, place->logdir, &a->q, show, a, found, err);
		if (r != ERR_STATE || turn >= TURNS)
			return r;
		(void)fprintf(stderr, "cofferdam: %s: the index is made anew\n", err->msg);
		if (index_remove(path, err) != 0)
			return err->code;
		if (!go_on(a, found->shown))
			return 0;
	}
}

int
cmd_log_query(int argc, char **argv)
{
	struct query_args a = {
	    .q = {.to_us = INT64_MAX, .last = INT64_MAX, .limit = LIMIT_DEFAULT}};
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO_BUF struct buf path = BUF(PATH_MAX);
	AUTO_FREE char *z = NULL;
	struct index_found found;
	struct err err = {0};
	int r;

	if (!args_read(argc, argv, &a))
		return cmd_usage("log query");
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    (!a.scan && log_index_path(&place, a.index, &path, &err) != 0))
		return log_fail(&err);
	z = path.n != 0 ? buf_dup_z(&path) : NULL;
	log_say_pruned(place.logdir);
	a.tty = isatty(STDOUT_FILENO) == 1;
	a.tree = canon_tree_new();
	r = query(&a, &place, z, &found, &err);
	canon_tree_free(a.tree);
	if (fflush(stdout) != 0 && r == 0)
		r = err_set(&err, ERR_SYSTEM, "standard output: cannot be written");
	if (r == ERR_TAMPER)
		(void)err_wrap(&err, "the log is not whole (run log verify): stopped");
	if (r != 0)
		return log_fail(&err);
	if (found.more)
		(void)fprintf(stderr, "cofferdam: there are more: --limit N (0 for all)\n");
	return CMD_OK;
}
