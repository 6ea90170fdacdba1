/*
 * What must hold of every policy, over thousands of made ones: an attribute that is not known and
 * more effects never loosen, windows may be cut and joined, grants have no order, a deferred action
 * is never judged more gently than a plain one, and each byte of an action is in its digest.
 */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/xalloc.h"
#include "policy/digest.h"

#include "common/banned.h"

#define ROUNDS 3000

static uint64_t seed = 0x5eed;

static unsigned
rnd(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 11) % n;
}

static bool
one_in(unsigned n)
{
	return rnd(n) == 0;
}

static const char *const effect_sets[] = {"read", "write", "delete", "bulk", "drop", "disrupt",
    "overwrite", "schema", "@data", "@change", "@destructive"};
static const char *const envs[] = {"prod", "staging", "*"};
static const char *const agents[] = {"ci", "script", "c*"};
static const char *const resources[] = {"payments/*", "*/pods/*", "web/secrets/s", "*"};
static const char *const relations[] = {"public.users", "users", "*.orders"};

static void
put_effects(struct buf *b, const char *how)
{
	unsigned n = 1 + rnd(3);

	buf_printf(b, ",\"effects\":{\"%s\":[", how);
	for (unsigned i = 0, k = rnd(4); i < n; i++, k += 1 + rnd(3))
		buf_printf(b, "%s\"%s\"", i != 0 ? "," : "", effect_sets[k % 11]);
	buf_put_z(b, "]}");
}

static void
put_condition(struct buf *b, const char *kind)
{
	buf_printf(b, "\"%s\":{\"env\":\"%s\"", kind, envs[rnd(3)]);
	if (one_in(2))
		buf_printf(b, ",\"agent\":\"%s\"", agents[rnd(3)]);
	if (one_in(3))
		buf_printf(b, ",\"resource\":\"%s\"", resources[rnd(4)]);
	if (one_in(3))
		buf_printf(b, ",\"relation\":\"%s\"", relations[rnd(3)]);
	if (one_in(3))
		buf_printf(b, ",\"during\":[\"%s\"]", one_in(2) ? "a" : "b");
	if (one_in(5))
		buf_put_z(b, ",\"outside\":[\"c\"]");
	if (one_in(5))
		buf_printf(b, ",\"statements\":{\"gt\":%u}", rnd(3));
	put_effects(b, strcmp(kind, "permit") == 0 ? "only" : "any");
	buf_put_c(b, '}');
}

/* once: the windows of calendar a, as text. */
static struct policy *
make_policy(uint64_t of, const char *once)
{
	static const char *const kinds[] = {"permit", "require", "forbid"};
	AUTO_BUF struct buf b = BUF(1 << 16);
	unsigned n;
	uint64_t kept = seed;
	struct policy *p;

	seed = of;
	n = 2 + rnd(8);
	buf_put_z(
	    &b, "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"targets\":{");
	buf_put_z(&b, "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"},");
	buf_put_z(&b, "\"k8s\":{\"kind\":\"k8s\",\"env\":\"prod\"},");
	buf_put_z(&b, "\"stage\":{\"kind\":\"http\",\"env\":\"staging\"}},\"people\":{");
	for (unsigned i = 0; i < 4; i++)
		buf_printf(&b,
		    "%s\"p%u\":{\"roles\":[\"%s\",\"r2\"],\"keys\":[\"ed25519 SHA256:A%u\"]}",
		    i != 0 ? "," : "", i, i % 2 == 0 ? "r0" : "r1", i);
	buf_printf(&b,
	    "},\"calendars\":{\"a\":{\"kind\":\"freeze\",\"tz\":\"Etc/UTC\",\"once\":[%s],"
	    "\"valid\":[\"2026-01-01\",\"2027-01-01\"]},"
	    "\"b\":{\"kind\":\"freeze\",\"tz\":\"Europe/London\",\"weekly\":[{\"from\":\"Fri "
	    "16:00\","
	    "\"to\":\"Mon 08:00\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]},"
	    "\"c\":{\"kind\":\"open\",\"tz\":\"Etc/UTC\",\"weekly\":[{\"from\":\"09:00\",\"to\":"
	    "\"17:00\",\"days\":\"daily\"}],\"valid\":[\"2026-01-01\",\"2027-01-01\"]}},\"rules\":"
	    "[",
	    once);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = i == 0 ? 0 : rnd(3);

		buf_printf(&b, "%s{\"id\":\"r%u\",", i != 0 ? "," : "", i);
		put_condition(&b, kinds[k]);
		if (k == 1)
			buf_printf(&b,
			    ",\"approve\":[{\"role\":\"r%u\",\"count\":1}],\"within\":\"30m\","
			    "\"use_within\":\"5m\"",
			    rnd(3));
		buf_put_z(&b, k == 2 ? ",\"override\":\"never\"}" : "}");
	}
	buf_put_z(&b, "]}");
	seed = kept;
	{
		const struct policy_source src = {.name = "p.json", .opaque_keys = true};
		AUTO(json) struct json_doc *doc = NULL;
		struct err err = {0};

		if (json_parse(buf_str(&b), "p.json", &doc, &err) != 0 ||
		    policy_parse_value(doc, json_root(doc), &src, &p, NULL, &err) != 0)
			fail_msg("%s\n%.*s", err.msg, STR_ARG(buf_str(&b)));
	}
	return p;
}

#define ONCE "{\"from\":\"2026-03-10T00:00\",\"to\":\"2026-03-12T00:00\"}"
#define ONCE_CUT                                                       \
	"{\"from\":\"2026-03-11T06:00\",\"to\":\"2026-03-12T00:00\"}," \
	"{\"from\":\"2026-03-10T00:00\",\"to\":\"2026-03-10T12:00\"}," \
	"{\"from\":\"2026-03-10T11:00\",\"to\":\"2026-03-11T06:00\"}"

static const struct str names[] = {{"payments/pods/p1", 16}, {"payments/pods/*", 15},
    {"*/secrets/*", 11}, {"web/secrets/s", 13}, {"users", 5}, {"public.users", 12},
    {"sales.orders", 12}};

static struct policy_input
make_input(const struct policy *p)
{
	static const char *const targets[] = {"db", "k8s", "stage", "nowhere"};
	struct policy_input in = policy_input_for(p, str_z(targets[rnd(one_in(8) ? 4 : 3)]));

	in.agent = one_in(2) ? STR("ci") : STR("script");
	in.run = STR("r-1");
	in.owner = one_in(2) ? STR("p0") : STR("p3");
	in.effects = 1u << rnd(9);
	if (one_in(2))
		in.effects |= 1u << rnd(9);
	in.statements = 1 + rnd(3);
	in.relations = &names[rnd(5)];
	in.nrelations = rnd(3);
	in.at.known = true;
	/* 2026-03-08 to -15, and at times beyond what any calendar covers */
	in.at.us =
	    (INT64_C(1772928000) + rnd(7 * 86400) + (one_in(16) ? INT64_C(40000000) : 0)) * 1000000;
	return in;
}

static size_t
make_grants(struct policy_grant grants[6])
{
	static const struct str people[] = {{"p0", 2}, {"p1", 2}, {"p2", 2}, {"p3", 2}};
	static const struct str roles[] = {{"r0", 2}, {"r1", 2}, {"r2", 2}};
	size_t n = rnd(6);

	for (size_t i = 0; i < n; i++)
		grants[i] = (struct policy_grant){people[rnd(4)], roles[rnd(3)], false};
	return n;
}

static void
an_unknown_attribute_never_loosens(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		AUTO(policy) struct policy *p = make_policy(i + 1, ONCE);
		struct policy_input in = make_input(p), less = in;
		struct policy_grant g[6];
		size_t n = make_grants(g);
		struct decision a, b;

		switch (rnd(5)) {
		case 0: less.agent = STR_NONE; break;
		case 1: less.env = STR_NONE; break;
		case 2: less.run = STR_NONE; break;
		case 3: less.kind = STR_NONE; break;
		default: less.at.known = false; break;
		}
		policy_eval(p, &in, g, n, &a);
		policy_eval(p, &less, g, n, &b);
		if (b.verdict > a.verdict)
			fail_msg("round %u: %s became %s (%s)", i, verdict_name(a.verdict),
			    verdict_name(b.verdict), b.text);
	}
}

static void
more_effects_never_loosen(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		AUTO(policy) struct policy *p = make_policy(i + 1, ONCE);
		struct policy_input in = make_input(p), more = in;
		struct policy_grant g[6];
		size_t n = make_grants(g);
		struct decision a, b;

		more.effects |= 1u << rnd(EFFECT_COUNT);
		policy_eval(p, &in, g, n, &a);
		policy_eval(p, &more, g, n, &b);
		if (b.verdict > a.verdict)
			fail_msg("round %u: %s became %s (%s)", i, verdict_name(a.verdict),
			    verdict_name(b.verdict), b.text);
	}
}

static void
windows_may_be_cut_and_joined(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		AUTO(policy) struct policy *p = make_policy(i + 1, ONCE);
		AUTO(policy) struct policy *q = make_policy(i + 1, ONCE_CUT);
		struct policy_input in = make_input(p);
		struct policy_grant g[6];
		size_t n = make_grants(g);
		struct decision a, b;

		in.deferred = one_in(4);
		policy_eval(p, &in, g, n, &a);
		policy_eval(q, &in, g, n, &b);
		if (a.verdict != b.verdict || a.until_us != b.until_us || a.nrules != b.nrules)
			fail_msg("round %u: \"%s\" became \"%s\"", i, a.text, b.text);
	}
}

static void
grants_have_no_order(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		AUTO(policy) struct policy *p = make_policy(i + 1, ONCE);
		struct policy_input in = make_input(p);
		struct policy_grant g[6], swapped[6];
		size_t n = make_grants(g);
		struct decision a, b;

		for (size_t k = 0; k < n; k++)
			swapped[n - 1 - k] = g[k];
		if (n > 2) {
			struct policy_grant first = swapped[0];

			swapped[0] = swapped[1];
			swapped[1] = first;
		}
		in.deferred = one_in(4);
		policy_eval(p, &in, g, n, &a);
		policy_eval(p, &in, swapped, n, &b);
		if (a.verdict != b.verdict)
			fail_msg("round %u: %s became %s", i, a.text, b.text);
	}
}

static void
what_acts_later_is_never_judged_more_gently(void **state UNUSED)
{
	unsigned stricter = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		AUTO(policy) struct policy *p = make_policy(i + 1, ONCE);
		struct policy_input in = make_input(p), later = in;
		struct policy_grant g[6];
		size_t n = make_grants(g);
		struct decision a, b;

		later.deferred = true;
		policy_eval(p, &in, g, n, &a);
		policy_eval(p, &later, g, n, &b);
		stricter += b.verdict < a.verdict;
		if (b.verdict > a.verdict)
			fail_msg("round %u: %s became %s", i, a.text, b.text);
		if (b.verdict == VERDICT_NEEDS_APPROVAL && a.verdict != VERDICT_DENY &&
		    b.nslots < a.nslots)
			fail_msg("round %u: slots went away", i);
	}
	assert_true(stricter > ROUNDS / 100);
}

/* On a Wednesday; the weekend and the end of the year are frozen in that policy. */
static void
what_is_laid_down_before_a_freeze_is_the_freezes_business(void **state UNUSED)
{
	AUTO(json) struct json_doc *doc = help_json_file("tests/cases/policy-cases.json");
	AUTO(policy) struct policy *p = help_cases_policy(doc);
	struct policy_input in = policy_input_for(p, STR("prod-k8s"));
	struct decision d;

	in.owner = STR("bob");
	in.at.known = true;
	assert_int_equal(clock_parse(STR("2026-03-11T12:00:00Z"), &in.at.us, NULL), 0);
	in.effects = EFFECT_write;
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.nslots, 1);
	in.deferred = true;
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	assert_int_equal(d.nslots, 3);
	assert_true(str_eqz(d.slots[0].role, "change-manager"));
	assert_non_null(strstr(d.text, "it acts later"));
	in.effects = EFFECT_delete | EFFECT_bulk;
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_DENY);
	assert_true(str_eqz(d.rules[0], "freeze-hard"));
	in.deferred = false;
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	in.effects = EFFECT_read;
	in.deferred = true;
	policy_eval(p, &in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_ALLOW);
}

static struct hash
digest_of(const struct buf *fields, size_t n)
{
	struct digest *d = digest_begin();

	for (size_t i = 0; i < n; i++)
		digest_field(d, (enum digest_tag)(i + 1), buf_str(&fields[i]));
	return digest_end(d);
}

static void
each_byte_of_an_action_is_in_its_digest(void **state UNUSED)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct buf fields[DIGEST_EFFECTS];
		size_t which = rnd(DIGEST_EFFECTS), len;
		struct hash a, b;

		for (size_t k = 0; k < ARRAY_LEN(fields); k++) {
			fields[k] = BUF(64);
			len = k == which ? 1 + rnd(20) : rnd(20);
			for (size_t c = 0; c < len; c++)
				buf_u8(&fields[k], (uint8_t)rnd(256));
		}
		a = digest_of(fields, ARRAY_LEN(fields));
		if (one_in(3))
			buf_u8(&fields[which], 0);
		else
			fields[which].p[rnd((unsigned)fields[which].n)] ^= (uint8_t)(1 + rnd(255));
		b = digest_of(fields, ARRAY_LEN(fields));
		assert_false(hash_eq(&a, &b));
		/* A byte that moves from one field to the next is another action, too. */
		buf_u8(&fields[0], 'x');
		a = digest_of(fields, ARRAY_LEN(fields));
		buf_drop(&fields[0], fields[0].n);
		buf_u8(&fields[1], 'x');
		b = digest_of(fields, ARRAY_LEN(fields));
		assert_false(hash_eq(&a, &b));
		for (size_t k = 0; k < ARRAY_LEN(fields); k++)
			buf_free(&fields[k]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_unknown_attribute_never_loosens),
	    cmocka_unit_test(more_effects_never_loosen),
	    cmocka_unit_test(windows_may_be_cut_and_joined),
	    cmocka_unit_test(grants_have_no_order),
	    cmocka_unit_test(what_acts_later_is_never_judged_more_gently),
	    cmocka_unit_test(what_is_laid_down_before_a_freeze_is_the_freezes_business),
	    cmocka_unit_test(each_byte_of_an_action_is_in_its_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
