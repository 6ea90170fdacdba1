/*
 * The table of system calls read by the tests themselves: not by any code of filter_gen, so that
 * the two can be compared.
 */
#ifndef TESTS_UNIT_FILTER_HELP_H
#define TESTS_UNIT_FILTER_HELP_H

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/str.h"

struct saying {
	bool told;
	int error; /* 0: it passes */
};

/* Is the call one of the words? Asked for one call many times over: remembered by line. */
static bool
named(const char *words, const char *call, unsigned line)
{
	static const char *last;
	static signed char known[1024];
	size_t n = strlen(call);

	if (n == 0)
		return false; /* a number without a name */

	if (last != call) {
		memset(known, 0, sizeof(known));
		last = call;
	}
	if (known[line] == 0) {
		known[line] = -1;
		for (const char *p = words; (p = strstr(p, call)) != NULL; p += n)
			if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
				known[line] = 1;
	}
	return known[line] > 0;
}

static bool
among(uint64_t v, const uint32_t *values, size_t n)
{
	while (n-- > 0)
		if (values[n] == v)
			return true;
	return false;
}

static bool
all(const bool *b, size_t n)
{
	while (n-- > 0)
		if (!b[n])
			return false;
	return true;
}

#define TMPFILE_BIT 020000000
#define PLAIN false
#define TOLD true
#define AMONG(v, ...) \
	among((v), (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)
#define IN(i, ...) AMONG((uint32_t)a[i], __VA_ARGS__)
#define NOT_IN(i, ...) !IN(i, __VA_ARGS__)
#define WHOLE_IN(i, ...) AMONG(a[i], __VA_ARGS__)
#define WHOLE_NOT_IN(i, ...) !WHOLE_IN(i, __VA_ARGS__)
#define BITS_IN(i, m, ...) AMONG((uint32_t)a[i] & (uint32_t)(m), __VA_ARGS__)
#define BITS_NOT_IN(i, m, ...) !BITS_IN(i, m, __VA_ARGS__)
#define HAS(i, m) (((uint32_t)a[i] & (uint32_t)(m)) != 0)

/* What the table says of the call with these arguments. `call` keeps its address. */
static UNUSED struct saying
table_says(const char *call, const __u64 a[6])
{
	bool allowed = false;

#define ALLOW(words) allowed |= named(words, call, __LINE__);
#define REFUSE(how, e, words)             \
	if (named(words, call, __LINE__)) \
		return (struct saying){how, e};
#define IF(how, e, words, ...)                                                     \
	if (named(words, call, __LINE__) &&                                        \
	    all((const bool[]){__VA_ARGS__}, sizeof((const bool[]){__VA_ARGS__}))) \
		return (struct saying){how, e};
#define NUMBER(name, x86_64, aarch64)
#include "agent/sandbox/filter.tbl"
#undef ALLOW
#undef REFUSE
#undef IF
#undef NUMBER
	return (struct saying){false, allowed ? 0 : ENOSYS};
}

#endif
