/*
 * Sealed content beside the log. Core and upstream seal, the writer appends frames it cannot
 * open, the command line opens with the run's key. A frame from disk is not trusted: what comes
 * out of blob_open is what the record committed to, or an error.
 *
 *	"CFB2" | u32 total length | wrap | 24-byte nonce | u32 ciphertext length | ciphertext
 *	wrap = 24-byte nonce | XChaCha20-Poly1305(run's key, nonce, key, additional data "CFB2" kid)
 *	ciphertext = XChaCha20-Poly1305(key, nonce, salt32 || content, additional data "CFB2")
 *
 * The key is this frame's alone, so upstream is lent that of one answer and not the run's. Frames
 * with "CFB1" have no wrap and the run's key itself; they are read, and written no more.
 */
#include "audit/blob.h"

#include <assert.h>
#include <sodium.h>

#include "common/log.h"

#include "common/banned.h"

#define MAGIC "CFB2"
#define MAGIC_OLD "CFB1"
#define MAGIC_LEN 4
#define NONCE_LEN crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_LEN crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SALT_LEN 32
#define HEAD_OLD ((size_t)(MAGIC_LEN + 4 + NONCE_LEN + 4))
#define HEAD_LEN (HEAD_OLD + BLOB_WRAP_LEN)
#define CT_MAX (SALT_LEN + BLOB_PLAIN_MAX + TAG_LEN)

static_assert(NONCE_LEN == 24 && TAG_LEN == 16, "the format is fixed");
static_assert(BLOB_WRAP_LEN == NONCE_LEN + BLOB_KEY_LEN + TAG_LEN, "the format is fixed");

static struct hash
commitment(const uint8_t salt[SALT_LEN], struct str plaintext)
{
	struct str parts[] = {STR("cofferdam-blob/v1\0"), str_mem(salt, SALT_LEN), plaintext};

	return hash_sha256_parts(parts, 3);
}

/* Wrap and nonce are part of it, or a changed one would look whole to whoever has no key. */
static struct hash
sealed_hash(struct str wrap, const uint8_t *nonce, struct str ct)
{
	struct str parts[] = {wrap, str_mem(nonce, NONCE_LEN), ct};

	return hash_sha256_parts(parts, 3);
}

static void
put_z(char *out, size_t size, struct str s)
{
	assert(s.n < size);
	if (s.n != 0)
		memcpy(out, s.p, s.n);
	out[s.n] = '\0';
}

static int
key_check(const struct secret *key, struct err *err)
{
	if (secret_str(key).n != BLOB_KEY_LEN)
		return err_set(err, ERR_CRYPTO, "blob key must be %d bytes, is %zu", BLOB_KEY_LEN,
		    secret_str(key).n);
	return 0;
}

/* --- keys ---------------------------------------------------------------------------- */

/* A wrap moved under another run's name does not open. */
static void
wrap_ad(struct buf *out, struct str kid)
{
	buf_put(out, MAGIC, MAGIC_LEN);
	buf_put_str(out, kid);
}

int
blob_key_new(const struct secret *run_key, struct str kid, struct secret **ret_key,
    uint8_t ret_wrap[BLOB_WRAP_LEN], struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(BLOB_KEY_LEN);
	AUTO_BUF struct buf ad = BUF(128);
	int r = key_check(run_key, err);

	if (r != 0)
		return r;
	if (kid.n == 0 || kid.n >= sizeof(((struct blob_ref *)0)->kid))
		return err_set(err, ERR_INVALID, "blob: key id of %zu bytes", kid.n);
	wrap_ad(&ad, kid);
	rand_bytes(secret_bytes(key), BLOB_KEY_LEN);
	rand_bytes(ret_wrap, NONCE_LEN);
	if (crypto_aead_xchacha20poly1305_ietf_encrypt(ret_wrap + NONCE_LEN, NULL,
		secret_bytes(key), BLOB_KEY_LEN, ad.p, ad.n, NULL, ret_wrap,
		(const uint8_t *)secret_str(run_key).p) != 0)
		fatal("libsodium: encryption failed");
	*ret_key = TAKE_PTR(key);
	return 0;
}

static int
unwrap(const struct secret *run_key, struct str kid, const uint8_t *wrap, struct secret **ret,
    struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(BLOB_KEY_LEN);
	AUTO_BUF struct buf ad = BUF(128);

	wrap_ad(&ad, kid);
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(secret_bytes(key), NULL, NULL,
		wrap + NONCE_LEN, BLOB_KEY_LEN + TAG_LEN, ad.p, ad.n, wrap,
		(const uint8_t *)secret_str(run_key).p) != 0)
		return err_set(err, ERR_CRYPTO, "blob does not open with key %.*s", STR_ARG(kid));
	*ret = TAKE_PTR(key);
	return 0;
}

/* --- sealing ------------------------------------------------------------------------- */

static int
seal_check(const struct secret *key, struct str kid, const char *media, struct str plaintext,
    const struct buf *frame, struct err *err)
{
	const struct blob_ref *ref = NULL;
	size_t want = HEAD_LEN + SALT_LEN + plaintext.n + TAG_LEN;

	if (plaintext.n > BLOB_PLAIN_MAX)
		return err_set(err, ERR_TOO_LARGE, "blob of %zu bytes, limit %zu", plaintext.n,
		    BLOB_PLAIN_MAX);
	if (kid.n == 0 || kid.n >= sizeof(ref->kid) || strlen(media) >= sizeof(ref->media))
		return err_set(err, ERR_INVALID, "blob: key id or media type of a wrong length");
	if (want > frame->max - frame->n)
		return err_set(err, ERR_TOO_LARGE, "blob frame of %zu bytes, room for %zu", want,
		    frame->max - frame->n);
	return key_check(key, err);
}

int
blob_seal_with(const struct secret *key, const uint8_t wrap[BLOB_WRAP_LEN], struct str kid,
    const char *media, struct str plaintext, struct buf *frame, struct blob_ref *ret,
    struct err *err)
{
	AUTO_BUF struct buf plain = BUF(SALT_LEN + BLOB_PLAIN_MAX);
	struct blob_ref ref = {.len = plaintext.n};
	uint8_t salt[SALT_LEN], nonce[NONCE_LEN], *ct;
	size_t ct_len = SALT_LEN + plaintext.n + TAG_LEN;
	int r = seal_check(key, kid, media, plaintext, frame, err);

	if (r != 0)
		return r;
	rand_bytes(salt, sizeof(salt));
	rand_bytes(nonce, sizeof(nonce));
	ref.c = commitment(salt, plaintext);
	put_z(ref.kid, sizeof(ref.kid), kid);
	put_z(ref.media, sizeof(ref.media), str_z(media));
	buf_put(&plain, salt, sizeof(salt));
	buf_put_str(&plain, plaintext);

	buf_put(frame, MAGIC, MAGIC_LEN);
	buf_u32(frame, (uint32_t)(HEAD_LEN + ct_len));
	buf_put(frame, wrap, BLOB_WRAP_LEN);
	buf_put(frame, nonce, sizeof(nonce));
	buf_u32(frame, (uint32_t)ct_len);
	ct = buf_grow(frame, ct_len);
	assert(ct != NULL);
	if (crypto_aead_xchacha20poly1305_ietf_encrypt(ct, NULL, plain.p, plain.n,
		(const uint8_t *)MAGIC, MAGIC_LEN, NULL, nonce,
		(const uint8_t *)secret_str(key).p) != 0)
		fatal("libsodium: encryption failed");
	ref.ct = sealed_hash(str_mem(wrap, BLOB_WRAP_LEN), nonce, str_mem(ct, ct_len));
	*ret = ref;
	return 0;
}

int
blob_seal(const struct secret *run_key, struct str kid, const char *media, struct str plaintext,
    struct buf *frame, struct blob_ref *ret, struct err *err)
{
	AUTO(secret) struct secret *key = NULL;
	uint8_t wrap[BLOB_WRAP_LEN];
	int r = blob_key_new(run_key, kid, &key, wrap, err);

	return r != 0 ? r : blob_seal_with(key, wrap, kid, media, plaintext, frame, ret, err);
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
	struct str wrap; /* empty: the run's key itself, of "CFB1" */
	const uint8_t *nonce;
	struct str ct;
	size_t len; /* of all */
};

static int
frame_parse(struct str s, struct frame *ret, struct err *err)
{
	struct rd r = rd_init(s);
	struct str magic = rd_bytes(&r, MAGIC_LEN), wrap = STR(""), nonce;
	size_t total = rd_u32(&r), head = HEAD_OLD, ct_len;

	if (!r.bad && memcmp(magic.p, MAGIC, MAGIC_LEN) == 0) {
		head = HEAD_LEN;
		wrap = rd_bytes(&r, BLOB_WRAP_LEN);
	}
	nonce = rd_bytes(&r, NONCE_LEN);
	ct_len = rd_u32(&r);
	if (r.bad || (wrap.n == 0 && memcmp(magic.p, MAGIC_OLD, MAGIC_LEN) != 0))
		return err_set(err, ERR_TAMPER, "blob frame does not begin as one");
	if (ct_len < SALT_LEN + TAG_LEN || ct_len > CT_MAX || total != head + ct_len)
		return err_set(err, ERR_TAMPER, "blob frame's lengths %zu and %zu do not agree",
		    total, ct_len);
	*ret = (struct frame){wrap, (const uint8_t *)nonce.p, rd_bytes(&r, ct_len), total};
	if (r.bad)
		return err_set(
		    err, ERR_TAMPER, "blob frame of %zu bytes is cut at %zu", total, s.n);
	return 0;
}

size_t
blob_frame_find(struct str s)
{
	const char *hit = s.n != 0 ? memmem(s.p, s.n, "CFB", 3) : NULL;

	return hit != NULL ? (size_t)(hit - s.p) : s.n;
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
	*ret_ct = sealed_hash(f.wrap, f.nonce, f.ct);
	return 0;
}

/* Salt and content, by the frame's own key or, of "CFB1", by the run's. */
static int
decrypt(const struct secret *run_key, const struct frame *f, const char *kid, struct buf *out,
    struct err *err)
{
	AUTO(secret) struct secret *own = NULL;
	const char *magic = f->wrap.n != 0 ? MAGIC : MAGIC_OLD;
	int r =
	    f->wrap.n != 0 ? unwrap(run_key, str_z(kid), (const uint8_t *)f->wrap.p, &own, err) : 0;

	if (r != 0)
		return r;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(buf_grow(out, f->ct.n - TAG_LEN), NULL, NULL,
		(const uint8_t *)f->ct.p, f->ct.n, (const uint8_t *)magic, MAGIC_LEN, f->nonce,
		(const uint8_t *)secret_str(own != NULL ? own : run_key).p) != 0)
		return err_set(err, ERR_CRYPTO, "blob does not open with key %s", kid);
	return 0;
}

int
blob_open(const struct secret *key, struct str frame, const struct blob_ref *ref, struct buf *plain,
    struct err *err)
{
	AUTO_BUF struct buf out = BUF(SALT_LEN + BLOB_PLAIN_MAX);
	struct hash h;
	struct frame f = {0};
	struct str content;
	int r = frame_parse(frame, &f, err);

	if (r != 0)
		return r;
	assert(f.nonce != NULL);
	h = sealed_hash(f.wrap, f.nonce, f.ct);
	if (!hash_eq(&h, &ref->ct))
		return err_set(err, ERR_TAMPER, "blob is not the one that the record names");
	if ((r = key_check(key, err)) != 0 || (r = decrypt(key, &f, ref->kid, &out, err)) != 0)
		return r;
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
