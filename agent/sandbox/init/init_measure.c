/*
 * What really holds for pid 1, and so for everything that it will start: read back from the
 * kernel, not from what the back end believes that it set. A layer that did not take is the end.
 */
#include "agent/sandbox/init/init_measure.h"
#include "agent/sandbox/init/init_sys.h"

#include <signal.h>
#include <sys/prctl.h>

#include "common/banned.h"

/* False only in the build for tests whose layers can be left out. */
#ifdef SANDBOX_TEST_LAYERS
#define MUST false
#else
#define MUST true
#endif
#define LANDLOCK_CREATE_RULESET 444 /* on both machines */

/* The value of "Name:\tvalue\n" in /proc/self/status; "absent" when it is not there. */
static void
row_find(const char *s, size_t n, const char *name, struct text *ret)
{
	size_t k = strlen(name);

	for (size_t i = 0; i + k < n; i++) {
		if ((i != 0 && s[i - 1] != '\n') || memcmp(s + i, name, k) != 0 || s[i + k] != ':')
			continue;
		for (i += k + 1; i < n && (s[i] == '\t' || s[i] == ' '); i++)
			continue;
		for (k = i; k < n && s[k] != '\n'; k++)
			continue;
		text_mem(ret, s + i, k - i);
		return;
	}
	text_put(ret, "absent");
}

static bool
row_wrong(const char *name, const char *is, const char *must, struct text *ret)
{
	text_put(ret, name);
	text_put(ret, " is \"");
	text_put(ret, is);
	text_put(ret, "\", must be ");
	text_put(ret, must);
	return false;
}

/* What its /proc does not say is asked; there are no ambient capabilities. */
static bool
gvisor_lacks(const char *name, struct text *ret)
{
	if (text_same(name, "NoNewPrivs"))
		text_num(ret, sys_prctl(PR_GET_NO_NEW_PRIVS, 0));
	else if (text_same(name, "CapAmb"))
		text_put(ret, "0000000000000000");
	else
		return false;
	return true;
}

static bool
rows_check(const char *s, size_t n, enum walls w, struct text *ret)
{
	static const char rows[][2][20] = {{"CapInh", "0000000000000000"},
	    {"CapPrm", "0000000000000000"}, {"CapEff", "0000000000000000"},
	    {"CapBnd", "0000000000000000"}, {"CapAmb", "0000000000000000"}, {"NoNewPrivs", "1"},
	    {"Seccomp", "2"}, {"Uid", "1000\t1000\t1000\t1000"}, {"Pid", "1"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char got[64];
		struct text t = TEXT(got);

		if (w != WALLS_GVISOR || !gvisor_lacks(rows[i][0], &t))
			row_find(s, n, rows[i][0], &t);
		if (!text_same(got, rows[i][1]))
			return row_wrong(rows[i][0], got, rows[i][1], ret);
	}
	return true;
}

/* A signal ignored before execve stays ignored, in pid 1 and in all that it starts. */
static void
signals_reset(const char *s, size_t n)
{
	static const uint64_t by_default[4]; /* struct sigaction of the kernel, at most so long */
	char got[64];
	struct text t = TEXT(got);
	uint64_t ignored = 0;

	row_find(s, n, "SigIgn", &t);
	for (size_t i = 0; i < t.n; i++) {
		unsigned c = (unsigned char)got[i];

		if (c >= '0' && c <= '9')
			ignored = ignored << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			ignored = ignored << 4 | (c - 'a' + 10);
		else
			ignored = ~(uint64_t)0; /* unknown: all */
	}
	for (int sig = 1; sig <= 64; sig++)
		if ((ignored >> (sig - 1) & 1) != 0)
			(void)sys_call(SYS_rt_sigaction, sig, P(by_default), 0, 8, 0);
}

bool
measure(enum walls w, struct text *ret)
{
	static char status[4096];
	char filters[64];
	struct text t = TEXT(filters);
	int fd = sys_open("/proc/self/status", O_RDONLY, 0);
	long n = fd < 0 ? fd : sys_read(fd, status, sizeof(status)), abi;

	if (n <= 0)
		return row_wrong("/proc/self/status", "not readable", "readable", ret);
	(void)sys_close(fd);
	signals_reset(status, (size_t)n);
	if (MUST && !rows_check(status, (size_t)n, w, ret))
		return false;
	/* Ours, and those that the caller itself was under (a container's). */
	if (w == WALLS_GVISOR)
		text_put(&t, "1");
	else
		row_find(status, (size_t)n, "Seccomp_filters", &t);
	if (MUST && (filters[0] < '1' || filters[0] > '9' || t.n > 4))
		return row_wrong("Seccomp_filters", filters, "1 or more", ret);
	abi = w < WALLS_OCI ? sys_call(LANDLOCK_CREATE_RULESET, 0, 0, 1, 0, 0) : 0;
	if (w == WALLS_OURS && abi < 1)
		return row_wrong("the Landlock ABI", "absent",
		    "1 or more: the kernel needs CONFIG_SECURITY_LANDLOCK and lsm=landlock", ret);
	text_put(ret, "\"seccomp\":\"filter\",\"seccomp_filters\":");
	text_put(ret, filters);
	text_put(ret, ",\"no_new_privs\":true,\"capabilities\":\"none\",\"landlock_abi\":");
	text_num(ret, abi < 0 ? 0 : abi);
	return true;
}
