/* What bench_log and bench_wire measure beside each other: the record, the bare loop, the times. */
#ifndef BENCH_APPENDS_H
#define BENCH_APPENDS_H

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#define DATA_LEN 700			  /* of a middling action record */
#define LINE_LEN (DATA_LEN + (size_t)270) /* the envelope beside it */
#define SLICE 50			  /* batches of a turn */

static char data[DATA_LEN + 1];

static inline void
data_fill(void)
{
	memset(data, 'x', DATA_LEN);
	memcpy(data, "{\"x\":\"", 6);
	memcpy(data + DATA_LEN - 2, "\"}", 2);
}

struct times {
	uint64_t us; /* in all */
	uint32_t *each;
	size_t n, cap;
};

static inline void
times_add(struct times *t, uint64_t us)
{
	if (t->n == t->cap) {
		t->cap = t->cap != 0 ? 2 * t->cap : 1024;
		t->each = xreallocarray(t->each, t->cap, sizeof(*t->each));
	}
	t->each[t->n++] = (uint32_t)us;
}

static inline int
times_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static inline double
p99(struct times *t)
{
	qsort(t->each, t->n, sizeof(*t->each), times_compare);
	return t->each[t->n * 99 / 100] / 1e3;
}

/* The bare loop: a batch of lines and one sync. */
static inline void
bare_batch(int fd, off_t *off, uint64_t batch)
{
	size_t n = LINE_LEN * batch;
	AUTO_BUF struct buf bytes = BUF(n);

	memset(buf_grow(&bytes, n), 'x', n);
	if (pwrite(fd, bytes.p, n, *off) != (ssize_t)n || fdatasync(fd) != 0)
		fatal("bare: %s", strerror(errno));
	*off += (off_t)n;
}

#endif
