/*
 * Unit tests of common/words: arguments as one line for people and shells, and back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/words.h"

#include "common/banned.h"

static void
assert_quoted(char *const *argv, const char *want)
{
	AUTO_BUF struct buf line = BUF(4096);
	AUTO(words) char **back = NULL;
	struct err err = {0};
	size_t n = words_quote(&line, argv);

	assert_true(str_eqz(buf_str(&line), want));
	assert_int_equal(words_split(buf_str(&line), &back, &err), 0);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(back[i], argv[i]);
	assert_null(back[n]);
}

#define QUOTED(want, ...) assert_quoted((char *[]){__VA_ARGS__, NULL}, want)

static void
what_a_shell_would_read_otherwise_is_quoted(void **state UNUSED)
{
	char plain[] = "/usr/bin/psql", option[] = "--at=1", empty[] = "", space[] = "a b";
	char quote[] = "it's", dollar[] = "$HOME", star[] = "*", line[] = "a\nb", slash[] = "a\\b";
	char bytes[] = "\xff\x01\xc3\xa4", hash[] = "#", tilde[] = "~";

	assert_quoted((char *[]){NULL}, "");
	QUOTED("/usr/bin/psql", plain);
	QUOTED("/usr/bin/psql '--at=1'", plain, option);
	QUOTED("'' ''", empty, empty);
	QUOTED("'a b' 'it'\\''s'", space, quote);
	QUOTED("'$HOME' '*' 'a\nb' 'a\\b'", dollar, star, line, slash);
	QUOTED("'#' '~' '\xff\x01\xc3\xa4'", hash, tilde, bytes);
}

static void
each_single_byte_comes_back(void **state UNUSED)
{
	for (unsigned c = 1; c < 256; c++) {
		char one[] = {(char)c, '\0'}, in[] = {'x', (char)c, 'y', '\0'};
		char *argv[] = {one, in, NULL};
		AUTO_BUF struct buf line = BUF(64);
		AUTO(words) char **back = NULL;
		struct err err = {0};

		assert_int_equal(words_quote(&line, argv), 2);
		assert_int_equal(words_split(buf_str(&line), &back, &err), 0);
		assert_string_equal(back[0], one);
		assert_string_equal(back[1], in);
		assert_null(back[2]);
	}
}

static void
what_a_person_wrote_is_split_as_a_shell_does(void **state UNUSED)
{
	AUTO(words) char **argv = NULL;
	struct err err = {0};

	assert_int_equal(words_split(STR("  a\\ b\t'c d'e\n\\' "), &argv, &err), 0);
	assert_string_equal(argv[0], "a b");
	assert_string_equal(argv[1], "c de");
	assert_string_equal(argv[2], "'");
	assert_null(argv[3]);
}

static void
what_does_not_end_is_refused(void **state UNUSED)
{
	static const struct str wrong[] = {
	    STR("'"), STR("a 'b"), STR("\\"), STR("a b\\"), STR("a\0b")};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char **argv = NULL;
		struct err err = {0};

		assert_int_equal(words_split(wrong[i], &argv, &err), ERR_SYNTAX);
		assert_null(argv);
		assert_non_null(strstr(err.msg, i == 4		   ? "NUL"
						: i == 1 || i == 3 ? "word 2"
								   : "word 1"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_shell_would_read_otherwise_is_quoted),
	    cmocka_unit_test(each_single_byte_comes_back),
	    cmocka_unit_test(what_a_person_wrote_is_split_as_a_shell_does),
	    cmocka_unit_test(what_does_not_end_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
