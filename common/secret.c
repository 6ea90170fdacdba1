/*
 * Secrets in libsodium's guarded memory: locked, out of core dumps, between guard pages,
 * wiped when freed. Linked by core, upstream, writer and the command line alone.
 * Never logs, never copies into ordinary memory, never says in a message what it held.
 */
#include "common/secret.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct secret {
	size_t n;
	uint8_t *b; /* guarded */
};

struct secret *
secret_new(size_t n)
{
	struct secret *s;

	if (sodium_init() < 0)
		fatal("libsodium cannot start");
	s = xcalloc(1, sizeof(*s));
	s->n = n;
	s->b = sodium_malloc(n);
	if (s->b == NULL)
		fatal("no guarded memory for %zu bytes (see RLIMIT_MEMLOCK)", n);
	if (n != 0)
		sodium_memzero(s->b, n);
	return s;
}

struct secret *
secret_copy(struct str s)
{
	struct secret *c = secret_new(s.n);

	if (s.n != 0)
		memcpy(c->b, s.p, s.n);
	return c;
}

void
secret_free(struct secret *s)
{
	if (s == NULL)
		return;
	sodium_free(s->b); /* wipes */
	free(s);
}

void
secret_hide(struct secret *s)
{
	if (sodium_mprotect_noaccess(s->b) != 0)
		fatal("guarded memory cannot be hidden: %s", strerror(errno));
}

void
secret_show(struct secret *s)
{
	if (sodium_mprotect_readwrite(s->b) != 0)
		fatal("guarded memory cannot be shown: %s", strerror(errno));
}

uint8_t *
secret_bytes(struct secret *s)
{
	return s->b;
}

struct str
secret_str(const struct secret *s)
{
	return str_mem(s->b, s->n);
}

static ssize_t
read_some(int fd, uint8_t *p, size_t n)
{
	ssize_t k;

	do
		k = read(fd, p, n);
	while (k < 0 && errno == EINTR);
	return k;
}

int
secret_read_fd(int fd, size_t max, struct secret **ret, struct err *err)
{
	/* One byte more than allowed, in guarded memory too, to see that there is more. */
	AUTO(secret) struct secret *all = NULL;
	size_t n = 0;

	assert(max < SIZE_MAX);
	all = secret_new(max + 1);
	for (;;) {
		ssize_t k = read_some(fd, all->b + n, max + 1 - n);

		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading a secret");
		if (k == 0)
			break;
		n += (size_t)k;
		if (n > max)
			return err_set(
			    err, ERR_TOO_LARGE, "secret must be at most %zu bytes, is longer", max);
	}
	*ret = secret_copy(str_mem(all->b, n));
	return 0;
}
