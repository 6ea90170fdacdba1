/*
 * The life of an approval: the scenarios of the case file, one by one, and each beside the
 * nearest thing that passes.
 */
#include "tests/unit/policy_help.h"

#include "policy/approval.h"
#include "policy/statement.h"

#include "common/banned.h"

#define MINUTE ((int64_t)60 * 1000000)

struct world {
	struct json_doc *doc;
	struct policy *p;
	int64_t t0; /* 2026-03-11T12:00:00Z, a Wednesday */
	struct policy_input in;
	struct approval_pending pending;
	struct approval_grant g[8];
	size_t n;
	struct hash action;
	struct sig_pubkey revoked;
	size_t nrevoked;
};

/* DELETE of one row on prod, run owned by bob: dba:1, oncall:1, within 30m, use within 5m. */
static int
world_make(void **state)
{
	static struct world w;
	struct decision d;

	w = (struct world){0};
	w.doc = help_json_file("tests/cases/policy-cases.json");
	w.p = help_cases_policy(w.doc);
	assert_int_equal(clock_parse(STR("2026-03-11T12:00:00Z"), &w.t0, NULL), 0);
	w.in = policy_input_for(w.p, STR("prod-db"));
	w.in.effects = EFFECT_delete;
	w.in.owner = STR("bob");
	w.in.at = (struct instant){w.t0, true};
	w.action = hash_sha256(STR("DELETE FROM users WHERE id = 42"));
	policy_eval(w.p, &w.in, NULL, 0, &d);
	assert_int_equal(d.verdict, VERDICT_NEEDS_APPROVAL);
	w.pending = (struct approval_pending){.action = w.action,
	    .policy = *policy_digest(w.p),
	    .owner = STR("bob"),
	    .not_before_us = w.t0,
	    .approve_by_us = w.t0 + d.within_s * 1000000,
	    .use_within_s = d.use_within_s,
	    .nslots = d.nslots};
	(void)memcpy(w.pending.slots, d.slots, sizeof(d.slots));
	*state = &w;
	return 0;
}

static int
world_free(void **state)
{
	struct world *w = *state;

	policy_free(w->p);
	json_free(w->doc);
	return 0;
}

static void
sign(struct world *w, const char *person, const char *role, int64_t at_us)
{
	const struct policy_person *q = policy_person(w->p, str_z(person));
	struct approval_grant *g = &w->g[w->n++];

	*g = (struct approval_grant){.person = str_z(person),
	    .role = str_z(role),
	    .ns = STR(STATEMENT_NAMESPACE),
	    .at_us = at_us};
	if (q != NULL)
		g->key = q->keys[0];
}

static void
refuse(struct world *w, const char *person, int64_t at_us)
{
	sign(w, person, "", at_us);
	w->g[w->n - 1].deny = true;
}

static struct approval_result
judge(struct world *w, int64_t at_us)
{
	static struct approval_result r;
	const struct approval_check c = {.pending = &w->pending,
	    .grants = w->g,
	    .ngrants = w->n,
	    .revoked = &w->revoked,
	    .nrevoked = w->nrevoked,
	    .action = &w->action,
	    .policy = w->p,
	    .input = &w->in};

	w->in.at.us = at_us;
	approval_judge(&c, &r);
	return r;
}

static void
assert_judged(
    struct world *w, int64_t at_us, enum verdict verdict, enum approval_reason reason, bool ended)
{
	struct approval_result r = judge(w, at_us);

	if (r.verdict != verdict || r.reason != reason || r.ended != ended)
		fail_msg("got %s, %s, %s", verdict_name(r.verdict), approval_reason_name(r.reason),
		    r.ended ? "ended" : "open");
}
#define ALLOWED(w, at) assert_judged(w, at, VERDICT_ALLOW, APPROVAL_REASON_none, false)
#define OPEN(w, at, reason) \
	assert_judged(w, at, VERDICT_NEEDS_APPROVAL, APPROVAL_REASON_##reason, false)
#define DENIED(w, at, reason, ended) \
	assert_judged(w, at, VERDICT_DENY, APPROVAL_REASON_##reason, ended)

static void
two_people_with_the_roles_arm_it(void **state)
{
	struct world *w = *state;
	struct approval_result r;

	OPEN(w, w->t0, quorum);
	sign(w, "dave", "dba", w->t0 + MINUTE);
	OPEN(w, w->t0 + MINUTE, quorum);
	sign(w, "erin", "oncall", w->t0 + 2 * MINUTE);
	ALLOWED(w, w->t0 + 2 * MINUTE);
	r = judge(w, w->t0 + 3 * MINUTE);
	assert_true(r.quorum_us == w->t0 + 2 * MINUTE);
	assert_true(r.use_by_us == w->t0 + 7 * MINUTE);
	assert_int_equal(r.ncounted, 2);
	assert_int_equal(r.decision.max_rows, 100);
}

static void
one_person_with_both_roles_fills_one_slot(void **state)
{
	struct world *w = *state;

	sign(w, "alice", "dba", w->t0);
	sign(w, "alice", "oncall", w->t0);
	OPEN(w, w->t0, quorum);
	sign(w, "dave", "dba", w->t0);
	ALLOWED(w, w->t0);
}

static void
the_owner_signing_is_separation_of_duties(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "bob", "oncall", w->t0);
	OPEN(w, w->t0, separation_of_duties);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0);
}

static void
one_no_ends_it_also_the_owners_and_also_late(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0);
	refuse(w, "carol", w->t0 + MINUTE);
	DENIED(w, w->t0 + MINUTE, veto, true);
	w->n--;
	ALLOWED(w, w->t0 + MINUTE);
	refuse(w, "bob", w->t0 + MINUTE);
	DENIED(w, w->t0 + MINUTE, veto, true);
	/* A no by nobody is nothing. */
	w->n--;
	refuse(w, "agent-key", w->t0 + MINUTE);
	ALLOWED(w, w->t0 + MINUTE);
}

static void
without_quorum_in_time_it_expires(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	OPEN(w, w->t0 + 30 * MINUTE, quorum);
	DENIED(w, w->t0 + 30 * MINUTE + 1, expired, true);
}

static void
a_signature_at_the_last_moment_counts_and_one_later_does_not(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0 + 30 * MINUTE);
	ALLOWED(w, w->t0 + 30 * MINUTE);
	/* The window of use runs from quorum, also beyond approve-by. */
	ALLOWED(w, w->t0 + 35 * MINUTE);
	DENIED(w, w->t0 + 35 * MINUTE + 1, expired, true);
	w->g[1].at_us++;
	DENIED(w, w->t0 + 30 * MINUTE + 1, expired, true);
	w->g[1].at_us = w->t0 - 1; /* before it was asked */
	OPEN(w, w->t0, expired);
}

static void
after_the_window_of_use_it_is_over(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0 + 5 * MINUTE);
	DENIED(w, w->t0 + 5 * MINUTE + 1, use_window, true);
	DENIED(w, w->t0 + 60 * MINUTE, expired, true);
}

static void
another_action_or_policy_is_not_what_was_signed(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	w->action.b[31] ^= 1;
	DENIED(w, w->t0, digest_mismatch, false);
	w->action.b[31] ^= 1;
	ALLOWED(w, w->t0);
	w->pending.policy.b[0] ^= 1;
	DENIED(w, w->t0, policy_mismatch, true);
}

static void
it_is_used_once(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0);
	w->pending.consumed = true;
	DENIED(w, w->t0, already_used, true);
}

static void
a_key_is_checked_when_it_is_used(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0);
	w->revoked = w->g[1].key;
	w->nrevoked = 1;
	OPEN(w, w->t0, key_revoked);
	w->nrevoked = 0;
	w->g[1].key = w->g[0].key; /* dave's key in erin's name */
	OPEN(w, w->t0, key_revoked);
}

static void
a_signature_for_another_purpose_or_by_nobody_does_not_count(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	w->g[1].ns = STR("file");
	OPEN(w, w->t0, namespace);
	w->n = 1;
	sign(w, "agent-key", "oncall", w->t0);
	OPEN(w, w->t0, not_a_person);
	sign(w, "erin", "oncall", w->t0);
	ALLOWED(w, w->t0);
}

static void
a_role_that_was_not_signed_for_or_is_not_held_does_not_count(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "oncall", w->t0); /* not held */
	sign(w, "alice", "dba", w->t0);
	OPEN(w, w->t0, quorum);
	w->g[0].role = STR("dba");
	OPEN(w, w->t0, quorum); /* alice holds oncall, but signed for dba */
	w->g[1].role = STR("oncall");
	ALLOWED(w, w->t0);
}

static void
a_freeze_that_has_begun_asks_for_more_or_forbids(void **state)
{
	struct world *w = *state;
	int64_t friday = w->t0 + (2 * 24 + 4) * 60 * MINUTE; /* 16:00, the weekend freeze begins */

	w->pending.not_before_us = friday - 2 * MINUTE;
	w->pending.approve_by_us = friday + 28 * MINUTE;
	sign(w, "dave", "dba", friday - 2 * MINUTE);
	sign(w, "erin", "oncall", friday - 2 * MINUTE);
	ALLOWED(w, friday - 1);
	OPEN(w, friday, freeze_started);
	/* The year-end freeze forbids a drop outright. */
	w->in.effects = EFFECT_drop;
	assert_int_equal(clock_parse(STR("2026-12-24T10:00:00Z"), &friday, NULL), 0);
	w->pending.not_before_us = friday - MINUTE;
	w->pending.approve_by_us = friday + 28 * MINUTE;
	w->g[0].at_us = w->g[1].at_us = friday - MINUTE;
	DENIED(w, friday, freeze_started, false);
}

/* Asked on Sunday with the change manager's slot, used on Monday when two would do. */
static void
the_people_of_the_text_that_was_signed_are_needed_even_when_fewer_would_do_now(void **state)
{
	struct world *w = *state;
	struct decision d;
	int64_t monday;

	assert_int_equal(clock_parse(STR("2026-03-16T08:00:00Z"), &monday, NULL), 0);
	w->in.at.us = monday - MINUTE;
	policy_eval(w->p, &w->in, NULL, 0, &d);
	assert_int_equal(d.nslots, 3);
	w->pending.nslots = d.nslots;
	(void)memcpy(w->pending.slots, d.slots, sizeof(d.slots));
	w->pending.not_before_us = monday - MINUTE;
	w->pending.approve_by_us = monday + 28 * MINUTE;
	sign(w, "dave", "dba", monday);
	sign(w, "erin", "oncall", monday);
	OPEN(w, monday, quorum);
	sign(w, "carol", "change-manager", monday);
	ALLOWED(w, monday);
}

static void
without_a_clock_nothing_is_used_and_nothing_is_lost(void **state)
{
	struct world *w = *state;

	sign(w, "dave", "dba", w->t0);
	sign(w, "erin", "oncall", w->t0);
	w->in.at.known = false;
	DENIED(w, w->t0, clock, false);
	w->in.at.known = true;
	DENIED(w, w->t0 - 1, clock, false); /* before it was even asked */
	ALLOWED(w, w->t0);
}

static void
every_reason_has_a_name(void **state UNUSED)
{
	assert_string_equal(approval_reason_name(APPROVAL_REASON_none), "none");
	assert_string_equal(approval_reason_name(APPROVAL_REASON_use_window), "use_window");
	assert_string_equal(approval_reason_name(APPROVAL_REASON_quorum), "quorum");
}

#define IN_WORLD(t) cmocka_unit_test_setup_teardown(t, world_make, world_free)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    IN_WORLD(two_people_with_the_roles_arm_it),
	    IN_WORLD(one_person_with_both_roles_fills_one_slot),
	    IN_WORLD(the_owner_signing_is_separation_of_duties),
	    IN_WORLD(one_no_ends_it_also_the_owners_and_also_late),
	    IN_WORLD(without_quorum_in_time_it_expires),
	    IN_WORLD(a_signature_at_the_last_moment_counts_and_one_later_does_not),
	    IN_WORLD(after_the_window_of_use_it_is_over),
	    IN_WORLD(another_action_or_policy_is_not_what_was_signed),
	    IN_WORLD(it_is_used_once),
	    IN_WORLD(a_key_is_checked_when_it_is_used),
	    IN_WORLD(a_signature_for_another_purpose_or_by_nobody_does_not_count),
	    IN_WORLD(a_role_that_was_not_signed_for_or_is_not_held_does_not_count),
	    IN_WORLD(a_freeze_that_has_begun_asks_for_more_or_forbids),
	    IN_WORLD(
		the_people_of_the_text_that_was_signed_are_needed_even_when_fewer_would_do_now),
	    IN_WORLD(without_a_clock_nothing_is_used_and_nothing_is_lost),
	    cmocka_unit_test(every_reason_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
