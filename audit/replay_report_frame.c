/*
 * What stands around a report's parts: who, when, how much, which rules, what the evidence rests
 * on, what nobody knows. Runs in the command line; what was recorded goes in as code alone.
 */
#include <inttypes.h>

#include "audit/replay_html.h"
#include "audit/replay_page_assets.h"
#include "audit/replay_page_int.h"
#include "audit/replay_report_int.h"

#include "common/banned.h"

void
report_head(const struct report *p, struct buf *out)
{
	struct hash h = hash_sha256(str_mem(page_css, page_css_size));

	if (!p->o.html)
		return;
	buf_put_z(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		       "base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-");
	enc_base64(out, str_mem(h.b, sizeof(h.b)));
	buf_put_z(out, "'\">\n<meta name=\"viewport\" content=\"width=device-width, "
		       "initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>Report on "
		       "run ");
	html_put_z(out, p->o.page.scan->run);
	buf_put_z(out, "</title>\n<style>");
	buf_put(out, page_css, page_css_size);
	buf_put_z(out, "</style>\n</head>\n<body>\n<main>\n");
}

static void
put_fact(struct doc *d, const char *words, struct str recorded)
{
	doc_begin(d, 1);
	doc_words(d, "%s: ", words);
	doc_code(d, recorded.n != 0 ? recorded : STR("-"));
	doc_end(d);
}

static void
put_when(const struct report *p, struct doc *d)
{
	const struct replay_scan *s = p->o.page.scan;
	AUTO_BUF struct buf from = BUF(64), to = BUF(64), span = BUF(64);

	page_clock(&from, s->begin_us);
	page_clock(&to, s->end_us);
	page_span(&span, s->end_us - s->begin_us);
	doc_begin(d, 1);
	doc_words(d, "from %.*s to %.*s UTC (%.*s), records %" PRIu64 " to %" PRIu64,
	    STR_ARG(buf_str(&from)), STR_ARG(buf_str(&to)), STR_ARG(buf_str(&span)), s->first,
	    s->last);
	doc_end(d);
}

static size_t
contradictions(const struct doubts *d)
{
	size_t n = 0;

	for (size_t i = 0; i < doubts_count(d); i++)
		n += doubts_at(d, i)->kind < DOUBT_CONTRADICTIONS;
	return n;
}

static void
put_counts(const struct report *p, struct doc *d)
{
	const struct replay_scan *s = p->o.page.scan;
	size_t n = contradictions(s->doubts);

	doc_begin(d, 0);
	doc_words(d,
	    "The agent asked for %" PRIu64 " actions: %" PRIu64 " were allowed, %" PRIu64
	    " denied, %" PRIu64 " had to wait for people, who signed %" PRIu64 " times. %" PRIu64
	    " outcomes were no success, %" PRIu64 " are in doubt. ",
	    s->n[COUNT_ALLOWED] + s->n[COUNT_DENIED] + s->n[COUNT_WAITED], s->n[COUNT_ALLOWED],
	    s->n[COUNT_DENIED], s->n[COUNT_WAITED], s->n[COUNT_SIGNED], s->n[COUNT_FAILED],
	    s->n[COUNT_DOUBT]);
	if (n != 0)
		doc_words(d, "What the agent claims contradicts the record in %zu places.", n);
	else
		doc_words(d, "Nothing that the agent claims was found to contradict the record.");
	doc_end(d);
}

static void
put_bands(const struct report *p, struct doc *d)
{
	for (size_t i = 0; i < p->o.page.nbands; i++) {
		const struct replay_band *b = &p->o.page.bands[i];
		AUTO_BUF struct buf from = BUF(64), to = BUF(64);

		page_clock(&from, b->from_us);
		if (b->to_us != INT64_MAX)
			page_clock(&to, b->to_us);
		doc_begin(d, 1);
		doc_words(d, "in force: ");
		doc_code(d, str_z(b->name));
		doc_words(d, " from %.*s to %.*s", STR_ARG(buf_str(&from)),
		    STR_ARG(to.n != 0 ? buf_str(&to) : STR("its end")));
		doc_end(d);
	}
}

static void
put_kin(const struct replay_scan *s, struct doc *d)
{
	AUTO_BUF struct buf b = BUF(65536);

	if (s->parent.n != 0)
		put_fact(d, "child of", buf_str(&s->parent));
	for (const struct replay_child *c = s->children; c != NULL; c = c->next)
		buf_printf(&b, "%s%s (%s)", b.n != 0 ? ", " : "", c->id,
		    c->status != NULL ? c->status : "not ended");
	if (b.n != 0)
		put_fact(d, "child runs", buf_str(&b));
}

void
report_top(const struct report *p, struct doc *d)
{
	const struct replay_scan *s = p->o.page.scan;

	doc_heading(d, 1, "Report on a run");
	doc_heading(d, 2, "Summary");
	put_fact(d, "run", str_z(s->run));
	put_fact(d, "agent", buf_str(&s->agent));
	put_fact(d, "owner", buf_str(&s->owner));
	put_kin(s, d);
	put_when(p, d);
	put_fact(d, "ended as", s->status.n != 0 ? buf_str(&s->status) : STR("not ended"));
	put_fact(d, "in the words of the end", buf_str(&s->text));
	put_bands(p, d);
	put_counts(p, d);
	if (p->task.n == 0)
		return;
	doc_begin(d, 0);
	doc_words(d, "The task that it was given:");
	doc_end(d);
	doc_block(d, buf_str(&p->task));
}

void
report_rules(const struct report *p, struct doc *d)
{
	for (const struct replay_rule *r = p->o.page.scan->rules; r != NULL; r = r->next) {
		doc_begin(d, 1);
		doc_words(d, "rule ");
		doc_code(d, str_z(r->id));
		doc_words(d,
		    " denied %" PRIu64 ", asked for people %" PRIu64 ", allowed %" PRIu64
		    ": first at record %" PRIu64 ", last at %" PRIu64,
		    r->n[0], r->n[1], r->n[2], r->first, r->last);
		doc_end(d);
	}
	for (const struct replay_policy *q = p->o.page.scan->policies; q != NULL; q = q->next) {
		doc_begin(d, 1);
		doc_words(d, "of policy ");
		doc_code(d, str_z(q->name));
		doc_words(d, ", record %" PRIu64 ", bundle ", q->seq);
		doc_code(d, str_z(q->digest));
		doc_end(d);
	}
}

void
report_evidence(const struct report *p, struct doc *d)
{
	char hex[HASH_HEX_SIZE];
	struct hash root = proofs_root(p->o.page.scan->proofs);

	doc_begin(d, 0);
	doc_words(d, "What verifying the log found when this was written:");
	doc_end(d);
	doc_block(d, p->o.page.verdict);
	if (p->o.page.checkpoint.n != 0) {
		doc_begin(d, 0);
		doc_words(d, "The signed checkpoint that the proofs lead to:");
		doc_end(d);
		doc_block(d, p->o.page.checkpoint);
	}
	hash_hex(&root, hex);
	doc_begin(d, 0);
	doc_words(d, "Its root is ");
	doc_code(d, str_z(hex));
	doc_words(d,
	    ", its size %" PRIu64 ". A record is proved by RFC 6962 2.1.1: its leaf hash is that "
	    "of a zero byte and its bytes (cofferdam log show), each line of a proof is the "
	    "sibling one step nearer the root.",
	    p->o.page.verified);
	doc_end(d);
}

static void
put_unknown(struct doc *d, uint64_t seq, const char *text)
{
	doc_begin(d, 1);
	doc_words(d, "record %" PRIu64 ": ", seq);
	doc_code(d, str_z(text));
	doc_end(d);
}

void
report_unknown(const struct report *p, struct doc *d)
{
	const struct doubts *all = p->o.page.scan->doubts;

	for (const struct replay_gap *g = p->o.page.scan->gaps; g != NULL; g = g->next)
		put_unknown(d, g->seq, g->text);
	for (size_t i = 0; i < doubts_count(all); i++)
		if (doubts_at(all, i)->kind >= DOUBT_CONTRADICTIONS)
			put_unknown(d, doubts_at(all, i)->seq, doubts_at(all, i)->text);
	if (p->sealed != 0) {
		doc_begin(d, 1);
		doc_words(d,
		    "of %" PRIu64 " records above the content could not be read: erased, or its "
		    "key is not readable here",
		    p->sealed);
		doc_end(d);
	}
	if (p->o.page.bands_why != NULL)
		put_fact(d, "which freezes were in force", str_z(p->o.page.bands_why));
	doc_begin(d, 1);
	doc_words(d, "what the agent did inside its sandbox without asking, and why: only its own "
		     "account of that is recorded");
	doc_end(d);
}
