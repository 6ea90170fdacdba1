/* Cancels through core: an action of its own, for what runs and for nothing else. */
#include "tests/unit/core_help.h"

#include "common/banned.h"

static void
cancel(struct world *w, uint64_t conn)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, conn);
	say(&w->front, MSG_PG_CANCEL, &b);
	settle(w);
}

static void
cancelled(struct world *w, uint64_t conn, uint64_t act, uint8_t how)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, conn);
	buf_u64(&b, act);
	buf_u8(&b, how);
	buf_lz(&b, "");
	say(&w->upstream, MSG_U_CANCELLED, &b);
	settle(w);
}

static void
assert_sent(struct world *w, uint64_t conn, uint64_t act)
{
	struct rd r = heard(&w->upstream, MSG_U_CANCEL);

	assert_int_equal(rd_u64(&r), conn);
	assert_int_equal(rd_u64(&r), act);
	assert_true(rd_end(&r));
}

static char *
last_id(struct world *w)
{
	AUTO(json) struct json_doc *d = last(w, "action");

	return str_dup(json_str(json_get(json_root(d), "action")));
}

static void
assert_outcome(struct world *w, const char *action, const char *status)
{
	AUTO(json) struct json_doc *d = last(w, "outcome");

	assert_state(json_str(json_get(json_root(d), "action")), action);
	assert_state(json_str(json_get(json_root(d), "status")), status);
}

/* The last record that is not durable yet. */
static void
ack_last(struct world *w)
{
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
}

static void
new_policy(struct world *w, const char *rules)
{
	AUTO_FREE char *text = world_policy(w, rules, 2);

	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
}

static void
what_runs_is_cancelled_after_its_record(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *of = NULL, *id = NULL;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	of = last_id(w);
	w->hold_writer = true;
	cancel(w, 1);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		id = str_dup(json_str(json_get(json_root(d), "action")));
		assert_state(json_str(at(d, "request", "operation")), "cancel");
		assert_state(json_str(at(d, "request", "cancels")), of);
		assert_state(json_str(at(d, "decision", "verdict")), "allow");
		assert_state(json_str(json_at(at(d, "request", "effects"), 0)), "txn");
		assert_int_equal(json_count(at(d, "request", "effects")), 1);
	}
	ack_last(w);
	w->hold_writer = false;
	assert_sent(w, 1, 5);
	cancelled(w, 1, 5, 1);
	assert_outcome(w, id, "ok");
	server_done(w, 1, 5, 2, 'I', 0); /* 57014 comes as any error does */
	(void)heard(&w->front, MSG_PG_DONE);
	assert_outcome(w, of, "error");
}

static void
where_nothing_runs_nothing_happens(void **state)
{
	struct world *w = *state;
	size_t n;

	client_ready(w, 1);
	n = w->nrecords;
	cancel(w, 1);
	cancel(w, 2); /* no connection at all */
	assert_int_equal(w->nrecords, n);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	server_done(w, 1, 5, 1, 'I', 1);
	n = w->nrecords;
	cancel(w, 1);
	assert_int_equal(w->nrecords, n);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
}

static void
one_that_comes_before_the_statement_is_sent_waits_for_that(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 5, "SELECT 1");
	cancel(w, 1);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	w->hold_writer = false;
	ack_last(w);
	(void)leased(w);
	assert_sent(w, 1, 5);
}

static void
a_statement_that_ends_meanwhile_is_not_cancelled(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *id = NULL;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	w->hold_writer = true;
	cancel(w, 1);
	id = last_id(w);
	server_done(w, 1, 5, 1, 'I', 1);
	w->hold_writer = false;
	client_query(w, 1, 6, "SELECT 2"); /* nor is what comes after it */
	for (size_t i = 0; i < w->nrecords; i++)
		if (strstr(w->records[i].data, id) != NULL) {
			ack(w, &w->records[i]);
			break;
		}
	settle(w);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
	assert_outcome(w, id, "not_sent");
}

static void
policy_may_deny_it(void **state)
{
	struct world *w = *state;

	new_policy(w, "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"read\"]}}}");
	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	cancel(w, 1);
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
}

static void
nobody_is_asked_about_a_cancel(void **state)
{
	struct world *w = *state;

	new_policy(w, "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}},"
		      "{\"id\":\"ask\",\"require\":{\"effects\":{\"any\":[\"txn\"]}},\"approve\":[{"
		      "\"role\":\"dba\","
		      "\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}");
	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	cancel(w, 1);
	assert_verdict(w, "needs_approval");
	assert_int_equal(w->run->npending, 0);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
}

static void
a_pending_approval_is_not_touched(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "DELETE FROM t WHERE id = 1");
	(void)refused(w);
	assert_int_equal(w->run->npending, 1);
	cancel(w, 1);
	assert_int_equal(w->run->npending, 1);
}

static void
a_second_one_waits_for_nobody(void **state)
{
	struct world *w = *state;
	size_t n;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	cancel(w, 1);
	assert_sent(w, 1, 5);
	n = w->nrecords;
	cancel(w, 1);
	assert_int_equal(w->nrecords, n);
	cancelled(w, 1, 5, 0);
	turn(w, 120); /* when the first one did nothing, another may be tried */
	cancel(w, 1);
	assert_sent(w, 1, 5);
}

static void
one_for_the_next_statement_waits_for_the_one_before(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	cancel(w, 1);
	assert_sent(w, 1, 5);
	server_done(w, 1, 5, 1, 'I', 1); /* it ended by itself */
	client_query(w, 1, 6, "SELECT 2");
	(void)leased(w);
	cancel(w, 1);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
	cancelled(w, 1, 5, 1);
	assert_sent(w, 1, 6);
}

static void
a_connection_that_goes_leaves_its_cancel_an_outcome(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(64);
	AUTO_FREE char *id = NULL;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	cancel(w, 1);
	assert_sent(w, 1, 5);
	id = last_id(w);
	buf_u64(&b, 1);
	say(&w->front, MSG_PG_CLOSE, &b);
	settle(w);
	server_done(w, 1, 5, 4, 'I', 0);
	assert_outcome(w, id, "lost");
}

static void
without_a_log_nothing_is_cancelled(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	end_close(&w->writer);
	settle(w);
	cancel(w, 1);
	assert_true(silent(&w->upstream, MSG_U_CANCEL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(what_runs_is_cancelled_after_its_record),
	    world_test(where_nothing_runs_nothing_happens),
	    world_test(one_that_comes_before_the_statement_is_sent_waits_for_that),
	    world_test(a_statement_that_ends_meanwhile_is_not_cancelled),
	    world_test(policy_may_deny_it),
	    world_test(nobody_is_asked_about_a_cancel),
	    world_test(a_pending_approval_is_not_touched),
	    world_test(a_second_one_waits_for_nobody),
	    world_test(one_for_the_next_statement_waits_for_the_one_before),
	    world_test(a_connection_that_goes_leaves_its_cancel_an_outcome),
	    world_test(without_a_log_nothing_is_cancelled),
	};

	return cmocka_run_group_tests_name("core_cancel", tests, NULL, NULL);
}
