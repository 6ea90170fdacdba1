/*
 * Unit tests of agent/agent_tool: every tool's schema, and calls that do not fit it, each with the
 * nearest that does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/model_call.h"
#include "common/jcs.h"

#include "common/banned.h"

/* The call's fault, or "" and the call in *ret; the caller drops it. */
static const char *
call(const char *name, const char *args, struct model_call *ret, struct json_doc **doc)
{
	model_call_read(str_z(name), str_z(args), ret, doc);
	return ret->fault != NULL ? ret->fault : "";
}

static void
fits(const char *name, const char *args)
{
	struct model_call c;
	struct json_doc *d;

	if (call(name, args, &c, &d)[0] != '\0')
		fail_msg("%s %s: %s", name, args, c.fault);
	assert_string_equal(c.tool->name, name);
	model_call_drop(&c, &d);
}

static void
faulty(const char *name, const char *args, const char *why)
{
	struct model_call c;
	struct json_doc *d;

	if (strstr(call(name, args, &c, &d), why) == NULL)
		fail_msg("%s %s: \"%s\" does not say \"%s\"", name, args,
		    c.fault != NULL ? c.fault : "", why);
	model_call_drop(&c, &d);
}

static void
what_does_not_fit_the_schema_is_a_fault_that_names_it(void **state UNUSED)
{
	fits("run_code", "{\"language\":\"python\",\"code\":\"1\"}");
	faulty("run_code", "{\"language\":\"python\"}", "\"code\" is missing");
	faulty("run_code", "{\"language\":\"python\",\"code\":null}", "\"code\" is missing");
	faulty("run_code", "{\"language\":\"python\",\"code\":7}", "\"code\" must be a string");
	faulty("run_code", "{\"language\":\"python\",\"code\":\"\"}", "\"code\" must not be empty");
	faulty("run_code", "{\"language\":\"cobol\",\"code\":\"1\"}",
	    "\"language\" must be one of python, bash, javascript, is \"cobol\"");
	faulty("run_code", "{\"language\":\"python\",\"code\":\"1\",\"sudo\":true}",
	    "run_code has no argument \"sudo\"");
	faulty("run_code", "[1]", "must be an object");
	faulty("run_code", "{\"code\":", "no JSON");
	faulty("run_code", "", "\"code\" is missing");
	faulty("rm", "{}", "there is no tool \"rm\"; there are: run_code, ");
	fits("run_code", "{\"language\":\"python\",\"code\":\"1\",\"timeout_s\":86400}");
	fits("run_code", "{\"language\":\"python\",\"code\":\"1\",\"timeout_s\":\"60\"}");
	faulty("run_code", "{\"language\":\"python\",\"code\":\"1\",\"timeout_s\":86401}",
	    "\"timeout_s\" must be from 1 to 86400, is 86401");
	faulty("run_code", "{\"language\":\"python\",\"code\":\"1\",\"timeout_s\":1.5}",
	    "\"timeout_s\" must be a whole number");
	fits("write_file", "{\"path\":\"/work/a\",\"content\":\"\"}");
	faulty("write_file", "{\"path\":\"\",\"content\":\"\"}", "\"path\" must not be empty");
	fits("finish", "{\"answer\":\"a\",\"outcome\":\"not_done\"}");
	faulty("finish", "{\"answer\":\"a\",\"outcome\":\"great\"}", "done, not_done");
}

static void
a_language_by_another_of_its_names_is_that_language(void **state UNUSED)
{
	static const char *const pairs[][2] = {{"sh", "bash"}, {"shell", "bash"},
	    {"node", "javascript"}, {"js", "javascript"}, {"python3", "python"}};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		AUTO_BUF struct buf b = BUF(256);
		struct model_call c;
		struct json_doc *d;

		buf_printf(&b, "{\"language\":\"%s\",\"code\":\"x\"}", pairs[i][0]);
		buf_put_c(&b, '\0');
		assert_string_equal(call("run_code", (const char *)b.p, &c, &d), "");
		assert_true(str_eqz(c.args.text[1], pairs[i][1]));
		model_call_drop(&c, &d);
	}
}

static void
every_schema_is_canonical_and_names_each_parameter(void **state UNUSED)
{
	for (size_t i = 0; i < tool_count(); i++) {
		const struct tool *t = tool_at(i);
		AUTO_BUF struct buf b = BUF(8192);
		AUTO(json) struct json_doc *d = NULL;
		struct err e = {0};

		tool_schema(t, &b);
		assert_true(jcs_is_canonical(buf_str(&b), &e));
		assert_int_equal(json_parse(buf_str(&b), t->name, &d, &e), 0);
		assert_int_equal(json_count(json_get(json_root(d), "properties")), tool_params(t));
		for (size_t k = 0; k < tool_params(t); k++)
			assert_non_null(
			    json_get(json_get(json_root(d), "properties"), t->params[k].name));
		assert_ptr_equal(tool_find(str_z(t->name)), t);
		assert_ptr_equal(tool_of(t->id), t);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_does_not_fit_the_schema_is_a_fault_that_names_it),
	    cmocka_unit_test(a_language_by_another_of_its_names_is_that_language),
	    cmocka_unit_test(every_schema_is_canonical_and_names_each_parameter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
