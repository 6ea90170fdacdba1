/*
 * One request's memory in the parser process: taken from a few chunks, given back at
 * once. The bound is on what a hostile statement can make us hold; beyond it the process
 * ends, and its parent counts that as "could not be parsed". Never used for secrets.
 */
#include "common/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ARENA_CHUNK ((size_t)64 << 10)
#define ARENA_ALIGN alignof(max_align_t)

struct chunk {
	struct chunk *next;
	size_t size, used;
	alignas(max_align_t) unsigned char mem[];
};

struct arena {
	struct chunk *head;
	size_t max, held; /* held: bytes handed out, rounding included */
};

struct arena *
arena_new(size_t max)
{
	struct arena *a = xcalloc(1, sizeof(*a));

	a->max = max;
	return a;
}

void
arena_reset(struct arena *a)
{
	while (a->head != NULL) {
		struct chunk *next = a->head->next;

		free(a->head);
		a->head = next;
	}
	a->held = 0;
}

void
arena_free(struct arena *a)
{
	if (a == NULL)
		return;
	arena_reset(a);
	free(a);
}

static struct chunk *
chunk_add(struct arena *a, size_t need)
{
	size_t size = need > ARENA_CHUNK ? need : ARENA_CHUNK;
	struct chunk *c = xcalloc(1, sizeof(*c) + size);

	c->size = size;
	/* A large one goes behind the head, whose rest stays of use. */
	if (a->head != NULL && need > ARENA_CHUNK / 2) {
		c->next = a->head->next;
		a->head->next = c;
	} else {
		c->next = a->head;
		a->head = c;
	}
	return c;
}

void *
arena_alloc(struct arena *a, size_t n)
{
	struct chunk *c = a->head;
	void *p;

	if (n > a->max || a->max - n < ARENA_ALIGN)
		fatal("arena: %zu bytes asked for, %zu allowed", n, a->max);
	n = (n + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
	if (n == 0)
		n = ARENA_ALIGN; /* every allocation has an address of its own */
	if (n > a->max - a->held)
		fatal("arena: over its bound of %zu bytes", a->max);
	if (c == NULL || n > c->size - c->used)
		c = chunk_add(a, n);
	p = c->mem + c->used;
	c->used += n;
	a->held += n;
	assert(c->used <= c->size);
	return p;
}

struct str
arena_str(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + 1);

	if (s.n != 0)
		memcpy(p, s.p, s.n);
	return str_mem(p, s.n);
}
