/* The tree of canonical text beside the strict reader's tree of the same text. */
#ifndef TESTS_FUZZ_CANON_SAME_H
#define TESTS_FUZZ_CANON_SAME_H

#include <assert.h>
#include <stdlib.h>

#include "audit/canon_tree.h"
#include "common/json.h"

static inline void
canon_same(const struct canon_node *c, const struct json *v)
{
	const struct canon_node *kid = canon_first(c);

	switch (json_type(v)) {
	case JSON_BOOL: assert(c->type == CANON_BOOL && canon_true(c) == json_bool(v)); break;
	case JSON_INT: assert(c->type == CANON_INT && canon_int(c) == json_int(v)); break;
	case JSON_STRING:
		assert(c->type == CANON_STRING && str_eq(canon_text(c), json_str(v)));
		break;
	case JSON_ARRAY: assert(c->type == CANON_ARRAY); break;
	case JSON_OBJECT: assert(c->type == CANON_OBJECT); break;
	case JSON_NULL:
	case JSON_NUMBER: abort(); /* not in canonical text */
	}
	assert(canon_count(c) == json_count(v));
	for (size_t i = 0; i < json_count(v); i++, kid = canon_behind(kid)) {
		canon_same(kid, json_at(v, i));
		if (c->type == CANON_OBJECT && memchr(kid->key.p, '\\', kid->key.n) == NULL) {
			AUTO_FREE char *key = str_dup(kid->key);

			assert(str_eq(kid->key, json_key(v, i)));
			assert(canon_member(c, key) == kid);
		}
	}
}

#endif
