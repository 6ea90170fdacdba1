/*
 * `cofferdam log query`: records by plain filters, newest first. Runs as whoever may read the log.
 * Uses the index to find them and the log to show them; what an agent wrote reaches a terminal only
 * with control characters made visible.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_log_index.h"
#include "cmd/cmd_time.h"
#include "common/log.h"
#include "policy/effect.h"
#include "policy/policy.h"

#include "common/banned.h"

#define LIMIT_DEFAULT 100
#define TURNS 3

struct query_args {
	const char *state, *dir, *index;
	struct arg_many filter[INDEX_NKINDS];
	struct index_query q;
	bool json, scan;
	/* while showing */
	bool tty;
	uint64_t last;
	bool any;
	struct canon_tree *tree;
};

/* --- arguments ------------------------------------------------------------------------------ */

#define AT(f) offsetof(struct query_args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--run", ARG_MANY, AT(filter[INDEX_RUN]), 0, 0, "RUN", "of this run"},
    {"--agent", ARG_MANY, AT(filter[INDEX_AGENT]), 0, 0, "AGENT", "of this agent"},
    {"--type", ARG_MANY, AT(filter[INDEX_TYPE]), 0, 0, "TYPE", "of this type, as action"},
    {"--target", ARG_MANY, AT(filter[INDEX_TARGET]), 0, 0, "TARGET", "at this target"},
    {"--effect", ARG_MANY, AT(filter[INDEX_EFFECT]), 0, 0, "EFFECT", "with this effect, as delete"},
    {"--verdict", ARG_MANY, AT(filter[INDEX_VERDICT]), 0, 0, "VERDICT",
	"allow, deny or needs_approval"},
    {"--rule", ARG_MANY, AT(filter[INDEX_RULE]), 0, 0, "RULE", "by this rule"},
    {"--status", ARG_MANY, AT(filter[INDEX_STATUS]), 0, 0, "STATUS", "with this status"},
    {"--person", ARG_MANY, AT(filter[INDEX_PERSON]), 0, 0, "PERSON", "who owned, asked, or signed"},
    {"--action", ARG_MANY, AT(filter[INDEX_ACTION]), 0, 0, "ID",
	"the action, its outcome, its requests"},
    {"--id", ARG_MANY, AT(filter[INDEX_ID]), 0, 0, "ID", "a request, and the actions under it"},
    {"--src", ARG_MANY, AT(filter[INDEX_SRC]), 0, 0, "SRC", "broker, agent, human or operator"},
    {"--text", ARG_MANY, AT(filter[INDEX_TEXT]), 0, 0, "WORDS",
	"whole words, all of them, anywhere in the record"},
    {"--from", ARG_SINCE, AT(q.from_us), 0, 0, "TIME",
	"not before: 2026-11-29T14:00:00Z, 2026-11-29, or 90s, 15m, 2h, 7d ago"},
    {"--to", ARG_UNTIL, AT(q.to_us), 0, 0, "TIME", "not after"},
    {"--first", OPTION_NUMBER, AT(q.first), 0, INT64_MAX, "SEQ", "not before that number"},
    {"--last", OPTION_NUMBER, AT(q.last), 0, INT64_MAX, "SEQ", "not behind it"},
    {"--limit", OPTION_NUMBER, AT(q.limit), 0, INT64_MAX, "N",
	"so many at most (default: 100; 0: all)"},
    {"--oldest", OPTION_FLAG, AT(q.oldest), 0, 0, NULL, "oldest first"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, "the log's own lines"},
    {"--index", OPTION_TEXT, AT(index), 0, 0, "FILE", LOG_INDEX_IS},
    {"--scan", OPTION_FLAG, AT(scan), 0, 0, NULL, "without an index: reads all of the log"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

/* All that come are counted, INDEX_TERMS_MAX kept. */
static void
add_term(void *arg, enum index_kind kind, struct str value)
{
	struct index_query *q = arg;

	if (q->n < INDEX_TERMS_MAX) {
		q->term[q->n].kind = kind;
		q->term[q->n].value = value;
	}
	q->n++;
}

/* Of a closed list a word that is not in it finds nothing: refused, or it would look like "nothing
 * of it happened". NULL: it is one, or the kind has no list. */
static const char *
wanted(enum index_kind kind, const char *arg)
{
	static const char *const src[] = {"broker", "agent", "human", "operator"};

	if (kind == INDEX_SRC) {
		for (size_t i = 0; i < ARRAY_LEN(src); i++)
			if (strcmp(arg, src[i]) == 0)
				return NULL;
		return "one of broker, agent, human, operator";
	}
	if (kind == INDEX_VERDICT) {
		for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++)
			if (strcmp(arg, verdict_name((enum verdict)v)) == 0)
				return NULL;
		return "one of allow, deny, needs_approval";
	}
	if (kind == INDEX_EFFECT && (arg[0] == '@' || effect_parse(str_z(arg)) == 0))
		return "one effect, as delete (format-policy.md lists them)";
	return NULL;
}

/* NULL, or what must be instead. */
static const char *
filter_add(struct query_args *a, enum index_kind kind, const char *value)
{
	const char *must = wanted(kind, value);
	size_t had = a->q.n;

	if (must == NULL && kind != INDEX_TEXT)
		add_term(&a->q, kind, str_z(value));
	else if (must == NULL)
		index_words(str_z(value), add_term, &a->q);
	if (must == NULL && a->q.n == had)
		return "words of letters and digits, none over 64 bytes, no hashes";
	if (a->q.n > INDEX_TERMS_MAX)
		return "one of 32 filters and words at most, together";
	return must;
}

/* CMD_OK, or what is wrong was said. */
static int
filters_judge(struct query_args *a)
{
	for (enum index_kind k = 0; k < INDEX_NKINDS; k++)
		for (size_t i = 0; i < a->filter[k].n; i++) {
			const char *value = a->filter[k].v[i], *must = filter_add(a, k, value);

			if (must != NULL)
				return args_wrong("log query", "--%s must be %s, is \"%s\"",
				    index_kind_name(k), must, value);
		}
	return CMD_OK;
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

	if (!ARGS_READ("log query", rows, argc, argv, &a))
		return CMD_USAGE;
	if ((r = filters_judge(&a)) != CMD_OK)
		return r;
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    (!a.scan && log_index_path(&place, a.index, &path, &err) != 0))
		return log_fail(&err);
	z = path.n != 0 ? buf_dup_z(&path) : NULL;
	log_say_pruned(place.logdir);
	a.tty = isatty(STDOUT_FILENO) == 1;
	a.tree = canon_tree_new();
	r = query(&a, &place, z, &found, &err);
	canon_tree_free(a.tree);
	if (r == ERR_TAMPER)
		(void)err_wrap(&err, "the log is not whole (run log verify): stopped");
	if (r != 0)
		return log_fail(&err);
	if (found.more)
		(void)fprintf(stderr, "cofferdam: there are more: --limit N (0 for all)\n");
	return CMD_OK;
}
