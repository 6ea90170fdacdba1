/*
 * The real cofferdam-parser program, driven as its parent and its core do: it answers, it is
 * confined, hostile texts are answered in time and leave it serving, a stall is its death.
 */
#include "tests/unit/parser_help.h"

#include "common/banned.h"

static void
a_text_is_answered_with_its_facts(void **state)
{
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	serves(c);
	ask(c, UINT64_MAX, PARSER_DIALECT_POSTGRESQL, STR("DELETE FROM users WHERE id = 42"));
	assert_int_equal(answer(c, UINT64_MAX, &out), PARSER_OK);
	assert_non_null(strstr(buf_str(&out).p, "delete:bounded"));
	ask(c, 1, PARSER_DIALECT_POSTGRESQL, STR(""));
	assert_int_equal(answer(c, 1, &out), PARSER_OK);
}

static void
questions_sent_together_are_answered_in_order(void **state)
{
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (uint64_t i = 0; i < 50; i++)
		ask(c, i, PARSER_DIALECT_POSTGRESQL, STR("SELECT 1"));
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(answer(c, i, &out), PARSER_OK);
}

static void
what_is_no_sql_is_invalid_and_says_why(void **state)
{
	static const struct str texts[] = {{"DELETE FROM users WHERE", 23}, {"SELECT '\xff'", 10},
	    {"SELECT 1\0", 9}, {"\\! id", 5}};
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		ask(c, i, PARSER_DIALECT_POSTGRESQL, texts[i]);
		assert_int_equal(answer(c, i, &out), PARSER_INVALID);
		assert_true(out.n > 10);
	}
	ask(c, 9, 99, STR("SELECT 1"));
	assert_int_equal(answer(c, 9, &out), PARSER_INVALID);
	assert_true(str_eqz(buf_str(&out), "dialect 99 is not known"));
	ask(c, 9, PARSER_DIALECT_FORM, STR("a=1")); /* only bodies are forms */
	assert_int_equal(answer(c, 9, &out), PARSER_INVALID);
	serves(c);
}

/* SQL-06, cut to what a frame can carry: core refuses more than FACTS_SQL_MAX by itself too. Its
 * own clock kills what is too slow. */
static void
hostile_texts_are_answered_in_time_and_the_next_question_is_served(void **state)
{
	static const struct {
		const char *prefix, *piece;
	} t[] = {
	    {"SELECT 1", "+1"},
	    {"SELECT 1 ", "/*"},
	    {"SELECT ", "("},
	    {"SELECT ", "NOT "},
	    {"", "WITH a AS ("},
	    {"SELECT ", "+"},
	    {"SELECT ", "- "},
	    {"SELECT x", "::int"},
	    {"SELECT $a$", "$b"},
	    {"SELECT 1", " UNION SELECT 1"},
	    {"SELECT * FROM a", " JOIN a ON 1"},
	    {"SELECT x", "||x"},
	    {"SELECT a.b FROM abs(1) z", ",x"},
	    {"SELECT E'", "\\'"},
	    {"SELECT U&'", "\\0041"},
	    {"SELECT ", "\"a\"\"b"},
	};
	static const size_t sizes[] = {FACTS_SQL_MAX, 100000};
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(t) * ARRAY_LEN(sizes); i++) {
		AUTO_BUF struct buf sql = BUF(1 << 17);
		size_t k = i / ARRAY_LEN(sizes);
		int status;

		buf_put_z(&sql, t[k].prefix);
		while (sql.n + strlen(t[k].piece) <= sizes[i % ARRAY_LEN(sizes)])
			buf_put_z(&sql, t[k].piece);
		ask(c, i, PARSER_DIALECT_POSTGRESQL, buf_str(&sql));
		status = answer(c, i, &out);
		if (status < 0)
			fail_msg("%s%s...: the parser died of it", t[k].prefix, t[k].piece);
		if (sql.n > FACTS_SQL_MAX)
			assert_int_equal(status, PARSER_TOO_COMPLEX);
		serves(c);
	}
}

static int
wait_end(struct child *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	c->pid = 0;
	return status;
}

/* The clock runs while the process is stopped in the middle of a text, as if the text stalled it.
 */
static void
a_text_that_stalls_it_is_its_death(void **state)
{
	AUTO_BUF struct buf sql = BUF(FACTS_SQL_MAX);
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;
	struct timespec little = {.tv_nsec = 8000000};
	struct timespec over = {.tv_sec = PARSER_STALL_MS / 1000 + 1};

	buf_put_z(&sql, "SELECT 1");
	while (sql.n + 2 <= FACTS_SQL_MAX)
		buf_put_z(&sql, ",1");
	for (int i = 0; i < 50; i++) {
		ask(c, 5, PARSER_DIALECT_POSTGRESQL, buf_str(&sql));
		(void)nanosleep(&little, NULL);
		assert_int_equal(kill(c->pid, SIGSTOP), 0);
		if (poll(&(struct pollfd){.fd = c->core, .events = POLLIN}, 1, 0) == 0)
			(void)nanosleep(&over, NULL);
		assert_int_equal(kill(c->pid, SIGCONT), 0);
		if (answer(c, 5, &out) >= 0)
			continue; /* stopped before or after the text */
		assert_int_equal(WTERMSIG(wait_end(c)), SIGALRM);
		return;
	}
	fail_msg("never hit it in the middle of a text");
}

/* How a process ends that has `ms` and spins, or sleeps for one and a half of them. */
static int
end_under_clock(unsigned ms, bool spins)
{
	const struct timespec t = {.tv_nsec = ms * 1500000L};
	struct err err = {0};
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (parser_limits_early(&err) != 0 || parser_clock(ms, &err) != 0)
			_exit(1);
		while (spins)
			continue;
		(void)nanosleep(&t, NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return status;
}

static void
the_clock_counts_the_processor_s_time_and_not_that_of_others(void **state UNUSED)
{
	int status = end_under_clock(50, true);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGPROF);
	assert_int_equal(end_under_clock(400, false), 0);
}

static void
a_malformed_question_ends_the_wire_and_a_new_wire_is_served(void **state)
{
	AUTO_BUF struct buf msg = BUF(256);
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;
	struct err err = {0};

	buf_u64(&msg, 1);
	buf_u8(&msg, PARSER_DIALECT_POSTGRESQL);
	buf_lstr(&msg, STR("SELECT 1"));
	buf_u8(&msg, 0); /* a trailing byte */
	must(ipc_sync_send(c->core, IPC_ROLE_CORE, IPC_ROLE_PARSER, MSG_X_ASK, &msg, NULL, 0, &err),
	    &err);
	assert_int_equal(answer(c, 1, &out), -1);
	cleanup_close_fd(&c->core);
	give_wire(c);
	serves(c);
}

static void
proc_holds(pid_t pid, const char *file, const char *want)
{
	AUTO_BUF struct buf text = BUF(1 << 16);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	help_read_file(path, &text);
	if (memmem(text.p, text.n, want, strlen(want)) == NULL)
		fail_msg("%s: no \"%s\" in\n%.*s", path, want, STR_ARG(buf_str(&text)));
}

static void
it_runs_under_limits_and_a_filter(void **state)
{
	struct child *c = *state;

	proc_holds(c->pid, "limits", "Max stack size            67108864 ");
	proc_holds(c->pid, "limits", "Max cpu time              300                  300 ");
	proc_holds(c->pid, "limits", "Max core file size        0                    0 ");
	proc_holds(c->pid, "status", "NoNewPrivs:\t1");
#ifndef MODE_SANITIZED
	proc_holds(c->pid, "limits", "Max address space         536870912            536870912 ");
	proc_holds(c->pid, "status", "Seccomp:\t2");
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_text_is_answered_with_its_facts),
	    TEST(questions_sent_together_are_answered_in_order),
	    TEST(what_is_no_sql_is_invalid_and_says_why),
	    TEST(hostile_texts_are_answered_in_time_and_the_next_question_is_served),
	    TEST(a_text_that_stalls_it_is_its_death),
	    cmocka_unit_test(the_clock_counts_the_processor_s_time_and_not_that_of_others),
	    TEST(a_malformed_question_ends_the_wire_and_a_new_wire_is_served),
	    TEST(it_runs_under_limits_and_a_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
