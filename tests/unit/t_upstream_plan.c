/* Replies are counted against what was sent; anything not owed is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "broker/upstream_plan.h"

#include "common/banned.h"

#define Q "Q\0\0\0\6x\0"
#define P "P\0\0\0\010\0\0\0\0"
#define B "B\0\0\0\014\0\0\0\0\0\0\0\0"
#define DS "D\0\0\0\6S\0"
#define DP "D\0\0\0\6P\0"
#define E "E\0\0\0\011\0\0\0\0\0"
#define C "C\0\0\0\6S\0"
#define S "S\0\0\0\4"
#define H "H\0\0\0\4"
#define F "F\0\0\0\016\0\0\0\1\0\0\0\0\0\0"

/* Plays `replies`; returns how many were taken before the first that was not owed. */
static size_t
play(struct upstream_plan *p, struct str sent, const char *replies)
{
	struct err err = {0};
	size_t n = 0;

	*p = (struct upstream_plan){0};
	assert_int_equal(upstream_plan_add(p, sent, &err), 0);
	for (; replies[n] != '\0'; n++)
		if (upstream_plan_step(p, replies[n]) == UPSTREAM_STEP_BAD)
			break;
	return n;
}

static void
complete_answers_are_counted_off(void **state UNUSED)
{
	static const struct {
		struct str sent;
		const char *replies;
	} cases[] = {
	    {STR(Q), "TDDCTDCZ"},
	    {STR(Q), "IZ"},
	    {STR(Q), "HddcCZ"},
	    {STR(Q), "TDEZ"},
	    {STR(P B DP E S), "12TDDCZ"},
	    {STR(P B DP E S), "12nIZ"},
	    {STR(P DS H), "1tT"},
	    {STR(P DS H), "1tn"},
	    {STR(B E C S), "2s3Z"},
	    {STR(B E S), "2HdcCZ"},
	    {STR(P B E P B E S), "12DC12CZ"},
	    {STR(P B E P B E S), "12EZ"},
	    {STR(P B E S), "12CEZ"}, /* a deferred constraint fails at Sync */
	    {STR(S), "Z"},
	    {STR(F), "VZ"},
	    {STR(F), "EZ"},
	};
	struct upstream_plan p;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(
		    play(&p, cases[i].sent, cases[i].replies), strlen(cases[i].replies));
		assert_true(upstream_plan_done(&p));
		assert_false(p.skip);
		/* Not before the last one. */
		(void)play(&p, cases[i].sent, "");
		for (size_t n = 0; cases[i].replies[n + 1] != '\0'; n++) {
			(void)upstream_plan_step(&p, cases[i].replies[n]);
			assert_false(upstream_plan_done(&p));
		}
	}
}

static void
replies_not_owed_are_refused(void **state UNUSED)
{
	static const struct {
		struct str sent;
		const char *replies;
		size_t taken;
	} cases[] = {
	    {STR(Q), "TDCZZ", 4},
	    {STR(Q), "dZ", 0}, /* CopyData without CopyOut */
	    {STR(Q), "HZ", 1}, /* inside a copy */
	    {STR(P S), "2", 0},
	    {STR(P S), "1D", 1},
	    {STR(B E S), "2T", 1},  /* Execute brings no description */
	    {STR(B E S), "2CD", 2}, /* a row after the completion */
	    {STR(S), "C", 0},
	    {STR(F), "D", 0},
	    {STR(H), "Z", 0},
	    {STR(Q), "R", 0},
	    {STR(Q), "K", 0},
	};
	struct upstream_plan p;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(play(&p, cases[i].sent, cases[i].replies), cases[i].taken);
}

static void
error_without_sync_leaves_the_server_skipping(void **state UNUSED)
{
	struct upstream_plan p;

	assert_int_equal(play(&p, STR(P B E H), "1E"), 2);
	assert_true(upstream_plan_done(&p) && p.failed && p.skip);
	assert_int_equal(play(&p, STR(P B E S), "1E"), 2);
	assert_true(!upstream_plan_done(&p) && p.failed && !p.skip);
}

static void
while_the_server_waits_for_data_it_may_only_fail(void **state UNUSED)
{
	static const char refused[] = "TDHdcCIZsGW";
	struct upstream_plan p;

	for (size_t i = 0; refused[i] != '\0'; i++) {
		(void)play(&p, STR(Q), "");
		assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_COPY_IN);
		assert_int_equal(upstream_plan_step(&p, refused[i]), UPSTREAM_STEP_BAD);
		(void)play(&p, STR(B E H), "2");
		assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_COPY_IN);
		assert_int_equal(upstream_plan_step(&p, refused[i]), UPSTREAM_STEP_BAD);
	}
	(void)play(&p, STR(Q), "G");
	assert_int_equal(upstream_plan_step(&p, 'E'), UPSTREAM_STEP_TAIL);
	assert_int_equal(upstream_plan_step(&p, 'Z'), UPSTREAM_STEP_TAIL);
	assert_true(upstream_plan_done(&p) && p.failed);
	(void)play(&p, STR(B E H), "2GE");
	assert_true(upstream_plan_done(&p) && p.skip);
}

static void
after_the_end_of_the_data_the_statement_ends(void **state UNUSED)
{
	struct upstream_plan p;

	(void)play(&p, STR(Q), "G");
	upstream_plan_filled(&p);
	assert_int_equal(upstream_plan_step(&p, 'C'), UPSTREAM_STEP_TAIL);
	assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_COPY_IN); /* a second one */
	upstream_plan_filled(&p);
	assert_int_equal(upstream_plan_step(&p, 'C'), UPSTREAM_STEP_TAIL);
	assert_int_equal(upstream_plan_step(&p, 'Z'), UPSTREAM_STEP_TAIL);
	assert_true(upstream_plan_done(&p));
	(void)play(&p, STR(B E H), "2G");
	upstream_plan_filled(&p);
	assert_int_equal(upstream_plan_step(&p, 'C'), UPSTREAM_STEP_TAIL);
	assert_true(upstream_plan_done(&p) && !p.failed);
}

static void
data_is_asked_for_where_a_statement_runs_and_nowhere_else(void **state UNUSED)
{
	struct upstream_plan p;

	(void)play(&p, STR(P S), "");
	assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_BAD);
	(void)play(&p, STR(F), "");
	assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_BAD);
	(void)play(&p, STR(Q), "H");
	assert_int_equal(upstream_plan_step(&p, 'G'), UPSTREAM_STEP_BAD);
	(void)play(&p, STR(Q), "");
	assert_int_equal(upstream_plan_step(&p, 'W'), UPSTREAM_STEP_BAD);
}

static void
only_whole_messages_of_known_types_are_sent(void **state UNUSED)
{
	static const struct str bad[] = {STR("Q\0\0\0\6x"), STR("X\0\0\0\4"), STR("d\0\0\0\4"),
	    STR("p\0\0\0\4"), STR("Z\0\0\0\5I"), STR(S "S\0"), STR("S\0\0\0\3")};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct upstream_plan p = {0};
		struct err err = {0};

		assert_int_not_equal(upstream_plan_add(&p, bad[i], &err), 0);
	}
}

static void
executing_is_noticed(void **state UNUSED)
{
	struct upstream_plan p;

	(void)play(&p, STR(P B DS H), "");
	assert_false(p.executes);
	(void)play(&p, STR(E H), "");
	assert_true(p.executes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(complete_answers_are_counted_off),
	    cmocka_unit_test(replies_not_owed_are_refused),
	    cmocka_unit_test(error_without_sync_leaves_the_server_skipping),
	    cmocka_unit_test(while_the_server_waits_for_data_it_may_only_fail),
	    cmocka_unit_test(after_the_end_of_the_data_the_statement_ends),
	    cmocka_unit_test(data_is_asked_for_where_a_statement_runs_and_nowhere_else),
	    cmocka_unit_test(only_whole_messages_of_known_types_are_sent),
	    cmocka_unit_test(executing_is_noticed),
	};

	return cmocka_run_group_tests_name("upstream_plan", tests, NULL, NULL);
}
