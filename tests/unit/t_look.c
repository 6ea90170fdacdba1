/* What servers show before people are asked, and the conditions made of it (policy/look.h). */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "policy/look.h"

#include "common/banned.h"

#define assert_state(s, z)                                                               \
	do {                                                                             \
		struct str got_ = (s);                                                   \
		if (!str_eqz(got_, z))                                                   \
			fail_msg("%s is \"%.*s\", wanted \"%s\"", #s, STR_ARG(got_), z); \
	} while (0)

#define ID_A "1111111111111111111111111111111111111111"
#define ID_B "2222222222222222222222222222222222222222"
#define ZERO "0000000000000000000000000000000000000000"

/* --- HTTP ------------------------------------------------------------------------ */

static void
only_a_strong_etag_of_plain_characters_is_one(void **state)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct str bad[] = {STR(""), STR("\""), STR("abc"), STR("W/\"a\""), STR("\"a"),
	    STR("\"a b\""), STR("\"a\"b\""), STR("\"a\n\""), STR("\"\xc3\xa9\""),
	    STR("\"a\", \"b\"")};

	(void)state;
	assert_true(look_etag_is_strong(STR("\"\"")));
	assert_true(look_etag_is_strong(STR("\"5f3-61c:gzip\"")));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(look_etag_is_strong(bad[i]));
	buf_put_c(&b, '"');
	while (b.n < LOOK_WORD_MAX - 1)
		buf_put_c(&b, 'x');
	buf_put_c(&b, '"');
	assert_true(look_etag_is_strong(buf_str(&b)));
	b.n--;
	buf_put_z(&b, "x\"");
	assert_false(look_etag_is_strong(buf_str(&b)));
}

static void
words_that_bind_are_told_from_those_that_inform(void **state)
{
	static const char *const none[] = {"none", "", "failed=time", "refs=changed commits=1",
	    "refs=not-known commits=2", "plan-rows=1 count=1", "xif-match=\"a\""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_int_equal(look_bound(str_z(none[i])).n, 0);
	assert_state(look_bound(STR("if-match=\"a\"")), "if-match=\"a\"");
	assert_state(look_bound(STR("uid=u resource-version=1")), "uid=u resource-version=1");
	assert_state(look_bound(STR("refs=as-said commits=3 objects=9")), "refs=as-said");
	assert_state(look_bound(STR("refs=as-said")), "refs=as-said");
	assert_state(look_word(STR("uid=u resource-version=12"), "resource-version"), "12");
	assert_int_equal(look_word(STR("uid=u"), "resource-version").n, 0);
	assert_int_equal(look_word(STR("xuid=u"), "uid").n, 0);
}

/* --- Kubernetes ------------------------------------------------------------------ */

static int
object(const char *json, struct buf *uid, struct buf *version)
{
	struct err err = {0};

	return look_k8s(str_z(json), uid, version, &err);
}

static void
an_object_is_known_by_uid_and_version_or_not_at_all(void **state)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"metadata\":{\"uid\":\"u\"}}",
	    "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"\"}}",
	    "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":7}}",
	    "{\"metadata\":{\"uid\":\"u\\\"\",\"resourceVersion\":\"7\"}}",
	    "{\"metadata\":{\"uid\":\"u,resource-version:9\",\"resourceVersion\":\"7\"}}",
	    "{\"metadata\":{\"uid\":\"u\",\"uid\":\"v\",\"resourceVersion\":\"7\"}}",
	    "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"}"};
	AUTO_BUF struct buf uid = BUF(LOOK_WORD_MAX), version = BUF(LOOK_WORD_MAX);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (object(bad[i], &uid, &version) == 0)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(uid.n + version.n, 0);
	}
	assert_int_equal(object("{\"metadata\":{\"name\":\"x\",\"uid\":\"0b-1\","
				"\"resourceVersion\":\"7\"},\"spec\":1.5}",
			     &uid, &version),
	    0);
	assert_state(buf_str(&uid), "0b-1");
	assert_state(buf_str(&version), "7");
}

#define PRE "\"preconditions\":{\"resourceVersion\":\"7\",\"uid\":\"u\"}"

static void
preconditions_are_added_and_nothing_else_is_changed(void **state)
{
	static const struct {
		const char *body, *want; /* NULL: refused */
	} cases[] = {
	    {"", "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\"," PRE "}"},
	    {"{}", "{" PRE "}"},
	    {" \n{ }", " \n{" PRE " }"},
	    {"{\"propagationPolicy\":\"Background\",\"gracePeriodSeconds\":0}",
		"{" PRE ",\"propagationPolicy\":\"Background\",\"gracePeriodSeconds\":0}"},
	    {"{\"preconditions\":null}", NULL},
	    {"{\"preconditions\":{\"uid\":\"mine\"}}", NULL},
	    {"{\"a\":1,\"a\":2}", NULL},
	    {"[]", NULL},
	    {"k8s", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_BUF struct buf out = BUF(4096);
		AUTO(json) struct json_doc *doc = NULL;
		struct err err = {0};
		int rc = look_k8s_bind(str_z(cases[i].body), STR("u"), STR("7"), &out, &err);

		if (cases[i].want == NULL) {
			assert_int_not_equal(rc, 0);
			assert_int_equal(out.n, 0);
			continue;
		}
		assert_int_equal(rc, 0);
		assert_state(buf_str(&out), cases[i].want);
		assert_int_equal(json_parse(buf_str(&out), "out", &doc, &err), 0);
	}
}

/* --- git ------------------------------------------------------------------------- */

static void
line(struct buf *b, const char *text, size_t n)
{
	buf_printf(b, "%04zx", n + 4);
	buf_put(b, text, n);
}

static void
advertised(struct buf *b)
{
	static const char first[] = ID_A " refs/heads/main\0report-status delete-refs\n";

	line(b, "# service=git-receive-pack\n", 27);
	buf_put_z(b, "0000");
	line(b, first, sizeof(first) - 1);
	line(b, ID_B " refs/heads/topic\n", 58);
	buf_put_z(b, "0000");
}

/* The ref that differs, "" none, "!" the list is none. */
static const char *
differs(struct str list, const char *old, const char *ref)
{
	AUTO(json) struct json_doc *doc = NULL;
	static char out[128];
	AUTO_BUF struct buf json = BUF(4096);
	struct err err = {0};
	struct str found;

	buf_printf(&json, "[{\"new\":\"%s\",\"old\":\"%s\",\"ref\":\"%s\"}]", ID_B, old, ref);
	assert_int_equal(json_parse(buf_str(&json), "commands", &doc, &err), 0);
	if (look_git(list, json_root(doc), &found, &err) != 0)
		return "!";
	(void)snprintf(out, sizeof(out), "%.*s", STR_ARG(found));
	return out;
}

static void
old_ids_are_held_against_what_the_server_lists(void **state)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct str list;

	(void)state;
	advertised(&b);
	list = buf_str(&b);
	assert_string_equal(differs(list, ID_A, "refs/heads/main"), "");
	assert_string_equal(differs(list, ID_B, "refs/heads/topic"), "");
	assert_string_equal(differs(list, ID_B, "refs/heads/main"), "refs/heads/main");
	assert_string_equal(differs(list, ZERO, "refs/heads/main"), "refs/heads/main");
	assert_string_equal(differs(list, ZERO, "refs/heads/new"), "");
	assert_string_equal(differs(list, ID_A, "refs/heads/new"), "refs/heads/new");
	assert_string_equal(differs(list, ID_A, "refs/heads/mai"), "refs/heads/mai");
}

static void
a_list_that_is_cut_off_or_longer_is_none(void **state)
{
	AUTO_BUF struct buf b = BUF(4096);

	(void)state;
	advertised(&b);
	for (size_t n = 0; n < b.n; n++)
		assert_string_equal(differs(str_mem(b.p, n), ID_A, "refs/heads/main"), "!");
	buf_put_z(&b, "0000");
	assert_string_equal(differs(buf_str(&b), ID_A, "refs/heads/main"), "!");
	assert_string_equal(
	    differs(STR("001f# service=git-upload-pack\n00000000"), ZERO, "refs/x"), "!");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_a_strong_etag_of_plain_characters_is_one),
	    cmocka_unit_test(words_that_bind_are_told_from_those_that_inform),
	    cmocka_unit_test(an_object_is_known_by_uid_and_version_or_not_at_all),
	    cmocka_unit_test(preconditions_are_added_and_nothing_else_is_changed),
	    cmocka_unit_test(old_ids_are_held_against_what_the_server_lists),
	    cmocka_unit_test(a_list_that_is_cut_off_or_longer_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
