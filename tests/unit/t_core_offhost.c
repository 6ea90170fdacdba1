/* Records that must have left the machine: when core believes it, and what it says when not. */
#include "tests/unit/core_help.h"

#include "broker/core_offhost.h"

#include "common/banned.h"

struct answer {
	int n; /* how often */
	char *why;
};

static void
on_answer(void *arg, const char *why)
{
	struct answer *a = arg;

	a->n++;
	free(a->why);
	a->why = why != NULL ? xstrdup(why) : NULL;
}

static void
drop(void *arg)
{
	((struct answer *)arg)->n = -1;
}

static void
delivered(struct world *w, const char *name, uint64_t from, uint64_t through, const char *why)
{
	AUTO_BUF struct buf b = BUF(1024);

	buf_lz(&b, name);
	buf_u64(&b, from);
	buf_u64(&b, through);
	buf_lz(&b, why);
	say(&w->writer, MSG_W_DELIVERED, &b);
	settle(w);
}

static int
setup(void **state)
{
	*state = world_new();
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	core_offhost_free(w->c, drop);
	world_free(w);
	return 0;
}

static void
a_record_has_left_when_its_webhook_has_it(void **state)
{
	struct world *w = *state;
	struct answer a = {0};

	core_offhost_wait(w->c, STR("siem"), 17, 50, on_answer, &a);
	delivered(w, "siem", 0, 17, ""); /* everything before it */
	assert_int_equal(a.n, 0);
	delivered(w, "chat", 0, 99, ""); /* another has it */
	assert_int_equal(a.n, 0);
	delivered(w, "siem", 18, 99, ""); /* it was given up, those behind it are there */
	assert_int_equal(a.n, 0);
	delivered(w, "siem", 17, 18, "");
	assert_int_equal(a.n, 1);
	assert_null(a.why);
	delivered(w, "siem", 17, 30, "");
	assert_int_equal(a.n, 1);
}

static void
what_has_left_before_it_is_asked_needs_no_waiting(void **state)
{
	struct world *w = *state;
	struct answer a = {0};

	delivered(w, "siem", 3, 18, "");
	core_offhost_wait(w->c, STR("siem"), 17, 50, on_answer, &a);
	assert_int_equal(a.n, 1);
	assert_null(a.why);
}

static void
silence_is_no_and_says_what_to_do(void **state)
{
	struct world *w = *state;
	struct answer a = {0}, b = {0};

	delivered(w, "siem", 0, 5, "siem.example answered 503\x1b[31m");
	core_offhost_wait(w->c, STR("siem"), 17, 0, on_answer, &a);
	core_offhost_wait(w->c, STR("nobody"), 17, 0, on_answer, &b);
	for (int i = 0; i < 100 && (a.n == 0 || b.n == 0); i++) {
		(void)usleep(10000);
		settle(w);
	}
	assert_int_equal(a.n, 1);
	assert_non_null(strstr(a.why, "webhook \"siem\" has not taken record 17"));
	assert_non_null(strstr(a.why, "answered 503"));
	assert_null(strchr(a.why, 0x1b));
	assert_int_equal(b.n, 1);
	assert_non_null(strstr(b.why, "nothing is known of one"));
	delivered(w, "siem", 0, 18, "");
	assert_int_equal(a.n, 1);
	free(a.why);
	free(b.why);
}

static void
those_who_wait_are_told_all_and_each_once(void **state)
{
	struct world *w = *state;
	struct answer a[3] = {{0}};

	core_offhost_wait(w->c, STR("siem"), 17, 50, on_answer, &a[0]);
	core_offhost_wait(w->c, STR("siem"), 18, 50, on_answer, &a[1]);
	core_offhost_wait(w->c, STR("siem"), 19, 50, on_answer, &a[2]);
	delivered(w, "siem", 0, 19, "");
	assert_int_equal(a[0].n, 1);
	assert_int_equal(a[1].n, 1);
	assert_int_equal(a[2].n, 0);
	core_offhost_free(w->c, drop);
	assert_int_equal(a[2].n, -1);
}

static void
a_malformed_word_of_the_writer_ends_its_wire(void **state)
{
	struct world *w = *state;

	assert_non_null(w->c->writer);
	delivered(w, "", 0, 1, "");
	assert_null(w->c->writer);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_record_has_left_when_its_webhook_has_it),
	    T(what_has_left_before_it_is_asked_needs_no_waiting),
	    T(silence_is_no_and_says_what_to_do),
	    T(those_who_wait_are_told_all_and_each_once),
	    T(a_malformed_word_of_the_writer_ends_its_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
