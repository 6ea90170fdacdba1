/*
 * Pid 1 of a sandbox: that nothing of a program is left, whatever it does; holding; many at once;
 * orders that are none. The hostile programs are this test's own, run inside (roles, below).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>

#include "tests/unit/init_help.h"

#include "common/banned.h"

static char out[1 << 16];

/* --- what runs inside --------------------------------------------------------------------- */

/* A process as hard to find and to end as they come: forked away twice, own session, deaf. */
static void
role_hide(bool stop)
{
	if (fork() != 0)
		return;
	(void)setsid();
	for (int s = 1; s <= 64; s++)
		(void)signal(s, SIG_IGN);
	if (fork() != 0)
		_exit(0);
	if (stop)
		(void)raise(SIGSTOP);
	for (;;)
		(void)pause();
}

static void
role_chain(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid != 0)
			break;
		(void)setsid();
	}
	for (;;)
		(void)pause();
}

/* Each forks as long as it is let; with sessions, no group holds two of them. */
static _Noreturn void
role_bomb(bool session)
{
	for (;;)
		if (fork() == 0 && session)
			(void)setsid();
}

/* Nothing of it lives long enough to be named: each only forks the next. */
static _Noreturn void
role_run_away(void)
{
	for (;;) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid == 0)
			(void)setsid();
	}
}

static int
role(int argc, char **argv)
{
	const char *what = argv[2];
	int n = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
	pid_t minder = getppid();
	struct rlimit procs = {200, 200};

	(void)setrlimit(RLIMIT_NPROC, &procs);
	if (strcmp(what, "hide") == 0) {
		for (int i = 0; i < n; i++)
			role_hide(i % 3 == 0);
		(void)usleep(20000);
		return 0;
	}
	if (strcmp(what, "chain") == 0)
		role_chain((unsigned)n);
	if (strncmp(what, "bomb", 4) == 0) {
		/* With an end of its own, or with none. */
		if (n == 0 || fork() == 0)
			role_bomb(strcmp(what, "bomb-apart") == 0);
		(void)usleep(100000);
		return 0;
	}
	if (strcmp(what, "run-away") == 0) {
		for (int i = 0; i < 3; i++)
			if (fork() == 0)
				role_run_away();
		(void)usleep(50000);
		return 0;
	}
	if (strcmp(what, "kill-minder") == 0) {
		role_hide(false);
		(void)kill(minder, SIGKILL);
		for (;;)
			(void)pause();
	}
	if (strcmp(what, "stop-minder") == 0)
		for (int i = 0;; i++) {
			(void)kill(minder, SIGSTOP);
			if (i == 1000 && n != 0)
				return 0;
		}
	if (strcmp(what, "signal-all") == 0) {
		/* To all that code inside may reach: the minders are among it. */
		(void)kill(-1, n);
		return 0;
	}
	if (strcmp(what, "tick") == 0)
		for (;;) {
			(void)!write(1, ".", 1);
			(void)usleep(5000);
		}
	return 99;
}

#define ROLE(...)        \
	((struct spawn){ \
	    .flags = INSIDE_MERGE, .argv = {"/tmp/bin/t_sandbox_init_tree", "role", __VA_ARGS__}})

/* --- looking from outside ----------------------------------------------------------------- */

/* False: it is gone. */
static bool
name_of(const char *pid, char *name, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%.12s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, name, size - 1);
	if (n < 0 && errno != ENOENT && errno != ESRCH)
		fail_msg("%s: %s", path, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	name[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

static bool
is_init(const char *name)
{
	return strcmp(name, "cofferdam-init\n") == 0 || strcmp(name, "test_init_scan\n") == 0;
}

/* Processes in the box's pid namespace but pid 1 and minders, of which *ret_own is the number; -1:
 * this user may not see that. */
static int
count(const struct box *b, int *ret_own)
{
	char want[64], path[64], got[64], name[32];
	ssize_t n, k;
	DIR *d;
	int found = 0;

	*ret_own = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)b->pid);
	n = readlink(path, want, sizeof(want));
	if (n < 0)
		return -1;
	d = opendir("/proc");
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || strlen(e->d_name) > 12)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.12s/ns/pid", e->d_name);
		k = readlink(path, got, sizeof(got));
		if (k != n || memcmp(got, want, (size_t)n) != 0)
			continue;
		/* A minder that was told to go may be gone since. */
		if (!name_of(e->d_name, name, sizeof(name)))
			continue;
		if (is_init(name))
			++*ret_own;
		else
			found++;
	}
	(void)closedir(d);
	return found;
}

/* And the one minder that waits for the next order; others that wait are told to go. */
static void
only_pid_1_is_left(const struct box *b)
{
	int own = 0, n = count(b, &own);

	for (int i = 0; n >= 0 && i < 200 && own > 2; i++) {
		(void)usleep(10000);
		assert_int_equal(n, 0);
		n = count(b, &own);
	}
	if (n < 0)
		return;
	assert_int_equal(n, 0);
	assert_in_range(own, 1, 2);
}

static int
fd_count(const struct box *b)
{
	char path[64];
	DIR *d;
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)b->pid);
	d = opendir(path);
	if (d == NULL)
		return -1;
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n - 2;
}

static void
only_its_own_descriptors_are_left(const struct box *b)
{
	int n = fd_count(b);

	/* Null three times, wire, helper, signals, and two pipes for the next program, which it
	 * makes when it has answered: so a moment may pass until there is a whole number of them.
	 */
	for (int i = 0; i < 200 && n >= 0 && n != 6 && n != 8 && n != 10; i++) {
		(void)usleep(10000);
		n = fd_count(b);
	}
	if (n >= 0)
		assert_true(n == 6 || n == 8 || n == 10);
}

/* Starts it and closes its output; the pid inside. */
static uint32_t
start(struct box *b, uint32_t proc, const struct spawn *s)
{
	struct frame f;

	spawn_send(b, proc, s);
	frame_want(b, &f, INSIDE_SPAWNED, proc);
	frame_close(&f);
	return f.h.a;
}

static int
exited(struct box *b, uint32_t proc)
{
	struct inside_exited e;
	struct frame f;

	frame_want(b, &f, INSIDE_EXITED, proc);
	memcpy(&e, f.body, sizeof(e));
	return (int)e.status;
}

/* --- trees -------------------------------------------------------------------------------- */

static void
programs_leave_nothing(const struct box_want *w)
{
	static const char *const roles[][2] = {{"hide", "10"}, {"hide", "100"}, {"bomb", "1"},
	    {"bomb-apart", "1"}, {"run-away", "0"}, {"stop-minder", "1"}};
	struct box b = box_ready(w);

	for (uint32_t i = 0; i < ARRAY_LEN(roles); i++) {
		(void)start(&b, i + 1, &ROLE(roles[i][0], roles[i][1]));
		assert_int_equal(exited(&b, i + 1), 0);
		only_pid_1_is_left(&b);
	}
	only_its_own_descriptors_are_left(&b);
	assert_int_equal(run(&b, 100, &SH("echo on"), out, sizeof(out)), 0);
	(void)box_end(&b);
}

static void
nothing_outlives_a_program(void **state UNUSED)
{
	programs_leave_nothing(&(struct box_want){0});
}

static void
kills_leave_nothing(const struct box_want *w)
{
	static const char *const roles[][2] = {{"chain", "100"}, {"bomb", "0"}, {"bomb-apart", "0"},
	    {"stop-minder", "0"}, {"kill-minder", "0"}};
	struct box b = box_ready(w);

	for (uint32_t i = 0; i < ARRAY_LEN(roles); i++) {
		(void)start(&b, i + 1, &ROLE(roles[i][0], roles[i][1]));
		(void)usleep(100000);
		order(&b, INSIDE_KILL, i + 1, 0);
		assert_int_equal(exited(&b, i + 1), SIGKILL);
		only_pid_1_is_left(&b);
	}
	(void)box_end(&b);
}

static void
a_kill_ends_the_whole_tree(void **state UNUSED)
{
	kills_leave_nothing(&(struct box_want){0});
}

static void
so_it_is_without_lists_of_children(void **state UNUSED)
{
	programs_leave_nothing(&(struct box_want){.scan = true});
	kills_leave_nothing(&(struct box_want){.scan = true});
}

static void
one_tree_ends_and_the_others_live(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn cat = {.flags = INSIDE_STDIN | INSIDE_MERGE, .argv = {"/bin/cat"}};
	struct frame f;

	spawn_send(&b, 1, &cat);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	for (uint32_t i = 2; i < 6; i++) {
		(void)start(&b, i, &ROLE(i % 2 == 0 ? "bomb-apart" : "run-away", "0"));
		(void)usleep(50000);
		order(&b, INSIDE_KILL, i, 0);
		(void)exited(&b, i);
	}
	assert_int_equal(write(f.fds[1], "alive\n", 6), 6);
	(void)close(f.fds[1]);
	assert_string_equal(text_of(&f.fds[0], out, sizeof(out)), "alive\n");
	assert_int_equal(exited(&b, 1), 0);
	only_pid_1_is_left(&b);
	(void)box_end(&b);
}

static void
who_kills_its_minder_ends_itself(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	int own, n;

	(void)start(&b, 1, &SH("exec sleep 1000"));
	(void)start(&b, 2, &ROLE("kill-minder"));
	assert_int_equal(exited(&b, 2), SIGKILL);
	n = count(&b, &own);
	if (n >= 0)
		assert_int_equal(n, 1); /* the other */
	order(&b, INSIDE_KILL, 1, 0);
	assert_int_equal(exited(&b, 1), SIGKILL);
	only_pid_1_is_left(&b);
	only_its_own_descriptors_are_left(&b);
	(void)box_end(&b);
}

/* Every answer is one of those that an order may have, whatever is killed meanwhile. */
static void
execs_survive_one_that_signals_all(int signal, uint32_t rounds)
{
	struct box b = box_ready(&(struct box_want){0});
	char number[8];
	uint32_t proc = 0, alive = 0;

	(void)snprintf(number, sizeof(number), "%d", signal);
	for (uint32_t i = 0; i < rounds; i++) {
		spawn_send(&b, ++proc, &ROLE("signal-all", number));
		for (int k = 0; k < 5; k++)
			spawn_send(&b, ++proc, &SH("sleep 0.01"));
		alive += 6;
		for (uint32_t k = 0; signal != SIGKILL && k < 6; k++)
			if (k % 2 == 0)
				order(&b, INSIDE_KILL, proc - k, 0);
		/* What was stopped waits for an order. */
		(void)usleep(signal == SIGKILL ? 0 : 20000);
		for (uint32_t k = 0; signal != SIGKILL && k < 6; k++)
			order(&b, INSIDE_KILL, proc - k, 0);
		while (alive != 0) {
			struct frame f;

			if (!frame_read(&b, &f, 20000))
				fail_msg("round %u: %u got no answer", i, alive);
			frame_close(&f);
			assert_true(f.h.proc > proc - 6 && f.h.proc <= proc);
			if (f.h.type == INSIDE_EXITED || f.h.type == INSIDE_FAILED)
				alive--;
			else
				assert_int_equal(f.h.type, INSIDE_SPAWNED);
		}
		only_pid_1_is_left(&b);
	}
	only_its_own_descriptors_are_left(&b);
	assert_int_equal(run(&b, ++proc, &SH("echo on"), out, sizeof(out)), 0);
	(void)box_end(&b);
}

static void
a_kill_of_everything_inside_leaves_pid_1(void **state UNUSED)
{
	execs_survive_one_that_signals_all(SIGKILL, 40);
}

static void
a_stop_of_everything_inside_is_no_end(void **state UNUSED)
{
	execs_survive_one_that_signals_all(SIGSTOP, 10);
}

static void
signals_to_pid_1_do_nothing(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	assert_int_equal(
	    run(&b, 1,
		&SH("for s in 1 2 3 9 15 17 19 20 10 12 18 34 64; do kill -$s 1 || echo no $s; "
		    "done; echo all"),
		out, sizeof(out)),
	    0);
	assert_string_equal(out, "all\n");
	assert_int_equal(run(&b, 2, &SH("echo on"), out, sizeof(out)), 0);
	(void)box_end(&b);
}

static void
pid_1_and_minders_reveal_nothing(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){.open_proc = true, .env = "CANARY=secret"});
	const char *line = "for p in 1 $PPID; do for f in environ mem maps smaps fd fdinfo exe "
			   "root cwd auxv stack "
			   "syscall personality io map_files ns pagemap; do "
			   "{ cat /proc/$p/$f || ls /proc/$p/$f/ || readlink /proc/$p/$f; } "
			   ">/tmp/x 2>/dev/null && "
			   "[ -s /tmp/x ] && echo reached $p $f; "
			   "done; echo 5 2>/dev/null >/proc/$p/oom_score_adj && echo wrote $p; "
			   "tr '\\0' ' ' </proc/$p/cmdline; done; "
			   "grep -c CANARY /proc/1/status; wc -c </proc/self/environ";

	assert_int_equal(run(&b, 1, &SH(line), out, sizeof(out)), 0);
	assert_string_equal(out, "cofferdam-init cofferdam-init 0\n0\n");
	(void)box_end(&b);
}

static void
what_may_stay_stays(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = SH("sleep 1000 & setsid sleep 1000 & exit 4");
	struct frame f;

	s.flags |= INSIDE_KEEP;
	(void)start(&b, 1, &s);
	assert_int_equal(exited(&b, 1), 4 << 8);
	(void)usleep(50000);
	assert_int_equal(run(&b, 2, &SH("pgrep -c sleep"), out, sizeof(out)), 0);
	assert_string_equal(out, "2\n");
	/* Its end is asked for later, and told. */
	order(&b, INSIDE_KILL, 1, 0);
	frame_want(&b, &f, INSIDE_EMPTIED, 1);
	assert_int_equal(run(&b, 3, &SH("sleep 0.2; pgrep -c sleep; :"), out, sizeof(out)), 0);
	assert_string_equal(out, "0\n");
	only_pid_1_is_left(&b);
	/* Beside it: the same without leave. */
	s.flags &= ~(unsigned)INSIDE_KEEP;
	(void)start(&b, 4, &s);
	assert_int_equal(exited(&b, 4), 4 << 8);
	only_pid_1_is_left(&b);
	/* And one that might have left something, but did not. */
	s = SH("exit 5");
	s.flags |= INSIDE_KEEP;
	(void)start(&b, 5, &s);
	assert_int_equal(exited(&b, 5), 5 << 8);
	frame_want(&b, &f, INSIDE_EMPTIED, 5);
	(void)box_end(&b);
}

static void
a_signal_goes_to_the_group(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = SH("trap 'echo usr1' USR1; sh -c 'trap \"echo child; exit\" USR1; "
			    "while :; do sleep 0.05; done' & wait; wait; exit 5");
	struct frame f;

	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	(void)usleep(200000);
	order(&b, INSIDE_SIGNAL, 1, SIGUSR1);
	(void)text_of(&f.fds[0], out, sizeof(out));
	assert_non_null(strstr(out, "usr1\n"));
	assert_non_null(strstr(out, "child\n"));
	assert_int_equal(exited(&b, 1), 5 << 8);
	(void)start(&b, 2, &SH("exec sleep 1000"));
	order(&b, INSIDE_SIGNAL, 2, SIGTERM);
	assert_int_equal(exited(&b, 2), SIGTERM);
	/* One that is gone. */
	order(&b, INSIDE_SIGNAL, 2, SIGTERM);
	order(&b, INSIDE_KILL, 2, 0);
	assert_int_equal(run(&b, 3, &SH("echo on"), out, sizeof(out)), 0);
	(void)box_end(&b);
}

static void
a_kill_at_any_time_gets_its_answers(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	for (uint32_t i = 1; i <= 200; i++) {
		struct frame f;

		spawn_send(&b, i, &SH("exec sleep 1000"));
		(void)usleep(i % 20 * 100);
		order(&b, INSIDE_KILL, i, 0);
		frame_want(&b, &f, INSIDE_SPAWNED, i);
		frame_close(&f);
		assert_int_equal(exited(&b, i), SIGKILL);
	}
	only_pid_1_is_left(&b);
	only_its_own_descriptors_are_left(&b);
	(void)box_end(&b);
}

/* --- holding ------------------------------------------------------------------------------ */

/* Bytes that come within ms. */
static ssize_t
drain(int fd, int ms)
{
	ssize_t n = 0, k;

	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	(void)usleep((unsigned)ms * 1000);
	while ((k = read(fd, out, sizeof(out))) > 0)
		n += k;
	return n;
}

static void
what_is_held_stands_still_but_for_helpers(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn helper = {.flags = INSIDE_HELPER | INSIDE_MERGE, .argv = {"part"}};
	struct frame f, g;

	spawn_send(&b, 1, &ROLE("tick"));
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_true(drain(f.fds[0], 200) > 0);
	order(&b, INSIDE_HOLD, 0, 1);
	(void)drain(f.fds[0], 100);
	assert_int_equal(drain(f.fds[0], 200), 0);
	/* A helper runs; another program begins when the hold ends; what is held can be killed. */
	assert_int_equal(run(&b, 2, &helper, out, sizeof(out)), 0);
	spawn_send(&b, 3, &SH("echo later"));
	spawn_send(&b, 4, &SH("echo never"));
	assert_false(frame_read(&b, &g, 300));
	order(&b, INSIDE_KILL, 4, 0);
	frame_want(&b, &g, INSIDE_FAILED, 4);
	assert_int_equal(g.h.a, ECANCELED);
	order(&b, INSIDE_HOLD, 0, 0);
	assert_true(drain(f.fds[0], 200) > 0);
	frame_want(&b, &g, INSIDE_SPAWNED, 3);
	assert_string_equal(text_of(&g.fds[0], out, sizeof(out)), "later\n");
	assert_int_equal(exited(&b, 3), 0);
	order(&b, INSIDE_HOLD, 0, 1);
	order(&b, INSIDE_KILL, 1, 0);
	assert_int_equal(exited(&b, 1), SIGKILL);
	frame_close(&f);
	only_pid_1_is_left(&b);
	(void)box_end(&b);
}

/* --- many, and the end -------------------------------------------------------------------- */

static void
two_hundred_and_fifty_six_live_at_once(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct frame f;

	for (uint32_t i = 1; i <= 256; i++)
		(void)start(&b, i, &SH("exec sleep 1000"));
	spawn_send(&b, 257, &SH("echo no"));
	frame_want(&b, &f, INSIDE_FAILED, 257);
	assert_int_equal(f.h.a, EAGAIN);
	assert_non_null(strstr(f.body, "256 programs are there"));
	order(&b, INSIDE_KILL, 100, 0);
	assert_int_equal(exited(&b, 100), SIGKILL);
	assert_int_equal(run(&b, 258, &SH("echo yes"), out, sizeof(out)), 0);
	for (uint32_t i = 1; i <= 256; i++)
		if (i != 100)
			order(&b, INSIDE_KILL, i, 0);
	for (uint32_t i = 1; i < 256; i++)
		(void)exited(&b, 0);
	only_pid_1_is_left(&b);
	only_its_own_descriptors_are_left(&b);
	(void)box_end(&b);
}

static void
execs_leave_nothing_in_pid_1(void **state UNUSED)
{
	const char *n = getenv("INIT_EXECS");
	uint32_t rounds = n != NULL ? (uint32_t)strtoul(n, NULL, 10) : 1000;
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_MERGE, .argv = {"/bin/true"}};
	long before = 0;

	for (uint32_t i = 1; i <= rounds; i++) {
		(void)start(&b, i, &s);
		assert_int_equal(exited(&b, i), 0);
		if (i == 10)
			before = box_kib(&b, true);
	}
	only_pid_1_is_left(&b);
	only_its_own_descriptors_are_left(&b);
	assert_true(box_kib(&b, true) <= before);
	assert_true(before < 200);
	(void)box_end(&b);
}

static void
everything_ends_with_the_wire(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct frame f;
	char c;

	spawn_send(&b, 1, &SH("setsid sleep 1000 & trap '' TERM HUP; sleep 1000"));
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_int_equal(box_end(&b), 0);
	/* Nobody has the other end of its output any more. */
	assert_int_equal(read(f.fds[0], &c, 1), 0);
	frame_close(&f);
	/* In the midst of an order, too. */
	b = box_ready(&(struct box_want){0});
	assert_int_equal(write(b.wire, "\x40\0\0", 3), 3);
	assert_int_equal(box_end(&b), 0);
}

static void
a_supervisor_that_takes_nothing_is_the_end(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct inside_head h = {.type = 99, .proc = 1};
	struct pollfd p = {.fd = b.wire, .events = POLLOUT};
	int status = 0;

	(void)fcntl(b.wire, F_SETFL, O_NONBLOCK);
	while (poll(&p, 1, 1000) > 0)
		assert_int_equal(send(b.wire, &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	for (int i = 0; i < 200 && waitpid(b.pid, &status, WNOHANG) == 0; i++)
		(void)usleep(100000);
	assert_int_equal(status, 1 << 8);
	(void)close(b.wire);
}

/* --- orders that are none ----------------------------------------------------------------- */

static void
refused_is(struct box *b, struct inside_head h, const void *body, const int *fds, size_t nfds,
    const char *text)
{
	struct frame f;

	frame_send(b, h, body, h.size, fds, nfds);
	frame_want(b, &f, INSIDE_FAILED, h.proc);
	assert_int_equal(f.h.a, EINVAL);
	if (strstr(f.body, text) == NULL)
		fail_msg("\"%s\", wanted \"%s\"", f.body, text);
}

static void
malformed_orders_are_refused_by_what_is_wrong(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	AUTO_BUF struct buf whole = BUF(4096);
	struct spawn s = {.argv = {"/bin/sh", "-c", "echo"},
	    .env = {"A=b"},
	    .code_path = "/tmp/.code/c",
	    .code = "code"};
	static const char *const paths[] = {"", "c", "/tmp/.code/", "/tmp/.code/.", "/tmp/.code/..",
	    "/tmp/.code/a/b", "/etc/passwd", "/tmp/.code", "/tmp/.codex/c"};
	struct inside_spawn h;
	char big[600];
	int fds[5] = {b.wire, b.wire, b.wire, b.wire, b.wire};
	uint32_t proc = 0;
#define HEAD(n) ((struct inside_head){.type = INSIDE_SPAWN, .size = (uint32_t)(n), .proc = ++proc})

	spawn_body(&s, &whole);
	for (size_t n = 0; n < whole.n; n++)
		refused_is(&b, HEAD(n), whole.p, NULL, 0, "order refused: ");
	buf_put(&whole, "x", 1);
	refused_is(&b, HEAD(whole.n), whole.p, NULL, 0, "its size is not that of its parts");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		AUTO_BUF struct buf body = BUF(4096);

		s.code_path = paths[i];
		spawn_body(&s, &body);
		refused_is(&b, HEAD(body.n), body.p, NULL, 0, "its code must be /tmp/.code/NAME");
	}
	memset(big, 0, sizeof(big));
#define WRONG(text, ...)                                               \
	do {                                                           \
		h = (struct inside_spawn){__VA_ARGS__};                \
		memcpy(big, &h, sizeof(h));                            \
		refused_is(&b, HEAD(sizeof(big)), big, NULL, 0, text); \
	} while (0)
	WRONG("no argument", .argc = 0);
	WRONG("more than 4096 arguments", .argc = 4097);
	WRONG("more than 4096 arguments", .argc = UINT32_MAX);
	WRONG("more than 4096 variables", .argc = 1, .envc = 4097);
	WRONG("longer than itself", .argc = 1, .code_size = 601);
	WRONG("longer than itself", .argc = 1, .code_size = UINT32_MAX);
	WRONG("unknown flag", .argc = 1, .flags = INSIDE_GIVEN << 1);
	WRONG("not an absolute path", .argc = 1);
	big[sizeof(h)] = '/';
	WRONG("an argument does not end", .argc = 4096);
	WRONG("a variable does not end", .argc = 1, .envc = 4096);
	refused_is(&b, (struct inside_head){.type = INSIDE_SPAWN, .proc = 0, .size = 600}, big,
	    NULL, 0, "its number is 0");
	/* Right but for its descriptors: "/", and an empty name. */
	h = (struct inside_spawn){.argc = 1};
	memcpy(big, &h, sizeof(h));
	for (size_t n = 1; n <= 5; n++) {
		struct inside_head head = HEAD(sizeof(h) + 3);

		head.nfds = (uint16_t)(n - (n < 5 ? 1 : 0));
		refused_is(&b, head, big, fds, n, "descriptors that it names, or more than 4");
	}
	refused_is(&b, (struct inside_head){.type = 0, .proc = 5}, "", NULL, 0, "of this type");
	refused_is(&b, (struct inside_head){.type = 65535, .proc = 5, .size = 600}, big, NULL, 0,
	    "a body");
	refused_is(&b, (struct inside_head){.type = INSIDE_KILL, .proc = 5, .nfds = 1}, big, fds, 1,
	    "a body or descriptors");
	(void)start(&b, ++proc, &SH("exec sleep 1000"));
	refused_is(&b, (struct inside_head){.type = INSIDE_SPAWN, .proc = proc, .size = 600}, big,
	    NULL, 0, "another program's");
	for (uint32_t sig = 0; sig < 200; sig += 65)
		refused_is(&b, (struct inside_head){.type = INSIDE_SIGNAL, .proc = proc, .a = sig},
		    "", NULL, 0, "from 1 to 64");
	order(&b, INSIDE_KILL, proc, 0);
	assert_int_equal(exited(&b, proc), SIGKILL);
	only_its_own_descriptors_are_left(&b);
	assert_int_equal(run(&b, ++proc, &SH("echo on"), out, sizeof(out)), 0);
	(void)box_end(&b);
}

static void
an_order_over_the_limit_is_the_end(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	AUTO_FREE char *zeros = xcalloc(1, INSIDE_ORDER_MAX);
	struct frame f;

	refused_is(&b,
	    (struct inside_head){.type = INSIDE_SPAWN, .size = INSIDE_ORDER_MAX, .proc = 1}, zeros,
	    NULL, 0, "no argument");
	frame_send(&b,
	    (struct inside_head){.type = INSIDE_SPAWN, .size = INSIDE_ORDER_MAX + 1, .proc = 2}, "",
	    0, NULL, 0);
	frame_want(&b, &f, INSIDE_FATAL, 0);
	assert_int_equal(box_end(&b), 1 << 8);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_outlives_a_program),
	    cmocka_unit_test(a_kill_ends_the_whole_tree),
	    cmocka_unit_test(so_it_is_without_lists_of_children),
	    cmocka_unit_test(one_tree_ends_and_the_others_live),
	    cmocka_unit_test(who_kills_its_minder_ends_itself),
	    cmocka_unit_test(a_kill_of_everything_inside_leaves_pid_1),
	    cmocka_unit_test(a_stop_of_everything_inside_is_no_end),
	    cmocka_unit_test(signals_to_pid_1_do_nothing),
	    cmocka_unit_test(pid_1_and_minders_reveal_nothing),
	    cmocka_unit_test(what_may_stay_stays),
	    cmocka_unit_test(a_signal_goes_to_the_group),
	    cmocka_unit_test(a_kill_at_any_time_gets_its_answers),
	    cmocka_unit_test(what_is_held_stands_still_but_for_helpers),
	    cmocka_unit_test(two_hundred_and_fifty_six_live_at_once),
	    cmocka_unit_test(execs_leave_nothing_in_pid_1),
	    cmocka_unit_test(everything_ends_with_the_wire),
	    cmocka_unit_test(a_supervisor_that_takes_nothing_is_the_end),
	    cmocka_unit_test(malformed_orders_are_refused_by_what_is_wrong),
	    cmocka_unit_test(an_order_over_the_limit_is_the_end),
	};

	if (argc > 2 && strcmp(argv[1], "role") == 0)
		_exit(role(argc, argv)); /* without what a sanitizer does at exit */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
