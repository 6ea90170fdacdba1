/*
 * `cofferdam log erase`: destroys the keys of what was sealed of a subject's runs. Runs as the
 * operator. Finds the runs in the log, and asks the broker, which records it and does it; touches
 * no key itself. Says what it would do, and does it only when told so.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/chain.h"
#include "audit/erasure.h"
#include "audit/pack.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct erase_args {
	const char *state, *subject, *reason;
	bool yes;
};

/* A run of the log, and whether it is of the subject. */
struct erase_run {
	char id[72];
	bool named, over;
	uint64_t blobs;
};

struct erase {
	struct str what, value; /* of the subject */
	struct erase_run *run;	/* in the order of their first record */
	size_t n, cap;
	size_t last; /* the run of the last record */
	struct erasures *erased;
};

#define AT(f) offsetof(struct erase_args, f)

static const struct option_row rows[] = {
    {"--subject", OPTION_TEXT | OPTION_NEEDED, AT(subject), 0, 0, "WHOSE",
	"run:ID, owner:PERSON or target:NAME: of all runs that asked for something there"},
    {"--reason", OPTION_TEXT | OPTION_NEEDED, AT(reason), 0, 0, "TEXT",
	"why, up to 256 bytes; recorded"},
    {"--yes", OPTION_FLAG, AT(yes), 0, 0, NULL, "do it"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

static bool
subject_read(const char *subject, struct erase *e)
{
	e->value = str_z(subject);
	return str_cut(&e->value, ':', &e->what) && e->value.n != 0 &&
	       (str_eqz(e->what, "run") || str_eqz(e->what, "owner") || str_eqz(e->what, "target"));
}

/* --- what belongs to it ------------------------------------------------------------------ */

/* From the end: runs that write beside one another began not long ago. */
static struct erase_run *
run_of(struct erase *e, struct str id)
{
	if (e->last < e->n && str_eqz(id, e->run[e->last].id))
		return &e->run[e->last];
	for (size_t i = e->n; i > 0; i--) {
		if (str_eqz(id, e->run[i - 1].id)) {
			e->last = i - 1;
			return &e->run[i - 1];
		}
	}
	if (e->n == e->cap) {
		e->cap = e->cap != 0 ? 2 * e->cap : 64;
		e->run = xreallocarray(e->run, e->cap, sizeof(*e->run));
	}
	e->last = e->n++;
	e->run[e->last] = (struct erase_run){.blobs = 0};
	(void)snprintf(e->run[e->last].id, sizeof(e->run->id), "%.*s", STR_ARG(id));
	return &e->run[e->last];
}

/* A run that has reached the target may have its content in any of its own: it goes whole. */
static bool
names_subject(const struct erase *e, const struct record *r)
{
	if (str_eqz(e->what, "run"))
		return str_eq(r->run, e->value);
	if (str_eqz(e->what, "owner"))
		return str_eqz(r->type, "run.start") &&
		       str_eq(canon_plain(canon_get(r->data, "owner")), e->value);
	if (str_eqz(r->type, "action"))
		return str_eq(
		    canon_plain(canon_get(canon_get(r->data, "request"), "target")), e->value);
	return str_eqz(r->type, "approval.request") &&
	       str_eq(canon_plain(canon_get(r->data, "target")), e->value);
}

static void
take(struct erase *e, const struct record *r)
{
	struct erase_run *run;
	struct str ref;

	erasures_record(e->erased, r);
	if (r->run.n == 0)
		return;
	run = run_of(e, r->run);
	run->named |= names_subject(e, r);
	run->over |= str_eqz(r->type, "run.end");
	run->blobs += pack_ref(r, &ref);
}

static int
read_log(int logdir, struct erase *e, struct err *err)
{
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf;
	int r = chain_open(logdir, 0, &c, err);

	while (r == 0 && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		take(e, &rec);
		r = 0;
	}
	if (r == 0 && chain_fault(c)->kind != LOG_KIND_NONE &&
	    chain_fault(c)->kind != LOG_KIND_TORN)
		r = err_set(err, ERR_TAMPER,
		    "the log does not hold at seq %" PRIu64
		    ": what belongs to the subject cannot be told (cofferdam log verify)",
		    chain_fault(c)->seq);
	chain_free(c);
	return r;
}

/* Those to go, to the front; what was erased before and what is not over are only counted. */
static int
choose(struct erase *e, const char *subject, struct err *err)
{
	size_t n = 0, before = 0;
	uint64_t blobs = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (!e->run[i].named)
			continue;
		if (erasures_find(e->erased, str_z(e->run[i].id)) != NULL) {
			before++;
			continue;
		}
		if (!e->run[i].over)
			return err_set(err, ERR_STATE,
			    "run %s is not over: revoke it first (cofferdam revoke %s)",
			    e->run[i].id, e->run[i].id);
		blobs += e->run[i].blobs;
		e->run[n++] = e->run[i];
	}
	e->n = n;
	if (n == 0 && before == 0)
		return err_set(err, ERR_NOT_FOUND, "no run of this log belongs to %s", subject);
	for (size_t i = 0; i < n; i++)
		(void)printf(
		    "run %s: %" PRIu64 " sealed contents\n", e->run[i].id, e->run[i].blobs);
	(void)printf("%s: %zu runs, %" PRIu64 " sealed contents, %zu runs erased before\n", subject,
	    n, blobs, before);
	return 0;
}

/* --- the broker does it ------------------------------------------------------------------- */

static int
erase_some(
    const struct erase_args *a, const struct erase *e, size_t from, char **id, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF((size_t)1 << 17);
	size_t to = e->n - from > ERASURE_RUNS_MAX ? from + ERASURE_RUNS_MAX : e->n;
	const struct json *o;
	struct jcs j;
	int rc;

	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	if (*id != NULL)
		jcs_z(&j, "id", *id);
	jcs_str_lossy(&j, "reason", str_z(a->reason));
	jcs_array(&j, "runs");
	for (size_t i = from; i < to; i++)
		jcs_z(&j, NULL, e->run[i].id);
	jcs_array_end(&j);
	jcs_str_lossy(&j, "subject", str_z(a->subject));
	jcs_close(&j);
	rc = control_call(a->state, "log-erase", buf_str(&args), &doc, err);
	if (rc != 0)
		return rc;
	o = json_root(doc);
	if (*id == NULL)
		*id = control_text(o, "id");
	(void)printf("record %" PRId64 ": %" PRId64 " keys destroyed, %" PRId64
		     " were gone already\n",
	    json_int(json_get(o, "seq")), json_int(json_get(o, "destroyed")),
	    json_int(json_get(o, "gone")));
	return 0;
}

static int
erase_all(const struct erase_args *a, const struct erase *e, struct err *err)
{
	AUTO_FREE char *id = NULL;
	int rc = 0;

	if (!a->yes && e->n != 0) {
		(void)printf("nothing is erased yet: with --yes it is, for good\n");
		return 0;
	}
	for (size_t i = 0; rc == 0 && i < e->n; i += ERASURE_RUNS_MAX)
		rc = erase_some(a, e, i, &id, err);
	return rc;
}

int
cmd_log_erase(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	struct erase_args a = {0};
	struct erase e = {.n = 0};
	struct err err = {0};
	int rc;

	if (!ARGS_READ("log erase", rows, argc, argv, &a))
		return CMD_USAGE;
	if (!subject_read(a.subject, &e))
		return args_wrong("log erase",
		    "--subject must be run:ID, owner:PERSON or target:NAME, is \"%s\"", a.subject);
	e.erased = erasures_new();
	rc = cmd_place_open(a.state, NULL, &place, &err);
	if (rc == 0)
		rc = read_log(place.logdir, &e, &err);
	if (rc == 0)
		rc = choose(&e, a.subject, &err);
	if (rc == 0)
		rc = erase_all(&a, &e, &err);
	erasures_free(e.erased);
	free(e.run);
	return rc == 0 ? CMD_OK : cmd_fail(&err);
}
