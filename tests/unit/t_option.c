/*
 * Unit tests of common/option: command lines by a table. Run as a test program; trusts nothing,
 * touches no file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/option.h"

#include "common/banned.h"

struct line {
	const char *text, *word, *list[2];
	uint64_t number;
	uint32_t small;
	bool flag, bare;
	size_t nlist, nwords;
	char *const *after;
};

#define AT(m) offsetof(struct line, m)
enum { LIST = OPTION_OWN, BARE, WORDS };
static const struct option_row rows[] = {
    {"--text", OPTION_TEXT, AT(text), 0, 0, "FILE", "a file"},
    {"--number", OPTION_NUMBER, AT(number), 2, 90, "N", "a number"},
    {"--small", OPTION_NUMBER32, AT(small), 0, UINT32_MAX, "N", "a smaller one"},
    {"--flag", OPTION_FLAG, AT(flag), 0, 0, "", "a flag"},
    {"--list", LIST, 0, 0, 0, "T", "may be repeated"},
    {"--bare", BARE | OPTION_BARE, 0, 0, 0, "", "own, without a value"},
    {"--ours", OPTION_FLAG | OPTION_OF(2), AT(flag), 0, 0, "", "of group 2"},
    {"ID", OPTION_TEXT | OPTION_WORD, AT(word), 0, 0, "", NULL},
    {"WORD", WORDS | OPTION_WORD | OPTION_MANY | OPTION_OF(4), 0, 0, 0, "", NULL},
};

static int
own(void *into, const struct option_row *r, const char *value, struct err *err)
{
	struct line *l = into;

	switch (OPTION_KIND(r)) {
	case BARE: l->bare = value[0] == '\0'; return 0;
	case WORDS: l->nwords++; return 0;
	}
	return option_add(r, l->list, &l->nlist, ARRAY_LEN(l->list), value, err);
}

enum { BEGINNINGS = 1, NO_COMMAND = 2 };

static const char *
read_line(struct line *into, unsigned groups, unsigned how, const char *const *words)
{
	static struct err e;
	struct option_line l = {.rows = rows,
	    .n = ARRAY_LEN(rows),
	    .groups = groups,
	    .beginnings = (how & BEGINNINGS) != 0,
	    .after = (how & NO_COMMAND) != 0 ? NULL : &into->after,
	    .own = own,
	    .into = into};
	char *argv[16] = {(char *)(uintptr_t) "program"};
	int argc = 1;

	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	*into = (struct line){0};
	e = (struct err){0};
	if (option_read(&l, argc, argv, &e) != 0)
		assert_int_equal(e.code, ERR_INVALID);
	return e.msg;
}

#define READ(into, groups, how, ...) \
	read_line((into), (groups), (how), (const char *const[]){__VA_ARGS__, NULL})

static void
each_kind_goes_where_its_row_says(void **state UNUSED)
{
	struct line l;

	assert_string_equal(READ(&l, 0, 0, "--text", "f", "--number=90", "--small", "4294967295",
				"--flag", "--list", "a", "--list=b", "--bare", "w"),
	    "");
	assert_string_equal(l.text, "f");
	assert_int_equal(l.number, 90);
	assert_int_equal(l.small, UINT32_MAX);
	assert_true(l.flag && l.bare && l.nlist == 2);
	assert_string_equal(l.list[1], "b");
	assert_string_equal(l.word, "w");
	assert_string_equal(READ(&l, 0, 0, "--text=", "--text", "a=b"), "");
	assert_string_equal(l.text, "a=b");
	assert_string_equal(READ(&l, 0, 0, "--text", "--flag"), "");
	assert_true(l.text != NULL && strcmp(l.text, "--flag") == 0 && !l.flag);
}

static void
what_is_wrong_is_said_with_its_value_and_what_is_wanted(void **state UNUSED)
{
	struct line l;

	assert_string_equal(
	    READ(&l, 0, 0, "--frob\x1b=1"), "\"--frob\\x1b=1\" is not an option here; see --help");
	assert_string_equal(READ(&l, 0, 0, "-x"), "\"-x\" is not an option here; see --help");
	assert_string_equal(READ(&l, 0, 0, "-5"), "\"-5\" is not an option here; see --help");
	assert_string_equal(
	    READ(&l, 0, 0, "--number", "1"), "--number must be a number from 2 to 90, is \"1\"");
	assert_string_equal(
	    READ(&l, 0, 0, "--number=91"), "--number must be a number from 2 to 90, is \"91\"");
	assert_string_equal(READ(&l, 0, 0, "--number", "9\n"),
	    "--number must be a number from 2 to 90, is \"9\\x0a\"");
	assert_string_equal(READ(&l, 0, 0, "--small", "4294967296"),
	    "--small must be a number from 0 to 4294967295, is \"4294967296\"");
	assert_int_equal(l.small, 0);
	assert_string_equal(READ(&l, 0, 0, "--text"), "--text wants a value: FILE");
	assert_string_equal(READ(&l, 0, 0, "--flag=1"), "--flag takes no value, is \"1\"");
	assert_string_equal(READ(&l, 0, 0, "--bare=", "w"), "--bare takes no value, is \"\"");
	assert_string_equal(READ(&l, 0, 0, "--list", "a", "--list", "b", "--list", "c"),
	    "--list may be given 2 times at most; \"c\" is one more");
	assert_string_equal(READ(&l, 0, 0, "a", "b"), "\"b\" is a word too many");
	assert_string_equal(READ(&l, 0, 0, "--"), "no command after --");
}

static void
a_row_of_a_group_is_no_option_elsewhere(void **state UNUSED)
{
	struct line l;

	assert_string_equal(
	    READ(&l, 0, 0, "--ours"), "\"--ours\" is not an option here; see --help");
	assert_string_equal(
	    READ(&l, 4, 0, "--ours"), "\"--ours\" is not an option here; see --help");
	assert_string_equal(READ(&l, 2, 0, "--ours"), "");
	assert_true(l.flag);
	assert_string_equal(READ(&l, 4, 0, "id", "a", "b", "-5"), "");
	assert_int_equal(l.nwords, 3);
}

static void
a_beginning_counts_only_where_it_is_asked_for_and_leads_to_one(void **state UNUSED)
{
	struct line l;

	assert_string_equal(
	    READ(&l, 0, 0, "--te", "f"), "\"--te\" is not an option here; see --help");
	assert_string_equal(READ(&l, 0, BEGINNINGS, "--te=f"), "");
	assert_string_equal(l.text, "f");
	assert_string_equal(READ(&l, 0, BEGINNINGS, "--"), "no command after --");
	assert_string_equal(
	    READ(&l, 2, BEGINNINGS, "--x"), "\"--x\" is not an option here; see --help");
	/* --text and nothing else begins so; --s and --n are one each, --l too. */
	assert_string_equal(READ(&l, 0, BEGINNINGS, "--n", "3", "--s", "4"), "");
	assert_true(l.number == 3 && l.small == 4);
}

static void
behind_two_dashes_stands_a_command_or_words(void **state UNUSED)
{
	struct line l;

	assert_string_equal(READ(&l, 0, 0, "--flag", "--", "ls", "--text"), "");
	assert_string_equal(l.after[0], "ls");
	assert_string_equal(l.after[1], "--text");
	assert_null(l.text);
	assert_string_equal(READ(&l, 0, NO_COMMAND, "--", "--text"), "");
	assert_string_equal(l.word, "--text");
	assert_string_equal(READ(&l, 0, NO_COMMAND, "--", "a", "--"), "\"--\" is a word too many");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_kind_goes_where_its_row_says),
	    cmocka_unit_test(what_is_wrong_is_said_with_its_value_and_what_is_wanted),
	    cmocka_unit_test(a_row_of_a_group_is_no_option_elsewhere),
	    cmocka_unit_test(a_beginning_counts_only_where_it_is_asked_for_and_leads_to_one),
	    cmocka_unit_test(behind_two_dashes_stands_a_command_or_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
