/*
 * The scrubber. Runs in upstream over every answer to a request that carried a credential; the
 * server is untrusted. The text is read by several decoders at once (as it stands, percent-encoded,
 * JSON-escaped); behind each, one Knuth-Morris-Pratt matcher a form looks for the secret, so that
 * any mixture of escaped and plain characters is found, and no input makes it slower than linear.
 */
#include "broker/upstream_scrub.h"

#include <assert.h>

#include "broker/upstream_scrub_form.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WAIT_HIGH ((size_t)128 << 10) /* over twice the longest form with all of it escaped */
#define ESCAPE_MAX 12		      /* \ud800\udc00 */
#define END_MIN 8		      /* characters that tell a cut form from innocent text */

struct matcher {
	const struct needle *needle;
	size_t state;
	uint64_t marked; /* its matches are marked up to here */
};

enum decoder_kind { DECODE_NONE = 0, DECODE_PERCENT, DECODE_FORM, DECODE_JSON, DECODERS };

struct decoder {
	enum decoder_kind kind;
	uint8_t held[ESCAPE_MAX]; /* an escape that has begun */
	size_t nheld;
	uint64_t held_at, units;
	uint64_t *start; /* by unit, round: where it began in the text */
	struct matcher m[NEEDLES_MAX];
	size_t nm;
};

struct scrub {
	struct secret *forms;
	struct needle needle[NEEDLES_MAX];
	size_t nneedles, ring;
	struct decoder dec[DECODERS];
	size_t ndec;
	bool begins[256];      /* anything */
	uint8_t pairs[8192];   /* a bit for each two bytes that can go on from there */
	bool busy;	       /* some form or escape has begun */
	struct buf wait, mask; /* the text from `base` on, and which bytes of it go */
	uint64_t base, at;
	size_t run; /* of replaced bytes, so far */
	struct buf placeholder;
	uint32_t count;
};

/* --- matching -------------------------------------------------------------------- */

static void
mark(struct scrub *s, struct matcher *m, uint64_t from, uint64_t to)
{
	if (from < m->marked)
		from = m->marked;
	m->marked = to;
	memset(s->mask.p + (from - s->base), 1, (size_t)(to - from));
}

/* One decoded byte, which stands at [from, to) of the text. */
static void
unit(struct scrub *s, struct decoder *d, uint8_t byte, uint64_t from, uint64_t to)
{
	d->start[d->units++ % s->ring] = from;
	for (size_t i = 0; i < d->nm; i++) {
		struct matcher *m = &d->m[i];
		const struct needle *n = m->needle;
		uint8_t c = needle_fold(n->fold, byte);

		while (m->state != 0 && n->p[m->state] != c)
			m->state = n->border[m->state - 1];
		if (n->p[m->state] == c)
			m->state++;
		if (m->state == n->n) {
			mark(s, m, d->start[(d->units - n->n) % s->ring], to);
			m->state = n->border[n->n - 1];
		}
	}
}

static int
hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint32_t
hex_of(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 4 | (uint32_t)hex_value(p[i]);
	return v;
}

static void
hold(struct decoder *d, uint8_t c, uint64_t at)
{
	if (d->nheld == 0)
		d->held_at = at;
	d->held[d->nheld++] = c;
}

/* The escape is whole, `c` its last byte at `at`: it means these bytes. */
static void
escape_done(struct scrub *s, struct decoder *d, const uint8_t *bytes, size_t n, uint64_t at)
{
	d->nheld = 0;
	for (size_t i = 0; i < n; i++)
		unit(s, d, bytes[i], d->held_at, at + 1);
}

/* What was held is none: its first n bytes are what they are. */
static void
escape_not(struct scrub *s, struct decoder *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		unit(s, d, d->held[i], d->held_at + i, d->held_at + i + 1);
	d->nheld -= n;
	d->held_at += n;
	memmove(d->held, d->held + n, d->nheld);
}

static size_t
utf8(uint32_t v, uint8_t out[4])
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;

	for (size_t i = n; --i > 0; v >>= 6)
		out[i] = (uint8_t)(0x80 | (v & 0x3f));
	out[0] = (uint8_t)(lead[n] | v);
	return n;
}

/* False: `c` does not go on with what is held. */
static bool
percent(struct scrub *s, struct decoder *d, uint8_t c, uint64_t at)
{
	uint8_t byte;

	if (d->nheld == 0 && c != '%') {
		unit(s, d, d->kind == DECODE_FORM && c == '+' ? ' ' : c, at, at + 1);
		return true;
	}
	if (d->nheld != 0 && hex_value(c) < 0)
		return false;
	hold(d, c, at);
	if (d->nheld == 3) {
		byte = (uint8_t)hex_of(d->held + 1, 2);
		escape_done(s, d, &byte, 1, at);
	}
	return true;
}

static bool
json_code(struct scrub *s, struct decoder *d, uint64_t at)
{
	uint32_t hi = hex_of(d->held + 2, 4), lo;
	uint8_t bytes[4];

	if (d->nheld == 6 && hi >= 0xd800 && hi < 0xdc00)
		return true; /* the other half must follow */
	if (d->nheld == 12) {
		lo = hex_of(d->held + 8, 4);
		if (lo < 0xdc00 || lo > 0xdfff)
			return false;
		hi = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
	}
	escape_done(s, d, bytes, utf8(hi, bytes), at);
	return true;
}

static bool
json(struct scrub *s, struct decoder *d, uint8_t c, uint64_t at)
{
	static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	size_t in = d->nheld % 6; /* of one \uXXXX */
	const char *name;
	uint8_t byte;

	if (d->nheld == 0 && c != '\\') {
		unit(s, d, c, at, at + 1);
		return true;
	}
	if (d->nheld == 1 && c != '\0' && (name = strchr(names, c)) != NULL) {
		byte = (uint8_t)means[name - names];
		escape_done(s, d, &byte, 1, at);
		return true;
	}
	if (in == 0 ? c != '\\' : in == 1 ? c != 'u' : hex_value(c) < 0)
		return false;
	hold(d, c, at);
	if (in != 5)
		return true;
	if (json_code(s, d, at))
		return true;
	d->nheld--; /* the caller brings c again */
	return false;
}

static void
decode(struct scrub *s, struct decoder *d, uint8_t c, uint64_t at)
{
	uint8_t again[ESCAPE_MAX];
	size_t n = 0, first;

	if (d->kind == DECODE_NONE) {
		unit(s, d, c, at, at + 1);
		return;
	}
	while (!(d->kind == DECODE_JSON ? json(s, d, c, at) : percent(s, d, c, at))) {
		/* Half a pair is no escape; the escape behind it may be one. */
		first = d->nheld >= 6 ? 6 : d->nheld;
		n = d->nheld - first;
		memcpy(again, d->held + first, n);
		escape_not(s, d, first);
		d->nheld = 0;
		for (size_t i = 0; i < n; i++)
			decode(s, d, again[i], at - n + i);
	}
}

/* --- the text -------------------------------------------------------------------- */

static bool
is_busy(const struct scrub *s)
{
	for (size_t i = 0; i < s->ndec; i++) {
		if (s->dec[i].nheld != 0)
			return true;
		for (size_t k = 0; k < s->dec[i].nm; k++)
			if (s->dec[i].m[k].state != 0)
				return true;
	}
	return false;
}

static void
emit(struct scrub *s, size_t n, struct buf *out)
{
	uint8_t *to = n != 0 ? buf_grow(out, n) : NULL;

	for (size_t i = 0; to != NULL && i < n; i++) {
		if (s->mask.p[i] == 0) {
			s->run = 0;
			to[i] = s->wait.p[i];
			continue;
		}
		if (s->run == 0)
			s->count++;
		to[i] = s->run < s->placeholder.n ? s->placeholder.p[s->run] : (uint8_t)'*';
		s->run++;
	}
	buf_drop(&s->wait, n);
	buf_drop(&s->mask, n);
	s->base += n;
}

/* Let go of what no form that has begun reaches back to. */
static void
settle(struct scrub *s, struct buf *out)
{
	uint64_t keep = s->at;

	for (size_t i = 0; i < s->ndec; i++) {
		const struct decoder *d = &s->dec[i];

		if (d->nheld != 0 && d->held_at < keep)
			keep = d->held_at;
		for (size_t k = 0; k < d->nm; k++) {
			size_t state = d->m[k].state;
			uint64_t from = d->start[(d->units - state) % s->ring];

			if (state != 0 && from < keep)
				keep = from;
		}
	}
	emit(s, (size_t)(keep - s->base), out);
}

/* Does something begin here? The next byte tells more, if it is there already. */
static bool
begins(const struct scrub *s, struct str in, size_t at)
{
	uint8_t a = (uint8_t)in.p[at], b;

	if (!s->begins[a] || at + 1 == in.n)
		return s->begins[a];
	b = (uint8_t)in.p[at + 1];
	return (s->pairs[a << 5 | b >> 3] & 1 << (b & 7)) != 0;
}

/* Nothing has begun: bytes that begin nothing pass. Returns how many. */
static size_t
pass(struct scrub *s, struct str in, struct buf *out)
{
	size_t n = 0;

	while (n < in.n && !begins(s, in, n))
		n++;
	if (n != 0)
		s->run = 0;
	buf_put(out, in.p, n);
	s->at += n;
	s->base = s->at;
	return n;
}

void
scrub_feed(struct scrub *s, struct str in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		if (!s->busy) {
			i += pass(s, str_mem(in.p + i, in.n - i), out);
			if (i == in.n)
				break;
		}
		buf_put_c(&s->wait, in.p[i]);
		buf_put_c(&s->mask, 0);
		for (size_t k = 0; k < s->ndec; k++)
			decode(s, &s->dec[k], (uint8_t)in.p[i], s->at);
		s->at++;
		s->busy = is_busy(s);
		if (!s->busy || s->wait.n >= WAIT_HIGH)
			settle(s, out);
	}
	settle(s, out);
	assert(!buf_over(&s->wait));
}

/* A text that ends within the secret: half of a form and more counts as all of it. */
static void
mark_begun(struct scrub *s)
{
	for (size_t i = 0; i < s->ndec; i++) {
		struct decoder *d = &s->dec[i];

		for (size_t k = 0; k < d->nm; k++) {
			struct matcher *m = &d->m[k];

			if (m->state >= END_MIN && 2 * m->state >= m->needle->n)
				mark(s, m, d->start[(d->units - m->state) % s->ring], s->at);
		}
	}
}

void
scrub_end(struct scrub *s, struct buf *out)
{
	mark_begun(s);
	emit(s, s->wait.n, out);
	for (size_t i = 0; i < s->ndec; i++) {
		s->dec[i].nheld = 0;
		for (size_t k = 0; k < s->dec[i].nm; k++)
			s->dec[i].m[k].state = 0;
	}
	s->busy = false;
	s->run = 0;
}

void
scrub_text(struct scrub *s, struct str in, struct buf *out)
{
	scrub_feed(s, in, out);
	scrub_end(s, out);
}

uint32_t
scrub_count(const struct scrub *s)
{
	return s->count;
}

/* --- life ------------------------------------------------------------------------ */

static void
pair_add(struct scrub *s, unsigned a, unsigned b)
{
	s->begins[a] = true;
	s->pairs[a << 5 | b >> 3] |= (uint8_t)(1 << (b & 7));
}

/* The bytes that one character of a form may be in the text. Returns how many. */
static size_t
spellings(enum decoder_kind kind, const struct needle *n, size_t at, uint8_t out[4])
{
	uint8_t c = n->p[at];
	size_t k = 0;

	out[k++] = c;
	if (n->fold == FOLD_HEX && c >= 'a')
		out[k++] = (uint8_t)(c - 'a' + 'A');
	if (n->fold == FOLD_BASE64 && (c == '+' || c == '/'))
		out[k++] = c == '+' ? '-' : '_';
	if (kind == DECODE_FORM && c == ' ')
		out[k++] = '+';
	if (at != 0 && kind != DECODE_NONE)
		out[k++] = kind == DECODE_JSON ? '\\' : '%';
	return k;
}

/* How the first two characters of a form can stand in the text, seen by one decoder. */
static void
pairs_of_needle(struct scrub *s, enum decoder_kind kind, const struct needle *n)
{
	uint8_t first[4], second[4];
	size_t nfirst = spellings(kind, n, 0, first);
	size_t nsecond = n->n > 1 ? spellings(kind, n, 1, second) : 0;

	for (size_t i = 0; i < nfirst; i++) {
		for (size_t k = 0; k < nsecond; k++)
			pair_add(s, first[i], second[k]);
		for (unsigned b = 0; n->n == 1 && b < 256; b++)
			pair_add(s, first[i], b);
	}
}

static void
pairs_of_escapes(struct scrub *s, enum decoder_kind kind)
{
	if (kind == DECODE_JSON)
		for (const char *p = "\"\\/bfnrtu"; *p != '\0'; p++)
			pair_add(s, '\\', (unsigned char)*p);
	else if (kind != DECODE_NONE)
		for (const char *p = "0123456789abcdefABCDEF"; *p != '\0'; p++)
			pair_add(s, '%', (unsigned char)*p);
}

static void
decoder_add(struct scrub *s, enum decoder_kind kind)
{
	struct decoder *d = &s->dec[s->ndec++];

	d->kind = kind;
	d->start = xcalloc(s->ring, sizeof(*d->start));
	pairs_of_escapes(s, kind);
	for (size_t i = 0; i < s->nneedles; i++) {
		if (kind != DECODE_NONE && !s->needle[i].escaped)
			continue;
		d->m[d->nm++].needle = &s->needle[i];
		pairs_of_needle(s, kind, &s->needle[i]);
	}
}

struct scrub *
scrub_new(struct str secret, bool basic, struct str user, struct str placeholder)
{
	struct scrub *s = xcalloc(1, sizeof(*s));

	assert(secret.n != 0 && secret.n <= UPSTREAM_SECRET_MAX && user.n <= UPSTREAM_SECRET_MAX);
	s->nneedles = needles_make(secret, basic, user, s->needle, &s->forms);
	s->ring = 1;
	for (size_t i = 0; i < s->nneedles; i++)
		while (s->ring <= s->needle[i].n)
			s->ring *= 2;
	decoder_add(s, DECODE_NONE);
	decoder_add(s, DECODE_PERCENT);
	decoder_add(s, DECODE_JSON);
	if (memchr(secret.p, ' ', secret.n) != NULL)
		decoder_add(s, DECODE_FORM);
	buf_init(&s->wait, 4 * WAIT_HIGH);
	buf_init(&s->mask, 4 * WAIT_HIGH);
	buf_init(&s->placeholder, 1024);
	buf_put_str(&s->placeholder, placeholder);
	return s;
}

void
scrub_free(struct scrub *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->nneedles; i++)
		needle_free(&s->needle[i]);
	for (size_t i = 0; i < s->ndec; i++)
		free(s->dec[i].start);
	secret_free(s->forms);
	buf_free(&s->wait);
	buf_free(&s->mask);
	buf_free(&s->placeholder);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
