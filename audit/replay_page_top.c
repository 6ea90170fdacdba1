/*
 * What stands above the records: who, when, what it came to, what contradicts, what is not known,
 * and the time axis. Runs in the command line; writes only through html_put and numbers.
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/replay_html.h"
#include "audit/replay_page_assets.h"
#include "audit/replay_page_int.h"
#include "common/clock.h"

#include "common/banned.h"

#define LIST_MAX 50 /* of contradictions and gaps that are listed above the records */

void
page_link(struct buf *b, uint64_t seq)
{
	buf_printf(b, "<a href=\"#s%" PRIu64 "\">record %" PRIu64 "</a>", seq, seq);
}

void
page_clock(struct buf *b, int64_t us)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format(us, text);
	buf_printf(b, "%.10s %.8s", text, text + 11);
}

void
page_span(struct buf *b, int64_t us)
{
	int64_t s = us / 1000000;

	if (s >= 86400)
		buf_printf(b, "%" PRId64 " d ", s / 86400);
	if (s >= 3600)
		buf_printf(b, "%" PRId64 " h ", s / 3600 % 24);
	if (s >= 60)
		buf_printf(b, "%" PRId64 " min ", s / 60 % 60);
	if (s >= 60)
		buf_printf(b, "%" PRId64 " s", s % 60);
	else
		buf_printf(b, "%" PRId64 ".%03" PRId64 " s", s, us / 1000 % 1000);
}

/* --- head of the document ------------------------------------------------------------------- */

static void
put_hash_source(struct buf *b, const uint8_t *text, size_t n)
{
	struct hash h = hash_sha256(str_mem(text, n));

	buf_put_z(b, "'sha256-");
	enc_base64(b, str_mem(h.b, sizeof(h.b)));
	buf_put_c(b, '\'');
}

static void
put_head(struct page *p)
{
	struct buf *b = &p->b;

	buf_put_z(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		     "base-uri 'none'; form-action 'none'; img-src data:; style-src ");
	put_hash_source(b, page_css, page_css_size);
	buf_put_z(b, "; script-src ");
	put_hash_source(b, page_js, page_js_size);
	buf_put_z(b, "\">\n<meta name=\"viewport\" content=\"width=device-width, "
		     "initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
		     "<link rel=\"icon\" href=\"data:,\">\n<title>Run ");
	html_put_z(b, p->o.scan->run);
	buf_put_z(b, "</title>\n<style>");
	buf_put(b, page_css, page_css_size);
	buf_put_z(b, "</style>\n<script>");
	buf_put(b, page_js, page_js_size);
	buf_put_z(b, "</script>\n</head>\n<body>\n<main>\n");
}

/* --- who, when, how much ---------------------------------------------------------------------- */

static void
put_term(struct buf *b, const char *term, const struct buf *words)
{
	buf_printf(b, "<dt>%s</dt><dd>", term);
	html_put(b, words->n != 0 ? buf_str(words) : STR("-"));
	buf_put_z(b, "</dd>\n");
}

static void
put_when(struct page *p)
{
	const struct replay_scan *s = p->o.scan;
	struct buf *b = &p->b;

	buf_put_z(b, "<dt>began</dt><dd>");
	page_clock(b, s->begin_us);
	buf_put_z(b, " UTC</dd>\n<dt>last record</dt><dd>");
	page_clock(b, s->end_us);
	buf_put_z(b, " UTC, after ");
	page_span(b, s->end_us - s->begin_us);
	buf_put_z(b, "</dd>\n<dt>end</dt><dd>");
	html_put(b, s->status.n != 0 ? buf_str(&s->status) : STR("has not ended"));
	if (s->text.n != 0) {
		buf_put_z(b, ": ");
		html_put(b, buf_str(&s->text));
	}
	buf_put_z(b, "</dd>\n");
}

static const struct {
	const char *one, *class;
} counts[COUNTS] = {
    [COUNT_RECORDS] = {"records", ""},
    [COUNT_TURNS] = {"model turns", ""},
    [COUNT_EXECS] = {"executions", ""},
    [COUNT_ALLOWED] = {"actions allowed", ""},
    [COUNT_WAITED] = {"needed approval", "wait"},
    [COUNT_DENIED] = {"actions denied", "deny"},
    [COUNT_FAILED] = {"outcomes not ok", "deny"},
    [COUNT_DOUBT] = {"outcomes in doubt", "lost"},
    [COUNT_SIGNED] = {"signatures", ""},
};

static void
put_counts(struct page *p)
{
	buf_put_z(&p->b, "<ul class=\"counts\">\n");
	for (size_t i = 0; i < COUNTS; i++)
		buf_printf(&p->b, "<li class=\"%s\"><b>%" PRIu64 "</b> %s</li>\n",
		    p->o.scan->n[i] != 0 ? counts[i].class : "", p->o.scan->n[i], counts[i].one);
	buf_put_z(&p->b, "</ul>\n");
}

static void
put_verdict(struct page *p)
{
	struct buf *b = &p->b;

	buf_printf(b, "<section class=\"verdict %s\"><h2>Is the record whole?</h2>\n<pre><code>",
	    p->o.holds ? "good" : "bad");
	html_put(b, p->o.verdict);
	buf_put_z(b, "</code></pre>\n<p>That was found when this page was made, by <code>cofferdam "
		     "log verify</code> with the public keys given. This page is a copy, not the "
		     "log. <button id=\"check\" hidden>Recompute every proof on this page</button> "
		     "<span id=\"checked\" role=\"status\"></span></p>\n");
	if (p->o.checkpoint.n != 0) {
		char hex[HASH_HEX_SIZE];
		struct hash root = proofs_root(p->o.scan->proofs);

		hash_hex(&root, hex);
		buf_printf(b,
		    "<details><summary>the signed checkpoint of size %" PRIu64
		    "</summary>\n<pre><code>",
		    p->o.verified);
		html_put(b, p->o.checkpoint);
		buf_printf(b,
		    "</code></pre>\n<p class=\"what\">Root, as all proofs here must give it</p>\n"
		    "<pre><code id=\"root\">%s</code></pre><p class=\"what\">Size</p>\n<pre><code "
		    "id=\"size\">%" PRIu64 "</code></pre></details>\n",
		    hex, p->o.verified);
	}
	buf_put_z(b, "</section>\n");
}

/* --- what to look at -------------------------------------------------------------------------- */

static void
put_contradictions(struct page *p)
{
	const struct doubts *d = p->o.scan->doubts;
	struct buf *b = &p->b;
	size_t n = 0;

	for (size_t i = 0; i < doubts_count(d); i++)
		n += doubts_at(d, i)->kind < DOUBT_CONTRADICTIONS;
	if (n == 0) {
		buf_put_z(b, "<p class=\"good\">No contradiction was found between what the agent "
			     "claims and what the broker recorded.</p>\n");
		return;
	}
	buf_printf(b, "<h2 class=\"bad\">%zu contradiction%s between claim and record</h2>\n<ul>\n",
	    n, n != 1 ? "s" : "");
	for (size_t i = 0, shown = 0; i < doubts_count(d); i++) {
		const struct doubt *one = doubts_at(d, i);

		if (one->kind >= DOUBT_CONTRADICTIONS || shown++ >= LIST_MAX)
			continue;
		buf_put_z(b, "<li>");
		page_link(b, one->seq);
		buf_printf(b, ", %s: ", doubt_name(one->kind));
		html_put_z(b, one->text);
		buf_put_z(b, "</li>\n");
	}
	buf_put_z(b, "</ul>\n");
	if (n > LIST_MAX)
		buf_printf(b, "<p>and %zu more, marked below</p>\n", n - LIST_MAX);
}

static void
put_unknown(struct page *p)
{
	const struct doubts *d = p->o.scan->doubts;
	struct buf *b = &p->b;
	size_t n = 0;

	buf_put_z(b, "<h2>Not known</h2>\n<ul>\n");
	for (const struct replay_gap *g = p->o.scan->gaps; g != NULL; g = g->next) {
		if (n++ >= LIST_MAX)
			continue;
		buf_put_z(b, "<li>");
		page_link(b, g->seq);
		buf_put_z(b, ": ");
		html_put_z(b, g->text);
		buf_put_z(b, "</li>\n");
	}
	for (size_t i = 0; i < doubts_count(d); i++) {
		if (doubts_at(d, i)->kind < DOUBT_CONTRADICTIONS || n++ >= LIST_MAX)
			continue;
		buf_put_z(b, "<li>");
		page_link(b, doubts_at(d, i)->seq);
		buf_put_z(b, ": ");
		html_put_z(b, doubts_at(d, i)->text);
		buf_put_z(b, "</li>\n");
	}
	if (p->o.bands_why != NULL) {
		buf_put_z(b, "<li>the policy's freeze windows: ");
		html_put_z(b, p->o.bands_why);
		buf_put_z(b, "</li>\n");
	}
	buf_put_z(b, "<li>what the agent did inside its sandbox without asking: only its own "
		     "account of that is here</li>\n</ul>\n");
	if (n > LIST_MAX)
		buf_printf(b, "<p>and %zu more, marked below</p>\n", n - LIST_MAX);
}

static void
put_rules(struct page *p)
{
	struct buf *b = &p->b;

	if (p->o.scan->rules == NULL)
		return;
	buf_put_z(b,
	    "<h2>Rules that decided</h2>\n<table><thead><tr><th>rule</th><th>denied</th>"
	    "<th>needed approval</th><th>allowed</th><th>first</th></tr></thead><tbody>\n");
	for (const struct replay_rule *r = p->o.scan->rules; r != NULL; r = r->next) {
		buf_put_z(b, "<tr><td>");
		html_put_z(b, r->id);
		buf_printf(b,
		    "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>",
		    r->n[0], r->n[1], r->n[2]);
		page_link(b, r->first);
		buf_put_z(b, "</td></tr>\n");
	}
	buf_put_z(b, "</tbody></table>\n");
}

/* --- the list's head -------------------------------------------------------------------------- */

static void
put_filters(struct page *p)
{
	static const enum replay_lane lanes[] = {
	    LANE_MODEL, LANE_CODE, LANE_ACTION, LANE_APPROVAL, LANE_LOG};

	buf_put_z(&p->b,
	    "<h2>Record by record</h2>\n<p class=\"keys\">Four rails from left to right: model, "
	    "code, actions, approvals. A ring is what the agent claims, a filled mark what the "
	    "broker recorded; a blue ground is a freeze. Each record opens to its bytes and its "
	    "proof. Keys: j next, k previous, x next contradiction, refusal or gap, o open.</p>\n");
	for (size_t i = 0; i < ARRAY_LEN(lanes); i++) {
		const char *name = replay_lane_name(lanes[i]);

		buf_printf(&p->b,
		    "<label class=\"lane-%s hide-%s\"><input type=\"checkbox\" class=\"filter\" "
		    "checked>%s</label>\n",
		    name, name, name);
	}
	buf_put_z(&p->b, "<ol class=\"items\">\n");
}

void
page_top(struct page *p)
{
	struct buf *b = &p->b;

	put_head(p);
	buf_put_z(b, "<header><h1>Run ");
	html_put_z(b, p->o.scan->run);
	buf_put_z(b, "</h1>\n<dl>\n");
	put_term(b, "agent", &p->o.scan->agent);
	put_term(b, "owner", &p->o.scan->owner);
	put_term(b, "login", &p->o.scan->login);
	put_term(b, "sandbox", &p->o.scan->level);
	put_when(p);
	buf_put_z(b, "<dt>log</dt><dd>");
	html_put_z(b, p->o.origin);
	buf_put_z(b, "</dd>\n</dl>\n");
	put_counts(p);
	buf_put_z(b, "</header>\n");
	put_verdict(p);
	buf_put_z(b, "<section>\n");
	put_contradictions(p);
	put_unknown(p);
	put_rules(p);
	buf_put_z(b, "</section>\n");
	page_axis(p);
	put_filters(p);
}
