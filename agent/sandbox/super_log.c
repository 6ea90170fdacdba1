/*
 * The output of programs that go on by themselves: read as it comes into a ring that keeps the
 * last SANDBOX_LOG_MAX bytes, with offsets that only grow. Runs in the supervisor. The memory comes
 * with the output, a program that says nothing has none; one that says too much is ended.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define RING_FIRST ((size_t)4096)

/* Room for n more, as long as the ring is below its maximum. All bytes so far are still in it. */
static void
ring_enlarge(struct super_exec *x, size_t n)
{
	size_t cap = x->ring_cap != 0 ? x->ring_cap : RING_FIRST;

	while (cap < SANDBOX_LOG_MAX && x->total + n > cap)
		cap *= 2;
	if (cap == x->ring_cap)
		return;
	/* Not wrapped yet: below its maximum a ring has never been full. */
	x->ring = xreallocarray(x->ring, cap, 1);
	x->ring_cap = cap;
}

static void
ring_put(struct super_exec *x, const uint8_t *p, size_t n)
{
	ring_enlarge(x, n);
	while (n != 0) {
		size_t at = (size_t)(x->total % x->ring_cap), k = x->ring_cap - at;

		k = k < n ? k : n;
		memcpy(x->ring + at, p, k);
		x->total += k;
		p += k;
		n -= k;
	}
}

void
super_log_get(
    const struct super_exec *x, uint64_t *first, uint64_t *next, size_t max, struct buf *out)
{
	uint64_t oldest = x->total > x->ring_cap ? x->total - x->ring_cap : 0, at;

	*first = *first < oldest ? oldest : *first;
	*first = *first > x->total ? x->total : *first;
	*next = x->total - *first > max ? *first + max : x->total;
	for (at = *first; at < *next;) {
		size_t i = (size_t)(at % x->ring_cap), k = x->ring_cap - i;

		k = k < *next - at ? k : (size_t)(*next - at);
		buf_put(out, x->ring + i, k);
		at += k;
	}
}

static void
pipe_close(struct super_exec *x, int i)
{
	loop_io_del(TAKE_PTR(x->io[i]));
	if (x->out[i] >= 0)
		(void)close(x->out[i]);
	/* A terminal is one descriptor for both ways. */
	if (x->in == x->out[i])
		x->in = -1;
	x->out[i] = -1;
}

/* False: nothing there now, or no pipe any more. */
static bool
pipe_take(struct super_exec *x, int i)
{
	uint8_t room[32768];
	uint64_t max = (uint64_t)x->s->spec.limits.output_mib << 20;
	ssize_t k;

	if (x->out[i] < 0)
		return false;
	k = read(x->out[i], room, sizeof(room));
	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return errno == EINTR;
	if (k <= 0) { /* EIO: nobody has the terminal any more */
		pipe_close(x, i);
		return false;
	}
	if ((uint64_t)k > max - x->total)
		k = (ssize_t)(max - x->total);
	ring_put(x, room, (size_t)k);
	if (x->total == max) {
		super_exec_kill(x, SANDBOX_OUTPUT);
		super_log_close(x);
		return false;
	}
	return true;
}

static void
on_out(void *arg, uint32_t events UNUSED)
{
	struct super_exec *x = arg;

	(void)pipe_take(x, 0);
	super_waiters_wake(x);
}

static void
on_errors(void *arg, uint32_t events UNUSED)
{
	struct super_exec *x = arg;

	(void)pipe_take(x, 1);
	super_waiters_wake(x);
}

void
super_log_begin(struct super_exec *x)
{
	static loop_io_fn *const fns[] = {on_out, on_errors};

	for (int i = 0; i < 2; i++)
		if (x->out[i] >= 0) {
			(void)fcntl(x->out[i], F_SETFL, O_NONBLOCK);
			x->io[i] = loop_io_add(x->s->loop, x->out[i], EPOLLIN, fns[i], x);
		}
	if (x->in >= 0)
		(void)fcntl(x->in, F_SETFL, O_NONBLOCK);
}

void
super_log_drain(struct super_exec *x)
{
	/* No pipe holds more than the largest that a user may make. */
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 64 && pipe_take(x, i); k++)
			continue;
}

void
super_log_close(struct super_exec *x)
{
	pipe_close(x, 0);
	pipe_close(x, 1);
	if (x->in >= 0)
		(void)close(x->in);
	x->in = -1;
}
