/*
 * The supervisor's end of the system call filter against code inside that floods it, dies in the
 * middle, is interrupted, makes up names, or is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/filter_box.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/time.h>
#include <time.h>

#include "common/banned.h"

#define FLOOD_THREADS 8
#define FLOOD_EVENTS 4000
#define TURN 32
#define FLOOD_HEAP 8192 /* malloc's own caches; a leak a call would be more */

/* Each opening of a file in /proc by this program (and the library's with it) is counted. */
static unsigned long looks;
int counted_open(const char *path, int flags, ...) __asm__("open")
    __attribute__((visibility("default")));
int
counted_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/comm") != NULL)
		looks++;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* A call that is told and takes nothing. */
static int
acct_try(void)
{
	errno = 0;
	return syscall(SYS_acct, -1L) == -1 ? errno : 0;
}

/* Row i's member; "" and 0 where there is none. */
static struct str
row_str(const struct json_doc *d, size_t i, const char *key)
{
	return json_str(json_get(json_at(json_root(d), i), key));
}

static int64_t
row_int(const struct json_doc *d, size_t i, const char *key)
{
	return json_int(json_get(json_at(json_root(d), i), key));
}

static void
one_call(int out UNUSED)
{
	(void)prctl(PR_SET_NAME, "curious");
	if (acct_try() != EPERM || acct_try() != EPERM)
		_exit(91);
	(void)prctl(PR_SET_NAME, "\x1b[2J\xff\"\\");
	(void)syscall(SYS_chroot, -1L);
}

static void
counts_name_the_call_the_number_and_the_program(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	AUTO(json) struct json_doc *d = NULL, *after = NULL;
	struct box b = box_start(true, one_call);

	box_serve(&b, &out);
	assert_int_equal(out.n, 0);
	d = counts_of(&b, true);
	assert_int_equal(json_count(json_root(d)), 2);
	assert_true(str_eqz(row_str(d, 0, "call"), "acct"));
	assert_true(str_eqz(row_str(d, 0, "program"), "curious"));
	assert_int_equal(row_int(d, 0, "number"), SYS_acct);
	assert_int_equal(row_int(d, 0, "count"), 2);
	/* What a terminal would obey is not in a name. */
	assert_true(str_eqz(row_str(d, 1, "program"), "?[2J?\"\\"));
	after = counts_of(&b, false);
	assert_int_equal(json_count(json_root(after)), 0);
	assert_int_equal(box_end(&b), 0);
}

static void *
flood_thread(void *arg UNUSED)
{
	for (;;)
		(void)acct_try();
	return NULL;
}

static void
flood(int out UNUSED)
{
	pthread_t t;

	for (unsigned i = 1; i < FLOOD_THREADS; i++)
		if (pthread_create(&t, NULL, flood_thread, NULL) != 0)
			_exit(95);
	(void)flood_thread(NULL);
}

static size_t
heap(void)
{
	return mallinfo2().uordblks;
}

/* Turns of the flood, beside other work: each turn ends, and takes no more than it may. */
static void
a_flood_takes_no_more_than_its_turn_no_memory_and_few_looks(void **state UNUSED)
{
	struct box b = box_start(true, flood);
	uint64_t total = 0, turns = 0;
	size_t before = 0;
	time_t begin = time(NULL);

	looks = 0;
	while (total < FLOOD_EVENTS) {
		AUTO(json) struct json_doc *d = NULL;
		struct pollfd p = {b.listener, POLLIN, 0};

		assert_int_equal(poll(&p, 1, 30000), 1);
		assert_true(filter_notify_turn(b.listener, b.counts, TURN));
		/* Here is the time for its other work. */
		if (++turns == 20)
			before = heap();
		if (turns > 20)
			assert_true(heap() <= before + FLOOD_HEAP);
		d = counts_of(&b, true);
		assert_true(counts_sum(d) <= TURN);
		total += counts_sum(d);
	}
	assert_true(turns >= FLOOD_EVENTS / TURN);
	print_message("# %lu looks at /proc for %lu calls\n", looks, (unsigned long)total);
	assert_true(looks > 0 && looks <= 64 * ((unsigned long)(time(NULL) - begin) + 2));
	assert_int_equal(kill(b.pid, SIGKILL), 0);
	(void)box_end(&b);
}

static void
a_flood_of_one_program_is_counted_under_its_name(void **state UNUSED)
{
	struct box b = box_start(true, flood);
	AUTO(json) struct json_doc *d = NULL;
	int64_t known = 0;

	for (unsigned turns = 0; turns < 100; turns++) {
		struct pollfd p = {b.listener, POLLIN, 0};

		assert_int_equal(poll(&p, 1, 30000), 1);
		assert_true(filter_notify_turn(b.listener, b.counts, TURN));
	}
	d = counts_of(&b, false);
	for (size_t i = 0; i < json_count(json_root(d)); i++)
		if (!str_eqz(row_str(d, i, "program"), "?"))
			known += row_int(d, i, "count");
	assert_true(known > (int64_t)counts_sum(d) / 2);
	assert_int_equal(kill(b.pid, SIGKILL), 0);
	(void)box_end(&b);
}

/* More names, and more calls, than there are rows. */
static void
many_names(int out)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 40; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "name%u", i);
		(void)prctl(PR_SET_NAME, name);
		n += acct_try() == EPERM;
	}
	for (unsigned nr = 0; nr < 500; nr++) {
		static const __u64 ones[6] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
		const char *call = filter_call_name(nr);

		if (call == NULL || !table_says(call, ones).told)
			continue;
		(void)syscall((long)nr, -1L, -1L, -1L, -1L, -1L, -1L);
		n++;
	}
	if (write(out, &n, sizeof(n)) != sizeof(n))
		_exit(94);
}

static void
made_up_names_fill_no_more_than_the_table(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct box b = box_start(true, many_names);
	size_t acct = 0, rest = 0;
	uint64_t n;

	box_serve(&b, &out);
	assert_int_equal(out.n, sizeof(n));
	memcpy(&n, out.p, sizeof(n));
	d = counts_of(&b, false);
	assert_int_equal(counts_sum(d), n);
	assert_int_equal(json_count(json_root(d)), 64);
	for (size_t i = 0; i < 64; i++) {
		acct += str_eqz(row_str(d, i, "call"), "acct");
		rest += str_eqz(row_str(d, i, "call"), "other");
		assert_true(
		    i == 0 || i == 63 || row_int(d, i, "count") <= row_int(d, i - 1, "count"));
	}
	assert_in_range(acct, 2, 8);
	assert_int_equal(rest, 1);
	assert_int_equal(box_end(&b), 0);
}

static void
one_pending(int out UNUSED)
{
	(void)acct_try();
}

static void
a_program_killed_while_it_waits_holds_nobody_up(void **state UNUSED)
{
	for (unsigned i = 0; i < 40; i++) {
		struct box b = box_start(true, one_pending);
		struct pollfd p = {b.listener, POLLIN, 0};

		assert_int_equal(poll(&p, 1, 30000), 1);
		assert_int_equal(kill(b.pid, SIGKILL), 0);
		/* While the kernel takes it down, and when it is gone. */
		for (unsigned turn = 0; turn < i; turn++)
			(void)filter_notify_turn(b.listener, b.counts, TURN);
		assert_true(WIFSIGNALED(box_wait(&b)));
		assert_false(filter_notify_turn(b.listener, b.counts, TURN));
		box_free(&b);
	}
}

static void
on_alarm(int sig UNUSED)
{
}

static void
interrupted(int out)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 500}, {0, 500}};
	char wrong = 0;

	(void)sigaction(SIGALRM, &sa, NULL);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 2000; i++)
		wrong |= acct_try() != EPERM;
	if (write(out, &wrong, 1) != 1)
		_exit(93);
}

static void
signals_change_no_answer(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	struct box b = box_start(true, interrupted);
	AUTO(json) struct json_doc *d = NULL;

	box_serve(&b, &out);
	assert_int_equal(out.n, 1);
	assert_int_equal(out.p[0], 0);
	d = counts_of(&b, false);
	assert_true(counts_sum(d) >= 2000);
	assert_int_equal(box_end(&b), 0);
}

static void
alone(int out)
{
	int e = acct_try();

	if (write(out, &e, sizeof(e)) != sizeof(e))
		_exit(92);
}

static void
without_a_supervisor_what_is_told_does_not_exist(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	struct box b = box_start(true, alone);
	int e = 0;

	(void)close(b.listener);
	b.listener = -1;
	box_serve(&b, &out);
	assert_int_equal(out.n, sizeof(e));
	memcpy(&e, out.p, sizeof(e));
	assert_int_equal(e, ENOSYS);
	assert_int_equal(box_end(&b), 0);
}

static void
nothing_to_answer_is_no_wait_and_no_end(void **state UNUSED)
{
	struct box b = box_start(true, flood);

	assert_int_equal(kill(b.pid, SIGSTOP), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_true(filter_notify_turn(b.listener, b.counts, FLOOD_THREADS + 1));
	assert_true(filter_notify_turn(b.listener, b.counts, 0));
	assert_int_equal(kill(b.pid, SIGKILL), 0);
	(void)box_end(&b);
	filter_counts_free(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_name_the_call_the_number_and_the_program),
	    cmocka_unit_test(a_flood_takes_no_more_than_its_turn_no_memory_and_few_looks),
	    cmocka_unit_test(a_flood_of_one_program_is_counted_under_its_name),
	    cmocka_unit_test(made_up_names_fill_no_more_than_the_table),
	    cmocka_unit_test(a_program_killed_while_it_waits_holds_nobody_up),
	    cmocka_unit_test(signals_change_no_answer),
	    cmocka_unit_test(without_a_supervisor_what_is_told_does_not_exist),
	    cmocka_unit_test(nothing_to_answer_is_no_wait_and_no_end),
	};

	apart();
	(void)alarm(120);
	return cmocka_run_group_tests_name("filter_notify", tests, NULL, NULL);
}
