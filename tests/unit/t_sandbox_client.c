/*
 * The caller's end of a sandbox against a supervisor that is played here: answers in any order,
 * late, malformed or never, and what a program's pipes may do. What the client will read is written
 * to the wire before it asks; its tags count from 1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/super_state.h"
#include "common/xalloc.h"

#include "common/banned.h"

static struct sandbox *sb;
static int peer = -1;

static int
begin(void **state UNUSED)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	sb = client_new();
	sb->wire = pair[0];
	sb->output_max = 1 << 20;
	peer = pair[1];
	return 0;
}

static int
end(void **state UNUSED)
{
	cleanup_close_fd(&peer); /* else the client would ask it to end, and wait */
	sandbox_destroy(sb);
	sb = NULL;
	return 0;
}

static void
say(uint8_t type, uint32_t tag, const struct buf *rest, const int *fds, size_t nfds)
{
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct err e = {0};

	buf_u32(&b, tag);
	if (rest != NULL)
		buf_put_str(&b, buf_str(rest));
	if (wire_send(peer, type, &b, fds, nfds, &e) != 0)
		fail_msg("%s", e.msg);
}

static void
say_text(uint8_t type, uint32_t tag, const char *text)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_lz(&b, text);
	say(type, tag, &b, NULL, 0);
}

static void
say_error(uint32_t tag, int code, const char *text)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u32(&b, (uint32_t)-code);
	buf_lz(&b, text);
	say(CALL_ERROR, tag, &b, NULL, 0);
}

static void
say_exited(uint32_t tag, uint32_t proc, unsigned cause, uint32_t value, const char *refused)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_u32(&b, proc);
	buf_u8(&b, (uint8_t)cause);
	buf_u32(&b, value);
	buf_u64(&b, 11);
	buf_u64(&b, 22);
	buf_u64(&b, 33);
	buf_lz(&b, refused);
	say(CALL_EXITED, tag, &b, NULL, 0);
}

/* A started program whose pipes are ours: what is written to out[1], errs[1] it wrote. */
static void
say_started(uint32_t tag, int out[2], int errs[2])
{
	AUTO_BUF struct buf b = BUF(16);
	int fds[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(errs, O_CLOEXEC), 0);
	fds[0] = out[0];
	fds[1] = errs[0];
	buf_u32(&b, 7);
	say(CALL_STARTED, tag, &b, fds, 2);
	(void)close(out[0]);
	(void)close(errs[0]);
}

/* What the client has sent; its type, and the body behind the tag. */
static uint8_t
heard(struct wire_msg *m)
{
	struct err e = {0};

	if (wire_recv(peer, 1000, WIRE_BODY_MAX, m, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(m->body.n >= 4);
	buf_drop(&m->body, 4);
	return m->type;
}

static void
answers_are_matched_by_tag_in_any_order(void **state UNUSED)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_BUF struct buf out = BUF(1000);
	struct err e = {0};
	uint32_t first = 0;

	say_text(CALL_DONE, 2, "{\"second\":1}");
	say_text(CALL_DONE, 1, "first");
	assert_int_equal(client_send(sb, CALL_PROCS, NULL, NULL, 0, &first, &e), 0);
	assert_int_equal(sandbox_inspect(sb, &out, &e), 0);
	assert_true(str_eqz(buf_str(&out), "{\"second\":1}"));
	assert_int_equal(client_answer(sb, first, CALL_DONE, 0, &m, &e), 0);
	assert_int_equal(m.body.n, 4 + strlen("first"));
}

static void
a_program_s_end_is_kept_while_something_else_is_asked(void **state UNUSED)
{
	struct client_started s = {.tag = 1, .proc = 7};
	AUTO_BUF struct buf out = BUF(1000);
	struct sandbox_result r = {0};
	struct err e = {0};
	uint32_t tag;

	assert_int_equal(client_send(sb, CALL_EXEC, NULL, NULL, 0, &tag, &e), 0);
	say_exited(1, 7, SANDBOX_SIGNALLED, 9, "[]");
	say_text(CALL_DONE, 2, "[]");
	assert_int_equal(sandbox_proc_list(sb, &out, &e), 0);
	assert_true(client_has(sb, 1));
	assert_int_equal(client_ended(sb, &s, 0, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_SIGNALLED);
	assert_int_equal(r.value, 9);
	assert_int_equal(r.user_us, 11);
	assert_int_equal(r.peak_kib, 33);
	assert_string_equal(r.refused, "[]");
	sandbox_result_free(&r);
}

static void
what_came_behind_an_answer_is_read_with_it(void **state UNUSED)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	char text[4000];
	int out[2], errs[2];
	struct err e = {0};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	say_text(CALL_DONE, 1, "");
	say_started(2, out, errs);
	say_exited(2, 7, SANDBOX_EXITED, 0, "");
	say_text(CALL_DONE, 3, text);
	say_text(CALL_DONE, 4, "last");
	/* The kernel ends at descriptors: the first two, and then the rest. */
	assert_int_equal(client_turn(sb, &e), 0);
	assert_true(client_has(sb, 1) && client_has(sb, 2) && !client_has(sb, 3));
	assert_int_equal(client_answer(sb, 1, CALL_DONE, 0, &m, &e), 0);
	assert_int_equal(m.nfds, 0);
	assert_int_equal(client_answer(sb, 2, CALL_STARTED, 0, &m, &e), 0);
	assert_int_equal(m.nfds, 2);
	assert_int_equal(write(out[1], "o", 1), 1);
	assert_int_equal(read(m.fds[0], text, 1), 1);
	assert_int_equal(client_turn(sb, &e), 0);
	assert_true(client_has(sb, 2) && !client_has(sb, 4));
	assert_int_equal(client_answer(sb, 3, CALL_DONE, 0, &m, &e), 0);
	assert_int_equal(m.body.n, 4 + sizeof(text) - 1);
	assert_int_equal(client_answer(sb, 4, CALL_DONE, 0, &m, &e), 0);
	assert_int_equal(m.body.n, 4 + strlen("last"));
	(void)close(out[1]);
	(void)close(errs[1]);
}

/* A frame with one descriptor, which names so many. */
static void
say_raw(uint8_t named)
{
	uint8_t frame[] = {0, 0, 0, 4, CALL_DONE, named, 0, 0, 0, 1};
	union wire_control c = {0};
	struct iovec iov = {frame, sizeof(frame)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fd = STDERR_FILENO;

	wire_rights(&msg, &c, &fd, 1);
	assert_int_equal(sendmsg(peer, &msg, 0), sizeof(frame));
}

static void
a_descriptor_is_taken_with_its_frame_and_too_few_are_refused(void **state UNUSED)
{
	struct err e = {0};

	say_raw(1);
	assert_int_equal(client_turn(sb, &e), 0);
	assert_true(client_has(sb, 1));
	say_text(CALL_DONE, 2, "");
	say_raw(2);
	assert_int_not_equal(client_turn(sb, &e), 0);
	assert_non_null(strstr(e.msg, "1 descriptors came, 2 were named"));
}

static void
a_descriptor_too_many_is_refused(void **state UNUSED)
{
	struct err e = {0};

	say_raw(0);
	assert_int_not_equal(client_turn(sb, &e), 0);
	assert_non_null(strstr(e.msg, "1 descriptors came, 0 were named"));
}

static void
an_error_comes_back_as_it_was_and_no_other_code(void **state UNUSED)
{
	struct err e = {0};

	say_error(1, ERR_STATE, "program 3 has ended");
	assert_int_equal(sandbox_proc_signal(sb, 3, 15, &e), ERR_STATE);
	assert_string_equal(e.msg, "program 3 has ended");
	say_error(2, -999, "x");
	assert_int_equal(sandbox_proc_signal(sb, 3, 15, &e), ERR_PROTOCOL);
	say_error(3, 0, "x");
	assert_int_equal(sandbox_proc_signal(sb, 3, 15, &e), ERR_PROTOCOL);
}

static void
malformed_answers_are_refused(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000), out = BUF(1000);
	struct sandbox_logs at;
	struct err e = {0};

	say(CALL_STARTED, 1, NULL, NULL, 0); /* another type */
	assert_int_equal(sandbox_pause(sb, &e), ERR_PROTOCOL);
	say(CALL_DONE, 2, NULL, NULL, 0); /* too short */
	assert_int_equal(sandbox_proc_list(sb, &out, &e), ERR_PROTOCOL);
	say_text(CALL_DONE, 3, "[1]"); /* not an object */
	assert_int_equal(sandbox_inspect(sb, &out, &e), ERR_PROTOCOL);
	buf_u64(&b, 5); /* 10 bytes by its offsets, 1 in it */
	buf_u64(&b, 15);
	buf_u8(&b, 1);
	buf_lz(&b, "x");
	say(CALL_DONE, 4, &b, NULL, 0);
	assert_int_equal(sandbox_proc_logs(sb, 7, 0, 0, &out, &at, &e), ERR_PROTOCOL);
	buf_reset(&b);
	buf_u32(&b, 100); /* took more than was given */
	say(CALL_DONE, 5, &b, NULL, 0);
	assert_int_equal(sandbox_proc_input(sb, 7, STR("abc"), false, &e), ERR_PROTOCOL);
	assert_int_equal(out.n, 0);
}

static void
malformed_ends_are_refused(void **state UNUSED)
{
	static const struct {
		uint32_t proc;
		unsigned cause;
		int want;
	} rows[] = {{7, SANDBOX_EXITED, 0}, {8, SANDBOX_EXITED, ERR_PROTOCOL},
	    {7, SANDBOX_NONE, ERR_PROTOCOL}, {7, SANDBOX_POLICY + 1, ERR_PROTOCOL},
	    {7, SANDBOX_POLICY, 0}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct client_started s = {.tag = (uint32_t)i + 1, .proc = 7};
		struct sandbox_result r = {0};
		struct err e = {0};

		say_exited(s.tag, rows[i].proc, rows[i].cause, 0, "");
		assert_int_equal(client_ended(sb, &s, 1000, &r, &e), rows[i].want);
		assert_null(r.refused);
		sandbox_result_free(&r);
	}
}

static void
a_message_without_a_tag_or_over_its_limit_ends_the_wire(void **state UNUSED)
{
	static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, CALL_DONE, 0};
	struct err e = {0};

	assert_int_equal(write(peer, "\0\0\0\1\10\0x", 7), 7);
	assert_int_equal(sandbox_pause(sb, &e), ERR_PROTOCOL);
	assert_int_equal(write(peer, huge, sizeof(huge)), sizeof(huge));
	assert_int_equal(sandbox_pause(sb, &e), ERR_UNAVAILABLE);
}

static void
no_answer_in_time_is_said_and_a_late_one_confuses_nobody(void **state UNUSED)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_BUF struct buf out = BUF(1000);
	struct err e = {0};
	uint32_t tag = 0;

	assert_int_equal(client_send(sb, CALL_PROCS, NULL, NULL, 0, &tag, &e), 0);
	assert_int_equal(client_answer(sb, tag, CALL_DONE, 30, &m, &e), ERR_TIMEOUT);
	say_text(CALL_DONE, tag, "late");
	say_text(CALL_DONE, tag + 1, "[2]");
	assert_int_equal(sandbox_proc_list(sb, &out, &e), 0);
	assert_true(str_eqz(buf_str(&out), "[2]"));
}

static void
answers_that_nobody_wants_do_not_pile_up(void **state UNUSED)
{
	struct err e = {0};

	for (uint32_t i = 0; i < CLIENT_PARKED_MAX + 100; i++) {
		say(CALL_DONE, 1000000 + i, NULL, NULL, 0);
		assert_int_equal(client_turn(sb, &e), 0);
	}
	assert_int_equal(sb->nparked, CLIENT_PARKED_MAX);
	assert_false(client_has(sb, 1000000));
	assert_true(client_has(sb, 1000000 + CLIENT_PARKED_MAX + 99));
}

static void
a_supervisor_that_goes_away_is_unavailable_everywhere(void **state UNUSED)
{
	char prog[] = "true", *argv[] = {prog, NULL};
	const struct sandbox_exec x = {.argv = argv, .stdin_fd = -1};
	AUTO_BUF struct buf out = BUF(1000);
	struct sandbox_result r;
	struct err e = {0};

	cleanup_close_fd(&peer);
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), ERR_UNAVAILABLE);
	assert_int_equal(sandbox_inspect(sb, &out, &e), ERR_UNAVAILABLE);
	assert_int_equal(sandbox_proc_kill(sb, 1, &e), ERR_UNAVAILABLE);
}

static void
keep(void *arg, int stream, struct str s)
{
	struct buf *b = arg;

	buf_printf(b, "%d:%.*s ", stream, STR_ARG(s));
}

static void
exec_collects_both_streams_to_their_end(void **state UNUSED)
{
	char prog[] = "true", *argv[] = {prog, NULL};
	AUTO_BUF struct buf seen = BUF(1000);
	const struct sandbox_exec x = {.argv = argv,
	    .stdin_fd = -1,
	    .output = keep,
	    .output_arg = &seen,
	    .head = 100,
	    .tail = 100};
	struct sandbox_result r;
	struct err e = {0};
	int out[2], errs[2];

	say_started(1, out, errs);
	assert_int_equal(write(out[1], "hello", 5), 5);
	assert_int_equal(write(errs[1], "bad", 3), 3);
	(void)close(out[1]); /* the other one a survivor keeps open */
	say_exited(1, 7, SANDBOX_EXITED, 3, "");
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	assert_true(strstr((const char *)seen.p, "1:hello") != NULL);
	assert_true(strstr((const char *)seen.p, "2:bad") != NULL);
	assert_int_equal(r.total, 8);
	assert_int_equal(r.value, 3);
	assert_int_equal(r.cause, SANDBOX_EXITED);
	sandbox_result_free(&r);
	(void)close(errs[1]);
}

static void
exec_over_its_output_limit_is_ended_and_says_so(void **state UNUSED)
{
	char prog[] = "yes", *argv[] = {prog, NULL};
	const struct sandbox_exec x = {.argv = argv, .stdin_fd = -1, .head = 8, .tail = 8};
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct sandbox_result r;
	struct err e = {0};
	struct rd rd;
	int out[2], errs[2];

	sb->output_max = 10;
	say_started(1, out, errs);
	assert_int_equal(write(out[1], "0123456789abcdef", 16), 16);
	(void)close(out[1]);
	(void)close(errs[1]);
	say_exited(1, 7, SANDBOX_SIGNALLED, 9, "");
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), 0);
	assert_int_equal(r.cause, SANDBOX_OUTPUT);
	assert_int_equal(r.total, 10);
	sandbox_result_free(&r);
	assert_int_equal(heard(&m), CALL_EXEC);
	assert_int_equal(heard(&m), CALL_KILL);
	rd = rd_init(buf_str(&m.body));
	assert_int_equal(rd_u32(&rd), 7);
	assert_int_equal(rd_u8(&rd), SANDBOX_OUTPUT);
	assert_true(rd_end(&rd));
}

static void
a_start_with_other_descriptors_than_asked_is_refused(void **state UNUSED)
{
	char prog[] = "true", *argv[] = {prog, NULL};
	const struct sandbox_exec x = {.argv = argv, .stdin_fd = -1, .merge = true};
	struct sandbox_result r;
	struct err e = {0};
	int out[2], errs[2];

	say_started(1, out, errs); /* two, where one is wanted */
	assert_int_equal(sandbox_exec(sb, &x, &r, &e), ERR_PROTOCOL);
	/* And none is left open here. */
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(write(out[1], "x", 1), -1);
	assert_int_equal(write(errs[1], "x", 1), -1);
	(void)close(out[1]);
	(void)close(errs[1]);
}

static void
a_program_s_own_variable_replaces_the_sandbox_s(void **state UNUSED)
{
	char prog[] = "true", *argv[] = {prog, NULL};
	const char *own[] = {"B=own", "C=3", "C=4", NULL};
	const struct sandbox_exec x = {.argv = argv, .stdin_fd = -1, .env = own};
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct client_started s;
	struct err e = {0};
	struct rd r, exec;

	sb->env = xcalloc(3, sizeof(*sb->env));
	sb->env[0] = xstrdup("A=1");
	sb->env[1] = xstrdup("B=2");
	say_error(1, ERR_NOT_FOUND, "no such program");
	assert_int_equal(client_start(sb, &x, true, &s, &e), ERR_NOT_FOUND);
	assert_int_equal(heard(&m), CALL_EXEC);
	r = rd_init(buf_str(&m.body));
	exec = rd_init(rd_lstr(&r));
	assert_int_equal(rd_u8(&r), 1); /* spawn */
	assert_true(rd_end(&r));
	(void)rd_bytes(&exec, 1 + 4 + 2 + 2);
	for (int i = 0; i < 3; i++)
		(void)rd_lstr(&exec); /* directory, extension, code */
	assert_int_equal(rd_u32(&exec), 1);
	assert_true(str_eqz(rd_lstr(&exec), "true"));
	assert_int_equal(rd_u32(&exec), 3);
	assert_true(str_eqz(rd_lstr(&exec), "A=1"));
	assert_true(str_eqz(rd_lstr(&exec), "B=own"));
	assert_true(str_eqz(rd_lstr(&exec), "C=4"));
	assert_true(rd_end(&exec));
}

static void
what_cannot_be_run_is_refused_before_it_is_asked(void **state UNUSED)
{
	char prog[] = "true", *argv[] = {prog, NULL}, *none[] = {NULL};
	const char *env[] = {"NOVALUE", NULL};
	const int fds[5] = {0};
	AUTO_FREE char *big = xcalloc(1, SANDBOX_CODE_MAX + 1);
	const struct {
		struct sandbox_exec x;
		int want;
	} rows[] = {{{.argv = none}, ERR_INVALID}, {{.language = "cobol"}, ERR_NOT_FOUND},
	    {{.language = "sh", .code = {big, SANDBOX_CODE_MAX + 1}}, ERR_TOO_LARGE},
	    {{.argv = argv, .cwd = "x"}, ERR_INVALID}, {{.argv = argv, .env = env}, ERR_INVALID},
	    {{.argv = argv, .fds = fds, .nfds = 5}, ERR_INVALID}};
	uint8_t byte;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct client_started s;
		struct err e = {0};

		assert_int_equal(client_start(sb, &rows[i].x, false, &s, &e), rows[i].want);
	}
	assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), -1);
}

static void
time_and_signals_have_their_ranges(void **state UNUSED)
{
	struct err e = {0};

	assert_int_equal(sandbox_extend(sb, 0, &e), ERR_INVALID);
	assert_int_equal(sandbox_extend(sb, 86401, &e), ERR_INVALID);
	assert_int_equal(sandbox_proc_signal(sb, 1, 0, &e), ERR_INVALID);
	assert_int_equal(sandbox_proc_signal(sb, 1, 65, &e), ERR_INVALID);
	say(CALL_DONE, 1, NULL, NULL, 0);
	assert_int_equal(sandbox_extend(sb, 86400, &e), 0);
}

/* Or a busy machine leaves a program that nobody reads. */
static void
a_start_is_waited_for_longer_than_the_supervisor_does(void **state UNUSED)
{
	assert_true(CLIENT_START_MS > super_times.spawn);
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(answers_are_matched_by_tag_in_any_order),
	    T(a_program_s_end_is_kept_while_something_else_is_asked),
	    T(what_came_behind_an_answer_is_read_with_it),
	    T(a_descriptor_is_taken_with_its_frame_and_too_few_are_refused),
	    T(a_descriptor_too_many_is_refused),
	    T(an_error_comes_back_as_it_was_and_no_other_code),
	    T(malformed_answers_are_refused),
	    T(malformed_ends_are_refused),
	    T(a_message_without_a_tag_or_over_its_limit_ends_the_wire),
	    T(no_answer_in_time_is_said_and_a_late_one_confuses_nobody),
	    T(answers_that_nobody_wants_do_not_pile_up),
	    T(a_supervisor_that_goes_away_is_unavailable_everywhere),
	    T(exec_collects_both_streams_to_their_end),
	    T(exec_over_its_output_limit_is_ended_and_says_so),
	    T(a_start_with_other_descriptors_than_asked_is_refused),
	    T(a_program_s_own_variable_replaces_the_sandbox_s),
	    T(what_cannot_be_run_is_refused_before_it_is_asked),
	    T(time_and_signals_have_their_ranges),
	    T(a_start_is_waited_for_longer_than_the_supervisor_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
