/*
 * The verdict: default deny, forbid wins, unknown tightens, requires join, one person for one
 * slot; and a bundle judges as its source does.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define HEAD                                                                                       \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"targets\":{"           \
	"\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"db.test\",\"database\":\"d\","  \
	"\"user\":\"u\",\"credential\":\"c\"},"                                                    \
	"\"stage\":{\"kind\":\"postgres\",\"env\":\"staging\",\"host\":\"s.test\",\"database\":"   \
	"\"d\",\"user\":\"u\",\"credential\":\"c\"}},\"people\":{"                                 \
	"\"alice\":{\"roles\":[\"dba\",\"oncall\"],\"login\":[\"unix:alice\"],\"keys\":[\"ssh-"    \
	"ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4\"]},"        \
	"\"bob\":{\"roles\":[\"oncall\"],\"login\":[\"unix:bob\"],\"keys\":[\"ssh-ed25519 "        \
	"AAAAC3NzaC1lZDI1NTE5AAAAIFzm/fuBiwIj2D9Zjoo0H8606hQeRc66EK6kXTepW+ee\"]},"                \
	"\"dave\":{\"roles\":[\"dba\"],\"keys\":[\"ssh-ed25519 "                                   \
	"AAAAC3NzaC1lZDI1NTE5AAAAIDYbYL8sqzmWi5dNtppNPMBMr8pa/"                                    \
	"tHfb50Z+GsHTLc6\"]}},\"calendars\":{"                                                     \
	"\"freeze\":{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":[{\"from\":\"2026-06-01T00:00\"," \
	"\"to\":\"2026-06-02T00:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]},"                \
	"\"hours\":{\"kind\":\"open\",\"tz\":\"UTC\",\"weekly\":[{\"from\":\"09:00\",\"to\":"      \
	"\"17:00\",\"days\":\"daily\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}},\"rules\":["
#define TAIL "]}"
#define PERMIT_ALL                                                                     \
	"{\"id\":\"all\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@" \
	"destructive\"]}}}"
#define APPROVE(role, n) "{\"role\":\"" role "\",\"count\":" n "}"
#define REQUIRE(id, cond, slots, within, use)                                                  \
	"{\"id\":\"" id "\",\"require\":" cond ",\"approve\":[" slots "],\"within\":\"" within \
	"\",\"use_within\":\"" use "\"}"
#define FORBID(id, cond) "{\"id\":\"" id "\",\"forbid\":" cond ",\"override\":\"never\"}"
#define PERMIT(id, cond) "{\"id\":\"" id "\",\"permit\":" cond "}"

#define NOON "2026-03-11T12:00:00Z" /* inside hours, no freeze */

static struct policy_input
action(const struct policy *p, const char *target, uint32_t effects, const char *at)
{
	struct policy_input in = policy_input_for(p, str_z(target));

	in.effects = effects;
	in.agent = STR("script");
	in.run = STR("r-1");
	in.owner = STR("bob");
	in.at.known = true;
	assert_int_equal(clock_parse(str_z(at), &in.at.us, NULL), 0);
	return in;
}

static struct decision
judge(const struct policy *p, const struct policy_input *in)
{
	struct decision d;

	policy_eval(p, in, NULL, 0, &d);
	return d;
}

static struct decision
judge_effects(const char *rules, uint32_t effects)
{
	AUTO_FREE char *text = xasprintf(HEAD "%s" TAIL, rules);
	AUTO(policy) struct policy *p = help_policy(text);
	struct policy_input in = action(p, "db", effects, NOON);
	struct decision d = judge(p, &in);

	/* The ids point into the policy: keep them out of what we return. */
	(void)memset(d.rules, 0, sizeof(d.rules));
	d.calendar = d.why = STR("");
	return d;
}

static void
assert_rules(const struct decision *d, const char *want)
{
	AUTO_BUF struct buf b = BUF(4096);
	AUTO_FREE char *got = NULL;

	for (size_t i = 0; i < d->nrules; i++)
		buf_printf(&b, "%s%.*s", i != 0 ? " " : "", STR_ARG(d->rules[i]));
	got = buf_dup_z(&b);
	assert_string_equal(got, want);
}

static void
without_a_permit_everything_is_denied(void **state UNUSED)
{
	assert_int_equal(judge_effects("", EFFECT_read).verdict, VERDICT_DENY);
	assert_int_equal(judge_effects(PERMIT_ALL, EFFECT_read).verdict, VERDICT_ALLOW);
	assert_int_equal(judge_effects(PERMIT_ALL, EFFECT_exec).verdict, VERDICT_DENY);
	/* Nothing understood is opaque, which no permit holds. */
	assert_int_equal(judge_effects(PERMIT_ALL, 0).verdict, VERDICT_DENY);
	assert_int_equal(judge_effects(PERMIT_ALL, 0).effects, EFFECT_opaque);
}

static void
a_permit_covers_all_effects_of_the_action_or_none(void **state UNUSED)
{
#define READ_ONLY PERMIT("r", "{\"effects\":{\"only\":[\"read\"]}}")
#define DROP_ONLY PERMIT("d", "{\"effects\":{\"only\":[\"drop\"]}}")
	assert_int_equal(judge_effects(READ_ONLY, EFFECT_read).verdict, VERDICT_ALLOW);
	assert_int_equal(judge_effects(READ_ONLY, EFFECT_read | EFFECT_drop).verdict, VERDICT_DENY);
	/* Two permits do not add up. */
	assert_int_equal(judge_effects(READ_ONLY "," DROP_ONLY, EFFECT_read | EFFECT_drop).verdict,
	    VERDICT_DENY);
	assert_int_equal(
	    judge_effects(READ_ONLY "," DROP_ONLY, EFFECT_drop).verdict, VERDICT_ALLOW);
	assert_int_equal(
	    judge_effects(PERMIT("none", "{\"effects\":{\"only\":[]}}"), EFFECT_read).verdict,
	    VERDICT_DENY);
}

static void
forbid_wins_over_permit_and_over_approvals(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT_ALL
	    "," REQUIRE("two", "{\"effects\":{\"any\":[\"delete\"]}}", APPROVE("dba", "1"), "30m",
		"5m") "," FORBID("a", "{\"effects\":{\"any\":[\"drop\"]}}") "," FORBID("b",
		"{\"env\":\"prod\",\"effects\":{\"any\":[\"drop\"]}}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_drop | EFFECT_delete, NOON);
	const struct policy_grant g = {STR("alice"), STR("dba"), false};
	struct decision d;

	policy_eval(p, &in, &g, 1, &d);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_rules(&d, "a b");
	assert_non_null(strstr(d.text, "denied by policy: rules a, b"));
	in.effects = EFFECT_delete;
	policy_eval(p, &in, &g, 1, &d);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_rules(&d, "two");
}

/* --- unknown tightens ---------------------------------------------------------------- */

static const struct policy_input no_input;

static void
drop_attr(struct policy_input *in, unsigned i)
{
	struct str *const attrs[] = {&in->kind, &in->env, &in->agent, &in->run, &in->owner};

	*attrs[i] = STR_NONE;
}

static void
a_missing_attribute_matches_forbid_and_require_and_no_permit(void **state UNUSED)
{
	static const char *const names[] = {"kind", "env", "agent", "run", "owner"};
	static const char *const right[] = {"postgres", "prod", "script", "r-1", "bob"};
	static const char *const wrong[] = {"http", "staging", "other", "r-2", "alice"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FREE char *permit = xasprintf(
		    HEAD PERMIT("p", "{\"%s\":\"%s\",\"effects\":{\"only\":[\"read\"]}}") TAIL,
		    names[i], right[i]);
		AUTO_FREE char *forbid = xasprintf(
		    HEAD PERMIT_ALL "," FORBID("f", "{\"%s\":\"%s\"}") TAIL, names[i], wrong[i]);
		AUTO_FREE char *require = xasprintf(HEAD PERMIT_ALL
		    "," REQUIRE("q", "{\"%s\":\"%s\"}", APPROVE("dba", "1"), "1h", "1m") TAIL,
		    names[i], wrong[i]);
		const char *const texts[] = {permit, forbid, require};
		const enum verdict known[] = {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW};
		const enum verdict missing[] = {VERDICT_DENY, VERDICT_DENY, VERDICT_NEEDS_APPROVAL};

		for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
			AUTO(policy) struct policy *p = help_policy(texts[k]);
			struct policy_input in = action(p, "db", EFFECT_read, NOON);

			assert_int_equal(judge(p, &in).verdict, known[k]);
			drop_attr(&in, i);
			assert_int_equal(judge(p, &in).verdict, missing[k]);
		}
	}
}

static void
a_target_that_is_not_in_the_policy_is_denied(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(HEAD PERMIT_ALL TAIL);
	struct policy_input in = action(p, "db", EFFECT_read, NOON);

	assert_int_equal(judge(p, &in).verdict, VERDICT_ALLOW);
	in.target = STR("other");
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY);
	in.target = STR_NONE;
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY);
	in = no_input;
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY);
}

static void
an_unknown_clock_tightens_each_kind_of_rule(void **state UNUSED)
{
	static const struct {
		const char *rules;
		enum verdict known, unknown;
	} cases[] = {
	    {PERMIT("p", "{\"during\":[\"hours\"],\"effects\":{\"only\":[\"read\"]}}"),
		VERDICT_ALLOW, VERDICT_DENY},
	    {PERMIT("p", "{\"outside\":[\"freeze\"],\"effects\":{\"only\":[\"read\"]}}"),
		VERDICT_ALLOW, VERDICT_DENY},
	    {PERMIT_ALL "," FORBID("f", "{\"during\":[\"freeze\"]}"), VERDICT_ALLOW, VERDICT_DENY},
	    {PERMIT_ALL "," FORBID("f", "{\"outside\":[\"hours\"]}"), VERDICT_ALLOW, VERDICT_DENY},
	    {PERMIT_ALL
		"," REQUIRE("q", "{\"during\":[\"freeze\"]}", APPROVE("dba", "1"), "1h", "1m"),
		VERDICT_ALLOW, VERDICT_NEEDS_APPROVAL},
	    {PERMIT_ALL
		"," REQUIRE("q", "{\"outside\":[\"hours\"]}", APPROVE("dba", "1"), "1h", "1m"),
		VERDICT_ALLOW, VERDICT_NEEDS_APPROVAL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_FREE char *text = xasprintf(HEAD "%s" TAIL, cases[i].rules);
		AUTO(policy) struct policy *p = help_policy(text);
		struct policy_input in = action(p, "db", EFFECT_read, NOON);

		assert_int_equal(judge(p, &in).verdict, cases[i].known);
		in.at.known = false;
		assert_int_equal(judge(p, &in).verdict, cases[i].unknown);
		in.at.known = true;
		assert_int_equal(clock_parse(STR("2027-03-11T12:00:00Z"), &in.at.us, NULL), 0);
		assert_int_equal(judge(p, &in).verdict, cases[i].unknown);
	}
}

/* --- times --------------------------------------------------------------------------- */

static void
a_permit_outside_two_freezes_is_shut_in_either(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT(
	    "p", "{\"outside\":[\"freeze\",\"hours\"],\"effects\":{\"only\":[\"read\"]}}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_read, "2026-06-01T20:00:00Z");
	struct decision d;

	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY); /* in the first alone */
	in = action(p, "db", EFFECT_read, NOON);
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY); /* in the second alone */
	in = action(p, "db", EFFECT_read, "2026-03-11T20:00:00Z");
	d = judge(p, &in);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_rules(&d, "p");
}

static void
a_denial_says_which_calendar_and_until_when(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p =
	    help_policy(HEAD PERMIT_ALL ",{\"id\":\"f\",\"forbid\":{\"during\":[\"freeze\"]},"
					"\"override\":\"never\",\"why\":\"June.\"}" TAIL);
	struct policy_input in = action(p, "db", EFFECT_write, "2026-06-01T12:00:00Z");
	struct decision d = judge(p, &in);

	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_true(str_eqz(d.calendar, "freeze"));
	assert_string_equal(
	    d.text, "denied by policy: rule f (calendar freeze) until 2026-06-02T00:00:00Z: June.");
	in.at.known = false;
	d = judge(p, &in);
	assert_true(d.calendar_unknown && d.until_us == 0);
	assert_string_equal(d.text, "denied by policy: rule f (calendar freeze) while the clock is "
				    "not known, which counts against it: June.");
}

static void
a_permit_that_only_its_hours_shut_says_when_it_opens(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT(
	    "office", "{\"during\":[\"hours\"],\"effects\":{\"only\":[\"read\"]}}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_read, "2026-03-11T18:00:00Z");
	struct decision d = judge(p, &in);

	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_rules(&d, "default");
	assert_string_equal(d.text, "denied by policy: nothing permits read on db now, rule office "
				    "(calendar hours) until 2026-03-12T09:00:00Z");
	in.effects = EFFECT_write; /* hours do not help here */
	d = judge(p, &in);
	assert_string_equal(d.text, "denied by policy: nothing permits write on db");
}

/* --- other conditions ---------------------------------------------------------------- */

static void
globs_and_lists_match_any(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT(
	    "p", "{\"agent\":[\"ci-*\",\"script\"],\"effects\":{\"only\":[\"read\"]}}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_read, NOON);

	assert_int_equal(judge(p, &in).verdict, VERDICT_ALLOW);
	in.agent = STR("ci-deploy");
	assert_int_equal(judge(p, &in).verdict, VERDICT_ALLOW);
	in.agent = STR("xci-deploy");
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY);
	in.agent = STR("Script");
	assert_int_equal(judge(p, &in).verdict, VERDICT_DENY);
}

static void
numbers_of_statements_are_compared(void **state UNUSED)
{
	static const struct {
		const char *cond;
		unsigned first, last; /* numbers that match */
	} cases[] = {{"{\"gt\":1}", 2, 9}, {"{\"lt\":2}", 0, 1}, {"{\"eq\":3}", 3, 3},
	    {"{\"gt\":1,\"lt\":4}", 2, 3}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO_FREE char *text = xasprintf(
		    HEAD PERMIT_ALL "," FORBID("f", "{\"statements\":%s}") TAIL, cases[i].cond);
		AUTO(policy) struct policy *p = help_policy(text);
		struct policy_input in = action(p, "db", EFFECT_read, NOON);

		for (unsigned n = 0; n <= 9; n++) {
			in.statements = n;
			assert_int_equal(judge(p, &in).verdict,
			    n >= cases[i].first && n <= cases[i].last ? VERDICT_DENY
								      : VERDICT_ALLOW);
		}
	}
}

static enum verdict
judge_relations(const char *rules, const char *a, const char *b, uint32_t effects)
{
	AUTO_FREE char *text = xasprintf(HEAD "%s" TAIL, rules);
	AUTO(policy) struct policy *p = help_policy(text);
	struct policy_input in = action(p, "db", effects, NOON);
	const struct str rel[] = {str_z(a), str_z(b)};

	in.relations = rel;
	in.nrelations = (size_t)(a != NULL) + (b != NULL);
	return judge(p, &in).verdict;
}

static void
a_forbidden_relation_is_found_among_others_and_under_an_unqualified_name(void **state UNUSED)
{
#define NO_PAY PERMIT_ALL "," FORBID("f", "{\"relation\":\"hr.pay*\"}")
	assert_int_equal(judge_relations(NO_PAY, "public.users", NULL, EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(
	    judge_relations(NO_PAY, "public.users", "hr.payroll", EFFECT_read), VERDICT_DENY);
	assert_int_equal(judge_relations(NO_PAY, "payroll", NULL, EFFECT_read), VERDICT_DENY);
	assert_int_equal(judge_relations(NO_PAY, "users", NULL, EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(
	    judge_relations(NO_PAY, "public.payroll", NULL, EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(judge_relations(NO_PAY, "\"pay.x\"", NULL, EFFECT_read), VERDICT_ALLOW);
	/* Statistics hold values of other tables; a DROP without a relation takes whole schemas. */
	assert_int_equal(judge_relations(NO_PAY, "pg_stats", NULL, EFFECT_read), VERDICT_DENY);
	assert_int_equal(
	    judge_relations(NO_PAY, "pg_catalog.pg_statistic", NULL, EFFECT_read), VERDICT_DENY);
	assert_int_equal(
	    judge_relations(NO_PAY, "pg_catalog.pg_class", NULL, EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(judge_relations(NO_PAY, NULL, NULL, EFFECT_drop), VERDICT_DENY);
	assert_int_equal(judge_relations(NO_PAY, "public.users", NULL, EFFECT_drop), VERDICT_ALLOW);
	assert_int_equal(
	    judge_relations(PERMIT_ALL "," FORBID("f", "{\"relation\":\"hr.\\\"a.b\\\"\"}"),
		"\"a.b\"", NULL, EFFECT_read),
	    VERDICT_DENY);
}

static void
a_permit_for_a_relation_carries_no_other_along(void **state UNUSED)
{
#define CONTACTS                                                                                 \
	PERMIT("p", "{\"relation\":[\"public.contacts\",\"public.c_*\"],\"effects\":{\"only\":[" \
		    "\"read\"]}}")
	assert_int_equal(
	    judge_relations(CONTACTS, "public.contacts", NULL, EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(
	    judge_relations(CONTACTS, "public.contacts", "public.c_1", EFFECT_read), VERDICT_ALLOW);
	assert_int_equal(
	    judge_relations(CONTACTS, "public.contacts", "hr.payroll", EFFECT_read), VERDICT_DENY);
	assert_int_equal(judge_relations(CONTACTS, NULL, NULL, EFFECT_read), VERDICT_DENY);
	/* The schema is not told: it may be another table. */
	assert_int_equal(judge_relations(CONTACTS, "contacts", NULL, EFFECT_read), VERDICT_DENY);
}

static void
what_was_not_understood_may_touch_any_relation(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p =
	    help_policy(HEAD PERMIT_ALL "," FORBID("f", "{\"relation\":\"hr.*\"}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_opaque, NOON);
	struct decision d = judge(p, &in);

	assert_rules(&d, "f");
	in.effects = EFFECT_read;
	d = judge(p, &in);
	assert_rules(&d, "all");
}

/* --- approvals ----------------------------------------------------------------------- */

#define TWO                                                                        \
	HEAD PERMIT_ALL "," REQUIRE("two", "{\"effects\":{\"any\":[\"delete\"]}}", \
	    APPROVE("dba", "1") "," APPROVE("oncall", "1"), "30m", "5m") TAIL

static enum verdict
with_grants(const struct policy *p, const char *owner, const struct policy_grant *g, size_t n)
{
	struct policy_input in = action(p, "db", EFFECT_delete, NOON);
	struct decision d;

	in.owner = owner != NULL ? str_z(owner) : STR_NONE;
	policy_eval(p, &in, g, n, &d);
	return d.verdict;
}

static void
slots_are_filled_by_distinct_people_in_whatever_order(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TWO);
	const struct str alice = STR("alice"), bob = STR("bob"), dave = STR("dave");
	const struct str dba = STR("dba"), oncall = STR("oncall"), any = STR("");
	const struct policy_grant both[] = {{alice, dba, false}, {alice, oncall, false}};
	const struct policy_grant good[] = {{alice, oncall, false}, {dave, dba, false}};
	const struct policy_grant moved[] = {{alice, any, false}, {dave, any, false}};
	const struct policy_grant moved_back[] = {{dave, any, false}, {alice, any, false}};
	const struct policy_grant foreign[] = {{dave, dba, false}, {STR("eve"), oncall, false}};
	const struct policy_grant lied[] = {{dave, oncall, false}, {bob, dba, false}};

	assert_int_equal(with_grants(p, "bob", NULL, 0), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "bob", both, 2), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "bob", good, 1), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "bob", good, 2), VERDICT_ALLOW);
	assert_int_equal(with_grants(p, "bob", moved, 2), VERDICT_ALLOW);
	assert_int_equal(with_grants(p, "bob", moved_back, 2), VERDICT_ALLOW);
	assert_int_equal(with_grants(p, "bob", foreign, 2), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "alice", lied, 2), VERDICT_NEEDS_APPROVAL);
}

/* dave's ssh-ed25519 key is exchanged for one in hardware; nobody else has one. */
static struct policy *
verified_policy(const char *role, struct err *err)
{
	static const char key[] =
	    "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2gu"
	    "Y29tAAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAAAABHNzaDo=";
	static const char whole[] = HEAD PERMIT_ALL
	    ",{\"id\":\"v\",\"require\":{\"effects\":{\"any\":[\"delete\"]}},\"approve\":[";
	AUTO_BUF struct buf text = BUF(16384);
	const char *dave = strstr(whole, "\"dave\""), *at = strstr(dave, "ssh-ed25519 ");
	struct policy *p = NULL;

	buf_put(&text, whole, (size_t)(at - whole));
	buf_put_z(&text, key);
	buf_put_z(&text, strchr(at, '"'));
	buf_printf(&text,
	    "{\"role\":\"%s\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\",\"verify\":"
	    "true}",
	    role);
	buf_put_z(&text, TAIL);
	return policy_parse(buf_str(&text), "p", NULL, NULL, &p, NULL, err) == 0 ? p : NULL;
}

static void
where_a_rule_says_verify_only_verified_grants_count(void **state UNUSED)
{
	struct err err = {0};
	AUTO(policy) struct policy *p = verified_policy("dba", &err);
	const struct policy_grant touched[] = {{STR("dave"), STR("dba"), false}};
	const struct policy_grant verified[] = {{STR("dave"), STR("dba"), true}};
	struct decision d;
	struct policy_input in;

	if (p == NULL)
		fail_msg("%s", err.msg);
	assert_int_equal(with_grants(p, "bob", touched, 1), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "bob", verified, 1), VERDICT_ALLOW);
	/* alice has the role too, but no hardware: for a run of dave's nobody can. */
	in = action(p, "db", EFFECT_delete, NOON);
	in.owner = STR("dave");
	policy_eval(p, &in, NULL, 0, &d);
	assert_true(d.unsatisfiable && d.verify);
	assert_null(verified_policy("oncall", &err));
	assert_non_null(
	    strstr(err.msg, "with distinct people who have a hardware key, 1 of role oncall"));
}

static void
the_owner_does_not_count_and_no_owner_means_nobody_does(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TWO);
	const struct policy_grant g[] = {
	    {STR("bob"), STR("oncall"), false}, {STR("dave"), STR("dba"), false}};

	assert_int_equal(with_grants(p, "bob", g, 2), VERDICT_NEEDS_APPROVAL);
	assert_int_equal(with_grants(p, "alice", g, 2), VERDICT_ALLOW);
	assert_int_equal(with_grants(p, NULL, g, 2), VERDICT_NEEDS_APPROVAL);
}

static void
requires_join_by_the_most_people_and_the_shortest_times(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT_ALL
	    ","
	    "{\"id\":\"a\",\"require\":{\"env\":\"prod\"},\"approve\":[" APPROVE("oncall",
		"1") "],"
		     "\"within\":\"10m\",\"use_within\":\"5m\",\"limits\":{\"max_rows\":100}},"
		     "{\"id\":\"b\",\"require\":{\"env\":\"prod\"},\"approve\":[" APPROVE("oncall",
			 "2") "," APPROVE("dba", "1") "],\"within\":\"20m\",\"use_within\":\"1m\","
						      "\"limits\":{\"max_rows\":7}}," REQUIRE("c",
							  "{\"env\":\"staging\"}",
							  APPROVE("dba", "2"), "1s", "1s") TAIL);
	struct policy_input in = action(p, "db", EFFECT_delete, NOON);
	struct decision d = judge(p, &in);

	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	assert_rules(&d, "a b");
	assert_int_equal(d.nslots, 2);
	assert_true(str_eqz(d.slots[0].role, "dba") && d.slots[0].count == 1);
	assert_true(str_eqz(d.slots[1].role, "oncall") && d.slots[1].count == 2);
	assert_int_equal(d.within_s, 600);
	assert_int_equal(d.use_within_s, 60);
	assert_int_equal(d.max_rows, 7);
	in = action(p, "stage", EFFECT_delete, NOON);
	d = judge(p, &in);
	assert_rules(&d, "c");
	assert_int_equal(d.max_rows, -1);
}

static void
a_quorum_that_the_owner_takes_away_is_said_at_once(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(
	    HEAD PERMIT_ALL "," REQUIRE("two", "{}", APPROVE("oncall", "2"), "30m", "5m") TAIL);
	struct policy_input in = action(p, "db", EFFECT_delete, NOON);
	struct decision d = judge(p, &in);

	assert_true(d.unsatisfiable);
	assert_non_null(strstr(d.text, "nobody can give it"));
	in.owner = STR("dave");
	d = judge(p, &in);
	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	assert_false(d.unsatisfiable);
}

static void
open_slots_are_told_by_role(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TWO);
	struct policy_input in = action(p, "db", EFFECT_delete, NOON);
	const struct policy_grant g[] = {
	    {STR("alice"), STR("dba"), false}, {STR("bob"), STR("oncall"), false}};
	struct policy_slot open[POLICY_SLOTS_MAX];
	struct decision d = judge(p, &in);

	assert_int_equal(policy_slots_open(&d, NULL, 0, STR("bob"), open), 2);
	assert_int_equal(policy_slots_open(&d, g, 1, STR("bob"), open), 1);
	assert_true(str_eqz(open[0].role, "oncall") && open[0].count == 1);
	assert_int_equal(policy_slots_open(&d, g, 2, STR("bob"), open), 1);
	assert_int_equal(policy_slots_open(&d, g, 2, STR("dave"), open), 0);
	assert_int_equal(policy_slots_open(&d, g, 2, STR_NONE, open), 2);
}

/* --- explain ------------------------------------------------------------------------- */

static void
the_table_shows_each_key_of_each_rule(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(HEAD PERMIT(
	    "p", "{\"env\":\"prod\",\"effects\":{\"only\":[\"@data\"]}}") "," FORBID("f",
	    "{\"agent\":\"ci\",\"during\":[\"freeze\"],\"effects\":{\"any\":[\"read\"]}}") TAIL);
	struct policy_input in = action(p, "db", EFFECT_read, "2026-06-01T12:00:00Z");
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_FREE char *text = NULL;

	in.agent = STR_NONE;
	policy_explain(p, &in, &b);
	text = buf_dup_z(&b);
	assert_string_equal(text,
	    "permit   p: applies\n"
	    "  yes     env        prod; is prod\n"
	    "  yes     effects    only read txn; has read\n"
	    "forbid   f: unknown: applies\n"
	    "  unknown agent      ci; is (missing)\n"
	    "  yes     effects    any of read; has read\n"
	    "  yes     during     freeze inside, until 2026-06-02T00:00:00Z\n");
}

/* --- a bundle judges as its source does ---------------------------------------------- */

static uint32_t
next_random(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

static struct str
pick(uint64_t *s, const char *const *list, size_t n)
{
	const char *z = list[next_random(s) % n];

	return z != NULL ? str_z(z) : STR_NONE;
}

static struct policy_input
random_input(uint64_t *s, const struct str *rel)
{
	static const char *const targets[] = {"db", "stage", "other", NULL};
	static const char *const kinds[] = {"postgres", "http", NULL};
	static const char *const envs[] = {"prod", "staging", NULL};
	static const char *const agents[] = {"script", "ci-1", NULL};
	static const char *const owners[] = {"alice", "bob", "dave", "eve", NULL};
	struct policy_input in = {.target = pick(s, targets, 4),
	    .kind = pick(s, kinds, 3),
	    .env = pick(s, envs, 3),
	    .agent = pick(s, agents, 3),
	    .run = pick(s, agents, 3),
	    .owner = pick(s, owners, 5),
	    .effects = next_random(s) & next_random(s) & next_random(s) & 0x1ffff,
	    .statements = next_random(s) % 4,
	    .relations = rel,
	    .nrelations = next_random(s) % 3};

	if (next_random(s) % 2 != 0)
		in.effects &= EFFECT_SET_DATA | EFFECT_SET_CHANGE | EFFECT_delete;
	in.at.known = next_random(s) % 8 != 0;
	/* 2025-07 to 2027-06, so beyond both ends of valid as well. */
	in.at.us = (1751328000 + (int64_t)(next_random(s) % 63072000)) * 1000000;
	return in;
}

static bool
same_decision(const struct decision *a, const struct decision *b)
{
	bool ok = a->verdict == b->verdict && a->effects == b->effects && a->nrules == b->nrules &&
		  a->nslots == b->nslots && a->within_s == b->within_s &&
		  a->use_within_s == b->use_within_s && a->max_rows == b->max_rows &&
		  str_eq(a->calendar, b->calendar) && a->calendar_unknown == b->calendar_unknown &&
		  a->until_us == b->until_us && str_eq(a->why, b->why) &&
		  a->unsatisfiable == b->unsatisfiable && strcmp(a->text, b->text) == 0;

	for (size_t i = 0; ok && i < a->nrules; i++)
		ok = str_eq(a->rules[i], b->rules[i]);
	for (size_t i = 0; ok && i < a->nslots; i++)
		ok = str_eq(a->slots[i].role, b->slots[i].role) &&
		     a->slots[i].count == b->slots[i].count;
	return ok;
}

static void
a_bundle_gives_the_verdicts_of_its_source(void **state UNUSED)
{
	AUTO(policy)
	struct policy *p = help_policy(
	    HEAD PERMIT("read", "{\"effects\":{\"only\":[\"@data\"]}}") "," PERMIT("work",
		"{\"env\":[\"prod\",\"stag*\"],\"outside\":[\"freeze\"],\"effects\":{\"only\":"
		"[\"@data\",\"@change\",\"delete\"]}}") "," PERMIT("tables",
		"{\"relation\":[\"public.*\"],\"statements\":{\"lt\":3},\"effects\":{\"only\":"
		"[\"@data\",\"drop\"]}}") "," REQUIRE("del",
		"{\"env\":\"prod\",\"effects\":{\"any\":[\"delete\"]}}",
		APPROVE("dba", "1") "," APPROVE("oncall", "1"), "30m",
		"5m") ","
		      "{\"id\":\"rows\",\"require\":{\"agent\":\"ci-*\",\"effects\":{"
		      "\"any\":[\"@change\"]}},"
		      "\"approve\":[" APPROVE(
			  "oncall", "1") "],\"within\":\"1h\",\"use_within\":\"90s\","
					 "\"limits\":{\"max_rows\":3},\"why\":\"CI.\"}"
					 "," FORBID("esc", "{\"effects\":{\"any\":[\"@"
							   "escape\"]}}") "," FORBID("many",
					     "{\"kind\":\"postgres\",\"statements\":"
					     "{\"gt\":1}}") "," FORBID("frz",
					     "{\"during\":[\"freeze\"],\"effects\":{\"any\":"
					     "[\"write\"]}}") "," FORBID("hrs",
					     "{\"run\":\"ci-*\",\"outside\":[\"hours\"],"
					     "\"owner\":[\"alice\",\"dave\"],"
					     "\"effects\":{\"only\":[\"read\",\"write\"]}}") TAIL);
	AUTO(policy) struct policy *q = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	const struct str rel[] = {STR("public.users"), STR("hr.pay")};
	const struct policy_grant g[] = {
	    {STR("alice"), STR("dba"), false}, {STR("bob"), STR("oncall"), false}};
	size_t seen[3] = {0};
	uint64_t seed = 42;

	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	assert_int_equal(policy_load(buf_str(&bundle), &q, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		struct policy_input in = random_input(&seed, rel);
		size_t n = next_random(&seed) % 3;
		struct decision a, b;

		policy_eval(p, &in, g, n, &a);
		policy_eval(q, &in, g, n, &b);
		if (!same_decision(&a, &b))
			fail_msg("source: %s\nbundle: %s", a.text, b.text);
		seen[a.verdict]++;
	}
	/* The inputs reach all three. */
	assert_true(seen[VERDICT_DENY] > 100 && seen[VERDICT_NEEDS_APPROVAL] > 100 &&
		    seen[VERDICT_ALLOW] > 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_a_permit_everything_is_denied),
	    cmocka_unit_test(a_permit_covers_all_effects_of_the_action_or_none),
	    cmocka_unit_test(forbid_wins_over_permit_and_over_approvals),
	    cmocka_unit_test(a_missing_attribute_matches_forbid_and_require_and_no_permit),
	    cmocka_unit_test(a_target_that_is_not_in_the_policy_is_denied),
	    cmocka_unit_test(an_unknown_clock_tightens_each_kind_of_rule),
	    cmocka_unit_test(a_permit_outside_two_freezes_is_shut_in_either),
	    cmocka_unit_test(a_denial_says_which_calendar_and_until_when),
	    cmocka_unit_test(a_permit_that_only_its_hours_shut_says_when_it_opens),
	    cmocka_unit_test(globs_and_lists_match_any),
	    cmocka_unit_test(numbers_of_statements_are_compared),
	    cmocka_unit_test(
		a_forbidden_relation_is_found_among_others_and_under_an_unqualified_name),
	    cmocka_unit_test(a_permit_for_a_relation_carries_no_other_along),
	    cmocka_unit_test(what_was_not_understood_may_touch_any_relation),
	    cmocka_unit_test(slots_are_filled_by_distinct_people_in_whatever_order),
	    cmocka_unit_test(where_a_rule_says_verify_only_verified_grants_count),
	    cmocka_unit_test(the_owner_does_not_count_and_no_owner_means_nobody_does),
	    cmocka_unit_test(requires_join_by_the_most_people_and_the_shortest_times),
	    cmocka_unit_test(a_quorum_that_the_owner_takes_away_is_said_at_once),
	    cmocka_unit_test(open_slots_are_told_by_role),
	    cmocka_unit_test(the_table_shows_each_key_of_each_rule),
	    cmocka_unit_test(a_bundle_gives_the_verdicts_of_its_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
