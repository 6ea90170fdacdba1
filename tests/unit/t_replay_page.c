/* Parts of a page of replay: proofs from a tree built once, any byte into HTML, lines at a width.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/replay_doc.h"
#include "audit/replay_html.h"
#include "audit/replay_proof.h"
#include "audit/replay_term.h"

#include "common/banned.h"

#define LEAVES 130

static struct hash
leaf(unsigned i)
{
	return hash_sha256(str_mem(&i, sizeof(i)));
}

static void
a_proof_from_the_tree_built_once_is_that_of_the_leaves(void **state)
{
	struct hash leaves[LEAVES], ours[TREE_PROOF_MAX], theirs[TREE_PROOF_MAX];

	(void)state;
	for (unsigned i = 0; i < LEAVES; i++)
		leaves[i] = leaf(i);
	for (unsigned n = 1; n <= LEAVES; n++) {
		AUTO(proofs) struct proofs *p = proofs_new();
		struct hash root = tree_root_of(leaves, n), got;

		for (unsigned i = 0; i < LEAVES; i++)
			proofs_leaf(p, &leaves[i]);
		proofs_seal(p, n);
		got = proofs_root(p);
		assert_true(hash_eq(&got, &root));
		for (unsigned i = 0; i < n; i++) {
			size_t k = proofs_get(p, i, ours);

			assert_int_equal(k, tree_inclusion(leaves, n, i, theirs));
			assert_memory_equal(ours, theirs, k * sizeof(ours[0]));
			assert_true(tree_inclusion_ok(&leaves[i], i, n, ours, k, &root));
		}
	}
}

static void
what_no_checkpoint_covers_has_no_proof(void **state)
{
	AUTO(proofs) struct proofs *p = proofs_new();
	struct hash one = leaf(1), path[TREE_PROOF_MAX];

	(void)state;
	proofs_leaf(p, &one);
	proofs_leaf(p, &one);
	proofs_leaf(p, &one);
	proofs_seal(p, 2);
	assert_int_equal(proofs_get(p, 1, path), 1);
	assert_int_equal(proofs_get(p, 2, path), 0);
	assert_non_null(proofs_leaf_at(p, 2));
	assert_null(proofs_leaf_at(p, 3));
}

static void
assert_html(struct str in, const char *out)
{
	AUTO_BUF struct buf b = BUF(1 << 16);
	AUTO_FREE char *z = NULL;

	html_put(&b, in);
	z = buf_dup_z(&b);
	assert_string_equal(z, out);
}

static void
no_recorded_byte_is_markup(void **state)
{
	(void)state;
	assert_html(STR("</script><b a='1' b=\"2\">&amp;"),
	    "&lt;/script&gt;&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;amp;");
	assert_html(STR("plain\tand\nlines \xc3\xa9"), "plain\tand\nlines \xc3\xa9");
	assert_html(STR("\x1b[31m"), "<b class=\"byte\">\\x1b</b>[31m");
	assert_html(STR("a\0b\rc"), "a<b class=\"byte\">\\x00</b>b<b class=\"byte\">\\x0d</b>c");
	assert_html(STR("\xe2\x80\xae"), "<b class=\"byte\">\\xe2\\x80\\xae</b>");
	assert_html(STR("\xff\xc3"), "<b class=\"byte\">\\xff</b><b class=\"byte\">\\xc3</b>");
}

static void
each_single_byte_comes_out_as_text(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		AUTO_BUF struct buf b = BUF(256);
		uint8_t one = (uint8_t)c;

		html_put(&b, str_mem(&one, 1));
		for (size_t i = 0; i < b.n; i++)
			assert_true(
			    (b.p[i] >= 0x20 && b.p[i] < 0x7f) || b.p[i] == '\n' || b.p[i] == '\t');
		assert_true(b.n >= 1);
	}
}

static void
assert_lines(unsigned width, bool colour, enum term_tone tone, const char *in, const char *out)
{
	AUTO_BUF struct buf b = BUF(1 << 16);
	AUTO_FREE char *z = NULL;
	const struct term t = {.width = width, .colour = colour, .out = &b};

	term_line(&t, tone, str_z(in));
	z = buf_dup_z(&b);
	assert_string_equal(z, out);
}

static void
a_line_is_broken_at_the_width_behind_a_mark(void **state)
{
	static const char word[] =
	    "0123456789 123456789 123456789 123456789 123456789 123456789 12";

	(void)state;
	assert_lines(0, false, TERM_PLAIN, word,
	    "0123456789 123456789 123456789 123456789 "
	    "123456789 123456789 12\n");
	assert_lines(60, false, TERM_PLAIN, word,
	    "0123456789 123456789 123456789 123456789 123456789 \n"
	    "                     : 123456789 12\n");
	assert_lines(60, false, TERM_PLAIN, "short", "short\n");
}

static void
colour_stands_around_whole_lines_and_only_when_asked_for(void **state)
{
	(void)state;
	assert_lines(0, true, TERM_DENY, "no", "\x1b[1;31mno\x1b[0m\n");
	assert_lines(0, true, TERM_PLAIN, "as it is", "as it is\n");
	assert_lines(0, false, TERM_DENY, "no", "no\n");
	assert_int_equal(term_columns(STR("a\xe6\xbc\xa2\xcc\x81")), 3);
}

static void
assert_code(const char *in, const char *markdown)
{
	AUTO_BUF struct buf b = BUF(4096);
	AUTO_FREE char *z = NULL;
	struct doc d = {.out = &b};

	doc_code(&d, str_z(in));
	z = buf_dup_z(&b);
	assert_string_equal(z, markdown);
}

static void
what_was_recorded_cannot_leave_its_code_in_markdown(void **state)
{
	AUTO_BUF struct buf b = BUF(4096);
	AUTO_FREE char *z = NULL;
	struct doc d = {.out = &b};

	(void)state;
	assert_code("plain", "`plain`");
	assert_code("a`b", "`` a`b ``");
	assert_code("``", "``` `` ```");
	assert_code("", "` `");
	assert_code("two\nlines", "`two\\x0alines`");
	doc_block(&d, STR("```\n# not a heading\n````"));
	z = buf_dup_z(&b);
	assert_string_equal(z, "`````text\n```\n# not a heading\n````\n`````\n\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_proof_from_the_tree_built_once_is_that_of_the_leaves),
	    cmocka_unit_test(what_no_checkpoint_covers_has_no_proof),
	    cmocka_unit_test(no_recorded_byte_is_markup),
	    cmocka_unit_test(each_single_byte_comes_out_as_text),
	    cmocka_unit_test(a_line_is_broken_at_the_width_behind_a_mark),
	    cmocka_unit_test(colour_stands_around_whole_lines_and_only_when_asked_for),
	    cmocka_unit_test(what_was_recorded_cannot_leave_its_code_in_markdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
