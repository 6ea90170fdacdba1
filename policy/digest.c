/*
 * The action digest. Core computes it from what it is about to send; the command line and
 * tests recompute it. Field order and lengths are the format: see docs/format-approval.md.
 */
#include "policy/digest.h"

#include <assert.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const char domain[] = "cofferdam-action\0\1"; /* the literal's own NUL is not part of it */

struct digest {
	struct hash_ctx *ctx;
	int last;
};

struct digest *
digest_begin(void)
{
	struct digest *d = xcalloc(1, sizeof(*d));

	d->ctx = hash_begin();
	hash_add(d->ctx, domain, sizeof(domain) - 1);
	return d;
}

void
digest_field(struct digest *d, enum digest_tag tag, struct str v)
{
	uint8_t head[5] = {(uint8_t)tag, (uint8_t)(v.n >> 24), (uint8_t)(v.n >> 16),
	    (uint8_t)(v.n >> 8), (uint8_t)v.n};

	assert((int)tag > d->last && tag <= DIGEST_EFFECTS);
	assert(v.n <= UINT32_MAX);
	d->last = (int)tag;
	hash_add(d->ctx, head, sizeof(head));
	if (v.n != 0)
		hash_add(d->ctx, v.p, v.n);
}

struct hash
digest_end(struct digest *d)
{
	struct hash h = hash_end(d->ctx);

	free(d);
	return h;
}
