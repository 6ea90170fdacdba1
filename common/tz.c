/*
 * Zone rules from TZif files (RFC 8536, 64-bit data). Runs where calendars are compiled:
 * command line and core. A file that is not entirely understood is refused and a zone that
 * is not known is an error, never UTC: a wrong zone is a freeze that ends an hour early.
 * The file comes from the system, but is read as if it did not.
 */
#include "common/tz.h"

#include <assert.h>

#include "common/buf.h"
#include "common/tz_rule.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TZ_HEADER 44
#define TZ_COUNT_MAX 20000u
#define OFF_MIN (-89999) /* RFC 8536 3.2: beyond -25 h and 26 h is no real offset */
#define OFF_MAX 93599

struct tz {
	size_t n, types;
	int64_t *at;	 /* transitions, ascending */
	uint8_t *type;	 /* what holds from at[i] on */
	int32_t *offset; /* by type */
	bool has_rule;
	struct tz_rule rule;
};

void
tz_free(struct tz *z)
{
	if (z == NULL)
		return;
	free(z->at);
	free(z->type);
	free(z->offset);
	free(z);
}

struct counts {
	uint32_t isut, isstd, leap, time, type, chars;
};

/* "TZif", version, 15 reserved, six counts. */
static int
header_parse(struct rd *r, struct counts *c, struct err *err)
{
	struct str magic = rd_bytes(r, 4);
	uint8_t version = rd_u8(r);

	(void)rd_bytes(r, 15);
	c->isut = rd_u32(r);
	c->isstd = rd_u32(r);
	c->leap = rd_u32(r);
	c->time = rd_u32(r);
	c->type = rd_u32(r);
	c->chars = rd_u32(r);
	if (r->bad || !str_eqz(magic, "TZif"))
		return err_set(err, ERR_INVALID, "not a TZif file");
	if (version != '2' && version != '3' && version != '4')
		return err_set(err, ERR_UNSUPPORTED,
		    "TZif version must be 2 to 4 (64-bit data), is 0x%02x", version);
	if (c->isut > TZ_COUNT_MAX || c->isstd > TZ_COUNT_MAX || c->leap > TZ_COUNT_MAX ||
	    c->time > TZ_COUNT_MAX || c->type > TZ_COUNT_MAX || c->chars > TZ_COUNT_MAX)
		return err_set(err, ERR_TOO_LARGE, "TZif counts must be at most %u", TZ_COUNT_MAX);
	return 0;
}

static size_t
block_size(const struct counts *c, size_t time_size)
{
	return c->time * time_size + c->time + c->type * (size_t)6 + c->chars +
	       c->leap * (time_size + 4) + c->isstd + c->isut;
}

static int
times_parse(struct rd *r, const struct counts *c, struct tz *z, struct err *err)
{
	z->n = c->time;
	z->types = c->type;
	z->at = xcalloc(c->time, sizeof(*z->at));
	z->type = xcalloc(c->time, 1);
	for (size_t i = 0; i < z->n; i++) {
		z->at[i] = (int64_t)rd_u64(r);
		if (i != 0 && z->at[i] <= z->at[i - 1])
			return err_set(err, ERR_INVALID, "transition times do not ascend");
	}
	for (size_t i = 0; i < z->n; i++) {
		z->type[i] = rd_u8(r);
		if (z->type[i] >= z->types)
			return err_set(
			    err, ERR_INVALID, "transition to a type that does not exist");
	}
	return 0;
}

static int
types_parse(struct rd *r, const struct counts *c, struct tz *z, struct err *err)
{
	z->offset = xcalloc(z->types, sizeof(*z->offset));
	for (size_t i = 0; i < z->types; i++) {
		int32_t off = (int32_t)rd_u32(r);
		uint8_t dst = rd_u8(r), name = rd_u8(r);

		if (off < OFF_MIN || off > OFF_MAX)
			return err_set(err, ERR_INVALID, "offset must be from %d to %d, is %d",
			    OFF_MIN, OFF_MAX, off);
		if (dst > 1 || name >= c->chars)
			return err_set(err, ERR_INVALID, "malformed type");
		z->offset[i] = off;
	}
	return 0;
}

/* The 64-bit block; names and the standard/UT indicators do not matter to us. */
static int
block_parse(struct rd *r, struct tz *z, struct err *err)
{
	struct counts c;
	int e;

	if ((e = header_parse(r, &c, err)) != 0)
		return e;
	if (c.type == 0 || c.type > 256 || c.chars == 0)
		return err_set(err, ERR_INVALID, "types must be 1 to 256, are %u", c.type);
	if ((c.isut != 0 && c.isut != c.type) || (c.isstd != 0 && c.isstd != c.type))
		return err_set(err, ERR_INVALID, "indicator counts do not match");
	/* The "right/" files count TAI seconds: every instant would be off by half a minute. */
	if (c.leap != 0)
		return err_set(err, ERR_UNSUPPORTED, "zone counts leap seconds");
	if (block_size(&c, 8) > r->n)
		return err_set(err, ERR_INVALID, "TZif file is cut short");
	if ((e = times_parse(r, &c, z, err)) != 0 || (e = types_parse(r, &c, z, err)) != 0)
		return e;
	(void)rd_bytes(r, c.chars + (size_t)c.isstd + c.isut);
	return 0;
}

/* LF, POSIX rule or nothing, LF, end of file. */
static int
footer_parse(struct rd *r, struct tz *z, struct err *err)
{
	struct str f = rd_bytes(r, r->n);

	if (f.n < 2 || f.p[0] != '\n' || f.p[f.n - 1] != '\n')
		return err_set(err, ERR_INVALID, "TZif footer is missing");
	f = str_mem(f.p + 1, f.n - 2);
	if (f.n == 0)
		return 0;
	z->has_rule = true;
	return tz_rule_parse(f, &z->rule, err);
}

int
tz_parse(struct str tzif, struct tz **ret, struct err *err)
{
	AUTO(tz) struct tz *z = xcalloc(1, sizeof(*z));
	struct rd r = rd_init(tzif);
	struct counts v1;
	int e;

	if ((e = header_parse(&r, &v1, err)) != 0)
		return e;
	(void)rd_bytes(&r, block_size(&v1, 4));
	if ((e = block_parse(&r, z, err)) != 0 || (e = footer_parse(&r, z, err)) != 0)
		return e;
	assert(!r.bad);
	*ret = TAKE_PTR(z);
	return 0;
}

int32_t
tz_offset(const struct tz *z, int64_t t)
{
	size_t lo = 0, hi = z->n;

	if (z->n == 0)
		return z->has_rule ? tz_rule_offset(&z->rule, t) : z->offset[0];
	if (t < z->at[0])
		return z->offset[0]; /* RFC 8536 3.2: type 0 before the first */
	if (t >= z->at[z->n - 1] && z->has_rule)
		return tz_rule_offset(&z->rule, t);
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (z->at[mid] <= t)
			lo = mid;
		else
			hi = mid;
	}
	return z->offset[z->type[lo]];
}

/* --- from wall clock to instants ------------------------------------------------------ */

/* Widen out[] (n valid entries, first and last are kept) by local - off, if it reads local. */
static int
try_offset(const struct tz *z, int64_t local, int32_t off, int64_t out[2], int n)
{
	int64_t t = local - off;

	if (tz_offset(z, t) != off)
		return n;
	if (n == 0) {
		out[0] = t;
		return 1;
	}
	if (t == out[0] || (n == 2 && t == out[1]))
		return n;
	if (n == 1)
		out[1] = out[0];
	if (t < out[0])
		out[0] = t;
	if (t > out[1])
		out[1] = t;
	return 2;
}

/* No instant reads local: find the jump that skipped it. */
static void
gap(const struct tz *z, int64_t local, int64_t out[2])
{
	int64_t lo = local - OFF_MAX - 1, hi = local - OFF_MIN + 1; /* reads before; reads after */
	int32_t before, after;

	while (hi - lo > 1) {
		int64_t mid = lo + (hi - lo) / 2;

		if (mid + tz_offset(z, mid) > local)
			hi = mid;
		else
			lo = mid;
	}
	before = tz_offset(z, hi - 1);
	after = tz_offset(z, hi);
	assert(after > before);
	out[0] = local - after;
	out[1] = local - before;
}

int
tz_local(const struct tz *z, int64_t local_s, int64_t out[2])
{
	const int64_t far = INT64_MAX / 4; /* so that no sum below can overflow */
	int n = 0;

	if (local_s > far)
		local_s = far;
	if (local_s < -far)
		local_s = -far;
	for (size_t i = 0; i < z->types; i++)
		n = try_offset(z, local_s, z->offset[i], out, n);
	if (z->has_rule) {
		n = try_offset(z, local_s, z->rule.std, out, n);
		n = try_offset(z, local_s, z->rule.dst, out, n);
	}
	if (n == 0)
		gap(z, local_s, out);
	return n;
}
