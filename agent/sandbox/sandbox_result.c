/*
 * What came out of one program in a sandbox, cut to what helps: its begin, its end and how
 * much there was in all. Runs in the caller's process; every byte here was written by code
 * that nobody trusts, so nothing is interpreted.
 */
#include "agent/sandbox/sandbox_result.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

const char *
sandbox_cause_name(enum sandbox_cause c)
{
	switch (c) {
	case SANDBOX_NONE: break;
	case SANDBOX_EXITED: return "exited";
	case SANDBOX_SIGNALLED: return "signalled";
	case SANDBOX_TIMEOUT: return "timeout";
	case SANDBOX_MEMORY: return "memory";
	case SANDBOX_OUTPUT: return "output";
	case SANDBOX_KILLED: return "killed";
	case SANDBOX_UNAVAILABLE: return "sandbox_unavailable";
	case SANDBOX_DISK: return "disk";
	case SANDBOX_POLICY: return "policy";
	}
	return "none";
}

void
sandbox_result_init(struct sandbox_result *r, size_t head, size_t tail)
{
	/* The tail may hold twice its length for a moment, so that it moves seldom. */
	*r = (struct sandbox_result){.head = BUF(head), .tail = BUF(tail * 2 + 65536)};
}

void
sandbox_result_add(struct sandbox_result *r, struct str s, size_t head, size_t tail)
{
	size_t n = r->head.n < head ? head - r->head.n : 0;

	r->total += s.n;
	n = n < s.n ? n : s.n;
	buf_put(&r->head, s.p, n);
	s.p += n;
	s.n -= n;
	if (s.n > tail) {
		buf_reset(&r->tail);
		s.p += s.n - tail;
		s.n = tail;
	}
	buf_put(&r->tail, s.p, s.n);
	if (r->tail.n > tail + 65536 || (r->tail.n > tail && r->tail.n > tail * 2))
		buf_drop(&r->tail, r->tail.n - tail);
}

void
sandbox_result_end(struct sandbox_result *r, size_t tail)
{
	if (r->tail.n > tail)
		buf_drop(&r->tail, r->tail.n - tail);
}

void
sandbox_result_free(struct sandbox_result *r)
{
	buf_free(&r->head);
	buf_free(&r->tail);
	free(r->refused);
	r->refused = NULL;
}

void
sandbox_result_text(const struct sandbox_result *r, struct buf *out)
{
	uint64_t kept = r->head.n + r->tail.n;

	buf_put_str(out, buf_str(&r->head));
	if (kept < r->total)
		buf_printf(out, "\n[... %llu of %llu bytes left out ...]\n",
		    (unsigned long long)(r->total - kept), (unsigned long long)r->total);
	buf_put_str(out, buf_str(&r->tail));
}

char *
sandbox_result_words(const struct sandbox_result *r)
{
	const char *name;

	switch (r->cause) {
	case SANDBOX_NONE: return xstrdup("did not run");
	case SANDBOX_EXITED: return xasprintf("exit %d", r->value);
	case SANDBOX_SIGNALLED:
		name = sigdescr_np(r->value);
		return xasprintf("signal %d (%s)", r->value, name != NULL ? name : "unknown");
	case SANDBOX_TIMEOUT: return xstrdup("time limit reached, everything was ended");
	case SANDBOX_MEMORY: return xstrdup("memory limit reached");
	case SANDBOX_OUTPUT: return xstrdup("output limit reached, everything was ended");
	case SANDBOX_KILLED: return xstrdup("ended from outside");
	case SANDBOX_UNAVAILABLE: return xstrdup("the sandbox went away");
	case SANDBOX_DISK: return xstrdup("disk limit reached: /work or /tmp is full");
	case SANDBOX_POLICY: return xstrdup("ended by the system call filter");
	}
	return xstrdup("did not run");
}
