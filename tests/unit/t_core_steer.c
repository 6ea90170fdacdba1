/* What people tell a run, who may, whose words exclude them, what an agent that comes back hears;
 * children. */
#include "tests/unit/core_run_help.h"

#include "broker/core_child.h"
#include "broker/core_peer.h"
#include "broker/core_steer.h"
#include "broker/core_watch.h"
#include "policy/lift.h"
#include "common/banned.h"

#define DANA 61001
#define STRANGER 61999

/* By a person of that uid, on a connection of its own. */
static void
asks_of(struct world *w, unsigned uid, const char *run, const char *verb, const char *more)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	AUTO_FREE char *args = xasprintf("{\"run\":\"%s\"%s}", run, more);

	end_close(&w->cli);
	(void)core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), uid);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, verb);
	buf_lz(&b, args);
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
}

static void
asks(struct world *w, unsigned uid, const char *verb, const char *more)
{
	asks_of(w, uid, w->run->id, verb, more);
}

/* Its code. */
static unsigned
reply(struct world *w)
{
	struct rd r = heard(&w->cli, MSG_Q_REPLY);

	return rd_u32(&r);
}

static unsigned
call(struct world *w, unsigned uid, const char *verb, const char *more)
{
	asks(w, uid, verb, more);
	return reply(w);
}

static void
agent_is_back(struct world *w, uint64_t had_heard)
{
	AUTO_BUF struct buf b = BUF(256);

	if (w->run->peer != NULL) { /* as after a restart of core */
		w->run->peer->run = NULL;
		w->run->peer = NULL;
	}
	agent_connects(w, getuid());
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, w->run->id);
	buf_u64(&b, had_heard);
	buf_u8(&b, 1);
	say(&w->agent, MSG_A_RESUME, &b);
	settle(w);
	(void)heard(&w->agent, MSG_A_STARTED);
}

static void
assert_told(struct world *w, uint8_t how, const char *who, const char *text, uint64_t *ret_seq)
{
	struct rd r = heard(&w->agent, MSG_A_STEER);
	uint64_t seq;

	assert_int_equal(rd_u8(&r), how);
	seq = rd_u64(&r);
	assert_state(rd_lstr(&r), who);
	assert_state(rd_lstr(&r), text);
	assert_true(rd_end(&r));
	if (ret_seq != NULL)
		*ret_seq = seq;
}

static void
words_reach_the_agent_when_they_are_durable(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *d = NULL;
	uint64_t seq = 0;

	w->seq = 7; /* 0 is the log's own first record */
	agent_is_back(w, 0);
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"go on\""), 0);
	assert_told(w, 4, "olivia", "go on", &seq);
	assert_true(seq != 0);
	d = last(w, "run.message");
	assert_state(json_str(json_get(json_root(d), "by")), "olivia");
	assert_true(silent(&w->agent, MSG_A_STEER));
	/* What it has heard it is not told again; what it has not, it is. */
	agent_is_back(w, seq);
	assert_true(silent(&w->agent, MSG_A_STEER));
	agent_is_back(w, 0);
	assert_told(w, 4, "olivia", "go on", NULL);
}

static void
a_log_that_is_away_keeps_words_from_the_agent(void **state)
{
	struct world *w = *state;

	agent_is_back(w, 0);
	w->c->live = false;
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"go on\""), -ERR_UNAVAILABLE);
	assert_int_equal(call(w, getuid(), "run-pause", ""), -ERR_UNAVAILABLE);
	w->c->live = true;
	assert_true(silent(&w->agent, MSG_A_STEER));
	assert_false(w->run->paused);
}

static void
strangers_and_other_people_may_not_watch_or_talk_but_people_may_pause(void **state)
{
	struct world *w = *state;

	agent_is_back(w, 0);
	assert_int_equal(call(w, STRANGER, "run-watch", ""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, STRANGER, "run-stop", ""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, DANA, "run-watch", ""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, DANA, "run-message", ",\"text\":\"x\""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, DANA, "run-resume", ""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, DANA, "run-pause", ""), 0);
	assert_told(w, 1, "dana", "", NULL);
	assert_true(w->run->paused);
	assert_int_equal(call(w, getuid(), "run-resume", ""), 0);
	assert_told(w, 2, "olivia", "", NULL);
	assert_int_equal(count(w, "run.watch"), 0);
}

static void
a_message_has_an_author_a_size_and_is_text(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf big = BUF(8192);

	buf_put_z(&big, ",\"text\":\"");
	for (int i = 0; i < CORE_SAY_MAX + 1; i++)
		buf_put_c(&big, 'x');
	buf_put_z(&big, "\"");
	buf_put_c(&big, '\0');
	assert_int_equal(call(w, getuid(), "run-message", (const char *)big.p), -ERR_INVALID);
	assert_int_equal(call(w, getuid(), "run-message", ""), -ERR_INVALID);
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"x\""), 0);
}

static struct core_run *
child_of(struct world *w, struct core_run *up)
{
	struct core_run *run;
	struct err err;

	if (core_run_new(w->c, NULL, &run, &err) != 0)
		fail_msg("%s", err.msg);
	run->agent = xstrdup("tester");
	run->owner = xstrdup("olivia");
	run->login = xstrdup("unix:olivia");
	assert_int_equal(core_child_join(run, str_z(up->id), &err), 0);
	run->state = CORE_RUN_LIVE;
	return run;
}

static void
member_of(struct buf *b, const char *name, size_t n)
{
	buf_reset(b);
	buf_printf(b, ",\"%s\":\"", name);
	for (size_t i = 0; i < n; i++)
		buf_put_c(b, 'x');
	buf_put_z(b, "\"");
	buf_put_c(b, '\0');
}

static void
a_reason_is_short_and_printable(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(8192);

	member_of(&b, "reason", LIFT_REASON_MAX + 1);
	assert_int_equal(call(w, getuid(), "run-pause", (const char *)b.p), -ERR_INVALID);
	assert_int_equal(
	    call(w, getuid(), "run-pause", ",\"reason\":\"\\u001b[2J\""), -ERR_INVALID);
	member_of(&b, "reason", LIFT_REASON_MAX);
	assert_int_equal(call(w, getuid(), "run-pause", (const char *)b.p), 0);
}

static void
a_run_that_does_not_live_is_told_nothing(void **state)
{
	struct world *w = *state;
	char id[CORE_ID_SIZE];

	w->run->state = CORE_RUN_STARTING;
	assert_int_equal(call(w, getuid(), "run-pause", ""), -ERR_NOT_FOUND);
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"x\""), -ERR_NOT_FOUND);
	assert_int_equal(count(w, "run.pause") + count(w, "run.message"), 0);
	assert_false(core_steer_gave_words(w->run, STR("olivia")));
	w->run->state = CORE_RUN_LIVE;
	memcpy(id, w->run->id, sizeof(id));
	w->run->id[0] = 'x'; /* there is none of that name */
	asks_of(w, getuid(), id, "run-pause", "");
	assert_int_equal(reply(w), -ERR_NOT_FOUND);
	memcpy(w->run->id, id, sizeof(id));
	assert_int_equal(call(w, getuid(), "run-pause", ""), 0);
	/* One that ends before the word for it is durable. */
	for (int gone = 0; gone < 2; gone++) {
		w->hold_writer = true;
		asks(w, getuid(), "run-pause", "");
		w->hold_writer = false;
		w->run->state = CORE_RUN_ENDING;
		if (gone == 1) {
			core_run_free(w->run);
			w->run = NULL;
		}
		ack(w, &w->records[w->nrecords - 1]);
		settle(w);
		assert_int_equal(reply(w), -ERR_NOT_FOUND);
		if (gone == 0)
			w->run->state = CORE_RUN_LIVE;
	}
}

static void
words_have_an_author_also_where_the_brokers_own_user_may_steer(void **state)
{
	struct world *w = *state;

	assert_int_equal(call(w, STRANGER, "run-pause", ""), -ERR_UNAUTHORISED);
	w->c->uid = STRANGER;
	assert_int_equal(call(w, STRANGER, "run-message", ",\"text\":\"x\""), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, STRANGER, "run-pause", ""), 0);
}

static void
a_run_is_told_so_many_things_and_by_so_many_people(void **state)
{
	struct world *w = *state;

	w->run->nsteers = CORE_STEERS_MAX;
	assert_int_equal(call(w, getuid(), "run-pause", ""), -ERR_TOO_LARGE);
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"x\""), -ERR_TOO_LARGE);
	w->run->nsteers = CORE_STEERS_MAX - 2;
	assert_int_equal(call(w, getuid(), "run-pause", ""), 0);
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"x\""), 0);
	/* To stop it is possible always. */
	agent_is_back(w, w->seq);
	assert_int_equal(call(w, getuid(), "run-stop", ""), 0);
	assert_int_equal(call(w, getuid(), "run-stop", ""), -ERR_TOO_LARGE);
	/* One more person than there is room for; and who is among them, or the owner. */
	for (size_t i = 0; i < CORE_SPOKE_MAX; i++) {
		AUTO_FREE char *name = xasprintf("p%zu", i);

		assert_true(core_steer_words_room(w->run, str_z(name)));
		core_steer_words_add(w->run, str_z(name));
	}
	assert_false(core_steer_words_room(w->run, STR("omar")));
	assert_true(core_steer_words_room(w->run, STR("p0")));
	assert_true(core_steer_words_room(w->run, STR("olivia")));
}

static void
who_gives_words_is_excluded_before_they_are_durable(void **state)
{
	struct world *w = *state;

	agent_is_back(w, 0);
	free(w->run->owner);
	w->run->owner = xstrdup("dana");
	w->hold_writer = true;
	assert_false(core_steer_gave_words(w->run, STR("olivia")));
	asks(w, getuid(), "run-message", ",\"text\":\"x\"");
	assert_true(silent(&w->cli, MSG_Q_REPLY));
	assert_true(core_steer_gave_words(w->run, STR("olivia")));
	assert_true(silent(&w->agent, MSG_A_STEER));
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_int_equal(reply(w), 0);
	assert_told(w, 4, "olivia", "x", NULL);
}

static void
what_is_not_durable_in_time_is_not_told(void **state)
{
	struct world *w = *state;

	agent_is_back(w, 0);
	w->hold_writer = true;
	asks(w, getuid(), "run-pause", "");
	turn(w, CORE_RECORD_MS + 100);
	settle(w);
	assert_int_equal(reply(w), -ERR_UNAVAILABLE);
	assert_true(silent(&w->agent, MSG_A_STEER));
	assert_false(w->run->paused);
}

/* --- the log ------------------------------------------------------------------------ */

static const char *
kept(struct world *w, const char *by, const struct buf *content, const char *frame)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_FREE char *text = xasprintf(
	    "{%s%s\"frame\":\"%s\"}", by, content != NULL ? (char *)content->p : "", frame);
	struct err err;

	if (json_parse(str_z(text), "record", &d, &err) != 0)
		fail_msg("%s", err.msg);
	return core_steer_kept(w->c, str_z(w->run->id), "run.message", 9, json_root(d));
}

static void
what_the_log_has_of_words_is_theirs_or_void(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf content = BUF(1024), frame = BUF(65536), b64 = BUF(65536);
	struct blob_ref ref;
	struct err err;
	struct jcs j;

	assert_int_equal(blob_seal(w->run->key, str_z(w->run->id), "text/plain", STR("go on"),
			     &frame, &ref, &err),
	    0);
	jcs_init(&j, &content);
	jcs_open(&j, NULL);
	blob_ref_jcs(&j, "content", &ref);
	jcs_close(&j);
	content.p[0] = ' '; /* as members of another object */
	content.p[content.n - 1] = ',';
	buf_put_c(&content, '\0');
	enc_base64(&b64, buf_str(&frame));
	buf_put_c(&b64, '\0');
	w->run->rebuilt = true;
#define BY "\"by\":\"dana\","
#define B64 ((char *)b64.p)
	assert_null(core_steer_kept(w->c, STR("r-none"), "run.message", 9, NULL));
	assert_string_equal(kept(w, "", &content, B64), "by");
	assert_string_equal(kept(w, BY, &content, "*"), "frame");
	assert_string_equal(kept(w, BY, NULL, B64), "frame");
	assert_null(kept(w, BY "\"to\":\"r-none\",", &content, "*"));
	assert_int_equal(w->run->nsays, 0);
	assert_null(kept(w, BY, &content, B64));
	agent_is_back(w, 0);
	assert_told(w, 4, "dana", "go on", NULL);
	b64.p[40] ^= 1;
	assert_string_equal(kept(w, BY, &content, B64), "frame");
}

/* --- to stop ----------------------------------------------------------------------- */

static void
a_stop_holds_for_an_agent_that_comes_back_and_for_children(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run), *top = w->run;

	agent_is_back(w, 0);
	assert_int_equal(call(w, DANA, "run-stop", ",\"reason\":\"enough\""), 0);
	assert_told(w, 3, "dana", "stopped by dana: enough", NULL);
	assert_non_null(w->run->until);
	agent_is_back(w, w->seq);
	assert_told(w, 3, "olivia", "stopped by dana: enough", NULL);
	w->run = kid;
	agent_is_back(w, w->seq);
	assert_told(w, 3, "olivia", "stopped by dana: enough", NULL);
	w->run = top;
}

static void
a_stop_on_the_record_holds_for_a_core_that_is_started_again(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *d = NULL;
	struct loop_timer *first;
	struct err err;

	assert_int_equal(
	    json_parse(STR("{\"by\":\"dana\",\"reason\":\"enough\"}"), "record", &d, &err), 0);
	/* Of one that is in memory anyway, the log tells nothing new. */
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.stop", 5, json_root(d)));
	assert_null(w->run->stopping);
	w->run->rebuilt = true;
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.stop", 5, json_root(d)));
	first = w->run->until;
	assert_non_null(first); /* it has its time, whether its agent comes back or not */
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.stop", 6, json_root(d)));
	assert_ptr_equal(w->run->until, first); /* and no more for a second word */
	agent_is_back(w, 0);
	assert_told(w, 3, "olivia", "stopped by dana: enough", NULL);
}

static void
a_run_without_an_agent_is_stopped_at_once(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *id = xstrdup(w->run->id);
	AUTO(json) struct json_doc *d = NULL;

	assert_null(w->run->peer);
	assert_int_equal(call(w, getuid(), "run-stop", ""), 0);
	assert_null(core_run_find(w->c, str_z(id)));
	d = last(w, "run.end");
	assert_state(json_str(json_get(json_root(d), "status")), "stopped");
	w->run = NULL;
}

static void
who_gave_words_to_a_child_is_excluded_for_all_its_kin(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run), *other = child_of(w, w->run), *top = w->run;
	struct policy_input in = {.owner = str_z(top->owner)};
	AUTO(json) struct json_doc *d = NULL, *dana = NULL;
	struct err err;

	w->run = kid;
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"x\""), 0);
	assert_false(core_steer_gave_words(top, STR("olivia"))); /* as the owner, anyway */
	d = last(w, "run.message");
	assert_state(json_str(json_get(json_root(d), "to")), kid->id);
	/* As the log tells it of another person. */
	assert_int_equal(json_parse(STR("{\"by\":\"dana\"}"), "record", &dana, &err), 0);
	assert_null(core_steer_kept(w->c, str_z(top->id), "run.message", 99, json_root(dana)));
	assert_true(core_steer_gave_words(kid, STR("dana")));
	core_steer_words(other, &in);
	assert_state(in.kin, top->id);
	assert_true(policy_input_own(&in, STR("dana")));
	assert_true(policy_input_own(&in, STR("olivia")));
	assert_false(policy_input_own(&in, STR("omar")));
	w->run = top;
}

static void
a_child_needs_its_parents_owner_login_and_name(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *id = xstrdup(w->run->id);
	struct core_run *run;
	struct err err;

	assert_int_equal(core_run_new(w->c, NULL, &run, &err), 0);
	run->agent = xstrdup("tester");
	run->owner = xstrdup("dana");
	run->login = xstrdup("unix:dana");
	assert_int_equal(core_child_join(run, str_z(w->run->id), &err), ERR_UNAUTHORISED);
	free(run->owner);
	free(run->login);
	run->owner = xstrdup("olivia");
	run->login = xstrdup("unix:olivia");
	free(run->agent);
	run->agent = xstrdup("stronger");
	assert_int_equal(core_child_join(run, str_z(w->run->id), &err), ERR_DENIED);
	free(run->agent);
	run->agent = xstrdup("tester");
	assert_int_equal(core_child_join(run, STR("r-none"), &err), ERR_NOT_FOUND);
	assert_int_equal(core_child_join(run, str_z(w->run->id), &err), 0);
	assert_ptr_equal(core_child_root(run), w->run);
	assert_true(core_child_has(run, STR("db")));
	assert_false(core_child_has(run, STR("other")));
	run->state = CORE_RUN_LIVE;
	core_run_revoke(w->run, "unix:olivia", STR("enough"));
	settle(w);
	assert_null(core_run_find(w->c, str_z(id)));
	assert_int_equal(w->c->nruns, 0);
	w->run = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(words_reach_the_agent_when_they_are_durable),
	    world_test(a_log_that_is_away_keeps_words_from_the_agent),
	    world_test(strangers_and_other_people_may_not_watch_or_talk_but_people_may_pause),
	    world_test(a_message_has_an_author_a_size_and_is_text),
	    world_test(a_reason_is_short_and_printable),
	    world_test(a_run_that_does_not_live_is_told_nothing),
	    world_test(words_have_an_author_also_where_the_brokers_own_user_may_steer),
	    world_test(a_run_is_told_so_many_things_and_by_so_many_people),
	    world_test(who_gives_words_is_excluded_before_they_are_durable),
	    world_test(what_is_not_durable_in_time_is_not_told),
	    world_test(what_the_log_has_of_words_is_theirs_or_void),
	    world_test(a_stop_holds_for_an_agent_that_comes_back_and_for_children),
	    world_test(a_stop_on_the_record_holds_for_a_core_that_is_started_again),
	    world_test(a_run_without_an_agent_is_stopped_at_once),
	    world_test(who_gave_words_to_a_child_is_excluded_for_all_its_kin),
	    world_test(a_child_needs_its_parents_owner_login_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
