/* Pid 1 of a sandbox, the real program, driven by a supervisor of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/init_help.h"

#include "common/banned.h"

static char out[1 << 16];

/* --- the start ---------------------------------------------------------------------------- */

static void
it_says_what_holds(void **state UNUSED)
{
	struct box b = box_start(&(struct box_want){0});
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	assert_int_equal(f.h.proc, 0);
	assert_non_null(strstr(f.body, "\"seccomp\":\"filter\",\"seccomp_filters\":"));
	assert_non_null(
	    strstr(f.body, ",\"no_new_privs\":true,\"capabilities\":\"none\",\"landlock_abi\":"));
	assert_int_equal(box_end(&b), 0);
}

static void
fatal_is(enum box_without without, const char *word, const char *text)
{
	struct box b = box_start(&(struct box_want){.without = without, .word = word});
	struct frame f;

	frame_want(&b, &f, INSIDE_FATAL, 0);
	if (strstr(f.body, text) == NULL)
		fail_msg("\"%s\", wanted \"%s\"", f.body, text);
	assert_false(frame_read(&b, &f, 5000));
	assert_int_equal(box_end(&b), 1 << 8);
}

static void
a_missing_layer_ends_the_start_by_name(void **state UNUSED)
{
	fatal_is(BOX_NO_FILTER, NULL, "Seccomp is \"0\", must be 2");
	fatal_is(BOX_CAP_BOUND, NULL, "CapBnd is \"0000000000000020\", must be 0000000000000000");
	fatal_is(BOX_NO_NNP, NULL, "NoNewPrivs is \"0\", must be 1");
	fatal_is(BOX_UID, NULL, "Uid is \"1001\t1001\t1001\t1001\", must be 1000");
	fatal_is(BOX_PID, NULL, "must be 1");
}

static void
only_landlock_may_lack_and_only_by_a_known_word(void **state UNUSED)
{
	static const char *const good[] = {"", "landlock", "oci", "oci,landlock"};
	static const char *const bad[] = {"seccomp", "landlock2", "land", "oci landlock", ",oci"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct box b = box_ready(&(struct box_want){.word = good[i]});

		assert_int_equal(box_end(&b), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fatal_is(BOX_WHOLE, bad[i], "neither landlock nor oci");
	/* A word lets nothing else lack. */
	fatal_is(BOX_NO_FILTER, "oci,landlock", "Seccomp is \"0\", must be 2");
}

/* --- one program -------------------------------------------------------------------------- */

static void
a_program_runs_and_its_end_is_told(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	assert_int_equal(run(&b, 7, &SH("echo hello; exit 3"), out, sizeof(out)), 3 << 8);
	assert_string_equal(out, "hello\n");
	assert_int_equal(run(&b, 8, &SH("kill -9 $$"), out, sizeof(out)), SIGKILL);
	assert_int_equal(run(&b, 9, &SH("kill -SEGV $$"), out, sizeof(out)) & 0x7f, SIGSEGV);
	assert_int_equal(box_end(&b), 0);
}

/* All on one processor while it lives. */
static void
one_processor(cpu_set_t *was)
{
	cpu_set_t one;
	size_t cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(*was), was), 0);
	while (!CPU_ISSET(cpu, was))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Of 100; told apart, they are still read as one now and then. */
static int
told_as_one(struct box *b)
{
	static const struct spawn s = {.argv = {"/bin/true"}};
	const ssize_t both = 2 * sizeof(struct inside_head) + sizeof(struct inside_exited);
	int n = 0;

	for (uint32_t i = 1; i <= 100; i++) {
		struct pollfd p = {.fd = b->wire, .events = POLLIN};
		struct frame f;

		spawn_send(b, i, &s);
		assert_int_equal(poll(&p, 1, 10000), 1);
		n += recv(b->wire, out, sizeof(out), MSG_PEEK) == both ? 1 : 0;
		frame_want(b, &f, INSIDE_SPAWNED, i);
		assert_int_equal(f.nfds, 2);
		frame_close(&f);
		frame_want(b, &f, INSIDE_EXITED, i);
		assert_int_equal(f.nfds, 0);
	}
	return n;
}

/* Its minder comes to its turn when the program has done with the processor, if nobody else is
 * there: on a busy machine sometimes before. */
static void
a_short_program_s_start_and_end_come_as_one(void **state UNUSED)
{
	cpu_set_t was;
	struct box b;
	int most = 0;

	one_processor(&was);
	b = box_ready(&(struct box_want){0});
	for (int i = 0; i < 8 && most < 30; i++) {
		int n = told_as_one(&b);

		most = n > most ? n : most;
	}
	(void)box_end(&b);
	(void)sched_setaffinity(0, sizeof(was), &was);
	if (most < 30)
		fail_msg("at most %d of 100", most);
}

static void
a_busy_program_s_start_is_told_while_it_is_busy(void **state UNUSED)
{
	struct spawn s = SH("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo over");
	cpu_set_t was;
	struct box b;
	struct frame f;

	one_processor(&was);
	b = box_ready(&(struct box_want){0});
	for (uint32_t i = 1; i <= 3; i++) {
		struct pollfd p = {.events = POLLIN};

		spawn_send(&b, i, &s);
		frame_want(&b, &f, INSIDE_SPAWNED, i);
		p.fd = f.fds[0];
		assert_int_equal(poll(&p, 1, 0), 0);
		assert_string_equal(text_of(&f.fds[0], out, sizeof(out)), "over\n");
		frame_close(&f);
		frame_want(&b, &f, INSIDE_EXITED, i);
	}
	(void)box_end(&b);
	(void)sched_setaffinity(0, sizeof(was), &was);
}

static void
its_time_and_memory_are_told(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = SH("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.01");
	struct frame f;
	struct inside_exited e;

	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	frame_close(&f);
	frame_want(&b, &f, INSIDE_EXITED, 1);
	memcpy(&e, f.body, sizeof(e));
	assert_true(e.user_us > 10000);
	assert_true(e.peak_kib > 300 && e.peak_kib < 100000);
	(void)box_end(&b);
}

static void
streams_are_apart_or_one_and_stdin_only_if_wanted(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	const char *line = "echo out; echo err >&2; cat";
	struct spawn s = {.argv = {"/bin/sh", "-c", line}};
	char err[64];
	struct frame f;

	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_true(f.h.a > 1);
	assert_int_equal(f.nfds, 2);
	assert_string_equal(text_of(&f.fds[0], out, sizeof(out)), "out\n");
	assert_string_equal(text_of(&f.fds[1], err, sizeof(err)), "err\n");
	frame_want(&b, &f, INSIDE_EXITED, 1);

	s.flags = INSIDE_STDIN;
	spawn_send(&b, 2, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 2);
	assert_int_equal(f.nfds, 3);
	assert_int_equal(write(f.fds[2], "in\n", 3), 3);
	(void)close(f.fds[2]);
	assert_string_equal(text_of(&f.fds[0], out, sizeof(out)), "out\nin\n");
	assert_string_equal(text_of(&f.fds[1], err, sizeof(err)), "err\n");
	frame_want(&b, &f, INSIDE_EXITED, 2);

	s.flags = INSIDE_MERGE;
	assert_int_equal(run(&b, 3, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "out\nerr\n");
	(void)box_end(&b);
}

static void
streams_may_come_with_the_order(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.argv = {"/bin/bash", "-c", "echo out; echo err >&2; cat; cat <&10"},
	    .flags = INSIDE_GIVEN | INSIDE_STDIN,
	    .nfds = 4};
	int o[2], e[2], i[2], x[2];
	char err[64];
	struct frame f;

	assert_true(pipe(o) == 0 && pipe(e) == 0 && pipe(i) == 0 && pipe(x) == 0);
	s.fds[0] = o[1];
	s.fds[1] = e[1];
	s.fds[2] = i[0];
	s.fds[3] = x[0];
	spawn_send(&b, 1, &s);
	(void)close(o[1]);
	(void)close(e[1]);
	(void)close(i[0]);
	(void)close(x[0]);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_int_equal(f.nfds, 0);
	assert_int_equal(write(i[1], "in\n", 3), 3);
	assert_int_equal(write(x[1], "ten\n", 4), 4);
	(void)close(i[1]);
	(void)close(x[1]);
	assert_string_equal(text_of(&o[0], out, sizeof(out)), "out\nin\nten\n");
	assert_string_equal(text_of(&e[0], err, sizeof(err)), "err\n");
	frame_want(&b, &f, INSIDE_EXITED, 1);

	/* Fewer than it names, more than may come, and a terminal are refused. */
	for (unsigned k = 0; k < 3; k++) {
		struct spawn bad = {.argv = {"/bin/true"},
		    .flags = INSIDE_GIVEN | (k == 2 ? (unsigned)INSIDE_TTY : 0),
		    .nfds = k == 0   ? 1
			    : k == 1 ? 7
				     : 2};

		for (size_t n = 0; n < bad.nfds; n++)
			bad.fds[n] = 0;
		spawn_send(&b, 2 + k, &bad);
		frame_want(&b, &f, INSIDE_FAILED, 2 + k);
		assert_int_equal(f.h.a, EINVAL);
	}
	(void)box_end(&b);
}

/* I7 of the negative checks: what was wrong with whoever started pid 1 is not passed on. */
static void
a_program_begins_clean(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){.careless = true, .env = "CANARY=secret"});
	struct spawn s = {.flags = INSIDE_MERGE,
	    .argv = {"/bin/bash", "-c",
		"grep -E 'Sig(Blk|Ign)' /proc/self/status | sort; umask; "
		"for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done; "
		"[ $(ps -o pgid= -p $$) = $$ ] && [ $(ps -o sid= -p $$) = $$ ] && echo leader; "
		"readlink /proc/self/fd/0; pwd; env | sort"},
	    .env = {"PATH=/usr/bin:/bin", "A=1"},
	    .cwd = "/tmp"};

	assert_int_equal(run(&b, 1, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
				 "0022\n0\n1\n2\nleader\n/dev/null\n/tmp\n"
				 "A=1\nPATH=/usr/bin:/bin\nPWD=/tmp\nSHLVL=1\n_=/usr/bin/env\n");
	(void)box_end(&b);
}

/* Field 41 of proc_pid_stat(5). */
static void
a_program_has_the_policy_of_who_started_pid_1(void **state UNUSED)
{
	static const int policies[] = {SCHED_OTHER, SCHED_BATCH};
	const struct spawn s = SH("set -- $(cat /proc/self/stat); shift 40; echo $1");
	const struct sched_param none = {0};

	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		struct box b;

		assert_int_equal(sched_setscheduler(0, policies[i], &none), 0);
		b = box_ready(&(struct box_want){0});
		for (uint32_t k = 1; k <= 3; k++) {
			assert_int_equal(run(&b, k, &s, out, sizeof(out)), 0);
			assert_int_equal(out[0] - '0', policies[i]);
		}
		(void)box_end(&b);
		(void)sched_setscheduler(0, SCHED_OTHER, &none);
	}
}

static void
stdout_can_be_opened_again(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	assert_int_equal(
	    run(&b, 1, &SH("echo again > /dev/stdout; echo too > /dev/stderr"), out, sizeof(out)),
	    0);
	assert_string_equal(out, "again\ntoo\n");
	(void)box_end(&b);
}

static void
extra_descriptors_stand_at_ten(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_MERGE,
	    .argv = {"/bin/bash", "-c",
		"cat <&10; cat <&11; cat <&12; cat <&13; "
		"for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done; :"},
	    .nfds = 4};

	for (int i = 0; i < 4; i++) {
		int p[2];

		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		assert_int_equal(write(p[1], &"abcd"[i], 1), 1);
		(void)close(p[1]);
		s.fds[i] = p[0];
	}
	assert_int_equal(run(&b, 1, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "abcd0\n1\n10\n11\n12\n13\n2\n");
	for (int i = 0; i < 4; i++)
		(void)close(s.fds[i]);
	(void)box_end(&b);
}

static void
the_helper_runs_by_descriptor(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_HELPER | INSIDE_MERGE, .argv = {"part", "x"}};
	struct frame f;

	/* /bin/true stands for it */
	assert_int_equal(run(&b, 1, &s, out, sizeof(out)), 0);
	(void)box_end(&b);

	b = box_ready(&(struct box_want){.no_helper = true});
	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_FAILED, 1);
	assert_int_equal(f.h.a, ENOENT);
	assert_string_equal(f.body, "order refused: this sandbox has no cofferdam-inside");
	(void)box_end(&b);
}

static void
code_is_a_file_of_its_own_and_gone_after(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_MERGE | INSIDE_STDIN,
	    .argv = {"/bin/sh"},
	    .code_path = "/tmp/.code/1.sh",
	    .code = "echo $0; stat -c %a $0 /tmp/.code\n"};
	const char *want = "/tmp/.code/1.sh\n600\n700\n";

	s.flags = INSIDE_MERGE;
	assert_int_equal(run(&b, 1, &s, out, sizeof(out)), 0);
	assert_string_equal(out, want);
	assert_int_equal(run(&b, 2, &SH("ls -A /tmp/.code"), out, sizeof(out)), 0);
	assert_string_equal(out, "");
	/* What code inside has put there before is not written through. */
	assert_int_equal(
	    run(&b, 3, &SH("echo x >/tmp/x; ln -s /tmp/x /tmp/.code/1.sh"), out, sizeof(out)), 0);
	assert_int_equal(run(&b, 4, &s, out, sizeof(out)), 0);
	assert_string_equal(out, want);
	assert_int_equal(run(&b, 5, &SH("cat /tmp/x"), out, sizeof(out)), 0);
	assert_string_equal(out, "x\n");
	(void)box_end(&b);
}

static void
a_long_order_arrives_whole(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	AUTO_FREE char *code = xmalloc((1 << 20) + 1), *arg = xmalloc(100001);
	struct spawn s = {.flags = INSIDE_MERGE,
	    .argv = {"/bin/sh", "-c", "echo ${#1}; wc -c <$2", "sh", arg},
	    .code_path = "/tmp/.code/long",
	    .code = code};
	long size = box_kib(&b, false);

	memset(code, 'c', 1 << 20);
	code[1 << 20] = '\0';
	memset(arg, 'a', 100000);
	arg[100000] = '\0';
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(run(&b, i, &s, out, sizeof(out)), 0);
		assert_string_equal(out, "100000\n1048576\n");
		/* It tells the end first, so that nobody waits for the rest. */
		for (int k = 0; k < 200 && box_kib(&b, false) != size; k++)
			(void)usleep(10000);
		assert_int_equal(box_kib(&b, false), size);
	}
	(void)box_end(&b);
}

static void
programs_are_searched_in_their_own_path(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {
	    .flags = INSIDE_MERGE, .argv = {"tool", "x"}, .env = {"PATH=/tmp/a::/tmp/b"}};

	assert_int_equal(
	    run(&b, 1,
		&SH("mkdir /tmp/a /tmp/b /tmp/c; echo 'echo plain $0 $1' > /tmp/b/tool; "
		    "touch /tmp/a/tool; chmod 755 /tmp/b/tool"),
		out, sizeof(out)),
	    0);
	/* Past one that may not be executed; a script without a first line is the shell's. */
	assert_int_equal(run(&b, 2, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "plain /tmp/b/tool x\n");
	/* An empty element is the directory it runs in. */
	s = (struct spawn){
	    .flags = INSIDE_MERGE, .argv = {"tool"}, .env = {"PATH=/tmp/c:"}, .cwd = "/tmp/b"};
	assert_int_equal(run(&b, 3, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "plain tool\n");
	/* Without PATH, the system's. */
	s = (struct spawn){.flags = INSIDE_MERGE, .argv = {"sh", "-c", "echo y"}};
	assert_int_equal(run(&b, 4, &s, out, sizeof(out)), 0);
	assert_string_equal(out, "y\n");
	(void)box_end(&b);
}

static void
failed_is(struct box *b, uint32_t proc, const struct spawn *s, unsigned error, const char *text)
{
	struct frame f;

	spawn_send(b, proc, s);
	frame_want(b, &f, INSIDE_FAILED, proc);
	if (f.h.a != error || strcmp(f.body, text) != 0)
		fail_msg("%u \"%s\", wanted %u \"%s\"", f.h.a, f.body, error, text);
}

static void
what_cannot_start_says_where(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	failed_is(&b, 1, &(struct spawn){.argv = {"nosuch"}, .env = {"PATH=/bin"}, .cwd = "/tmp"},
	    ENOENT, "execution of nosuch (in /tmp)");
	failed_is(&b, 2, &(struct spawn){.argv = {"/bin/nosuch"}}, ENOENT,
	    "execution of /bin/nosuch (in /)");
	failed_is(&b, 3, &(struct spawn){.argv = {""}}, ENOENT, "execution of  (in /)");
	failed_is(&b, 4, &(struct spawn){.argv = {"/etc/passwd"}}, EACCES,
	    "execution of /etc/passwd (in /)");
	failed_is(&b, 5, &(struct spawn){.argv = {"/bin/true"}, .cwd = "/nowhere"}, ENOENT,
	    "the directory of /bin/true (in /nowhere)");
	failed_is(&b, 6, &(struct spawn){.argv = {"/bin/true"}, .cwd = "/bin/true"}, ENOTDIR,
	    "the directory of /bin/true (in /bin/true)");
	/* It goes on, and has kept nothing. */
	assert_int_equal(
	    run(&b, 7, &SH("echo on; ls /tmp/.code 2>/dev/null"), out, sizeof(out)) & 0x7f, 0);
	assert_string_equal(out, "on\n");
	assert_int_equal(
	    run(&b, 8, &SH("rm -rf /tmp/.code; echo x >/tmp/.code"), out, sizeof(out)), 0);
	failed_is(&b, 9,
	    &(struct spawn){.argv = {"/bin/sh"}, .code_path = "/tmp/.code/1", .code = "x"}, ENOTDIR,
	    "the file /tmp/.code/1 of the code for /bin/sh (in /)");
	(void)box_end(&b);
}

/* --- a terminal --------------------------------------------------------------------------- */

static void
a_terminal_is_the_programs_own(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});
	struct spawn s = {.flags = INSIDE_TTY | INSIDE_STDIN,
	    .argv = {"/bin/sh", "-c",
		"stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo tty >/dev/tty; read x; "
		"echo got $x"},
	    .rows = 33,
	    .cols = 77,
	    .env = {"PATH=/bin:/usr/bin"}};
	struct frame f;

	spawn_send(&b, 1, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 1);
	assert_int_equal(f.nfds, 1);
	assert_int_equal(isatty(f.fds[0]), 1);
	assert_int_equal(write(f.fds[0], "word\n", 5), 5);
	(void)text_of(&f.fds[0], out, sizeof(out));
	assert_non_null(strstr(out, "33 77\r\n"));
	assert_non_null(strstr(out, "all\r\n"));
	assert_non_null(strstr(out, "tty\r\n"));
	assert_non_null(strstr(out, "got word\r\n"));
	frame_want(&b, &f, INSIDE_EXITED, 1);

	/* ^C goes to it. */
	s.argv[2] = "sleep 100";
	spawn_send(&b, 2, &s);
	frame_want(&b, &f, INSIDE_SPAWNED, 2);
	(void)usleep(100000);
	assert_int_equal(write(f.fds[0], "\3", 1), 1);
	(void)text_of(&f.fds[0], out, sizeof(out));
	frame_want(&b, &f, INSIDE_EXITED, 2);
	(void)box_end(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_says_what_holds),
	    cmocka_unit_test(a_missing_layer_ends_the_start_by_name),
	    cmocka_unit_test(only_landlock_may_lack_and_only_by_a_known_word),
	    cmocka_unit_test(a_program_runs_and_its_end_is_told),
	    cmocka_unit_test(a_short_program_s_start_and_end_come_as_one),
	    cmocka_unit_test(a_busy_program_s_start_is_told_while_it_is_busy),
	    cmocka_unit_test(its_time_and_memory_are_told),
	    cmocka_unit_test(streams_are_apart_or_one_and_stdin_only_if_wanted),
	    cmocka_unit_test(streams_may_come_with_the_order),
	    cmocka_unit_test(a_program_begins_clean),
	    cmocka_unit_test(a_program_has_the_policy_of_who_started_pid_1),
	    cmocka_unit_test(stdout_can_be_opened_again),
	    cmocka_unit_test(extra_descriptors_stand_at_ten),
	    cmocka_unit_test(the_helper_runs_by_descriptor),
	    cmocka_unit_test(code_is_a_file_of_its_own_and_gone_after),
	    cmocka_unit_test(a_long_order_arrives_whole),
	    cmocka_unit_test(programs_are_searched_in_their_own_path),
	    cmocka_unit_test(what_cannot_start_says_where),
	    cmocka_unit_test(a_terminal_is_the_programs_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
