/* What agents may say of themselves: version, name, task, login; what they tell and spent. */
#include "tests/unit/core_run_help.h"

#include "broker/core_agent.h"
#include "common/banned.h"

#define STRANGER 61999

static void
opens(struct world *w, unsigned uid, uint32_t version, const char *name, size_t task)
{
	AUTO_BUF struct buf b = BUF(2 * CORE_TASK_MAX);

	agent_connects(w, uid);
	if (w->c->ca == NULL)
		give_ca(w);
	buf_u32(&b, version);
	buf_lz(&b, name);
	buf_u32(&b, (uint32_t)task);
	for (size_t i = 0; i < task; i++)
		buf_put_c(&b, 'x');
	buf_lz(&b, ""); /* parent */
	buf_u32(&b, 0); /* targets: all */
	buf_u32(&b, 0); /* effects */
	buf_lz(&b, ""); /* budget */
	buf_lz(&b, "{}");
	buf_u8(&b, 0);
	say(&w->agent, MSG_A_OPEN, &b);
	settle(w);
}

static void
assert_refused(struct world *w, int code, const char *part)
{
	struct rd r = heard(&w->agent, MSG_A_ERROR);
	struct str text;

	assert_int_equal(rd_u32(&r), -code);
	text = rd_lstr(&r);
	if (!has(text, part))
		fail_msg("\"%.*s\" does not say \"%s\"", STR_ARG(text), part);
}

static void
an_agent_of_another_version_is_told_so(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(256);

	opens(w, getuid(), IPC_VERSION + 1, "tester", 1);
	assert_refused(w, ERR_UNSUPPORTED, "the agent speaks version");
	agent_connects(w, getuid());
	buf_u32(&b, IPC_VERSION + 1);
	buf_lz(&b, w->run->id);
	buf_u64(&b, 0);
	buf_u8(&b, 1);
	say(&w->agent, MSG_A_RESUME, &b);
	settle(w);
	assert_refused(w, ERR_UNSUPPORTED, "the agent speaks version");
	opens(w, getuid(), IPC_VERSION, "tester", 1);
	(void)heard(&w->agent, MSG_A_PLAN);
}

static void
an_agent_has_a_short_printable_name_and_a_task_of_a_size(void **state)
{
	struct world *w = *state;
	char name[CORE_AGENT_NAME_MAX + 2];

	memset(name, 'n', sizeof(name));
	name[CORE_AGENT_NAME_MAX + 1] = '\0';
	opens(w, getuid(), IPC_VERSION, "", 1);
	assert_refused(w, ERR_INVALID, "agent name must have 1 to 128 bytes, has 0");
	opens(w, getuid(), IPC_VERSION, "t\x1b[2J", 1);
	assert_refused(w, ERR_INVALID, "agent name must be printable ASCII, byte 2 is 0x1b");
	opens(w, getuid(), IPC_VERSION, name, 1);
	assert_refused(w, ERR_INVALID, "agent name must have 1 to 128 bytes, has 129");
	opens(w, getuid(), IPC_VERSION, name + 1, CORE_TASK_MAX + 1);
	assert_refused(w, ERR_TOO_LARGE, "task has");
	opens(w, getuid(), IPC_VERSION, name + 1, CORE_TASK_MAX);
	(void)heard(&w->agent, MSG_A_PLAN);
}

static void
who_has_no_login_or_no_policy_has_no_run(void **state)
{
	struct world *w = *state;
	const struct policy *p = w->c->policy;

	opens(w, STRANGER, IPC_VERSION, "tester", 1);
	assert_refused(w, ERR_UNAUTHORISED, "has no login name");
	w->c->policy = NULL;
	opens(w, getuid(), IPC_VERSION, "tester", 1);
	assert_refused(w, ERR_CONFIG, "no policy is active");
	w->c->policy = (struct policy *)(uintptr_t)p;
	opens(w, getuid(), IPC_VERSION, "tester", 1);
	(void)heard(&w->agent, MSG_A_PLAN);
}

static struct core_run *
begun(struct world *w)
{
	struct core_run *run;
	struct rd r;

	opens(w, getuid(), IPC_VERSION, "tester", 1);
	r = heard(&w->agent, MSG_A_PLAN);
	run = core_run_find(w->c, rd_lstr(&r));
	hand_over(w, 0, listener("127.77.0.1"));
	start(w);
	return run;
}

static void
no_run_begins_unrecorded(void **state)
{
	struct world *w = *state;

	w->c->live = false;
	(void)begun(w);
	assert_refused(w, ERR_UNAVAILABLE, "no run begins unrecorded");
	assert_int_equal(count(w, "run.start"), 0);
	w->c->live = true;
	(void)begun(w);
	(void)heard(&w->agent, MSG_A_STARTED);
}

static void
ends(struct world *w, const char *spent)
{
	AUTO_BUF struct buf b = BUF(2 * CORE_SPENT_MAX);

	(void)begun(w);
	buf_lz(&b, "done");
	buf_lz(&b, "all of it");
	buf_lz(&b, spent);
	say(&w->agent, MSG_A_END, &b);
	settle(w);
}

static void
what_an_agent_spent_is_an_object_or_its_run_ends_in_an_error(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *bad = NULL, *good = NULL;

	ends(w, "[3]");
	assert_refused(w, ERR_INVALID, "must be an object");
	bad = last(w, "run.end");
	assert_state(json_str(json_get(json_root(bad), "status")), "error");
	ends(w, "{\"turns\":3}");
	good = last(w, "run.end");
	assert_state(json_str(json_get(json_root(good), "status")), "done");
}

static void
tells(struct world *w, const char *fields, bool more)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_u64(&b, 1);
	buf_lz(&b, "note");
	buf_lz(&b, fields);
	buf_lz(&b, "text");
	if (more)
		buf_u8(&b, 0);
	say(&w->agent, MSG_A_EVENT, &b);
	settle(w);
}

static void
an_events_fields_have_names_of_a_length_and_nothing_follows_them(void **state)
{
	struct world *w = *state;
	char name[65 + 1] = "";
	AUTO_FREE char *longest = NULL, *over = NULL;

	memset(name, 'n', 65);
	over = xasprintf("{\"%s\":1}", name);
	longest = xasprintf("{\"%s\":1}", name + 1);
	(void)begun(w);
	tells(w, over, false);
	assert_refused(w, ERR_INVALID, "event field");
	(void)begun(w);
	tells(w, "{\"\":1}", false);
	assert_refused(w, ERR_INVALID, "event field");
	(void)begun(w);
	tells(w, "{}", true); /* a byte too many */
	assert_int_equal(count(w, "agent.note"), 0);
	assert_int_equal(w->agent.fd, -1); /* its wire is ended */
	(void)begun(w);
	tells(w, longest, false);
	assert_int_equal(count(w, "agent.note"), 1);
}

/* Code of the answer. */
static unsigned
asks(struct world *w, const char *verb, const char *id, bool more)
{
	AUTO_BUF struct buf b = BUF(1024);
	AUTO_FREE char *args = xasprintf("{\"id\":\"%s\"}", id);
	struct rd r;

	buf_u64(&b, 7);
	buf_lz(&b, verb);
	buf_lz(&b, args);
	if (more)
		buf_u8(&b, 0);
	say(&w->agent, MSG_A_ASK, &b);
	settle(w);
	if (w->agent.fd < 0)
		return 0;
	r = heard(&w->agent, MSG_A_REPLY);
	assert_int_equal(rd_u64(&r), 7);
	return rd_u32(&r);
}

static void
resumes(struct world *w)
{
	AUTO_BUF struct buf b = BUF(256);

	agent_connects(w, getuid());
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, w->run->id);
	buf_u64(&b, 0);
	buf_u8(&b, 0);
	say(&w->agent, MSG_A_RESUME, &b);
	settle(w);
	(void)heard(&w->agent, MSG_A_STARTED);
}

static void
an_agent_is_told_of_the_requests_of_its_own_run_alone(void **state)
{
	struct world *w = *state;
	const struct core_request *rq;

	client_ready(w, 1);
	client_query(w, 1, 2, "DELETE FROM t WHERE id = 17");
	rq = TAILQ_FIRST(&w->run->requests);
	assert_non_null(rq);
	(void)begun(w);
	(void)heard(&w->agent, MSG_A_STARTED);
	assert_int_equal(asks(w, "approval", rq->id, false), -ERR_NOT_FOUND);
	resumes(w);
	assert_int_equal(asks(w, "approval", "none", false), -ERR_NOT_FOUND);
	assert_int_equal(asks(w, "approve", rq->id, false), -ERR_INVALID);
	assert_int_equal(asks(w, "approval", rq->id, false), 0);
	(void)asks(w, "approval", rq->id, true); /* a byte too many */
	assert_int_equal(w->agent.fd, -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(an_agent_of_another_version_is_told_so),
	    world_test(an_agent_has_a_short_printable_name_and_a_task_of_a_size),
	    world_test(who_has_no_login_or_no_policy_has_no_run),
	    world_test(no_run_begins_unrecorded),
	    world_test(an_agent_is_told_of_the_requests_of_its_own_run_alone),
	    world_test(what_an_agent_spent_is_an_object_or_its_run_ends_in_an_error),
	    world_test(an_events_fields_have_names_of_a_length_and_nothing_follows_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
