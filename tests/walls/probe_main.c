/*
 * The attack probe. Runs inside a sandbox under test:
 *   probe list                      the table, one check a line, tab-separated
 *   probe run [NAME=VALUE...]       every check that can share a sandbox
 *   probe only=ID [NAME=VALUE...]   one check
 *   probe inner                     what a program gained that was started in an unusual way
 * It prints "refused ID", "REACHED ID", "works ID", "BROKEN ID" or "skipped ID". It tries nothing
 * outside a sandbox: NEVER make it.
 */
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "tests/walls/walls.h"

#define CHECK_SECONDS 60

char room[1 << 20];
static char **canaries;
static char said[512];

extern const struct wall *const __start_walls[], *const __stop_walls[];

const char *
canary(const char *name, int n)
{
	size_t k = strlen(name);

	for (char **p = canaries; *p != NULL; p++)
		if (strncmp(*p, name, k) == 0 && (*p)[k] == '=' && n-- == 0)
			return *p + k + 1;
	return NULL;
}

void
detail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(said, sizeof(said), format, ap);
	va_end(ap);
}

int
filtered(long rc)
{
	int e = errno;

	detail("rc %ld errno %d (%s)", rc, e, strerror(e));
	return rc >= 0 || (e != EPERM && e != ENOSYS);
}

int
failed(long rc)
{
	int e = errno;

	detail("rc %ld errno %d (%s)", rc, e, strerror(e));
	return rc >= 0;
}

bool
slurp(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	size_t n = 0;
	ssize_t k;

	out[0] = '\0';
	if (fd < 0)
		return false;
	while (n < size - 1 && (k = read(fd, out + n, size - 1 - n)) > 0)
		n += (size_t)k;
	(void)close(fd);
	for (size_t i = 0; i < n; i++)
		if (out[i] == '\0')
			out[i] = ' ';
	out[n] = '\0';
	return true;
}

/* Each in a process of its own: some end it. Killed by the filter, or for its memory, is refused.
 */
static int
check_run(const struct wall *w)
{
	int st = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int r;

		(void)alarm(CHECK_SECONDS);
		errno = 0;
		r = w->fn();
		if (r != SKIPPED && r != (w->kind == WALL_NEAR ? REACHED : REFUSED))
			(void)printf("# %s: %s\n", w->id, said);
		(void)fflush(stdout);
		_exit(r);
	}
	if (waitpid(pid, &st, 0) != pid)
		return REACHED;
	if (WIFSIGNALED(st) && (WTERMSIG(st) == SIGSYS || WTERMSIG(st) == SIGKILL))
		return REFUSED;
	if (WIFSIGNALED(st))
		(void)printf("# %s: ended by signal %d\n", w->id, WTERMSIG(st));
	return WIFEXITED(st) && WEXITSTATUS(st) <= SKIPPED ? WEXITSTATUS(st) : 3;
}

static int
check_say(const struct wall *w)
{
	int r = check_run(w);
	const char *word;

	if (w->kind == WALL_NEAR)
		word = r == REACHED ? "works" : r == SKIPPED ? "skipped" : "BROKEN";
	else
		word = r == REFUSED ? "refused" : r == SKIPPED ? "skipped" : "REACHED";
	(void)printf("%s %s\n", word, w->id);
	return strcmp(word, "BROKEN") == 0 || strcmp(word, "REACHED") == 0;
}

static int
table_print(void)
{
	static const char *const kinds[] = {"attack", "near", "alone"};

	for (const struct wall *const *w = __start_walls; w < __stop_walls; w++)
		(void)printf("%s\t%s\t%s\t%s\t%s\n", (*w)->id, kinds[(*w)->kind], (*w)->layers,
		    (*w)->options, (*w)->what);
	return 0;
}

/* Started by a check in some roundabout way: has it more rights than its starter? */
static int
inner(void)
{
	int r = 0;

	r |= filtered(syscall(SYS_ptrace, 0, 0, 0, 0));
	r |= filtered(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0));
	r |= open("/etc/shadow", O_RDONLY) >= 0;
	r |= geteuid() == 0 || geteuid() != getuid() || getegid() != getgid();
	r |= !slurp("/proc/self/status", room, sizeof(room)) ||
	     strstr(room, "CapEff:\t0000000000000000") == NULL ||
	     strstr(room, "CapPrm:\t0000000000000000") == NULL;
	return r;
}

int
main(int argc, char **argv)
{
	const char *only;
	int wrong = 0;

	canaries = argv + (argc > 0);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "list") == 0)
		return table_print();
	/* What the test says when it has turned the layer off that makes this file. */
	if (access("/etc/cofferdam", F_OK) != 0 && canary("unmounted", 0) == NULL) {
		(void)printf("not in a sandbox: nothing is tried\n");
		return 99;
	}
	if (argc > 1 && strcmp(argv[1], "inner") == 0)
		return inner();
	only = canary("only", 0);
	for (const struct wall *const *w = __start_walls; w < __stop_walls; w++)
		if (only != NULL ? strcmp((*w)->id, only) == 0 : (*w)->kind != WALL_ALONE)
			wrong += check_say(*w);
	return wrong > 98 ? 98 : wrong;
}
