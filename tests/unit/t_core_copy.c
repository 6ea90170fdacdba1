/* COPY FROM STDIN through core: what is leased, what is refused, what is recorded. */
#include "tests/unit/core_help.h"

#include "common/banned.h"

static void
copied(struct world *w, uint64_t act, const char *data, char txn)
{
	w->copied = data;
	server_done(w, 1, act, 1, txn, 2);
}

/* Parse, Bind, Execute of the unnamed ones. */
static void
extended(struct buf *b, const char *sql)
{
	pgwire_put_parse(b, STR(""), str_z(sql));
	buf_put_str(b, STR("B\0\0\0\014\0\0\0\0\0\0\0\0E\0\0\0\011\0\0\0\0\0"));
}

static struct str
decided(const struct json_doc *d, const char *key)
{
	return json_str(at(d, "decision", key));
}

static void
a_permitted_copy_is_leased_with_leave_for_its_data(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "COPY t FROM STDIN");
	assert_int_equal(leased(w).copy_in, 1);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_state(decided(d, "verdict"), "allow");
		assert_true(json_bool(at(d, "dispatch", "copy_in")));
	}
	copied(w, 5, "1\n2\n", 'I');
	(void)heard(&w->front, MSG_PG_DONE);
	client_query(w, 1, 6, "COPY t TO STDOUT");
	assert_int_equal(leased(w).copy_in, 0);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_null(at(d, "dispatch", "copy_in"));
	}
}

static void
the_outcome_tells_bytes_and_digest_of_the_data(void **state)
{
	struct world *w = *state;
	struct hash h = hash_sha256(STR("1\n2\n"));
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	client_ready(w, 1);
	client_query(w, 1, 5, "COPY t FROM STDIN");
	(void)leased(w);
	copied(w, 5, "1\n2\n", 'I');
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_int_equal(json_int(at(d, "copy", "bytes")), 4);
		assert_state(json_str(at(d, "copy", "sha256")), hex);
	}
	client_query(w, 1, 6, "INSERT INTO t VALUES (3)");
	(void)leased(w);
	server_done(w, 1, 6, 1, 'I', 1);
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_null(json_get(json_root(d), "copy"));
	}
}

static void
a_copy_that_needs_approval_is_refused_since_its_data_cannot_be_shown(void **state)
{
	struct world *w = *state;
	struct refusal x;

	client_ready(w, 1);
	client_query(w, 1, 5, "DELETE FROM t WHERE id = 1; COPY t FROM STDIN");
	x = refused(w);
	assert_state(x.sqlstate, "0A000");
	assert_true(has(x.message, "the data cannot be shown before it is sent"));
	assert_int_equal(x.hint.n, 0);
	assert_int_equal(w->run->npending, 0);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_state(decided(d, "verdict"), "deny");
		assert_true(effect_parse(json_str(json_at(at(d, "request", "effects"), 1))) ==
			    EFFECT_opaque);
	}
	client_query(w, 1, 6, "DELETE FROM t WHERE id = 1"); /* without it people are asked */
	assert_true(has(refused(w).message, "needs approval"));
}

static void
a_copy_that_policy_denies_is_refused_like_anything_else(void **state)
{
	struct world *w = *state;

	AUTO_FREE char *text =
	    world_policy(w, "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}", 2);

	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
	client_ready(w, 1);
	client_query(w, 1, 5, "COPY t FROM STDIN");
	assert_state(refused(w).sqlstate, "42501");
	assert_verdict(w, "deny");
	client_query(w, 1, 6, "COPY t TO STDOUT");
	assert_int_equal(leased(w).copy_in, 0);
}

/* The server reads over the Sync in front of the data; the client sends one behind it. */
static void
an_extended_copy_ends_without_its_sync(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);
	struct lease l;

	client_ready(w, 1);
	extended(&m, "COPY t FROM STDIN");
	pgwire_put_sync(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	l = leased(w);
	assert_int_equal(l.copy_in, 1);
	assert_true(str_eq(l.msgs, buf_str(&m)));
	copied(w, 5, "1\n", 'I');
	(void)heard(&w->front, MSG_PG_DONE);
	/* So the exchange goes on: a limited change cannot be told apart in it. */
	buf_reset(&m);
	extended(&m, "DROP TABLE t");
	pgwire_put_sync(&m);
	client_sends(w, 1, 6, CORE_ACT_SYNC, &m);
	assert_true(leased(w).token.n != 0); /* not refused alone: the server waits for a Sync */
	server_done(w, 1, 6, 5, 'I', 0);
	(void)heard(&w->front, MSG_PG_DONE);
	client_query(w, 1, 7, "DROP TABLE t");
	assert_state(refused(w).sqlstate, "42501");
}

static void
what_stands_behind_an_extended_copy_must_be_its_data(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf m = BUF(4096);

	client_ready(w, 1);
	extended(&m, "COPY t FROM STDIN");
	extended(&m, "SELECT 1");
	pgwire_put_sync(&m);
	client_sends(w, 1, 5, CORE_ACT_SYNC, &m);
	assert_state(refused(w).sqlstate, "08P01");
	assert_verdict(w, "deny");
	buf_reset(&m);
	extended(&m, "SELECT 1");
	extended(&m, "COPY t FROM STDIN");
	pgwire_put_flush(&m);
	client_sends(w, 1, 6, CORE_ACT_FLUSH, &m);
	assert_int_equal(leased(w).copy_in, 1);
}

static void
an_upstream_that_took_data_without_leave_is_cut_off(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	copied(w, 5, "1\n", 'I');
	assert_true(w->upstream.fd < 0);
	assert_int_equal(count(w, "outcome"), 2); /* what it did is on record */
}

static void
a_client_that_goes_away_in_mid_copy_ends_the_servers_connection(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(64);

	client_ready(w, 1);
	client_query(w, 1, 5, "COPY t FROM STDIN");
	(void)leased(w);
	buf_u64(&b, 1);
	say(&w->front, MSG_PG_CLOSE, &b);
	settle(w);
	(void)heard(&w->upstream, MSG_U_CLOSE);
	w->copied = "1\n";
	server_done(w, 1, 5, 4, 'I', 0);
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_state(json_str(json_get(json_root(d), "status")), "lost");
		assert_int_equal(json_int(at(d, "copy", "bytes")), 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_permitted_copy_is_leased_with_leave_for_its_data),
	    world_test(the_outcome_tells_bytes_and_digest_of_the_data),
	    world_test(a_copy_that_needs_approval_is_refused_since_its_data_cannot_be_shown),
	    world_test(a_copy_that_policy_denies_is_refused_like_anything_else),
	    world_test(an_extended_copy_ends_without_its_sync),
	    world_test(what_stands_behind_an_extended_copy_must_be_its_data),
	    world_test(an_upstream_that_took_data_without_leave_is_cut_off),
	    world_test(a_client_that_goes_away_in_mid_copy_ends_the_servers_connection),
	};

	return cmocka_run_group_tests_name("core_copy", tests, NULL, NULL);
}
