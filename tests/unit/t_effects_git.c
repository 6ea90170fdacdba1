/* Pushes and fetches to effects: requests of smart HTTP, command lists, what is known of objects.
 */
#include "tests/unit/kind_help.h"

#include "policy/effects_git.h"

#include "common/banned.h"

#define RECEIVE "Content-Type: application/x-git-receive-pack-request\r\n"
#define UPLOAD "Content-Type: application/x-git-upload-pack-request\r\n"
#define PUSH "POST /acme/billing.git/git-receive-pack"
#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define Z "0000000000000000000000000000000000000000"
#define CAPS " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"

static void
put_line(struct buf *out, const char *text, bool first, const char *caps)
{
	AUTO_BUF struct buf line = BUF(65536);

	buf_put_z(&line, text);
	if (first) {
		buf_put_c(&line, '\0');
		buf_put_z(&line, caps);
	}
	buf_printf(out, "%04zx", line.n + 4);
	buf_put_str(out, buf_str(&line));
}

/* Commands separated by '|'. */
static void
put_push(struct buf *out, const char *commands, const char *caps, const char *behind)
{
	struct str rest = str_z(commands), one;
	bool more = true, first = true;

	while (more) {
		AUTO_FREE char *z = NULL;

		more = str_cut(&rest, '|', &one);
		z = str_dup(more ? one : rest);
		put_line(out, z, first, caps);
		first = false;
	}
	buf_put_z(out, "0000");
	buf_put_z(out, behind);
}

static struct http_view
push_view(const char *target, const char *commands, const char *caps, const char *behind)
{
	AUTO_BUF struct buf body = BUF(1 << 20);

	put_push(&body, commands, caps, behind);
	return kind_view(target, PUSH, RECEIVE, buf_str(&body), true);
}

static void
assert_push(const char *target, const char *commands, const char *effects, const char *names)
{
	struct http_view v = push_view(target, commands, CAPS, "PACK");
	AUTO_BUF struct buf got = BUF(256), list = BUF(65536);
	struct str name[RESOURCES_MAX];
	size_t n = resources_list(&v.resources, name);

	effect_put(&got, v.effects);
	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%.*s", i != 0 ? " " : "", STR_ARG(name[i]));
	if (!str_eqz(buf_str(&got), effects))
		fail_msg("%s: \"%.*s\" (%s)", commands, STR_ARG(buf_str(&got)),
		    v.fault != NULL ? v.fault : "");
	if (names != NULL && !str_eqz(buf_str(&list), names))
		fail_msg("%s: names \"%.*s\"", commands, STR_ARG(buf_str(&list)));
}

static void
requests_are_reads_but_for_a_push(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"GET /acme/billing.git/info/refs?service=git-upload-pack", NULL, NULL, "read",
		"acme/billing.git:*"},
	    {"GET /acme/billing.git/info/refs?service=git-receive-pack", NULL, NULL, "read", NULL},
	    {"GET /acme/billing.git/info/refs", NULL, NULL, "opaque", NULL},
	    {"GET /acme/billing.git/info/refs?service=git-upload-pack&service=x", NULL, NULL,
		"opaque", NULL},
	    {"POST /acme/billing.git/git-upload-pack", UPLOAD "Content-Encoding: gzip\r\n", "x",
		"read", NULL},
	    {"POST /acme/billing.git/git-upload-pack", RECEIVE, "x", "opaque read", NULL},
	    {PUSH, RECEIVE, "0000", "read", "acme/billing.git:*"},
	    {PUSH, UPLOAD, "0000", "opaque", NULL},
	    {PUSH, RECEIVE "Content-Encoding: gzip\r\n", "x", "opaque", NULL},
	    {PUSH, RECEIVE, NULL, "opaque", NULL},
	    {"PUT /acme/billing.git/objects/x", NULL, "x", "opaque", NULL},
	    {"GET /acme/billing.git/HEAD", NULL, NULL, "opaque", NULL},
	    {"POST /acme/billing.git/info/lfs/objects/batch", NULL, "{}", "opaque", NULL},
	    {"POST /acme/../git-receive-pack", RECEIVE, "0000", "invalid", NULL},
	};

	KIND_ROWS("g", rows);
}

static void
commands_say_which_refs_change(void **state UNUSED)
{
	assert_push("g", Z " " B " refs/heads/x", "write", "acme/billing.git:refs/heads/x");
	assert_push("g", A " " B " refs/heads/x", "overwrite", NULL);
	assert_push("g", A " " Z " refs/heads/x", "delete", NULL);
	assert_push("g", A " " Z " refs/heads/main", "drop", NULL);
	assert_push("g", A " " B " refs/tags/v1", "overwrite", NULL);
	assert_push("g", Z " " B " refs/tags/v1", "write", NULL);
	assert_push("g", A " " Z " refs/tags/v1", "drop", NULL);
	assert_push("g", Z " " B " refs/heads/x|" A " " Z " refs/heads/y", "delete write",
	    "acme/billing.git:refs/heads/x acme/billing.git:refs/heads/y");
	assert_push("g",
	    Z " " B " refs/heads/a|" Z " " B " refs/heads/b|" Z " " B " refs/heads/c|" Z " " B
	      " refs/heads/d|" Z " " B " refs/heads/e",
	    "write", NULL);
	assert_push("g",
	    Z " " B " refs/heads/a|" Z " " B " refs/heads/b|" Z " " B " refs/heads/c|" Z " " B
	      " refs/heads/d|" Z " " B " refs/heads/e|" Z " " B " refs/heads/f",
	    "bulk write", NULL);
	assert_push("g", A " " B " refs/notes/commits", "opaque overwrite", NULL);
	assert_push("g", A " " B " HEAD", "opaque overwrite", NULL);
	assert_push("g", Z " " Z " refs/heads/x", "invalid", NULL);
	assert_push("g", Z " " B " refs/heads/x|" Z " " A " refs/heads/x", "invalid write", NULL);
}

static void
a_name_that_git_does_not_take_is_invalid(void **state UNUSED)
{
	static const char *const bad[] = {"refs/heads/../x", "refs/heads/a..b", "refs/heads/.x",
	    "refs/heads/x.lock", "refs/heads/x/", "refs/heads//x", "refs/heads/x~1",
	    "refs/heads/x^", "refs/heads/x:y", "refs/heads/x?", "refs/heads/*", "refs/heads/[x",
	    "refs/heads/a\\b", "refs/heads/x.", "refs/heads/@{x", "refs/heads/a b", "/refs/heads/x",
	    "refs/heads/\x7f", "refs/heads/\xff"};
	static const char *const good[] = {"refs/heads/a.b", "refs/heads/@", "refs/heads/a-b_c",
	    "refs/heads/a/b/c", "refs/heads/x.locked", "refs/heads/\xc3\xbc"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_FREE char *c = xasprintf(Z " " B " %s", bad[i]);

		if ((push_view("g", c, CAPS, "PACK").effects & EFFECT_invalid) == 0)
			fail_msg("%s is taken", bad[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		AUTO_FREE char *c = xasprintf(Z " " B " %s", good[i]);

		assert_push("g", c, "write", NULL);
	}
}

static void
assert_facts(struct str body, int want, const char *why)
{
	AUTO_BUF struct buf json = BUF(FACTS_JSON_MAX);
	struct err err = {0};
	int rc = facts_git(body, &json, &err);

	if (rc != want || (why != NULL && strstr(err.msg, why) == NULL))
		fail_msg("%d %s, wanted %d %s", rc, err.msg, want, why != NULL ? why : "");
}

static void
a_list_that_is_not_whole_is_refused(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1 << 20), big = BUF(1 << 20);

	put_push(&b, Z " " B " refs/heads/x", CAPS, "PACK");
	for (size_t n = 0; n + 4 < b.n; n++)
		assert_facts(str_mem(b.p, n), ERR_SYNTAX, "push:");
	assert_facts(str_mem(b.p, b.n - 4), 0, NULL); /* all but its pack: a deletion has none */
	assert_facts(buf_str(&b), 0, NULL);
	assert_facts(STR("0000"), 0, NULL);
	assert_facts(STR("0001"), ERR_SYNTAX, "no content");
	assert_facts(STR("0004"), ERR_SYNTAX, "no content");
	assert_facts(STR("zzzz"), ERR_SYNTAX, "without a length");
	assert_facts(STR("0000PACX"), ERR_SYNTAX, "no pack");
	assert_facts(STR("000dpush-cert0000"), ERR_SYNTAX, "signed push");
	assert_facts(STR("000epush-cert\n0000"), ERR_SYNTAX, "signed push");
	buf_reset(&b);
	put_push(&b, Z " " B " refs/heads/x", " report-status teleport", "PACK");
	assert_facts(buf_str(&b), ERR_SYNTAX, "capability");
	buf_reset(&b);
	put_push(&b, Z " " B " refs/heads/x", CAPS " atomic quiet session-id=1", "PACK");
	assert_facts(buf_str(&b), 0, NULL);
	for (unsigned i = 0; i <= FACTS_GIT_COMMANDS_MAX; i++) {
		AUTO_FREE char *c = xasprintf(Z " " B " refs/heads/b%u", i);

		put_line(&big, c, i == 0, CAPS);
	}
	buf_put_z(&big, "0000PACK");
	assert_facts(buf_str(&big), ERR_TOO_COMPLEX, "more than 64");
}

static void
push_options_are_those_of_the_target(void **state UNUSED)
{
#define OPTIONS(list) push_view("g", Z " " B " refs/heads/x", CAPS " push-options", list "0000PACK")
	assert_int_equal(OPTIONS("0003ticket=7").effects, EFFECT_invalid);
	assert_int_equal(OPTIONS("000dticket=77").effects, EFFECT_write);
	assert_int_equal(OPTIONS("000bci.skip").effects, EFFECT_write | EFFECT_opaque);
	assert_int_equal(OPTIONS("").effects, EFFECT_write);
	/* Where they were not negotiated, it is no pack that stands there. */
	assert_int_equal(
	    push_view("g", Z " " B " refs/heads/x", CAPS, "000dticket=770000PACK").effects &
		EFFECT_invalid,
	    EFFECT_invalid);
}

/* GIT-01 of the field cases: only refs/heads/agent/, and what is mixed is refused whole. */
static void
a_target_may_be_some_refs_of_some_repositories(void **state UNUSED)
{
	static const struct kind_row rows[] = {
	    {"GET /acme/x.git/info/refs?service=git-upload-pack", NULL, NULL, "read", NULL},
	    {"GET /other/x.git/info/refs?service=git-upload-pack", NULL, NULL, "opaque read", NULL},
	};

	KIND_ROWS("agent", rows);
	assert_push("agent", Z " " B " refs/heads/agent/x", "write", NULL);
	assert_push("agent", A " " Z " refs/heads/agent/x", "delete", NULL);
	assert_push("agent", A " " B " refs/heads/main", "opaque overwrite", NULL);
	assert_push("agent", Z " " B " refs/heads/agent/x|" Z " " B " refs/heads/main",
	    "opaque write", NULL);
	assert_push("agent", Z " " B " refs/tags/v1", "opaque write", NULL);
}

static void
assert_seen(const char *target, const char *commands, const struct git_seen *seen, uint32_t want)
{
	AUTO_BUF struct buf body = BUF(65536), json = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct http_view v = {.statements = 1};
	struct err err = {0};

	put_push(&body, commands, CAPS, "PACK");
	assert_int_equal(facts_git(buf_str(&body), &json, &err), 0);
	assert_int_equal(json_parse(buf_str(&json), "facts", &doc, &err), 0);
	RESOURCES_ADD(&v.resources, STR("r:*"));
	effects_git_push(policy_target(kind_policy, str_z(target)), json_root(doc), seen, 1, &v);
	assert_int_equal(v.effects, want);
}

static void
who_has_looked_into_the_objects_knows_more(void **state UNUSED)
{
	static const struct str ci = {".github/workflows/ci.yml", 24}, src = {"src/a.c", 7},
				big = {"JenkinsFile", 11};
	struct git_seen s = {.ancestor = GIT_FORWARD};

#define UPDATE A " " B " refs/heads/x"
	assert_seen("g", UPDATE, &s, EFFECT_write);
	s.ancestor = GIT_FORCED;
	assert_seen("g", UPDATE, &s, EFFECT_overwrite);
	s.ancestor = GIT_UNKNOWN;
	assert_seen("g", UPDATE, &s, EFFECT_overwrite);
	s = (struct git_seen){GIT_FORWARD, true, 1, &ci};
	assert_seen("g", UPDATE, &s, EFFECT_write | EFFECT_priv);
	s.paths = &big;
	assert_seen("g", UPDATE, &s, EFFECT_write | EFFECT_priv);
	s.paths = &src;
	assert_seen("g", UPDATE, &s, EFFECT_write);
	assert_seen("q", UPDATE, &s, EFFECT_write);
	s.looked = false;
	assert_seen("q", UPDATE, &s, EFFECT_write | EFFECT_opaque);
	assert_seen("q", A " " Z " refs/heads/x", &s, EFFECT_delete);
}

static void
facts_of_another_form_are_opaque(void **state UNUSED)
{
	static const char *const odd[] = {"{}", "[]", "{\"git\":{}}",
	    "{\"git\":{\"commands\":[],\"end\":4}}",
	    "{\"git\":{\"commands\":{},\"end\":4,\"options\":[]}}",
	    "{\"git\":{\"commands\":[],\"end\":4,\"options\":[]},\"x\":1}"};

	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		AUTO(json) struct json_doc *doc = NULL;
		struct http_view v = {.statements = 1};
		struct err err = {0};

		assert_int_equal(json_parse(str_z(odd[i]), "facts", &doc, &err), 0);
		effects_git_push(policy_target(kind_policy, STR("g")), json_root(doc), NULL, 0, &v);
		if ((v.effects & EFFECT_opaque) == 0)
			fail_msg("%s", odd[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_are_reads_but_for_a_push),
	    cmocka_unit_test(commands_say_which_refs_change),
	    cmocka_unit_test(a_name_that_git_does_not_take_is_invalid),
	    cmocka_unit_test(a_list_that_is_not_whole_is_refused),
	    cmocka_unit_test(push_options_are_those_of_the_target),
	    cmocka_unit_test(a_target_may_be_some_refs_of_some_repositories),
	    cmocka_unit_test(who_has_looked_into_the_objects_knows_more),
	    cmocka_unit_test(facts_of_another_form_are_opaque),
	};

	return cmocka_run_group_tests(tests, kind_setup, kind_teardown);
}
