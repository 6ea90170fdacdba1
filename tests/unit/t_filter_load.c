/*
 * The system call filter in force, with errors and with a supervisor: each call that the table
 * refuses is made, and beside each refusal by argument the nearest thing that passes. What passes
 * is made with arguments that the kernel itself refuses, so that it is seen to have come that far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/filter_box.h"

#include "common/banned.h"

#define BAD (-1L)
#define HIGH (1L << 32)

static const struct attempt {
	const char *call;
	long a[4];
	int want; /* errno */
} attempts[] = {
    /* terminals */
    {"ioctl", {BAD, TIOCSTI}, EPERM},
    {"ioctl", {BAD, HIGH | TIOCSTI}, EPERM},
    {"ioctl", {BAD, TIOCLINUX}, EPERM},
    {"ioctl", {BAD, TIOCCONS}, EPERM},
    {"ioctl", {BAD, TIOCSETD}, EPERM},
    {"ioctl", {BAD, TCGETS}, EBADF},
    {"ioctl", {BAD, TIOCSWINSZ}, EBADF},
    {"ioctl", {BAD, TIOCSCTTY, 1}, EBADF},
    {"ioctl", {BAD, 0x4b3a /* KDSETMODE */}, ENOTTY},
    /* files of the host */
    {"ioctl", {BAD, FS_IOC_SETFLAGS}, EPERM},
    {"ioctl", {BAD, FS_IOC_FSSETXATTR}, EPERM},
    {"ioctl", {BAD, 0x40806685 /* ENABLE_VERITY */}, EPERM},
    {"ioctl", {BAD, FS_IOC_GETFLAGS}, EBADF},
    {"ioctl", {BAD, FICLONE}, EBADF},
    {"ioctl", {BAD, 0x50009417 /* BTRFS_IOC_SNAP_CREATE_V2 */}, ENOTTY},
    {"fcntl", {BAD, F_SETLEASE}, EPERM},
    {"fcntl", {BAD, HIGH | F_SETLEASE}, EPERM},
    {"fcntl", {BAD, F_GETLEASE}, EBADF},
    {"fcntl", {BAD, 0x800}, EINVAL},
    /* name spaces, drivers, sockets */
    {"ioctl", {BAD, 0xb701 /* NS_GET_USERNS */}, EPERM},
    {"ioctl", {BAD, 0x894c /* SIOCGSKNS */}, EPERM},
    {"ioctl", {BAD, 0x8912 /* SIOCGIFCONF */}, EBADF},
    {"ioctl", {BAD, 0xc018aa3fL /* UFFDIO_API */}, ENOTTY},
    /* clone fails by itself: threads without memory in common, file systems with new users */
    {"clone", {CLONE_NEWUSER | CLONE_FS}, EPERM},
    {"clone", {HIGH | CLONE_NEWNS | CLONE_FS}, EPERM},
    {"clone", {CLONE_NEWNET | CLONE_SIGHAND}, EPERM},
    {"clone", {CLONE_NEWCGROUP | CLONE_SIGHAND}, EPERM},
    {"clone", {CLONE_NEWPID | CLONE_SIGHAND}, EPERM},
    {"clone", {CLONE_NEWIPC | CLONE_SIGHAND}, EPERM},
    {"clone", {CLONE_NEWUTS | CLONE_SIGHAND}, EPERM},
    {"clone", {CLONE_SIGHAND}, EINVAL},
    {"clone3", {0, 0}, ENOSYS},
    /* processes */
    {"personality", {0x0400000 /* READ_IMPLIES_EXEC */}, EPERM},
    {"personality", {HIGH | 0x0040000 /* ADDR_NO_RANDOMIZE */}, EPERM},
    {"personality", {0xffffffffL}, 0},
    {"personality", {0}, 0},
    {"seccomp", {1, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0}, EPERM},
    {"seccomp", {1, 0, 0}, EFAULT},
    {"sched_setscheduler", {0, SCHED_FIFO, 0}, EPERM},
    {"sched_setscheduler", {0, 0x40000000 | SCHED_RR, 0}, EPERM},
    {"sched_setscheduler", {0, SCHED_BATCH, 0}, EINVAL},
    {"prctl", {PR_SET_MM, BAD}, EPERM},
    {"prctl", {HIGH | PR_SET_MM, BAD}, EPERM},
    {"prctl", {PR_SET_PTRACER, 1}, EPERM},
    {"prctl", {59 /* SYSCALL_USER_DISPATCH */}, EPERM},
    {"prctl", {62 /* SCHED_CORE */}, EPERM},
    {"prctl", {67 /* SET_MEMORY_MERGE */}, EPERM},
    {"prctl", {PR_GET_TIMING}, EINVAL},
    {"prctl", {PR_SET_DUMPABLE, 1}, 0},
    {"prctl", {PR_SET_CHILD_SUBREAPER, 0}, 0},
    {"prctl", {PR_SET_NAME, BAD}, EFAULT},
    {"arch_prctl", {0x1024 /* GET_XCOMP_GUEST_PERM */, BAD}, EINVAL},
    {"arch_prctl", {0x1003 /* GET_FS */, BAD}, EFAULT},
    {"madvise", {0, 0, MADV_MERGEABLE}, EINVAL},
    {"madvise", {0, 0, MADV_DONTNEED}, 0},
    /* sockets */
    {"socket", {AF_NETLINK, SOCK_RAW, 0}, EAFNOSUPPORT},
    {"socket", {AF_PACKET, SOCK_RAW, 0}, EAFNOSUPPORT},
    {"socket", {38 /* ALG */, SOCK_SEQPACKET, 0}, EAFNOSUPPORT},
    {"socket", {40 /* VSOCK */, SOCK_STREAM, 0}, EAFNOSUPPORT},
    {"socket", {43 /* SMC */, SOCK_STREAM, 0}, EAFNOSUPPORT},
    {"socket", {44 /* XDP */, SOCK_RAW, 0}, EAFNOSUPPORT},
    {"socket", {31 /* BLUETOOTH */, SOCK_RAW, 0}, EAFNOSUPPORT},
    {"socket", {HIGH | AF_INET, SOCK_STREAM, 0}, EAFNOSUPPORT},
    {"socket", {AF_INET, SOCK_RAW, IPPROTO_TCP}, EPERM},
    {"socket", {AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP}, EPERM},
    {"socket", {AF_INET, SOCK_PACKET, 0}, EPERM},
    {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}, EPROTONOSUPPORT},
    {"socket", {AF_INET, SOCK_STREAM, IPPROTO_MPTCP}, EPROTONOSUPPORT},
    {"socket", {AF_INET, SOCK_STREAM, 256 /* SMC */}, EPROTONOSUPPORT},
    {"socket", {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP}, EPROTONOSUPPORT},
    {"socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP}, 0},
    {"socket", {AF_UNIX, SOCK_SEQPACKET, 0}, 0},
    {"socketpair", {AF_INET, SOCK_STREAM, 0, BAD}, EAFNOSUPPORT},
    {"socketpair", {AF_UNIX, SOCK_STREAM, 0, BAD}, EFAULT},
    {"setsockopt", {BAD, SOL_SOCKET, SO_ATTACH_FILTER}, EPERM},
    {"setsockopt", {BAD, HIGH | SOL_SOCKET, HIGH | SO_ATTACH_BPF}, EPERM},
    {"setsockopt", {BAD, SOL_SOCKET, SO_REUSEADDR}, EBADF},
    {"setsockopt", {BAD, SOL_SOCKET, 0x100}, ENOPROTOOPT},
    {"setsockopt", {BAD, IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */}, EPERM},
    {"setsockopt", {BAD, IPPROTO_IP, 1 /* IP_TOS */}, EBADF},
    {"setsockopt", {BAD, IPPROTO_UDP, 100 /* UDP_ENCAP */}, EPERM},
    {"setsockopt", {BAD, IPPROTO_UDP, 103 /* UDP_SEGMENT */}, EBADF},
    {"setsockopt", {BAD, IPPROTO_TCP, 31 /* TCP_ULP */}, ENOENT},
    {"setsockopt", {BAD, IPPROTO_TCP, 1 /* TCP_NODELAY */}, EBADF},
    {"setsockopt", {BAD, 282 /* SOL_TLS */, 1}, ENOPROTOOPT},
    /* modes */
    {"fchmod", {BAD, 04755}, EPERM},
    {"fchmod", {BAD, 02755}, EPERM},
    {"fchmod", {BAD, 01755}, EBADF},
    {"chmod", {BAD, 04755}, EPERM},
    {"chmod", {BAD, 0755}, EFAULT},
    {"fchmodat", {BAD, BAD, 02755}, EPERM},
    {"fchmodat", {BAD, BAD, 0755}, EFAULT},
    {"fchmodat2", {BAD, BAD, 04755, 0}, EPERM},
    {"creat", {BAD, 04755}, EPERM},
    {"creat", {BAD, 0755}, EFAULT},
    {"mkdir", {BAD, 04755}, EPERM},
    {"mkdir", {BAD, 0755}, EFAULT},
    {"mkdirat", {BAD, BAD, 04755}, EPERM},
    {"mkdirat", {BAD, BAD, 0755}, EFAULT},
    {"mknod", {BAD, S_IFCHR | 0600}, EPERM},
    {"mknod", {BAD, S_IFBLK | 0600}, EPERM},
    {"mknod", {BAD, S_IFREG | 04600}, EPERM},
    {"mknod", {BAD, S_IFIFO | 0600}, EFAULT},
    {"mknodat", {BAD, BAD, S_IFCHR | 0600}, EPERM},
    {"mknodat", {BAD, BAD, S_IFBLK | 0600}, EPERM},
    {"mknodat", {BAD, BAD, S_IFREG | 02600}, EPERM},
    {"mknodat", {BAD, BAD, S_IFREG | 0600}, EFAULT},
    {"open", {BAD, O_WRONLY | O_CREAT, 04600}, EPERM},
    {"open", {BAD, O_WRONLY, 04600}, EFAULT},
    {"openat", {BAD, BAD, O_WRONLY | O_CREAT, 04600}, EPERM},
    {"openat", {BAD, BAD, O_RDWR | O_TMPFILE, 02600}, EPERM},
    {"openat", {BAD, BAD, O_RDONLY | O_DIRECTORY, 04600}, EFAULT},
    {"openat", {BAD, BAD, O_WRONLY | O_CREAT, 0600}, EFAULT},
    {"openat2", {BAD, BAD, 0, 0}, ENOSYS},
    /* what younger kernels have is not refused here */
    {"landlock_create_ruleset", {0, 0, 1}, 0},
    {"memfd_create", {BAD, 0}, EFAULT},
    {"pidfd_open", {BAD, 0}, EINVAL},
    {"io_uring_setup", {1, BAD}, EPERM},
    {"io_setup", {1, BAD}, ENOSYS},
};

static const char *const unknown = "a number that no table has";

static void
report(int out, const char *what, int got)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s=%d\n", what, got);

	if (write(out, line, (size_t)n) != n)
		_exit(97);
}

/* The error of a call, 0 if there is none. */
static int
try(long nr, const long a[4])
{
	errno = 0;
	return syscall(nr, a[0], a[1], a[2], a[3], BAD, BAD) == -1 ? errno : 0;
}

static void
attempts_make(int out)
{
	char what[32];

	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		long nr = number(attempts[i].call);

		(void)snprintf(what, sizeof(what), "%zu", i);
		report(out, what, nr < 0 ? attempts[i].want : try(nr, attempts[i].a));
	}
	report(out, unknown, try(1000, attempts[0].a));
}

/* All that is refused whatever it says, and what is refused when each argument is -1. */
static void
refused_make(int out)
{
	static const __u64 all_ones[6] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
	static const long bad[4] = {BAD, BAD, BAD, BAD};

	for (unsigned nr = 0; nr < 1024; nr++) {
		const char *name = filter_call_name(nr);

		if (name != NULL && table_says(name, all_ones).error != 0)
			report(out, name, try((long)nr, bad));
	}
}

/* The same from a grandchild: a filter is inherited. */
static void
refused_make_in_a_child(int out)
{
	pid_t pid = fork();

	if (pid == 0) {
		refused_make(out);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		_exit(96);
}

/* The value that follows "what=" at a line's begin. */
static int
reported(const struct buf *b, const char *what)
{
	AUTO_FREE char *text = buf_dup_z(b);
	size_t n = strlen(what);

	for (const char *p = text; (p = strstr(p, what)) != NULL; p += n)
		if ((p == text || p[-1] == '\n') && p[n] == '=')
			return (int)strtol(p + n + 1, NULL, 10);
	fail_msg("nothing is reported of %s", what);
	return -1;
}

static void
attempts_check(bool notify)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	struct box b = box_start(notify, attempts_make);
	int wrong = 0;

	box_serve(&b, &out);
	assert_int_equal(box_end(&b), 0);
	for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
		const struct attempt *t = &attempts[i];
		char what[32];
		int got;

		(void)snprintf(what, sizeof(what), "%zu", i);
		got = reported(&out, what);
		if (got != t->want) {
			print_message("# %s(%ld, %ld, %ld, %ld): error %d, wanted %d\n", t->call,
			    t->a[0], t->a[1], t->a[2], t->a[3], got, t->want);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(reported(&out, unknown), ENOSYS);
}

static void
arguments_are_judged_and_their_neighbours_pass(void **state UNUSED)
{
	attempts_check(false);
}

static void
with_a_supervisor_the_answers_are_the_same(void **state UNUSED)
{
	attempts_check(true);
}

/* Returns how many of the refused ones are told. */
static uint64_t
refused_check(const struct buf *out)
{
	static const __u64 all_ones[6] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
	uint64_t told = 0, n = 0;

	for (unsigned nr = 0; nr < 1024; nr++) {
		const char *name = filter_call_name(nr);
		struct saying s;

		if (name == NULL)
			continue;
		s = table_says(name, all_ones);
		if (s.error == 0)
			continue;
		if (reported(out, name) != s.error)
			fail_msg(
			    "%s: error %d, the table says %d", name, reported(out, name), s.error);
		told += s.told;
		n++;
	}
	print_message("# %u refused calls, %u of them told\n", (unsigned)n, (unsigned)told);
	assert_true(n > 80 && told > 60);
	return told;
}

static void
every_refused_call_has_the_error_of_the_table(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	struct box b = box_start(false, refused_make);

	box_serve(&b, &out);
	assert_int_equal(box_end(&b), 0);
	(void)refused_check(&out);
}

static void
every_told_call_has_its_error_from_the_supervisor_and_is_counted_once(void **state UNUSED)
{
	void (*const from[])(int) = {refused_make, refused_make_in_a_child};

	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		AUTO_BUF struct buf out = BUF(LEN_MAX);
		AUTO(json) struct json_doc *d = NULL;
		struct box b = box_start(true, from[i]);
		uint64_t told;

		box_serve(&b, &out);
		told = refused_check(&out);
		d = counts_of(&b, false);
		assert_int_equal(counts_sum(d), told);
		assert_int_equal(box_end(&b), 0);
	}
}

/* What C libraries, Go and Node do at each start must neither cost nor fill the counts. */
static void
passing_make(int out UNUSED)
{
	(void)syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0);
	(void)syscall(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	(void)syscall(SYS_setsockopt, -1, IPPROTO_TCP, 31 /* TCP_ULP */, NULL, 0);
	(void)syscall(SYS_clone3, NULL, 0);
	(void)syscall(SYS_openat2, -1, NULL, NULL, 0);
	(void)syscall(SYS_io_uring_setup, 1, NULL);
	(void)syscall(SYS_mbind, NULL, 0, 0, NULL, 0, 0);
	(void)syscall(SYS_ioctl, -1, 0x4b3a, 0);
	(void)syscall(SYS_prctl, PR_MCE_KILL_GET, 0, 0, 0, 0);
	(void)syscall(457 /* statmount */, NULL, NULL, 0, 0);
}

static void
what_programs_try_in_passing_is_not_told(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(LEN_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct box b = box_start(true, passing_make);

	box_serve(&b, &out);
	d = counts_of(&b, false);
	assert_int_equal(json_count(json_root(d)), 0);
	assert_int_equal(box_end(&b), 0);
}

#if defined(__x86_64__)
static void
by_x32(int out UNUSED)
{
	(void)syscall(0x40000000 + SYS_getpid);
}

static void
by_int80(int out UNUSED)
{
	long r = 20; /* getpid of i386 */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
}
#endif

static void
words_of_other_machines_end_the_process(void **state UNUSED)
{
#if defined(__x86_64__)
	void (*const ways[])(int) = {by_x32, by_int80};

	for (unsigned i = 0; i < 2 * ARRAY_LEN(ways); i++) {
		AUTO_BUF struct buf out = BUF(LEN_MAX);
		struct box b = box_start(i >= ARRAY_LEN(ways), ways[i % ARRAY_LEN(ways)]);
		int status;

		box_serve(&b, &out);
		status = box_end(&b);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
#else
	skip();
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(arguments_are_judged_and_their_neighbours_pass),
	    cmocka_unit_test(with_a_supervisor_the_answers_are_the_same),
	    cmocka_unit_test(every_refused_call_has_the_error_of_the_table),
	    cmocka_unit_test(every_told_call_has_its_error_from_the_supervisor_and_is_counted_once),
	    cmocka_unit_test(what_programs_try_in_passing_is_not_told),
	    cmocka_unit_test(words_of_other_machines_end_the_process),
	};

	apart();
	return cmocka_run_group_tests_name("filter_load", tests, NULL, NULL);
}
