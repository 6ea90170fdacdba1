/*
 * Linked by core and upstream. What goes in has been checked by whoever parsed it: a name, a value,
 * a method or a target with a line feed in it would make the number ambiguous.
 */
#include "common/httplease.h"

#include <assert.h>

#include "common/banned.h"

static void
add(struct hash_ctx *c, struct str s)
{
	assert(s.n == 0 || memchr(s.p, '\n', s.n) == NULL);
	if (s.n != 0)
		hash_add(c, s.p, s.n);
}

struct hash
http_lease_hash(struct str method, struct str target, const struct http_field *f, size_t n)
{
	struct hash_ctx *c = hash_begin();

	add(c, method);
	hash_add(c, " ", 1);
	add(c, target);
	hash_add(c, "\n", 1);
	for (size_t i = 0; i < n; i++) {
		add(c, f[i].name);
		hash_add(c, ": ", 2);
		add(c, f[i].value);
		hash_add(c, "\n", 1);
	}
	return hash_end(c);
}
