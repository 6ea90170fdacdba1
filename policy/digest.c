/*
 * The action digest. Core computes it from what it is about to send; the command line and
 * tests recompute it. Field order and lengths are the format: see docs/format-approval.md.
 */
#include "policy/digest.h"

#include <assert.h>
#include <sodium.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const char domain[] = "cofferdam-action\0\1"; /* the literal's own NUL is not part of it */

struct digest {
	struct hash_ctx *ctx;
	int last;
	struct digest_parts parts;
};

struct digest *
digest_begin(void)
{
	struct digest *d = xcalloc(1, sizeof(*d));

	d->ctx = hash_begin();
	hash_add(d->ctx, domain, sizeof(domain) - 1);
	return d;
}

/* The key is no secret: with it one could make two texts that seem one, and gain nothing. */
static uint64_t
short_hash(struct str v)
{
	static const unsigned char key[crypto_shorthash_KEYBYTES] = {0};
	uint64_t h = 0;
	unsigned char out[crypto_shorthash_BYTES];

	(void)crypto_shorthash(out, (const unsigned char *)v.p, v.n, key);
	memcpy(&h, out, sizeof(h));
	return h;
}

void
digest_field(struct digest *d, enum digest_tag tag, struct str v)
{
	uint8_t head[5] = {(uint8_t)tag, (uint8_t)(v.n >> 24), (uint8_t)(v.n >> 16),
	    (uint8_t)(v.n >> 8), (uint8_t)v.n};

	assert((int)tag > d->last && tag <= DIGEST_EFFECTS);
	assert(v.n <= UINT32_MAX);
	d->last = (int)tag;
	d->parts.present |= (uint16_t)(1u << tag);
	d->parts.h[tag] = short_hash(v);
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

struct hash
digest_end_parts(struct digest *d, struct digest_parts *ret)
{
	*ret = d->parts;
	return digest_end(d);
}

/* --- which field --------------------------------------------------------------------- */

const char *
digest_tag_name(enum digest_tag tag)
{
	switch (tag) {
	case DIGEST_PROTOCOL: return "protocol";
	case DIGEST_TARGET: return "target";
	case DIGEST_UPSTREAM: return "upstream";
	case DIGEST_UPSTREAM_ID: return "upstream_identity";
	case DIGEST_CREDENTIAL: return "credential";
	case DIGEST_AGENT: return "agent";
	case DIGEST_RUN: return "run";
	case DIGEST_OPERATION: return "operation";
	case DIGEST_RESOURCE: return "resource";
	case DIGEST_HEADERS: return "headers";
	case DIGEST_BODY: return "body";
	case DIGEST_PARAMETERS: return "parameters";
	case DIGEST_SESSION: return "session";
	case DIGEST_PRECONDITIONS: return "preconditions";
	case DIGEST_EFFECTS: return "effects";
	}
	return "none";
}

bool
digest_parts_same(const struct digest_parts *a, const struct digest_parts *b, enum digest_tag tag)
{
	unsigned bit = 1u << tag;

	return (a->present & bit) == (b->present & bit) && a->h[tag] == b->h[tag];
}

unsigned
digest_parts_differ(const struct digest_parts *a, const struct digest_parts *b)
{
	for (unsigned tag = DIGEST_PROTOCOL; tag <= DIGEST_EFFECTS; tag++)
		if (!digest_parts_same(a, b, (enum digest_tag)tag))
			return tag;
	return 0;
}

void
digest_parts_put(struct buf *out, const struct digest_parts *p)
{
	for (unsigned tag = DIGEST_PROTOCOL; tag <= DIGEST_EFFECTS; tag++) {
		if ((p->present & 1u << tag) != 0)
			enc_hex(out, str_mem(&p->h[tag], sizeof(p->h[tag])));
		else
			buf_put_z(out, "----------------");
	}
}

bool
digest_parts_read(struct str hex, struct digest_parts *ret)
{
	struct digest_parts p = {0};

	if (hex.n != DIGEST_PARTS_HEX)
		return false;
	for (unsigned tag = DIGEST_PROTOCOL; tag <= DIGEST_EFFECTS; tag++) {
		struct str one = str_mem(hex.p + (size_t)(tag - 1) * 16, 16);
		AUTO_BUF struct buf raw = BUF(8);

		if (one.p[0] == '-')
			continue;
		if (!enc_unhex(one, &raw) || raw.n != sizeof(p.h[tag]))
			return false;
		p.present |= (uint16_t)(1u << tag);
		memcpy(&p.h[tag], raw.p, raw.n);
	}
	*ret = p;
	return true;
}

struct hash
digest_sequence(const struct hash *steps, size_t n)
{
	static const char sequence[] = "cofferdam-sequence\0\1";
	uint8_t count[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
	struct str parts[] = {str_mem(sequence, sizeof(sequence) - 1),
	    str_mem((const char *)count, sizeof(count)),
	    str_mem((const char *)steps, n * sizeof(*steps))};

	assert(n != 0);
	return n == 1 ? steps[0] : hash_sha256_parts(parts, ARRAY_LEN(parts));
}
