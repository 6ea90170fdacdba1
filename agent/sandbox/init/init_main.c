/*
 * Pid 1 of a sandbox. Executed by the back end with a bare environment, after everything was given
 * up: it has no more rights than the code that it starts, and is only harder to reach (not
 * dumpable, deaf to signals from inside). It starts programs by order of the supervisor, reaps, and
 * sees to it that nothing of a program is left at its end. When the supervisor goes away it ends,
 * and the kernel ends all inside with it. It never waits for anything that code inside can hold:
 * whatever may take time is done by minders (init_minder.c).
 *
 * Descriptors: 3 the wire (inside.h), 4 cofferdam-inside or nothing. argv[1], if there: words
 * parted by commas. "landlock": the kernel may lack Landlock. "oci": another run time built the
 * walls; the same is measured, but for Landlock. "gvisor": as oci, and the kernel is gVisor's,
 * which takes no descriptors but 0 to 2 from outside and hands none out: the wire is 0,
 * cofferdam-inside a file, streams come with orders (INSIDE_GIVEN). "files=N": programs may have so
 * many open files, and pid 1 more. "cpus=HEX": programs may run there, though
 * pid 1 starts on one processor. Any other word is refused.
 */
#include "agent/sandbox/init/init_cpus.h"
#include "agent/sandbox/init/init_life.h"
#include "agent/sandbox/init/init_measure.h"
#include "agent/sandbox/init/init_proc.h"
#include "agent/sandbox/init/init_take.h"
#include "agent/sandbox/init/init_wire.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "common/banned.h"

#define SIGNAL_FD 5
#define FILES_WORD "files="
#define GVISOR_HELPER "/run/cofferdam-inside"

static bool have_helper;

/* N of FILES_WORD; 0: it is another word. */
static unsigned
word_files(const char *s, size_t n)
{
	size_t i = sizeof(FILES_WORD) - 1;
	unsigned v = 0;

	if (n <= i || n > i + 9 || memcmp(s, FILES_WORD, i) != 0)
		return 0;
	for (; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return 0;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	return v;
}

/* argv[1]; false: a word that is none. */
static bool
words_take(const char *s, enum walls *ret, unsigned *ret_files)
{
	static const char words[][9] = {
	    [WALLS_LESS] = "landlock", [WALLS_OCI] = "oci", [WALLS_GVISOR] = "gvisor"};

	while (*s != '\0') {
		enum walls w;
		size_t n = 0;

		while (s[n] != '\0' && s[n] != ',')
			n++;
		for (w = WALLS_LESS; w <= WALLS_GVISOR; w++)
			if (strlen(words[w]) == n && memcmp(s, words[w], n) == 0)
				break;
		if (w <= WALLS_GVISOR)
			*ret = w > *ret ? w : *ret;
		else if (!cpus_take(s, n) && (*ret_files = word_files(s, n)) == 0)
			return false;
		s += n + (s[n] == ',' ? 1 : 0);
	}
	return true;
}

static void
fd_place(int fd, int at, int flags)
{
	if (fd < 0 || (fd != at && sys_call(SYS_dup3, fd, at, flags, 0, 0) < 0))
		wire_fatal("pid 1 cannot open its descriptors: /dev/null, signalfd");
}

/* What else is passed on by number, and what this kernel lacks. */
static void
gvisor_take(void)
{
	if (sys_dup(0, INSIDE_WIRE_FD) < 0)
		sys_exit(1);
	minder_may_lack = true;
	(void)sys_close(INSIDE_HELPER_FD);
	(void)sys_open(GVISOR_HELPER, O_RDONLY, 0);
}

static void
fds_set(enum walls w)
{
	uint64_t child = SIGNAL_BIT(SIGCHLD);
	int fd;

	if (w == WALLS_GVISOR)
		gvisor_take();
	if (sys_fcntl(INSIDE_WIRE_FD, F_SETFD, FD_CLOEXEC) < 0)
		sys_exit(1);
	have_helper = sys_fcntl(INSIDE_HELPER_FD, F_SETFD, FD_CLOEXEC) == 0;
	(void)sys_close_from(INSIDE_HELPER_FD + 1);
	fd = sys_open("/dev/null", O_RDWR, 0);
	for (int i = 0; i < 3; i++)
		fd_place(fd, i, 0);
	if (fd > INSIDE_WIRE_FD)
		(void)sys_close(fd);
	fd = (int)sys_call(
	    SYS_signalfd4, -1, P(&child), sizeof(child), SFD_CLOEXEC | SFD_NONBLOCK, 0);
	fd_place(fd, SIGNAL_FD, O_CLOEXEC);
	if (fd != SIGNAL_FD)
		(void)sys_close(fd);
}

static void
start(long argc, char **argv)
{
	static char facts[512];
	struct text t = TEXT(facts);
	enum walls w = WALLS_OURS;
	unsigned files = 0;
	bool known;

	/* The kernel's own, for all programs: run times pass on what their caller had. */
	(void)sys_prctl(PR_SET_TIMERSLACK, 50000);
	if (sys_prctl(PR_SET_DUMPABLE, 0) < 0 || sys_prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		sys_exit(1);
	/* Of the environment nothing stays, not even in memory. */
	for (char **e = argv + argc + 1; *e != NULL; e++)
		memset(*e, 0, strlen(*e));
	sys_mask(~(uint64_t)0);
	known = argc < 2 || words_take(argv[1], &w, &files);
	fds_set(w);
	(void)sys_call(SYS_umask, 022, 0, 0, 0, 0);
	if (!known)
		wire_fatal("pid 1 was told to do without what is neither landlock nor oci");
	if (!measure(w, &t))
		wire_fatal(facts);
	if (files != 0) {
		text_put(&t, ",\"open_files\":");
		text_num(&t, child_files_limit(files));
	}
	wire_send_text(INSIDE_READY, 0, 0, facts);
	life_begin();
}

_Noreturn void init_run(long *stack) __attribute__((visibility("hidden")));
_Noreturn void
init_run(long *stack)
{
	start(stack[0], (char **)(stack + 1));
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = INSIDE_WIRE_FD, .events = POLLIN}, {.fd = SIGNAL_FD, .events = POLLIN}};
		char drop[sizeof(struct signalfd_siginfo)];
		int ms = life_wait_ms();

		(void)sys_poll(p, 2, ms);
		if (p[1].revents != 0)
			(void)sys_read(SIGNAL_FD, drop, sizeof(drop));
		if (p[1].revents != 0 || ms >= 0)
			life_turn();
		if (p[0].revents != 0)
			order_take(have_helper);
	}
}
