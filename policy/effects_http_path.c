/*
 * Paths of requests. Linked into core and the command line; pure. Must never take for one thing
 * what a server could take for many, nor for one place what it could take for another.
 */
#include "policy/effects_http_path.h"

#include "common/buf.h"
#include "common/http.h"
#include "policy/webform.h"

#include "common/banned.h"

/* The next byte with its escape undone; -1: a '%' without two hex digits. *i moves behind it. */
static int
next_byte(struct str s, size_t *i)
{
	int c;

	if (s.p[*i] != '%')
		return (uint8_t)s.p[(*i)++];
	c = s.n - *i > 2 ? webform_hex(s.p + *i + 1, 2) : -1;
	*i += 3;
	return c;
}

static const char *
byte_fault(int c, bool escaped, bool once)
{
	if (c < 0)
		return "the path has a '%' without two hex digits";
	if (c < 0x20 || c == 0x7f)
		return "the path holds a control character";
	if (c == '\\')
		return "the path holds a backslash";
	if (c == ';')
		return "the path holds a ';'";
	if (escaped && (c == '.' || c == '/' || (c == '%' && !once)))
		return "the path escapes '.', '/' or '%'";
	if (!escaped && (c == ' ' || c == '#' || c > 0x7e))
		return "the path holds a byte that must be escaped";
	return NULL;
}

static const char *
segment_fault(struct str segment, bool last)
{
	if (str_eqz(segment, ".") || str_eqz(segment, ".."))
		return "the path has a dot segment";
	return segment.n == 0 && !last ? "the path has an empty segment" : NULL;
}

/* Overlong forms are how '.' and '/' were once smuggled past the check for them. */
static const char *
utf8_fault(struct str path)
{
	AUTO_BUF struct buf b = BUF(HTTP_TARGET_MAX);

	for (size_t i = 0; i < path.n;)
		buf_put_c(&b, (char)next_byte(path, &i));
	return buf_over(&b) || !str_is_utf8(buf_str(&b)) ? "the path is not UTF-8" : NULL;
}

static const char *
path_fault(struct str path, bool once)
{
	struct str rest = path, segment;
	const char *fault = NULL;
	bool more = true;

	if (path.n == 0 || path.p[0] != '/')
		return "the path does not begin with '/'";
	for (size_t i = 0; fault == NULL && i < path.n;) {
		bool escaped = path.p[i] == '%';

		fault = byte_fault(next_byte(path, &i), escaped, once);
		if (fault != NULL)
			return fault;
	}
	(void)str_cut(&rest, '/', &segment);
	while (fault == NULL && more) {
		more = str_cut(&rest, '/', &segment);
		fault = segment_fault(more ? segment : rest, !more);
	}
	return fault != NULL ? fault : utf8_fault(path);
}

const char *
http_path_fault(struct str path)
{
	return path_fault(path, false);
}

const char *
http_path_fault_once(struct str path)
{
	return path_fault(path, true);
}

/* --- ids ----------------------------------------------------------------------------- */

static bool
is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct str
last_segment(struct str path)
{
	struct str s = path;

	for (size_t i = path.n; i > 0 && path.p[i - 1] != '/'; i--)
		s.p = path.p + i - 1;
	s.n = (size_t)(path.p + path.n - s.p);
	return path.n != 0 && path.p[path.n - 1] == '/' ? STR("") : s;
}

/* Letters, then up to five digits, then nothing: "v2", "oauth2", "iso27001". */
static bool
is_numbered_word(struct str s)
{
	size_t letters = 0, i;

	while (letters < s.n && is_alpha(s.p[letters]))
		letters++;
	for (i = letters; i < s.n && is_digit(s.p[i]); i++)
		;
	return letters != 0 && i == s.n && s.n - letters <= 5;
}

bool
http_path_names_one(struct str path)
{
	struct str s = last_segment(path);
	bool digit = false;

	for (size_t i = 0; i < s.n; i++) {
		digit = digit || is_digit(s.p[i]);
		if (!is_alpha(s.p[i]) && !is_digit(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' &&
		    s.p[i] != '.')
			return false;
	}
	return digit && !is_numbered_word(s);
}

/* --- likeness ------------------------------------------------------------------------ */

static struct str
without_slash(struct str s)
{
	while (s.n > 1 && s.p[s.n - 1] == '/')
		s.n--;
	return s;
}

static int
lower(int c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

bool
http_path_alike(struct str path, struct str other)
{
	struct str a = without_slash(path), b = without_slash(other);
	size_t i = 0, k = 0;

	while (i < a.n && k < b.n)
		if (lower(next_byte(a, &i)) != lower(next_byte(b, &k)))
			return false;
	return i == a.n && k == b.n;
}

static bool
begins_alike(struct str s, struct str with)
{
	size_t i = 0, k = 0;

	while (i < s.n && k < with.n)
		if (lower(next_byte(s, &i)) != lower((uint8_t)with.p[k++]))
			return false;
	return k == with.n;
}

bool
http_path_is_graphql(struct str path)
{
	struct str rest = path, one;
	bool more = true;

	while (more) {
		const char *dot;

		more = str_cut(&rest, '/', &one);
		if (!more)
			one = rest;
		dot = one.n != 0 ? memchr(one.p, '.', one.n) : NULL;
		if (begins_alike(one, STR("graphql")))
			return true;
		if (dot != NULL)
			one.n = (size_t)(dot - one.p);
		if (one.n != 0 && http_path_alike(one, STR("gql")))
			return true;
	}
	return false;
}
