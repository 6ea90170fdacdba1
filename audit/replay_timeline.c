/*
 * Prints the decision path. Runs in the command line. What is shown was partly written by an
 * agent: each byte of it goes through log_vis, each of its lines behind a bar of ours, so that no
 * content can pass for a line of the timeline or move the cursor.
 */
#include "audit/replay_timeline.h"

#include <inttypes.h>

#include "audit/canon.h"
#include "audit/replay_put.h"
#include "audit/replay_term.h"
#include "audit/replay_text.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define OUT_MAX ((size_t)64 << 20)
#define LINE_MAX ((size_t)8 << 20)

struct timeline {
	struct replay_opts o;
	struct replay_blobs *blobs;
	replay_out_fn *out;
	void *arg;
	struct replay_open *open;
	struct told told;
	struct term term;
	struct buf b, line; /* what is to be printed; the line that is being made */
	size_t shown, doubt;
	bool unsigned_said;
};

static void
end_line(struct timeline *t, enum term_tone tone)
{
	term_line(&t->term, tone, buf_str(&t->line));
	buf_reset(&t->line);
}

struct timeline *
timeline_new(const struct replay_opts *o, struct replay_blobs *blobs, replay_out_fn *out, void *arg)
{
	struct timeline *t = xcalloc(1, sizeof(*t));

	t->o = *o;
	t->blobs = blobs;
	t->out = out;
	t->arg = arg;
	told_init(&t->told);
	buf_init(&t->b, OUT_MAX);
	buf_init(&t->line, LINE_MAX);
	t->term = (struct term){.width = o->width, .colour = o->colour, .out = &t->b};
	buf_put_z(&t->line, "time, record, who says so (broker: seen by the broker; agent: claimed "
			    "by the agent; human: signed)");
	end_line(t, TERM_PLAIN);
	return t;
}

void
timeline_free(struct timeline *t)
{
	if (t == NULL)
		return;
	replay_open_free(&t->open);
	told_free(&t->told);
	buf_free(&t->b);
	buf_free(&t->line);
	free(t);
}

/* --- content ------------------------------------------------------------------------------ */

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
	buf_put_z(&t->line, TERM_BAR);
	replay_put_vis(&t->line, buf_str(&plain));
	end_line(t, TERM_PLAIN);
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
	if (more == 0)
		return;
	buf_printf(&t->line, TERM_BAR "(%u lines more: --full)", more);
	end_line(t, TERM_GAP);
}

static void
put_content(struct timeline *t, struct str ref, enum replay_as as)
{
	AUTO_BUF struct buf raw = BUF(REPLAY_TEXT_MAX), text = BUF(REPLAY_TEXT_MAX);
	struct err why = {0};

	if (ref.n == 0 || *ref.p != '{')
		return;
	if (replay_blobs_read(t->blobs, ref, &raw, &why) == 0) {
		put_text(t, replay_text(buf_str(&raw), as, &text));
		return;
	}
	buf_put_z(&t->line, TERM_BAR "(GAP ");
	replay_put_vis(&t->line, str_z(why.msg));
	buf_put_z(&t->line, "; ");
	replay_put_value(&t->line, canon_get(ref, "len"));
	buf_put_z(&t->line, " bytes)");
	end_line(t, TERM_GAP);
}

/* Lines of ours beside content: behind the bar as well, since they quote. */
static void
put_lines(struct timeline *t, const struct buf *lines)
{
	struct str left = buf_str(lines), line;

	while (str_cut(&left, '\n', &line)) {
		buf_put_z(&t->line, TERM_BAR);
		buf_put_str(&t->line, line);
		end_line(t, TERM_PLAIN);
	}
}

/* --- records -------------------------------------------------------------------------------- */

static enum term_tone
tone(enum replay_tone tone)
{
	static const enum term_tone of[] = {[TONE_PLAIN] = TERM_PLAIN,
	    [TONE_CLAIM] = TERM_CLAIM,
	    [TONE_ALLOW] = TERM_ALLOW,
	    [TONE_WAIT] = TERM_WAIT,
	    [TONE_DENY] = TERM_DENY,
	    [TONE_GAP] = TERM_GAP};

	return of[tone];
}

/* Not of a child, of which only the beginning is shown. */
static bool
is_own(const struct timeline *t, const struct record *r)
{
	return t->o.scan == NULL || str_eqz(r->run, t->o.scan->run);
}

/* Time, number, who says so, indentation: the agent's claims left, what the broker saw right of
 * them. */
static void
put_head(struct timeline *t, const struct record *r)
{
	struct str clock = str_mem(r->time.p + 11, 12);

	if (str_eqz(r->type, "run.start") && is_own(t, r)) {
		end_line(t, TERM_PLAIN);
		buf_printf(&t->line, "RUN %.*s  %.*s", STR_ARG(r->run), STR_ARG(r->time));
		end_line(t, TERM_PLAIN);
	}
	buf_printf(&t->line, "%.*s %5" PRIu64 " %-8.*s ", STR_ARG(clock), r->seq, STR_ARG(r->src));
	for (unsigned i = 0; i < t->told.depth; i++)
		buf_put_z(&t->line, "  ");
	buf_put_str(&t->line, buf_str(&t->told.title));
	end_line(t, tone(t->told.tone));
}

static void
put_doubts(struct timeline *t, const struct record *r)
{
	for (; t->doubt < doubts_count(t->o.doubts); t->doubt++) {
		const struct doubt *d = doubts_at(t->o.doubts, t->doubt);
		bool hard = d->kind < DOUBT_CONTRADICTIONS;

		if (d->seq > r->seq)
			return;
		if (d->seq < r->seq)
			continue;
		buf_printf(&t->line, "                  %s %s: %s",
		    hard ? "!! CONTRADICTION" : "?? NOT KNOWN", doubt_name(d->kind), d->text);
		end_line(t, hard ? TERM_DOUBT : TERM_GAP);
	}
}

static void
note_open(struct timeline *t, const struct record *r)
{
	struct str action = canon_plain(canon_get(r->data, "action"));

	if (str_eqz(r->type, "run.start") && is_own(t, r))
		replay_open_add(&t->open, true, r->run, r->seq);
	if (str_eqz(r->type, "run.end"))
		replay_open_drop(&t->open, true, r->run);
	if (str_eqz(r->type, "action") &&
	    str_eqz(canon_get(canon_get(r->data, "dispatch"), "sent"), "true"))
		replay_open_add(&t->open, false, action, r->seq);
	if (str_eqz(r->type, "outcome"))
		replay_open_drop(&t->open, false, action);
}

static void
flush(struct timeline *t)
{
	t->out(t->arg, buf_str(&t->b));
	buf_reset(&t->b);
}

void
timeline_record(struct timeline *t, const struct record *r)
{
	if (t->o.scan != NULL && !replay_scan_shows(t->o.scan, r))
		return;
	if (r->seq >= t->o.verified && !t->unsigned_said) {
		t->unsigned_said = true;
		buf_put_z(&t->line, "-- GAP from here on no checkpoint covers the records --");
		end_line(t, TERM_GAP);
	}
	if (!str_eqz(r->type, "log.heartbeat")) {
		replay_tell(r, &t->told);
		put_head(t, r);
		put_lines(t, &t->told.before);
		put_content(t, t->told.ref, t->told.as);
		put_lines(t, &t->told.after);
		put_doubts(t, r);
	}
	note_open(t, r);
	t->shown++;
	flush(t);
}

void
timeline_say(struct timeline *t, struct str lines)
{
	struct str line;

	while (str_cut(&lines, '\n', &line)) {
		buf_put_str(&t->line, line);
		end_line(t, TERM_PLAIN);
	}
	flush(t);
}

static void
put_summary(struct timeline *t)
{
	size_t n = 0;

	for (size_t i = 0; i < doubts_count(t->o.doubts); i++)
		n += doubts_at(t->o.doubts, i)->kind < DOUBT_CONTRADICTIONS;
	if (n == 0)
		return;
	buf_printf(&t->line,
	    "-- %zu CONTRADICTION%s between what the agent claims and what the broker recorded: "
	    "look for !! --",
	    n, n != 1 ? "S" : "");
	end_line(t, TERM_DOUBT);
}

size_t
timeline_end(struct timeline *t)
{
	for (const struct replay_open *o = t->open; o != NULL; o = o->next) {
		if (o->run)
			buf_printf(&t->line, "-- run %s has not ended --", o->id);
		else
			buf_printf(&t->line,
			    "-- GAP action %s (record %" PRIu64
			    ") was sent and has no outcome: it may have happened --",
			    o->id, o->seq);
		end_line(t, TERM_GAP);
	}
	put_summary(t);
	flush(t);
	return t->shown;
}
