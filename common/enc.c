/*
 * Text forms of bytes (hex, base64, base32, percent) and the kernel's randomness.
 * Contracts are in hash.h. Runs in every process; decoders take bytes from outside and
 * accept one spelling only, since two spellings of one value would be two digests.
 */
#include <errno.h>
#include <sys/random.h>

#include "common/hash.h"

#include "common/log.h"

#include "common/banned.h"

void
enc_hex(struct buf *out, struct str s)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t *p = s.n <= SIZE_MAX / 2 ? buf_grow(out, 2 * s.n) : NULL;

	for (size_t i = 0; p != NULL && i < s.n; i++) {
		p[2 * i] = (uint8_t)digits[(uint8_t)s.p[i] >> 4];
		p[2 * i + 1] = (uint8_t)digits[(uint8_t)s.p[i] & 15];
	}
}

#define NO_DIGIT 255u

static unsigned
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	return NO_DIGIT;
}

bool
enc_unhex(struct str s, struct buf *out)
{
	uint8_t *p;

	if (s.n % 2 != 0)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (hex_value(s.p[i]) == NO_DIGIT)
			return false;
	p = buf_grow(out, s.n / 2);
	if (p == NULL)
		return false;
	for (size_t i = 0; i < s.n / 2; i++)
		p[i] = (uint8_t)(hex_value(s.p[2 * i]) << 4 | hex_value(s.p[2 * i + 1]));
	return true;
}

static const char b64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
enc_base64(struct buf *out, struct str s)
{
	const uint8_t *in = (const uint8_t *)s.p;
	uint8_t *p = s.n <= SIZE_MAX / 2 ? buf_grow(out, (s.n + 2) / 3 * 4) : NULL;

	for (size_t i = 0; p != NULL && i < s.n; i += 3, p += 4) {
		size_t left = s.n - i;
		uint32_t v = (uint32_t)in[i] << 16;

		if (left > 1)
			v |= (uint32_t)in[i + 1] << 8;
		if (left > 2)
			v |= in[i + 2];
		p[0] = (uint8_t)b64[v >> 18];
		p[1] = (uint8_t)b64[v >> 12 & 63];
		p[2] = (uint8_t)(left > 1 ? b64[v >> 6 & 63] : '=');
		p[3] = (uint8_t)(left > 2 ? b64[v & 63] : '=');
	}
}

static unsigned
b64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : NO_DIGIT;
}

bool
enc_unbase64(struct str s, struct buf *out)
{
	size_t pad = 0, digits;
	uint32_t v = 0;
	uint8_t *p;

	if (s.n % 4 != 0)
		return false;
	while (pad < 2 && pad < s.n && s.p[s.n - 1 - pad] == '=')
		pad++;
	digits = s.n - pad;
	for (size_t i = 0; i < digits; i++)
		if (b64_value(s.p[i]) == NO_DIGIT)
			return false;
	/* Spare bits below the last byte must be zero, or several texts mean the same. */
	if (pad != 0 && (b64_value(s.p[digits - 1]) & (pad == 1 ? 3u : 15u)) != 0)
		return false;
	p = buf_grow(out, s.n / 4 * 3 - pad);
	if (p == NULL)
		return false;
	for (size_t i = 0; i < digits; i++) {
		v = v << 6 | b64_value(s.p[i]);
		if (i % 4 != 0)
			*p++ = (uint8_t)(v >> (6 - 2 * (i % 4)));
	}
	return true;
}

void
enc_base32(struct buf *out, struct str s)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint32_t v = 0;
	unsigned bits = 0;

	for (size_t i = 0; i < s.n; i++) {
		v = v << 8 | (uint8_t)s.p[i];
		bits += 8;
		while (bits >= 5) {
			bits -= 5;
			buf_put_c(out, digits[v >> bits & 31]);
		}
	}
	if (bits != 0)
		buf_put_c(out, digits[v << (5 - bits) & 31]);
}

void
enc_percent(struct buf *out, struct str s)
{
	enc_percent_of(out, s, "%");
}

void
enc_percent_of(struct buf *out, struct str s, const char *too)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (c >= 0x20 && c <= 0x7e && strchr(too, (char)c) == NULL) {
			buf_put_c(out, (char)c);
			continue;
		}
		buf_put_c(out, '%');
		buf_put_c(out, digits[c >> 4]);
		buf_put_c(out, digits[c & 15]);
	}
}

int
enc_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void
enc_unpercent(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		int hi = i + 2 < s.n && s.p[i] == '%' ? enc_hex_digit(s.p[i + 1]) : -1;
		int lo = hi >= 0 ? enc_hex_digit(s.p[i + 2]) : -1;

		if (lo < 0) {
			buf_put_c(out, s.p[i]);
			continue;
		}
		buf_put_c(out, (char)(hi << 4 | lo));
		i += 2;
	}
}

void
rand_bytes(void *p, size_t n)
{
	uint8_t *to = p;

	while (n != 0) {
		ssize_t k = getrandom(to, n, 0);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			fatal("getrandom: no randomness from the kernel");
		to += k;
		n -= (size_t)k;
	}
}
