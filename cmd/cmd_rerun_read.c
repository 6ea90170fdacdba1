/*
 * Reads a run for `replay rerun`, record by record. Runs in the command line as the reviewer, over
 * a log that was verified; what cannot be opened here is said, never guessed.
 */
#include "cmd/cmd_rerun.h"

#include "audit/canon.h"
#include "common/json.h"
#include "common/words.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SCRIPT_MAX ((size_t)1 << 20) /* of agent/model_script.c */

void
rerun_read_init(struct rerun_run *r, const char *id, struct replay_blobs *blobs, bool first)
{
	*r = (struct rerun_run){.id = id,
	    .blobs = blobs,
	    .first = first,
	    .script = BUF(SCRIPT_MAX),
	    .answers = BUF(RERUN_BYTES_MAX),
	    .agent = BUF(256),
	    .task = BUF(BLOB_PLAIN_MAX),
	    .owner = BUF(256),
	    .digest = BUF(HASH_HEX_SIZE),
	    .skipping = BUF(4096),
	    .words = BUF(BLOB_PLAIN_MAX)};
	buf_put_z(&r->answers, RERUN_MAGIC);
}

static void
start_take(struct rerun_run *r, const struct record *rec, struct json_doc *d)
{
	const struct json *o = json_root(d), *list = json_get(o, "targets");
	struct err err = {0};

	r->start = d;
	buf_put_str(&r->agent, json_str(json_get(o, "agent")));
	buf_put_str(&r->owner, json_str(json_get(o, "owner")));
	if (r->first &&
	    replay_blobs_read(r->blobs, canon_get(rec->data, "task"), &r->task, &err) != 0)
		(void)err_set(&r->why, err.code, "the task: %s", err.msg);
	for (size_t i = 0; !json_bool(json_get(o, "all")) && i < json_count(list); i++) {
		struct str name = json_str(json_get(json_at(list, i), "target"));

		if (name.n == 0)
			continue;
		r->targets = xreallocarray(r->targets, r->ntargets + 1, sizeof(*r->targets));
		r->targets[r->ntargets++] = str_dup(name);
	}
}

void
rerun_read(void *arg, const struct record *rec)
{
	struct rerun_run *r = arg;
	struct json_doc *d = NULL;

	/* The policy that was in force when the run began. */
	if (r->start == NULL && str_eqz(rec->type, "policy.load")) {
		buf_reset(&r->digest);
		buf_put_str(&r->digest, canon_plain(canon_get(rec->data, "digest")));
	}
	if (rec->run.n == 0 || (r->id != NULL && !str_eqz(rec->run, r->id)))
		return;
	if (json_parse(rec->data, "record", &d, &r->why) != 0)
		return;
	if (str_eqz(rec->type, "run.start") && r->start == NULL) {
		start_take(r, rec, d);
		return;
	}
	if (str_has_prefix(rec->type, "agent.")) {
		rerun_script_record(r, rec, json_root(d));
	} else if (str_eqz(rec->type, "action")) {
		rerun_answers_action(r, rec, json_root(d));
	} else if (str_eqz(rec->type, "outcome")) {
		rerun_answers_outcome(r, rec, json_root(d));
	} else if (str_eqz(rec->type, "run.end")) {
		free(r->end);
		r->end = str_dup(json_str(json_get(json_root(d), "status")));
	}
	json_free(d);
}

void
rerun_read_end(struct rerun_run *r)
{
	rerun_answers_end(r);
	rerun_script_end(r);
	if (r->why.code == 0 && (buf_over(&r->script) || buf_over(&r->answers)))
		(void)err_set(&r->why, ERR_TOO_LARGE,
		    "the run is too large: at most %zu bytes of code and %zu of answers",
		    SCRIPT_MAX, RERUN_BYTES_MAX);
}

void
rerun_read_free(struct rerun_run *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct rerun_event *e = &r->v[i];

		free(e->text);
		free(e->request);
		free(e->effects);
		free(e->body);
		free(e->cause);
		free(e->action);
		buf_free(&e->content);
	}
	free(r->v);
	for (size_t i = 0; i < r->ntargets; i++)
		free(r->targets[i]);
	free(r->targets);
	words_free(r->argv);
	json_free(r->start);
	buf_free(&r->script);
	buf_free(&r->answers);
	buf_free(&r->agent);
	buf_free(&r->task);
	buf_free(&r->owner);
	buf_free(&r->digest);
	buf_free(&r->skipping);
	buf_free(&r->words);
	free(r->end);
}
