/*
 * Records that somebody has judged before, up to a head that was signed. Runs in the verifier. What
 * is relied on is the root of that head alone: every byte of every line goes into it, so what is
 * not parsed again is what was parsed then. Where one thing does not fit nothing of it counts, and
 * the caller reads all as if it had never been read.
 */
#include "audit/chain_int.h"

#include "common/banned.h"

#define END "\",\"v\":1}" /* of a BODY, behind its type */

/*
 * The type at the end of a BODY; false: it is no record.
 *
 * record_parse() takes a BODY only if its last members are `"type":"TYPE","v":1` and a brace, with
 * nothing behind it, and TYPE is of [a-z0-9_.] alone: it compares these names with the bytes as
 * they are. So the bytes END stand last, TYPE before them, and before TYPE a quote, the last one
 * there. That some text ends so as well does not matter: nothing stands behind the brace.
 */
static bool
type_at_end(struct str body, struct str *ret)
{
	size_t n = sizeof(END) - 1;
	const char *quote;

	if (!str_has_suffix(body, END))
		return false;
	body.n -= n;
	quote = memrchr(body.p, '"', body.n);
	if (quote == NULL)
		return false;
	*ret = str_mem(quote + 1, (size_t)(body.p + body.n - quote) - 1);
	return true;
}

/*
 * Types: as above, so none that record_parse() would give is missed. Sealed content: pack_ref_ct()
 * wants a member `ct` with a text, whose bytes it looks for in `data`, which is a part of BODY.
 * That a text within a text looks different, `\"ct\":\"`, only saves work. What is heeded is
 * parsed.
 */
bool
chain_heeds(struct str body)
{
	struct str type;

	return !type_at_end(body, &type) || str_has_prefix(type, "log.") ||
	       str_eqz(type, "erasure") || memmem(body.p, body.n, "\"ct\":\"", 6) != NULL;
}

void
chain_as_signed(struct chain *c, const struct chain_signed *s)
{
	c->sure = *s;
}

bool
chain_signed_fits(const struct chain *c)
{
	return !c->unlike && c->tree.size >= c->sure.size;
}

/* The batch of a record that stands before one that is not parsed cannot be judged: it was. */
static bool
is_next(const struct chain *c, struct str body, struct record *ret)
{
	return record_parse(body, ret, NULL) == 0 && ret->seq == c->tree.size &&
	       hash_eq(&ret->prev, &c->head);
}

int
chain_signed_line(struct chain *c, struct str line, struct record *ret, struct hash *ret_leaf)
{
	struct str body;

	c->unlike = c->ended = true;
	if (record_parse_line(line, &body, ret_leaf, NULL) != 0)
		return 0;
	*ret = (struct record){.body = body,
	    .seq = c->tree.size,
	    .data = STR("{}"),
	    .run = STR(""),
	    .src = STR(""),
	    .time = STR(""),
	    .type = STR("")};
	if ((ret->seq + 1 == c->sure.size || chain_heeds(body)) && !is_next(c, body, ret))
		return 0;
	c->unlike = c->ended = false;
	return 1;
}
