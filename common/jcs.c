/*
 * Canonical JSON (RFC 8785, without fractions and null). Runs in core, writer and the
 * command line; what it emits is what gets hashed and signed. A wrong order or number is
 * our own bug and ends the process: a record that does not verify must not exist.
 */
#include "common/jcs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/json_scan.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
jcs_init(struct jcs *j, struct buf *out)
{
	*j = (struct jcs){.out = out};
}

/* --- order of keys ------------------------------------------------------------------- */

/*
 * RFC 8785 3.2.3 sorts by UTF-16 units. In UTF-8 that is byte order, but for characters
 * beyond the first plane (lead byte F0 and up): their surrogates stand below U+E000 (EE).
 */
static int
weight(uint8_t c)
{
	return c >= 0xf0 ? 0xed * 2 + 1 : c * 2;
}

static int
byte_cmp(uint8_t a, uint8_t b)
{
	int wa = weight(a), wb = weight(b);

	return wa != wb ? wa - wb : a - b;
}

int
jcs_key_cmp(struct str a, struct str b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++) {
		int r = byte_cmp((uint8_t)a.p[i], (uint8_t)b.p[i]);

		if (r != 0)
			return r;
	}
	return (a.n > b.n) - (a.n < b.n);
}

static const char escapes[] = "\"\\bfnrt", escaped[] = "\"\\\b\f\n\r\t";

/* Undo our own escaping, one byte at a time: the last key is remembered as it was written. */
static uint8_t
unescape_step(struct str *s)
{
	const char *p = s->p, *e;
	size_t used = 1;
	uint8_t c = (uint8_t)p[0];

	if (c == '\\') {
		used = 2;
		e = strchr(escapes, p[1]);
		if (e != NULL) {
			c = (uint8_t)escaped[e - escapes];
		} else {
			used = 6; /* \u00xx, below 0x20 */
			c = (uint8_t)((p[4] - '0') << 4 |
				      (p[5] <= '9' ? p[5] - '0' : p[5] - 'a' + 10));
		}
	}
	s->p += used;
	s->n -= used;
	return c;
}

static bool
written_is_before(struct str written, struct str key)
{
	for (size_t i = 0; i < key.n; i++) {
		int r;

		if (written.n == 0)
			return true;
		r = byte_cmp(unescape_step(&written), (uint8_t)key.p[i]);
		if (r != 0)
			return r < 0;
	}
	return false;
}

/* --- emitting ------------------------------------------------------------------------ */

static void
put_escaped(struct buf *out, uint8_t c)
{
	const char *e = strchr(escaped, c);

	if (e != NULL) {
		buf_put_c(out, '\\');
		buf_put_c(out, escapes[e - escaped]);
	} else {
		buf_printf(out, "\\u%04x", (unsigned)c);
	}
}

static void
put_text(struct buf *out, struct str s)
{
	size_t from = 0;

	/*
	 * Our reader refuses \u0000, so a record with one could be written and never read
	 * again; whoever passes text from outside uses jcs_str_lossy.
	 */
	assert(str_is_utf8(s) && (s.n == 0 || memchr(s.p, '\0', s.n) == NULL));
	buf_put_c(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_put(out, s.p + from, i - from);
		put_escaped(out, c);
		from = i + 1;
	}
	if (from < s.n)
		buf_put(out, s.p + from, s.n - from);
	buf_put_c(out, '"');
}

/* After jcs_key the value is still to come: no value of ours ends in a colon. */
static bool
key_is_pending(const struct jcs *j)
{
	return j->object[j->depth] && j->out->n != 0 && j->out->p[j->out->n - 1] == ':';
}

static void
put_comma(struct jcs *j)
{
	if (j->comma[j->depth])
		buf_put_c(j->out, ',');
	j->comma[j->depth] = true;
}

void
jcs_key(struct jcs *j, struct str key)
{
	struct buf *out = j->out;
	unsigned d = j->depth;
	size_t at;

	assert(j->object[d]);
	if (j->comma[d] && !buf_over(out)) {
		assert(!key_is_pending(j));
		assert(written_is_before(str_mem(out->p + j->last_key[d], j->last_len[d]), key));
	}
	put_comma(j);
	at = out->n;
	put_text(out, key);
	j->last_key[d] = at + 1;
	j->last_len[d] = out->n >= at + 2 ? out->n - at - 2 : 0;
	buf_put_c(out, ':');
}

/* What stands before every value: its key, or the comma of an array. */
static void
begin(struct jcs *j, const char *key)
{
	if (key != NULL) {
		jcs_key(j, str_z(key));
		return;
	}
	if (buf_over(j->out))
		return;
	if (j->object[j->depth]) {
		assert(key_is_pending(j));
		return;
	}
	assert(j->depth != 0 || !j->comma[0]); /* one value at the top */
	put_comma(j);
}

static void
descend(struct jcs *j, const char *key, bool object)
{
	begin(j, key);
	assert(j->depth < JCS_DEPTH_MAX);
	buf_put_c(j->out, object ? '{' : '[');
	j->depth++;
	j->comma[j->depth] = false;
	j->object[j->depth] = object;
}

static void
ascend(struct jcs *j, bool object)
{
	assert(j->depth != 0 && j->object[j->depth] == object);
	assert(buf_over(j->out) || !key_is_pending(j));
	j->depth--;
	buf_put_c(j->out, object ? '}' : ']');
}

void
jcs_open(struct jcs *j, const char *key)
{
	descend(j, key, true);
}

void
jcs_close(struct jcs *j)
{
	ascend(j, true);
}

void
jcs_array(struct jcs *j, const char *key)
{
	descend(j, key, false);
}

void
jcs_array_end(struct jcs *j)
{
	ascend(j, false);
}

void
jcs_str(struct jcs *j, const char *key, struct str s)
{
	begin(j, key);
	put_text(j->out, s);
}

/* Length of the good character at the front, NUL not being one; 0: a byte to replace. */
static size_t
good_len(struct str s)
{
	for (size_t n = 1; n <= 4 && n <= s.n && s.p[0] != '\0'; n++)
		if (str_is_utf8(str_mem(s.p, n)))
			return n;
	return 0;
}

void
jcs_str_lossy(struct jcs *j, const char *key, struct str s)
{
	struct buf clean;

	if (str_is_utf8(s) && (s.n == 0 || memchr(s.p, '\0', s.n) == NULL)) {
		jcs_str(j, key, s);
		return;
	}
	assert(s.n <= SIZE_MAX / 3);
	buf_init(&clean, 3 * s.n);
	while (s.n != 0) {
		size_t n = good_len(s), used = n != 0 ? n : 1;

		if (n != 0)
			buf_put(&clean, s.p, n);
		else
			buf_put_z(&clean, "\xef\xbf\xbd");
		s.p += used;
		s.n -= used;
	}
	jcs_str(j, key, buf_str(&clean));
	buf_free(&clean);
}

void
jcs_z(struct jcs *j, const char *key, const char *s)
{
	jcs_str(j, key, str_z(s));
}

void
jcs_int(struct jcs *j, const char *key, int64_t v)
{
	char z[24];

	assert(v >= -JSON_INT_MAX && v <= JSON_INT_MAX);
	begin(j, key);
	(void)snprintf(z, sizeof(z), "%" PRId64, v); /* buf_printf would allocate */
	buf_put_z(j->out, z);
}

void
jcs_bool(struct jcs *j, const char *key, bool v)
{
	begin(j, key);
	buf_put_z(j->out, v ? "true" : "false");
}

void
jcs_time(struct jcs *j, const char *key, int64_t us)
{
	char t[CLOCK_TEXT_SIZE];

	clock_format_s(us, t);
	jcs_z(j, key, t);
}

void
jcs_time_known(struct jcs *j, const char *key, int64_t us)
{
	if (us != 0)
		jcs_time(j, key, us);
}

void
jcs_hex(struct jcs *j, const char *key, const void *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *b = p;

	begin(j, key);
	buf_put_c(j->out, '"');
	for (size_t i = 0; i < n; i++) {
		buf_put_c(j->out, digits[b[i] >> 4]);
		buf_put_c(j->out, digits[b[i] & 15]);
	}
	buf_put_c(j->out, '"');
}

void
jcs_raw(struct jcs *j, const char *key, struct str canonical)
{
	assert(canonical.n != 0);
	begin(j, key);
	buf_put_str(j->out, canonical);
}
