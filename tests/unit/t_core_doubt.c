/* What is in doubt: sent, and nobody knows; but not what only reads. */
#include "tests/unit/core_help.h"

#include "broker/core_doubt.h"

#include "common/banned.h"

static int64_t
doubts(const struct world *w)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf b = BUF(65536);
	struct err err;
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	core_doubt_status(&j, w->c);
	jcs_close(&j);
	assert_int_equal(json_parse(buf_str(&b), "status", &d, &err), 0);
	return json_int(json_get(json_root(d), "doubt_count"));
}

static void
assert_doubt(const struct world *w, const char *status, bool doubt)
{
	AUTO(json) struct json_doc *o = last(w, "outcome");
	bool reads = json_bool(json_get(json_root(o), "reads"));

	assert_true(str_eqz(json_str(json_get(json_root(o), "status")), status));
	if (reads == doubt || doubts(w) != (doubt ? 1 : 0))
		fail_msg("%s: reads is %d, in doubt are %d", status, reads, (int)doubts(w));
}

/* --- upstream goes in the midst of the last one -------------------------------------- */

static void
loses(struct world *w, const char *const *before, const char *sql, bool doubt)
{
	uint64_t act = 5;

	client_ready(w, 1);
	for (size_t i = 0; before[i] != NULL; i++, act++) {
		client_query(w, 1, act, before[i]);
		(void)leased(w);
		server_done(w, 1, act, 1, 'T', 0);
		(void)heard(&w->front, MSG_PG_DONE);
	}
	client_query(w, 1, act, sql);
	(void)leased(w);
	end_close(&w->upstream);
	settle(w);
	(void)heard(&w->front, MSG_PG_GONE);
	assert_doubt(w, "lost", doubt);
}

static void
a_lost_read_is_not_in_doubt(void **state)
{
	loses(*state, (const char *const[]){NULL}, "SELECT 1", false);
}

static void
a_lost_change_is(void **state)
{
	loses(*state, (const char *const[]){NULL}, "INSERT INTO t VALUES (1)", true);
}

static void
the_end_of_a_transaction_of_reads_is_not(void **state)
{
	loses(*state, (const char *const[]){"BEGIN", "SELECT 1", NULL}, "COMMIT", false);
}

static void
the_end_of_a_transaction_that_changed_something_is(void **state)
{
	loses(*state, (const char *const[]){"BEGIN", "INSERT INTO t VALUES (1)", NULL}, "COMMIT",
	    true);
}

static void
a_read_behind_a_change_that_may_end_with_it_is(void **state)
{
	loses(*state, (const char *const[]){"BEGIN", "INSERT INTO t VALUES (1)", NULL}, "SELECT 1",
	    true);
}

/* --- core is another one ------------------------------------------------------------- */

static void
comes_back(struct world *w, const char *request, bool doubt)
{
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_FREE char *body = xasprintf("{\"data\":{\"action\":\"a-1\"%s%s},\"run\":\"%s\","
					 "\"seq\":1,\"time\":\"2026-01-01T00:00:00.000000Z\","
					 "\"type\":\"action\"}",
	    request[0] != '\0' ? ",\"request\":" : "", request, w->run->id);
	uint8_t root[32] = {0};

	w->run->state = CORE_RUN_STARTING; /* its start is not among the live records here */
	buf_lz(&b, body);
	buf_put(&b, root, 32);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	say(&w->writer, MSG_W_LIVE, &b);
	world_live(w);
	assert_doubt(w, "unknown", doubt);
}

static void
after_a_restart_what_reads_is_known_by_its_record(void **state)
{
	comes_back(*state, "{\"effects\":[\"read\"],\"txn_effects\":[]}", false);
}

static void
so_is_a_request_of_http_which_has_no_transaction(void **state)
{
	comes_back(*state, "{\"effects\":[\"read\"]}", false);
}

static void
what_changes_is_in_doubt_after_it(void **state)
{
	comes_back(*state, "{\"effects\":[\"read\",\"write\"],\"txn_effects\":[]}", true);
}

static void
so_is_a_read_in_a_transaction_that_changed_something(void **state)
{
	comes_back(*state, "{\"effects\":[\"read\"],\"txn_effects\":[\"write\"]}", true);
}

static void
so_is_what_has_an_effect_that_is_not_known(void **state)
{
	comes_back(*state, "{\"effects\":[\"peruse\"],\"txn_effects\":[]}", true);
}

static void
so_is_what_has_no_effect_at_all(void **state)
{
	comes_back(*state, "{\"effects\":[],\"txn_effects\":[]}", true);
}

static void
so_is_a_record_that_does_not_say(void **state)
{
	comes_back(*state, "", true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_lost_read_is_not_in_doubt),
	    world_test(a_lost_change_is),
	    world_test(the_end_of_a_transaction_of_reads_is_not),
	    world_test(the_end_of_a_transaction_that_changed_something_is),
	    world_test(a_read_behind_a_change_that_may_end_with_it_is),
	    world_test(after_a_restart_what_reads_is_known_by_its_record),
	    world_test(so_is_a_request_of_http_which_has_no_transaction),
	    world_test(what_changes_is_in_doubt_after_it),
	    world_test(so_is_a_read_in_a_transaction_that_changed_something),
	    world_test(so_is_what_has_an_effect_that_is_not_known),
	    world_test(so_is_what_has_no_effect_at_all),
	    world_test(so_is_a_record_that_does_not_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
