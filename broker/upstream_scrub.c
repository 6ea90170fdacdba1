/*
 * The scrubber. Runs in upstream over every answer of a run that has credentials; the server is
 * untrusted. The text is read by several decoders at once (as it stands, percent-encoded,
 * JSON-escaped); behind each, one Knuth-Morris-Pratt matcher a form looks for each secret, so that
 * any mixture of escaped and plain characters is found, and no input makes it slower than linear.
 */
#include "broker/upstream_scrub.h"

#include <assert.h>

#include "broker/upstream_scrub_int.h"
#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WAIT_HIGH ((size_t)128 << 10) /* over twice the longest form with all of it escaped */
#define ESCAPE_MAX 12		      /* \ud800\udc00 */
#define END_MIN 8		      /* characters that tell a cut form from innocent text */

struct matcher {
	size_t state;
	uint64_t marked; /* its matches are marked up to here */
};

struct decoder {
	enum decoder_kind kind;
	uint8_t held[ESCAPE_MAX]; /* an escape that has begun */
	size_t nheld;
	uint64_t held_at, units;
	uint64_t *start;   /* by unit, round: where it began in the text */
	struct matcher *m; /* one a needle */
	uint16_t *active;  /* which of them have begun */
	size_t nactive;
};

struct scrub {
	struct scrub_set *set;
	struct decoder dec[DECODERS];
	size_t ndec;
	bool busy;	       /* some form or escape has begun */
	struct buf wait, mask; /* the text from `base` on; whose byte it is: 1 + owner, or 0 */
	uint64_t base, at;
	size_t run;    /* of replaced bytes, so far */
	uint8_t owner; /* 1 + that of the run */
	uint32_t count;
};

/* --- matching -------------------------------------------------------------------- */

/* Of secrets that overlap, the longer one's match counts: it ends last, or was there first. */
static void
mark(struct scrub *s, struct decoder *d, size_t i, uint64_t from, uint64_t to)
{
	struct matcher *m = &d->m[i];
	uint8_t *mask;
	size_t n;

	if (from < m->marked)
		from = m->marked;
	m->marked = to;
	n = (size_t)(to - from);
	mask = s->mask.p + (from - s->base);
	/* All of it is one match's already: a longer one's, or of the same length. */
	if (n == 0 || (mask[0] != 0 && memcmp(mask, mask + 1, n - 1) == 0))
		return;
	memset(mask, s->set->needle[i].owner + 1, n);
}

static void
step(struct scrub *s, struct decoder *d, size_t i, uint8_t byte, uint64_t to)
{
	const struct needle *n = &s->set->needle[i];
	struct matcher *m = &d->m[i];
	uint8_t c = needle_fold(n->fold, byte);

	while (m->state != 0 && n->p[m->state] != c)
		m->state = n->border[m->state - 1];
	if (n->p[m->state] == c)
		m->state++;
	if (m->state == n->n) {
		mark(s, d, i, d->start[(d->units - n->n) % s->set->ring], to);
		m->state = n->border[n->n - 1];
	}
}

/* One decoded byte, which stands at [from, to) of the text. */
static void
unit(struct scrub *s, struct decoder *d, uint8_t byte, uint64_t from, uint64_t to)
{
	const struct scrub_set *set = s->set;
	size_t kept = 0;

	d->start[d->units++ % set->ring] = from;
	for (size_t k = 0; k < d->nactive; k++) {
		step(s, d, d->active[k], byte, to);
		if (d->m[d->active[k]].state != 0)
			d->active[kept++] = d->active[k];
	}
	/* Those that went back to their beginning do not begin with this byte. */
	for (size_t k = set->first[byte]; k < set->first[byte + 1]; k++) {
		size_t i = set->order[k];

		if (d->m[i].state != 0 || (d->kind != DECODE_NONE && !set->needle[i].escaped))
			continue;
		step(s, d, i, byte, to);
		if (d->m[i].state != 0)
			d->active[kept++] = (uint16_t)i;
	}
	d->nactive = kept;
}

static uint32_t
hex_of(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 4 | (uint32_t)enc_hex_digit((char)p[i]);
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
	if (d->nheld != 0 && enc_hex_digit((char)c) < 0)
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
	if (in == 0 ? c != '\\' : in == 1 ? c != 'u' : enc_hex_digit((char)c) < 0)
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
	for (size_t i = 0; i < s->ndec; i++)
		if (s->dec[i].nheld != 0 || s->dec[i].nactive != 0)
			return true;
	return false;
}

/* A byte of the placeholder, or of what it is padded with. */
static uint8_t
replaced(struct scrub *s, uint8_t owner)
{
	const struct scrub_mark *m = &s->set->mark[owner - 1];

	if (s->run == 0 || s->owner != owner) {
		s->run = 0;
		s->owner = owner;
		s->count++;
	}
	s->run++;
	return s->run <= m->n ? m->p[s->run - 1] : (uint8_t)'*';
}

static void
emit(struct scrub *s, size_t n, struct buf *out)
{
	uint8_t *to = n != 0 ? buf_grow(out, n) : NULL;

	for (size_t i = 0; to != NULL && i < n; i++) {
		if (s->mask.p[i] != 0) {
			to[i] = replaced(s, s->mask.p[i]);
			continue;
		}
		s->run = 0;
		to[i] = s->wait.p[i];
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
		for (size_t k = 0; k < d->nactive; k++) {
			size_t state = d->m[d->active[k]].state;
			uint64_t from = d->start[(d->units - state) % s->set->ring];

			if (from < keep)
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

	if (!s->set->begins[a] || at + 1 == in.n)
		return s->set->begins[a];
	b = (uint8_t)in.p[at + 1];
	return (s->set->pairs[a << 5 | b >> 3] & 1 << (b & 7)) != 0;
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

		for (size_t k = 0; k < d->nactive; k++) {
			size_t which = d->active[k], state = d->m[which].state;

			if (state >= END_MIN && 2 * state >= s->set->needle[which].n)
				mark(s, d, which, d->start[(d->units - state) % s->set->ring],
				    s->at);
		}
	}
}

void
scrub_end(struct scrub *s, struct buf *out)
{
	mark_begun(s);
	emit(s, s->wait.n, out);
	for (size_t i = 0; i < s->ndec; i++) {
		struct decoder *d = &s->dec[i];

		d->nheld = 0;
		while (d->nactive != 0)
			d->m[d->active[--d->nactive]].state = 0;
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

bool
scrub_waits(const struct scrub *s)
{
	return s->wait.n != 0;
}

uint32_t
scrub_count(const struct scrub *s)
{
	return s->count;
}

/* --- life ------------------------------------------------------------------------ */

static void
decoder_add(struct scrub *s, enum decoder_kind kind)
{
	struct decoder *d = &s->dec[s->ndec++];

	d->kind = kind;
	d->start = xcalloc(s->set->ring, sizeof(*d->start));
	d->m = xcalloc(s->set->nneedles, sizeof(*d->m));
	d->active = xcalloc(s->set->nneedles, sizeof(*d->active));
}

struct scrub *
scrub_new(struct scrub_set *set)
{
	struct scrub *s = xcalloc(1, sizeof(*s));

	s->set = set;
	decoder_add(s, DECODE_NONE);
	decoder_add(s, DECODE_PERCENT);
	decoder_add(s, DECODE_JSON);
	if (set->spaces)
		decoder_add(s, DECODE_FORM);
	buf_init(&s->wait, 4 * WAIT_HIGH);
	buf_init(&s->mask, 4 * WAIT_HIGH);
	return s;
}

void
scrub_free(struct scrub *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->ndec; i++) {
		free(s->dec[i].start);
		free(s->dec[i].m);
		free(s->dec[i].active);
	}
	scrub_set_drop(s->set);
	buf_free(&s->wait);
	buf_free(&s->mask);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
