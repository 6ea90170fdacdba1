/*
 * What a secret looks like when a server sends it back. Runs in upstream. The borders, which tell
 * where it repeats itself, are wiped like its bytes.
 */
#include "broker/upstream_scrub_form.h"

#include <assert.h>

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

uint8_t
needle_fold(enum fold fold, uint8_t c)
{
	if (fold == FOLD_HEX && c >= 'A' && c <= 'F')
		return (uint8_t)(c | 0x20);
	if (fold == FOLD_BASE64 && c == '-')
		return '+';
	if (fold == FOLD_BASE64 && c == '_')
		return '/';
	return c;
}

/*
 * Base64 of the secret behind k bytes that are not known: the characters that depend on the secret
 * alone. With `tail` also the last one as it is when nothing follows.
 */
static void
put_base64(struct buf *all, size_t k, bool tail, struct str secret, struct form *ret)
{
	AUTO_BUF struct buf plain = BUF(4 * UPSTREAM_SECRET_MAX),
			    enc = BUF(8 * UPSTREAM_SECRET_MAX);
	size_t from = (8 * k + 5) / 6, to = (8 * (k + secret.n) + (tail ? 5 : 0)) / 6;

	buf_put(&plain, "\0\0", k);
	buf_put_str(&plain, secret);
	enc_base64(&enc, buf_str(&plain));
	*ret = (struct form){all->n, all->n + to - from, FOLD_BASE64, true};
	buf_put(all, enc.p + from, to - from);
}

size_t
forms_put(struct buf *all, const struct scrub_secret *s, struct form f[FORMS_MAX])
{
	AUTO_BUF struct buf pair = BUF(4 * UPSTREAM_SECRET_MAX);
	struct str secret = s->secret;
	size_t n = 0;

	f[n++] = (struct form){all->n, all->n + secret.n, FOLD_NONE, true};
	buf_put_str(all, secret);
	if (secret.n >= UPSTREAM_SCRUB_SHORT) {
		f[n++] = (struct form){all->n, all->n + 2 * secret.n, FOLD_HEX, false};
		enc_hex(all, secret);
		for (size_t k = 0; k < 3; k++)
			put_base64(all, k, false, secret, &f[n++]);
		if (secret.n % 3 != 0)
			put_base64(all, 0, true, secret, &f[n++]);
	}
	if (s->basic) {
		buf_put_str(&pair, s->user);
		buf_put_c(&pair, ':');
		buf_put_str(&pair, secret);
		put_base64(all, 0, true, buf_str(&pair), &f[n++]);
	}
	return n;
}

void
needle_init(struct needle *n, const uint8_t *all, const struct form *f, uint8_t owner)
{
	*n = (struct needle){all + f->from, f->to - f->from, f->fold, f->escaped, owner, NULL};
	n->border = xcalloc(n->n, sizeof(*n->border));
	assert(n->n != 0 && n->n <= UINT16_MAX);
	for (size_t i = 1; i < n->n; i++) {
		uint16_t b = n->border[i - 1];

		while (b != 0 && n->p[b] != n->p[i])
			b = n->border[b - 1];
		n->border[i] = n->p[b] == n->p[i] ? (uint16_t)(b + 1) : 0;
	}
}

void
needle_free(struct needle *n)
{
	explicit_bzero(n->border, n->n * sizeof(*n->border));
	free(n->border);
}
