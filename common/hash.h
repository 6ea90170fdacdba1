/* SHA-256 (OpenSSL, fetched once), constant-time comparison, hex, base64, base32, random. */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include "common/buf.h"
#include "common/err.h"

#define HASH_LEN 32
#define HASH_HEX_SIZE 65

struct hash {
	uint8_t b[HASH_LEN];
};

struct hash_ctx; /* incremental */
struct hash_ctx *hash_begin(void);
void hash_add(struct hash_ctx *c, const void *p, size_t n);
struct hash hash_end(struct hash_ctx *c); /* frees c */
struct hash hash_sha256(struct str s);
struct hash hash_sha256_parts(const struct str *parts, size_t n); /* of the concatenation */
bool hash_eq(const struct hash *a, const struct hash *b);
void hash_hex(const struct hash *h, char out[HASH_HEX_SIZE]);
bool hash_from_hex(struct str hex, struct hash *ret); /* 64 lower-case digits */
void hash_sha512(struct str s, uint8_t out[64]);

void enc_hex(struct buf *out, struct str s);
bool enc_unhex(struct str s, struct buf *out);
/* RFC 4648 with padding. Decoding refuses white space, missing padding and non-zero spare bits. */
void enc_base64(struct buf *out, struct str s);
bool enc_unbase64(struct str s, struct buf *out);
/* RFC 4648 base32, lower case, no padding: 26 digits for 16 bytes. */
void enc_base32(struct buf *out, struct str s);
/* Percent-encode everything beyond printable ASCII, and '%'. */
void enc_percent(struct buf *out, struct str s);
/* And what stands in `too`, which must hold '%'. */
void enc_percent_of(struct buf *out, struct str s, const char *too);
/* "%" and two hex digits is a byte; all else stands as it is. */
void enc_unpercent(struct buf *out, struct str s);
int enc_hex_digit(char c); /* its value, in either case; -1: none */
/* Kernel randomness (getrandom); dies when there is none. */
void rand_bytes(void *p, size_t n);

#endif
