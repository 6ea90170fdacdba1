/*
 * Sets of secrets to look for. Runs in upstream. What a set holds of its secrets is in guarded
 * memory; what is derived from them (borders, first bytes, its name among those kept) is wiped with
 * it. The name is a hash under a key of this process: it tells nothing to who guesses at a secret.
 */
#include "broker/upstream_scrub_set.h"

#include <assert.h>

#include "broker/upstream_scrub_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

TAILQ_HEAD(scrub_set_list, scrub_set);
struct scrub_sets {
	struct scrub_set_list list; /* asked for last, first */
	size_t n;
	uint8_t salt[HASH_LEN];
};

/* --- how a form begins in the text --------------------------------------------------- */

static void
pair_add(struct scrub_set *s, unsigned a, unsigned b)
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
pairs_of_needle(struct scrub_set *s, enum decoder_kind kind, const struct needle *n)
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
pairs_of_escapes(struct scrub_set *s, enum decoder_kind kind)
{
	if (kind == DECODE_JSON)
		for (const char *p = "\"\\/bfnrtu"; *p != '\0'; p++)
			pair_add(s, '\\', (unsigned char)*p);
	else if (kind != DECODE_NONE)
		for (const char *p = "0123456789abcdefABCDEF"; *p != '\0'; p++)
			pair_add(s, '%', (unsigned char)*p);
}

static void
decoder_prepare(struct scrub_set *s, enum decoder_kind kind)
{
	pairs_of_escapes(s, kind);
	for (size_t i = 0; i < s->nneedles; i++)
		if (kind == DECODE_NONE || s->needle[i].escaped)
			pairs_of_needle(s, kind, &s->needle[i]);
}

/* Which needles a byte begins. */
static void
order_make(struct scrub_set *s)
{
	size_t n = 0;

	/* Both cases, both alphabets: a needle stands there twice at most. */
	s->order = xcalloc(2 * s->nneedles, sizeof(*s->order));
	for (unsigned c = 0; c < 256; c++) {
		s->first[c] = (uint16_t)n;
		for (size_t i = 0; i < s->nneedles; i++)
			if (needle_fold(s->needle[i].fold, (uint8_t)c) == s->needle[i].p[0])
				s->order[n++] = (uint16_t)i;
	}
	s->first[256] = (uint16_t)n;
	assert(n <= 2 * s->nneedles);
}

/* --- one set ------------------------------------------------------------------------- */

static void
needles_make(struct scrub_set *set, const struct scrub_secret *s, size_t n)
{
	AUTO_BUF struct buf all = BUF(n * 32 * UPSTREAM_SECRET_MAX);
	struct form f[SCRUB_SECRETS_MAX][FORMS_MAX];
	size_t count[SCRUB_SECRETS_MAX];

	for (size_t i = 0; i < n; i++)
		count[i] = forms_put(&all, &s[i], f[i]);
	assert(!buf_over(&all));
	set->forms = secret_copy(buf_str(&all));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < count[i]; k++)
			needle_init(&set->needle[set->nneedles++], secret_bytes(set->forms),
			    &f[i][k], (uint8_t)i);
}

static void
mark_make(struct scrub_mark *m, struct str placeholder)
{
	m->n = placeholder.n < sizeof(m->p) ? placeholder.n : sizeof(m->p);
	if (m->n != 0)
		memcpy(m->p, placeholder.p, m->n);
}

struct scrub_set *
scrub_set_new(const struct scrub_secret *s, size_t n)
{
	struct scrub_set *set = xcalloc(1, sizeof(*set));

	assert(n != 0 && n <= SCRUB_SECRETS_MAX);
	set->held = 1;
	for (size_t i = 0; i < n; i++) {
		assert(s[i].secret.n != 0 && s[i].secret.n <= UPSTREAM_SECRET_MAX &&
		       s[i].user.n <= UPSTREAM_SECRET_MAX);
		set->spaces |= memchr(s[i].secret.p, ' ', s[i].secret.n) != NULL;
		mark_make(&set->mark[i], s[i].placeholder);
	}
	needles_make(set, s, n);
	set->ring = 1;
	for (size_t i = 0; i < set->nneedles; i++)
		while (set->ring <= set->needle[i].n)
			set->ring *= 2;
	order_make(set);
	decoder_prepare(set, DECODE_NONE);
	decoder_prepare(set, DECODE_PERCENT);
	decoder_prepare(set, DECODE_JSON);
	if (set->spaces)
		decoder_prepare(set, DECODE_FORM);
	return set;
}

static void
set_free(struct scrub_set *set)
{
	secret_show(set->forms);
	for (size_t i = 0; i < set->nneedles; i++)
		needle_free(&set->needle[i]);
	secret_free(set->forms);
	explicit_bzero(set->order, 2 * set->nneedles * sizeof(*set->order));
	free(set->order);
	explicit_bzero(set, sizeof(*set));
	free(set);
}

struct scrub_set *
scrub_set_hold(struct scrub_set *set)
{
	set->held++;
	return set;
}

void
scrub_set_drop(struct scrub_set *set)
{
	if (set == NULL || --set->held != 0)
		return;
	if (set->sets == NULL)
		set_free(set);
	else
		secret_hide(set->forms);
}

/* --- those that are kept --------------------------------------------------------------- */

struct scrub_sets *
scrub_sets_new(void)
{
	struct scrub_sets *c = xcalloc(1, sizeof(*c));

	TAILQ_INIT(&c->list);
	rand_bytes(c->salt, sizeof(c->salt));
	return c;
}

static void
forget(struct scrub_sets *c, struct scrub_set *set)
{
	TAILQ_REMOVE(&c->list, set, link);
	c->n--;
	set->sets = NULL;
	if (set->held == 0)
		set_free(set);
}

void
scrub_sets_free(struct scrub_sets *c)
{
	if (c == NULL)
		return;
	while (!TAILQ_EMPTY(&c->list))
		forget(c, TAILQ_FIRST(&c->list));
	explicit_bzero(c, sizeof(*c));
	free(c);
}

/* Each length stands ahead of its bytes, so that no two sets are one text. */
static struct hash
key_of(const struct scrub_sets *c, const struct scrub_secret *s, size_t n)
{
	AUTO_BUF struct buf b = BUF(HASH_LEN + n * (4 * UPSTREAM_SECRET_MAX));

	buf_put(&b, c->salt, sizeof(c->salt));
	for (size_t i = 0; i < n; i++) {
		buf_u8(&b, s[i].basic ? 1 : 0);
		buf_lstr(&b, s[i].secret);
		buf_lstr(&b, s[i].user);
		buf_lstr(&b, str_mem(s[i].placeholder.p, s[i].placeholder.n < SCRUB_PLACEHOLDER_MAX
							     ? s[i].placeholder.n
							     : SCRUB_PLACEHOLDER_MAX));
	}
	assert(!buf_over(&b));
	return hash_sha256(buf_str(&b));
}

struct scrub_set *
scrub_sets_get(struct scrub_sets *c, const struct scrub_secret *s, size_t n)
{
	struct hash key = key_of(c, s, n);
	struct scrub_set *set;

	TAILQ_FOREACH (set, &c->list, link)
		if (hash_eq(&set->key, &key))
			break;
	if (set != NULL) {
		TAILQ_REMOVE(&c->list, set, link);
		if (set->held++ == 0)
			secret_show(set->forms);
	} else {
		if (c->n == SCRUB_SETS_MAX)
			forget(c, TAILQ_LAST(&c->list, scrub_set_list));
		set = scrub_set_new(s, n);
		set->key = key;
		set->sets = c;
		c->n++;
	}
	set->asked = true;
	TAILQ_INSERT_HEAD(&c->list, set, link);
	return set;
}

size_t
scrub_sets_sweep(struct scrub_sets *c)
{
	struct scrub_set *set, *next;

	for (set = TAILQ_FIRST(&c->list); set != NULL; set = next) {
		next = TAILQ_NEXT(set, link);
		if (set->held == 0 && !set->asked)
			forget(c, set);
		else
			set->asked = false;
	}
	return c->n;
}
