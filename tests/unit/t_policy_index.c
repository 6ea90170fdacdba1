/*
 * The index leaves out no rule that could matter: with it and without it the same decisions, over
 * policies and actions made at random. And a policy of ten thousand rules is read and judged by.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/xalloc.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define KEY(s) "\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" s "\""
#define HEAD                                                                                       \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"targets\":{"           \
	"\"db-a\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"a.test\",\"database\":\"d\"," \
	"\"user\":\"u\",\"credential\":\"c\"},\"db-b\":{\"kind\":\"postgres\",\"env\":\"test\","   \
	"\"host\":\"b.test\",\"database\":\"d\",\"user\":\"u\",\"credential\":\"c\"},\"web\":{"    \
	"\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https://"                                 \
	"w.test\"}},\"people\":{\"alice\":"                                                        \
	"{\"roles\":[\"dba\",\"oncall\"],\"keys\":[" KEY(                                          \
	    "PqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4") "]},\"bob\":{\"roles\":\"oncall\","     \
							   "\"keys\":[" KEY(                       \
							       "Fzm/fuBiwIj2D9Zjoo0H8606hQeRc66"   \
							       "EK6kXTepW+ee") "]}},"              \
									       "\"calendars\":{"   \
									       "\"night\":{"       \
									       "\"kind\":"         \
									       "\"freeze\","       \
									       "\"tz\":\"UTC\","   \
									       "\"weekly\":[{"     \
									       "\"from\":"         \
									       "\"22:00\",\"to\":" \
									       "\"06:00\","        \
									       "\"days\":"         \
									       "\"daily\"}],"      \
									       "\"valid\":["       \
									       "\"2026-01-01\","   \
									       "\"2026-06-01\""    \
									       "]}},\"rules\":["

static uint32_t
next_random(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

static const char *
pick(uint64_t *s, const char *const *list, size_t n)
{
	return list[next_random(s) % n];
}

static void
put_effects(uint64_t *s, bool permit, struct buf *b)
{
	static const char *const names[] = {"read", "txn", "write", "delete", "drop", "@data",
	    "@change", "@destructive", "exec", "opaque"};
	size_t n = 1 + next_random(s) % 3;

	if (!permit && next_random(s) % 4 == 0)
		return;
	buf_printf(b, "\"effects\":{\"%s\":[", permit || next_random(s) % 3 == 0 ? "only" : "any");
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s\"%s\"", i != 0 ? "," : "",
		    names[next_random(s) % (ARRAY_LEN(names) - (permit ? 2 : 0))]);
	buf_put_z(b, "]},");
}

static void
put_cond(uint64_t *s, bool permit, struct buf *b)
{
	static const char *const targets[] = {"db-*", "db-a", "web", "*"},
				 *const envs[] = {"prod", "test", "p*"},
				 *const kinds[] = {"http", "postgres", "*"},
				 *const agents[] = {"ci", "c*"}, *const owners[] = {"alice", "bob"};

	buf_put_c(b, '{');
	put_effects(s, permit, b);
	if (next_random(s) % 2 == 0)
		buf_printf(b, "\"target\":\"%s\",", pick(s, targets, 4));
	if (next_random(s) % 3 == 0)
		buf_printf(b, "\"env\":\"%s\",", pick(s, envs, 3));
	if (next_random(s) % 4 == 0)
		buf_printf(b, "\"kind\":\"%s\",", pick(s, kinds, 3));
	if (next_random(s) % 4 == 0)
		buf_printf(b, "\"agent\":\"%s\",", pick(s, agents, 2));
	if (next_random(s) % 4 == 0)
		buf_printf(b, "\"owner\":\"%s\",", pick(s, owners, 2));
	if (next_random(s) % 5 == 0)
		buf_put_z(b, "\"statements\":{\"gt\":1},");
	if (next_random(s) % 5 == 0)
		buf_put_z(b, "\"relation\":\"public.*\",");
	if (next_random(s) % 3 == 0)
		buf_printf(b, "\"%s\":\"night\",", next_random(s) % 2 == 0 ? "during" : "outside");
	if (b->p[b->n - 1] == ',')
		b->n--;
	buf_put_c(b, '}');
}

static void
put_rule(uint64_t *s, size_t i, struct buf *b)
{
	switch (next_random(s) % 5) {
	case 0:
	case 1:
		buf_printf(b, "%s{\"id\":\"r%zu\",\"permit\":", i != 0 ? "," : "", i);
		put_cond(s, true, b);
		break;
	case 2:
	case 3:
		buf_printf(b, "%s{\"id\":\"r%zu\",\"require\":", i != 0 ? "," : "", i);
		put_cond(s, false, b);
		buf_printf(b,
		    ",\"approve\":[{\"role\":\"%s\",\"count\":1}],\"within\":\"%um\",\"use_"
		    "within\":"
		    "\"5m\"",
		    next_random(s) % 2 == 0 ? "dba" : "oncall", 1 + next_random(s) % 30);
		break;
	default:
		buf_printf(b, "%s{\"id\":\"r%zu\",\"forbid\":", i != 0 ? "," : "", i);
		put_cond(s, false, b);
		buf_put_z(b, ",\"override\":\"never\"");
	}
	buf_put_c(b, '}');
}

static struct policy *
random_policy(uint64_t *s)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 20);
	AUTO_FREE char *z = NULL;
	size_t n = 1 + next_random(s) % 150;

	buf_put_z(&b, HEAD);
	for (size_t i = 0; i < n; i++)
		put_rule(s, i, &b);
	buf_put_z(&b, "]}");
	z = buf_dup_z(&b);
	return help_policy(z);
}

static struct policy_input
random_input(uint64_t *s, const struct policy *p, const struct str *rel)
{
	static const char *const targets[] = {"db-a", "db-b", "web", "db-c"},
				 *const agents[] = {"ci", "cron", "x"},
				 *const owners[] = {"alice", "bob", "eve"};
	struct policy_input in = policy_input_for(p, str_z(pick(s, targets, 4)));

	in.agent = str_z(pick(s, agents, 3));
	in.owner = str_z(pick(s, owners, 3));
	in.run = STR("r-1");
	in.effects = next_random(s) & next_random(s) & next_random(s) & 0x1ffff;
	if (next_random(s) % 3 != 0)
		in.effects &= EFFECT_SET_DATA | EFFECT_SET_CHANGE | EFFECT_delete;
	in.statements = next_random(s) % 3;
	in.relations = rel;
	in.nrelations = next_random(s) % 3;
	in.at.known = next_random(s) % 10 != 0;
	in.at.us = (1767225600 + (int64_t)(next_random(s) % 15000000)) * 1000000;
	/* Now and then an attribute is missing, or is not the target's. */
	if (next_random(s) % 20 == 0)
		in.env = next_random(s) % 2 == 0 ? STR_NONE : STR("other");
	if (next_random(s) % 20 == 0)
		in.kind = STR_NONE;
	if (next_random(s) % 20 == 0)
		in.target = STR_NONE;
	if (next_random(s) % 20 == 0)
		in.agent = STR_NONE;
	return in;
}

static void
the_index_changes_no_decision(void **state UNUSED)
{
	const struct str rel[] = {STR("public.users"), STR("hr.pay")};
	const struct policy_grant g[] = {
	    {STR("alice"), STR("dba"), false}, {STR("bob"), STR("oncall"), false}};
	AUTO_FREE struct decision *a = xcalloc(1, sizeof(*a)), *b = xcalloc(1, sizeof(*b));
	size_t seen[3] = {0}, indexed = 0;
	uint64_t seed = 11;

	for (int i = 0; i < 400; i++) {
		AUTO(policy) struct policy *p = random_policy(&seed);
		struct rule_index *x = p->index;

		for (int k = 0; k < 200; k++) {
			struct policy_input in = random_input(&seed, p, rel);
			size_t n = next_random(&seed) % 3;

			indexed += policy_index_target(p, &in) != NULL;
			policy_eval(p, &in, g, n, a);
			p->index = NULL;
			policy_eval(p, &in, g, n, b);
			p->index = x;
			if (memcmp(a, b, sizeof(*a)) != 0)
				fail_msg("with: %s\nwithout: %s", a->text, b->text);
			seen[a->verdict]++;
		}
	}
	assert_true(seen[VERDICT_DENY] > 1000 && seen[VERDICT_NEEDS_APPROVAL] > 1000 &&
		    seen[VERDICT_ALLOW] > 100);
	assert_true(indexed > 40000);
}

static void
an_action_that_is_not_quite_a_targets_is_held_against_every_rule(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(
	    HEAD "{\"id\":\"p\",\"permit\":{\"effects\":{\"only\":[\"read\"]}}},{\"id\":\"f\","
		 "\"forbid\":{\"env\":\"test\"},\"override\":\"never\"}]}");
	struct policy_input in = policy_input_for(p, STR("db-a"));
	struct decision d;

	in.effects = EFFECT_read;
	in.at.known = true;
	assert_non_null(policy_index_target(p, &in));
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
	in.env = STR_NONE; /* it may be test: the forbid counts */
	assert_null(policy_index_target(p, &in));
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_true(str_eqz(d.rules[0], "f"));
}

static struct policy *
many_rules(size_t n, struct err *err)
{
	AUTO_BUF struct buf b = BUF((size_t)8 << 20);
	struct policy *p = NULL;

	buf_put_z(&b, HEAD);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b,
		    "%s{\"id\":\"r%zu\",\"require\":{\"target\":\"db-%s\",\"effects\":{\"any\":["
		    "\"delete\"]}},\"approve\":[{\"role\":\"dba\",\"count\":1}],\"within\":\"1h\","
		    "\"use_within\":\"1h\"}",
		    i != 0 ? "," : "", i, i % 2 == 0 ? "a" : "b");
	buf_put_z(&b, "]}");
	(void)policy_parse(buf_str(&b), "p.json", NULL, NULL, &p, NULL, err);
	return p;
}

static void
ten_thousand_rules_are_read_and_judged_by(void **state UNUSED)
{
	struct err err = {0};
	AUTO(policy) struct policy *p = many_rules(10000, &err), *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	struct policy_input in;
	struct decision d;

	if (p == NULL || policy_bundle(p, &bundle, &err) != 0 ||
	    policy_load(buf_str(&bundle), &q, &err) != 0)
		fail_msg("%s", err.msg);
	in = policy_input_for(q, STR("db-b"));
	in.effects = EFFECT_delete;
	in.at.known = true;
	policy_eval(q, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_DENY); /* nothing permits it */
	assert_true(str_eqz(d.rules[0], "default"));
}

static void
too_many_rules_and_too_large_a_bundle_are_said(void **state UNUSED)
{
	struct err err = {0};

	assert_null(many_rules(POLICY_RULES_MAX + 1, &err));
	assert_non_null(strstr(err.msg, "rules must be from 0 to 16384, are 16385"));
	assert_null(many_rules(POLICY_RULES_MAX, &err));
	assert_non_null(strstr(err.msg, "the compiled policy is over 2097152 bytes"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_index_changes_no_decision),
	    cmocka_unit_test(an_action_that_is_not_quite_a_targets_is_held_against_every_rule),
	    cmocka_unit_test(ten_thousand_rules_are_read_and_judged_by),
	    cmocka_unit_test(too_many_rules_and_too_large_a_bundle_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
