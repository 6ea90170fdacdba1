/*
 * Unit tests of profiles: what is refused with which words and where, and beside each refusal the
 * nearest that is taken; what a profile comes to under a plan.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/xalloc.h"
#include "agent/agent_env.h"
#include "agent/profile_check.h"
#include "agent/profile_use.h"

#include "common/banned.h"

#define HEAD "{\"name\":\"a\",\"about\":\"b\","

static void
assert_taken(const char *rest)
{
	AUTO_FREE char *text = xasprintf("%s%s", HEAD, rest);
	AUTO(profile) struct profile *p = NULL;
	struct err e = {0};

	if (profile_parse(str_z(text), "f", &p, &e) != 0)
		fail_msg("%s: %s", text, e.msg);
}

static void
assert_refused(const char *rest, const char *where, const char *words)
{
	AUTO_FREE char *text = xasprintf("%s%s", HEAD, rest);
	AUTO(profile) struct profile *p = NULL;
	struct err e = {0};

	if (profile_parse(str_z(text), "f", &p, &e) == 0)
		fail_msg("%s is taken", text);
	if (strncmp(e.msg, where, strlen(where)) != 0 || strstr(e.msg, words) == NULL)
		fail_msg("%s: \"%s\", wanted \"%s...%s\"", text, e.msg, where, words);
	assert_null(p);
}

static void
what_is_no_profile_is_refused_with_its_place(void **state)
{
	(void)state;
	assert_taken("\"env\":{}}");
	assert_refused("\n\"target\":[]}", "f:2:1: ", "is no key of a profile");
	assert_refused("\"env\":[]}", "f:1:", "env must be an object");
	assert_refused("\n\"env\":{\"A\":1}}", "f:2:", "variable A must be a text");
	assert_refused("\"env\":{\"A-B\":\"x\"}}", "f:1:", "is no name of a variable");
	assert_refused("\"files\":{\"x\":\"text\"}}", "f:1:", "a list of its lines");
	assert_taken("\"files\":{\"x\":[\"text\",\"\"]}}");
	assert_refused("\"files\":{\"x\":[\"a\\nb\"]}}", "f:1:", "without its end");
	assert_refused("\"commands\":[\"/usr/bin/x\"]}", "f:1:", "without its directory");
	assert_taken("\"commands\":[\"x\"]}");
	assert_refused("\"models\":[\"llama\"]}", "f:1:", "anthropic, openai or google");
	assert_taken("\"models\":[\"google\"]}");
}

static void
a_profile_holds_no_key(void **state)
{
	(void)state;
	assert_refused("\"env\":{\"A_KEY\":\"x\"}}", "f:1:", "says by its name that it is a key");
	assert_refused("\"env\":{\"A_KEY\":\"x${openai.key}\"}}", "f:1:", "one placeholder");
	assert_refused("\"env\":{\"A_KEY\":\"${openai.url}\"}}", "f:1:", "one placeholder");
	assert_taken(
	    "\"env\":{\"A_KEY\":\"${openai.key}\",\"MAX_TOKENS\":\"7\",\"B_TOKEN\":\"\"}}");
	assert_refused("\"env\":{\"A\":\"0f8fad5b-d9cb-469f-a165-70867728950e\"}}",
	    "f:1:", "looks like a key");
	assert_taken("\"env\":{\"A\":\"0f8fad5b-d9cb-469f-a165-7086772895\"}}");
	assert_refused(
	    "\"env\":{\"A\":\"abcdefghijklmnopqrstuvwxyz012345\"}}", "f:1:", "looks like a key");
	assert_taken("\"env\":{\"A\":\"abcdefghijklmnopqrstuvwxyz01234\"}}");
	assert_refused(
	    "\"files\":{\"x\":[\"k = ghp_abcdefghijklmnopqrstuv\"]}}", "f:1:", "looks like a key");
	assert_taken("\"files\":{\"x\":[\"k = ${anthropic.key}\"]}}");
}

static void
a_profile_changes_nothing_that_is_the_sandboxs(void **state)
{
	static const char *const taken[] = {"PATH", "HOME", "TERM", "LD_AUDIT", "https_proxy",
	    "NO_PROXY", "NODE_EXTRA_CA_CERTS", "PGPASSFILE", "NODE_OPTIONS", "PIP_CERT"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (profile_check_variable(str_z(taken[i]), STR("x")) == NULL)
			fail_msg("%s is taken", taken[i]);
	assert_null(profile_check_variable(STR("HOMEPAGE"), STR("x")));
	assert_null(profile_check_variable(STR("A_PATH"), STR("x")));
	assert_false(profile_check_path(STR("../x")));
	assert_false(profile_check_path(STR("a/../../x")));
	assert_false(profile_check_path(STR("/x")));
	assert_false(profile_check_path(STR("a//x")));
	assert_true(profile_check_path(STR(".a/..b/x.json")));
}

static const char *
value_of(char **env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; env[i] != NULL; i++)
		if (strncmp(env[i], name, n) == 0 && env[i][n] == '=')
			return env[i] + n + 1;
	return NULL;
}

static void
it_is_filled_from_the_plan_alone(void **state)
{
	static const char text[] = HEAD
	    "\"models\":[\"openai\",\"anthropic\"],\"env\":{\"U\":\"${anthropic.url}/v1 "
	    "${anthropic.host}\",\"A_KEY\":\"${anthropic.key}\",\"E\":\"${anthropic.key.end}\","
	    "\"O\":\"${openai.url}\",\"SET\":\"profile\"}}";
	char a[4][32] = {"first", "anthropic", "https://a.test", "cfph_first"};
	char b[4][32] = {
	    "second", "anthropic", "https://b.test:8443", "cfph_abcdefghijklmnopqrstuvwxy"};
	char set[2][8] = {"SET", "plan"};
	struct broker_plan plan = {.nmodels = 2, .nenv = 1};
	AUTO(profile) struct profile *p = NULL;
	struct profile_use u;
	const char *want[] = {"second"};
	struct err e = {0};
	char **env;

	(void)state;
	plan.models[0] = (struct broker_model){a[0], a[1], a[2], a[3]};
	plan.models[1] = (struct broker_model){b[0], b[1], b[2], b[3]};
	plan.env[0] = (struct broker_variable){set[0], set[1]};
	assert_int_equal(profile_parse(str_z(text), "f", &p, &e), 0);
	u = (struct profile_use){.profile = p, .targets = want, .ntargets = 1};
	assert_int_equal(profile_use_check(&u, &plan, &e), 0);
	env = profile_use_env(&u, &plan);
	assert_string_equal(value_of(env, "HOME"), PROFILE_HOME);
	assert_string_equal(value_of(env, "U"), "https://b.test:8443/v1 b.test:8443");
	assert_string_equal(value_of(env, "A_KEY"), "cfph_abcdefghijklmnopqrstuvwxy");
	assert_string_equal(value_of(env, "E"), "fghijklmnopqrstuvwxy");
	assert_null(value_of(env, "O"));   /* the run has none */
	assert_null(value_of(env, "SET")); /* the plan's stays */
	agent_env_free(env);
	u.ntargets = 0;
	env = profile_use_env(&u, &plan);
	assert_string_equal(value_of(env, "A_KEY"), "cfph_first");
	agent_env_free(env);
	plan.nmodels = 0;
	assert_int_equal(profile_use_check(&u, &plan, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.msg, "\"model\": anthropic or openai and \"wrapped\": true"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_no_profile_is_refused_with_its_place),
	    cmocka_unit_test(a_profile_holds_no_key),
	    cmocka_unit_test(a_profile_changes_nothing_that_is_the_sandboxs),
	    cmocka_unit_test(it_is_filled_from_the_plan_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
