/* The script that plays a model: what is a turn, and what is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/model.h"

#include "common/banned.h"

static struct model *
parse(const char *text)
{
	struct model *m = NULL;
	struct err e = {0};

	assert_int_equal(model_script_parse(str_z(text), "s.md", &m, &e), 0);
	return m;
}

static void
turn_is(struct model *m, const char *words, const char *language, const char *code, bool done)
{
	struct model_turn t = {0};
	struct err e = {0};

	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), 0);
	assert_true(str_eqz(t.words, words));
	assert_int_equal(t.ncalls, language[0] != '\0' ? 1 : 0);
	if (t.ncalls == 1) {
		assert_true(str_eqz(t.calls[0].args.text[1], language));
		assert_true(str_eqz(t.calls[0].args.text[0], code));
	}
	assert_int_equal(t.done, done);
}

static void
refused(const char *text, const char *why)
{
	struct model *m = NULL;
	struct err e = {0};

	assert_true(model_script_parse(str_z(text), "s.md", &m, &e) < 0);
	assert_null(m);
	if (strstr(e.msg, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", e.msg, why);
}

static void
words_and_the_code_after_them_are_one_turn(void **state UNUSED)
{
	AUTO(model)
	struct model *m = parse("# Title\nremarks\n\n## say\nHello.\n\n## code bash\n\n"
				"echo 1\n\necho 2\n\n## done\nBye.\n");
	struct model_turn t;
	struct err e = {0};

	turn_is(m, "Hello.", "bash", "echo 1\n\necho 2", false);
	turn_is(m, "Bye.", "", "", true);
	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), ERR_STATE);
}

static void
code_without_words_and_words_without_code_are_turns(void **state UNUSED)
{
	AUTO(model)
	struct model *m = parse("## code python\nprint(1)\n## code bash\nls\n## say\na\n"
				"## say\nb\n## done\n");

	turn_is(m, "", "python", "print(1)", false);
	turn_is(m, "", "bash", "ls", false);
	turn_is(m, "a", "", "", false);
	turn_is(m, "b", "", "", false);
	turn_is(m, "", "", "", true);
}

static void
cells_and_calls_are_the_tools_that_a_model_is_offered(void **state UNUSED)
{
	AUTO(model)
	struct model *m = parse("## say\nx\n## cell python\nx = 1\n## call read_file\n"
				"{\"path\": \"/work/a\", \"offset\": 7}\n## call write_file\n"
				"{\"path\": 1}\n## call fly\n{}\n## done\n");
	struct model_turn t = {0};
	struct err e = {0};

	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), 0);
	assert_true(str_eqz(t.words, "x") && t.ncalls == 1);
	assert_string_equal(t.calls[0].tool->name, "run_code");
	assert_true(str_eqz(t.calls[0].args.text[1], "python"));
	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), 0);
	assert_string_equal(t.calls[0].tool->name, "read_file");
	assert_true(t.calls[0].fault == NULL && str_eqz(t.calls[0].args.text[0], "/work/a"));
	assert_int_equal(t.calls[0].args.number[1], 7);
	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), 0);
	assert_non_null(strstr(t.calls[0].fault, "\"content\" is missing"));
	assert_int_equal(m->next(m, &(struct model_ask){0}, &t, &e), 0);
	assert_non_null(strstr(t.calls[0].fault, "there is no tool \"fly\""));
	turn_is(m, "", "", "", true);
}

static void
comment_and_escaped_header_stay_content(void **state UNUSED)
{
	AUTO(model)
	struct model *m = parse("## code python\n# one\n### three\n\\## done\n##x\n## done");

	turn_is(m, "", "python", "# one\n### three\n## done\n##x", false);
	turn_is(m, "", "", "", true);
}

static void
what_is_not_understood_is_refused_with_its_line(void **state UNUSED)
{
	refused("", "no section");
	refused("just text\n", "no section");
	refused("## say\nx\n## cod bash\n", "s.md:3: \"## cod\"");
	refused("## code\nls\n", "s.md:1");
	refused("## cell\nls\n", "s.md:1");
	refused("## call read file\n{}\n", "s.md:1");
	refused("## code Bash!\nls\n", "s.md:1");
	refused("## say something\n", "s.md:1");
	refused("## done\n## say\nx\n", "s.md:2: a section after");
	refused("## say\n\xff\n", "not UTF-8");
}

static void
script_that_is_too_long_is_refused(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF((size_t)4 << 20);
	struct model *m = NULL;
	struct err e = {0};

	for (int i = 0; i < 1000; i++)
		buf_put_z(&b, "## say\nx\n");
	assert_int_equal(model_script_parse(buf_str(&b), "s.md", &m, &e), 0);
	model_free(m);
	m = NULL;
	buf_put_z(&b, "## say\nx\n");
	assert_int_equal(model_script_parse(buf_str(&b), "s.md", &m, &e), ERR_TOO_LARGE);
	buf_reset(&b);
	while (b.n <= (size_t)1 << 20)
		buf_put_z(&b, "padding padding padding\n");
	assert_int_equal(model_script_parse(buf_str(&b), "s.md", &m, &e), ERR_TOO_LARGE);
	assert_int_equal(model_script_open("/nonexistent/x.md", &m, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.msg, "/nonexistent/x.md"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words_and_the_code_after_them_are_one_turn),
	    cmocka_unit_test(code_without_words_and_words_without_code_are_turns),
	    cmocka_unit_test(cells_and_calls_are_the_tools_that_a_model_is_offered),
	    cmocka_unit_test(comment_and_escaped_header_stay_content),
	    cmocka_unit_test(what_is_not_understood_is_refused_with_its_line),
	    cmocka_unit_test(script_that_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
