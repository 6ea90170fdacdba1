/*
 * Bounded, wiped byte buffers and the wire encoding. Runs in every process; sizes
 * that come from a peer are bounded by the maximum the buffer was born with.
 */
#include "common/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"

#include "common/banned.h"

void
buf_init(struct buf *b, size_t max)
{
	*b = BUF(max);
}

void
buf_free(struct buf *b)
{
	if (b == NULL)
		return;
	if (b->p != NULL) {
		explicit_bzero(b->p, b->cap);
		free(b->p);
	}
	*b = BUF(b->max);
}

bool
buf_over(const struct buf *b)
{
	return b->over;
}

void
buf_reset(struct buf *b)
{
	if (b->p != NULL)
		explicit_bzero(b->p, b->n);
	b->n = 0;
	b->over = false;
}

struct str
buf_str(const struct buf *b)
{
	return str_mem(b->p, b->n);
}

/* Not realloc: that could leave an unwiped copy behind. */
static void
buf_enlarge(struct buf *b, size_t need)
{
	size_t cap = b->cap != 0 ? b->cap : 64;
	uint8_t *p;

	while (cap < need)
		cap = cap > b->max / 2 ? b->max : cap * 2;
	p = xmalloc(cap);
	if (b->p != NULL) {
		memcpy(p, b->p, b->n);
		explicit_bzero(b->p, b->cap);
		free(b->p);
	}
	b->p = p;
	b->cap = cap;
}

uint8_t *
buf_grow(struct buf *b, size_t n)
{
	uint8_t *p;

	if (b->over || n > b->max || b->n > b->max - n) {
		b->over = true;
		return NULL;
	}
	if (b->n + n > b->cap || b->p == NULL)
		buf_enlarge(b, b->n + n);
	p = b->p + b->n;
	b->n += n;
	return p;
}

void
buf_drop(struct buf *b, size_t n)
{
	assert(n <= b->n);
	if (n == 0)
		return;
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
}

void
buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *to = buf_grow(b, n);

	if (to != NULL && n != 0)
		memcpy(to, p, n);
}

void
buf_put_str(struct buf *b, struct str s)
{
	buf_put(b, s.p, s.n);
}

void
buf_put_z(struct buf *b, const char *z)
{
	buf_put(b, z, strlen(z));
}

void
buf_put_c(struct buf *b, char c)
{
	buf_put(b, &c, 1);
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	AUTO_FREE char *s = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		s = NULL;
		b->over = true;
		return;
	}
	buf_put(b, s, (size_t)n);
}

static void
buf_be(struct buf *b, uint64_t v, size_t n)
{
	uint8_t *p = buf_grow(b, n);

	for (size_t i = 0; p != NULL && i < n; i++)
		p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

void
buf_u8(struct buf *b, uint8_t v)
{
	buf_be(b, v, 1);
}

void
buf_u16(struct buf *b, uint16_t v)
{
	buf_be(b, v, 2);
}

void
buf_u32(struct buf *b, uint32_t v)
{
	buf_be(b, v, 4);
}

void
buf_u64(struct buf *b, uint64_t v)
{
	buf_be(b, v, 8);
}

void
buf_lstr(struct buf *b, struct str s)
{
	if (s.n > UINT32_MAX) {
		b->over = true;
		return;
	}
	buf_u32(b, (uint32_t)s.n);
	buf_put_str(b, s);
}

void
buf_lz(struct buf *b, const char *z)
{
	buf_lstr(b, str_z(z));
}

char *
buf_dup_z(const struct buf *b)
{
	return str_dup(buf_str(b));
}

struct rd
rd_init(struct str s)
{
	return (struct rd){(const uint8_t *)s.p, s.n, false};
}

struct str
rd_bytes(struct rd *r, size_t n)
{
	struct str s;

	if (r->bad || n > r->n) {
		r->bad = true;
		return STR_NONE;
	}
	s = str_mem(r->p, n);
	if (n != 0)
		r->p += n;
	r->n -= n;
	return s;
}

static uint64_t
rd_be(struct rd *r, size_t n)
{
	struct str s = rd_bytes(r, n);
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		v = v << 8 | (uint8_t)s.p[i];
	return v;
}

uint8_t
rd_u8(struct rd *r)
{
	return (uint8_t)rd_be(r, 1);
}

uint16_t
rd_u16(struct rd *r)
{
	return (uint16_t)rd_be(r, 2);
}

uint32_t
rd_u32(struct rd *r)
{
	return (uint32_t)rd_be(r, 4);
}

uint64_t
rd_u64(struct rd *r)
{
	return rd_be(r, 8);
}

struct str
rd_lstr(struct rd *r)
{
	size_t n = rd_u32(r);

	return rd_bytes(r, n);
}

bool
rd_end(const struct rd *r)
{
	return !r->bad && r->n == 0;
}
