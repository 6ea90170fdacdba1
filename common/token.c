/*
 * Shapes of tokens that say whose they are: core refuses a request for one, the agent a profile
 * that has one. Each is long and odd enough that ordinary text does not have it. Pure: looks at
 * bytes, keeps none.
 */
#include "common/token.h"

#include <string.h>

#include "common/cleanup.h"

#include "common/banned.h"

enum set { ALNUM, WORD, UPPER, BASE64URL };

static const struct shape {
	const char *prefix;
	size_t least; /* characters that follow */
	enum set set; /* of these */
	bool both;    /* a digit and a letter among them */
} shapes[] = {
    {"ghp_", 20, ALNUM, false},
    {"gho_", 20, ALNUM, false},
    {"ghu_", 20, ALNUM, false},
    {"ghs_", 20, ALNUM, false},
    {"ghr_", 20, ALNUM, false},
    {"github_pat_", 22, WORD, false},
    {"glpat-", 20, BASE64URL, false},
    {"gldt-", 20, BASE64URL, false},
    {"xoxa-", 10, BASE64URL, true},
    {"xoxb-", 10, BASE64URL, true},
    {"xoxp-", 10, BASE64URL, true},
    {"xoxr-", 10, BASE64URL, true},
    {"xoxs-", 10, BASE64URL, true},
    {"xapp-", 20, BASE64URL, true},
    {"sk-ant-", 20, BASE64URL, true},
    {"sk-proj-", 20, BASE64URL, true},
    {"sk-svcacct-", 20, BASE64URL, true},
    {"sk-or-v1-", 20, BASE64URL, true},
    {"sk-", 20, ALNUM, true},
    {"sk_live_", 16, ALNUM, true},
    {"rk_live_", 16, ALNUM, true},
    {"AKIA", 16, UPPER, false},
    {"ASIA", 16, UPPER, false},
    {"AIza", 35, BASE64URL, false},
    {"ya29.", 20, BASE64URL, false},
    {"npm_", 36, ALNUM, false},
    {"hf_", 30, ALNUM, false},
    {"pypi-AgE", 40, BASE64URL, false},
    {"dop_v1_", 40, ALNUM, false},
    {"hvs.", 20, BASE64URL, false},
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
in_set(char c, enum set set)
{
	switch (set) {
	case ALNUM: return is_digit(c) || is_letter(c);
	case WORD: return is_digit(c) || is_letter(c) || c == '_';
	case UPPER: return is_digit(c) || (c >= 'A' && c <= 'Z');
	case BASE64URL: return is_digit(c) || is_letter(c) || c == '_' || c == '-';
	}
	return false;
}

static size_t
run_of(struct str s, enum set set)
{
	size_t n = 0;

	while (n < s.n && in_set(s.p[n], set))
		n++;
	return n;
}

static bool
has_both(struct str s)
{
	bool digit = false, letter = false;

	for (size_t i = 0; i < s.n; i++) {
		digit = digit || is_digit(s.p[i]);
		letter = letter || is_letter(s.p[i]);
	}
	return digit && letter;
}

static struct str
from(struct str s, size_t at)
{
	return str_mem(s.p + at, s.n - at);
}

/* Bytes of the token that s begins with; 0: none. */
static size_t
shape_at(struct str s)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		size_t prefix = strlen(shapes[i].prefix), n;
		struct str rest;

		if (!str_has_prefix(s, shapes[i].prefix))
			continue;
		rest = from(s, prefix);
		n = run_of(rest, shapes[i].set);
		if (n >= shapes[i].least && (!shapes[i].both || has_both(str_mem(rest.p, n))))
			return prefix + n;
	}
	return 0;
}

/* A JSON Web Token: three parts of base64url, the first an object (RFC 7519). */
static size_t
jwt_at(struct str s)
{
	size_t a, b, c;

	if (!str_has_prefix(s, "eyJ"))
		return 0;
	a = run_of(s, BASE64URL);
	if (a < 10 || a >= s.n || s.p[a] != '.')
		return 0;
	b = run_of(from(s, a + 1), BASE64URL);
	if (b < 4 || a + 1 + b >= s.n || s.p[a + 1 + b] != '.')
		return 0;
	c = run_of(from(s, a + b + 2), BASE64URL);
	return a + b + c + 2;
}

static size_t
pem_at(struct str s)
{
	static const struct str end = STR("PRIVATE KEY");
	size_t look = s.n < 64 ? s.n : 64;

	if (!str_has_prefix(s, "-----BEGIN ") || memmem(s.p, look, end.p, end.n) == NULL)
		return 0;
	return s.n;
}

bool
token_find(struct str s, struct str *ret)
{
	for (size_t i = 0; i < s.n; i++) {
		struct str rest = from(s, i);
		size_t n;

		/* In the middle of a word it is another word: "task-", "risk-". */
		if (i > 0 && in_set(s.p[i - 1], ALNUM))
			continue;
		n = shape_at(rest);
		if (n == 0)
			n = jwt_at(rest);
		if (n == 0)
			n = pem_at(rest);
		if (n != 0) {
			*ret = str_mem(rest.p, n);
			return true;
		}
	}
	return false;
}
