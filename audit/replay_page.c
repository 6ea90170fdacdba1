/*
 * The page, record by record. Runs in the command line. Everything that was recorded is hostile:
 * it reaches the page through html_put alone, never as an attribute, a name or a script.
 */
#include "audit/replay_page_int.h"

#include <inttypes.h>

#include "audit/canon.h"
#include "audit/replay_html.h"
#include "audit/replay_put.h"
#include "audit/replay_text.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define PAGE_MAX ((size_t)64 << 20) /* of what is made at once */
#define PAUSE_US ((int64_t)60 * 1000000)

struct page *
page_new(const struct page_opts *o, struct replay_blobs *blobs, replay_out_fn *out, void *arg)
{
	struct page *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->blobs = blobs;
	p->out = out;
	p->arg = arg;
	p->last_us = INT64_MIN;
	p->in = xcalloc(o->nbands != 0 ? o->nbands : 1, sizeof(*p->in));
	told_init(&p->told);
	buf_init(&p->b, PAGE_MAX);
	page_top(p);
	return p;
}

void
page_free(struct page *p)
{
	if (p == NULL)
		return;
	told_free(&p->told);
	buf_free(&p->b);
	free(p->in);
	free(p);
}

static void
flush(struct page *p)
{
	p->out(p->arg, buf_str(&p->b));
	buf_reset(&p->b);
}

/* --- content ---------------------------------------------------------------------------------- */

/* The first lines; *ret_more is how many were left out. */
static struct str
first_lines(struct str text, unsigned lines, unsigned *ret_more)
{
	struct str left = text, line;
	size_t at = text.n;
	unsigned n = 0;

	*ret_more = 0;
	while (lines != 0 && str_cut(&left, '\n', &line)) {
		if (++n == lines && left.n != 0)
			at = (size_t)(left.p - text.p);
		*ret_more += n > lines;
	}
	*ret_more += n >= lines && lines != 0 && left.n != 0;
	if (lines != 0 && at > (size_t)lines * 400) {
		at = (size_t)lines * 400;
		*ret_more += *ret_more == 0;
	}
	return str_mem(text.p, at);
}

/* Returns whether all of it, as recorded, is there to be read. */
static bool
put_content(struct page *p, struct str raw)
{
	AUTO_BUF struct buf said = BUF(REPLAY_TEXT_MAX);
	struct str text = replay_text(raw, p->told.as, &said);
	unsigned more;
	struct str part = first_lines(text, p->o.lines, &more);

	if (text.n != 0) {
		buf_put_z(&p->b, "<pre class=\"said\"><code>");
		html_put(&p->b, part);
		buf_put_z(&p->b, "</code></pre>\n");
	}
	if (more != 0)
		buf_printf(&p->b, "<p class=\"more\">%zu bytes more, below</p>\n", text.n - part.n);
	return more == 0 && text.p == raw.p;
}

static void
put_gap(struct page *p, const struct err *why)
{
	AUTO_BUF struct buf len = BUF(REPLAY_TEXT_MAX);

	replay_put_value(&len, canon_get(p->told.ref, "len"));
	buf_put_z(&p->b, "<p class=\"gap\">GAP ");
	html_put_z(&p->b, why->msg);
	buf_put_z(&p->b, "; ");
	html_put(&p->b, buf_str(&len));
	buf_put_z(&p->b, " bytes</p>\n");
}

static void
put_lines(struct page *p, const struct buf *lines)
{
	if (lines->n == 0)
		return;
	buf_put_z(&p->b, "<p class=\"lines\">");
	html_put(&p->b, str_trim(buf_str(lines)));
	buf_put_z(&p->b, "</p>\n");
}

/* --- between records -------------------------------------------------------------------------- */

static void
put_bands(struct page *p, int64_t us)
{
	for (size_t i = 0; i < p->o.nbands; i++) {
		const struct replay_band *band = &p->o.bands[i];
		bool in = us >= band->from_us && us < band->to_us;

		if (in == p->in[i])
			continue;
		p->in[i] = in;
		buf_put_z(&p->b, "<li class=\"band\">");
		html_put_z(&p->b, band->name);
		buf_put_z(&p->b, in ? " in force from " : " over at ");
		page_clock(&p->b, in ? band->from_us : band->to_us);
		if (in && band->to_us != INT64_MAX) {
			buf_put_z(&p->b, " to ");
			page_clock(&p->b, band->to_us);
		}
		buf_put_z(&p->b, "</li>\n");
	}
}

static void
put_pause(struct page *p, const struct record *r, int64_t us)
{
	if (memcmp(p->day, r->time.p, 10) != 0) {
		memcpy(p->day, r->time.p, 10);
		buf_printf(&p->b, "<li class=\"day\">%s</li>\n", p->day);
	}
	if (p->last_us != INT64_MIN && us - p->last_us >= PAUSE_US) {
		buf_put_z(&p->b, "<li class=\"pause\">");
		page_span(&p->b, us - p->last_us);
		buf_put_z(&p->b, " later</li>\n");
	}
	if (p->last_us != INT64_MIN && us < p->last_us) {
		buf_put_z(&p->b, "<li class=\"pause gap\">the clock went back by ");
		page_span(&p->b, p->last_us - us);
		buf_put_z(&p->b, "; the order is that of the records</li>\n");
	}
	p->last_us = us;
}

static void
put_doubts(struct page *p, const struct record *r)
{
	const struct doubts *all = p->o.scan->doubts;

	for (; p->doubt < doubts_count(all); p->doubt++) {
		const struct doubt *d = doubts_at(all, p->doubt);
		bool hard = d->kind < DOUBT_CONTRADICTIONS;

		if (d->seq > r->seq)
			return;
		if (d->seq < r->seq)
			continue;
		buf_printf(&p->b, "<p class=\"%s\"><strong>%s: %s.</strong> ",
		    hard ? "doubt" : "gap", hard ? "Contradiction" : "Not known",
		    doubt_name(d->kind));
		html_put_z(&p->b, d->text);
		if (d->other != DOUBT_NONE) {
			buf_put_z(&p->b, " (");
			page_link(&p->b, d->other);
			buf_put_z(&p->b, ")");
		}
		buf_put_z(&p->b, "</p>\n");
	}
}

/* --- records ---------------------------------------------------------------------------------- */

static const char *
tone_class(enum replay_tone tone)
{
	static const char *const names[] = {[TONE_PLAIN] = "plain",
	    [TONE_CLAIM] = "claim",
	    [TONE_ALLOW] = "allow",
	    [TONE_WAIT] = "wait",
	    [TONE_DENY] = "deny",
	    [TONE_GAP] = "lost"};

	return names[tone];
}

static bool
frozen(const struct page *p)
{
	for (size_t i = 0; i < p->o.nbands; i++)
		if (p->in[i])
			return true;
	return false;
}

static void
put_head(struct page *p, const struct record *r)
{
	bool agent = str_eqz(r->src, "agent");

	buf_printf(&p->b,
	    "<li class=\"item lane-%s %s%s\" id=\"s%" PRIu64 "\" tabindex=\"-1\">"
	    "<span class=\"rail\"></span><p class=\"head\"><time>%.*s</time> "
	    "<a class=\"seq\" href=\"#s%" PRIu64 "\">%" PRIu64 "</a> ",
	    replay_lane_name(p->told.lane), tone_class(p->told.tone), frozen(p) ? " frozen" : "",
	    r->seq, 12, r->time.p + 11, r->seq, r->seq);
	buf_printf(&p->b, "<span class=\"who\">%.*s%s</span> <span class=\"title\">",
	    STR_ARG(r->src), agent ? " claims" : "");
	html_put(&p->b, buf_str(&p->told.title));
	buf_put_z(&p->b, "</span></p>\n");
}

static void
put_item(struct page *p, const struct record *r)
{
	AUTO_BUF struct buf raw = BUF(REPLAY_TEXT_MAX);
	struct err why = {0};
	bool whole = true;

	put_head(p, r);
	put_lines(p, &p->told.before);
	if (p->told.ref.n != 0 && *p->told.ref.p == '{') {
		if (replay_blobs_read(p->blobs, p->told.ref, &raw, &why) == 0)
			whole = put_content(p, buf_str(&raw));
		else
			put_gap(p, &why);
	}
	put_lines(p, &p->told.after);
	put_doubts(p, r);
	page_proof(p, r, buf_str(&raw), whole);
	buf_put_z(&p->b, "</li>\n");
}

void
page_record(struct page *p, const struct record *r)
{
	int64_t us = p->last_us;

	if (!replay_scan_shows(p->o.scan, r))
		return;
	(void)clock_parse(r->time, &us, NULL);
	put_pause(p, r, us);
	put_bands(p, us);
	replay_tell(r, &p->told);
	put_item(p, r);
	flush(p);
}

void
page_end(struct page *p)
{
	buf_put_z(&p->b, "</ol>\n<p class=\"end\">The end of what is recorded of this run.</p>\n"
			 "</main>\n</body>\n</html>\n");
	flush(p);
}
