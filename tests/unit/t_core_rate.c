/*
 * Rates at work in core: the first that is over is held, what was held does not count, a COMMIT
 * counts nothing twice; the record holds what the verdict rests on, and after a restart the count
 * goes on from the log.
 */
#include "tests/unit/core_help.h"

#include "audit/rates.h"
#include "broker/core_live.h"
#include "common/banned.h"

#define WORK                                                                            \
	"{\"id\":\"work\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@" \
	"destructive\"]}}}"
#define MANY(over)                                                                          \
	WORK ",{\"id\":\"many\",\"require\":{\"effects\":{\"any\":[\"delete\"]},\"rate\":{" \
	     "\"over\":" over ",\"in\":\"10m\",\"per\":\"run\"}},\"approve\":[{\"role\":"   \
	     "\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}"

static void
use_rules(struct world *w, const char *rules)
{
	free(w->policy_text);
	w->policy_text = world_policy(w, rules, 2);
	core_boot_policy_use(w->c, world_parse(w->policy_text));
}

static uint64_t act = 1;

static const char *
delete_one(struct world *w, char state)
{
	act++;
	client_query(w, 1, act, "DELETE FROM t WHERE id = 17");
	if (silent(&w->upstream, MSG_U_SEND)) {
		(void)refused(w);
		return "refused";
	}
	(void)leased(w);
	server_done(w, 1, act, 1, state, 1);
	return "sent";
}

static void
passes(struct world *w, const char *sql, char state)
{
	act++;
	client_query(w, 1, act, sql);
	(void)leased(w);
	server_done(w, 1, act, 1, state, 0);
}

/* The count that the last action was judged by; -1: none. */
static int64_t
judged_by(const struct world *w)
{
	AUTO(json) struct json_doc *d = last(w, "action");
	const struct json *rates = json_get(at(d, "request", "input"), "rates");

	if (json_count(rates) == 0)
		return -1;
	assert_true(str_eqz(json_str(json_get(json_at(rates, 0), "rule")), "many"));
	return json_int(json_get(json_at(rates, 0), "n"));
}

static bool
counted(const struct world *w)
{
	AUTO(json) struct json_doc *d = last(w, "action");

	return at(d, "decision", "counted") != NULL;
}

static void
the_first_that_is_over_is_held_and_what_is_held_does_not_count(void **state)
{
	struct world *w = *state;

	use_rules(w, MANY("25"));
	client_ready(w, 1);
	for (int i = 0; i < 25; i++) {
		assert_string_equal(delete_one(w, 'I'), "sent");
		assert_int_equal(judged_by(w), i);
		assert_true(counted(w));
	}
	for (int i = 0; i < 3; i++) {
		assert_string_equal(delete_one(w, 'I'), "refused");
		assert_verdict(w, "needs_approval");
		assert_int_equal(judged_by(w), 25);
		assert_false(counted(w));
	}
	/* What the rule does not ask for goes on, and has no count. */
	passes(w, "SELECT 1", 'I');
	assert_int_equal(judged_by(w), -1);
	assert_false(counted(w));
}

static void
a_commit_counts_nothing_twice(void **state)
{
	struct world *w = *state;
	int64_t began;

	use_rules(w, MANY("2"));
	client_ready(w, 1);
	passes(w, "BEGIN", 'T');
	assert_string_equal(delete_one(w, 'T'), "sent");
	assert_string_equal(delete_one(w, 'T'), "sent");
	passes(w, "COMMIT", 'I'); /* both were within the rate, so is their end */
	assert_int_equal(judged_by(w), 1);
	assert_false(counted(w));
	{
		AUTO(json) struct json_doc *d = last(w, "action");
		struct str at_commit = json_str(at(d, "decision", "at"));
		struct str text = json_str(json_get(at(d, "request", "input"), "began"));
		int64_t now;

		assert_int_equal(clock_parse(text, &began, NULL), 0);
		assert_int_equal(clock_parse(at_commit, &now, NULL), 0);
		assert_true(began > 0 && began < now);
	}
	assert_string_equal(delete_one(w, 'I'), "refused");
	assert_int_equal(judged_by(w), 2);
}

static void
another_run_counts_for_itself(void **state)
{
	struct world *w = *state;

	use_rules(w, MANY("1"));
	client_ready(w, 1);
	assert_string_equal(delete_one(w, 'I'), "sent");
	assert_string_equal(delete_one(w, 'I'), "refused");
	memcpy(w->run->id, "r-another", sizeof("r-another"));
	assert_string_equal(delete_one(w, 'I'), "sent");
}

/* --- after a restart ------------------------------------------------------------- */

static void
tell(void *arg, struct str body)
{
	struct world *w = arg;
	AUTO_BUF struct buf b = BUF(1 << 17);
	struct hash none = {0};

	buf_lstr(&b, body);
	buf_put(&b, none.b, HASH_LEN);
	say(&w->writer, MSG_W_LIVE, &b);
}

/* What a writer with these records would tell (t_writer_live). */
static void
writer_comes_back(struct world *w)
{
	struct rates *r = rates_new();
	int64_t at_us = 0;

	for (size_t i = 0; i < w->nrecords; i++) {
		AUTO(json) struct json_doc *d = NULL;
		AUTO_BUF struct buf list = BUF(8192);
		struct err err = {0};
		struct jcs j;

		if (strcmp(w->records[i].type, "action") != 0)
			continue;
		assert_int_equal(json_parse(str_z(w->records[i].data), "r", &d, NULL), 0);
		if (at(d, "decision", "counted") == NULL)
			continue;
		jcs_init(&j, &list);
		assert_int_equal(jcs_value(&j, NULL, at(d, "decision", "counted"), &err), 0);
		assert_int_equal(clock_parse(json_str(at(d, "decision", "at")), &at_us, NULL), 0);
		rates_counted(r, buf_str(&list), at_us, 1);
	}
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	rates_tell(r, at_us, tell, w);
	rates_free(r);
}

static void
the_count_goes_on_from_the_log(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(1 << 12);

	use_rules(w, MANY("3"));
	client_ready(w, 1);
	for (int i = 0; i < 3; i++)
		assert_string_equal(delete_one(w, 'I'), "sent");
	writer_comes_back(w);
	buf_printf(&b,
	    "{\"data\":{\"targets\":[]},\"run\":\"%s\",\"seq\":0,\"time\":\"\",\"type\":\"run."
	    "start\"}",
	    w->run->id);
	tell(w, buf_str(&b));
	world_live(w);
	assert_true(w->c->live);
	assert_string_equal(delete_one(w, 'I'), "refused");
	assert_int_equal(judged_by(w), 3);
}

static void
a_told_rate_that_is_not_of_the_form_ends_the_writers_wire(void **state)
{
	struct world *w = *state;

	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell(w, STR("{\"data\":{\"rule\":\"many\"},\"type\":\"rate\"}"));
	settle(w);
	assert_false(w->c->live);
	assert_true(w->writer.fd <= 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(the_first_that_is_over_is_held_and_what_is_held_does_not_count),
	    world_test(a_commit_counts_nothing_twice),
	    world_test(another_run_counts_for_itself),
	    world_test(the_count_goes_on_from_the_log),
	    world_test(a_told_rate_that_is_not_of_the_form_ends_the_writers_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
