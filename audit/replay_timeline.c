/*
 * Prints the decision path. Runs in the command line. What is shown was partly written by an
 * agent: each byte of it goes through log_vis, each of its lines behind a bar of ours, so that no
 * content can pass for a line of the timeline or move the cursor.
 */
#include "audit/replay_timeline.h"

#include <inttypes.h>

#include "audit/canon.h"
#include "audit/replay_model.h"
#include "audit/replay_open.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define OUT_MAX ((size_t)32 << 20)

struct timeline {
	struct replay_opts o;
	struct replay_blobs *blobs;
	replay_out_fn *out;
	void *arg;
	struct replay_open *open;
	struct buf b;
	size_t shown;
	bool unsigned_said;
};

struct timeline *
timeline_new(const struct replay_opts *o, struct replay_blobs *blobs, replay_out_fn *out, void *arg)
{
	struct timeline *t = xcalloc(1, sizeof(*t));

	t->o = *o;
	t->blobs = blobs;
	t->out = out;
	t->arg = arg;
	buf_init(&t->b, OUT_MAX);
	buf_put_z(&t->b,
	    "time, record, who says so (broker: seen by the broker; agent: claimed by the "
	    "agent; human: signed)\n");
	return t;
}

void
timeline_free(struct timeline *t)
{
	if (t == NULL)
		return;
	replay_open_free(&t->open);
	buf_free(&t->b);
	free(t);
}

/* --- values ------------------------------------------------------------------------------- */

static void
put_vis(struct timeline *t, struct str s)
{
	AUTO_FREE char *vis = log_vis(s);

	buf_put_z(&t->b, vis);
}

/* A value as people read it: strings without quotes, arrays of strings joined by spaces. */
static void
put_value(struct timeline *t, struct str v)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *j;

	if (v.n == 0 || json_parse(v, "value", &d, NULL) != 0) {
		buf_put_c(&t->b, '-');
		return;
	}
	j = json_root(d);
	if (json_type(j) == JSON_STRING) {
		put_vis(t, json_str(j));
		return;
	}
	if (json_type(j) != JSON_ARRAY) {
		put_vis(t, v);
		return;
	}
	for (size_t i = 0; i < json_count(j); i++) {
		if (i != 0)
			buf_put_c(&t->b, ' ');
		if (json_type(json_at(j, i)) == JSON_STRING)
			put_vis(t, json_str(json_at(j, i)));
		else
			buf_put_z(&t->b, "...");
	}
}

static bool
is_empty(struct str v)
{
	return v.n == 0 || str_eqz(v, "\"\"") || str_eqz(v, "[]");
}

/* "  name value", if there is one. */
static void
put_field(struct timeline *t, const char *name, struct str v)
{
	if (is_empty(v))
		return;
	buf_printf(&t->b, "  %s ", name);
	put_value(t, v);
}

/* --- content ------------------------------------------------------------------------------ */

#define BAR "                     | "

static void
put_line(struct timeline *t, struct str line)
{
	AUTO_BUF struct buf plain = BUF(line.n * 4 + 1);

	for (size_t i = 0; i < line.n; i++) {
		if (line.p[i] == '\t')
			buf_put_z(&plain, "    ");
		else
			buf_put_c(&plain, line.p[i]);
	}
	buf_put_z(&t->b, BAR);
	put_vis(t, buf_str(&plain));
	buf_put_c(&t->b, '\n');
}

static void
put_text(struct timeline *t, struct str text)
{
	unsigned n = 0, more = 0;
	struct str line;

	while (text.n != 0) {
		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		if (t->o.lines != 0 && n >= t->o.lines)
			more++;
		else
			put_line(t, line);
		n++;
	}
	if (more != 0)
		buf_printf(&t->b, BAR "(%u lines more: --full)\n", more);
}

/* Start-up parameters as they stand in the head of a connect: u32 count, then pairs. */
static bool
put_params(struct timeline *t, struct str head)
{
	AUTO_BUF struct buf text = BUF(4 * head.n + 64);
	struct rd r = rd_init(head);
	uint32_t n = rd_u32(&r);

	for (uint32_t i = 0; i < n && !r.bad; i++) {
		struct str key = rd_lstr(&r), value = rd_lstr(&r);

		buf_printf(&text, "%s%.*s=%.*s", i != 0 ? " " : "", STR_ARG(key), STR_ARG(value));
	}
	if (!rd_end(&r))
		return false;
	if (text.n != 0)
		put_line(t, buf_str(&text));
	return true;
}

enum content { AS_TEXT, AS_PARAMS, AS_HEAD, AS_PROMPT, AS_ANSWER };

static void
put_read(struct timeline *t, struct str text, enum content as)
{
	AUTO_BUF struct buf said = BUF((size_t)4 << 20);

	if (as == AS_PARAMS && put_params(t, text))
		return;
	for (size_t i = 0; as == AS_HEAD && i < text.n; i++)
		if (text.p[i] != '\r' || i + 1 == text.n || text.p[i + 1] != '\n')
			buf_put_c(&said, text.p[i]);
	if (as == AS_HEAD)
		text = str_trim(buf_str(&said));
	if ((as == AS_PROMPT && replay_model_prompt(text, &said)) ||
	    (as == AS_ANSWER && replay_model_answer(text, &said)))
		text = buf_str(&said);
	put_text(t, text);
}

static void
put_content(struct timeline *t, struct str ref, enum content as)
{
	AUTO_BUF struct buf text = BUF((size_t)4 << 20);
	struct err why = {0};

	if (ref.n == 0 || *ref.p != '{')
		return;
	if (replay_blobs_read(t->blobs, ref, &text, &why) == 0) {
		put_read(t, buf_str(&text), as);
		return;
	}
	buf_put_z(&t->b, BAR "(GAP ");
	put_vis(t, str_z(why.msg));
	buf_put_z(&t->b, "; ");
	put_value(t, canon_get(ref, "len"));
	buf_put_z(&t->b, " bytes)\n");
}

/* --- records -------------------------------------------------------------------------------- */

/* Time, number, who says so, indentation: the agent's claims left, what the broker saw right of
 * them. */
static void
put_head(struct timeline *t, const struct record *r, unsigned depth)
{
	struct str clock = str_mem(r->time.p + 11, 12);

	buf_printf(&t->b, "%.*s %5" PRIu64 " %-8.*s ", STR_ARG(clock), r->seq, STR_ARG(r->src));
	for (unsigned i = 0; i < depth; i++)
		buf_put_z(&t->b, "  ");
}

static void
put_targets(struct timeline *t, struct str targets)
{
	struct str v;
	size_t at = 0;

	while (canon_next(targets, &at, &v)) {
		buf_put_z(&t->b, BAR "target ");
		put_value(t, canon_get(v, "target"));
		put_field(t, "kind", canon_get(v, "kind"));
		put_field(t, "at", canon_get(v, "host"));
		buf_put_c(&t->b, ':');
		put_value(t, canon_get(v, "port"));
		buf_put_c(&t->b, '\n');
	}
}

static void
show_run_start(struct timeline *t, const struct record *r)
{
	buf_printf(&t->b, "\nRUN %.*s  %.*s\n", STR_ARG(r->run), STR_ARG(r->time));
	put_head(t, r, 0);
	buf_put_z(&t->b, "run begins:");
	put_field(t, "agent", canon_get(r->data, "agent"));
	put_field(t, "owner", canon_get(r->data, "owner"));
	put_field(t, "login", canon_get(r->data, "login"));
	put_field(t, "sandbox", canon_get(canon_get(r->data, "level"), "back_end"));
	buf_put_c(&t->b, '\n');
	put_targets(t, canon_get(r->data, "targets"));
	put_content(t, canon_get(r->data, "task"), AS_TEXT);
	replay_open_add(&t->open, true, r->run, r->seq);
}

static void
put_decision(struct timeline *t, struct str d)
{
	struct str verdict = canon_plain(canon_get(d, "verdict"));

	buf_put_z(&t->b, str_eqz(verdict, "allow")	      ? "ALLOW"
			 : str_eqz(verdict, "needs_approval") ? "NEEDS APPROVAL"
							      : "DENY");
	put_field(t, "by", canon_get(d, "rules"));
	put_field(t, "calendar", canon_get(d, "calendar"));
	put_field(t, "until", canon_get(d, "until"));
	put_field(t, "slots", canon_get(d, "slots"));
	put_field(t, "request", canon_get(d, "approval"));
	put_field(t, "max_rows", canon_get(d, "max_rows"));
	put_field(t, "after the refusal at", canon_get(d, "link"));
	if (str_eqz(canon_get(d, "clock_known"), "false"))
		buf_put_z(&t->b, "  (the clock was not known)");
}

static void
put_grants(struct timeline *t, struct str grants)
{
	struct str g;
	size_t at = 0;

	while (canon_next(grants, &at, &g)) {
		buf_put_z(&t->b, "  signed by ");
		put_value(t, canon_get(g, "person"));
		buf_put_z(&t->b, " as ");
		put_value(t, canon_get(g, "role"));
	}
}

static void
put_url(struct timeline *t, struct str http)
{
	if (http.n == 0)
		return;
	buf_put_c(&t->b, ' ');
	if (canon_get(http, "scheme").n != 0) {
		put_value(t, canon_get(http, "scheme"));
		buf_put_z(&t->b, "://");
	}
	put_value(t, canon_get(http, "authority"));
	if (canon_get(http, "path").n != 0)
		put_value(t, canon_get(http, "path"));
	if (canon_get(http, "query_sha256").n != 0)
		buf_put_z(&t->b, "?...");
}

static enum content
head_as(struct str q)
{
	if (str_eqz(canon_plain(canon_get(q, "operation")), "connect"))
		return AS_PARAMS;
	if (str_eqz(canon_plain(canon_get(canon_get(q, "http"), "via")), "loop"))
		return AS_PROMPT;
	return canon_get(q, "http").n != 0 ? AS_HEAD : AS_TEXT;
}

static void
show_action(struct timeline *t, const struct record *r)
{
	struct str q = canon_get(r->data, "request"), d = canon_get(r->data, "decision");
	struct str s = canon_get(r->data, "dispatch");
	bool sent = str_eqz(canon_get(s, "sent"), "true");

	put_head(t, r, 2);
	put_value(t, canon_get(q, "operation"));
	put_url(t, canon_get(q, "http"));
	buf_put_z(&t->b, " on ");
	put_value(t, canon_get(q, "target"));
	put_field(t, "effects", canon_get(q, "effects"));
	put_field(t, "body_bytes", canon_get(canon_get(q, "http"), "body_bytes"));
	buf_put_z(&t->b, "  -> ");
	put_decision(t, d);
	put_grants(t, canon_get(d, "grants"));
	buf_put_c(&t->b, '\n');
	put_content(t, canon_get(q, "head"), head_as(q));
	if (!str_eqz(canon_plain(canon_get(d, "verdict")), "allow")) {
		buf_put_z(&t->b, BAR "= ");
		put_value(t, canon_get(d, "reason"));
		buf_put_c(&t->b, '\n');
	}
	if (sent)
		replay_open_add(&t->open, false, canon_plain(canon_get(r->data, "action")), r->seq);
}

static void
show_outcome(struct timeline *t, const struct record *r)
{
	static const char *const told[] = {"tag", "sqlstate", "rows", "http_status", "body_bytes",
	    "answer_bytes", "reflected_credential", "message"};
	struct str status = canon_plain(canon_get(r->data, "status"));
	uint64_t us;

	put_head(t, r, 3);
	buf_put_z(&t->b, "outcome of ");
	put_value(t, canon_get(r->data, "action_seq"));
	buf_put_z(&t->b, ": ");
	put_vis(t, status);
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		put_field(t, told[i], canon_get(r->data, told[i]));
	put_field(t, "copy_bytes", canon_get(canon_get(r->data, "copy"), "bytes"));
	if (canon_u64(canon_get(r->data, "duration_us"), &us))
		buf_printf(&t->b, "  %" PRIu64 ".%03" PRIu64 " ms", us / 1000, us % 1000);
	if (str_eqz(status, "unknown") || str_eqz(status, "lost"))
		buf_put_z(&t->b, "  (GAP in doubt: it may have happened)");
	buf_put_c(&t->b, '\n');
	put_content(t, canon_get(r->data, "answer"), AS_ANSWER);
	replay_open_drop(&t->open, false, canon_plain(canon_get(r->data, "action")));
}

static void
show_approval_request(struct timeline *t, const struct record *r)
{
	put_head(t, r, 2);
	buf_put_z(&t->b, "approval request ");
	put_value(t, canon_get(r->data, "id"));
	put_field(t, "for", canon_get(r->data, "target"));
	put_field(t, "effects", canon_get(r->data, "effects"));
	put_field(t, "rule", canon_get(r->data, "rule"));
	put_field(t, "slots", canon_get(r->data, "slots"));
	put_field(t, "until", canon_get(r->data, "approve_by"));
	buf_put_z(&t->b, "; people are shown:\n");
	put_content(t, canon_get(r->data, "show"), AS_TEXT);
}

static void
show_other(struct timeline *t, const struct record *r)
{
	put_head(t, r, 0);
	put_vis(t, r->type);
	buf_put_c(&t->b, ' ');
	put_vis(t, r->data);
	if (str_eqz(r->type, "log.recovered"))
		buf_put_z(&t->b, "  (GAP an unfinished write was cut off here)");
	buf_put_c(&t->b, '\n');
}

/* Records that are told in one line: words, and the members that have something to say. */
static const struct {
	const char *type, *words;
	unsigned depth;
	const char *fields[10];
} lines[] = {
#include "audit/replay_lines.tbl"
};

static bool
show_line(struct timeline *t, const struct record *r)
{
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		if (!str_eqz(r->type, lines[i].type))
			continue;
		put_head(t, r, lines[i].depth);
		buf_put_z(&t->b, lines[i].words);
		for (const char *const *f = lines[i].fields; *f != NULL; f++)
			put_field(t, *f, canon_get(r->data, *f));
		buf_put_c(&t->b, '\n');
		put_content(t, canon_get(r->data, "content"), AS_TEXT);
		return true;
	}
	return false;
}

static const struct {
	const char *type;
	void (*show)(struct timeline *t, const struct record *r);
} shows[] = {
    {"run.start", show_run_start},
    {"action", show_action},
    {"outcome", show_outcome},
    {"approval.request", show_approval_request},
};

static void
show(struct timeline *t, const struct record *r)
{
	if (str_eqz(r->type, "log.heartbeat") || show_line(t, r))
		return;
	for (size_t i = 0; i < ARRAY_LEN(shows); i++) {
		if (str_eqz(r->type, shows[i].type)) {
			shows[i].show(t, r);
			return;
		}
	}
	show_other(t, r);
}

void
timeline_record(struct timeline *t, const struct record *r)
{
	if (t->o.run != NULL && !str_eqz(r->run, t->o.run))
		return;
	if (r->seq >= t->o.verified && !t->unsigned_said) {
		t->unsigned_said = true;
		buf_put_z(&t->b, "-- GAP from here on no checkpoint covers the records --\n");
	}
	show(t, r);
	if (str_eqz(r->type, "run.end"))
		replay_open_drop(&t->open, true, r->run);
	t->shown++;
	t->out(t->arg, buf_str(&t->b));
	buf_reset(&t->b);
}

size_t
timeline_end(struct timeline *t)
{
	for (const struct replay_open *o = t->open; o != NULL; o = o->next) {
		if (o->run)
			buf_printf(&t->b, "-- run %s has not ended --\n", o->id);
		else
			buf_printf(&t->b,
			    "-- GAP action %s (record %" PRIu64
			    ") was sent and has no outcome: it may have happened --\n",
			    o->id, o->seq);
	}
	t->out(t->arg, buf_str(&t->b));
	buf_reset(&t->b);
	return t->shown;
}
