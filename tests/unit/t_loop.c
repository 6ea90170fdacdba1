/*
 * Unit tests of common/loop: order of timers, deletion inside callbacks, signals, children,
 * the step before sleep.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/loop.h"

#include "common/banned.h"

struct seen {
	struct loop *l;
	struct loop_io *io[2];
	struct loop_timer *timer;
	int pipe[2][2];
	char order[16];
	size_t n;
	int count, status;
	bool synced;
};

static int
setup(void **state)
{
	static struct seen s;

	s = (struct seen){.l = loop_new()};
	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe2(s.pipe[i], O_CLOEXEC | O_NONBLOCK), 0);
	*state = &s;
	return 0;
}

static int
teardown(void **state)
{
	struct seen *s = *state;

	loop_free(s->l);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			(void)close(s->pipe[i][k]);
	return 0;
}

static void
stop(void *arg)
{
	loop_stop(((struct seen *)arg)->l, 7);
}

static void
first(void *arg)
{
	struct seen *s = arg;

	s->order[s->n++] = 'a';
}

static void
second(void *arg)
{
	struct seen *s = arg;

	s->order[s->n++] = 'b';
}

static void
timers_fire_by_time_and_among_equals_by_birth(void **state)
{
	struct seen *s = *state;

	(void)loop_timer_add(s->l, 30, stop, s);
	(void)loop_timer_add(s->l, 10, second, s);
	(void)loop_timer_add(s->l, 0, first, s);
	(void)loop_timer_add(s->l, 0, second, s);
	assert_int_equal(loop_run(s->l), 7);
	assert_string_equal(s->order, "abb");
}

static void
many_timers_come_out_sorted(void **state)
{
	struct seen *s = *state;
	struct loop_timer *t[200];

	/* 200 in a scattered order, every second one deleted again. */
	for (size_t i = 0; i < 200; i++)
		t[i] = loop_timer_add(s->l, i * 37 % 20, i % 2 == 0 ? first : stop, s);
	for (size_t i = 1; i < 200; i += 2)
		loop_timer_del(t[i]);
	for (size_t i = 0; i < 200; i += 2)
		if (i >= 20)
			loop_timer_del(t[i]);
	(void)loop_timer_add(s->l, 40, stop, s);
	assert_int_equal(loop_run(s->l), 7);
	assert_string_equal(s->order, "aaaaaaaaaa");
}

static void
a_deleted_timer_never_fires(void **state)
{
	struct seen *s = *state;

	loop_timer_del(loop_timer_add(s->l, 0, first, s));
	(void)loop_timer_add(s->l, 5, stop, s);
	loop_timer_del(NULL);
	(void)loop_run(s->l);
	assert_string_equal(s->order, "");
}

static void
delete_own(void *arg)
{
	struct seen *s = arg;

	loop_timer_del(s->timer);
	s->count++;
}

static void
a_timer_may_delete_itself_while_it_fires(void **state)
{
	struct seen *s = *state;

	s->timer = loop_timer_add(s->l, 0, delete_own, s);
	(void)loop_timer_add(s->l, 5, stop, s);
	(void)loop_run(s->l);
	assert_int_equal(s->count, 1);
}

static void
again(void *arg)
{
	struct seen *s = arg;

	if (++s->count == 1)
		assert_int_equal(write(s->pipe[0][1], "x", 1), 1);
	(void)loop_timer_add(s->l, 0, again, s);
}

static void
on_pipe_stop(void *arg, uint32_t events UNUSED)
{
	stop(arg);
}

static void
a_timer_that_renews_itself_does_not_starve_a_descriptor(void **state)
{
	struct seen *s = *state;

	s->io[0] = loop_io_add(s->l, s->pipe[0][0], EPOLLIN, on_pipe_stop, s);
	(void)loop_timer_add(s->l, 0, again, s);
	assert_int_equal(loop_run(s->l), 7);
	/* Written in the first call, seen in the next turn. */
	assert_in_range(s->count, 1, 3);
}

/* Whichever comes first deletes both: the other's event is already fetched. */
static void
on_pipe_delete_both(void *arg, uint32_t events UNUSED)
{
	struct seen *s = arg;

	s->count++;
	loop_io_del(s->io[0]);
	loop_io_del(s->io[1]);
}

static void
a_descriptor_deleted_in_the_same_turn_is_not_called(void **state)
{
	struct seen *s = *state;

	for (int i = 0; i < 2; i++) {
		s->io[i] = loop_io_add(s->l, s->pipe[i][0], EPOLLIN, on_pipe_delete_both, s);
		assert_int_equal(write(s->pipe[i][1], "x", 1), 1);
	}
	(void)loop_timer_add(s->l, 10, stop, s);
	(void)loop_run(s->l);
	assert_int_equal(s->count, 1);
}

static void
on_pipe_read(void *arg, uint32_t events UNUSED)
{
	struct seen *s = arg;
	char c;

	assert_int_equal(read(s->pipe[0][0], &c, 1), 1);
	s->order[s->n++] = c;
	s->synced = false;
	stop(s);
}

static void
before_sleep(void *arg)
{
	((struct seen *)arg)->synced = true;
}

static void
the_step_before_sleep_also_follows_the_last_turn(void **state)
{
	struct seen *s = *state;

	s->io[0] = loop_io_add(s->l, s->pipe[0][0], EPOLLIN, on_pipe_read, s);
	loop_before_sleep(s->l, before_sleep, s);
	assert_int_equal(write(s->pipe[0][1], "x", 1), 1);
	(void)loop_run(s->l);
	assert_string_equal(s->order, "x");
	assert_true(s->synced);
}

static void
an_io_without_events_stays_silent_until_asked(void **state)
{
	struct seen *s = *state;

	s->io[0] = loop_io_add(s->l, s->pipe[0][0], 0, on_pipe_read, s);
	assert_int_equal(write(s->pipe[0][1], "x", 1), 1);
	(void)loop_timer_add(s->l, 5, stop, s);
	(void)loop_run(s->l);
	assert_string_equal(s->order, "");
	loop_io_events(s->io[0], EPOLLIN);
	(void)loop_run(s->l);
	assert_string_equal(s->order, "x");
}

static void
on_signal(void *arg, int signo)
{
	struct seen *s = arg;

	s->status = signo;
	stop(s);
}

static void
a_signal_arrives_as_a_call(void **state)
{
	struct seen *s = *state;

	loop_signal_add(s->l, SIGUSR1, on_signal, s);
	loop_signal_add(s->l, SIGUSR2, on_signal, s);
	assert_int_equal(kill(getpid(), SIGUSR2), 0);
	(void)loop_run(s->l);
	assert_int_equal(s->status, SIGUSR2);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	(void)loop_run(s->l);
	assert_int_equal(s->status, SIGUSR1);
}

static void
on_child(void *arg, pid_t pid UNUSED, int status)
{
	struct seen *s = arg;

	s->status = status;
	stop(s);
}

static void
a_child_is_reaped_and_its_status_told(void **state)
{
	struct seen *s = *state;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	loop_child_add(s->l, pid, on_child, s);
	(void)loop_run(s->l);
	assert_true(WIFEXITED(s->status) && WEXITSTATUS(s->status) == 3);
	pid = fork();
	if (pid == 0)
		for (;;)
			(void)pause();
	loop_child_add(s->l, pid, on_child, s);
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)loop_run(s->l);
	assert_true(WIFSIGNALED(s->status) && WTERMSIG(s->status) == SIGKILL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void
the_time_of_a_turn_goes_forward(void **state)
{
	struct seen *s = *state;
	uint64_t t0 = loop_now_ms(s->l);

	(void)loop_timer_add(s->l, 20, stop, s);
	(void)loop_run(s->l);
	assert_in_range(loop_now_ms(s->l) - t0, 20, 10000);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(timers_fire_by_time_and_among_equals_by_birth),
	    T(many_timers_come_out_sorted),
	    T(a_deleted_timer_never_fires),
	    T(a_timer_may_delete_itself_while_it_fires),
	    T(a_timer_that_renews_itself_does_not_starve_a_descriptor),
	    T(a_descriptor_deleted_in_the_same_turn_is_not_called),
	    T(the_step_before_sleep_also_follows_the_last_turn),
	    T(an_io_without_events_stays_silent_until_asked),
	    T(a_signal_arrives_as_a_call),
	    T(a_child_is_reaped_and_its_status_told),
	    T(the_time_of_a_turn_goes_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
