/*
 * Unit tests of common/acceptor: whoever connects is handed over; without descriptors it rests,
 * does not turn, and goes on by itself when there are some again; it may be freed by its own
 * callback.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <cmocka.h>

#include "common/acceptor.h"
#include "common/cleanup.h"
#include "common/log.h"

#include "common/banned.h"

#define CLIENTS 5

struct seen {
	struct loop *l;
	struct acceptor *a;
	int listen_fd, client[CLIENTS], taken[CLIENTS];
	size_t ntaken, lines;
	bool free_at_first;
	struct sockaddr_un at;
	struct rlimit files;
};

static void
on_line(void *arg, enum log_level level UNUSED, struct str line UNUSED)
{
	((struct seen *)arg)->lines++;
}

static int
setup(void **state)
{
	static struct seen s;

	s = (struct seen){.l = loop_new(), .at = {.sun_family = AF_UNIX}};
	log_set_sink(on_line, &s);
	s.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(s.listen_fd >= 0);
	/* The kernel chooses an abstract name. */
	assert_int_equal(bind(s.listen_fd, (struct sockaddr *)&s.at, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(s.listen_fd, CLIENTS), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &s.files), 0);
	*state = &s;
	return 0;
}

static int
teardown(void **state)
{
	struct seen *s = *state;

	log_set_sink(NULL, NULL);
	acceptor_free(s->a);
	for (size_t i = 0; i < CLIENTS; i++)
		if (s->client[i] != 0)
			(void)close(s->client[i]);
	for (size_t i = 0; i < s->ntaken; i++)
		(void)close(s->taken[i]);
	(void)close(s->listen_fd);
	loop_free(s->l);
	return 0;
}

static void
take(void *arg, int fd)
{
	struct seen *s = arg;

	assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	s->taken[s->ntaken++] = fd;
	if (s->free_at_first)
		acceptor_free(TAKE_PTR(s->a));
	else if (s->ntaken == CLIENTS)
		loop_stop(s->l, 0);
}

static void
clients(struct seen *s)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);

	assert_int_equal(getsockname(s->listen_fd, (struct sockaddr *)&a, &n), 0);
	for (size_t i = 0; i < CLIENTS; i++) {
		s->client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(s->client[i] > 0);
		assert_int_equal(connect(s->client[i], (struct sockaddr *)&a, n), 0);
	}
}

static void
all_who_wait_are_handed_over(void **state)
{
	struct seen *s = *state;

	clients(s);
	s->a = acceptor_new(s->l, s->listen_fd, "test", take, s);
	assert_int_equal(loop_run(s->l), 0);
	assert_int_equal(s->ntaken, CLIENTS);
	assert_int_equal(s->lines, 0);
}

static void
restore(void *arg)
{
	struct seen *s = arg;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s->files), 0);
}

static double
cpu_s(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
without_descriptors_it_rests_and_then_goes_on(void **state)
{
	struct seen *s = *state;
	struct rlimit few = s->files;
	double before;

	clients(s);
	s->a = acceptor_new(s->l, s->listen_fd, "test", take, s);
	/* The highest that is open, so the next has no number. */
	few.rlim_cur = (rlim_t)s->client[CLIENTS - 1] + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	(void)loop_timer_add(
	    s->l, (uint64_t)5 * ACCEPTOR_REST_MS + ACCEPTOR_REST_MS / 2, restore, s);
	before = cpu_s();
	assert_int_equal(loop_run(s->l), 0);
	assert_int_equal(s->ntaken, CLIENTS);
	/* Once at first, and after each rest: a loop that turned would have said it thousands of
	 * times. */
	assert_in_range(s->lines, 1, 7);
	assert_true(cpu_s() - before < 0.5);
}

static void
its_own_callback_may_free_it(void **state)
{
	struct seen *s = *state;

	clients(s);
	s->free_at_first = true;
	s->a = acceptor_new(s->l, s->listen_fd, "test", take, s);
	(void)loop_turn(s->l);
	(void)loop_turn(s->l);
	assert_int_equal(s->ntaken, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(all_who_wait_are_handed_over, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		without_descriptors_it_rests_and_then_goes_on, setup, teardown),
	    cmocka_unit_test_setup_teardown(its_own_callback_may_free_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
