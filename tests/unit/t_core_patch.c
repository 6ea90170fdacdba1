/* The run's targets follow the policy: what goes is closed at once, what comes is made, recorded,
 * then served. */
#include "tests/unit/core_run_help.h"

#include "broker/core_kept.h"
#include "broker/core_patch.h"
#include "common/banned.h"

/* The base policy with db as `db` says (NULL: none), and these targets besides. */
static struct policy *
policy_of(struct world *w, const char *db, const char *more)
{
	static int serial = 1;
	AUTO_FREE char *text = world_policy(w, NULL, ++serial), *now = NULL;
	const char *from = strstr(text, "\"db\":{"), *to = strstr(text, "\"people\"");

	now = xasprintf("%.*s%s%s%s},%s", (int)(from - text), text, db != NULL ? db : "",
	    db != NULL && more != NULL ? "," : "", more != NULL ? more : "", to);
	return world_parse(now);
}

static void
policy_comes(struct world *w, const char *db, const char *more)
{
	core_boot_policy_use(w->c, policy_of(w, db, more));
	settle(w);
}

static void
place_of(struct world *w, const char *db, char out[CORE_PLACE_SIZE])
{
	AUTO(policy) struct policy *p = policy_of(w, db, NULL);

	core_plan_place(policy_target(p, STR("db")), out);
}

#define DB_AT(port, more)                                                                      \
	"\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\",\"port\":" port \
	",\"database\":\"app\",\"user\":\"agent\",\"credential\":\"cred\"," more               \
	"\"tls\":\"off\"}"
#define DB DB_AT("5432", "")
#define API "\"api\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://api.test\"}"
#define WEB "\"web\":{\"kind\":\"http\",\"env\":\"dev\",\"origin\":\"https://web.test\"}"

/* A run of an agent that asked for `target`, or for all. */
static struct core_run *
begun(struct world *w, const char *target)
{
	struct core_run *run;
	struct rd r;
	AUTO_FREE char *id = NULL;

	agent_connects(w, getuid());
	agent_opens(w, "tester", target);
	r = heard(&w->agent, MSG_A_PLAN);
	id = str_dup(rd_lstr(&r));
	hand_over(w, 0, listener("127.77.0.1"));
	start(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	run = core_run_find(w->c, str_z(id));
	(void)heard(&w->front, MSG_F_LISTEN);
	return run;
}

static void
answers(struct world *w, uint64_t serial)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, serial);
	buf_lz(&b, "");
	say(&w->agent, MSG_A_CHANGED, &b);
	settle(w);
}

/* What A_TARGETS lists: "name=index name=index! ..." (!: its listener is wanted). */
static uint64_t
listed(struct world *w, const char *want)
{
	struct rd r = heard(&w->agent, MSG_A_TARGETS);
	AUTO_BUF struct buf got = BUF(4096);
	uint64_t serial = rd_u64(&r);
	uint32_t n = rd_u32(&r);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = rd_u32(&r);
		bool fresh = rd_u8(&r) == 1;
		struct str id = rd_lstr(&r), kind = rd_lstr(&r);

		if (id.n == 0)
			id = kind;
		buf_printf(
		    &got, "%s%.*s=%u%s", i != 0 ? " " : "", STR_ARG(id), index, fresh ? "!" : "");
		(void)rd_lstr(&r);
		(void)rd_u32(&r);
		for (int k = 0; k < 3; k++)
			(void)rd_lstr(&r);
		(void)rd_u8(&r);
	}
	(void)rd_u32(&r); /* no variables here */
	assert_true(rd_end(&r));
	assert_state(buf_str(&got), want);
	return serial;
}

static void
assert_record(struct world *w, const char *list, const char *want)
{
	AUTO(json) struct json_doc *d = last(w, "run.targets");
	const struct json *v = json_get(json_root(d), list);
	AUTO_BUF struct buf got = BUF(4096);

	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *o = json_at(v, i);
		struct str s =
		    json_type(o) == JSON_OBJECT ? json_str(json_get(o, "target")) : json_str(o);

		buf_printf(&got, "%s%.*s", i != 0 ? " " : "", STR_ARG(s));
	}
	assert_state(buf_str(&got), want);
}

static void
live(struct world *w, const char *id, const char *type, const char *data, unsigned seq)
{
	AUTO_BUF struct buf b = BUF(8192);
	AUTO_BUF struct buf body = BUF(8192);
	uint8_t root[32] = {0};

	buf_printf(&body,
	    "{\"data\":%s,\"run\":\"%s\",\"seq\":%u,"
	    "\"time\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"%s\"}",
	    data, id, seq, type);
	buf_lstr(&b, buf_str(&body));
	buf_put(&b, root, 32);
	say(&w->writer, MSG_W_LIVE, &b);
}

/* That run is in the log, and core has it. */
static void
live_run(struct world *w, const char *id)
{
	live(w, id, "run.start", "{\"targets\":[]}", 2);
}

/* --- what goes ------------------------------------------------------------------- */

static void
a_target_that_the_policy_takes_away_is_closed_before_it_is_recorded(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	int kept = dup(run->targets[0].fd), on = 1;
	socklen_t n = sizeof(on);
	struct rd r;

	w->hold_writer = true;
	policy_comes(w, NULL, API);
	assert_int_equal(getsockopt(kept, SOL_SOCKET, SO_ACCEPTCONN, &on, &n), 0);
	assert_int_equal(on, 0); /* for whoever holds it */
	(void)close(kept);
	(void)heard(&w->front, MSG_F_REVOKE); /* of the world's own run */
	r = heard(&w->front, MSG_F_REVOKE);
	assert_state(rd_lstr(&r), run->id);
	assert_int_equal(rd_u32(&r), 2);
	assert_true(silent(&w->agent, MSG_A_TARGETS));
	ack(w, &w->records[w->nrecords - 2]);
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)listed(w, "api=1! proxy=2!");
	assert_record(w, "gone", "db");
	assert_record(w, "targets", "");
}

static void
its_sessions_end_with_what_they_have_in_flight_and_the_next_is_refused(void **state)
{
	struct world *w = *state;
	struct rd r;

	client_ready(w, 1);
	client_query(w, 1, 5, "SELECT 1");
	(void)leased(w);
	policy_comes(w, DB_AT("5433", ""), NULL);
	r = heard(&w->front, MSG_PG_GONE);
	assert_int_equal(rd_u64(&r), 1);
	assert_state(rd_lstr(&r), "57P01");
	r = heard(&w->upstream, MSG_U_CLOSE);
	assert_int_equal(rd_u64(&r), 1);
	assert_int_equal(rd_u8(&r), 1); /* and the server is told to stop */
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_state(json_str(json_get(json_root(d), "status")), "lost");
	}
	client_open(w, 2, "app");
	assert_true(has(refused(w).message, "the run has ended"));
}

static void
other_rules_and_ceilings_close_nothing(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);

	client_ready(w, 1);
	policy_comes(w, DB_AT("5432", "\"max_connections\":7,"), NULL);
	assert_true(silent(&w->front, MSG_F_REVOKE));
	assert_true(silent(&w->front, MSG_PG_GONE));
	assert_true(silent(&w->agent, MSG_A_TARGETS));
	assert_int_equal(count(w, "run.targets"), 0);
	core_boot_policy_drop(w->c); /* everything is refused, and nothing is closed */
	settle(w);
	assert_true(silent(&w->front, MSG_F_REVOKE));
	assert_int_equal(run->targets[0].listener, 2);
}

static void
each_thing_that_says_where_a_target_is_makes_it_another(void **state)
{
	struct world *w = *state;
	static const char *const others[] = {DB_AT("5432", "\"address\":\"127.0.0.2\","),
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\",\"port\":5432,"
	    "\"database\":\"app\",\"user\":\"other\",\"credential\":\"cred\",\"tls\":\"off\"}",
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\",\"port\":5432,"
	    "\"database\":\"app\",\"user\":\"agent\",\"credential\":\"cred2\",\"tls\":\"off\"}",
	    "\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\",\"port\":5432,"
	    "\"database\":\"app2\",\"user\":\"agent\",\"credential\":\"cred\",\"tls\":\"off\"}"};

	char was[CORE_PLACE_SIZE], now[CORE_PLACE_SIZE];

	place_of(w, DB, was);
	place_of(w, DB_AT("5432", "\"max_connections\":7,"), now);
	assert_string_equal(was, now);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		place_of(w, others[i], now);
		assert_string_not_equal(was, now);
	}
}

static void
without_its_owner_a_run_has_nothing(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = world_policy(w, NULL, 9);

	memcpy(strstr(text, "unix:olivia"), "unix:oliver", 11);
	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
	(void)heard(&w->front, MSG_F_REVOKE);
	assert_record(w, "gone", "db");
}

static void
a_session_ends_when_its_credential_is_another(void **state)
{
	struct world *w = *state;
	struct vault_bind b = {.name = STR("cred"),
	    .kind = STR("postgresql-password"),
	    .scheme = STR("postgresql"),
	    .host = STR("127.0.0.1"),
	    .user = STR("agent"),
	    .port = 5432};
	struct err err;

	client_ready(w, 1);
	core_patch_vault(w->c);
	settle(w);
	assert_true(silent(&w->front, MSG_PG_GONE));
	assert_int_equal(vault_remove(w->c->vault, STR("cred"), &err), 0);
	assert_int_equal(vault_put(w->c->vault, &b, secret_copy(STR("new-secret")), &err), 0);
	core_patch_vault(w->c);
	settle(w);
	(void)heard(&w->front, MSG_PG_GONE);
	assert_true(silent(&w->front, MSG_F_REVOKE));
	client_ready(w, 2); /* with the new one */
}

/* --- what comes ------------------------------------------------------------------ */

static void
a_target_that_comes_is_served_once_it_is_on_record(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	uint64_t serial;
	struct rd r;

	policy_comes(w, DB, API);
	serial = listed(w, "db=0 api=1! proxy=2!");
	hand_over(w, 1, listener("127.77.0.2"));
	hand_over(w, 2, listener("127.77.0.3"));
	assert_int_equal(count(w, "run.targets"), 0);
	w->hold_writer = true;
	answers(w, serial);
	assert_int_equal(count(w, "run.targets"), 1);
	core_run_front_up(w->c); /* whatever else goes on */
	settle(w);
	assert_true(silent(&w->front, MSG_F_LISTEN));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_record(w, "added", "api proxy");
	r = heard(&w->front, MSG_F_LISTEN);
	(void)rd_u32(&r);
	assert_int_equal(rd_u8(&r), 3);
	(void)heard(&w->front, MSG_F_LISTEN);
	assert_int_equal(run->targets[1].state, CORE_TARGET_SERVES);
}

static void
what_has_no_listener_is_left_out_and_the_rest_is_served(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	uint64_t serial;

	policy_comes(w, DB, API "," WEB);
	serial = listed(w, "db=0 api=1! web=2! proxy=3!");
	hand_over(w, 2, listener("127.77.0.3"));
	answers(w, serial);
	assert_record(w, "added", "web");
	assert_int_equal(run->targets[1].state, CORE_TARGET_GONE);
}

static void
a_run_that_named_its_targets_gets_no_others(void **state)
{
	struct world *w = *state;

	(void)begun(w, "db");
	policy_comes(w, DB, API);
	assert_true(silent(&w->agent, MSG_A_TARGETS));
	policy_comes(w, NULL, API);
	(void)listed(w, "");
	assert_record(w, "gone", "db");
}

static void
a_target_revoked_before_its_listener_came_is_not_served(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	int l = listener("127.77.0.2"), also = dup(l), on = 1;
	socklen_t n = sizeof(on);
	uint64_t serial;

	policy_comes(w, DB, API);
	serial = listed(w, "db=0 api=1! proxy=2!");
	policy_comes(w, DB, NULL);
	assert_true(silent(&w->agent, MSG_A_TARGETS)); /* one round at a time */
	hand_over(w, 1, l);
	assert_int_equal(getsockopt(also, SOL_SOCKET, SO_ACCEPTCONN, &on, &n), 0);
	assert_int_equal(on, 0);
	(void)close(also);
	answers(w, serial);
	(void)listed(w, "db=0");
	assert_true(silent(&w->front, MSG_F_LISTEN));
	assert_int_equal(count(w, "run.targets"), 0);
	assert_int_equal(run->targets[1].state, CORE_TARGET_GONE);
}

static void
no_address_is_given_to_another_host_and_a_host_gets_its_own_again(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	AUTO_FREE char *was = NULL;
	uint64_t serial;

	policy_comes(w, DB, API);
	serial = listed(w, "db=0 api=1! proxy=2!");
	hand_over(w, 1, listener("127.77.0.2"));
	hand_over(w, 2, listener("127.77.0.3"));
	answers(w, serial);
	was = xstrdup(run->targets[1].address);
	policy_comes(w, DB, WEB);
	answers(w, listed(w, "db=0 proxy=2 web=3!"));
	assert_string_not_equal(run->targets[3].address, was);
	policy_comes(w, DB, API);
	(void)listed(w, "db=0 api=1! proxy=2");
	assert_string_equal(run->targets[1].address, was);
}

static void
what_the_log_did_not_take_is_recorded_when_it_is_back(void **state)
{
	struct world *w = *state;
	struct core_run *run = begun(w, NULL);
	uint64_t serial;

	policy_comes(w, DB, API);
	serial = listed(w, "db=0 api=1! proxy=2!");
	hand_over(w, 1, listener("127.77.0.2"));
	hand_over(w, 2, listener("127.77.0.3"));
	w->hold_writer = true;
	answers(w, serial);
	end_close(&w->writer);
	settle(w);
	assert_int_equal(run->targets[1].state, CORE_TARGET_HELD);
	assert_true(silent(&w->front, MSG_F_LISTEN));
	w->hold_writer = false;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	live_run(w, w->run->id);
	live_run(w, run->id);
	world_live(w);
	assert_record(w, "added", "api proxy");
	(void)heard(&w->front, MSG_F_LISTEN);
	assert_int_equal(run->targets[1].state, CORE_TARGET_SERVES);
}

static void
an_answer_that_nobody_asked_for_ends_the_agent(void **state)
{
	struct world *w = *state;
	struct rd r;

	(void)begun(w, NULL);
	answers(w, 7);
	r = heard(&w->agent, MSG_A_ERROR);
	assert_int_equal(rd_u32(&r), -ERR_PROTOCOL);
}

/* --- after a restart --------------------------------------------------------------- */

static void
kept_is_closed(struct world *w, uint32_t index)
{
	int l = listener("127.77.0.9"), also = dup(l), on = 1;
	AUTO_BUF struct buf b = BUF(256);
	socklen_t n = sizeof(on);
	struct err err;
	struct rd r;

	buf_lz(&b, "r-old");
	buf_u32(&b, index);
	r = rd_init(buf_str(&b));
	assert_int_equal(core_kept_on_kept(&w->c->parent, &r, &l, 1, &err), 0);
	assert_int_equal(getsockopt(also, SOL_SOCKET, SO_ACCEPTCONN, &on, &n), 0);
	assert_int_equal(on, 0);
	(void)close(also);
}

static void
a_run_comes_back_with_the_targets_that_it_had_last(void **state)
{
	struct world *w = *state;
	AUTO(secret) struct secret *key = NULL;
	AUTO_FREE char *targets = NULL;
	char place[CORE_PLACE_SIZE];
	struct core_run *run;
	struct err err;

	assert_int_equal(core_run_key(w->c, "r-old", true, &key, &err), 0);
	core_plan_place(policy_target(w->c->policy, STR("db")), place);
	targets = xasprintf("{\"added\":[\"db\"],\"addresses\":9,\"gone\":[\"old\"],\"targets\":["
			    "{\"address\":\"127.77.0.3\",\"host\":\"127.0.0.1\",\"index\":2,"
			    "\"kind\":\"postgres\",\"listen\":1,\"place\":\"%s\",\"port\":5432,"
			    "\"target\":\"db\"}]}",
	    place);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	live(w, "r-old", "run.start",
	    "{\"agent\":\"a\",\"all\":true,\"login\":\"unix:olivia\",\"owner\":\"olivia\","
	    "\"targets\":[{\"address\":\"127.77.0.1\",\"host\":\"old.test\",\"kind\":\"postgres\","
	    "\"listen\":1,\"port\":5432,\"target\":\"old\"}]}",
	    3);
	live(w, "r-old", "run.targets", targets, 4);
	world_live(w);
	run = core_run_find(w->c, STR("r-old"));
	assert_non_null(run);
	assert_int_equal(run->naddresses, 9);
	assert_int_equal(run->targets[0].state, CORE_TARGET_GONE);
	assert_string_equal(run->targets[2].id, "db");
	/* A listener of a change that was never recorded is closed for all. */
	kept_is_closed(w, 1);
	kept_is_closed(w, 3);
	assert_int_equal(run->state, CORE_RUN_LIVE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_target_that_the_policy_takes_away_is_closed_before_it_is_recorded),
	    world_test(its_sessions_end_with_what_they_have_in_flight_and_the_next_is_refused),
	    world_test(other_rules_and_ceilings_close_nothing),
	    world_test(each_thing_that_says_where_a_target_is_makes_it_another),
	    world_test(without_its_owner_a_run_has_nothing),
	    world_test(a_session_ends_when_its_credential_is_another),
	    world_test(a_target_that_comes_is_served_once_it_is_on_record),
	    world_test(what_has_no_listener_is_left_out_and_the_rest_is_served),
	    world_test(a_run_that_named_its_targets_gets_no_others),
	    world_test(a_target_revoked_before_its_listener_came_is_not_served),
	    world_test(no_address_is_given_to_another_host_and_a_host_gets_its_own_again),
	    world_test(what_the_log_did_not_take_is_recorded_when_it_is_back),
	    world_test(an_answer_that_nobody_asked_for_ends_the_agent),
	    world_test(a_run_comes_back_with_the_targets_that_it_had_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
