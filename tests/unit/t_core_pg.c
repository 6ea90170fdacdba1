/* Connections and statements through core: order of facts, records, lease and answer; names;
 * transactions. */
#include "tests/unit/core_help.h"

#include "common/banned.h"

/* --- messages of the extended protocol ------------------------------------------- */

static void
msg(struct buf *b, char type, const struct buf *body)
{
	buf_put_c(b, type);
	buf_u32(b, (uint32_t)body->n + 4);
	buf_put_str(b, buf_str(body));
}

static void
parse(struct buf *b, const char *name, const char *sql)
{
	AUTO_BUF struct buf m = BUF(1 << 18);

	buf_put(&m, name, strlen(name) + 1);
	buf_put(&m, sql, strlen(sql) + 1);
	buf_u16(&m, 0);
	msg(b, 'P', &m);
}

static void
bind_value(struct buf *b, const char *name, const char *value)
{
	AUTO_BUF struct buf m = BUF(1 << 18);

	buf_put(&m, "", 1);
	buf_put(&m, name, strlen(name) + 1);
	buf_u16(&m, 0);
	buf_u16(&m, value != NULL ? 1 : 0);
	if (value != NULL)
		buf_lz(&m, value);
	buf_u16(&m, 0);
	msg(b, 'B', &m);
}

static void
execute(struct buf *b)
{
	AUTO_BUF struct buf m = BUF(64);

	buf_put(&m, "", 1);
	buf_u32(&m, 0);
	msg(b, 'E', &m);
}

static void
run_named(struct buf *b, const char *name, const char *value)
{
	bind_value(b, name, value);
	execute(b);
}

static void
close_named(struct buf *b, const char *name)
{
	AUTO_BUF struct buf m = BUF(256);

	buf_put_c(&m, 'S');
	buf_put(&m, name, strlen(name) + 1);
	msg(b, 'C', &m);
}

static void
sync_up(struct buf *b)
{
	pgwire_put_sync(b);
}

static void
finish(struct world *w, uint64_t conn, uint64_t act, char txn)
{
	(void)leased(w);
	server_done(w, conn, act, 1, txn, 0);
	(void)heard(&w->front, MSG_PG_DONE);
}

/* --- opening --------------------------------------------------------------------- */

static void
a_connection_opens_after_its_record_with_the_targets_user_and_secret(void **state)
{
	struct world *w = *state;
	struct rd r;
	uint32_t n;

	w->hold_writer = true;
	client_open(w, 1, "app");
	assert_true(silent(&w->upstream, MSG_U_OPEN)); /* not durable: nothing goes out */
	ack(w, &w->records[0]);
	settle(w);
	r = heard(&w->upstream, MSG_U_OPEN);
	assert_int_equal(rd_u64(&r), 1);
	(void)rd_lstr(&r);
	assert_state(rd_lstr(&r), "127.0.0.1");
	(void)rd_lstr(&r);
	assert_int_equal(rd_u32(&r), 5432);
	assert_state(rd_lstr(&r), "app");
	assert_state(rd_lstr(&r), "agent");
	(void)rd_u8(&r);
	(void)rd_lstr(&r);
	assert_state(rd_lstr(&r), "hunter2-hunter2");
	n = rd_u32(&r);
	assert_int_equal(n, 0); /* user and database are core's own */
	assert_true(rd_end(&r));
	assert_verdict(w, "allow");
}

static void
another_database_is_refused_and_recorded(void **state)
{
	struct world *w = *state;
	struct refusal x;

	client_open(w, 1, "postgres");
	x = refused(w);
	assert_state(x.sqlstate, "42501");
	assert_int_equal(x.how, 0);
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_U_OPEN));
}

static void
a_credential_bound_elsewhere_is_not_used(void **state)
{
	struct world *w = *state;
	struct vault_bind b = {.name = STR("cred"),
	    .kind = STR("postgresql-password"),
	    .scheme = STR("postgresql"),
	    .host = STR("127.0.0.2"),
	    .user = STR("agent"),
	    .port = 5432};
	struct err err;

	assert_int_equal(vault_put(w->c->vault, &b, secret_copy(STR("other")), &err), 0);
	client_open(w, 1, "app");
	assert_state(refused(w).sqlstate, "28000");
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_U_OPEN));
}

/* --- simple query ---------------------------------------------------------------- */

static void
a_read_is_recorded_then_sent_then_answered(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(256);
	struct lease l;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 5, "SELECT 1");
	assert_true(silent(&w->upstream, MSG_U_SEND));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	l = leased(w);
	pgwire_put_query(&m, STR("SELECT 1"));
	assert_true(str_eq(l.msgs, buf_str(&m))); /* exactly the judged bytes */
	assert_int_equal(l.wrap, 0);
	assert_int_equal(l.token.n, 0);
	server_done(w, 1, 5, 1, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE); /* the outcome is queued, though not durable */
	assert_int_equal(count(w, "outcome"), 2);
}

static void
a_changes_answer_waits_for_its_durable_outcome(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "INSERT INTO t VALUES (1)");
	assert_int_equal(
	    w->records[w->nrecords - 1].flags & CORE_REC_CHECKPOINT, CORE_REC_CHECKPOINT);
	(void)leased(w);
	w->hold_writer = true;
	server_done(w, 1, 5, 1, 'I', 1);
	assert_true(silent(&w->front, MSG_PG_DONE));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)heard(&w->front, MSG_PG_DONE);
}

static void
a_denied_statement_is_recorded_and_nothing_goes_upstream(void **state)
{
	struct world *w = *state;
	struct refusal x;

	client_ready(w, 1);
	client_query(w, 1, 5, "DROP TABLE t");
	x = refused(w);
	assert_state(x.sqlstate, "42501");
	assert_int_equal(x.how, 1);
	assert_true(has(x.message, "denied by policy: rule no-drop"));
	assert_true(has(x.detail, "action=a-"));
	assert_int_equal(x.hint.n, 0);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	assert_verdict(w, "deny");
	client_query(w, 1, 6, "SELECT 1"); /* the session goes on */
	finish(w, 1, 6, 'I');
}

static void
a_statement_that_does_not_parse_gets_a_syntax_error_and_a_record(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELEC 1");
	assert_state(refused(w).sqlstate, "42601");
	client_query(w, 1, 6, "SELECT '\xff'");
	assert_state(refused(w).sqlstate, "42601");
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
function_calls_are_refused(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(64);
	AUTO_BUF struct buf call = BUF(64);

	client_ready(w, 1);
	buf_u32(&call, 964);
	buf_u16(&call, 0);
	buf_u16(&call, 0);
	buf_u16(&call, 0);
	msg(&m, 'F', &call);
	client_sends(w, 1, 6, CORE_ACT_QUERY, &m);
	assert_state(refused(w).sqlstate, "42501");
	assert_verdict(w, "deny");
	client_query(w, 1, 7, "COPY (SELECT 1) TO STDOUT"); /* the nearest that is allowed */
	finish(w, 1, 7, 'I');
}

/* --- without a part -------------------------------------------------------------- */

static void
without_a_writer_nothing_passes_and_the_client_is_told(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	end_close(&w->writer);
	settle(w);
	client_query(w, 1, 5, "SELECT 1");
	assert_state(refused(w).sqlstate, "57P03");
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
a_writer_that_dies_before_the_ack_refuses_and_the_log_learns_that_nothing_was_sent(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_BUF struct buf body = BUF(4096);
	AUTO_FREE char *id = NULL;
	uint8_t root[32] = {0};

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 5, "SELECT 1");
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		id = str_dup(json_str(json_get(json_root(d), "action")));
	}
	end_close(&w->writer);
	settle(w);
	assert_state(refused(w).sqlstate, "57P03");
	w->hold_writer = false;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	/* It was durable after all. */
	buf_printf(&body,
	    "{\"data\":{\"action\":\"%s\",\"dispatch\":{\"sent\":true}},\"run\":\"%s\",\"seq\":9,"
	    "\"time\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"action\"}",
	    id, w->run->id);
	buf_lstr(&b, buf_str(&body));
	buf_put(&b, root, 32);
	say(&w->writer, MSG_W_LIVE, &b);
	world_live(w);
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_state(json_str(json_get(json_root(d), "action")), id);
		assert_state(json_str(json_get(json_root(d), "status")), "not_sent");
	}
}

static void
a_parser_that_dies_in_mid_judgement_refuses(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	w->hold_parser = true;
	client_query(w, 1, 5, "SELECT 1");
	end_close(&w->parser);
	settle(w);
	assert_state(refused(w).sqlstate, "42501");
	assert_verdict(w, "deny");
	w->hold_parser = false;
	world_wire(w, &w->parser, IPC_ROLE_PARSER, w->run->id);
	client_query(w, 1, 6, "SELECT 1");
	finish(w, 1, 6, 'I');
}

static void
an_upstream_that_goes_ends_connections_and_records_the_loss(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	end_close(&w->upstream);
	settle(w);
	(void)heard(&w->front, MSG_PG_GONE);
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_state(json_str(json_get(json_root(d), "status")), "lost");
	}
}

/* --- extended protocol ----------------------------------------------------------- */

static void
parse_bind_execute_is_one_action_with_all_bytes(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	size_t before;

	client_ready(w, 1);
	before = count(w, "action");
	parse(&m, "", "SELECT $1");
	run_named(&m, "", "x");
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	assert_true(str_eq(leased(w).msgs, buf_str(&m)));
	assert_int_equal(count(w, "action"), before + 1);
}

static void
a_prepared_delete_is_judged_when_it_runs(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf run = BUF(4096);

	client_ready(w, 1);
	parse(&m, "s", "DELETE FROM t WHERE id = $1");
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m); /* preparing alone does nothing */
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_state(json_str(at(d, "request", "operation")), "prepare");
	}
	finish(w, 1, 5, 'I');
	run_named(&run, "s", "1");
	sync_up(&run);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &run);
	assert_true(has(refused(w).message, "needs approval"));
	assert_verdict(w, "needs_approval");
}

static void
an_unknown_statement_is_opaque(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);

	client_ready(w, 1);
	run_named(&m, "never-parsed", NULL);
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	assert_state(refused(w).sqlstate, "42501");
	assert_verdict(w, "deny");
}

/* The server keeps the first text when a second Parse of the name fails; core must not believe the
 * second. */
static void
a_name_with_two_possible_texts_is_opaque_until_it_is_made_anew(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf first = BUF(4096);
	AUTO_BUF struct buf second = BUF(4096);
	AUTO_BUF struct buf run = BUF(4096);
	AUTO_BUF struct buf anew = BUF(4096);

	client_ready(w, 1);
	parse(&first, "s", "DELETE FROM t WHERE id = 1");
	sync_up(&first);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &first);
	finish(w, 1, 5, 'I');
	parse(&second, "s", "SELECT 1");
	sync_up(&second);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &second);
	(void)leased(w);
	server_done(w, 1, 6, 2, 'I', 0); /* prepared statement "s" already exists */
	run_named(&run, "s", NULL);
	sync_up(&run);
	client_sends(w, 1, 7, CORE_ACT_SYNC, &run);
	assert_state(refused(w).sqlstate, "42501");
	assert_verdict(w, "deny");
	close_named(&anew, "s");
	parse(&anew, "s", "SELECT 1");
	sync_up(&anew);
	client_sends(w, 1, 8, CORE_ACT_SYNC, &anew);
	finish(w, 1, 8, 'I');
	client_sends(w, 1, 9, CORE_ACT_SYNC, &run);
	finish(w, 1, 9, 'I');
}

static void
a_statement_of_a_failed_exchange_that_only_can_be_one_is_known(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf run = BUF(4096);

	client_ready(w, 1);
	parse(&m, "s", "SELECT 1/$1::int");
	run_named(&m, "s", "0");
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	(void)leased(w);
	server_done(w, 1, 5, 2, 'I', 0);
	run_named(&run, "s", "1"); /* drivers keep a statement whose first execution failed */
	sync_up(&run);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &run);
	finish(w, 1, 6, 'I');
}

/* The server cuts names at 63 bytes: two long names could be one there and two here. */
static void
a_name_longer_than_the_servers_is_refused(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf ok = BUF(4096);
	char name[65];

	memset(name, 'n', 64);
	name[64] = '\0';
	client_ready(w, 1);
	parse(&m, name, "SELECT 1");
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	assert_state(refused(w).sqlstate, "54000");
	name[63] = '\0';
	parse(&ok, name, "SELECT 1");
	sync_up(&ok);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &ok);
	finish(w, 1, 6, 'I');
}

static void
in_a_pipeline_what_comes_before_a_refusal_is_sent_with_a_poison(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	struct lease l;
	size_t prefix;

	client_ready(w, 1);
	parse(&m, "", "SELECT 1");
	run_named(&m, "", NULL);
	parse(&m, "", "DROP TABLE t");
	bind_value(&m, "", NULL);
	prefix = m.n;
	execute(&m);
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	l = leased(w);
	assert_int_equal(l.msgs.n, prefix);
	assert_true(str_has_prefix(l.token, "cofferdam_refused_"));
	assert_state(l.sqlstate, "42501");
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_false(json_bool(at(d, "dispatch", "sent")));
		assert_state(json_str(at(d, "dispatch", "origin")), "broker");
	}
	server_done(w, 1, 5, 5, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE);
}

/* Under a row limit upstream wraps the whole exchange: nothing else may be in it. */
static void
a_limited_change_beside_other_statements_is_refused_not_asked_for(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf alone = BUF(4096);

	client_ready(w, 1);
	parse(&m, "", "BEGIN");
	run_named(&m, "", NULL);
	parse(&m, "", "DELETE FROM t WHERE id = 1");
	run_named(&m, "", NULL);
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	assert_true(leased(w).token.n != 0);
	assert_verdict(w, "deny");
	assert_int_equal(count(w, "approval.request"), 0);
	server_done(w, 1, 5, 5, 'I', 0);
	parse(&alone, "", "DELETE FROM t WHERE id = 1");
	run_named(&alone, "", NULL);
	sync_up(&alone);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &alone);
	assert_verdict(w, "needs_approval");
}

static void
after_a_refusal_in_a_flushed_pipeline_only_the_sync_goes(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf more = BUF(4096);
	AUTO_BUF struct buf sync = BUF(64);
	size_t actions;

	client_ready(w, 1);
	parse(&m, "", "DROP TABLE t");
	run_named(&m, "", NULL);
	pgwire_put_flush(&m);
	client_sends(w, 1, 5, CORE_ACT_FLUSH, &m);
	assert_true(leased(w).token.n != 0);
	server_done(w, 1, 5, 5, 'I', 0);
	(void)heard(&w->front, MSG_PG_DONE);
	actions = count(w, "action");
	parse(&more, "", "DELETE FROM t");
	run_named(&more, "", NULL);
	pgwire_put_flush(&more);
	client_sends(w, 1, 6, CORE_ACT_FLUSH, &more);
	(void)heard(&w->front, MSG_PG_DONE);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	assert_int_equal(count(w, "action"), actions);
	buf_reset(&more);
	parse(&more, "", "SELECT 1");
	sync_up(&more);
	client_sends(w, 1, 7, CORE_ACT_SYNC, &more);
	sync_up(&sync);
	assert_true(str_eq(leased(w).msgs, buf_str(&sync)));
}

static void
a_lost_read_that_would_have_committed_a_pipelines_change_is_in_doubt(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	AUTO_BUF struct buf more = BUF(4096);
	AUTO(json) struct json_doc *o = NULL;

	client_ready(w, 1);
	parse(&m, "", "INSERT INTO t VALUES (1)");
	run_named(&m, "", NULL);
	pgwire_put_flush(&m);
	client_sends(w, 1, 5, CORE_ACT_FLUSH, &m);
	(void)leased(w);
	server_done(w, 1, 5, 1, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE);
	parse(&more, "", "SELECT 1");
	run_named(&more, "", NULL);
	sync_up(&more);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &more);
	(void)leased(w);
	end_close(&w->upstream);
	settle(w);
	o = last(w, "outcome");
	assert_state(json_str(json_get(json_root(o), "status")), "lost");
	assert_null(json_get(json_root(o), "reads"));
}

static void
messages_that_are_not_of_their_layout_end_the_connection(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(256);

	client_ready(w, 1);
	buf_put(&m, "Q\0\0\0\x0cSELECT 1", 13); /* no NUL at its end */
	client_sends(w, 1, 5, CORE_ACT_QUERY, &m);
	(void)heard(&w->front, MSG_PG_GONE);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* --- SQL's own prepared statements ----------------------------------------------- */

static void
execute_of_sql_is_judged_with_what_it_runs(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "PREPARE p AS SELECT 1");
	finish(w, 1, 5, 'I');
	client_query(w, 1, 6, "EXECUTE p");
	finish(w, 1, 6, 'I');
	client_query(w, 1, 7, "EXECUTE q");
	assert_state(refused(w).sqlstate, "42501");
	client_query(w, 1, 8, "DEALLOCATE p");
	finish(w, 1, 8, 'I');
	client_query(w, 1, 9, "EXECUTE p");
	assert_state(refused(w).sqlstate, "42501");
}

static void
execute_of_a_statement_parsed_on_the_wire_is_judged_with_its_text(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);

	client_ready(w, 1);
	parse(&m, "s", "DELETE FROM t WHERE id = 1");
	sync_up(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	finish(w, 1, 5, 'I');
	client_query(w, 1, 6, "EXECUTE s");
	assert_true(has(refused(w).message, "needs approval"));
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_int_equal(json_count(at(d, "request", "effects")), 1);
		assert_state(json_str(json_at(at(d, "request", "effects"), 0)), "delete");
	}
}

/* --- transactions ---------------------------------------------------------------- */

static void
a_refusal_inside_a_transaction_is_a_poison(void **state)
{
	struct world *w = *state;
	struct lease l;

	client_ready(w, 1);
	client_query(w, 1, 5, "BEGIN");
	finish(w, 1, 5, 'T');
	client_query(w, 1, 6, "DROP TABLE t");
	l = leased(w);
	assert_int_equal(l.msgs.n, 0);
	assert_true(l.token.n != 0);
	assert_true(silent(&w->front, MSG_PG_REFUSED));
	server_done(w, 1, 6, 5, 'E', 0);
	(void)heard(&w->front, MSG_PG_DONE);
	client_query(w, 1, 7, "COMMIT"); /* rolls back: commits nothing, so it needs nothing */
	assert_int_equal(leased(w).token.n, 0);
}

static void
commit_is_judged_with_what_the_transaction_did(void **state)
{
	static const char frozen[] =
	    "{\"id\":\"read-anywhere\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}},"
	    "{\"id\":\"no-escape\",\"forbid\":{\"effects\":{\"any\":[\"@escape\"]}},\"override\":"
	    "\"never\"}";
	struct world *w = *state;
	AUTO_FREE char *text = world_policy(w, frozen, 2);

	client_ready(w, 1);
	client_query(w, 1, 5, "BEGIN");
	finish(w, 1, 5, 'T');
	client_query(w, 1, 6, "INSERT INTO t VALUES (1)");
	finish(w, 1, 6, 'T');
	core_boot_policy_use(w->c, world_parse(text)); /* as a freeze that begins now */
	client_query(w, 1, 7, "COMMIT");
	assert_true(leased(w).token.n != 0);
	assert_verdict(w, "deny");
	server_done(w, 1, 7, 5, 'E', 0);
	client_query(w, 1, 8, "ROLLBACK");
	finish(w, 1, 8, 'I');
	client_query(w, 1, 9, "BEGIN");
	finish(w, 1, 9, 'T');
	client_query(w, 1, 10, "SELECT 1");
	finish(w, 1, 10, 'T');
	client_query(w, 1, 11, "COMMIT"); /* of a read: allowed */
	finish(w, 1, 11, 'I');
}

static void
without_a_log_a_transaction_is_ended_not_left_half_done(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "BEGIN");
	finish(w, 1, 5, 'T');
	end_close(&w->writer);
	settle(w);
	client_query(w, 1, 6, "SELECT 1");
	(void)heard(&w->front, MSG_PG_GONE);
	(void)heard(&w->upstream, MSG_U_CLOSE);
}

static void
an_upstream_that_sent_other_bytes_is_cut_off(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	w->sent.b[0] ^= 1;
	server_done(w, 1, 5, 1, 'I', 1);
	assert_null(w->c->upstream);
	assert_true(silent(&w->front, MSG_PG_DONE));
	(void)heard(&w->front, MSG_PG_GONE);
}

/* --- links and limits ------------------------------------------------------------ */

static void
later_attempts_are_linked_to_the_refused_one(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "DROP TABLE t");
	(void)refused(w);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_null(at(d, "decision", "link"));
	}
	client_query(w, 1, 6, "TRUNCATE t");
	(void)refused(w);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_non_null(at(d, "decision", "link"));
	}
	client_query(w, 1, 7, "SELECT 1"); /* what is allowed is linked to nothing */
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_null(at(d, "decision", "link"));
	}
}

static void
a_client_that_goes_away_in_mid_act_leaves_its_true_outcome(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(64);

	client_ready(w, 1);
	client_query(w, 1, 5, "INSERT INTO t VALUES (1)");
	(void)leased(w);
	buf_u64(&b, 1);
	say(&w->front, MSG_PG_CLOSE, &b);
	settle(w);
	(void)heard(&w->upstream, MSG_U_CLOSE);
	assert_int_equal(count(w, "outcome"), 1); /* of the connect */
	server_done(w, 1, 5, 1, 'I', 1);
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_state(json_str(json_get(json_root(d), "status")), "ok");
	}
	assert_null(core_pg_find(w->c, 1));
}

static void
connections_are_made(struct world *w, uint64_t n)
{
	for (uint64_t i = 1; i <= n; i++) {
		client_open(w, i, "app");
		assert_true(silent(&w->front, MSG_PG_REFUSED));
	}
}

static void
a_run_has_a_ceiling_of_connections_to_a_target(void **state)
{
	struct world *w = *state;
	struct refusal x;

	connections_are_made(w, CORE_CONNS_MAX);
	client_open(w, 100, "app");
	x = refused(w);
	assert_state(x.sqlstate, "53300");
	assert_true(has(x.message, "50 connections to db, the limit"));
	server_opened(w, 1, true);
	core_pg_kill(core_pg_find(w->c, 1), "57P01", "enough");
	settle(w);
	client_open(w, 101, "app");
	assert_true(silent(&w->front, MSG_PG_REFUSED));
}

static void
the_policy_may_set_that_ceiling(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = world_policy(w, NULL, 2);
	AUTO_FREE char *changed = NULL;
	char *tls = strstr(text, "\"tls\":\"off\"");

	changed = xasprintf("%.*s\"max_connections\":2,%s", (int)(tls - text), text, tls);
	core_boot_policy_use(w->c, world_parse(changed));
	settle(w);
	connections_are_made(w, 2);
	client_open(w, 3, "app");
	assert_true(has(refused(w).message, "2 connections to db, the limit"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_connection_opens_after_its_record_with_the_targets_user_and_secret),
	    world_test(another_database_is_refused_and_recorded),
	    world_test(a_credential_bound_elsewhere_is_not_used),
	    world_test(a_read_is_recorded_then_sent_then_answered),
	    world_test(a_changes_answer_waits_for_its_durable_outcome),
	    world_test(a_denied_statement_is_recorded_and_nothing_goes_upstream),
	    world_test(a_statement_that_does_not_parse_gets_a_syntax_error_and_a_record),
	    world_test(function_calls_are_refused),
	    world_test(without_a_writer_nothing_passes_and_the_client_is_told),
	    world_test(
		a_writer_that_dies_before_the_ack_refuses_and_the_log_learns_that_nothing_was_sent),
	    world_test(a_parser_that_dies_in_mid_judgement_refuses),
	    world_test(an_upstream_that_goes_ends_connections_and_records_the_loss),
	    world_test(parse_bind_execute_is_one_action_with_all_bytes),
	    world_test(a_prepared_delete_is_judged_when_it_runs),
	    world_test(an_unknown_statement_is_opaque),
	    world_test(a_name_with_two_possible_texts_is_opaque_until_it_is_made_anew),
	    world_test(a_statement_of_a_failed_exchange_that_only_can_be_one_is_known),
	    world_test(a_name_longer_than_the_servers_is_refused),
	    world_test(in_a_pipeline_what_comes_before_a_refusal_is_sent_with_a_poison),
	    world_test(a_limited_change_beside_other_statements_is_refused_not_asked_for),
	    world_test(after_a_refusal_in_a_flushed_pipeline_only_the_sync_goes),
	    world_test(a_lost_read_that_would_have_committed_a_pipelines_change_is_in_doubt),
	    world_test(messages_that_are_not_of_their_layout_end_the_connection),
	    world_test(execute_of_sql_is_judged_with_what_it_runs),
	    world_test(execute_of_a_statement_parsed_on_the_wire_is_judged_with_its_text),
	    world_test(a_refusal_inside_a_transaction_is_a_poison),
	    world_test(commit_is_judged_with_what_the_transaction_did),
	    world_test(without_a_log_a_transaction_is_ended_not_left_half_done),
	    world_test(an_upstream_that_sent_other_bytes_is_cut_off),
	    world_test(later_attempts_are_linked_to_the_refused_one),
	    world_test(a_client_that_goes_away_in_mid_act_leaves_its_true_outcome),
	    world_test(a_run_has_a_ceiling_of_connections_to_a_target),
	    world_test(the_policy_may_set_that_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
