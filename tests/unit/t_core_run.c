/* Runs: who may open one, its plan and listeners, what it reports, its end, its way through
 * restarts. */
#include "tests/unit/core_run_help.h"

#include "broker/core_agent.h"
#include "broker/core_kept.h"
#include "broker/core_plan.h"
#include "common/banned.h"

static void
assert_refused(struct world *w, int code)
{
	struct rd r = heard(&w->agent, MSG_A_ERROR);

	assert_int_equal(rd_u32(&r), -code);
	assert_true(w->agent.fd <= 0); /* and the wire has ended */
}

/* Id of the run that was planned; into out. */
static void
plan_read(struct world *w, char out[CORE_ID_SIZE])
{
	struct rd r = heard(&w->agent, MSG_A_PLAN);
	struct str id = rd_lstr(&r);

	(void)snprintf(out, CORE_ID_SIZE, "%.*s", STR_ARG(id));
	assert_state(rd_lstr(&r), "olivia");
	assert_true(str_has_prefix(rd_lstr(&r), "-----BEGIN CERTIFICATE"));
	assert_int_equal(rd_u32(&r), 1);
	assert_state(rd_lstr(&r), "db");
	assert_state(rd_lstr(&r), "postgres");
	assert_state(rd_lstr(&r), "127.0.0.1");
	assert_int_equal(rd_u32(&r), 5432);
	assert_state(rd_lstr(&r), "127.77.0.1");
	assert_state(rd_lstr(&r), "app");
	assert_state(rd_lstr(&r), "agent");
	assert_int_equal(rd_u8(&r), CORE_LISTEN_TCP);
	assert_int_equal(rd_u32(&r), 0); /* no variables */
	assert_true(str_has_prefix(rd_lstr(&r), "- db: postgres at 127.0.0.1 port 5432"));
	assert_int_equal(rd_u32(&r), 0); /* no models for the sandbox */
	assert_true(rd_end(&r));
}

static struct core_run *
started(struct world *w)
{
	char id[CORE_ID_SIZE];

	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	plan_read(w, id);
	hand_over(w, 0, listener("127.77.0.1"));
	start(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	return core_run_find(w->c, str_z(id));
}

/* --- opening --------------------------------------------------------------------- */

static void
a_run_starts_when_its_record_is_durable_and_front_gets_its_listener(void **state)
{
	struct world *w = *state;
	char id[CORE_ID_SIZE];
	struct rd r;

	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	plan_read(w, id);
	hand_over(w, 0, listener("127.77.0.1"));
	w->hold_writer = true;
	start(w);
	assert_true(silent(&w->agent, MSG_A_STARTED));
	assert_true(silent(&w->front, MSG_F_LISTEN));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	r = heard(&w->front, MSG_F_LISTEN);
	(void)rd_u32(&r);
	assert_int_equal(rd_u8(&r), 1);
	assert_state(rd_lstr(&r), id);
	assert_state(rd_lstr(&r), "db");
	assert_state(rd_lstr(&r), "127.0.0.1");
	{
		AUTO(json) struct json_doc *d = last(w, "run.start");

		assert_state(json_str(json_get(json_root(d), "owner")), "olivia");
		assert_state(json_str(json_get(json_root(d), "login")), "unix:olivia");
	}
}

static void
no_owner_no_run(void **state)
{
	struct world *w = *state;

	agent_connects(w, 65000); /* no login at all */
	agent_opens(w, "tester", NULL);
	assert_refused(w, ERR_UNAUTHORISED);
	core_logins_free(w->c->logins);
	w->c->logins = core_logins_parse(STR("eve:x:65000:0::/:\nolivia:x:65001:0::/:\n"));
	agent_connects(w, 65000); /* a login, but of nobody in the policy */
	agent_opens(w, "tester", NULL);
	assert_refused(w, ERR_UNAUTHORISED);
	agent_connects(w, 65001);
	agent_opens(w, "tester", NULL);
	(void)heard(&w->agent, MSG_A_PLAN);
}

static void
unknown_targets_and_names_are_refused(void **state)
{
	struct world *w = *state;

	agent_connects(w, getuid());
	agent_opens(w, "tester", "nowhere");
	assert_refused(w, ERR_NOT_FOUND);
	agent_connects(w, getuid());
	agent_opens(w, "", NULL);
	assert_refused(w, ERR_INVALID);
	agent_connects(w, getuid());
	agent_opens(w, "tester", "db");
	(void)heard(&w->agent, MSG_A_PLAN);
}

static void
a_listener_must_listen_and_each_target_needs_one(void **state)
{
	struct world *w = *state;

	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	start(w);
	assert_refused(w, ERR_STATE);
	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	hand_over(w, 0, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_refused(w, ERR_INVALID);
	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	hand_over(w, 7, listener("127.77.0.1"));
	assert_refused(w, ERR_INVALID);
	assert_int_equal(count(w, "run.start"), 0);
}

static void
there_is_a_ceiling_of_runs(void **state)
{
	struct world *w = *state;
	struct core_run *run;
	struct err err;

	while (w->c->nruns < CORE_RUNS_MAX)
		assert_int_equal(core_run_new(w->c, NULL, &run, &err), 0);
	agent_connects(w, getuid());
	agent_opens(w, "tester", NULL);
	assert_refused(w, ERR_TOO_LARGE);
}

static void
each_target_of_a_run_has_an_address_of_its_own(void **state)
{
	char a[16], b[16];

	(void)state;
	core_run_address(0, a);
	assert_string_equal(a, "127.77.0.1");
	core_run_address(249, a);
	assert_string_equal(a, "127.77.0.250");
	core_run_address(250, b);
	assert_string_not_equal(a, b);
}

/* --- events ---------------------------------------------------------------------- */

static void
what_the_agent_reports_is_acknowledged_when_durable(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(4096);
	struct rd r;

	(void)started(w);
	w->hold_writer = true;
	buf_u64(&b, 42);
	buf_lz(&b, "exec");
	buf_lz(&b, "{\"zeta\":1,\"argv\":[\"sh\"]}");
	buf_lz(&b, "echo hello");
	say(&w->agent, MSG_A_EVENT, &b);
	settle(w);
	assert_true(silent(&w->agent, MSG_A_EVENT_ACK));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	r = heard(&w->agent, MSG_A_EVENT_ACK);
	assert_int_equal(rd_u64(&r), 42);
	{
		AUTO(json) struct json_doc *d = last(w, "agent.exec");

		assert_int_equal(json_int(json_get(json_root(d), "zeta")), 1);
		assert_int_equal(json_int(at(d, "content", "len")), 10);
		assert_null(memmem(w->records[w->nrecords - 1].data,
		    strlen(w->records[w->nrecords - 1].data), "hello", 5));
	}
}

static void
an_agent_cannot_write_records_of_other_types_or_keys(void **state)
{
	struct world *w = *state;
	static const char *const bad[][2] = {{"approval.grant", "{}"}, {"exec", "{\"content\":1}"},
	    {"exec", "{\"Upper\":1}"}, {"exec", "[]"}, {"exec", "{\"a\":null}"}};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_BUF struct buf b = BUF(4096);

		(void)started(w);
		buf_u64(&b, 1);
		buf_lz(&b, bad[i][0]);
		buf_lz(&b, bad[i][1]);
		buf_lz(&b, "");
		say(&w->agent, MSG_A_EVENT, &b);
		settle(w);
		(void)heard(&w->agent, MSG_A_ERROR);
		assert_int_equal(count(w, "agent.exec"), 0);
		assert_int_equal(count(w, "approval.grant"), 0);
	}
}

static void
say_event_only(struct world *w)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, 1);
	buf_lz(&b, "note");
	buf_lz(&b, "{}");
	buf_lz(&b, "again");
	say(&w->agent, MSG_A_EVENT, &b);
}

static void
say_event(struct world *w)
{
	say_event_only(w);
	settle(w);
}

static void
a_flood_of_events_leaves_room_for_the_records_of_others(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf data = BUF(64);
	struct core_run *run = started(w);
	struct core *c = run->core;
	size_t n = w->nrecords;

	w->hold_writer = true;
	/* Many at a time: a record that waits for CORE_RECORD_MS is refused, however slow it is
	 * here. */
	for (unsigned i = 0; i < CORE_EVENTS_MAX; i++) {
		say_event_only(w);
		if (i % 64 == 63)
			settle(w);
	}
	settle(w);
	assert_true(silent(&w->agent, MSG_A_ERROR));
	say_event(w);
	(void)heard(&w->agent, MSG_A_ERROR);
	assert_int_equal(count(w, "agent.note"), CORE_EVENTS_MAX);
	assert_int_equal(count(w, "run.end"), 1);
	/* They become durable when nobody waits for them any more. */
	for (; n < w->nrecords; n++)
		ack(w, &w->records[n]);
	settle(w);
	assert_int_equal(c->ntickets, 0);

	/* Nor can many agents together: half of all stays for what the broker itself records. */
	w->hold_writer = false;
	run = started(w);
	w->hold_writer = true;
	n = c->ntickets;
	c->ntickets = CORE_TICKETS_MAX / 2;
	say_event(w);
	(void)heard(&w->agent, MSG_A_ERROR);
	buf_put_z(&data, "{}");
	assert_non_null(core_record(
	    c, &(struct core_append){.type = "run.alarm", .run = run->id, .data = &data}));
	c->ntickets -= CORE_TICKETS_MAX / 2 - n;
}

/* --- ends ------------------------------------------------------------------------ */

static void
a_runs_end_is_durable_before_the_agent_hears_of_it(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(256);
	struct core_run *run = started(w);
	char id[CORE_ID_SIZE];

	memcpy(id, run->id, sizeof(id));
	w->hold_writer = true;
	buf_lz(&b, "done");
	buf_lz(&b, "all of it");
	buf_lz(&b, "{\"turns\":3}");
	say(&w->agent, MSG_A_END, &b);
	settle(w);
	(void)heard(&w->front, MSG_F_UNLISTEN);
	assert_true(silent(&w->agent, MSG_A_ENDED));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)heard(&w->agent, MSG_A_ENDED);
	assert_null(core_run_find(w->c, str_z(id)));
}

static void
an_agent_that_vanishes_ends_its_run_and_its_requests(void **state)
{
	struct world *w = *state;
	struct core_run *run = started(w);
	char id[CORE_ID_SIZE];

	memcpy(id, run->id, sizeof(id));
	end_close(&w->agent);
	settle(w);
	assert_null(core_run_find(w->c, str_z(id)));
	{
		AUTO(json) struct json_doc *d = last(w, "run.end");

		assert_state(json_str(json_get(json_root(d), "status")), "lost");
	}
}

static void
a_run_ended_from_outside_passes_nothing_more(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(w, 1, 2, "DELETE FROM t WHERE id = 1");
	(void)refused(w);
	core_run_end(w->run, "killed", STR("by an operator"), false);
	settle(w);
	(void)heard(&w->front, MSG_PG_GONE);
	(void)heard(&w->upstream, MSG_U_CLOSE);
	(void)heard(&w->front, MSG_F_UNLISTEN);
	assert_int_equal(count(w, "approval.void"), 1);
	client_open(w, 2, "app");
	assert_state(refused(w).sqlstate, "57P01");
}

/* --- restarts -------------------------------------------------------------------- */

static void
a_new_front_gets_the_listeners_again(void **state)
{
	struct world *w = *state;

	(void)started(w);
	(void)heard(&w->front, MSG_F_LISTEN);
	world_wire(w, &w->front, IPC_ROLE_FRONT, "");
	settle(w);
	(void)heard(&w->front, MSG_F_LISTEN);
}

static void
a_run_of_the_log_waits_for_its_agent_which_must_be_the_owner(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf resume = BUF(256);
	struct core_run *run = w->run;

	/* As after a restart of core: the run is there, its agent is not. */
	assert_null(run->peer);
	buf_u32(&resume, IPC_VERSION);
	buf_lz(&resume, run->id);
	buf_u64(&resume, 0);
	buf_u8(&resume, 0);
	agent_connects(w, 61001); /* dana */
	say(&w->agent, MSG_A_RESUME, &resume);
	settle(w);
	assert_refused(w, ERR_UNAUTHORISED);
	agent_connects(w, getuid());
	say(&w->agent, MSG_A_RESUME, &resume);
	settle(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	agent_connects(
	    w, getuid()); /* a second agent for the same run: the first has gone with its wire */
	settle(w);
	say(&w->agent, MSG_A_RESUME, &resume);
	settle(w);
	assert_refused(w, ERR_NOT_FOUND);
}

/* The log has r-old, with one target, and nothing else. */
static void
old_run_comes_back(struct world *w)
{
	AUTO_BUF struct buf live = BUF(8192);
	AUTO_BUF struct buf body = BUF(4096);
	AUTO(secret) struct secret *key = NULL;
	char place[CORE_PLACE_SIZE];
	uint8_t root[32] = {0};
	struct err err;

	assert_int_equal(core_run_key(w->c, "r-old", true, &key, &err), 0);
	core_plan_place(policy_target(w->c->policy, STR("db")), place);
	buf_printf(&body,
	    "{\"data\":{\"agent\":\"a\",\"owner\":\"olivia\",\"login\":\"unix:"
	    "olivia\",\"targets\":[{\"listen\":1,\"target\":\"db\",\"place\":\"%s\","
	    "\"kind\":\"postgres\",\"host\":\"127.0.0.1\",\"port\":5432,\"address\":"
	    "\"127.77.0.1\"}]},"
	    "\"run\":\"r-old\",\"seq\":3,\"time\":\"2026-01-01T00:00:00.000000Z\","
	    "\"type\":\"run.start\"}",
	    place);
	buf_lstr(&live, buf_str(&body));
	buf_put(&live, root, 32);
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	say(&w->writer, MSG_W_LIVE, &live);
	world_live(w);
}

static void
a_run_that_core_never_heard_of_comes_back_from_the_log(void **state)
{
	struct world *w = *state;
	struct core_run *run;

	old_run_comes_back(w);
	run = core_run_find(w->c, STR("r-old"));
	assert_non_null(run);
	assert_int_equal(run->state, CORE_RUN_LIVE);
	assert_string_equal(run->targets[0].database, "app");
	assert_non_null(run->timer); /* and is ended if nobody comes */
	assert_null(core_run_find(w->c, str_z("r-none")));
	/* The run that core had and the log does not: ended. */
	assert_int_equal(count(w, "run.end"), 1);
}

static void
parent_kept(struct world *w, const char *run, int fd)
{
	AUTO_BUF struct buf b = BUF(256);
	struct rd r;
	struct err err;

	buf_lz(&b, run);
	buf_u32(&b, 0);
	r = rd_init(buf_str(&b));
	assert_int_equal(core_kept_on_kept(&w->c->parent, &r, &fd, 1, &err), 0);
}

static void
parent_kept_no_more(struct world *w)
{
	struct rd r = rd_init(STR(""));
	struct err err;

	assert_int_equal(core_kept_on_kept_end(&w->c->parent, &r, NULL, 0, &err), 0);
	settle(w);
}

static void
a_run_whose_listeners_went_with_the_broker_is_ended_and_its_agent_told(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf resume = BUF(256);
	AUTO(json) struct json_doc *d = NULL;

	old_run_comes_back(w);
	buf_u32(&resume, IPC_VERSION);
	buf_lz(&resume, "r-old");
	buf_u64(&resume, 0);
	buf_u8(&resume, 0);
	agent_connects(w, getuid()); /* back before the parent is done */
	say(&w->agent, MSG_A_RESUME, &resume);
	settle(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	parent_kept_no_more(w);
	(void)heard(&w->agent, MSG_A_KILL);
	assert_null(core_run_find(w->c, STR("r-old")));
	d = last(w, "run.end");
	assert_state(json_str(json_get(json_root(d), "status")), "lost");
	assert_state(
	    json_str(json_get(json_root(d), "text")), "its listeners went with the broker");
	agent_connects(w, getuid()); /* back after */
	say(&w->agent, MSG_A_RESUME, &resume);
	settle(w);
	assert_refused(w, ERR_NOT_FOUND);
}

static void
a_run_whose_listeners_the_parent_kept_goes_on(void **state)
{
	struct world *w = *state;

	old_run_comes_back(w);
	parent_kept(w, "r-old", listener("127.77.0.1"));
	parent_kept_no_more(w);
	assert_int_equal(core_run_find(w->c, STR("r-old"))->state, CORE_RUN_LIVE);
	(void)heard(&w->front, MSG_F_LISTEN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_run_starts_when_its_record_is_durable_and_front_gets_its_listener),
	    world_test(no_owner_no_run),
	    world_test(unknown_targets_and_names_are_refused),
	    world_test(a_listener_must_listen_and_each_target_needs_one),
	    world_test(there_is_a_ceiling_of_runs),
	    cmocka_unit_test(each_target_of_a_run_has_an_address_of_its_own),
	    world_test(what_the_agent_reports_is_acknowledged_when_durable),
	    world_test(an_agent_cannot_write_records_of_other_types_or_keys),
	    world_test(a_flood_of_events_leaves_room_for_the_records_of_others),
	    world_test(a_runs_end_is_durable_before_the_agent_hears_of_it),
	    world_test(an_agent_that_vanishes_ends_its_run_and_its_requests),
	    world_test(a_run_ended_from_outside_passes_nothing_more),
	    world_test(a_new_front_gets_the_listeners_again),
	    world_test(a_run_of_the_log_waits_for_its_agent_which_must_be_the_owner),
	    world_test(a_run_that_core_never_heard_of_comes_back_from_the_log),
	    world_test(a_run_whose_listeners_went_with_the_broker_is_ended_and_its_agent_told),
	    world_test(a_run_whose_listeners_the_parent_kept_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
