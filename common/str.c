/*
 * Strings with a length. Runs in every process, on bytes from outside: nothing here
 * reads past n or stops at NUL.
 */
#include "common/str.h"

#include <stdlib.h>

#include "common/err.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct str
str_z(const char *z)
{
	return (struct str){z, z != NULL ? strlen(z) : 0};
}

struct str
str_mem(const void *p, size_t n)
{
	return (struct str){p, n};
}

bool
str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool
str_eqz(struct str a, const char *z)
{
	return str_eq(a, str_z(z));
}

static char
ascii_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool
str_ieq(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	return true;
}

bool
str_ieqz(struct str a, const char *z)
{
	return str_ieq(a, str_z(z));
}

bool
str_has_prefix(struct str a, const char *z)
{
	size_t n = strlen(z);

	return a.n >= n && memcmp(a.p, z, n) == 0;
}

bool
str_has_suffix(struct str a, const char *z)
{
	size_t n = strlen(z);

	return a.n >= n && memcmp(a.p + a.n - n, z, n) == 0;
}

int
str_cmp(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n != 0 ? memcmp(a.p, b.p, n) : 0;

	if (r != 0)
		return r;
	return (a.n > b.n) - (a.n < b.n);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str
str_trim(struct str s)
{
	while (s.n != 0 && is_blank(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n != 0 && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool
str_cut(struct str *s, char c, struct str *ret_head)
{
	const char *q = s->n != 0 ? memchr(s->p, c, s->n) : NULL;

	if (q == NULL)
		return false;
	*ret_head = str_mem(s->p, (size_t)(q - s->p));
	s->n -= ret_head->n + 1;
	s->p = q + 1;
	return true;
}

char *
str_dup(struct str s)
{
	char *p = xmalloc(s.n + 1);

	if (s.n != 0)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

bool
str_to_u64(struct str s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 20 || (s.n > 1 && s.p[0] == '0'))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			return false;
	}
	if (v > max)
		return false;
	*ret = v;
	return true;
}

/* Length of the well-formed sequence at p (RFC 3629, table in section 4), 0 if none. */
static size_t
utf8_len(const unsigned char *p, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		len = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		len = 3;
		if (p[0] == 0xe0)
			lo = 0xa0;
		if (p[0] == 0xed)
			hi = 0x9f;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		len = 4;
		if (p[0] == 0xf0)
			lo = 0x90;
		if (p[0] == 0xf4)
			hi = 0x8f;
	} else {
		return 0;
	}
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

bool
str_is_utf8(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;

	for (size_t i = 0; i < s.n;) {
		size_t len = utf8_len(p + i, s.n - i);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

bool
str_is_ascii_print(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return true;
}

int
str_text_check(const char *what, struct str s, size_t min, size_t max, struct err *err)
{
	if (s.n < min || s.n > max)
		return err_set(err, ERR_INVALID, "%s must have %zu to %zu bytes, has %zu", what,
		    min, max, s.n);
	for (size_t i = 0; i < s.n; i++)
		if (!str_is_ascii_print(str_mem(s.p + i, 1)))
			return err_set(err, ERR_INVALID,
			    "%s must be printable ASCII, byte %zu is 0x%02x", what, i + 1,
			    (unsigned char)s.p[i]);
	return 0;
}

bool
str_glob(struct str pattern, struct str s)
{
	size_t p = 0, i = 0, star = SIZE_MAX, mark = 0;

	while (i < s.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			mark = i;
		} else if (p < pattern.n && pattern.p[p] == s.p[i]) {
			p++;
			i++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			i = ++mark;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

bool
str_skip(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

bool
str_digits(struct str *s, size_t n, int *ret)
{
	int v = 0;

	if (s->n < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		v = v * 10 + (s->p[i] - '0');
	}
	s->p += n;
	s->n -= n;
	*ret = v;
	return true;
}
