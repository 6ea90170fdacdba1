/*
 * Reading a policy: what is accepted, what is refused and where the message points. Each
 * refusal stands as one change to a policy that is good.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define KEY1 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4"
#define KEY2 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFzm/fuBiwIj2D9Zjoo0H8606hQeRc66EK6kXTepW+ee"
#define KEY3 "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDYbYL8sqzmWi5dNtppNPMBMr8pa/tHfb50Z+GsHTLc6"
#define KEY_SK                                                                                     \
	"sk-ssh-ed25519@openssh.com "                                                              \
	"AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f" \
	"AAAABHNzaDo="

static const char good[] =
    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"acme\",\"serial\":42,\"clock\":\"trusted\",\n"
    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"db.internal\","
    "\"port\":5432,\"database\":\"orders\",\"user\":\"agent\",\"credential\":\"orders-agent\"}},\n"
    "\"people\":{\"alice\":{\"roles\":[\"dba\"],\"login\":[\"unix:alice\"],\"keys\":[\"" KEY1
    "\"]},\n"
    "\"bob\":{\"roles\":[\"oncall\",\"dba\"],\"login\":[\"unix:bob\"],\"keys\":[\"" KEY2 "\"]},\n"
    "\"carol\":{\"roles\":[\"oncall\"],\"keys\":[\"" KEY_SK "\"]}},\n"
    "\"calendars\":{\"yearend\":{\"kind\":\"freeze\",\"tz\":\"Europe/London\",\"once\":"
    "[{\"from\":\"2026-12-18T18:00\",\"to\":\"2027-01-04T08:00\"}],"
    "\"valid\":[\"2026-01-01\",\"2027-12-31\"]}},\n"
    "\"rules\":[\n"
    "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}},\n"
    "{\"id\":\"work\",\"permit\":{\"env\":\"prod\",\"effects\":{\"only\":[\"@data\",\"write\","
    "\"delete\"]}}},\n"
    "{\"id\":\"two\",\"require\":{\"effects\":{\"any\":[\"delete\"]}},\"approve\":["
    "{\"role\":\"dba\",\"count\":1},{\"role\":\"oncall\",\"count\":1}],\"within\":\"30m\","
    "\"use_within\":\"5m\",\"limits\":{\"max_rows\":100}},\n"
    "{\"id\":\"freeze\",\"forbid\":{\"env\":\"prod\",\"during\":[\"yearend\"],\"effects\":"
    "{\"any\":[\"write\"]}},\"override\":\"never\",\"why\":\"Year-end.\"}],\n"
    "\"prove\":[{\"id\":\"P1\",\"never\":{\"effects\":{\"any\":[\"@escape\"]}},"
    "\"unless\":{\"people\":2}}],\n"
    "\"cases\":[{\"id\":\"c1\",\"at\":\"2026-12-24T12:00:00Z\",\"input\":{\"target\":\"db\","
    "\"sql\":\"SELECT 1\"},\"expect\":{\"verdict\":\"allow\",\"effects\":[\"read\"]}}]}\n";

static char *
change(const char *from, const char *to)
{
	const char *at = strstr(good, from);

	if (at == NULL)
		fail_msg("the policy does not hold %s", from);
	return xasprintf("%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
}

static int
parse(const char *text, struct buf *warnings, struct err *err)
{
	AUTO(policy) struct policy *p = NULL;
	int rc = policy_parse(str_z(text), "p.json", NULL, NULL, &p, warnings, err);

	assert_true((rc == 0) == (p != NULL));
	return rc;
}

struct change {
	const char *from, *to;
	const char *why; /* NULL: accepted */
};

static void
assert_changes(const struct change *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *text = change(c[i].from, c[i].to);
		struct err err = {0};
		int rc = parse(text, NULL, &err);

		if (c[i].why == NULL && rc != 0)
			fail_msg("%s: %s", c[i].to, err.msg);
		if (c[i].why != NULL && rc == 0)
			fail_msg("%s: accepted", c[i].to);
		if (c[i].why == NULL)
			continue;
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("%s: \"%s\" does not say \"%s\"", c[i].to, err.msg, c[i].why);
		assert_memory_equal(err.msg, "p.json:", 7);
	}
}

static void
a_good_policy_is_read_whole(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(good);
	const struct policy_target *t = policy_target(p, STR("db"));
	const struct policy_person *bob = policy_person(p, STR("bob"));

	assert_true(str_eqz(policy_name(p), "acme"));
	assert_int_equal(policy_serial(p), 42);
	assert_int_equal(policy_clock(p), CLOCK_MODE_TRUSTED);
	assert_int_equal(policy_target_count(p), 1);
	assert_true(str_eqz(t->host, "db.internal") && t->port == 5432 && t->tls_verify);
	assert_true(str_eqz(t->database, "orders") && str_eqz(t->credential, "orders-agent"));
	assert_int_equal(policy_person_count(p), 3);
	assert_ptr_equal(policy_person_by_login(p, STR("unix:bob")), bob);
	assert_null(policy_person_by_login(p, STR("unix:eve")));
	assert_ptr_equal(policy_person_by_key(p, &bob->keys[0]), bob);
	assert_true(policy_person_has_role(bob, STR("dba")));
	assert_false(policy_person_has_role(bob, STR("db")));
	assert_null(policy_target(p, STR("nothing")));
}

static void
the_message_points_at_line_and_column(void **state UNUSED)
{
	AUTO_FREE char *text = change("\"roles\":[\"oncall\"]", "\"rolls\":[\"oncall\"]");
	struct err err = {0};

	assert_int_not_equal(parse(text, NULL, &err), 0);
	assert_string_equal(err.msg, "p.json:5:10: unknown key \"rolls\" in a person");
}

static void
unknown_and_duplicate_keys_are_refused_everywhere(void **state UNUSED)
{
	static const struct change c[] = {
	    {"\"serial\":42", "\"serial\":42,\"serial\":43", "duplicate key"},
	    {"\"serial\":42", "\"serial\":42,\"extra\":1", "unknown key \"extra\" in the policy"},
	    {"\"env\":\"prod\",\"host\"", "\"env\":\"prod\",\"hots\"", "unknown key \"hots\""},
	    {"\"tz\":", "\"zone\":", "unknown key \"zone\""},
	    {"\"permit\":{\"env\"", "\"permit\":{\"envs\"", "unknown key \"envs\""},
	    {"\"only\":[\"@data\"]", "\"just\":[\"@data\"]", "unknown key \"just\""},
	    {"\"count\":1}", "\"count\":1,\"any\":1}", "unknown key \"any\""},
	    {"\"max_rows\":100", "\"rows\":100", "unknown key \"rows\""},
	    {"\"why\":\"Year-end.\"", "\"note\":\"x\"", "unknown key \"note\" in a rule"},
	    {"\"unless\":{\"people\":2}", "\"unless\":{\"peeple\":2}", "unknown key \"peeple\""},
	    {"\"sql\":\"SELECT 1\"", "\"sqll\":\"SELECT 1\"", "unknown key \"sqll\""},
	    {"\"expect\":{", "\"expect\":{\"verdikt\":\"deny\",", "unknown key \"verdikt\""},
	    {"\"id\":\"work\"", "\"id\":\"read\"",
		"\"read\" stands twice in rules: also in p.json:8:1"},
	    {"\"id\":\"work\"", "\"id\":\"default\"", "\"default\" is the name"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
required_parts_are_missed_by_name(void **state UNUSED)
{
	static const struct change c[] = {
	    {"\"serial\":42,", "", "the policy has no \"serial\""},
	    {"\"policy\":\"acme\",", "", "has no \"policy\""},
	    {"\"schema\":\"cofferdam-policy/1\",", "", "has no \"schema\""},
	    {"\"clock\":\"trusted\"", "\"clock\":\"kernel-sync\"", NULL},
	    {",\"clock\":\"trusted\"", "", NULL},
	    {"\"env\":\"prod\",\"host\"", "\"host\"", "a target has no \"env\""},
	    {"\"kind\":\"postgres\",", "", "a target has no \"kind\""},
	    {",\"override\":\"never\"", "", "forbid freeze needs \"override\""},
	    {",\"within\":\"30m\"", "", "require two needs"},
	    {",\"use_within\":\"5m\"", "", "require two needs"},
	    {",\"limits\":{\"max_rows\":100}", "", NULL},
	    {",\"why\":\"Year-end.\"", "", NULL},
	    {",\"unless\":{\"people\":2}", "", NULL},
	    {"{\"only\":[\"@data\"]}}", "{}}", "one of \"any\" and \"only\""},
	    {"{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}",
		"{\"id\":\"read\"}", "one of permit, require and forbid"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
values_outside_their_set_or_range_are_refused(void **state UNUSED)
{
	static const struct change c[] = {
	    {"cofferdam-policy/1", "cofferdam-policy/2", "schema must be \"cofferdam-policy/1\""},
	    {"\"serial\":42", "\"serial\":0", "serial must be from 1"},
	    {"\"serial\":42", "\"serial\":\"42\"", "serial must be a whole number, is a string"},
	    {"\"clock\":\"trusted\"", "\"clock\":\"ntp\"", "clock must be"},
	    {"\"policy\":\"acme\"", "\"policy\":\"ac me\"", "an id must be"},
	    {"\"targets\":{\"db\"", "\"targets\":{\"d/b\"", "a target's name must be"},
	    {"\"kind\":\"postgres\"", "\"kind\":\"mysql\"", "kind must be postgres"},
	    {"\"port\":5432", "\"port\":0", "port must be from 1 to 65535, is 0"},
	    {"\"port\":5432", "\"port\":65536", "is 65536"},
	    {"\"port\":5432", "\"port\":65535", NULL},
	    {"db.internal", "DB.internal", "host must be a lower-case name"},
	    {"db.internal", "*.internal", "host must be"},
	    {"db.internal", "db..internal", "host must be"},
	    {"db.internal", "10.0.0.1", NULL},
	    {"db.internal", "fd00::1", NULL},
	    {"\"port\":5432", "\"address\":\"10.1.2.3\"", NULL},
	    {"\"port\":5432", "\"address\":\"fd00::7\"", NULL},
	    {"\"port\":5432", "\"address\":\"db2.internal\"", "address must be a numeric"},
	    {"\"host\":\"db.internal\",\"port\":5432", "\"address\":\"10.1.2.3\"",
		"a target with an address needs a host"},
	    {"\"credential\":\"orders-agent\"", "\"credential\":\"a/b\"", "an id must be"},
	    {",\"user\":\"agent\"", "", "needs database, user and credential"},
	    {"\"count\":1},", "\"count\":10},", "count must be from 1 to 9, is 10"},
	    {"\"count\":1},", "\"count\":0},", "count must be from 1 to 9, is 0"},
	    {"\"count\":1},", "\"count\":9},", "quorum must be from 1 to 9 people, is 10"},
	    {"\"within\":\"30m\"", "\"within\":\"30\"", "within must be a number and one of"},
	    {"\"within\":\"30m\"", "\"within\":\"31d\"", "within must be from 1s"},
	    {"\"within\":\"30m\"", "\"within\":\"30d\"", NULL},
	    {"\"use_within\":\"5m\"", "\"use_within\":\"25h\"", "use_within must be from"},
	    {"\"max_rows\":100", "\"max_rows\":-1", "max_rows must be from 0"},
	    {"\"max_rows\":100", "\"max_rows\":0", NULL},
	    {"\"override\":\"never\"", "\"override\":\"maybe\"", "override must be"},
	    {"\"override\":\"never\"", "\"override\":\"breakglass\"", NULL},
	    {"\"any\":[\"delete\"]", "\"any\":[\"delet\"]", "\"delet\" is no effect"},
	    {"\"any\":[\"delete\"]", "\"any\":[]", "\"any\" of no effects never matches"},
	    {"\"any\":[\"delete\"]", "\"any\":[\"delete\"],\"only\":[\"read\"]", "one of \"any\""},
	    {"Year-end.", "Year\\u2011end.", "printable ASCII"},
	    {"\"people\":2", "\"people\":0", "people must be from 1"},
	    {"\"verdict\":\"allow\"", "\"verdict\":\"ok\"", "verdict must be"},
	    {"2026-12-24T12:00:00Z", "2026-12-24 12:00", "p.json:13:"},
	    {"\"input\":{\"target\":\"db\"", "\"input\":{\"target\":\"dbx\"", "no target is named"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
a_permit_lists_its_effects_and_never_one_of_escape(void **state UNUSED)
{
	static const struct change c[] = {
	    {"{\"effects\":{\"only\":[\"@data\"]}}", "{\"env\":\"prod\"}", "must list its effects"},
	    {"\"only\":[\"@data\"]", "\"any\":[\"@data\"]", "must list its effects"},
	    {"\"only\":[\"@data\"]", "\"only\":[\"@data\",\"exec\"]", "cannot be permitted: exec"},
	    {"\"only\":[\"@data\"]", "\"only\":[\"@escape\"]", "cannot be permitted: audit exec"},
	    {"\"only\":[\"@data\"]", "\"only\":[\"@data\",\"@destructive\"]", NULL},
	    {"\"only\":[\"@data\"]", "\"only\":[]", NULL},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
a_key_of_another_kind_of_rule_is_refused(void **state UNUSED)
{
	static const struct change c[] = {
	    {"\"id\":\"read\",", "\"id\":\"read\",\"override\":\"never\",",
		"belongs to forbid rules"},
	    {"\"id\":\"read\",", "\"id\":\"read\",\"within\":\"1h\",", "belongs to require rules"},
	    {"\"id\":\"freeze\",", "\"id\":\"freeze\",\"limits\":{\"max_rows\":1},",
		"belongs to require rules"},
	    {"\"id\":\"freeze\",", "\"id\":\"freeze\",\"approve\":[],", "belongs to require rules"},
	    {"\"id\":\"read\",", "\"id\":\"read\",\"belt\":true,", NULL},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
names_that_mean_nothing_are_refused_in_conditions(void **state UNUSED)
{
	static const struct change c[] = {
	    {"\"during\":[\"yearend\"]", "\"during\":[\"yearned\"]", "no calendar is named"},
	    {"\"during\":[\"yearend\"]", "\"during\":[]", "a list must have from 1"},
	    {"\"during\":[\"yearend\"]", "\"during\":\"yearend\"", NULL},
	    {"{\"env\":\"prod\",\"effects\"", "{\"target\":\"dbx\",\"effects\"",
		"no target is named"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"target\":\"db*\",\"effects\"", NULL},
	    {"{\"env\":\"prod\",\"effects\"", "{\"kind\":\"mysql\",\"effects\"",
		"no kind of target"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"kind\":\"postgres\",\"effects\"", NULL},
	    {"{\"env\":\"prod\",\"effects\"", "{\"owner\":\"eve\",\"effects\"",
		"no person is named"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"owner\":[\"bob\",\"carol\"],\"effects\"", NULL},
	    {"{\"env\":\"prod\",\"effects\"", "{\"env\":[],\"effects\"", "a list must have from 1"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"env\":[\"a\",\"a\"],\"effects\"", "stands twice"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"statements\":{},\"effects\"", "statements needs"},
	    {"{\"env\":\"prod\",\"effects\"", "{\"statements\":{\"gt\":1},\"effects\"", NULL},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
a_quorum_that_distinct_people_cannot_fill_is_refused(void **state UNUSED)
{
	static const struct change c[] = {
	    {"{\"role\":\"dba\",\"count\":1}", "{\"role\":\"dba\",\"count\":3}",
		"can never be approved"},
	    {"{\"role\":\"dba\",\"count\":1}", "{\"role\":\"dba\",\"count\":2}", NULL},
	    {"{\"role\":\"dba\",\"count\":1}", "{\"role\":\"dbb\",\"count\":1}", "1 of role dbb"},
	    {"{\"role\":\"dba\",\"count\":1}", "{\"role\":\"oncall\",\"count\":1}", "stands twice"},
	    /* dba: alice, bob; oncall: bob, carol. Two and two would need bob twice. */
	    {"{\"role\":\"dba\",\"count\":1},{\"role\":\"oncall\",\"count\":1}",
		"{\"role\":\"dba\",\"count\":2},{\"role\":\"oncall\",\"count\":2}",
		"can never be approved"},
	    {"{\"role\":\"dba\",\"count\":1},{\"role\":\"oncall\",\"count\":1}",
		"{\"role\":\"dba\",\"count\":2},{\"role\":\"oncall\",\"count\":1}", NULL},
	    /* Without a key carol cannot sign; bob still can, and alice is the other. */
	    {"\"keys\":[\"" KEY_SK "\"]", "\"keys\":[]", NULL},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
one_key_or_login_is_one_person(void **state UNUSED)
{
	static const struct change c[] = {
	    {KEY2, KEY1, "one key stands twice: with alice and with bob"},
	    {KEY2, KEY3, NULL},
	    {"unix:bob", "unix:alice", "login unix:alice stands twice"},
	    {"unix:bob", "bob", "a login must be \"unix:USER\""},
	    {"unix:bob", "unix:", "a login must be"},
	    {KEY2, "ssh-ed25519 AAAA", "p.json:4:"},
	    {KEY2, "ed25519 SHA256:AAAA", "p.json:4:"}, /* for case files alone */
	    {KEY2, KEY2 " bob@laptop", NULL},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
without_tls_only_loopback_is_reached(void **state UNUSED)
{
#define OFF "\",\"tls\":\"off"
	static const struct change c[] = {
	    {"db.internal", "db.internal" OFF, "must be a loopback address"},
	    {"db.internal", "10.0.0.1" OFF, "must be a loopback address"},
	    {"db.internal", "127.evil.test" OFF, "must be a loopback address"},
	    {"db.internal", "127.0.0.1" OFF, NULL},
	    {"db.internal", "localhost" OFF, NULL},
	    {"db.internal", "db.internal\",\"tls\":\"verify-full", NULL},
	    {"db.internal", "db.internal\",\"tls\":\"prefer", "tls must be"},
	    {"db.internal", "db.internal\",\"address\":\"127.0.0.2" OFF, NULL},
	    {"db.internal", "localhost\",\"address\":\"10.0.0.1" OFF, "is 10.0.0.1"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
a_postgres_target_may_have_its_own_ceiling_of_connections(void **state UNUSED)
{
#define MAX(x) "db.internal\",\"max_connections\":" x ",\"tls\":\"verify-full"
	static const struct change c[] = {
	    {"db.internal", MAX("1"), NULL},
	    {"db.internal", MAX("1000"), NULL},
	    {"db.internal", MAX("0"), "max_connections must be"},
	    {"db.internal", MAX("1001"), "max_connections must be"},
	    {"db.internal", MAX("\"9\""), "max_connections must be"},
	    {"\"targets\":{\"db\"",
		"\"targets\":{\"web\":{\"kind\":\"http\",\"env\":\"prod\",\"max_connections\":5},"
		"\"db\"",
		"\"max_connections\" has no meaning for kind http"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
an_origin_says_host_and_port(void **state UNUSED)
{
#define WEB(x) "\"targets\":{\"web\":{\"kind\":\"http\",\"env\":\"prod\"," x "},\"db\""
	static const struct change c[] = {
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://api.github.com\""), NULL},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://api.github.com:8443\""), NULL},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://api.github.com/v1\""),
		"origin must be"},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://a@api.github.com\""),
		"origin must be"},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://API.github.com\""), "origin's host"},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://api.github.com:0\""),
		"origin's port"},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"http://api.github.com\""), "loopback"},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"http://127.0.0.1:8080\""), NULL},
	    {"\"targets\":{\"db\"", WEB("\"origin\":\"https://a.test\",\"host\":\"b.test\""),
		"either an origin or a host"},
	    {"\"targets\":{\"db\"", WEB("\"database\":\"x\""),
		"\"database\" has no meaning for kind http"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

static void
warned(const char *from, const char *to, const char *want)
{
	AUTO_FREE char *text = change(from, to), *said = NULL;
	AUTO_BUF struct buf w = BUF(65536);
	struct err err = {0};

	if (parse(text, &w, &err) != 0)
		fail_msg("%s", err.msg);
	said = buf_dup_z(&w);
	if (want == NULL)
		assert_string_equal(said, "");
	else if (strstr(said, want) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", said, want);
}

static void
what_is_odd_but_safe_is_a_warning_with_a_place(void **state UNUSED)
{
	warned("\"serial\":42", "\"serial\":43", NULL);
	warned(",\"host\":\"db.internal\",\"port\":5432", "",
	    "p.json:2:12: warning: target db has no host");
	warned("{\"env\":\"prod\",\"effects\"", "{\"env\":\"prd\",\"effects\"",
	    "no target has env \"prd\"");
	warned("\"only\":[\"@data\"]", "\"only\":[]", "permits nothing");
	warned("\"kind\":\"freeze\"", "\"kind\":\"open\"", "loosens at clock changes");
	warned("\"login\":[\"unix:alice\"]", "\"login\":[\"unix:alice\",\"unix:a2\"]", NULL);
	/* Without carol's key only alice and bob sign: neither can own the run. */
	warned("\"keys\":[\"" KEY_SK "\"]", "\"keys\":[]",
	    "rule two cannot be approved for a run that bob owns");
}

static void
text_that_is_not_strict_json_is_refused(void **state UNUSED)
{
	static const struct change c[] = {
	    {"\"serial\":42", "\"serial\":042", "p.json:1:"},
	    {"\"serial\":42", "\"serial\":42.0", "p.json:1:"},
	    {"\"serial\":42", "\"serial\":42,", "p.json:1:"},
	    {"\"serial\":42", "\"serial\":null", "serial must be a whole number, is null"},
	    {"[\"read\"]}}]}\n", "[\"read\"]}}]}\nx", "p.json:"},
	};

	assert_changes(c, ARRAY_LEN(c));
}

/* --- CA files ------------------------------------------------------------------------ */

static int
parse_with_ca(const char *dir, const char *name, struct policy **ret, struct err *err)
{
	AUTO_FREE char *with = xasprintf("\"ca\":\"%s\",\"port\":5432", name);
	AUTO_FREE char *text = change("\"port\":5432", with);

	return policy_parse(str_z(text), "p.json", dir, NULL, ret, NULL, err);
}

static void
put_file(const char *dir, const char *name, const char *content)
{
	AUTO_FREE char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void
of_a_ca_file_only_certificates_reach_the_bundle(void **state UNUSED)
{
#define CERT_BODY                                                                            \
	"MEAwDQYJKoZIhvcNAQELBQAwADAeFw0yNjAxMDEwMDAwMDBaFw0yNzAxMDEwMDAwMDBaMAAwDQYJKoZI\n" \
	"hvcNAQELBQAD\n"
#define CERT "-----BEGIN CERTIFICATE-----\n" CERT_BODY "-----END CERTIFICATE-----\n"
#define PEM_KEY "PRIVATE KEY-----\n" /* split: no scanner shall take this file for a leak */
	static const struct {
		const char *name, *content, *why;
	} files[] = {
	    {"good.pem", "subject=ca\n" CERT, NULL},
	    {"empty.pem", "nothing here\n", "holds no certificate"},
	    {"key.pem", CERT "-----BEGIN " PEM_KEY "AAAA\n-----END " PEM_KEY,
		"holds a private key"},
	    {"bad.pem", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
		"malformed"},
	    {"open.pem", "-----BEGIN CERTIFICATE-----\n" CERT_BODY, "malformed"},
	};
	char dir[] = "/tmp/t_policy_parse.XXXXXX";

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		AUTO(policy) struct policy *p = NULL;
		AUTO_FREE char *path = xasprintf("%s/%s", dir, files[i].name);
		struct err err = {0};
		int rc;

		put_file(dir, files[i].name, files[i].content);
		rc = parse_with_ca(dir, files[i].name, &p, &err);
		(void)unlink(path);
		if (files[i].why == NULL && rc != 0)
			fail_msg("%s", err.msg);
		if (files[i].why == NULL) {
			struct str pem = policy_target(p, STR("db"))->ca_pem;

			assert_true(str_has_prefix(pem, "-----BEGIN CERTIFICATE-----\n"));
			assert_true(str_has_suffix(pem, "\n-----END CERTIFICATE-----\n"));
		} else {
			assert_int_not_equal(rc, 0);
			assert_non_null(strstr(err.msg, files[i].why));
		}
	}
	(void)rmdir(dir);
}

static void
a_relative_ca_file_stays_below_the_policy(void **state UNUSED)
{
	char dir[] = "/tmp/t_policy_parse.XXXXXX";
	AUTO(policy) struct policy *p = NULL, *q = NULL;
	AUTO_FREE char *sub = NULL, *file = NULL;
	struct err err = {0};

	assert_non_null(mkdtemp(dir));
	sub = xasprintf("%s/sub", dir);
	file = xasprintf("%s/good.pem", dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	put_file(dir, "good.pem", CERT);
	assert_int_not_equal(parse_with_ca(sub, "../good.pem", &p, &err), 0);
	assert_non_null(strstr(err.msg, "CA file ../good.pem: "));
	assert_int_equal(parse_with_ca(dir, "good.pem", &p, &err), 0);
	/* An absolute name was written on purpose. */
	assert_int_equal(parse_with_ca(sub, file, &q, &err), 0);
	(void)unlink(file);
	(void)rmdir(sub);
	(void)rmdir(dir);
}

static void
a_ca_file_that_is_missing_or_no_file_is_refused(void **state UNUSED)
{
	struct policy *p = NULL;
	struct err err = {0};

	assert_int_not_equal(parse_with_ca("/usr/share", "missing.pem", &p, &err), 0);
	assert_non_null(strstr(err.msg, "CA file missing.pem: "));
	assert_int_not_equal(parse_with_ca("/usr/share", "/dev/null", &p, &err), 0);
	assert_non_null(strstr(err.msg, "not a regular file"));
	assert_null(p);
}

/* --- bundles ------------------------------------------------------------------------- */

static void
a_bundle_is_canonical_and_its_digest_is_the_policys(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(good);
	AUTO(policy) struct policy *q = NULL;
	AUTO_BUF struct buf one = BUF(JSON_SIZE_MAX);
	AUTO_BUF struct buf two = BUF(JSON_SIZE_MAX);
	struct hash h;

	assert_int_equal(policy_bundle(p, &one, NULL), 0);
	h = hash_sha256(buf_str(&one));
	assert_true(hash_eq(&h, policy_digest(p)));
	assert_int_equal(policy_load(buf_str(&one), &q, NULL), 0);
	assert_true(hash_eq(&h, policy_digest(q)));
	assert_int_equal(policy_bundle(q, &two, NULL), 0);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	assert_true(str_eqz(policy_name(q), "acme"));
	assert_int_equal(policy_clock(q), CLOCK_MODE_TRUSTED);
	assert_true(str_eq(policy_tzdata(p), policy_tzdata(q)));
}

static void
white_space_and_order_of_the_source_do_not_change_the_bundle(void **state UNUSED)
{
	AUTO_FREE char *text = change("\"roles\":[\"dba\"],\"login\":[\"unix:alice\"]",
	    "\"login\" : [\"unix:alice\"], \"roles\":\"dba\"");
	AUTO(policy) struct policy *a = help_policy(good);
	AUTO(policy) struct policy *b = help_policy(text);

	assert_true(hash_eq(policy_digest(a), policy_digest(b)));
}

static void
only_what_build_wrote_is_loaded(void **state UNUSED)
{
	static const struct change c[] = {
	    {"{\"calendars\"", " {\"calendars\"", "not what"},
	    {"\"serial\":42", "\"serial\":42 ", "not what"},
	    {"\"serial\":42", "\"serial\":42,\"serials\":1", "unknown key"},
	    {"\"serial\":42,", "", "has no \"serial\""},
	    {"cofferdam-bundle/1", "cofferdam-policy/1", "schema must be"},
	    {"[[1797616800,1799049600]]", "[[1797616800,1797616800]]", "must not be empty"},
	    {"[[1797616800,1799049600]]", "[[1797616800,1797616801],[1797616801,1797616802]]",
		"ascend and be apart"},
	    {"[[1797616800,1799049600]]", "[[1,1799049600]]", "inside valid"},
	    {"\"host\":\"db.internal\",", "", "needs a host"},
	    {"\"host\":\"db.internal\",\"kind\":\"postgres\",\"port\":5432,",
		"\"kind\":\"postgres\",", "has no host"},
	    {"\"only\":[\"read\",\"txn\"]", "\"only\":[\"exec\",\"read\"]", "cannot be permitted"},
	    {"\"credential\":", "\"ca\":\"x.pem\",\"credential\":", "ca_pem, not a file"},
	    {"\"use_within\":\"300s\"", "\"use_within\":\"5m\"", "spelled another way"},
	    {"\"env\":[\"prod\"]", "\"env\":\"prod\"", "spelled another way"},
	    {"\"serial\":42", "\"serial\":43", NULL},
	};
	AUTO(policy) struct policy *p = help_policy(good);
	AUTO_BUF struct buf b = BUF(JSON_SIZE_MAX);
	AUTO_FREE char *bundle = NULL;

	assert_int_equal(policy_bundle(p, &b, NULL), 0);
	bundle = buf_dup_z(&b);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		const char *at = strstr(bundle, c[i].from);
		AUTO_FREE char *text = NULL;
		AUTO(policy) struct policy *q = NULL;
		struct err err = {0};

		if (at == NULL)
			fail_msg("the bundle does not hold %s: %s", c[i].from, bundle);
		text = xasprintf(
		    "%.*s%s%s", (int)(at - bundle), bundle, c[i].to, at + strlen(c[i].from));
		assert_int_equal(policy_load(str_z(text), &q, &err) == 0, c[i].why == NULL);
		if (c[i].why != NULL && strstr(err.msg, c[i].why) == NULL)
			fail_msg("\"%s\" does not say \"%s\"", err.msg, c[i].why);
	}
}

static void
a_source_is_not_a_bundle_and_neither_is_half_of_one(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(good);
	AUTO_BUF struct buf b = BUF(JSON_SIZE_MAX);
	struct policy *q = NULL;

	assert_int_equal(policy_bundle(p, &b, NULL), 0);
	assert_int_not_equal(policy_load(str_z(good), &q, NULL), 0);
	for (size_t n = 0; n < b.n; n += 7)
		assert_int_not_equal(policy_load(str_mem(b.p, n), &q, NULL), 0);
	assert_null(q);
}

static void
what_can_only_be_tested_is_not_built(void **state UNUSED)
{
	AUTO_FREE char *text = change(",\"host\":\"db.internal\",\"port\":5432", "");
	AUTO(policy) struct policy *p = help_policy(text);
	AUTO(json) struct json_doc *doc = help_json_file("tests/cases/policy-cases.json");
	AUTO(policy) struct policy *cases = help_cases_policy(doc);
	AUTO_BUF struct buf b = BUF(JSON_SIZE_MAX);
	struct err err = {0};

	assert_int_not_equal(policy_bundle(p, &b, &err), 0);
	assert_non_null(strstr(err.msg, "target db has no host"));
	assert_int_not_equal(policy_bundle(cases, &b, &err), 0);
	assert_non_null(strstr(err.msg, "bare key fingerprints"));
	assert_int_equal(b.n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_good_policy_is_read_whole),
	    cmocka_unit_test(the_message_points_at_line_and_column),
	    cmocka_unit_test(unknown_and_duplicate_keys_are_refused_everywhere),
	    cmocka_unit_test(required_parts_are_missed_by_name),
	    cmocka_unit_test(values_outside_their_set_or_range_are_refused),
	    cmocka_unit_test(a_permit_lists_its_effects_and_never_one_of_escape),
	    cmocka_unit_test(a_key_of_another_kind_of_rule_is_refused),
	    cmocka_unit_test(names_that_mean_nothing_are_refused_in_conditions),
	    cmocka_unit_test(a_quorum_that_distinct_people_cannot_fill_is_refused),
	    cmocka_unit_test(one_key_or_login_is_one_person),
	    cmocka_unit_test(without_tls_only_loopback_is_reached),
	    cmocka_unit_test(a_postgres_target_may_have_its_own_ceiling_of_connections),
	    cmocka_unit_test(an_origin_says_host_and_port),
	    cmocka_unit_test(what_is_odd_but_safe_is_a_warning_with_a_place),
	    cmocka_unit_test(text_that_is_not_strict_json_is_refused),
	    cmocka_unit_test(of_a_ca_file_only_certificates_reach_the_bundle),
	    cmocka_unit_test(a_relative_ca_file_stays_below_the_policy),
	    cmocka_unit_test(a_ca_file_that_is_missing_or_no_file_is_refused),
	    cmocka_unit_test(a_bundle_is_canonical_and_its_digest_is_the_policys),
	    cmocka_unit_test(white_space_and_order_of_the_source_do_not_change_the_bundle),
	    cmocka_unit_test(only_what_build_wrote_is_loaded),
	    cmocka_unit_test(a_source_is_not_a_bundle_and_neither_is_half_of_one),
	    cmocka_unit_test(what_can_only_be_tested_is_not_built),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
