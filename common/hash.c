/*
 * SHA-2 by OpenSSL and the comparison of digests. Runs in every process, on bytes of any
 * origin. A digest that cannot be computed ends the process: a wrong one would be worse.
 */
#include "common/hash.h"

#include "common/log.h"
#include "common/ossl.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct hash_ctx {
	EVP_MD_CTX *md;
};

static EVP_MD *sha256, *sha512;
static EVP_MD_CTX *once; /* for the one-shot forms; there are no threads */

/*
 * Before main: the first fetch makes OpenSSL read its configuration file, which a
 * confined process may no longer open.
 */
__attribute__((constructor)) static void
hash_fetch(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	sha512 = EVP_MD_fetch(NULL, "SHA512", NULL);
	once = EVP_MD_CTX_new();
	if (sha256 == NULL || sha512 == NULL || once == NULL)
		fatal("OpenSSL offers no SHA-2");
}

static void
begin(EVP_MD_CTX *md, const EVP_MD *alg)
{
	if (EVP_DigestInit_ex2(md, alg, NULL) != 1)
		fatal("OpenSSL: digest cannot start");
}

static void
add(EVP_MD_CTX *md, const void *p, size_t n)
{
	if (n != 0 && EVP_DigestUpdate(md, p, n) != 1)
		fatal("OpenSSL: digest failed");
}

static void
end(EVP_MD_CTX *md, uint8_t *out, unsigned want)
{
	unsigned n = 0;

	if (EVP_DigestFinal_ex(md, out, &n) != 1 || n != want)
		fatal("OpenSSL: digest cannot end");
}

struct hash_ctx *
hash_begin(void)
{
	struct hash_ctx *c = xcalloc(1, sizeof(*c));

	c->md = EVP_MD_CTX_new();
	if (c->md == NULL)
		fatal("OpenSSL: out of memory");
	begin(c->md, sha256);
	return c;
}

void
hash_add(struct hash_ctx *c, const void *p, size_t n)
{
	add(c->md, p, n);
}

struct hash
hash_end(struct hash_ctx *c)
{
	struct hash h = {{0}};

	end(c->md, h.b, HASH_LEN);
	EVP_MD_CTX_free(c->md);
	free(c);
	return h;
}

struct hash
hash_sha256_parts(const struct str *parts, size_t n)
{
	struct hash h = {{0}};

	begin(once, sha256);
	for (size_t i = 0; i < n; i++)
		add(once, parts[i].p, parts[i].n);
	end(once, h.b, HASH_LEN);
	return h;
}

struct hash
hash_sha256(struct str s)
{
	return hash_sha256_parts(&s, 1);
}

void
hash_sha512(struct str s, uint8_t out[64])
{
	begin(once, sha512);
	add(once, s.p, s.n);
	end(once, out, 64);
}

bool
hash_eq(const struct hash *a, const struct hash *b)
{
	return CRYPTO_memcmp(a->b, b->b, HASH_LEN) == 0;
}

void
hash_hex(const struct hash *h, char out[HASH_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < HASH_LEN; i++) {
		out[2 * i] = digits[h->b[i] >> 4];
		out[2 * i + 1] = digits[h->b[i] & 15];
	}
	out[HASH_HEX_SIZE - 1] = '\0';
}

/* Once or more for each record of a log: no allocation, and one test at the end. */
bool
hash_from_hex(struct str hex, struct hash *ret)
{
	static const uint8_t value[256] = {['0'] = 16,
	    17,
	    18,
	    19,
	    20,
	    21,
	    22,
	    23,
	    24,
	    25,
	    ['a'] = 26,
	    27,
	    28,
	    29,
	    30,
	    31}; /* 0:
		    no
		    digit
		  */
	uint8_t all = 16;
	struct hash h;

	if (hex.n != HASH_HEX_SIZE - 1)
		return false;
	for (size_t i = 0; i < HASH_LEN; i++) {
		uint8_t hi = value[(uint8_t)hex.p[2 * i]], lo = value[(uint8_t)hex.p[2 * i + 1]];

		all &= hi & lo;
		h.b[i] = (uint8_t)(hi << 4 | (lo & 15));
	}
	if (all == 0)
		return false;
	*ret = h;
	return true;
}
