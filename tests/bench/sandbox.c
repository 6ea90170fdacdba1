/*
 * What a sandbox costs whoever holds the library, each beside a bare vfork and execution of the
 * same program, interleaved: sandbox [ROUNDS]. A cell stands beside the same cell in the same
 * interpreter without a sandbox. Prints one line a row: name, median and lowest microseconds,
 * median over that of bare. seven-namespaces is the program with nothing but the kernel's
 * namespaces around it: less no sandbox that is made for one program can take. Then a living
 * sandbox at work, in turn with bare and nothing else between; memory of 100 sandboxes alive, and
 * how long a hundred children take to go. And the filter alone, for another launcher: sandbox
 * filter > FILE.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "common/xalloc.h"
#include "agent/sandbox/filter.h"
#include "agent/sandbox/sandbox_context.h"

#include "common/banned.h"

#define ROUNDS_MAX 2000
#define ALIVE 100

static char truth[] = "/bin/true";
static char *const true_argv[] = {truth, NULL};
static struct sandbox_spec spec;
static struct sandbox *living;
/* Interpreters: in the living sandbox, and as plain children. */
enum { PYTHON, BASH, JAVASCRIPT, NLANGUAGES };
static const char *const languages[NLANGUAGES] = {"python", "bash", "javascript"};
static struct language {
	struct sandbox_context *inside;
	struct cell_reader reader;
	int wire;
} cells[NLANGUAGES];
static struct sandbox_pool *pool;

static double
now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static _Noreturn void
fail(const char *what, const struct err *e)
{
	(void)fprintf(stderr, "bench sandbox: %s: %s\n", what, e->msg);
	exit(1);
}

static void
exec_true(struct sandbox *sb)
{
	struct sandbox_exec x = {.argv = true_argv, .stdin_fd = -1};
	struct sandbox_result r;
	struct err e = {0};

	if (sandbox_exec(sb, &x, &r, &e) != 0)
		fail("exec", &e);
	if (r.cause != SANDBOX_EXITED || r.value != 0) {
		(void)fprintf(stderr, "bench sandbox: exec of true ended otherwise\n");
		exit(1);
	}
	sandbox_result_free(&r);
}

static void
bare(void)
{
	char *const none[] = {NULL};
	pid_t pid;
	int st;

	if (posix_spawn(&pid, truth, NULL, NULL, true_argv, none) != 0 ||
	    waitpid(pid, &st, 0) != pid)
		exit(1);
}

static int
namespaced_child(void *arg UNUSED)
{
	char *const none[] = {NULL};

	(void)execve(truth, true_argv, none);
	_exit(127);
}

/* Those that a sandbox has, made as fast as they can be: on the caller's memory. */
static void
namespaced(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(namespaced_child, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
		CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | SIGCHLD,
	    NULL);
	int st;

	if (pid < 0 || waitpid(pid, &st, 0) != pid || st != 0)
		exit(1);
}

static struct sandbox *
create(void)
{
	struct sandbox *sb;
	struct err e = {0};

	if (sandbox_create(&spec, &sb, &e) != 0)
		fail("create", &e);
	return sb;
}

static void
whole(void)
{
	struct sandbox *sb = create();

	exec_true(sb);
	sandbox_destroy(sb);
}

/* The end is not waited for by whoever wants the answer, but it is the same round's work. */
static struct sandbox *used;

static void
pooled(void)
{
	struct err e = {0};

	if (sandbox_pool_take(pool, &used, &e) != 0)
		fail("pool", &e);
	exec_true(used);
}

static void
in_living(void)
{
	exec_true(living);
}

static struct str
cell_code(const struct language *l)
{
	return l == &cells[BASH] ? STR("x=1") : STR("x = 1");
}

static void
cell_inside(const struct language *l)
{
	struct sandbox_cell c = {.code = cell_code(l)};
	struct sandbox_cell_result r;
	struct err e = {0};

	if (sandbox_context_run(l->inside, &c, &r, &e) != 0)
		fail("cell", &e);
	sandbox_cell_free(&r);
}

/* Until the interpreter has greeted, or the cell has ended. */
static void
plain_listen(struct language *l)
{
	struct err e = {0};
	char room[512];

	while (!l->reader.greeted || l->reader.open) {
		ssize_t k = recv(l->wire, room, sizeof(room), 0);

		if (k <= 0 || cell_feed(&l->reader, str_mem(room, (size_t)k), &e) != 0)
			fail("plain cell", &e);
	}
}

static void
cell_plain(struct language *l)
{
	AUTO_BUF struct buf b = BUF(4096);

	cell_begin(&l->reader, cell_code(l), &b);
	if (send(l->wire, b.p, b.n, MSG_NOSIGNAL) != (ssize_t)b.n)
		exit(1);
	plain_listen(l);
}

static void
plain_child(const struct context_driver *d, int wire)
{
	char *argv[8] = {NULL};
	size_t n = 0;

	for (; d->argv[n] != NULL; n++)
		argv[n] = xstrdup(d->argv[n]);
	argv[n] = str_dup(str_mem(d->text, *d->size));
	/* dup2 to itself would leave it to be closed. */
	if (wire == SANDBOX_FIRST_FD ? fcntl(wire, F_SETFD, 0) == 0
				     : dup2(wire, SANDBOX_FIRST_FD) >= 0)
		(void)execvp(argv[0], argv);
	_exit(127);
}

static void
plain_open(struct language *l, const char *language)
{
	static const struct cell_ops none = {0};
	const struct context_driver *d = context_driver(language);
	int pair[2];

	if (d == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		exit(1);
	if (fork() == 0)
		plain_child(d, pair[1]);
	(void)close(pair[1]);
	l->wire = pair[0];
	cell_reader_init(&l->reader, &none, NULL);
	plain_listen(l);
}

/* Not everywhere is node. */
static void
language_open(struct language *l, const char *language)
{
	struct err e = {0};

	if (sandbox_context_open(living, language, NULL, 0, &l->inside, &e) != 0) {
		if (l != &cells[JAVASCRIPT])
			fail(language, &e);
		(void)printf("no cells of javascript: %s\n", e.msg);
		return;
	}
	plain_open(l, language);
	cell_inside(l);
	cell_plain(l);
}

static void
python_plain(void)
{
	cell_plain(&cells[PYTHON]);
}

static void
python_cell(void)
{
	cell_inside(&cells[PYTHON]);
}

static void
bash_plain(void)
{
	cell_plain(&cells[BASH]);
}

static void
bash_cell(void)
{
	cell_inside(&cells[BASH]);
}

static void
javascript_plain(void)
{
	if (cells[JAVASCRIPT].inside != NULL)
		cell_plain(&cells[JAVASCRIPT]);
}

static void
javascript_cell(void)
{
	if (cells[JAVASCRIPT].inside != NULL)
		cell_inside(&cells[JAVASCRIPT]);
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

#define JAVASCRIPT_BARE 8
static const struct bench_row {
	const char *name, *bar;
	void (*fn)(void);
	size_t beside; /* the row of what it is compared with */
} rows[] = {{"bare", "", bare, 0}, {"create-exec-destroy", "x 2.1", whole, 0},
    {"pool-take-exec", "x 1.5", pooled, 0}, {"exec-in-living-cold", "(see in-turn)", in_living, 0},
    {"python-cell-bare", "", python_plain, 4}, {"python-cell", "+200 us", python_cell, 4},
    {"bash-cell-bare", "", bash_plain, 6}, {"bash-cell", "+200 us", bash_cell, 6},
    {"javascript-cell-bare", "", javascript_plain, JAVASCRIPT_BARE},
    {"javascript-cell", "+200 us", javascript_cell, JAVASCRIPT_BARE},
    {"seven-namespaces", "(the kernel's part)", namespaced, 0}};
#define NROWS (sizeof(rows) / sizeof(*rows))
static double times[NROWS][ROUNDS_MAX];

/* Both ascending. */
static void
row_tell(const char *name, const double *is, const double *of, size_t n, const char *bar)
{
	(void)printf("%-22s median %8.0f us  min %8.0f us  over bare x%5.2f  %+8.0f us  bar %s\n",
	    name, is[n / 2], is[0], is[n / 2] / of[n / 2], is[n / 2] - of[n / 2], bar);
}

static void
rounds(size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < NROWS; j++) {
			/* There and back: what comes behind another finds things warm. */
			size_t k = i % 2 == 0 ? j : NROWS - 1 - j;
			double begin = now_us();

			rows[k].fn();
			times[k][i] = now_us() - begin;
			sandbox_destroy(used);
			used = NULL;
			/* the pool fills up again meanwhile */
			if (rows[k].fn == pooled)
				(void)usleep(15000);
		}
	for (size_t k = 0; k < NROWS; k++)
		qsort(times[k], n, sizeof(**times), by_size);
	for (size_t k = 0; k < NROWS; k++)
		if (rows[k].beside != JAVASCRIPT_BARE || cells[JAVASCRIPT].inside != NULL)
			row_tell(rows[k].name, times[k], times[rows[k].beside], n, rows[k].bar);
}

/* Of a session: one program after the other in the same sandbox. */
static void
in_turn(size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < 2; j++) {
			size_t k = (i + j) % 2;
			double begin = now_us();

			(k == 0 ? bare : in_living)();
			times[k][i] = now_us() - begin;
		}
	for (size_t k = 0; k < 2; k++)
		qsort(times[k], n, sizeof(**times), by_size);
	row_tell("bare-in-turn", times[0], times[0], n, "");
	row_tell("exec-in-living-in-turn", times[1], times[0], n, "x 1.2");
}

/* Proportional size of all processes that came since `before` (pids ascending in it). */
static unsigned long
pss_kib(const char *name)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned long sum = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char path[300], line[256];
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f == NULL)
			continue;
		if (fgets(line, sizeof(line), f) == NULL ||
		    strncmp(line, name, strlen(name)) != 0) {
			(void)fclose(f);
			continue;
		}
		(void)fclose(f);
		(void)snprintf(path, sizeof(path), "/proc/%s/smaps_rollup", e->d_name);
		f = fopen(path, "re");
		while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
			unsigned long kib;

			if (sscanf(line, "Pss: %lu", &kib) == 1)
				sum += kib;
		}
		if (f != NULL)
			(void)fclose(f);
	}
	if (d != NULL)
		(void)closedir(d);
	return sum;
}

static void
alive(void)
{
	static struct sandbox *all[ALIVE];
	double begin = now_us(), took;
	unsigned long super, init;

	for (size_t i = 0; i < ALIVE; i++)
		all[i] = create();
	took = now_us() - begin;
	super = pss_kib("cofferdam-sandb");
	init = pss_kib("cofferdam-init");
	(void)printf("100 alive: built in %.0f ms; %.2f MiB each (supervisors %.2f, first "
		     "processes %.2f)  bar 2 MiB\n",
	    took / 1e3, (double)(super + init) / 1024 / ALIVE, (double)super / 1024 / ALIVE,
	    (double)init / 1024 / ALIVE);
	for (size_t i = 0; i < ALIVE; i++)
		sandbox_destroy(all[i]);
}

static void
hundred_children(void)
{
	char sh[] = "/bin/sh", c[] = "-c",
	     script[] = "for i in $(seq 100); do sleep 1000 & done; echo up; wait";
	char *const argv[] = {sh, c, script, NULL};
	double t[5];

	for (size_t i = 0; i < 5; i++) {
		struct sandbox *sb = create();
		struct sandbox_exec x = {.argv = argv, .stdin_fd = -1};
		struct sandbox_logs at = {0};
		struct err e = {0};
		AUTO_BUF struct buf b = BUF(4096);
		uint32_t proc;

		if (sandbox_spawn(sb, &x, &proc, &e) != 0 ||
		    sandbox_proc_logs(sb, proc, 0, 10000, &b, &at, &e) != 0)
			fail("spawn", &e);
		t[i] = now_us();
		sandbox_destroy(sb);
		t[i] = now_us() - t[i];
	}
	qsort(t, 5, sizeof(*t), by_size);
	(void)printf("100 children gone after a kill: median %.1f ms  bar 100 ms\n", t[2] / 1e3);
}

int
main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 60;
	struct err e = {0};

	if (argc > 1 && strcmp(argv[1], "filter") == 0) {
		struct sock_fprog p = filter_program(false);

		return fwrite(p.filter, sizeof(*p.filter), p.len, stdout) == p.len ? 0 : 1;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (geteuid() != 0)
		spec.may_lack = SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	living = create();
	if (sandbox_pool_open(&spec, 2, &pool, &e) != 0)
		fail("pool", &e);
	for (size_t i = 0; i < NLANGUAGES; i++)
		language_open(&cells[i], languages[i]);
	n = n < 3 ? 3 : n > ROUNDS_MAX ? ROUNDS_MAX : n;
	rounds(n);
	in_turn(n * 5 < ROUNDS_MAX ? n * 5 : ROUNDS_MAX);
	for (size_t i = 0; i < NLANGUAGES; i++) {
		sandbox_context_close(cells[i].inside);
		(void)close(cells[i].wire);
	}
	sandbox_destroy(living);
	sandbox_pool_close(pool);
	hundred_children();
	alive();
	return 0;
}
