/*
 * Pid 1 is started on the processor of its supervisor and stays there until the first program runs:
 * that, pid 1 itself and its minders then get back what the caller had, and what they make has it
 * from them. In pid 1's memory, written once before there is anybody else.
 */
#include "agent/sandbox/init/init_cpus.h"
#include "agent/sandbox/init/init_sys.h"
#include "agent/sandbox/init/init_text.h"

#include "common/banned.h"

#define WORD "cpus="
#define DIGITS (2 * sizeof(cpus))

static uint64_t cpus[16];
static bool known;

bool
cpus_take(const char *s, size_t n)
{
	size_t k = sizeof(WORD) - 1;

	if (n != k + DIGITS || memcmp(s, WORD, k) != 0)
		return false;
	for (size_t i = 0; i < DIGITS; i++) {
		char c = s[k + i];
		unsigned v = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;

		if (v > 15)
			return false;
		cpus[(DIGITS - 1 - i) / 16] = cpus[(DIGITS - 1 - i) / 16] << 4 | v;
	}
	known = true;
	return true;
}

void
cpus_give(bool *given)
{
	if (known && !*given)
		(void)sys_call(SYS_sched_setaffinity, 0, sizeof(cpus), P(cpus), 0, 0);
	*given = true;
}
