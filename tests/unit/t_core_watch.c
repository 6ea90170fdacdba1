/* Who looks at a run, and questions to people: bounds, what is durable first, whose answer it is.
 */
#include "tests/unit/core_run_help.h"

#include "broker/core_peer.h"
#include "broker/core_question.h"
#include "broker/core_steer.h"
#include "broker/core_watch.h"
#include "common/banned.h"

#define DANA 61001

static struct core_peer *
person(struct world *w, unsigned uid)
{
	end_close(&w->cli);
	return core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), uid);
}

/* On the connection that is there. */
static void
asks_of(struct world *w, const char *run, const char *verb, const char *more)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	AUTO_FREE char *args = xasprintf("{\"run\":\"%s\"%s}", run, more);

	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, verb);
	buf_lz(&b, args);
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
}

static void
asks(struct world *w, const char *verb, const char *more)
{
	asks_of(w, w->run->id, verb, more);
}

static unsigned
reply(struct world *w)
{
	struct rd r = heard(&w->cli, MSG_Q_REPLY);

	return rd_u32(&r);
}

static unsigned
call(struct world *w, unsigned uid, const char *verb, const char *more)
{
	(void)person(w, uid);
	asks(w, verb, more);
	return reply(w);
}

/* --- watching -------------------------------------------------------------------- */

static void
a_connection_watches_one_run_also_before_that_is_durable(void **state)
{
	struct world *w = *state;
	struct core_peer *p = person(w, getuid());

	w->hold_writer = true;
	asks(w, "run-watch", "");
	assert_true(silent(&w->cli, MSG_Q_REPLY));
	assert_string_equal(p->watches, "");
	asks(w, "run-watch", "");
	assert_int_equal(reply(w), -ERR_STATE);
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_int_equal(reply(w), 0);
	assert_string_equal(p->watches, w->run->id);
	asks(w, "run-watch", "");
	assert_int_equal(reply(w), -ERR_STATE);
	assert_int_equal(count(w, "run.watch"), 1);
}

static void
there_is_a_ceiling_of_those_who_watch_and_of_those_who_will(void **state)
{
	struct world *w = *state;
	struct core_peer *last = NULL;
	AUTO_FREE struct end *others = xcalloc(CORE_WATCHERS_MAX, sizeof(*others));

	for (size_t i = 0; i < CORE_WATCHERS_MAX; i++) {
		last =
		    core_peer_new(w->c, IPC_ROLE_CLI, end_open(&others[i], IPC_ROLE_CLI), getuid());
		last->will_watch = i % 2 == 0;
		if (!last->will_watch)
			memcpy(last->watches, w->run->id, sizeof(last->watches));
	}
	assert_int_equal(call(w, getuid(), "run-watch", ""), -ERR_TOO_LARGE);
	last->watches[0] = '\0';
	assert_int_equal(call(w, getuid(), "run-watch", ""), 0);
	for (size_t i = 0; i < CORE_WATCHERS_MAX; i++)
		end_close(&others[i]);
}

static void
nobody_looks_unrecorded(void **state)
{
	struct world *w = *state;
	struct core_peer *p = person(w, getuid());

	w->hold_writer = true;
	asks(w, "run-watch", "");
	turn(w, CORE_RECORD_MS + 100); /* it is not durable in time */
	settle(w);
	assert_int_equal(reply(w), -ERR_UNAVAILABLE);
	assert_string_equal(p->watches, "");
	w->hold_writer = false;
	asks(w, "run-watch", "");
	assert_int_equal(reply(w), 0);
}

static void
a_run_that_ends_before_the_look_is_durable_is_not_watched(void **state)
{
	struct world *w = *state;
	struct core_peer *p = person(w, getuid());

	w->hold_writer = true;
	asks(w, "run-watch", "");
	w->hold_writer = false;
	core_run_free(w->run);
	w->run = NULL;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_int_equal(reply(w), -ERR_NOT_FOUND);
	assert_string_equal(p->watches, "");
}

/* All that core has for the person, as bytes: a message may be in parts. */
static void
read_all(struct world *w, const struct core_peer *p, struct buf *out)
{
	char part[16384];
	ssize_t n;

	do {
		turn(w, 1);
		while ((n = recv(w->cli.fd, part, sizeof(part), MSG_DONTWAIT)) > 0)
			if (out != NULL)
				buf_put(out, part, (size_t)n);
	} while (ipc_queued(p->wire) != 0);
}

static void
what_a_watcher_does_not_read_is_counted_and_left_out(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf got = BUF(1 << 20);
	AUTO_FREE char *big = xcalloc(1, CORE_WATCH_TEXT_MAX + 1);
	struct core_seen s = {.type = "agent.note", .run = w->run->id, .data = STR("{}")};
	struct core_peer *p = person(w, getuid());

	asks(w, "run-watch", "");
	assert_int_equal(reply(w), 0);
	memset(big, 'x', CORE_WATCH_TEXT_MAX);
	s.show = str_z(big);
	s.show_bytes = s.show.n;
	for (size_t i = 0; i < 2 * CORE_WATCH_QUEUE_MAX / CORE_WATCH_TEXT_MAX; i++)
		core_watch_record(w->c, &s);
	assert_true(p->left_out != 0);
	assert_true(ipc_queued(p->wire) < 2 * CORE_WATCH_QUEUE_MAX);
	read_all(w, p, NULL);
	core_watch_record(w->c, &s);
	assert_int_equal(p->left_out, 0);
	read_all(w, p, &got);
	assert_true(has(buf_str(&got), "stream.left_out")); /* and it is told so */
}

static void
what_is_kept_to_begin_with_is_bounded_in_bytes_too(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *big = xcalloc(1, CORE_WATCH_TEXT_MAX + 1);
	struct core_seen s = {.type = "agent.note", .run = w->run->id, .data = STR("{}")};
	struct core_peer *p;

	memset(big, 'x', CORE_WATCH_TEXT_MAX);
	s.show = str_z(big);
	s.show_bytes = s.show.n;
	for (int i = 0; i < CORE_BACKLOG_MAX; i++)
		core_watch_record(w->c, &s);
	p = person(w, getuid());
	w->hold_writer = true;
	asks(w, "run-watch", "");
	ack(w, &w->records[w->nrecords - 1]);
	turn(w, 1);
	assert_string_equal(p->watches, w->run->id);
	settle(w);
	assert_in_range(w->cli.n, 2, 1 + CORE_BACKLOG_BYTES / CORE_WATCH_TEXT_MAX);
}

static void
a_connection_that_watched_has_its_time_again(void **state)
{
	struct world *w = *state;
	struct core_peer *p = person(w, getuid());

	asks(w, "run-watch", "");
	assert_null(p->timer);
	p->left_out = 3;
	core_run_end(w->run, "done", STR(""), false);
	settle(w);
	w->run = NULL;
	assert_string_equal(p->watches, "");
	assert_non_null(p->timer);
}

/* --- questions ------------------------------------------------------------------- */

static int64_t
run_asks(struct world *w, size_t bytes, int want)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf args = BUF(16384), out = BUF(4096);
	struct err err;
	struct jcs j;

	buf_put_z(&args, "{\"text\":\"");
	for (size_t i = 0; i < bytes; i++)
		buf_put_c(&args, 'q');
	buf_put_z(&args, "\"}");
	assert_int_equal(json_parse(buf_str(&args), "args", &doc, &err), 0);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	assert_int_equal(core_question_ask(w->run, json_root(doc), &j, &err), want);
	return core_question_open(w->run);
}

static int
about(struct world *w, int64_t id,
    int (*fn)(struct core_run *run, const struct json *args, struct jcs *j, struct err *err),
    struct buf *out)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_FREE char *args = xasprintf("{\"id\":%lld}", (long long)id);
	struct err err;
	struct jcs j;
	int rc;

	assert_int_equal(json_parse(str_z(args), "args", &doc, &err), 0);
	buf_reset(out);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if ((rc = fn(w->run, json_root(doc), &j, &err)) == 0)
		jcs_close(&j);
	return rc;
}

static void
a_question_has_a_size(void **state)
{
	struct world *w = *state;

	(void)run_asks(w, 0, ERR_INVALID);
	(void)run_asks(w, CORE_QUESTION_MAX + 1, ERR_INVALID);
	assert_int_equal(core_question_open(w->run), 0);
	assert_true(run_asks(w, CORE_QUESTION_MAX, 0) != 0);
}

static void
only_who_asks_is_answered_and_once(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf out = BUF(4096);
	int64_t id;

	assert_int_equal(call(w, getuid(), "answer", ",\"text\":\"x\""), -ERR_NOT_FOUND);
	id = run_asks(w, 10, 0);
	assert_int_equal(about(w, id + 1, core_question_look, &out), ERR_NOT_FOUND);
	assert_int_equal(about(w, id, core_question_look, &out), 0);
	assert_true(has(buf_str(&out), "\"open\""));
	assert_int_equal(call(w, DANA, "answer", ",\"text\":\"x\""), -ERR_UNAUTHORISED);
	(void)person(w, getuid());
	asks_of(w, "r-none", "answer", ",\"text\":\"yes\"");
	assert_int_equal(reply(w), -ERR_NOT_FOUND);
	assert_int_equal(call(w, getuid(), "answer", ",\"text\":\"yes\""), 0);
	assert_int_equal(about(w, id, core_question_look, &out), 0);
	assert_true(has(buf_str(&out), "\"text\":\"yes\""));
	assert_int_equal(call(w, getuid(), "answer", ",\"text\":\"no\""), -ERR_NOT_FOUND);
	/* A message besides is one, and no second answer. */
	assert_int_equal(call(w, getuid(), "run-message", ",\"text\":\"no\""), 0);
	assert_int_equal(about(w, id, core_question_look, &out), 0);
	assert_true(has(buf_str(&out), "\"text\":\"yes\""));
	assert_int_equal(about(w, id + 1, core_question_drop, &out), ERR_NOT_FOUND);
	assert_int_equal(about(w, id, core_question_drop, &out), 0);
}

static void
an_answer_is_never_another_questions(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf out = BUF(4096);
	AUTO_FREE char *named = NULL, *now = NULL;
	int64_t first = run_asks(w, 10, 0), second;

	/* Another is asked while the answer is not durable yet. */
	w->hold_writer = true;
	(void)person(w, getuid());
	asks(w, "answer", ",\"text\":\"yes\"");
	second = run_asks(w, 11, 0);
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_int_equal(reply(w), 0); /* said it is, as words in the middle of the run */
	assert_int_equal(w->run->nsays, 1);
	assert_int_equal(about(w, second, core_question_look, &out), 0);
	assert_true(has(buf_str(&out), "\"open\""));
	/* And by who names the one that they saw. */
	named = xasprintf(",\"text\":\"yes\",\"question\":%lld", (long long)first);
	assert_int_equal(call(w, getuid(), "answer", named), -ERR_STATE);
	now = xasprintf(",\"text\":\"yes\",\"question\":%lld", (long long)second);
	assert_int_equal(call(w, getuid(), "answer", now), 0);
	assert_int_equal(core_question_open(w->run), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_connection_watches_one_run_also_before_that_is_durable),
	    world_test(there_is_a_ceiling_of_those_who_watch_and_of_those_who_will),
	    world_test(nobody_looks_unrecorded),
	    world_test(a_run_that_ends_before_the_look_is_durable_is_not_watched),
	    world_test(what_a_watcher_does_not_read_is_counted_and_left_out),
	    world_test(what_is_kept_to_begin_with_is_bounded_in_bytes_too),
	    world_test(a_connection_that_watched_has_its_time_again),
	    world_test(a_question_has_a_size),
	    world_test(only_who_asks_is_answered_and_once),
	    world_test(an_answer_is_never_another_questions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
