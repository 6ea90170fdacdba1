/*
 * The strict JSON scan. Runs in every process that reads JSON, mostly on bytes of an
 * attacker. Decides alone what is JSON and notes where each value stands; cJSON sees only
 * what passed here. Never repairs, never rounds a number; recursion ends at JSON_DEPTH_MAX.
 */
#include "common/json_scan.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct scan {
	const char *name;
	struct str text;
	bool numbers; /* also those that are no integers of 53 bits */
	size_t i;
	struct json *v;
	size_t n, cap;
	struct err *err;
};

void
json_scan_where(struct str text, size_t off, unsigned *line, unsigned *col)
{
	*line = *col = 1;
	for (size_t i = 0; i < off && i < text.n; i++) {
		if (text.p[i] == '\n') {
			++*line;
			*col = 1;
		} else if (((uint8_t)text.p[i] & 0xc0) != 0x80) {
			++*col; /* characters, not bytes */
		}
	}
}

static int fail_at(struct scan *s, size_t off, int code, const char *fmt, ...) PRINTF_LIKE(4, 5);

static int
fail_at(struct scan *s, size_t off, int code, const char *fmt, ...)
{
	char msg[256];
	unsigned line, col;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	json_scan_where(s->text, off, &line, &col);
	return err_set(s->err, code, "%s:%u:%u: %s", s->name, line, col, msg);
}

static int
peek(const struct scan *s)
{
	return s->i < s->text.n ? (uint8_t)s->text.p[s->i] : -1;
}

static int
fail_here(struct scan *s, const char *wanted)
{
	int c = peek(s);

	if (c < 0)
		return fail_at(s, s->i, ERR_SYNTAX, "%s expected, text ends", wanted);
	if (c > 0x20 && c < 0x7f)
		return fail_at(s, s->i, ERR_SYNTAX, "%s expected, not '%c'", wanted, c);
	return fail_at(s, s->i, ERR_SYNTAX, "%s expected, not byte 0x%02x", wanted, (unsigned)c);
}

static void
skip_space(struct scan *s)
{
	int c;

	while ((c = peek(s)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		s->i++;
}

static struct json *
note(struct scan *s, enum json_type type, size_t off)
{
	if (s->n == s->cap) {
		s->cap = s->cap != 0 ? s->cap * 2 : 16;
		s->v = xreallocarray(s->v, s->cap, sizeof(*s->v));
	}
	s->v[s->n] = (struct json){.type = type, .off = (uint32_t)off};
	return &s->v[s->n++];
}

static int
hex4(struct scan *s, unsigned *ret)
{
	unsigned v = 0;

	for (int k = 0; k < 4; k++, s->i++) {
		int c = peek(s);

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (unsigned)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			v = v << 4 | (unsigned)(c - 'A' + 10);
		else
			return fail_here(s, "hexadecimal digit");
	}
	*ret = v;
	return 0;
}

/* At the character after the backslash. */
static int
scan_escape(struct scan *s)
{
	size_t at = s->i - 1;
	int c = peek(s), r;
	unsigned u, lo;

	if (c < 0 || strchr("\"\\/bfnrtu", c) == NULL || c == '\0')
		return fail_here(s, "escape character");
	s->i++;
	if (c != 'u')
		return 0;
	if ((r = hex4(s, &u)) != 0)
		return r;
	/* cJSON would end the string here, and so would every C string after it. */
	if (u == 0)
		return fail_at(s, at, ERR_SYNTAX, "\\u0000 is not allowed");
	if (u < 0xd800 || u > 0xdfff)
		return 0;
	if (u > 0xdbff || peek(s) != '\\' || s->i + 1 >= s->text.n || s->text.p[s->i + 1] != 'u')
		return fail_at(s, at, ERR_SYNTAX, "lone surrogate \\u%04x", u);
	s->i += 2;
	if ((r = hex4(s, &lo)) != 0)
		return r;
	if (lo < 0xdc00 || lo > 0xdfff)
		return fail_at(s, at, ERR_SYNTAX, "lone surrogate \\u%04x", u);
	return 0;
}

/* At the opening quote. UTF-8 was checked for the whole text before. */
static int
scan_string(struct scan *s)
{
	int c, r;

	s->i++;
	while ((c = peek(s)) != '"') {
		if (c < 0)
			return fail_here(s, "closing quote");
		if (c < 0x20)
			return fail_at(s, s->i, ERR_SYNTAX,
			    "control character 0x%02x in a string, must be escaped", (unsigned)c);
		s->i++;
		if (c == '\\' && (r = scan_escape(s)) != 0)
			return r;
	}
	s->i++;
	return 0;
}

/* One digit or more. */
static int
scan_digits(struct scan *s)
{
	size_t from = s->i;
	int c;

	while ((c = peek(s)) >= '0' && c <= '9')
		s->i++;
	return s->i != from ? 0 : fail_here(s, "digit");
}

static int
scan_number(struct scan *s, int64_t *ret)
{
	size_t at = s->i;
	bool minus = peek(s) == '-';
	uint64_t v;
	size_t from;
	int c, r;

	s->i += minus;
	from = s->i;
	if ((r = scan_digits(s)) != 0)
		return r;
	c = peek(s);
	if (c == '.' || c == 'e' || c == 'E')
		return fail_at(
		    s, at, ERR_SYNTAX, "number must be an integer, without fraction or exponent");
	if (s->text.p[from] == '0' && (minus || s->i - from > 1))
		return fail_at(s, at, ERR_SYNTAX,
		    minus && s->i - from == 1 ? "-0 is not allowed" : "leading zero in a number");
	if (!str_to_u64(str_mem(s->text.p + from, s->i - from), (uint64_t)JSON_INT_MAX, &v))
		return fail_at(s, at, ERR_INVALID, "number must be from -%lld to %lld",
		    (long long)JSON_INT_MAX, (long long)JSON_INT_MAX);
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return 0;
}

/* Any number of RFC 8259; `type` and `num` of *v are set. */
static int
scan_any_number(struct scan *s, struct json *v)
{
	size_t at = s->i;
	bool minus = peek(s) == '-', plain = true;
	struct str digits;
	uint64_t n;
	int r;

	s->i += minus;
	digits.p = s->text.p + s->i;
	if ((r = scan_digits(s)) != 0)
		return r;
	digits.n = (size_t)(s->text.p + s->i - digits.p);
	if (digits.p[0] == '0' && digits.n > 1)
		return fail_at(s, at, ERR_SYNTAX, "leading zero in a number");
	if (peek(s) == '.') {
		plain = false;
		s->i++;
		if ((r = scan_digits(s)) != 0)
			return r;
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		plain = false;
		s->i++;
		s->i += peek(s) == '+' || peek(s) == '-';
		if ((r = scan_digits(s)) != 0)
			return r;
	}
	if (s->i - at > JSON_NUMBER_MAX)
		return fail_at(
		    s, at, ERR_TOO_LARGE, "number of more than %d characters", JSON_NUMBER_MAX);
	if (plain && !(minus && digits.p[0] == '0') &&
	    str_to_u64(digits, (uint64_t)JSON_INT_MAX, &n))
		v->num = minus ? -(int64_t)n : (int64_t)n;
	else
		v->type = JSON_NUMBER;
	return 0;
}

static int scan_value(struct scan *s, size_t off, unsigned depth);

/* A word of the three; at its first letter. */
static int
scan_word(struct scan *s, const char *word)
{
	struct str rest = str_mem(s->text.p + s->i, s->text.n - s->i);

	if (!str_has_prefix(rest, word))
		return fail_here(s, "value");
	s->i += strlen(word);
	return 0;
}

/* `"key" :`, at the key. */
static int
scan_key(struct scan *s)
{
	int r;

	if (peek(s) != '"')
		return fail_here(s, "key in quotes");
	if ((r = scan_string(s)) != 0)
		return r;
	skip_space(s);
	if (peek(s) != ':')
		return fail_here(s, "':'");
	s->i++;
	skip_space(s);
	return 0;
}

/* After the opening bracket. */
static int
scan_members(struct scan *s, bool object, unsigned depth, uint32_t *ret_count)
{
	int close = object ? '}' : ']', r;

	*ret_count = 0;
	skip_space(s);
	if (peek(s) == close) {
		s->i++;
		return 0;
	}
	for (;;) {
		size_t off = s->i;

		if (object && (r = scan_key(s)) != 0)
			return r;
		if ((r = scan_value(s, off, depth)) != 0)
			return r;
		++*ret_count;
		skip_space(s);
		if (peek(s) == close)
			break;
		if (peek(s) != ',')
			return fail_here(s, object ? "',' or '}'" : "',' or ']'");
		s->i++;
		skip_space(s);
	}
	s->i++;
	return 0;
}

static int
scan_container(struct scan *s, size_t off, unsigned depth)
{
	bool object = peek(s) == '{';
	size_t self = s->n;
	uint32_t count;
	int r;

	if (depth >= JSON_DEPTH_MAX)
		return fail_at(
		    s, s->i, ERR_TOO_COMPLEX, "nested deeper than %d levels", JSON_DEPTH_MAX);
	(void)note(s, object ? JSON_OBJECT : JSON_ARRAY, off);
	s->i++;
	if ((r = scan_members(s, object, depth + 1, &count)) != 0)
		return r;
	s->v[self].count = count; /* by index: the table may have moved */
	return 0;
}

/* `off` is where the value, or its key, begins. Recursion is bounded by JSON_DEPTH_MAX. */
static int
scan_value(struct scan *s, size_t off, unsigned depth)
{
	int c = peek(s);

	if (s->n >= JSON_VALUES_MAX)
		return fail_at(s, off, ERR_TOO_LARGE, "more than %zu values", JSON_VALUES_MAX);
	if (c == '{' || c == '[')
		return scan_container(s, off, depth);
	if (c == '"') {
		(void)note(s, JSON_STRING, off);
		return scan_string(s);
	}
	if (c == '-' || (c >= '0' && c <= '9')) {
		struct json *v = note(s, JSON_INT, off);

		return s->numbers ? scan_any_number(s, v) : scan_number(s, &v->num);
	}
	if (c == 't' || c == 'f') {
		note(s, JSON_BOOL, off)->num = c == 't';
		return scan_word(s, c == 't' ? "true" : "false");
	}
	if (c == 'n') {
		(void)note(s, JSON_NULL, off);
		return scan_word(s, "null");
	}
	return fail_here(s, "value");
}

static size_t
first_bad_utf8(struct str text)
{
	size_t lo = 0;

	/* Grow by whole characters; only run on text that is known to be bad. */
	while (lo < text.n) {
		size_t n = 1;

		while (n <= 4 && lo + n <= text.n && !str_is_utf8(str_mem(text.p + lo, n)))
			n++;
		if (n > 4 || lo + n > text.n)
			break;
		lo += n;
	}
	return lo;
}

static int
scan_text(struct scan *s)
{
	int r;

	if (s->text.n > JSON_SIZE_MAX)
		return err_set(s->err, ERR_TOO_LARGE, "%s: must be at most %zu bytes, is %zu",
		    s->name, JSON_SIZE_MAX, s->text.n);
	if (str_has_prefix(s->text, "\xef\xbb\xbf"))
		return fail_at(s, 0, ERR_SYNTAX, "begins with a byte order mark");
	if (!str_is_utf8(s->text))
		return fail_at(s, first_bad_utf8(s->text), ERR_SYNTAX, "invalid UTF-8");
	skip_space(s);
	if ((r = scan_value(s, s->i, 0)) != 0)
		return r;
	skip_space(s);
	if (s->i != s->text.n)
		return fail_here(s, "end of text");
	return 0;
}

int
json_scan(struct str text, const char *name, bool numbers, struct json **ret, size_t *ret_n,
    struct err *err)
{
	struct scan s = {.name = name, .text = text, .numbers = numbers, .err = err};
	int r = scan_text(&s);

	if (r != 0) {
		free(s.v);
		return r;
	}
	*ret = s.v;
	*ret_n = s.n;
	return 0;
}
