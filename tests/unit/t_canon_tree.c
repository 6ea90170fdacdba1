/* The tree of canonical text says what the strict reader says, for every text there may be. */
#include "audit/canon_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/canon.h"
#include "common/jcs.h"
#include "tests/fuzz/canon_same.h"

#include "common/banned.h"

#define TEXTS 20000

static uint64_t seed = 1;

static unsigned
draw(unsigned below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % below;
}

static void
put_some(struct jcs *j, const char *key, unsigned depth)
{
	static const char *const texts[] = {"", "a", "\"", "\\", "a\"b\\c", "\\\"", "\n\t\b\f\r",
	    "\x01\x1f", "\xc3\xa9", "\xf0\x9f\x98\x80", "],}:{[,", "\\u0041", "x\\"};
	static const char *const keys[] = {"a", "b", "c", "d\"", "e\\"};
	unsigned n = draw(5);

	switch (depth < 6 ? draw(5) : draw(3)) {
	case 0: jcs_z(j, key, texts[draw(ARRAY_LEN(texts))]); break;
	case 1: jcs_int(j, key, (int64_t)draw(2000000000) * (draw(2) != 0 ? -4000000 : 1)); break;
	case 2: jcs_bool(j, key, draw(2) != 0); break;
	case 3:
		jcs_array(j, key);
		for (unsigned i = 0; i < n; i++)
			put_some(j, NULL, depth + 1);
		jcs_array_end(j);
		break;
	default:
		jcs_open(j, key);
		for (unsigned i = 0; i < n; i++)
			put_some(j, keys[i], depth + 1);
		jcs_close(j);
	}
}

static void
it_says_what_the_strict_reader_says(void **state)
{
	AUTO(canon_tree) struct canon_tree *t = canon_tree_new();

	(void)state;
	for (int i = 0; i < TEXTS; i++) {
		AUTO_BUF struct buf text = BUF(1 << 20);
		AUTO(json) struct json_doc *doc = NULL;
		struct jcs j;

		jcs_init(&j, &text);
		put_some(&j, NULL, 0);
		if (canon_check(buf_str(&text), NULL) != 0 ||
		    json_parse(buf_str(&text), "t", &doc, NULL) != 0)
			fail_msg("%.*s", STR_ARG(buf_str(&text)));
		canon_same(canon_tree_set(t, buf_str(&text)), json_root(doc));
	}
}

static void
what_is_missing_or_of_another_type_is_none(void **state)
{
	AUTO(canon_tree) struct canon_tree *t = canon_tree_new();
	const struct canon_node *v =
	    canon_tree_set(t, STR("{\"a\":\"x\",\"b\":[],\"n\":-7,\"t\":true}"));

	(void)state;
	assert_null(canon_member(v, "z"));
	assert_null(canon_member(v, ""));
	assert_null(canon_member(NULL, "a"));
	assert_null(canon_member(canon_member(v, "a"), "a"));
	assert_null(canon_first(canon_member(v, "b")));
	assert_null(canon_text(canon_member(v, "n")).p);
	assert_null(canon_text(NULL).p);
	assert_int_equal(canon_int(canon_member(v, "a")), 0);
	assert_int_equal(canon_int(canon_member(v, "n")), -7);
	assert_false(canon_true(canon_member(v, "a")));
	assert_true(canon_true(canon_member(v, "t")));
	assert_int_equal(canon_count(canon_member(v, "t")), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_what_the_strict_reader_says),
	    cmocka_unit_test(what_is_missing_or_of_another_type_is_none)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
