/* Lines of a segment: whatever lies there, a line is a record or it is not, and what is one stays
 * one. */
#include <stdlib.h>

#include "audit/canon.h"
#include "audit/chain.h"
#include "audit/pack.h"
#include "audit/record.h"
#include "tests/fuzz/canon_same.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf line = BUF(RECORD_LINE_MAX), again = BUF(RECORD_BODY_MAX);
	struct str body, v, text = str_mem(data, size);
	struct hash leaf, ct;
	struct record r;
	AUTO(canon_tree) struct canon_tree *tree = canon_tree_new();
	AUTO(json) struct json_doc *doc = NULL;
	size_t at = 0;

	(void)record_parse_line(text, &body, &leaf, NULL);
	/* A fuzzer finds no SHA-256: give it the body. Both checks of canonical form must agree. */
	if (size <= 4096 && size != 0)
		assert((canon_check(text, NULL) == 0) == jcs_is_canonical(text, NULL));
	if (size > RECORD_BODY_MAX || record_parse(text, &r, NULL) != 0)
		return 0;
	record_body(&again, &r);
	assert(str_eq(buf_str(&again), text));
	record_line(&line, text, &leaf);
	assert(record_parse_line(buf_str(&line), &body, &leaf, NULL) == 0 && str_eq(body, text));
	/* What is not heeded says nothing that a verifier would hear. */
	if (pack_ref_ct(&r, &ct) || str_has_prefix(r.type, "log.") || str_eqz(r.type, "erasure"))
		assert(chain_heeds(text));
	assert(record_of_start(r.type) <= chain_heeds(text));
	assert(record_ends(r.type) <= chain_heeds(text));
	if (json_parse(r.data, "data", &doc, NULL) == 0)
		canon_same(canon_tree_set(tree, r.data), json_root(doc));
	v = canon_get(r.data, "a");
	while (canon_next(v, &at, &v))
		continue;
	return 0;
}
