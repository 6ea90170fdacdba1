/*
 * Signed chunks. Runs in upstream. The head has announced a length, which is on its way when the
 * first chunk is read: a body that turns out to be another one is cut off before its end.
 */
#include "broker/upstream_rechunk.h"

#include <stdlib.h>

#include "common/awschunk.h"
#include "common/secret.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define LINE_FIXED (sizeof(";chunk-signature=") - 1 + HASH_HEX_SIZE - 1 + 4) /* with both CRLF */

struct rechunk {
	struct sigv4_scope scope;
	struct secret *key;
	char signature[HASH_HEX_SIZE];
	struct awschunk in;
	uint64_t length;
	struct buf data;  /* content that is not in a chunk yet */
	struct buf frame; /* a chunk that has not gone */
	size_t frame_at;
	bool last, ended; /* all content is here; the chunk of size 0 has been made */
};

struct rechunk *
rechunk_new(const struct sigv4_scope *scope, const uint8_t key[static SIGV4_KEY_LEN],
    const char seed[static HASH_HEX_SIZE], uint64_t length)
{
	struct rechunk *r = xcalloc(1, sizeof(*r));

	r->scope = *scope;
	r->key = secret_copy(str_mem(key, SIGV4_KEY_LEN));
	memcpy(r->signature, seed, HASH_HEX_SIZE);
	r->length = length;
	awschunk_init(&r->in);
	buf_init(&r->data, RECHUNK_SIZE + RECHUNK_PUT_MAX);
	buf_init(&r->frame, RECHUNK_SIZE + LINE_FIXED + 16);
	return r;
}

void
rechunk_free(struct rechunk *r)
{
	if (r == NULL)
		return;
	secret_free(r->key);
	buf_free(&r->data);
	buf_free(&r->frame);
	free(r);
}

static uint64_t
line_length(uint64_t size)
{
	uint64_t digits = 1;

	while ((size >>= 4) != 0)
		digits++;
	return digits + LINE_FIXED;
}

uint64_t
rechunk_length(uint64_t length)
{
	uint64_t full = length / RECHUNK_SIZE, rest = length % RECHUNK_SIZE;
	uint64_t n = full * (line_length(RECHUNK_SIZE) + RECHUNK_SIZE) + line_length(0);

	return rest != 0 ? n + line_length(rest) + rest : n;
}

static void
next_chunk(struct rechunk *r)
{
	size_t n = r->data.n < RECHUNK_SIZE ? r->data.n : RECHUNK_SIZE;
	struct str content = str_mem(r->data.p, n);
	struct hash h;

	buf_reset(&r->frame);
	r->frame_at = 0;
	if (r->ended || (n < RECHUNK_SIZE && !r->last))
		return;
	h = hash_sha256(content);
	sigv4_sign_chunk(&r->scope, (const uint8_t *)secret_str(r->key).p, &h, r->signature);
	buf_printf(&r->frame, "%zx;chunk-signature=%s\r\n", n, r->signature);
	buf_put_str(&r->frame, content);
	buf_put_z(&r->frame, "\r\n");
	buf_drop(&r->data, n);
	r->ended = n == 0;
}

size_t
rechunk_take(struct rechunk *r, void *to, size_t room)
{
	size_t n;

	if (r->frame_at == r->frame.n)
		next_chunk(r);
	n = r->frame.n - r->frame_at < room ? r->frame.n - r->frame_at : room;
	if (n != 0)
		memcpy(to, r->frame.p + r->frame_at, n);
	r->frame_at += n;
	return n;
}

bool
rechunk_ended(const struct rechunk *r)
{
	return r->ended && r->frame_at == r->frame.n;
}

int
rechunk_put(struct rechunk *r, struct str raw, struct err *err)
{
	struct str some;
	int rc = 0;

	while (raw.n != 0) {
		if (r->last || (rc = awschunk_next(&r->in, &raw, &some, err)) < 0)
			return err_set(err, ERR_STATE, "the body is not in signed chunks");
		buf_put_str(&r->data, some);
		if (r->in.total > r->length)
			return err_set(err, ERR_STATE,
			    "the chunks hold more than the %llu bytes announced",
			    (unsigned long long)r->length);
		if (rc == 1 && r->in.total != r->length)
			return err_set(err, ERR_STATE,
			    "the chunks hold %llu bytes, announced are %llu",
			    (unsigned long long)r->in.total, (unsigned long long)r->length);
		r->last = rc == 1;
	}
	return 0;
}

int
rechunk_end(struct rechunk *r, struct err *err)
{
	return r->last ? 0 : err_set(err, ERR_STATE, "the chunks do not end with the body");
}
