/*
 * The model's part of a run, out of the record, as a script that the loop plays (docs/
 * model-script.md): its words, and each call with all of its arguments. Runs in the command line as
 * the reviewer. Calls that ask people, or that are runs of their own, are not made again.
 */
#include "cmd/cmd_rerun.h"

#include <stdio.h>

#include "audit/canon.h"
#include "audit/replay_blobs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/words.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FIELD_CUT 200 /* bytes of an argument in the record's fields (agent/agent_tools.c) */

/* The argument that the record keeps as content. */
static const struct {
	const char *tool, *content;
	bool again;
} tools[] = {
    {"run_code", "code", true},
    {"run_command", "command", true},
    {"read_file", "path", true},
    {"write_file", "content", true},
    {"finish", "answer", true},
    {"ask", "question", false},
    {"wait_approval", "id", false},
    {"subagent", "task", false},
};

static int
content_read(struct rerun_run *r, const struct record *rec, struct buf *out)
{
	struct str ref = canon_get(rec->data, "content");
	struct err err = {0};

	if (ref.n == 0 || replay_blobs_read(r->blobs, ref, out, &err) == 0)
		return 0;
	if (r->why.code == 0)
		return err_set(
		    &r->why, err.code, "record %llu: %s", (unsigned long long)rec->seq, err.msg);
	return r->why.code;
}

static struct rerun_event *
event_add(struct rerun_run *r, enum rerun_what what, const struct record *rec)
{
	struct rerun_event *e;

	r->v = xreallocarray(r->v, r->n + 1, sizeof(*r->v));
	e = &r->v[r->n++];
	*e = (struct rerun_event){.what = what, .seq = rec->seq, .content = BUF(BLOB_PLAIN_MAX)};
	return e;
}

/* --- the script ------------------------------------------------------------------ */

static void
words_put(struct rerun_run *r, const char *section)
{
	struct str rest = buf_str(&r->words), line;
	bool more = true;

	if (!r->have_words)
		return;
	buf_printf(&r->script, "## %s\n", section);
	while (more) {
		more = str_cut(&rest, '\n', &line);
		if (!more)
			line = rest;
		if (str_has_prefix(line, "## "))
			buf_put_c(&r->script, '\\');
		buf_put_str(&r->script, line);
		buf_put_c(&r->script, '\n');
	}
	buf_reset(&r->words);
	r->have_words = false;
}

static void
argument_put(struct rerun_run *r, struct jcs *j, struct str key, const struct json *v)
{
	jcs_key(j, key);
	if (json_type(v) == JSON_INT) {
		jcs_int(j, NULL, json_int(v));
		return;
	}
	if (json_str(v).n >= FIELD_CUT && r->why.code == 0)
		(void)err_set(&r->why, ERR_UNSUPPORTED,
		    "an argument of a call is longer than the %d bytes that the record has of it",
		    FIELD_CUT);
	jcs_str_lossy(j, NULL, json_str(v));
}

static bool
is_argument(struct str key)
{
	static const char *const own[] = {"call", "content", "tool", "turn"};

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eqz(key, own[i]))
			return false;
	return true;
}

/* The arguments as one JSON object: keys ascend, as in the record. */
static void
call_put(
    struct rerun_run *r, const struct json *d, struct str tool, const char *key, struct str content)
{
	bool put = key == NULL;
	struct jcs j;

	words_put(r, "say");
	buf_printf(&r->script, "## call %.*s\n", STR_ARG(tool));
	jcs_init(&j, &r->script);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < json_count(d); i++) {
		struct str name = json_key(d, i);

		if (!is_argument(name))
			continue;
		if (!put && jcs_key_cmp(str_z(key), name) < 0) {
			jcs_str_lossy(&j, key, content);
			put = true;
		}
		argument_put(r, &j, name, json_at(d, i));
	}
	if (!put)
		jcs_str_lossy(&j, key, content);
	jcs_close(&j);
	buf_put_c(&r->script, '\n');
}

/* --- records --------------------------------------------------------------------- */

static void
argv_take(struct rerun_run *r, const struct record *rec, struct str line)
{
	struct err err = {0};

	if (words_split(line, &r->argv, &err) != 0 && r->why.code == 0)
		(void)err_set(
		    &r->why, err.code, "record %llu: %s", (unsigned long long)rec->seq, err.msg);
}

static void
exec_take(struct rerun_run *r, const struct record *rec, const struct json *d)
{
	AUTO_BUF struct buf content = BUF(BLOB_PLAIN_MAX);
	struct str tool = json_str(json_get(d, "tool"));
	bool command = json_get(d, "argc") != NULL;
	struct rerun_event *e;
	size_t i = 0;

	while (i < ARRAY_LEN(tools) && !str_eqz(tool, tools[i].tool))
		i++;
	r->skip = !command && i < ARRAY_LEN(tools) && !tools[i].again;
	if (r->skip) {
		r->skipped++;
		buf_printf(&r->skipping, "%s%.*s", r->skipping.n != 0 ? ", " : "", STR_ARG(tool));
		words_put(r, "say");
		return;
	}
	if (content_read(r, rec, &content) != 0)
		return;
	if (command && r->argv == NULL)
		argv_take(r, rec, buf_str(&content));
	else
		call_put(r, d, tool.n != 0 ? tool : STR("none"),
		    i < ARRAY_LEN(tools) ? tools[i].content : NULL, buf_str(&content));
	r->done |= str_eqz(tool, "finish");
	e = event_add(r, RERUN_EXEC, rec);
	e->text = command ? xstrdup("the command") : str_dup(tool);
	buf_put_str(&e->content, buf_str(&content));
}

static void
result_take(struct rerun_run *r, const struct record *rec, const struct json *d)
{
	struct str cause = json_str(json_get(d, "cause"));
	struct rerun_event *e;

	if (r->skip) {
		r->skip = false;
		return;
	}
	e = event_add(r, RERUN_RESULT, rec);
	e->cause =
	    xasprintf("%.*s %lld", STR_ARG(cause), (long long)json_int(json_get(d, "value")));
	(void)content_read(r, rec, &e->content);
}

void
rerun_script_record(struct rerun_run *r, const struct record *rec, const struct json *d)
{
	if (str_eqz(rec->type, "agent.model")) {
		words_put(r, "say");
		buf_reset(&r->words);
		r->have_words = content_read(r, rec, &r->words) == 0;
	} else if (str_eqz(rec->type, "agent.exec")) {
		exec_take(r, rec, d);
	} else if (str_eqz(rec->type, "agent.result")) {
		result_take(r, rec, d);
	}
}

void
rerun_script_end(struct rerun_run *r)
{
	if (r->done)
		return;
	words_put(r, "done");
	if (r->script.n == 0 || memmem(r->script.p, r->script.n, "## done\n", 8) == NULL)
		buf_put_z(&r->script, "## done\n\n");
}
