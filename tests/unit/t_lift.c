/* Freezes, exceptions, break-glass: the signed bytes of docs/format-lift.md, what may be asked for,
 * and who must sign. */
#include "tests/unit/policy_help.h"

#include "common/hash.h"
#include "common/xalloc.h"
#include "policy/lift.h"
#include "policy/statement.h"

#include "common/banned.h"

#define KEY(n) "\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" n "\""
#define KEY_A KEY("PqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4")
#define KEY_B KEY("Fzm/fuBiwIj2D9Zjoo0H8606hQeRc66EK6kXTepW+ee")
#define POLICY(more)                                                                              \
	"{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1," more                  \
	"\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\"},"                           \
	"\"stage\":{\"kind\":\"postgres\",\"env\":\"staging\"}},"                                 \
	"\"people\":{\"alice\":{\"roles\":[\"dba\",\"change-manager\"],\"keys\":[" KEY_A "]},"    \
	"\"bob\":{\"roles\":[\"oncall\",\"breakglass\"],\"keys\":[" KEY_B "]}},"                  \
	"\"rules\":["                                                                             \
	"{\"id\":\"all\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@destructive" \
	"\"]}}},"                                                                                 \
	"{\"id\":\"drops\",\"require\":{\"env\":\"prod\",\"effects\":{\"any\":[\"drop\"]}},"      \
	"\"approve\":[{\"role\":\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}," \
	"{\"id\":\"ours\",\"require\":{\"agent\":\"script\",\"effects\":{\"any\":[\"delete\"]}}," \
	"\"approve\":[{\"role\":\"oncall\",\"count\":1}],\"within\":\"30m\",\"use_within\":"      \
	"\"5m\"},"                                                                                \
	"{\"id\":\"never\",\"forbid\":{\"effects\":{\"any\":[\"@escape\"]}},\"override\":"        \
	"\"never\"},"                                                                             \
	"{\"id\":\"exc\",\"forbid\":{\"env\":\"prod\",\"effects\":{\"any\":[\"delete\",\"drop\"]" \
	"}},\"override\":\"exception\"},"                                                         \
	"{\"id\":\"glass\",\"forbid\":{\"env\":\"prod\",\"effects\":{\"any\":[\"delete\"]}},"     \
	"\"override\":\"breakglass\"},"                                                           \
	"{\"id\":\"few\",\"require\":{\"effects\":{\"only\":[\"schema\",\"read\"]}},"             \
	"\"approve\":[{\"role\":\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}]}"
#define HOUR ((int64_t)3600 * 1000000)
#define NOW ((int64_t)1773230400 * 1000000) /* 2026-03-11T12:00:00Z */

/* --- the text's vectors ------------------------------------------------------------- */

static struct str
vector(const struct buf *doc, const char *name)
{
	AUTO_FREE char *mark = xasprintf("\n<!-- vector %s -->\n```\n", name);
	const char *begin = memmem(doc->p, doc->n, mark, strlen(mark)), *end;

	if (begin == NULL)
		fail_msg("the text has no vector %s", name);
	begin += strlen(mark);
	end = memmem(begin, doc->n - (size_t)(begin - (const char *)doc->p), "\n```\n", 5);
	assert_non_null(end);
	return str_mem(begin, (size_t)(end - begin) + 1);
}

static void
assert_vector(const struct buf *doc, const struct lift *l, const struct lift_signer *s)
{
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	struct str want = vector(doc, lift_kind_name(l->kind));
	char hex[HASH_HEX_SIZE];
	struct hash h;
	struct err err;

	if (lift_bytes(l, s, &b, &err) != 0)
		fail_msg("%s", err.msg);
	if (!str_eq(buf_str(&b), want))
		fail_msg(
		    "the code says\n%.*sthe text says\n%.*s", STR_ARG(buf_str(&b)), STR_ARG(want));
	h = hash_sha256(want);
	hash_hex(&h, hex);
	if (memmem(doc->p, doc->n, hex, strlen(hex)) == NULL)
		fail_msg("the text does not have %s", hex);
}

static struct lift
base(enum lift_kind k)
{
	return (struct lift){.kind = k,
	    .id = STR("aaaaaaaaaaaaaaaaaaaaaaaaaa"),
	    .broker =
		STR("sha256:1111111111111111111111111111111111111111111111111111111111111111"),
	    .policy =
		STR("sha256:3333333333333333333333333333333333333333333333333333333333333333"),
	    .log_head = STR("acme-prod 17 q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="),
	    .sign_by_us = NOW + 605 * INT64_C(1000000)};
}

static void
the_statements_of_the_text_are_ours(void **state)
{
	AUTO_BUF struct buf doc = BUF(1 << 20);
	struct lift f = base(LIFT_KIND_FREEZE), x = base(LIFT_KIND_EXCEPTION),
		    g = base(LIFT_KIND_BREAKGLASS);

	(void)state;
	help_read_file("docs/format-lift.md", &doc);
	f.env = STR("prod");
	f.effects = EFFECT_delete | EFFECT_drop;
	f.reason = STR("100% of the disk is failing");
	assert_vector(&doc, &f,
	    &(struct lift_signer){
		.decision = LIFT_START, .role = STR("any"), .person = STR("alice")});
	x.rule = STR("nightly-batch");
	x.target = STR("prod-db");
	x.effects = EFFECT_delete;
	x.from_us = NOW;
	x.to_us = x.sign_by_us = NOW + 2 * HOUR;
	x.uses = 3;
	x.ticket = STR("CHG-1234");
	x.reason = STR("the vendor's fix");
	assert_vector(&doc, &x,
	    &(struct lift_signer){.decision = LIFT_START,
		.role = STR("change-manager"),
		.person = STR("carol"),
		.note = STR("agreed in the morning meeting")});
	g.target = STR("prod-db");
	g.run = STR("r-1");
	g.effects = EFFECT_bulk | EFFECT_drop;
	g.seconds = 1800;
	g.reason = STR("restore after the outage");
	assert_vector(&doc, &g,
	    &(struct lift_signer){.decision = LIFT_CLOSE,
		.role = STR("any"),
		.person = STR("dana"),
		.note = STR("INC-77, all 3 statements looked at")});
}

static void
each_part_changes_the_bytes(void **state)
{
	AUTO_BUF struct buf was = BUF(STATEMENT_MAX), now = BUF(STATEMENT_MAX);
	struct lift x = base(LIFT_KIND_EXCEPTION), y;
	struct lift_signer s = {.decision = LIFT_START, .role = STR("dba"), .person = STR("alice")};

	(void)state;
	x.rule = x.target = x.ticket = x.reason = STR("a");
	x.effects = EFFECT_delete;
	x.uses = 1;
	assert_int_equal(lift_bytes(&x, &s, &was, NULL), 0);
#define CHANGED(change)                                              \
	do {                                                         \
		y = x;                                               \
		change;                                              \
		buf_reset(&now);                                     \
		assert_int_equal(lift_bytes(&y, &s, &now, NULL), 0); \
		assert_false(str_eq(buf_str(&was), buf_str(&now)));  \
	} while (0)
	CHANGED(y.id = STR("b"));
	CHANGED(y.broker = STR("b"));
	CHANGED(y.policy = STR("b"));
	CHANGED(y.log_head = STR("b"));
	CHANGED(y.rule = STR("b"));
	CHANGED(y.target = STR("b"));
	CHANGED(y.run = STR("b"));
	CHANGED(y.effects |= EFFECT_drop);
	CHANGED(y.from_us += 1000000);
	CHANGED(y.to_us += 1000000);
	CHANGED(y.uses = 2);
	CHANGED(y.ticket = STR("b"));
	CHANGED(y.reason = STR("b"));
	CHANGED(y.sign_by_us += 1000000);
	s.decision = LIFT_STOP;
	CHANGED(y.uses = 1);
	s = (struct lift_signer){
	    .decision = LIFT_START, .role = STR("oncall"), .person = STR("alice")};
	CHANGED(y.uses = 1);
	s = (struct lift_signer){.decision = LIFT_START, .role = STR("dba"), .person = STR("bob")};
	CHANGED(y.uses = 1);
	s = (struct lift_signer){
	    .decision = LIFT_START, .role = STR("dba"), .person = STR("alice"), .note = STR("n")};
	CHANGED(y.uses = 1);
	s.decision = LIFT_CLOSE; /* an exception has none */
	assert_int_equal(lift_bytes(&x, &s, &now, NULL), ERR_INVALID);
	s.decision = LIFT_START;
	s.person = STR("");
	assert_int_equal(lift_bytes(&x, &s, &now, NULL), ERR_INVALID);
}

/* --- what may be asked for ----------------------------------------------------------- */

static struct lift
asked(enum lift_kind k)
{
	struct lift l = {
	    .kind = k, .target = STR("db"), .effects = EFFECT_delete, .reason = STR("why")};

	if (k == LIFT_KIND_EXCEPTION) {
		l.rule = STR("exc");
		l.from_us = NOW;
		l.to_us = NOW + HOUR;
		l.uses = 1;
		l.ticket = STR("CHG-1");
	}
	if (k == LIFT_KIND_BREAKGLASS)
		l.seconds = 3600;
	return l;
}

static void
assert_refused(const struct policy *p, const struct lift *l, const char *words)
{
	struct err err = {0};

	assert_int_not_equal(lift_check(l, p, NOW, &err), 0);
	if (strstr(err.msg, words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
}
#define REFUSED(k, change, words)                                 \
	do {                                                      \
		struct lift l_ = asked(k);                        \
		struct lift *l = &l_;                             \
		assert_int_equal(lift_check(l, p, NOW, NULL), 0); \
		change;                                           \
		assert_refused(p, l, words);                      \
	} while (0)

static void
an_exception_is_of_a_rule_that_allows_it_and_has_an_end(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));
	struct lift whole = asked(LIFT_KIND_EXCEPTION);
	char long_reason[LIFT_REASON_MAX + 2];

	(void)state;
	REFUSED(LIFT_KIND_EXCEPTION, l->rule = STR("never"), "override");
	REFUSED(LIFT_KIND_EXCEPTION, l->rule = STR("drops"), "no forbid rule");
	REFUSED(LIFT_KIND_EXCEPTION, l->rule = STR("nothing"), "no forbid rule");
	REFUSED(LIFT_KIND_EXCEPTION, l->target = STR(""), "target");
	REFUSED(LIFT_KIND_EXCEPTION, l->target = STR("other"), "no target \"other\"");
	REFUSED(LIFT_KIND_EXCEPTION, l->effects = 0, "effects");
	REFUSED(LIFT_KIND_EXCEPTION, l->to_us = l->from_us, "after it begins");
	REFUSED(LIFT_KIND_EXCEPTION, l->from_us -= 2 * HOUR; l->to_us = NOW, "after now");
	REFUSED(LIFT_KIND_EXCEPTION, l->to_us = NOW + 24 * HOUR + 1000000, "limit 86400");
	REFUSED(LIFT_KIND_EXCEPTION, l->effects = EFFECT_schema | EFFECT_write,
	    "rule exc forbids none of these effects on db: nothing would be lifted");
	REFUSED(LIFT_KIND_EXCEPTION, l->target = STR("stage"), "effects on stage");
	REFUSED(LIFT_KIND_EXCEPTION, l->uses = 0, "uses");
	REFUSED(LIFT_KIND_EXCEPTION, l->uses = 1001, "uses");
	REFUSED(LIFT_KIND_EXCEPTION, l->ticket = STR(""), "ticket");
	REFUSED(LIFT_KIND_EXCEPTION, l->reason = STR(""), "reason");
	REFUSED(LIFT_KIND_EXCEPTION, l->reason = STR("a\nb"), "printable");
	memset(long_reason, 'x', sizeof(long_reason));
	REFUSED(
	    LIFT_KIND_EXCEPTION, l->reason = str_mem(long_reason, LIFT_REASON_MAX + 1), "1 to 256");
	whole.to_us = NOW + 24 * HOUR;
	whole.uses = 1000;
	whole.reason = str_mem(long_reason, LIFT_REASON_MAX);
	assert_int_equal(lift_check(&whole, p, NOW, NULL), 0);
}

static void
a_freeze_that_nothing_could_fall_under_is_refused(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));

	(void)state;
	REFUSED(LIFT_KIND_FREEZE, l->target = STR(""); l->env = STR("prd"),
		"no target of the policy is in env \"prd\" (db is in prod, stage is in staging)");
	REFUSED(LIFT_KIND_FREEZE, l->target = STR("db"); l->env = STR("staging"),
		"target db is in env prod, not in \"staging\": nothing would be frozen");
	for (int i = 0; i < 4; i++) {
		struct lift l = asked(LIFT_KIND_FREEZE);

		l.target = (i & 1) != 0 ? STR("db") : STR("");
		l.env = (i & 2) != 0 ? STR("prod") : STR("");
		assert_int_equal(lift_check(&l, p, NOW, NULL), 0);
	}
}

static void
break_glass_is_an_hour_at_most_or_what_the_policy_says(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));
	AUTO(policy)
	struct policy *strict = help_policy(
	    POLICY("\"emergency\":{\"breakglass\":{\"max\":\"30m\",\"key\":\"verified\","
		   "\"answer_within\":\"0s\"}},"));
	struct lift whole = asked(LIFT_KIND_BREAKGLASS);

	(void)state;
	REFUSED(LIFT_KIND_BREAKGLASS, l->seconds = 3601, "3600");
	REFUSED(LIFT_KIND_BREAKGLASS, l->seconds = 0, "from 1");
	REFUSED(LIFT_KIND_BREAKGLASS, l->target = STR(""), "target");
	REFUSED(LIFT_KIND_BREAKGLASS, l->effects = EFFECT_drop, "nothing would be lifted");
	REFUSED(LIFT_KIND_BREAKGLASS, l->target = STR("stage"), "nothing would be lifted");
	assert_refused(strict, &whole, "1800");
	whole.seconds = 1800;
	assert_int_equal(lift_check(&whole, strict, NOW, NULL), 0);
	assert_true(policy_emergency(strict).glass_verified);
	assert_int_equal(policy_emergency(strict).glass_answer_s, 0);
	assert_false(policy_emergency(p).glass_verified);
	assert_int_equal(policy_emergency(p).glass_answer_s, 300);
}

static void
a_freeze_may_be_of_everything(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));
	struct lift whole = asked(LIFT_KIND_FREEZE);

	(void)state;
	REFUSED(LIFT_KIND_FREEZE, l->target = STR("other"), "no target");
	REFUSED(LIFT_KIND_FREEZE, l->env = STR("a b"), "env");
	whole.target = STR("");
	assert_int_equal(lift_check(&whole, p, NOW, NULL), 0);
}

/* --- who must sign --------------------------------------------------------------------- */

static void
assert_slots(const struct policy *p, uint32_t effects, const char *target, const char *want)
{
	struct lift l = asked(LIFT_KIND_EXCEPTION);
	struct policy_slot s[POLICY_SLOTS_MAX];
	AUTO_BUF struct buf b = BUF(1024);
	size_t n;

	l.effects = effects;
	l.target = str_z(target);
	assert_true(lift_slots(p, &l, s, &n));
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%.*s:%u", i != 0 ? " " : "", STR_ARG(s[i].role), s[i].count);
	if (!str_eqz(buf_str(&b), want))
		fail_msg("%.*s, wanted %s", STR_ARG(buf_str(&b)), want);
}

static void
an_exception_needs_its_actions_people_and_a_change_manager(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));

	(void)state;
	assert_slots(p, EFFECT_write, "db", "change-manager:1");
	assert_slots(p, EFFECT_drop, "db", "change-manager:1 dba:1");
	assert_slots(p, EFFECT_drop, "stage", "change-manager:1");
	/* Of what it covers an action may have a part, which a rule with "only" asks for. */
	assert_slots(p, EFFECT_schema | EFFECT_write, "db", "change-manager:1 dba:1");
	/* Which agent it will be is not known: a rule for one may ask. */
	assert_slots(p, EFFECT_delete, "stage", "change-manager:1 oncall:1");
	assert_slots(p, EFFECT_delete | EFFECT_drop, "db", "change-manager:1 dba:1 oncall:1");
}

static bool
fits(const struct policy *p, enum lift_kind k, enum lift_decision d, const char *person,
    const char *role)
{
	struct lift l = asked(k);
	const struct policy_person *q = policy_person(p, str_z(person));

	l.effects = EFFECT_drop;
	assert_non_null(q);
	return lift_role_fits(p, &l, d, q, str_z(role));
}

static void
roles_are_held_and_asked_for(void **state)
{
	AUTO(policy) struct policy *p = help_policy(POLICY(""));

	(void)state;
	assert_true(fits(p, LIFT_KIND_FREEZE, LIFT_START, "alice", "any"));
	assert_false(fits(p, LIFT_KIND_FREEZE, LIFT_START, "alice", "dba"));
	assert_true(fits(p, LIFT_KIND_EXCEPTION, LIFT_START, "alice", "dba"));
	assert_true(fits(p, LIFT_KIND_EXCEPTION, LIFT_START, "alice", "change-manager"));
	assert_false(fits(p, LIFT_KIND_EXCEPTION, LIFT_START, "bob", "change-manager"));
	assert_false(fits(p, LIFT_KIND_EXCEPTION, LIFT_START, "bob", "oncall"));
	assert_false(fits(p, LIFT_KIND_EXCEPTION, LIFT_START, "bob", "any"));
	assert_true(fits(p, LIFT_KIND_EXCEPTION, LIFT_STOP, "bob", "any"));
	assert_true(fits(p, LIFT_KIND_BREAKGLASS, LIFT_START, "bob", "breakglass"));
	assert_false(fits(p, LIFT_KIND_BREAKGLASS, LIFT_START, "alice", "breakglass"));
	assert_false(fits(p, LIFT_KIND_BREAKGLASS, LIFT_START, "bob", "any"));
	assert_true(fits(p, LIFT_KIND_BREAKGLASS, LIFT_CLOSE, "alice", "any"));
}

static void
a_policy_may_name_who_freezes_and_then_two_must_be_able_to_lift(void **state)
{
	AUTO(policy)
	struct policy *p = help_policy(POLICY("\"emergency\":{\"freeze\":[\"dba\",\"oncall\"]},"));
	AUTO(policy) struct policy *again = NULL;
	AUTO_BUF struct buf warnings = BUF(65536);
	struct policy *none = NULL;
	struct err err = {0};

	(void)state;
	assert_true(fits(p, LIFT_KIND_FREEZE, LIFT_START, "alice", "dba"));
	assert_true(fits(p, LIFT_KIND_FREEZE, LIFT_STOP, "bob", "oncall"));
	assert_false(fits(p, LIFT_KIND_FREEZE, LIFT_START, "alice", "any"));
	assert_false(fits(p, LIFT_KIND_FREEZE, LIFT_START, "alice", "oncall"));
	assert_int_not_equal(policy_parse(str_z(POLICY("\"emergency\":{\"freeze\":[\"dba\"]},")),
				 "p.json", NULL, NULL, &none, &warnings, &err),
	    0);
	assert_non_null(strstr(err.msg, "lifted by 2 people"));
	assert_non_null(strstr(err.msg, "p.json:1:"));
	assert_int_not_equal(policy_parse(str_z(POLICY("\"emergency\":{\"brakeglass\":{}},")),
				 "p.json", NULL, NULL, &none, &warnings, &err),
	    0);
	assert_non_null(strstr(err.msg, "unknown key"));
	assert_int_not_equal(
	    policy_parse(str_z(POLICY("\"emergency\":{\"breakglass\":{\"max\":\"61m\"}},")),
		"p.json", NULL, NULL, &none, &warnings, &err),
	    0);
	assert_non_null(strstr(err.msg, "3600"));
	again = help_policy(POLICY(""));
	assert_false(hash_eq(policy_digest(p), policy_digest(again)));
}

static void
names_read_back(void **state)
{
	(void)state;
	for (int k = LIFT_KIND_FREEZE; k <= LIFT_KIND_BREAKGLASS; k++) {
		enum lift_kind kind;

		assert_true(lift_kind_parse(str_z(lift_kind_name((enum lift_kind)k)), &kind));
		assert_int_equal(kind, k);
		for (int d = LIFT_START; d <= LIFT_CLOSE; d++) {
			const char *name =
			    lift_decision_name((enum lift_kind)k, (enum lift_decision)d);

			if (name != NULL)
				assert_int_equal(
				    lift_decision_parse((enum lift_kind)k, str_z(name)), d);
		}
	}
	assert_int_equal(lift_decision_parse(LIFT_KIND_FREEZE, STR("grant")), LIFT_NOTHING);
	assert_int_equal(lift_decision_parse(LIFT_KIND_FREEZE, STR("")), LIFT_NOTHING);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_statements_of_the_text_are_ours),
	    cmocka_unit_test(each_part_changes_the_bytes),
	    cmocka_unit_test(an_exception_is_of_a_rule_that_allows_it_and_has_an_end),
	    cmocka_unit_test(a_freeze_that_nothing_could_fall_under_is_refused),
	    cmocka_unit_test(break_glass_is_an_hour_at_most_or_what_the_policy_says),
	    cmocka_unit_test(a_freeze_may_be_of_everything),
	    cmocka_unit_test(an_exception_needs_its_actions_people_and_a_change_manager),
	    cmocka_unit_test(roles_are_held_and_asked_for),
	    cmocka_unit_test(a_policy_may_name_who_freezes_and_then_two_must_be_able_to_lift),
	    cmocka_unit_test(names_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
