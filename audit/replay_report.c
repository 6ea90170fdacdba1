/*
 * The report, record by record. Runs in the command line. Left out are records that only say that
 * something ordinary went well: reads that were allowed, a model's turns, outcomes of these. How
 * many were left out is said where they stood.
 */
#include <inttypes.h>

#include "audit/canon.h"
#include "audit/replay_report_int.h"
#include "audit/replay_text.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define PART_MAX ((size_t)256 << 20)
#define EXCERPT ((size_t)2000)

struct report *
report_new(const struct report_opts *o, struct replay_blobs *blobs)
{
	struct report *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->blobs = blobs;
	told_init(&p->told);
	buf_init(&p->task, REPLAY_TEXT_MAX);
	for (size_t i = 0; i < PARTS; i++) {
		buf_init(&p->text[i], PART_MAX);
		p->part[i] = (struct doc){.out = &p->text[i], .html = o->html};
	}
	return p;
}

void
report_free(struct report *p)
{
	if (p == NULL)
		return;
	told_free(&p->told);
	buf_free(&p->task);
	for (size_t i = 0; i < PARTS; i++)
		buf_free(&p->text[i]);
	free(p->key);
	free(p);
}

/* --- which records are told ------------------------------------------------------------------- */

static bool
plain_effects(struct str effects)
{
	struct str v;
	size_t at = 0;

	while (canon_next(effects, &at, &v))
		if (!str_eqz(canon_plain(v), "read") && !str_eqz(canon_plain(v), "txn"))
			return false;
	return true;
}

static bool
is_key(const struct report *p, struct str seq)
{
	uint64_t n;

	if (!canon_u64(seq, &n))
		return true;
	for (size_t i = p->nkeys; i > 0; i--)
		if (p->key[i - 1] == n)
			return true;
	return false;
}

static bool
doubted(const struct report *p, uint64_t seq)
{
	const struct doubts *all = p->o.page.scan->doubts;

	for (size_t i = p->doubt; i < doubts_count(all) && doubts_at(all, i)->seq <= seq; i++)
		if (doubts_at(all, i)->seq == seq)
			return true;
	return false;
}

static bool
wanted(const struct report *p, const struct record *r)
{
	struct str q = canon_get(r->data, "request");

	if (doubted(p, r->seq))
		return true;
	if (str_eqz(r->type, "outcome"))
		return p->told.tone == TONE_GAP ||
		       (is_key(p, canon_get(r->data, "action_seq")) && p->told.lane == LANE_ACTION);
	if (str_eqz(r->type, "action") && p->told.tone == TONE_ALLOW)
		return p->told.lane == LANE_ACTION && !plain_effects(canon_get(q, "effects"));
	return p->told.lane != LANE_MODEL && !str_eqz(r->type, "agent.result") &&
	       !str_eqz(r->type, "log.open") && !str_eqz(r->type, "log.close");
}

static void
keep_key(struct report *p, uint64_t seq)
{
	if (p->nkeys == p->keys_cap) {
		p->keys_cap = p->keys_cap != 0 ? 2 * p->keys_cap : 64;
		p->key = xreallocarray(p->key, p->keys_cap, sizeof(*p->key));
	}
	p->key[p->nkeys++] = seq;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void
put_between(struct report *p)
{
	struct doc *d = &p->part[PART_TIME];

	if (p->between == 0)
		return;
	doc_begin(d, 1);
	doc_words(d,
	    "(%" PRIu64 " records of the ordinary: reads allowed, turns of the model, "
	    "outcomes)",
	    p->between);
	doc_end(d);
	p->between = 0;
}

static void
put_item(struct doc *d, const struct record *r, const struct told *told)
{
	doc_begin(d, 1);
	doc_code(d, str_mem(r->time.p + 11, 12));
	doc_words(d, ", record %" PRIu64 ", %s: ", r->seq,
	    str_eqz(r->src, "agent")	? "the agent claims"
	    : str_eqz(r->src, "human")	? "signed by a person"
	    : str_eqz(r->src, "broker") ? "the broker recorded"
					: "an operator");
	doc_code(d, buf_str(&told->title));
	doc_end(d);
}

/* The content, in short; false: it cannot be read here. */
static bool
put_content(struct report *p, struct doc *d)
{
	AUTO_BUF struct buf raw = BUF(REPLAY_TEXT_MAX), said = BUF(REPLAY_TEXT_MAX);
	struct str text;

	if (p->told.ref.n == 0 || *p->told.ref.p != '{')
		return true;
	if (replay_blobs_read(p->blobs, p->told.ref, &raw, NULL) != 0)
		return false;
	text = replay_text(buf_str(&raw), p->told.as, &said);
	if (text.n == 0)
		return true;
	doc_block(d, str_mem(text.p, text.n < EXCERPT ? text.n : EXCERPT));
	if (text.n > EXCERPT) {
		doc_begin(d, 0);
		doc_words(d, "(%zu bytes more)", text.n - EXCERPT);
		doc_end(d);
	}
	return true;
}

static void
put_doubts(struct report *p, const struct record *r)
{
	const struct doubts *all = p->o.page.scan->doubts;
	struct doc *d = &p->part[PART_TIME];

	for (; p->doubt < doubts_count(all) && doubts_at(all, p->doubt)->seq <= r->seq;
	     p->doubt++) {
		const struct doubt *one = doubts_at(all, p->doubt);

		if (one->seq != r->seq)
			continue;
		doc_begin(d, 1);
		doc_strong(d, one->kind < DOUBT_CONTRADICTIONS ? "Contradiction" : "Not known");
		doc_words(d, " (%s) at record %" PRIu64 ": ", doubt_name(one->kind), r->seq);
		doc_code(d, str_z(one->text));
		doc_end(d);
	}
}

static void
put_proof(struct report *p, const struct record *r)
{
	const struct hash *leaf = proofs_leaf_at(p->o.page.scan->proofs, r->seq);
	struct doc *d = &p->part[PART_PROOFS];
	struct hash path[TREE_PROOF_MAX];
	size_t n = proofs_get(p->o.page.scan->proofs, r->seq, path);
	AUTO_BUF struct buf lines = BUF(TREE_PROOF_MAX * HASH_HEX_SIZE + 1024);
	char hex[HASH_HEX_SIZE];

	if (leaf == NULL)
		return;
	hash_hex(leaf, hex);
	doc_begin(d, 0);
	doc_words(d, "Record %" PRIu64 ", byte for byte:", r->seq);
	doc_end(d);
	doc_block(d, r->body);
	doc_begin(d, 0);
	doc_words(d, "Its leaf hash is ");
	doc_code(d, str_z(hex));
	doc_words(d, r->seq < p->o.page.verified ? "; the proof, from the leaf to the root:"
						 : ": no checkpoint covers it");
	doc_end(d);
	for (size_t i = 0; i < n; i++) {
		hash_hex(&path[i], hex);
		buf_printf(&lines, "%s\n", hex);
	}
	if (n != 0)
		doc_block(d, buf_str(&lines));
}

static void
tell(struct report *p, const struct record *r)
{
	bool shows = str_eqz(r->type, "action") || str_eqz(r->type, "agent.exec");

	put_between(p);
	put_item(&p->part[PART_TIME], r, &p->told);
	if (shows && !put_content(p, &p->part[PART_TIME]))
		p->sealed++;
	put_doubts(p, r);
	if (p->told.lane == LANE_APPROVAL) {
		put_item(&p->part[PART_APPROVALS], r, &p->told);
		if (!put_content(p, &p->part[PART_APPROVALS]))
			p->sealed++;
	}
	put_proof(p, r);
}

void
report_record(struct report *p, const struct record *r)
{
	if (!replay_scan_shows(p->o.page.scan, r))
		return;
	replay_tell(r, &p->told);
	if (str_eqz(r->type, "run.start") && p->told.ref.n != 0 &&
	    replay_blobs_read(p->blobs, p->told.ref, &p->task, NULL) != 0)
		p->sealed++;
	if (!wanted(p, r)) {
		p->between++;
		return;
	}
	if (str_eqz(r->type, "action")) {
		keep_key(p, r->seq);
		p->o.stop(p->o.arg, r, &p->part[PART_STOP]);
	}
	tell(p, r);
}

/* --- the document ----------------------------------------------------------------------------- */

static void
put_part(struct report *p, struct doc *d, enum part part, const char *none)
{
	doc_close(&p->part[part]);
	buf_put_str(d->out, buf_str(&p->text[part]));
	if (p->text[part].n != 0)
		return;
	doc_begin(d, 0);
	doc_words(d, "%s", none);
	doc_end(d);
}

void
report_end(struct report *p, struct buf *out)
{
	struct doc d = {.out = out, .html = p->o.html};

	put_between(p);
	report_head(p, out);
	report_top(p, &d);
	doc_heading(&d, 2, "Timeline");
	put_part(p, &d, PART_TIME, "Nothing was recorded.");
	doc_heading(&d, 2, "Deciding rules");
	report_rules(p, &d);
	doc_heading(&d, 2, "Approvals");
	put_part(p, &d, PART_APPROVALS, "Nobody was asked, and nobody signed.");
	doc_heading(&d, 2, "What would have stopped it");
	put_part(p, &d, PART_STOP, "No action went beyond reading.");
	doc_heading(&d, 2, "Evidence");
	report_evidence(p, &d);
	put_part(p, &d, PART_PROOFS, "No record to prove.");
	doc_heading(&d, 2, "What is not known");
	report_unknown(p, &d);
	doc_close(&d);
	if (p->o.html)
		buf_put_z(out, "</main>\n</body>\n</html>\n");
}
