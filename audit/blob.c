/*
 * Sealed content beside the log. Core and upstream seal, the writer appends frames it cannot
 * open, the command line opens with the run's key. A frame from disk is not trusted: what comes
 * out of blob_open is what the record committed to, or an error.
 *
 *	"CFB1" | u32 total length | 24-byte nonce | u32 ciphertext length | ciphertext
 *	ciphertext = XChaCha20-Poly1305(key, nonce, salt32 || content, additional data "CFB1")
 */
#include "audit/blob.h"

#include <assert.h>
#include <sodium.h>

#include "common/log.h"

#include "common/banned.h"

#define MAGIC "CFB1"
#define MAGIC_LEN 4
#define NONCE_LEN crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_LEN crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SALT_LEN 32
#define HEAD_LEN ((size_t)(MAGIC_LEN + 4 + NONCE_LEN + 4))
#define CT_MAX (SALT_LEN + BLOB_PLAIN_MAX + TAG_LEN)

static_assert(NONCE_LEN == 24 && TAG_LEN == 16, "the format is fixed");

static struct hash
commitment(const uint8_t salt[SALT_LEN], struct str plaintext)
{
	struct str parts[] = {STR("cofferdam-blob/v1\0"), str_mem(salt, SALT_LEN), plaintext};

	return hash_sha256_parts(parts, 3);
}

/* The nonce is part of it, or a changed nonce would look whole to whoever has no key. */
static struct hash
sealed_hash(const uint8_t *nonce, struct str ct)
{
	struct str parts[] = {str_mem(nonce, NONCE_LEN), ct};

	return hash_sha256_parts(parts, 2);
}

static void
put_z(char *out, size_t size, struct str s)
{
	assert(s.n < size);
	if (s.n != 0)
		memcpy(out, s.p, s.n);
	out[s.n] = '\0';
}

int
blob_seal(const struct secret *key, struct str kid, const char *media, struct str plaintext,
    struct buf *frame, struct blob_ref *ret, struct err *err)
{
	AUTO_BUF struct buf plain = BUF(SALT_LEN + BLOB_PLAIN_MAX);
	struct blob_ref ref = {.len = plaintext.n};
	unsigned long long ct_len = 0;
	uint8_t salt[SALT_LEN], nonce[NONCE_LEN];
	size_t ct_want = SALT_LEN + plaintext.n + TAG_LEN;
	uint8_t *ct;

	if (plaintext.n > BLOB_PLAIN_MAX)
		return err_set(err, ERR_TOO_LARGE, "blob of %zu bytes, limit %zu", plaintext.n,
		    BLOB_PLAIN_MAX);
	if (kid.n == 0 || kid.n >= sizeof(ref.kid) || strlen(media) >= sizeof(ref.media))
		return err_set(err, ERR_INVALID, "blob: key id or media type of a wrong length");
	if (secret_str(key).n != BLOB_KEY_LEN)
		return err_set(err, ERR_CRYPTO, "blob key must be %d bytes, is %zu", BLOB_KEY_LEN,
		    secret_str(key).n);
	if (HEAD_LEN + ct_want > frame->max - frame->n)
		return err_set(err, ERR_TOO_LARGE, "blob frame of %zu bytes, room for %zu",
		    HEAD_LEN + ct_want, frame->max - frame->n);
	rand_bytes(salt, sizeof(salt));
	rand_bytes(nonce, sizeof(nonce));
	ref.c = commitment(salt, plaintext);
	put_z(ref.kid, sizeof(ref.kid), kid);
	put_z(ref.media, sizeof(ref.media), str_z(media));
	buf_put(&plain, salt, sizeof(salt));
	buf_put_str(&plain, plaintext);

	buf_put(frame, MAGIC, MAGIC_LEN);
	buf_u32(frame, (uint32_t)(HEAD_LEN + ct_want));
	buf_put(frame, nonce, sizeof(nonce));
	buf_u32(frame, (uint32_t)ct_want);
	ct = buf_grow(frame, ct_want);
	assert(ct != NULL);
	if (crypto_aead_xchacha20poly1305_ietf_encrypt(ct, &ct_len, plain.p, plain.n,
		(const uint8_t *)MAGIC, MAGIC_LEN, NULL, nonce,
		(const uint8_t *)secret_str(key).p) != 0 ||
	    ct_len != ct_want)
		fatal("libsodium: encryption failed");
	ref.ct = sealed_hash(nonce, str_mem(ct, ct_want));
	*ret = ref;
	return 0;
}

void
blob_ref_jcs(struct jcs *j, const char *key, const struct blob_ref *r)
{
	jcs_open(j, key);
	jcs_hex(j, "c", r->c.b, HASH_LEN);
	jcs_hex(j, "ct", r->ct.b, HASH_LEN);
	jcs_z(j, "kid", r->kid);
	jcs_int(j, "len", (int64_t)r->len);
	jcs_z(j, "media", r->media);
	jcs_close(j);
}

/* "" when the member is not there. */
static struct str
member(const struct json *v, const char *key)
{
	const struct json *m = json_get(v, key);

	return m != NULL ? json_str(m) : STR("");
}

int
blob_ref_parse(const struct json *v, struct blob_ref *ret, struct err *err)
{
	const struct json *len = v != NULL ? json_get(v, "len") : NULL;
	struct blob_ref r = {0};
	struct str kid, media;

	if (v == NULL || json_type(v) != JSON_OBJECT || json_count(v) != 5 || len == NULL ||
	    json_type(len) != JSON_INT || json_int(len) < 0)
		return err_set(err, ERR_INVALID, "blob reference must have c, ct, kid, len, media");
	kid = member(v, "kid");
	media = member(v, "media");
	if (!hash_from_hex(member(v, "c"), &r.c) || !hash_from_hex(member(v, "ct"), &r.ct) ||
	    kid.n == 0 || kid.n >= sizeof(r.kid) || media.n == 0 || media.n >= sizeof(r.media))
		return err_set(err, ERR_INVALID, "blob reference is not of the form");
	put_z(r.kid, sizeof(r.kid), kid);
	put_z(r.media, sizeof(r.media), media);
	r.len = (uint64_t)json_int(len);
	*ret = r;
	return 0;
}

/* --- frames -------------------------------------------------------------------------- */

struct frame {
	const uint8_t *nonce;
	struct str ct;
	size_t len; /* of all */
};

static int
frame_parse(struct str s, struct frame *ret, struct err *err)
{
	struct rd r = rd_init(s);
	struct str magic = rd_bytes(&r, MAGIC_LEN), nonce;
	size_t total = rd_u32(&r), ct_len;

	nonce = rd_bytes(&r, NONCE_LEN);
	ct_len = rd_u32(&r);
	if (r.bad || memcmp(magic.p, MAGIC, MAGIC_LEN) != 0)
		return err_set(err, ERR_TAMPER, "blob frame does not begin as one");
	if (ct_len < SALT_LEN + TAG_LEN || ct_len > CT_MAX || total != HEAD_LEN + ct_len)
		return err_set(err, ERR_TAMPER, "blob frame's lengths %zu and %zu do not agree",
		    total, ct_len);
	*ret = (struct frame){(const uint8_t *)nonce.p, rd_bytes(&r, ct_len), total};
	if (r.bad)
		return err_set(
		    err, ERR_TAMPER, "blob frame of %zu bytes is cut at %zu", total, s.n);
	return 0;
}

int
blob_frame_len(struct str s, size_t *ret_len, struct err *err)
{
	struct frame f = {0};
	int r = frame_parse(s, &f, err);

	if (r == 0)
		*ret_len = f.len;
	return r;
}

int
blob_frame_check(struct str s, size_t *ret_len, struct hash *ret_ct, struct err *err)
{
	struct frame f = {0};
	int r = frame_parse(s, &f, err);

	if (r != 0)
		return r;
	*ret_len = f.len;
	*ret_ct = sealed_hash(f.nonce, f.ct);
	return 0;
}

int
blob_open(const struct secret *key, struct str frame, const struct blob_ref *ref, struct buf *plain,
    struct err *err)
{
	AUTO_BUF struct buf out = BUF(SALT_LEN + BLOB_PLAIN_MAX);
	unsigned long long n = 0;
	struct hash h;
	struct frame f = {0};
	struct str content;
	int r = frame_parse(frame, &f, err);

	if (r != 0)
		return r;
	assert(f.nonce != NULL);
	h = sealed_hash(f.nonce, f.ct);
	if (!hash_eq(&h, &ref->ct))
		return err_set(err, ERR_TAMPER, "blob is not the one that the record names");
	if (secret_str(key).n != BLOB_KEY_LEN)
		return err_set(err, ERR_CRYPTO, "blob key must be %d bytes, is %zu", BLOB_KEY_LEN,
		    secret_str(key).n);
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(buf_grow(&out, f.ct.n - TAG_LEN), &n, NULL,
		(const uint8_t *)f.ct.p, f.ct.n, (const uint8_t *)MAGIC, MAGIC_LEN, f.nonce,
		(const uint8_t *)secret_str(key).p) != 0)
		return err_set(err, ERR_CRYPTO, "blob does not open with key %s", ref->kid);
	content = str_mem(out.p + SALT_LEN, out.n - SALT_LEN);
	/* The AEAD does not commit to its key; the salted hash in the record does. */
	h = commitment(out.p, content);
	if (content.n != ref->len || !hash_eq(&h, &ref->c))
		return err_set(
		    err, ERR_TAMPER, "blob's content is not what the record committed to");
	buf_put_str(plain, content);
	if (buf_over(plain))
		return err_set(
		    err, ERR_TOO_LARGE, "blob of %zu bytes, limit here %zu", content.n, plain->max);
	return 0;
}
