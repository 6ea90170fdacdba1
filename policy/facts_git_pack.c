/*
 * The objects of a small pack, counted. Runs in cofferdam-parser alone, on bytes that the agent
 * chose: all is bounded by the pack, what it inflates to is thrown away, and nothing of it decides
 * anything. Must never call a count exact that is not.
 */
#include "policy/facts_git_pack.h"

#include <stdlib.h>
#include <zlib.h>

#include "common/buf.h"
#include "common/xalloc.h"
#include "policy/facts.h"

#include "common/banned.h"

#define INFLATED_MAX ((size_t)16 << 20)
#define HEAD ((size_t)12)

enum { UNKNOWN = 0, COMMIT = 1, TREE, BLOB, TAG, OFS_DELTA = 6, REF_DELTA = 7 };

struct object {
	size_t at; /* offset in the pack */
	uint8_t type;
};

struct pack {
	struct str all;
	size_t at, id, inflated;
	uint32_t n, count;
	struct object *objects;
	z_stream z;
};

static bool
byte(struct pack *p, uint8_t *ret)
{
	if (p->at >= p->all.n)
		return false;
	*ret = (uint8_t)p->all.p[p->at++];
	return true;
}

/* The size of what inflates is not believed: how much comes is counted. */
static bool
header(struct pack *p, uint8_t *ret_type)
{
	uint8_t b;

	if (!byte(p, &b))
		return false;
	*ret_type = b >> 4 & 7;
	while ((b & 0x80) != 0)
		if (!byte(p, &b))
			return false;
	return true;
}

static uint8_t
type_at(const struct pack *p, size_t at)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->objects[mid].at == at)
			return p->objects[mid].type;
		if (p->objects[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return UNKNOWN;
}

/* How far in front of it its base stands. */
static bool
base_type(struct pack *p, size_t begin, uint8_t *ret)
{
	uint8_t b;
	size_t back;

	if (!byte(p, &b))
		return false;
	back = b & 0x7f;
	while ((b & 0x80) != 0) {
		if (!byte(p, &b) || back > p->all.n)
			return false;
		back = (back + 1) << 7 | (b & 0x7f);
	}
	if (back == 0 || back > begin)
		return false;
	*ret = type_at(p, begin - back);
	return true;
}

static bool
skip_content(struct pack *p)
{
	uint8_t out[16384];
	int rc;

	if (inflateReset(&p->z) != Z_OK)
		return false;
	p->z.next_in = (Bytef *)(uintptr_t)(p->all.p + p->at);
	p->z.avail_in = (uInt)(p->all.n - p->at);
	do {
		p->z.next_out = out;
		p->z.avail_out = sizeof(out);
		rc = inflate(&p->z, Z_NO_FLUSH);
		p->inflated += sizeof(out) - p->z.avail_out;
	} while (rc == Z_OK && p->inflated <= INFLATED_MAX);
	p->at = p->all.n - p->z.avail_in;
	return rc == Z_STREAM_END;
}

static bool
object(struct pack *p)
{
	struct object *o = &p->objects[p->n];

	o->at = p->at;
	if (!header(p, &o->type))
		return false;
	if (o->type == OFS_DELTA) {
		if (!base_type(p, o->at, &o->type))
			return false;
	} else if (o->type == REF_DELTA) {
		if (p->all.n - p->at < p->id)
			return false;
		p->at += p->id;
		o->type = UNKNOWN;
	} else if (o->type < COMMIT || o->type > TAG) {
		return false;
	}
	p->n++;
	return skip_content(p);
}

static bool
objects(struct pack *p, struct git_pack *ret)
{
	*ret = (struct git_pack){.exact = true};
	for (uint32_t i = 0; i < p->count; i++) {
		if (!object(p))
			return false;
		ret->commits += p->objects[i].type == COMMIT;
		ret->exact = ret->exact && p->objects[i].type != UNKNOWN;
	}
	return p->all.n - p->at == p->id; /* a hash over it, and nothing else */
}

bool
facts_git_pack(struct str pack, size_t id, struct git_pack *ret)
{
	struct pack p = {.all = pack, .id = id, .at = HEAD};
	struct rd r = rd_init(pack);
	bool good;

	if (pack.n < HEAD || pack.n > FACTS_GIT_MAX || !str_has_prefix(pack, "PACK"))
		return false;
	(void)rd_u32(&r);
	if (rd_u32(&r) != 2)
		return false;
	p.count = rd_u32(&r);
	if (p.count > pack.n / 2 || inflateInit(&p.z) != Z_OK)
		return false;
	p.objects = xcalloc((size_t)p.count + 1, sizeof(*p.objects));
	good = objects(&p, ret);
	(void)inflateEnd(&p.z);
	free(p.objects);
	return good;
}
