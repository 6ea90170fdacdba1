/*
 * What people signed beside the policy, as inputs of a verdict: an exception lifts its rule and
 * break-glass those that say so, on their target, in their run, in their time, for their effects
 * and nothing else; an emergency freeze only forbids.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define KEY_A                                                                              \
	"\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqj" \
	"T4\""
#define KEY_B                                                                              \
	"\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFzm/fuBiwIj2D9Zjoo0H8606hQeRc66EK6kXTepW+" \
	"ee\""
#define TEXT                                                                                       \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"clock\":\"trusted\","  \
	"\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"},"                            \
	"\"stage\":{\"kind\":\"postgres\",\"env\":\"staging\"}},"                                  \
	"\"people\":{\"alice\":{\"roles\":\"dba\",\"keys\":[" KEY_A "]},"                          \
	"\"bob\":{\"roles\":\"oncall\",\"keys\":[" KEY_B "]}},"                                    \
	"\"calendars\":{\"june\":{\"kind\":\"freeze\",\"tz\":\"UTC\",\"once\":[{\"from\":\"2026-"  \
	"06-01T00:00\",\"to\":\"2026-06-02T00:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}}," \
	"\"rules\":["                                                                              \
	"{\"id\":\"all\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@"             \
	"destructive\"]}}},"                                                                       \
	"{\"id\":\"people\",\"require\":{\"effects\":{\"any\":[\"drop\"]}},\"approve\":[{"         \
	"\"role\":\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"},"                \
	"{\"id\":\"hard\",\"forbid\":{\"effects\":{\"any\":[\"@escape\",\"bulk\"]}},\"override\":" \
	"\"never\"},"                                                                              \
	"{\"id\":\"exc\",\"forbid\":{\"env\":\"prod\",\"effects\":{\"any\":[\"write\",\"delete\"," \
	"\"drop\"]}},\"override\":\"exception\"},"                                                 \
	"{\"id\":\"exc2\",\"forbid\":{\"during\":\"june\",\"effects\":{\"any\":[\"delete\"]}},"    \
	"\"override\":\"exception\"},"                                                             \
	"{\"id\":\"glass\",\"forbid\":{\"effects\":{\"any\":[\"schema\",\"drop\"]}},\"override\":" \
	"\"breakglass\",\"why\":\"Ask first.\"}]}"

#define AT "2026-03-11T12:00:00Z"
#define MINUTE ((int64_t)60000000)

static int64_t
instant(const char *at)
{
	int64_t us = 0;

	assert_int_equal(clock_parse(str_z(at), &us, NULL), 0);
	return us;
}

static struct policy_input
action(const struct policy *p, const char *target, uint32_t effects)
{
	struct policy_input in = policy_input_for(p, str_z(target));

	in.effects = effects;
	in.agent = STR("script");
	in.run = STR("r-1");
	in.owner = STR("bob");
	in.at = (struct instant){instant(AT), true};
	return in;
}

static struct policy_lift
exception(const char *id, const char *rule, uint32_t effects)
{
	return (struct policy_lift){.kind = LIFT_EXCEPTION,
	    .id = str_z(id),
	    .rule = str_z(rule),
	    .target = STR("db"),
	    .effects = effects,
	    .from_us = instant(AT) - MINUTE,
	    .to_us = instant(AT) + MINUTE};
}

static struct policy_lift
breakglass(const char *id, uint32_t effects)
{
	struct policy_lift l = exception(id, "", effects);

	l.kind = LIFT_BREAKGLASS;
	return l;
}

static struct decision
judge(const struct policy *p, struct policy_input in, const struct policy_lift *l, size_t n)
{
	struct decision d;

	in.lifts = l;
	in.nlifts = n;
	policy_eval(p, &in, NULL, 0, &d);
	return d;
}

static void
assert_lifted(const struct decision *d, const char *want)
{
	AUTO_BUF struct buf b = BUF(4096);
	AUTO_FREE char *got = NULL;

	for (size_t i = 0; i < d->nlifted; i++)
		buf_printf(&b, "%s%.*s", i != 0 ? " " : "", STR_ARG(d->lifted[i]));
	got = buf_dup_z(&b);
	assert_string_equal(got, want);
}

/* --- exceptions ---------------------------------------------------------------------- */

static void
an_exception_lifts_its_rule_and_is_named(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift l = exception("x-1", "exc", EFFECT_write);
	struct decision d = judge(p, action(p, "db", EFFECT_write | EFFECT_read), &l, 1);

	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_lifted(&d, "x-1");
	assert_string_equal(d.text, "allowed by policy: rule all; exception x-1 lifts rule exc");
	d = judge(p, action(p, "db", EFFECT_write), NULL, 0);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_string_equal(d.text, "denied by policy: rule exc");
	/* Where it is not needed it is not named, so no use of it is spent. */
	d = judge(p, action(p, "db", EFFECT_read), &l, 1);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_lifted(&d, "");
}

static void
an_exception_lifts_no_other_rule(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_input june = action(p, "db", EFFECT_delete);
	struct policy_lift l[2] = {
	    exception("x-1", "exc", EFFECT_delete), exception("x-2", "exc2", EFFECT_delete)};
	struct decision d;

	june.at.us = instant("2026-06-01T12:00:00Z");
	for (int i = 0; i < 2; i++) {
		l[i].from_us = june.at.us;
		l[i].to_us = june.at.us + 1;
	}
	d = judge(p, june, l, 1);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_int_equal(d.nrules, 1);
	assert_true(str_eqz(d.rules[0], "exc2"));
	assert_lifted(&d, ""); /* nothing was let through by it */
	d = judge(p, june, l, 2);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_lifted(&d, "x-1 x-2");
}

static void
an_exception_lifts_neither_never_nor_breakglass(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift never = exception("x", "hard", EFFECT_bulk),
			   glass = exception("x", "glass", EFFECT_schema),
			   nameless = exception("x", "", EFFECT_write);

	assert_int_equal(judge(p, action(p, "db", EFFECT_bulk), &never, 1).verdict, VERDICT_DENY);
	assert_int_equal(judge(p, action(p, "db", EFFECT_schema), &glass, 1).verdict, VERDICT_DENY);
	assert_int_equal(
	    judge(p, action(p, "db", EFFECT_write), &nameless, 1).verdict, VERDICT_DENY);
}

static void
a_lift_holds_for_its_target_run_time_and_effects_alone(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	const struct policy_lift good = exception("x", "exc", EFFECT_write);
	const struct policy_input in = action(p, "db", EFFECT_write);
	struct policy_lift l = good;
	struct policy_input other = in;

	l.run = STR("r-1");
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_ALLOW);
	l.run = STR("r-2");
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	l.run = STR("r-1");
	other.run = STR_NONE;
	assert_int_equal(judge(p, other, &l, 1).verdict, VERDICT_DENY);

	l = good;
	l.target = STR("stage");
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	l.target = STR("d*"); /* a name, never a pattern */
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	l.target = STR("");
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);

	l = good;
	l.effects = EFFECT_delete;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	l.effects = 0;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	l.effects = EFFECT_write;
	other = in;
	other.effects = EFFECT_write | EFFECT_delete; /* one effect more than was signed */
	assert_int_equal(judge(p, other, &l, 1).verdict, VERDICT_DENY);
}

static void
a_lift_is_half_open_and_needs_the_clock(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift l = exception("x", "exc", EFFECT_write);
	struct policy_input in = action(p, "db", EFFECT_write);

	in.at.us = l.from_us;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_ALLOW);
	in.at.us = l.from_us - 1;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	in.at.us = l.to_us - 1;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_ALLOW);
	in.at.us = l.to_us;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
	in.at.us = l.from_us;
	in.at.known = false;
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
}

/* --- break-glass --------------------------------------------------------------------- */

static void
breakglass_lifts_rules_that_say_so_and_keeps_the_signatures_asked_for(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift l[2] = {breakglass("b-1", EFFECT_schema | EFFECT_drop | EFFECT_bulk),
	    exception("x-1", "exc", EFFECT_drop)};
	struct decision d = judge(p, action(p, "db", EFFECT_schema), l, 1);

	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_lifted(&d, "b-1");
	assert_string_equal(
	    d.text, "allowed by policy: rule all; break-glass b-1 lifts what forbids it");
	/* "never" and "exception" stay. */
	assert_int_equal(judge(p, action(p, "db", EFFECT_bulk), l, 1).verdict, VERDICT_DENY);
	d = judge(p, action(p, "db", EFFECT_drop), l, 1);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_true(str_eqz(d.rules[0], "exc"));
	/* Where both are signed, what a require rule asks for is still asked for. */
	d = judge(p, action(p, "db", EFFECT_drop), l, 2);
	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	assert_lifted(&d, "x-1 b-1");
}

static void
a_lift_permits_nothing_by_itself(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift l = breakglass("b", EFFECT_schema);
	struct policy_input in = action(p, "db", EFFECT_schema);

	l.target = in.target = STR("elsewhere");
	assert_int_equal(judge(p, in, &l, 1).verdict, VERDICT_DENY);
}

static void
of_several_lifts_the_one_in_use_is_taken(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_lift l[3] = {breakglass("b-1", EFFECT_drop), breakglass("b-2", EFFECT_schema),
	    breakglass("b-3", EFFECT_schema)};
	struct decision d = judge(p, action(p, "db", EFFECT_schema), l, 3);

	assert_int_equal(d.verdict, VERDICT_ALLOW);
	assert_lifted(&d, "b-2");
}

/* A use that the decision cannot name would be one that nobody counts. */
static void
more_lifts_than_a_decision_can_name_are_a_denial(void **state UNUSED)
{
	AUTO_BUF struct buf text = BUF(16384);
	AUTO(policy) struct policy *p = NULL;
	AUTO_FREE char *z = NULL;
	struct policy_lift l[DECISION_LIFTED_MAX + 1];
	char id[DECISION_LIFTED_MAX + 1][8];
	struct decision d;

	buf_put_z(&text,
	    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"targets\":{"
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"}},\"rules\":[{\"id\":\"all\","
	    "\"permit\":{\"effects\":{\"only\":[\"write\"]}}}");
	for (unsigned i = 0; i <= DECISION_LIFTED_MAX; i++) {
		(void)snprintf(id[i], sizeof(id[i]), "f%u", i);
		buf_printf(&text,
		    ",{\"id\":\"%s\",\"forbid\":{\"effects\":{\"any\":[\"write\"]}},"
		    "\"override\":\"exception\"}",
		    id[i]);
		l[i] = exception(id[i], id[i], EFFECT_write);
	}
	buf_put_z(&text, "]}");
	z = buf_dup_z(&text);
	p = help_policy(z);
	d = judge(p, action(p, "db", EFFECT_write), l, ARRAY_LEN(l));
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_int_equal(d.nrules, 1);
	assert_int_equal(d.nlifted, 0);
}

/* --- emergency freezes --------------------------------------------------------------- */

static struct decision
judge_frozen(const struct policy *p, struct policy_input in, struct policy_overlay o,
    const struct policy_lift *l, size_t n)
{
	struct decision d;

	in.overlays = &o;
	in.noverlays = 1;
	in.lifts = l;
	in.nlifts = n;
	policy_eval(p, &in, NULL, 0, &d);
	return d;
}

static void
an_emergency_freeze_forbids_what_it_names(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_input in = action(p, "stage", EFFECT_write);
	struct policy_overlay o = {.id = STR("f-1"),
	    .why = STR("Disk is failing."),
	    .target = STR("stage"),
	    .env = STR("staging"),
	    .effects = EFFECT_write | EFFECT_drop,
	    .from_us = instant(AT)};
	struct decision d = judge_frozen(p, in, o, NULL, 0);

	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_int_equal(d.noverlays, 1);
	assert_string_equal(d.text, "denied by policy: emergency freeze f-1: Disk is failing.");
	assert_int_equal(judge(p, in, NULL, 0).verdict, VERDICT_ALLOW);

	/* Its nearest neighbours pass. */
	in.effects = EFFECT_delete;
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	in = action(p, "stage", EFFECT_write);
	in.at.us--;
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	in = action(p, "stage", EFFECT_write);
	o.target = STR("db");
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	o.target = STR("stage");
	o.env = STR("prod");
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	o.target = o.env = STR("");
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_DENY);
}

static void
an_emergency_freeze_takes_what_is_unknown_for_its_own(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_overlay o = {.id = STR("f-1"),
	    .env = STR("prod"),
	    .effects = EFFECT_write,
	    .from_us = instant(AT) + MINUTE};
	struct policy_input in = action(p, "stage", EFFECT_write);

	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	in.at.known = false; /* it may have begun, but it is not for staging */
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_ALLOW);
	in.env = STR_NONE;
	assert_int_equal(judge_frozen(p, in, o, NULL, 0).verdict, VERDICT_DENY);
}

static void
nothing_lifts_an_emergency_freeze(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	struct policy_overlay o = {.id = STR("f-1"), .effects = EFFECT_schema | EFFECT_write};
	struct policy_lift l[3] = {breakglass("b", EFFECT_schema | EFFECT_write),
	    exception("x", "f-1", EFFECT_schema | EFFECT_write),
	    exception("y", "exc", EFFECT_schema | EFFECT_write)};
	struct decision d = judge_frozen(p, action(p, "db", EFFECT_schema), o, l, 3);

	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_lifted(&d, "");
	assert_int_equal(judge(p, action(p, "db", EFFECT_schema), l, 3).verdict, VERDICT_ALLOW);
	/* Beside a rule both are named, the freeze first. */
	d = judge_frozen(p, action(p, "db", EFFECT_write), o, NULL, 0);
	assert_string_equal(d.text, "denied by policy: emergency freeze f-1, rule exc");
}

/* --- what holds for all of them ------------------------------------------------------ */

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

static uint32_t
random_effects(uint64_t *s)
{
	return next_random(s) & next_random(s) & next_random(s) & 0x1ffff;
}

static const char *const ids[] = {"db", "stage", NULL};
static const char *const runs[] = {"r-1", "r-2", NULL};

static struct policy_input
random_input(uint64_t *s)
{
	static const char *const envs[] = {"prod", "staging", NULL};
	struct policy_input in = {.target = pick(s, ids, 3),
	    .kind = STR("postgres"),
	    .env = pick(s, envs, 3),
	    .agent = STR("script"),
	    .run = pick(s, runs, 3),
	    .owner = STR("bob"),
	    .effects = random_effects(s) & ~(next_random(s) % 2 != 0 ? EFFECT_SET_ESCAPE : 0u),
	    .statements = 1};

	in.at.known = next_random(s) % 8 != 0;
	in.at.us = instant(AT) + (int64_t)(next_random(s) % 5) * MINUTE;
	return in;
}

static struct policy_lift
random_lift(uint64_t *s)
{
	static const char *const rules[] = {"exc", "exc2", "glass", "hard", ""};
	struct policy_lift l = {.kind = next_random(s) % 2 != 0 ? LIFT_EXCEPTION : LIFT_BREAKGLASS,
	    .id = STR("l"),
	    .rule = pick(s, rules, 5),
	    .target = pick(s, ids, 2),
	    .run = pick(s, runs, 3),
	    .effects = random_effects(s) | random_effects(s),
	    .from_us = instant(AT) + (int64_t)(next_random(s) % 5) * MINUTE};

	l.to_us = l.from_us + (int64_t)(next_random(s) % 3) * MINUTE;
	return l;
}

static bool
covers(const struct policy_lift *l, const struct policy_input *in)
{
	uint32_t effects = in->effects != 0 ? in->effects : EFFECT_opaque;

	return in->target.p != NULL && str_eq(l->target, in->target) &&
	       (l->run.n == 0 || (in->run.p != NULL && str_eq(l->run, in->run))) &&
	       (effects & ~(l->effects | EFFECT_read | EFFECT_txn)) == 0 && in->at.known &&
	       in->at.us >= l->from_us && in->at.us < l->to_us;
}

/* Verdicts in order of what they let through; deny is the zero value. */
static void
a_lift_never_loosens_beyond_what_it_names(void **state UNUSED)
{
	AUTO(policy) struct policy *p = help_policy(TEXT);
	size_t used = 0, loosened = 0;
	uint64_t seed = 7;

	for (int i = 0; i < 200000; i++) {
		struct policy_input in = random_input(&seed);
		struct policy_lift l = random_lift(&seed);
		struct decision with = judge(p, in, &l, 1), without = judge(p, in, NULL, 0);

		assert_true(with.verdict >= without.verdict); /* it tightens nothing */
		assert_int_equal(with.nlifted != 0, with.verdict != without.verdict);
		if (with.verdict == without.verdict)
			continue;
		loosened++;
		assert_true(covers(&l, &in));
		assert_int_equal(without.verdict, VERDICT_DENY);
		for (size_t k = 0; k < without.nrules; k++) {
			assert_false(str_eqz(without.rules[k], "hard"));
			assert_false(str_eqz(without.rules[k], "default"));
			if (l.kind == LIFT_EXCEPTION)
				assert_true(str_eq(without.rules[k], l.rule));
			else
				assert_true(str_eqz(without.rules[k], "glass"));
		}
		used += with.verdict == VERDICT_ALLOW;
	}
	assert_true(loosened > 20 && used > 20); /* the inputs reach it */
}

static void
an_overlay_never_loosens(void **state UNUSED)
{
	static const char *const envs[] = {"prod", "staging", ""};
	AUTO(policy) struct policy *p = help_policy(TEXT);
	size_t tightened = 0;
	uint64_t seed = 9;

	for (int i = 0; i < 200000; i++) {
		struct policy_input in = random_input(&seed);
		struct policy_lift l = random_lift(&seed);
		struct policy_overlay o = {.id = STR("f"),
		    .target = pick(&seed, ids, 3),
		    .env = pick(&seed, envs, 3),
		    .effects = random_effects(&seed),
		    .from_us = instant(AT) + (int64_t)(next_random(&seed) % 5) * MINUTE};
		struct decision with = judge_frozen(p, in, o, &l, 1), without;

		without = judge(p, in, &l, 1);
		if (with.verdict == without.verdict)
			continue;
		tightened++;
		assert_int_equal(with.verdict, VERDICT_DENY);
	}
	assert_true(tightened > 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_exception_lifts_its_rule_and_is_named),
	    cmocka_unit_test(an_exception_lifts_no_other_rule),
	    cmocka_unit_test(an_exception_lifts_neither_never_nor_breakglass),
	    cmocka_unit_test(a_lift_holds_for_its_target_run_time_and_effects_alone),
	    cmocka_unit_test(a_lift_is_half_open_and_needs_the_clock),
	    cmocka_unit_test(breakglass_lifts_rules_that_say_so_and_keeps_the_signatures_asked_for),
	    cmocka_unit_test(a_lift_permits_nothing_by_itself),
	    cmocka_unit_test(of_several_lifts_the_one_in_use_is_taken),
	    cmocka_unit_test(more_lifts_than_a_decision_can_name_are_a_denial),
	    cmocka_unit_test(an_emergency_freeze_forbids_what_it_names),
	    cmocka_unit_test(an_emergency_freeze_takes_what_is_unknown_for_its_own),
	    cmocka_unit_test(nothing_lifts_an_emergency_freeze),
	    cmocka_unit_test(a_lift_never_loosens_beyond_what_it_names),
	    cmocka_unit_test(an_overlay_never_loosens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
