/*
 * CBOR and COSE keys, as authenticators write them. Runs where WebAuthn is checked: core, the
 * console, the command line. The bytes come from a browser, so: one encoding for each value,
 * definite lengths, and no recursion.
 */
#include "common/sig_cose.h"

#include "common/sig_ecdsa.h"

#include "common/banned.h"

#define DEPTH_MAX 8
#define ITEMS_MAX 64
#define COORDINATE 32

bool
cbor_head(struct rd *r, enum cbor_major *ret_major, uint64_t *ret_n)
{
	static const uint64_t shortest[] = {24, 1 << 8, 1 << 16, (uint64_t)1 << 32};
	uint8_t first = rd_u8(r), info = first & 0x1f;
	uint64_t n = info;

	if (info >= 24 && info <= 27)
		n = info == 24	 ? rd_u8(r)
		    : info == 25 ? rd_u16(r)
		    : info == 26 ? rd_u32(r)
				 : rd_u64(r);
	/* Of major type 7 these are floats, whose every bit says something. */
	if (r->bad || info > 27 ||
	    (info >= 24 && first >> 5 != CBOR_SIMPLE && n < shortest[info - 24]))
		return false;
	*ret_major = (enum cbor_major)(first >> 5);
	*ret_n = n;
	return true;
}

bool
cbor_string(struct rd *r, enum cbor_major major, struct str *ret)
{
	enum cbor_major m;
	uint64_t n;

	if (!cbor_head(r, &m, &n) || m != major || n > r->n)
		return false;
	*ret = rd_bytes(r, (size_t)n);
	return !r->bad;
}

/* What stands behind a head: items of a container, bytes of a string. False: too much. */
static bool
skip_behind(struct rd *r, enum cbor_major m, uint64_t n, uint64_t *ret_items)
{
	*ret_items = 0;
	switch (m) {
	case CBOR_BYTES:
	case CBOR_TEXT:
		if (n > r->n)
			return false;
		(void)rd_bytes(r, (size_t)n);
		return true;
	case CBOR_ARRAY:
	case CBOR_MAP: *ret_items = m == CBOR_MAP ? 2 * n : n; return n <= ITEMS_MAX;
	case CBOR_TAG: *ret_items = 1; return true;
	case CBOR_UINT:
	case CBOR_NINT: return true;
	case CBOR_SIMPLE: return true;
	}
	return false;
}

bool
cbor_skip(struct rd *r)
{
	uint64_t left[DEPTH_MAX] = {1}; /* items still owed at each depth */
	size_t depth = 0;

	for (unsigned items = 0; items < ITEMS_MAX; items++) {
		enum cbor_major m;
		uint64_t n, inner;

		while (left[depth] == 0) {
			if (depth == 0)
				return true;
			depth--;
		}
		left[depth]--;
		if (!cbor_head(r, &m, &n) || !skip_behind(r, m, n, &inner))
			return false;
		if (inner == 0)
			continue;
		if (++depth == DEPTH_MAX)
			return false;
		left[depth] = inner;
	}
	while (depth != 0 && left[depth] == 0)
		depth--;
	return left[depth] == 0;
}

/* A map's member whose key and value are small numbers; negative ones as such. */
static bool
number(struct rd *r, int64_t *ret)
{
	enum cbor_major m;
	uint64_t n;

	if (!cbor_head(r, &m, &n) || n > 1000 || (m != CBOR_UINT && m != CBOR_NINT))
		return false;
	*ret = m == CBOR_UINT ? (int64_t)n : -1 - (int64_t)n;
	return true;
}

static bool
pair(struct rd *r, int64_t key, int64_t *ret)
{
	int64_t k;

	return number(r, &k) && k == key && number(r, ret);
}

static bool
coordinate(struct rd *r, int64_t key, struct str *ret)
{
	int64_t k;

	return number(r, &k) && k == key && cbor_string(r, CBOR_BYTES, ret) && ret->n == COORDINATE;
}

/* RFC 9053 7.1, 7.2: kty 1, alg 3, crv -1, x -2, y -3, in this order (CTAP2). */
bool
cose_key_read(struct rd *r, struct sig_pubkey *ret)
{
	struct sig_pubkey k = {.form = SIG_FORM_WEBAUTHN, .hardware = true};
	enum cbor_major m;
	uint64_t n;
	int64_t kty, alg, crv;
	struct str x, y;

	if (!cbor_head(r, &m, &n) || m != CBOR_MAP || !pair(r, 1, &kty) || !pair(r, 3, &alg) ||
	    !pair(r, -1, &crv) || !coordinate(r, -2, &x))
		return false;
	if (n == 4 && kty == 1 && alg == -8 && crv == 6) {
		k.alg = SIG_ED25519;
		memcpy(k.pub, x.p, COORDINATE);
	} else if (n == 5 && kty == 2 && alg == -7 && crv == 1 && coordinate(r, -3, &y)) {
		k.alg = SIG_P256;
		k.pub[0] = 4;
		memcpy(k.pub + 1, x.p, COORDINATE);
		memcpy(k.pub + 1 + COORDINATE, y.p, COORDINATE);
		if (!sig_ecdsa_point(SIG_P256, str_mem(k.pub, sig_pub_size(SIG_P256))))
			return false;
	} else {
		return false;
	}
	*ret = k;
	return true;
}

void
cose_key_put(struct buf *out, const struct sig_pubkey *k)
{
	static const uint8_t ec2[] = {0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20},
			     y[] = {0x22, 0x58, 0x20},
			     okp[] = {0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20};

	if (k->alg == SIG_ED25519) {
		buf_put(out, okp, sizeof(okp));
		buf_put(out, k->pub, COORDINATE);
		return;
	}
	buf_put(out, ec2, sizeof(ec2));
	buf_put(out, k->pub + 1, COORDINATE);
	buf_put(out, y, sizeof(y));
	buf_put(out, k->pub + 1 + COORDINATE, COORDINATE);
}
