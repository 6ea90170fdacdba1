/*
 * What opens beneath a record. Runs in the command line. The bytes stand as they were hashed: the
 * page's script takes them from the page, hashes them and follows the proof to the root.
 */
#include <inttypes.h>

#include "audit/replay_html.h"
#include "audit/replay_page_int.h"

#include "common/banned.h"

static void
put_hash(struct buf *b, const struct hash *h)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(h, hex);
	buf_put_z(b, hex);
}

static void
put_path(struct page *p, uint64_t seq)
{
	struct hash path[TREE_PROOF_MAX];
	size_t n = proofs_get(p->o.scan->proofs, seq, path);

	if (seq >= p->o.verified) {
		buf_put_z(&p->b, "<p class=\"gap\">No checkpoint covers this record: there is "
				 "nothing signed to prove it against.</p>\n");
		return;
	}
	buf_printf(&p->b,
	    "<p class=\"what\">Inclusion proof: leaf %" PRIu64 " in the tree of size %" PRIu64
	    ", from the leaf to the root (RFC 6962 2.1.1)</p>\n<pre><code class=\"path\">",
	    seq, p->o.verified);
	for (size_t i = 0; i < n; i++) {
		put_hash(&p->b, &path[i]);
		if (i + 1 < n)
			buf_put_c(&p->b, '\n');
	}
	buf_put_z(&p->b, "</code></pre>\n");
}

static void
put_raw(struct page *p, struct str raw)
{
	size_t n = p->o.bytes != 0 && raw.n > p->o.bytes ? p->o.bytes : raw.n;

	buf_printf(&p->b, "<p class=\"what\">Content, byte for byte: %zu bytes%s</p>\n<pre><code>",
	    raw.n, n != raw.n ? ", the first of them (all: --full)" : "");
	html_put(&p->b, str_mem(raw.p, n));
	buf_put_z(&p->b, "</code></pre>\n");
}

void
page_proof(struct page *p, const struct record *r, struct str raw, bool whole)
{
	const struct hash *leaf = proofs_leaf_at(p->o.scan->proofs, r->seq);

	buf_printf(
	    &p->b, "<details><summary>record %" PRIu64 ", its bytes and proof</summary>\n", r->seq);
	if (!whole)
		put_raw(p, raw);
	buf_printf(&p->b,
	    "<p class=\"what\">The record, byte for byte: %zu bytes</p>\n<pre><code class=\"rec\">",
	    r->body.n);
	html_put(&p->b, r->body);
	buf_put_z(&p->b, "</code></pre>\n<p class=\"what\">Leaf hash: SHA-256 of a zero byte and "
			 "these bytes</p>\n<pre><code class=\"leaf\">");
	if (leaf != NULL)
		put_hash(&p->b, leaf);
	buf_put_z(&p->b, "</code></pre>\n");
	put_path(p, r->seq);
	buf_put_z(&p->b, "</details>\n");
}
