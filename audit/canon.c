/*
 * The canonical form of records. Runs in the writer (on `data` from core), in the verifier and
 * the command line (on whatever lies on disk). Trusts no byte; never repairs, never allocates,
 * descends at most the depth it is told.
 */
#include "audit/canon.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <endian.h>
#include <inttypes.h>

#include "common/banned.h"

#define INT_DIGITS "9007199254740991" /* 2^53 - 1 */

struct scan {
	const char *begin, *p, *end;
	unsigned depth_max;
	const char *why;
	const char *want; /* of the outermost object: this member's value goes to got */
	struct str got;
};

static bool
bad(struct scan *s, const char *why)
{
	s->why = why;
	return false;
}

static bool
is_control_escape(const char *p)
{
	/* \u00 and two lower-case digits below 0x20, but not what has a short form, nor NUL. */
	int hi = p[4] - '0', lo;

	if (p[2] != '0' || p[3] != '0' || (hi != 0 && hi != 1))
		return false;
	if (p[5] >= '0' && p[5] <= '9')
		lo = p[5] - '0';
	else if (p[5] >= 'a' && p[5] <= 'f')
		lo = p[5] - 'a' + 10;
	else
		return false;
	lo |= hi << 4;
	return lo != 0 && lo != '\b' && lo != '\t' && lo != '\n' && lo != '\f' && lo != '\r';
}

static bool
scan_escape(struct scan *s)
{
	if (s->end - s->p >= 2 && s->p[1] != '\0' && strchr("\"\\bfnrt", s->p[1]) != NULL) {
		s->p += 2;
		return true;
	}
	if (s->end - s->p >= 6 && s->p[1] == 'u' && is_control_escape(s->p)) {
		s->p += 6;
		return true;
	}
	return bad(s, "escape is not in the canonical form");
}

static bool
scan_utf8(struct scan *s)
{
	for (size_t n = 2; n <= 4 && n <= (size_t)(s->end - s->p); n++) {
		if (str_is_utf8(str_mem(s->p, n))) {
			s->p += n;
			return true;
		}
	}
	return bad(s, "invalid UTF-8");
}

/*
 * The top bit of each of these eight bytes that ends plain text: a quote, a backslash, a control, a
 * byte over 0x7f. By the usual test for a zero byte, which may err only above one that is found.
 */
static uint64_t
ends_plain(uint64_t w)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	uint64_t quote = w ^ ones * '"', back = w ^ ones * '\\';

	return (w | ((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) |
		   ((back - ones) & ~back)) &
	       tops;
}

/* To the first byte that ends plain text, if eight bytes can be looked at; else not so far. */
static inline void
skip_plain(struct scan *s)
{
	const char *p = s->p;
	uint64_t w;

#ifdef __SSE2__
	/* As signed bytes, a control and a byte over 0x7f are both below a space. */
	while (s->end - p >= 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i stop = _mm_or_si128(_mm_cmplt_epi8(v, _mm_set1_epi8(0x20)),
		    _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
			_mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
		unsigned at = (unsigned)_mm_movemask_epi8(stop);

		if (at != 0) {
			s->p = p + __builtin_ctz(at);
			return;
		}
		p += 16;
	}
#endif
	while (s->end - p >= 8) {
		memcpy(&w, p, 8);
		w = ends_plain(le64toh(w));
		if (w != 0) {
			p += __builtin_ctzll(w) / 8;
			break;
		}
		p += 8;
	}
	s->p = p;
}

/* At the opening quote; leaves s behind the closing one. */
static bool
scan_string(struct scan *s)
{
	if (s->p == s->end || *s->p != '"')
		return bad(s, "a string must begin here");
	s->p++;
	skip_plain(s);
	while (s->p < s->end) {
		uint8_t c = (uint8_t)*s->p;

		if (c == '"') {
			s->p++;
			return true;
		}
		if (c < 0x20)
			return bad(s, "raw control character in a string");
		if (c == '\\') {
			if (!scan_escape(s))
				return false;
			skip_plain(s);
		} else if (c < 0x80) {
			s->p++;
		} else if (!scan_utf8(s)) {
			return false;
		}
	}
	return bad(s, "string does not end");
}

static bool
scan_int(struct scan *s)
{
	const char *from;
	bool minus = *s->p == '-';
	size_t n;

	if (minus)
		s->p++;
	from = s->p;
	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	n = (size_t)(s->p - from);
	if (n == 0)
		return bad(s, "a value must begin here");
	if (*from == '0' && (n > 1 || minus))
		return bad(s, "integer is not in the canonical form");
	if (n > strlen(INT_DIGITS) || (n == strlen(INT_DIGITS) && memcmp(from, INT_DIGITS, n) > 0))
		return bad(s, "integer must be within 2^53 - 1");
	return true;
}

static bool
scan_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return bad(s, "a value must begin here");
	s->p += n;
	return true;
}

/* One byte of a key with escapes undone. The key passed scan_string. */
static uint8_t
key_step(struct str *k)
{
	static const char escapes[] = "\"\\bfnrt", escaped[] = "\"\\\b\f\n\r\t";
	uint8_t c = (uint8_t)*k->p;
	size_t used = 1;

	if (c == '\\') {
		const char *e = strchr(escapes, k->p[1]);

		used = e != NULL ? 2 : 6;
		if (e != NULL)
			c = (uint8_t)escaped[e - escapes];
		else
			c = (uint8_t)((k->p[4] - '0') << 4 |
				      (k->p[5] <= '9' ? k->p[5] - '0' : k->p[5] - 'a' + 10));
	}
	k->p += used;
	k->n -= used;
	return c;
}

/*
 * RFC 8785 3.2.3 sorts by UTF-16 units: byte order of UTF-8, but that characters beyond the
 * first plane (lead byte F0 and up) stand before U+E000 (EE).
 */
static unsigned
weight(uint8_t c)
{
	return c >= 0xf0 ? 0xed * 2 + 1 : c * 2u;
}

static bool
key_before(struct str a, struct str b)
{
	size_t same = 0, n = a.n < b.n ? a.n : b.n;

	while (same < n && a.p[same] == b.p[same] && a.p[same] != '\\')
		same++;
	if (same < n && (uint8_t)a.p[same] < 0x80 && (uint8_t)b.p[same] < 0x80 &&
	    a.p[same] != '\\' && b.p[same] != '\\')
		return a.p[same] < b.p[same];
	while (a.n != 0 && b.n != 0) {
		uint8_t x = key_step(&a), y = key_step(&b);

		if (weight(x) != weight(y))
			return weight(x) < weight(y);
		if (x != y)
			return x < y;
	}
	return a.n == 0 && b.n != 0;
}

static bool scan_value(struct scan *s, unsigned depth);

static bool
scan_members(struct scan *s, unsigned depth)
{
	struct str last = STR_NONE, key;

	for (;;) {
		const char *at = s->p;

		if (!scan_string(s))
			return false;
		key = (struct str){at + 1, (size_t)(s->p - at) - 2};
		if (last.p != NULL && !key_before(last, key)) {
			s->p = at;
			return bad(s, "keys must ascend and be unique");
		}
		last = key;
		if (s->p == s->end || *s->p != ':')
			return bad(s, "a colon must stand here");
		at = ++s->p;
		if (!scan_value(s, depth))
			return false;
		if (depth == 1 && s->want != NULL && str_eqz(key, s->want))
			s->got = str_mem(at, (size_t)(s->p - at));
		if (s->p == s->end || (*s->p != ',' && *s->p != '}'))
			return bad(s, "a comma or brace must stand here");
		if (*s->p++ == '}')
			return true;
	}
}

static bool
scan_elements(struct scan *s, unsigned depth)
{
	for (;;) {
		if (!scan_value(s, depth))
			return false;
		if (s->p == s->end || (*s->p != ',' && *s->p != ']'))
			return bad(s, "a comma or bracket must stand here");
		if (*s->p++ == ']')
			return true;
	}
}

static bool
scan_value(struct scan *s, unsigned depth)
{
	if (s->p == s->end)
		return bad(s, "a value must begin here");
	switch (*s->p) {
	case '"': return scan_string(s);
	case 't': return scan_word(s, "true");
	case 'f': return scan_word(s, "false");
	case '{':
	case '[': break;
	default: return scan_int(s);
	}
	if (depth >= s->depth_max)
		return bad(s, "nested too deep");
	if (s->end - s->p >= 2 && s->p[1] == (*s->p == '{' ? '}' : ']')) {
		s->p += 2;
		return true;
	}
	return *s->p++ == '{' ? scan_members(s, depth + 1) : scan_elements(s, depth + 1);
}

int
canon_check_member(
    struct str text, unsigned depth_max, const char *name, struct str *ret, struct err *err)
{
	struct scan s = {.begin = text.p,
	    .p = text.p,
	    .end = text.p + text.n,
	    .depth_max = depth_max,
	    .want = name};

	if (text.n == 0)
		return err_set(err, ERR_INVALID, "canonical JSON: empty");
	if (scan_value(&s, 0) && s.p != s.end)
		s.why = "bytes behind the value";
	if (s.why != NULL)
		return err_set(
		    err, ERR_INVALID, "canonical JSON: byte %td: %s", s.p - s.begin, s.why);
	if (ret != NULL)
		*ret = s.got;
	return 0;
}

int
canon_check(struct str text, struct err *err)
{
	return canon_check_member(text, CANON_DEPTH_MAX, NULL, NULL, err);
}

/* --- reading what passed ----------------------------------------------------------- */

/* Bytes of the value at the front of s, which passed the check. */
static size_t
value_len(struct str s)
{
	struct scan c = {.begin = s.p, .p = s.p, .end = s.p + s.n};
	unsigned depth = 0;

	while (c.p < c.end) {
		if (*c.p == '"') {
			if (!scan_string(&c))
				return 0;
		} else {
			if (*c.p == '{' || *c.p == '[')
				depth++;
			if (depth == 0 && (*c.p == ',' || *c.p == '}' || *c.p == ']'))
				return (size_t)(c.p - c.begin);
			if (*c.p == '}' || *c.p == ']')
				depth--;
			c.p++;
		}
		if (depth == 0 && (c.p[-1] == '"' || c.p[-1] == '}' || c.p[-1] == ']'))
			break;
	}
	return (size_t)(c.p - c.begin);
}

struct str
canon_get(struct str object, const char *key)
{
	struct scan s = {.begin = object.p, .p = object.p + 1, .end = object.p + object.n};
	struct str k;

	if (object.n < 2 || *object.p != '{' || object.p[1] == '}')
		return STR_NONE;
	for (const char *at = s.p; scan_string(&s) && s.p < s.end && *s.p == ':'; at = s.p) {
		size_t n = value_len(str_mem(s.p + 1, (size_t)(s.end - s.p) - 1));

		k = str_mem(at + 1, (size_t)(s.p - at) - 2);
		s.p++;
		if (n == 0)
			break;
		if (str_eqz(k, key))
			return str_mem(s.p, n);
		s.p += n;
		if (s.p == s.end || *s.p++ != ',')
			break;
	}
	return STR_NONE;
}

bool
canon_next(struct str array, size_t *at, struct str *ret)
{
	size_t from = *at == 0 ? 1 : *at, n;

	if (array.n < 2 || *array.p != '[' || from >= array.n || array.p[from] == ']')
		return false;
	n = value_len(str_mem(array.p + from, array.n - from));
	if (n == 0 || from + n >= array.n)
		return false;
	*ret = str_mem(array.p + from, n);
	*at = from + n + (array.p[from + n] == ',');
	return true;
}

struct str
canon_plain(struct str value)
{
	if (value.n < 2 || *value.p != '"' || memchr(value.p, '\\', value.n) != NULL)
		return STR_NONE;
	return str_mem(value.p + 1, value.n - 2);
}

bool
canon_u64(struct str value, uint64_t *ret)
{
	return str_to_u64(value, UINT64_MAX, ret);
}
