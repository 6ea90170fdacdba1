/*
 * The text form of receipts. Linked by core, which gives them, and by the command line, which reads
 * what anybody may have written. Nothing here says whether a log holds one.
 */
#include "audit/receipt.h"

#include <inttypes.h>

#include "common/banned.h"

/* What would need care in a header field, in JSON, in a shell or here. */
static void
origin_put(struct buf *out, struct str origin)
{
	enc_percent_of(out, origin, " %#\"'\\$`");
}

void
receipt_put(struct buf *out, struct str origin, const struct receipt *r)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(&r->leaf, hex);
	origin_put(out, origin);
	buf_printf(out, "#%" PRIu64 ":%s:%" PRIu64, r->seq, hex, r->size);
}

static int
malformed(struct err *err)
{
	return err_set(err, ERR_INVALID,
	    "a receipt is ORIGIN#SEQ:HASH:SIZE, with 64 lower hex digits and SIZE above SEQ");
}

int
receipt_parse(struct str s, struct str *ret_origin, struct receipt *ret, struct err *err)
{
	struct str rest = s, origin, seq, hash;
	struct receipt r = {0};

	if (s.n > RECEIPT_MAX || !str_cut(&rest, '#', &origin) || !str_cut(&rest, ':', &seq) ||
	    !str_cut(&rest, ':', &hash) || origin.n == 0)
		return malformed(err);
	/* Each of these takes one spelling alone: no leading zero, no upper hex. */
	if (!str_to_u64(seq, INT64_MAX, &r.seq) || !str_to_u64(rest, INT64_MAX, &r.size) ||
	    r.size <= r.seq || !hash_from_hex(hash, &r.leaf))
		return malformed(err);
	*ret_origin = origin;
	*ret = r;
	return 0;
}

bool
receipt_is_of(struct str escaped, struct str origin)
{
	AUTO_BUF struct buf b = BUF(RECEIPT_MAX);

	origin_put(&b, origin);
	return !buf_over(&b) && str_eq(buf_str(&b), escaped);
}
