/* What records are found by: values at named places, words, and what stands for them. */
#include "audit/index_terms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/canon.h"

#include "common/banned.h"

static void
put(void *arg, enum index_kind kind, struct str value)
{
	struct buf *out = arg;

	buf_printf(out, "%s=%.*s ", index_kind_name(kind), STR_ARG(value));
}

static void
put_words(void *arg, enum index_kind kind, struct str value)
{
	if (kind == INDEX_TEXT)
		put(arg, kind, value);
}

static void
put_places(void *arg, enum index_kind kind, struct str value)
{
	if (kind != INDEX_TEXT)
		put(arg, kind, value);
}

static void
terms_are(index_term_fn *fn, const char *data, const char *want)
{
	AUTO(canon_tree) struct canon_tree *t = canon_tree_new();
	AUTO_BUF struct buf out = BUF(4096);
	AUTO_FREE char *z = NULL;
	struct record r = {
	    .data = str_z(data), .src = STR("broker"), .type = STR("action"), .run = STR("r-1")};

	assert_int_equal(canon_check(r.data, NULL), 0);
	index_terms(&r, t, fn, &out);
	z = buf_dup_z(&out);
	assert_string_equal(z, want);
}

static void
values_stand_at_named_places_and_nowhere_else(void **state)
{
	(void)state;
	terms_are(put_places,
	    "{\"action\":\"a-1\",\"decision\":{\"grants\":[{\"person\":\"zoe\"},{\"person\":"
	    "\"ada\"}],"
	    "\"rules\":[\"r1\",\"r2\"],\"verdict\":\"deny\"},\"request\":{\"effects\":[\"read\"],"
	    "\"facts\":{\"target\":\"no\",\"verdict\":\"allow\"},\"input\":{\"agent\":\"bot\"},"
	    "\"target\":\"prod\"}}",
	    "run=r-1 type=action src=broker agent=bot person=zoe person=ada target=prod "
	    "effect=read verdict=deny rule=r1 rule=r2 action=a-1 ");
	/* Of another type, or deeper than it belongs: no value. */
	terms_are(put_places,
	    "{\"action\":7,\"agent\":{\"agent\":\"x\"},\"effects\":{},\"id\":[[\"x\"]],"
	    "\"owner\":\"\",\"status\":true,\"target\":[\"t\",7,{}]}",
	    "run=r-1 type=action src=broker target=t ");
}

static void
words_are_folded_and_hashes_are_none(void **state)
{
	(void)state;
	terms_are(put_words,
	    "{\"a\":\"DROP table public.\\u0001users_2;\",\"b\":[\"na\xc3\xafve\"]}",
	    "text=DROP text=table text=public text=users_2 text=na\xc3\xafve ");
	terms_are(put_words,
	    "{\"sent\":\"0123456789abcdef0123456789abcdef\","
	    "\"x\":\"0123456789abcdef0123456789abcde g123456789abcdef0123456789abcdef\"}",
	    "text=0123456789abcdef0123456789abcde text=g123456789abcdef0123456789abcdef ");
	terms_are(put_words, "{\"signature\":\"QUJD\",\"text\":\"QUJD\"}", "text=QUJD ");
	assert_true(index_term_eq(INDEX_TEXT, STR("DROP"), STR("drop")));
	assert_false(index_term_eq(INDEX_RUN, STR("R-1"), STR("r-1")));
	assert_true(
	    index_term_hash(INDEX_TEXT, STR("DROP")) == index_term_hash(INDEX_TEXT, STR("drop")));
	assert_false(
	    index_term_hash(INDEX_RUN, STR("x")) == index_term_hash(INDEX_AGENT, STR("x")));
	assert_false(index_term_hash(INDEX_RUN, STR("R")) == index_term_hash(INDEX_RUN, STR("r")));
}

static void
a_word_may_have_64_bytes(void **state)
{
	char z[80];

	(void)state;
	for (size_t n = INDEX_WORD_MAX; n <= INDEX_WORD_MAX + 1; n++) {
		AUTO_BUF struct buf out = BUF(4096);

		memset(z, 'z', n);
		index_words(str_mem(z, n), put, &out);
		assert_int_equal(out.n != 0, n == INDEX_WORD_MAX);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values_stand_at_named_places_and_nowhere_else),
	    cmocka_unit_test(words_are_folded_and_hashes_are_none),
	    cmocka_unit_test(a_word_may_have_64_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
