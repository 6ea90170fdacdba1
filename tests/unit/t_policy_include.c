/*
 * A policy in several files: what each may hold, where names are looked for, that nothing outside
 * the root's directory is read, and that messages name the file that is meant.
 */
#include "tests/unit/policy_help.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define TARGETS                                                                            \
	"\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"d.test\"," \
	"\"database\":\"d\",\"user\":\"u\",\"credential\":\"c\"}}"
#define ROOT(more) "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1," more "}"
#define READ "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}"
#define NEVER "{\"id\":\"never\",\"forbid\":{\"during\":\"june\"},\"override\":\"never\"}"
#define JUNE                                                                                      \
	"{\"june\":{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":[{\"from\":\"2026-06-01T00:00\"," \
	"\"to\":\"2026-06-02T00:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}}"

struct world {
	char dir[64];
};

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/t_policy_include.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	*state = w;
	return 0;
}

static int
removed(const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *at UNUSED)
{
	return remove(path);
}

static int
teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(nftw(w->dir, removed, 8, FTW_DEPTH | FTW_PHYS), 0);
	free(w);
	return 0;
}

static void
put(const struct world *w, const char *name, const char *text)
{
	AUTO_FREE char *path = xasprintf("%s/%s", w->dir, name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int
parse(const struct world *w, const char *text, struct policy_docs *docs, struct policy **ret,
    struct err *err)
{
	const struct policy_source src = {.name = "policies/root.json", .dir = w->dir};

	return policy_parse_docs(str_z(text), &src, docs, ret, NULL, err);
}

static void
assert_refused(const struct world *w, const char *text, const char *why)
{
	AUTO_POLICY_DOCS struct policy_docs docs = {0};
	AUTO(policy) struct policy *p = NULL;
	struct err err = {0};

	assert_int_not_equal(parse(w, text, &docs, &p, &err), 0);
	if (strstr(err.msg, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, why);
}

static struct policy *
accepted(const struct world *w, const char *text, struct policy_docs *docs)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (parse(w, text, docs, &p, &err) != 0)
		fail_msg("%s", err.msg);
	return p;
}

static void
assert_accepted(const struct world *w, const char *text)
{
	AUTO_POLICY_DOCS struct policy_docs docs = {0};

	policy_free(accepted(w, text, &docs));
}

static void
a_policy_in_several_files_is_the_same_policy(void **state)
{
	const struct world *w = *state;
	AUTO_POLICY_DOCS struct policy_docs docs = {0}, none = {0};
	AUTO_FREE char *sub = xasprintf("%s/teams", w->dir);
	AUTO(policy) struct policy *p = NULL, *q = NULL;

	assert_int_equal(mkdir(sub, 0700), 0);
	put(w, "rules.json",
	    "{\"include\":\"teams/b.json\",\"rules\":[" NEVER
	    "],\"cases\":[{\"id\":\"c1\",\"at\":\"2026-01-01T00:00:00Z\",\"input\":{\"target\":"
	    "\"db\",\"sql\":\"SELECT 1\"},\"expect\":{\"verdict\":\"allow\"}}]}");
	put(w, "teams/b.json", "{\"calendars\":" JUNE "}");
	p = accepted(
	    w, ROOT("\"include\":[\"rules.json\"]," TARGETS ",\"rules\":[" READ "]"), &docs);
	q = accepted(w, ROOT(TARGETS ",\"rules\":[" READ "," NEVER "],\"calendars\":" JUNE), &none);
	assert_true(hash_eq(policy_digest(p), policy_digest(q)));
	assert_int_equal(docs.n, 3);
	assert_string_equal(json_name(docs.v[1]), "policies/rules.json");
	assert_string_equal(json_name(docs.v[2]), "policies/teams/b.json");
	assert_int_equal(policy_docs_count(&docs, "cases"), 1);
	assert_int_equal(policy_docs_count(&docs, "rules"), 2);
}

static void
what_stands_twice_is_refused_with_both_places(void **state)
{
	const struct world *w = *state;
	const char *root = ROOT("\n\"include\":[\"a.json\",\"b.json\"]," TARGETS);

	put(w, "a.json", "{\"rules\":[\n" READ "]}");
	put(w, "b.json", "{\"rules\":[" READ "]}");
	assert_refused(w, root,
	    "policies/b.json:1:11: \"read\" stands twice in rules: also in "
	    "policies/a.json:2:1");
	put(w, "b.json", "{" TARGETS "}");
	assert_refused(w, root,
	    "policies/b.json:1:13: \"db\" stands twice in targets: also in policies/root.json:2:");
	put(w, "b.json",
	    "{\"people\":{\"bob\":{\"roles\":\"dba\",\"login\":\"unix:bob\"}},\"rules\":[]}");
	put(w, "a.json",
	    "{\"people\":{\"rob\":{\"roles\":\"dba\",\"login\":\"unix:bob\"}},\"rules\":[]}");
	assert_refused(w, root, "login unix:bob stands twice");
}

static void
an_error_names_its_own_file_and_line(void **state)
{
	const struct world *w = *state;
	const char *root = ROOT("\"include\":\"a.json\"," TARGETS ",\"rules\":[]");

	put(w, "a.json",
	    "{\"rules\":[\n{\"id\":\"x\",\"permit\":{\"target\":\"nowhere\","
	    "\"effects\":{\"only\":[]}}}]}");
	assert_refused(w, root, "policies/a.json:2:21: no target is named \"nowhere\"");
	put(w, "a.json", "{\"rules\":[\n}");
	assert_refused(w, root, "policies/a.json:2:1");
	put(w, "a.json",
	    "{\"rules\":[\n{\"id\":\"x\",\"require\":{},\"approve\":[{\"role\":\"dba\","
	    "\"count\":1}],\"within\":\"1m\",\"use_within\":\"1m\"}]}");
	assert_refused(w, root, "policies/a.json:2:1: rule x can never be approved");
}

static void
what_says_which_policy_this_is_stands_in_the_root_alone(void **state)
{
	static const char *const keys[] = {"\"schema\":\"cofferdam-policy/1\"", "\"serial\":2",
	    "\"policy\":\"u\"", "\"clock\":\"trusted\"", "\"attempts\":{\"alarm\":1}"};
	const struct world *w = *state;
	const char *root = ROOT("\"include\":\"a.json\"," TARGETS ",\"rules\":[]");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO_FREE char *text = xasprintf("{%s}", keys[i]);

		put(w, "a.json", text);
		assert_refused(w, root, "in an included file");
	}
	put(w, "a.json", "{}");
	assert_accepted(w, root);
}

static void
nothing_outside_the_directory_is_read(void **state)
{
	static const char *const names[] = {"../a.json", "/etc/hostname", "./a.json", "x//a.json",
	    "x/../a.json", ".hidden", "", "x/"};
	const struct world *w = *state;
	AUTO_FREE char *link = xasprintf("%s/link.json", w->dir);

	put(w, "a.json", "{}");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *text =
		    xasprintf(ROOT("\"include\":[\"%s\"]," TARGETS ",\"rules\":[]"), names[i]);

		assert_refused(w, text, "relative to the policy's directory and below it");
	}
	assert_int_equal(symlink("/etc/hostname", link), 0);
	assert_refused(w, ROOT("\"include\":\"link.json\"," TARGETS ",\"rules\":[]"),
	    "include link.json: Invalid cross-device link");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("a.json", link), 0);
	assert_accepted(w, ROOT("\"include\":\"link.json\"," TARGETS ",\"rules\":[]"));
	assert_refused(w, ROOT("\"include\":\"none.json\"," TARGETS ",\"rules\":[]"),
	    "include none.json: No such file");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mkfifo(link, 0600), 0);
	assert_refused(w, ROOT("\"include\":\"link.json\"," TARGETS ",\"rules\":[]"),
	    "include link.json: not a regular file");
}

static void
a_cycle_and_a_file_read_twice_are_refused(void **state)
{
	const struct world *w = *state;

	put(w, "a.json", "{\"include\":[\"b.json\"]}");
	put(w, "b.json", "{\"include\":[\"a.json\"]}");
	assert_refused(w, ROOT("\"include\":\"a.json\"," TARGETS ",\"rules\":[]"),
	    "policies/b.json:1:13: \"a.json\" includes itself, by way of policies/b.json");
	put(w, "b.json", "{\"include\":[\"root.json\"]}");
	assert_refused(w, ROOT("\"include\":\"a.json\"," TARGETS ",\"rules\":[]"),
	    "\"root.json\" includes itself");
	put(w, "b.json", "{}");
	assert_refused(w, ROOT("\"include\":[\"a.json\",\"b.json\"]," TARGETS ",\"rules\":[]"),
	    "\"b.json\" is included twice");
}

static void
how_many_and_how_deep_is_bounded(void **state)
{
	const struct world *w = *state;

	for (int i = 0; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("f%d.json", i);
		AUTO_FREE char *text = xasprintf("{\"include\":\"f%d.json\"}", i + 1);

		put(w, name, text);
	}
	assert_refused(w, ROOT("\"include\":\"f0.json\"," TARGETS ",\"rules\":[]"), "15 deep");
	put(w, "f14.json", "{}");
	assert_accepted(w, ROOT("\"include\":\"f0.json\"," TARGETS ",\"rules\":[]"));
}

static void
a_policy_without_a_directory_includes_nothing(void **state UNUSED)
{
	AUTO(policy) struct policy *p = NULL;
	struct err err = {0};

	assert_int_not_equal(
	    policy_parse(STR(ROOT("\"include\":\"a.json\"," TARGETS ",\"rules\":[]")), "p.json",
		NULL, NULL, &p, NULL, &err),
	    0);
	assert_non_null(strstr(err.msg, "was not read from a directory"));
}

int
main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_policy_in_several_files_is_the_same_policy),
	    TEST(what_stands_twice_is_refused_with_both_places),
	    TEST(an_error_names_its_own_file_and_line),
	    TEST(what_says_which_policy_this_is_stands_in_the_root_alone),
	    TEST(nothing_outside_the_directory_is_read),
	    TEST(a_cycle_and_a_file_read_twice_are_refused),
	    TEST(how_many_and_how_deep_is_bounded),
	    cmocka_unit_test(a_policy_without_a_directory_includes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
