/*
 * Rules that count: a rate matches above its number and not at it, what is not counted counts
 * against, and what began before a window may finish where the rule says so. Tries after a
 * refusal have their numbers, too.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define HEAD                                                                                       \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"targets\":{\"db\":{"   \
	"\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"d.test\",\"database\":\"d\",\"user\":"  \
	"\"u\",\"credential\":\"c\"}},\"people\":{\"alice\":{\"roles\":\"dba\",\"keys\":[\"ssh-"   \
	"ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4\"]}},"       \
	"\"calendars\":{\"june\":{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":[{\"from\":\"2026-"  \
	"06-01T00:00\",\"to\":\"2026-06-02T00:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}}," \
	"%s\"rules\":[{\"id\":\"all\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\","   \
	"\"@destructive\"]}}},%s]}"
#define RATE "\"rate\":{\"over\":25,\"in\":\"10m\",\"per\":\"run\"}"
#define DELETES                                                                                    \
	"{\"id\":\"many\",\"require\":{\"effects\":{\"any\":[\"delete\"]}," RATE "},\"approve\":[" \
	"{\"role\":\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}"
#define BREAKER                                                                               \
	"{\"id\":\"stop\",\"forbid\":{\"effects\":{\"any\":[\"delete\"]},\"rate\":{\"over\":" \
	"2,\"in\":\"1h\",\"per\":\"target\"}},\"override\":\"never\"}"

static int
parse(const char *top, const char *rules, struct policy **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(16384);
	AUTO_FREE char *z = NULL;

	buf_printf(&text, HEAD, top, rules);
	z = buf_dup_z(&text);
	return policy_parse(str_z(z), "p.json", NULL, NULL, ret, NULL, err);
}

static struct policy *
with(const char *top, const char *rules)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (parse(top, rules, &p, &err) != 0)
		fail_msg("%s", err.msg);
	return p;
}

static struct policy_input
action(const struct policy *p, uint32_t effects, const char *at)
{
	struct policy_input in = policy_input_for(p, STR("db"));

	in.effects = effects;
	in.agent = STR("script");
	in.run = STR("r-1");
	in.owner = STR("bob");
	in.at.known = true;
	assert_int_equal(clock_parse(str_z(at), &in.at.us, NULL), 0);
	return in;
}

static struct decision
judge(const struct policy *p, struct policy_input in, const struct policy_rate_count *c, size_t n)
{
	struct decision d;

	in.rates = c;
	in.nrates = n;
	policy_eval(p, &in, NULL, 0, &d);
	return d;
}

#define NOON "2026-03-11T12:00:00Z"

static void
the_twenty_sixth_delete_needs_approval(void **state UNUSED)
{
	AUTO(policy) struct policy *p = with("", DELETES);
	struct policy_input in = action(p, EFFECT_delete, NOON);
	struct policy_rate_count c = {STR("many"), 24};

	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_ALLOW);
	c.n = 25;
	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_NEEDS_APPROVAL);
	/* What the rule does not ask for is not held up by it. */
	assert_int_equal(judge(p, action(p, EFFECT_write, NOON), &c, 1).verdict, VERDICT_ALLOW);
}

static void
what_was_not_counted_counts_against(void **state UNUSED)
{
	AUTO(policy) struct policy *p = with("", DELETES "," BREAKER);
	struct policy_rate_count one = {STR("many"), 0},
				 both[] = {{STR("many"), 0}, {STR("stop"), 0}};
	struct policy_input in = action(p, EFFECT_delete, NOON);

	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_DENY);
	assert_int_equal(judge(p, in, &one, 1).verdict, VERDICT_DENY);
	assert_int_equal(judge(p, in, both, 2).verdict, VERDICT_ALLOW);
}

static void
a_breaker_forbids_and_a_batch_weighs_its_statements(void **state UNUSED)
{
	AUTO(policy) struct policy *p = with("", BREAKER);
	struct policy_rate_count c = {STR("stop"), 1};
	struct policy_input in = action(p, EFFECT_delete, NOON);

	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_ALLOW);
	in.statements = 2;
	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_DENY);
	in.statements = UINT32_MAX;
	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_DENY);
	in.statements = 1;
	c.n = UINT32_MAX;
	assert_int_equal(judge(p, in, &c, 1).verdict, VERDICT_DENY);
}

static void
a_rate_says_whom_it_concerns(void **state UNUSED)
{
	AUTO(policy) struct policy *p = with("", DELETES "," BREAKER);
	struct policy_input in = action(p, EFFECT_delete, NOON);

	assert_int_equal(policy_rate_total(p), 2);
	assert_true(str_eqz(policy_rate_at(p, 0)->rule, "many"));
	assert_int_equal(policy_rate_at(p, 0)->over, 25);
	assert_int_equal(policy_rate_at(p, 0)->in_s, 600);
	assert_int_equal(policy_rate_at(p, 0)->per, RATE_RUN);
	assert_int_equal(policy_rate_at(p, 1)->per, RATE_TARGET);
	assert_true(policy_rate_concerns(p, 0, &in));
	in.effects = EFFECT_write;
	assert_false(policy_rate_concerns(p, 0, &in));
}

static void
a_rate_of_another_form_is_refused(void **state UNUSED)
{
#define CHANGED(rate)                                                                 \
	"{\"id\":\"r\",\"forbid\":{\"effects\":{\"any\":[\"delete\"]},\"rate\":" rate \
	"},\"override\":\"never\"}"
	static const struct {
		const char *rules, *why;
	} c[] = {
	    {CHANGED("{\"over\":0,\"in\":\"1m\",\"per\":\"run\"}"), "over must be from 1"},
	    {CHANGED("{\"in\":\"1m\",\"per\":\"run\"}"), "rate has no \"over\""},
	    {CHANGED("{\"over\":1,\"per\":\"run\"}"), "rate has no \"in\""},
	    {CHANGED("{\"over\":1,\"in\":\"1m\"}"), "rate has no \"per\""},
	    {CHANGED("{\"over\":1,\"in\":\"8d\",\"per\":\"run\"}"), "in must be from 1s"},
	    {CHANGED("{\"over\":1,\"in\":\"1m\",\"per\":\"none\"}"), "per must be run"},
	    {CHANGED("{\"over\":1,\"in\":\"1m\",\"per\":\"run\",\"x\":1}"), "unknown key"},
	    {"{\"id\":\"r\",\"permit\":{\"effects\":{\"only\":[\"read\"]}," RATE "}}",
		"belongs to require and forbid"},
	};
	AUTO(policy) struct policy *good = NULL;
	struct err err = {0};

	assert_int_equal(
	    parse("", CHANGED("{\"over\":1,\"in\":\"1m\",\"per\":\"run\"}"), &good, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		AUTO(policy) struct policy *p = NULL;

		assert_int_not_equal(parse("", c[i].rules, &p, &err), 0);
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("%zu: %s", i, err.msg);
	}
}

/* --- what began before --------------------------------------------------------------- */

#define JUNE(more)                                                                           \
	"{\"id\":\"june\",\"forbid\":{\"during\":\"june\",\"effects\":{\"any\":[\"write\"]}" \
	"},\"override\":\"never\"" more "}"

static void
what_began_before_a_window_may_finish_where_the_rule_says_so(void **state UNUSED)
{
	AUTO(policy) struct policy *p = with("", JUNE(",\"overrun\":\"finish\""));
	AUTO(policy) struct policy *q = with("", JUNE(""));
	struct policy_input in = action(p, EFFECT_write, "2026-06-01T00:00:01Z");

	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_DENY); /* it begins now */
	in.began_us = in.at.us - 2000000;
	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_ALLOW);
	assert_int_equal(judge(q, in, NULL, 0).verdict, VERDICT_DENY);
	in.at.known = false;
	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_DENY);
	/* Begun in the window, it does not get out of it by lasting; nor by a start to come. */
	in = action(p, EFFECT_write, "2026-06-02T00:00:01Z");
	in.began_us = in.at.us - 2000000;
	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_DENY);
	in = action(p, EFFECT_write, "2026-06-01T12:00:00Z");
	in.began_us = in.at.us + (int64_t)86400000000;
	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_DENY);
}

static void
overrun_needs_a_window_and_a_rule_that_tightens(void **state UNUSED)
{
	static const struct {
		const char *rules, *why;
	} c[] = {
	    {JUNE(",\"overrun\":\"always\""), "overrun must be \"finish\""},
	    {"{\"id\":\"r\",\"forbid\":{\"effects\":{\"any\":[\"write\"]}},\"override\":"
	     "\"never\",\"overrun\":\"finish\"}",
		"has no meaning without"},
	    {"{\"id\":\"r\",\"permit\":{\"outside\":\"june\",\"effects\":{\"only\":[\"read\"]}},"
	     "\"overrun\":\"finish\"}",
		"belongs to require and forbid"},
	};

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		AUTO(policy) struct policy *p = NULL;
		struct err err = {0};

		assert_int_not_equal(parse("", c[i].rules, &p, &err), 0);
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("%zu: %s", i, err.msg);
	}
}

/* --- attempts ------------------------------------------------------------------------ */

static void
attempts_have_a_default_and_an_order(void **state UNUSED)
{
	static const struct {
		const char *top, *why;
	} c[] = {
	    {"\"attempts\":{\"end\":3},", "attempts has no \"alarm\""},
	    {"\"attempts\":{\"alarm\":0},", "alarm must be from 1"},
	    {"\"attempts\":{\"alarm\":4,\"end\":3},", "must not end (3) before its alarm (4)"},
	};
	AUTO(policy) struct policy *none = with("", DELETES);
	AUTO(policy) struct policy *both = with("\"attempts\":{\"alarm\":3,\"end\":10},", DELETES);

	assert_int_equal(policy_attempts(none).alarm, POLICY_ALARM_AFTER);
	assert_int_equal(policy_attempts(none).end, 0);
	assert_int_equal(policy_attempts(both).alarm, 3);
	assert_int_equal(policy_attempts(both).end, 10);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		AUTO(policy) struct policy *p = NULL;
		struct err err = {0};

		assert_int_not_equal(parse(c[i].top, DELETES, &p, &err), 0);
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("%zu: %s", i, err.msg);
	}
}

/* --- effect_requires ------------------------------------------------------------------- */

#define REQUIRES                                                                           \
	"\"effect_requires\":{\"delete\":\"witness(2)\",\"drop\":\"witness(3)\",\"read\":" \
	"\"checkpoint\",\"within\":\"9s\"},"

static void
what_the_log_must_have_is_only_ever_raised(void **state UNUSED)
{
	static const struct {
		const char *top, *why;
	} c[] = {
	    {"\"effect_requires\":{\"drop\":\"durable\"},", "always waits for a checkpoint"},
	    {"\"effect_requires\":{\"@data\":\"witness(0)\"},", "witness(N)"},
	    {"\"effect_requires\":{\"@data\":\"witness(9)\"},", "witness(N)"},
	    {"\"effect_requires\":{\"@data\":true},", "witness(N)"},
	    {"\"effect_requires\":{\"fly\":\"checkpoint\"},", "is no effect"},
	    {"\"effect_requires\":{\"drop\":\"checkpoint\",\"@destructive\":\"witness(1)\"},",
		"stands there already"},
	    {"\"effect_requires\":{\"within\":\"61s\"},", "within must be from 1s to 60s"},
	};
	AUTO(policy) struct policy *none = with("", DELETES);
	AUTO(policy) struct policy *p = with(REQUIRES, DELETES);
	AUTO(policy) struct policy *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);

	assert_false(policy_requires(none, EFFECT_read).checkpoint);
	assert_true(policy_requires(none, EFFECT_write).checkpoint);
	assert_int_equal(policy_requires(none, EFFECT_drop).witnesses, 0);
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	assert_int_equal(policy_load(buf_str(&bundle), &q, NULL), 0);
	assert_true(policy_requires(q, EFFECT_read).checkpoint);
	assert_false(policy_requires(q, EFFECT_txn).checkpoint);
	assert_int_equal(policy_requires(q, EFFECT_write).witnesses, 0);
	assert_int_equal(policy_requires(q, EFFECT_delete | EFFECT_read).witnesses, 2);
	assert_int_equal(policy_requires(q, EFFECT_delete | EFFECT_drop).witnesses, 3);
	assert_int_equal(policy_requires(q, EFFECT_drop).within_s, 9);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		AUTO(policy) struct policy *bad = NULL;
		struct err err = {0};

		assert_int_not_equal(parse(c[i].top, DELETES, &bad, &err), 0);
		if (strstr(err.msg, c[i].why) == NULL)
			fail_msg("%zu: %s", i, err.msg);
	}
}

static void
a_bundle_holds_all_of_it(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = with("\"attempts\":{\"alarm\":3,\"end\":10},",
	    DELETES "," BREAKER "," JUNE(",\"overrun\":\"finish\",\"belt\":true"));
	AUTO(policy) struct policy *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	struct policy_rate_count c[] = {{STR("many"), 25}, {STR("stop"), 0}};
	struct policy_input in;
	struct err err = {0};

	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	if (policy_load(buf_str(&bundle), &q, &err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(policy_attempts(q).end, 10);
	assert_int_equal(policy_rate_total(q), 2);
	in = action(q, EFFECT_delete, NOON);
	assert_int_equal(judge(q, in, c, 2).verdict, VERDICT_NEEDS_APPROVAL);
	in = action(q, EFFECT_write, "2026-06-01T00:00:01Z");
	in.began_us = in.at.us - 2000000;
	assert_int_equal(judge(q, in, c, 2).verdict, VERDICT_ALLOW);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_twenty_sixth_delete_needs_approval),
	    cmocka_unit_test(what_was_not_counted_counts_against),
	    cmocka_unit_test(a_breaker_forbids_and_a_batch_weighs_its_statements),
	    cmocka_unit_test(a_rate_says_whom_it_concerns),
	    cmocka_unit_test(a_rate_of_another_form_is_refused),
	    cmocka_unit_test(what_began_before_a_window_may_finish_where_the_rule_says_so),
	    cmocka_unit_test(overrun_needs_a_window_and_a_rule_that_tightens),
	    cmocka_unit_test(attempts_have_a_default_and_an_order),
	    cmocka_unit_test(what_the_log_must_have_is_only_ever_raised),
	    cmocka_unit_test(a_bundle_holds_all_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
