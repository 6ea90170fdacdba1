/*
 * The vault file (processes: core reads, the command line also writes). Trusts nothing in
 * the file before the seal has opened. Plaintext and secrets stay in guarded memory: the
 * reader here is for exactly the canonical form that the writer here emits, so that no
 * general parser makes copies of a password.
 */
#include "broker/core_vault.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define MAGIC "CFV1"
#define MAGIC_LEN 4
#define NONCE_LEN crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_LEN crypto_aead_xchacha20poly1305_ietf_ABYTES

struct vault {
	size_t n;
	struct vault_entry *e; /* sorted by name */
};

static void
entry_free(struct vault_entry *e)
{
	free(e->name);
	free(e->kind);
	free(e->scheme);
	free(e->host);
	free(e->user);
	free(e->field);
	secret_free(e->secret);
}

struct vault *
vault_new(void)
{
	return xcalloc(1, sizeof(struct vault));
}

void
vault_free(struct vault *v)
{
	if (v == NULL)
		return;
	for (size_t i = 0; i < v->n; i++)
		entry_free(&v->e[i]);
	free(v->e);
	free(v);
}

size_t
vault_count(const struct vault *v)
{
	return v->n;
}

const struct vault_entry *
vault_at(const struct vault *v, size_t i)
{
	return &v->e[i];
}

static size_t
position(const struct vault *v, struct str name, bool *ret_found)
{
	for (size_t i = 0; i < v->n; i++) {
		int cmp = str_cmp(str_z(v->e[i].name), name);

		if (cmp >= 0) {
			*ret_found = cmp == 0;
			return i;
		}
	}
	*ret_found = false;
	return v->n;
}

const struct vault_entry *
vault_find(const struct vault *v, struct str name)
{
	bool found;
	size_t i = position(v, name, &found);

	return found ? &v->e[i] : NULL;
}

int
vault_put(struct vault *v, const struct vault_bind *b, struct secret *secret, struct err *err)
{
	struct vault_entry e = {0};
	bool found;
	size_t i = position(v, b->name, &found);
	int rc = vault_bind_check(b, secret_str(secret), err);

	if (rc != 0)
		return rc;
	if (!found && v->n >= VAULT_ENTRIES_MAX)
		return err_set(err, ERR_TOO_LARGE, "the vault holds %d credentials, the limit",
		    VAULT_ENTRIES_MAX);
	e.name = str_dup(b->name);
	e.kind = str_dup(b->kind);
	e.scheme = str_dup(b->scheme);
	e.host = str_dup(b->host);
	e.user = str_dup(b->user);
	e.field = str_dup(b->field);
	e.set_s = b->set_s;
	e.port = b->port;
	e.version = found ? v->e[i].version + 1 : 1;
	e.secret = secret;
	if (found) {
		entry_free(&v->e[i]);
	} else {
		v->e = xreallocarray(v->e, v->n + 1, sizeof(e));
		memmove(&v->e[i + 1], &v->e[i], (v->n - i) * sizeof(e));
		v->n++;
	}
	v->e[i] = e;
	return 0;
}

int
vault_rotate(
    struct vault *v, struct str name, struct secret *secret, int64_t set_s, struct err *err)
{
	bool found;
	size_t i = position(v, name, &found);
	struct vault_entry *e;
	struct vault_bind b;
	int rc;

	if (!found)
		return err_set(err, ERR_NOT_FOUND, "no credential \"%.*s\"", STR_ARG(name));
	e = &v->e[i];
	b = (struct vault_bind){.name = name,
	    .kind = str_z(e->kind),
	    .scheme = str_z(e->scheme),
	    .host = str_z(e->host),
	    .user = str_z(e->user),
	    .field = str_z(e->field),
	    .port = e->port};
	if ((rc = vault_bind_check(&b, secret_str(secret), err)) != 0)
		return rc;
	secret_free(e->secret);
	e->secret = secret;
	e->set_s = set_s;
	e->version++;
	return 0;
}

int
vault_remove(struct vault *v, struct str name, struct err *err)
{
	bool found;
	size_t i = position(v, name, &found);

	if (!found)
		return err_set(err, ERR_NOT_FOUND, "no credential \"%.*s\"", STR_ARG(name));
	entry_free(&v->e[i]);
	memmove(&v->e[i], &v->e[i + 1], (v->n - i - 1) * sizeof(v->e[0]));
	v->n--;
	return 0;
}

/* --- plaintext ------------------------------------------------------------------- */

/* Writes into guarded memory of a size computed before; never grows. */
struct out {
	uint8_t *p;
	size_t n, cap;
};

static void
out_z(struct out *o, const char *z)
{
	size_t n = strlen(z);

	if (o->p != NULL && n <= o->cap - o->n)
		memcpy(o->p + o->n, z, n);
	o->n += n;
}

static void
out_number(struct out *o, uint64_t v)
{
	char num[32];

	(void)snprintf(num, sizeof(num), "%" PRIu64, v);
	out_z(o, num);
}

static void
out_secret(struct out *o, struct str s)
{
	size_t b64 = sodium_base64_ENCODED_LEN(s.n, sodium_base64_VARIANT_ORIGINAL) - 1;

	/* One byte of room for the NUL that sodium writes; the next text goes over it. */
	if (o->p != NULL && b64 + 1 <= o->cap - o->n)
		(void)sodium_bin2base64((char *)o->p + o->n, b64 + 1, (const uint8_t *)s.p, s.n,
		    sodium_base64_VARIANT_ORIGINAL);
	o->n += b64;
}

static void
out_entry(struct out *o, const struct vault_entry *e)
{
	out_z(o, "{\"bind\":{");
	if (e->field[0] != '\0') {
		out_z(o, "\"field\":\"");
		out_z(o, e->field);
		out_z(o, "\",");
	}
	out_z(o, "\"host\":\"");
	out_z(o, e->host);
	out_z(o, "\",\"port\":");
	out_number(o, e->port);
	out_z(o, ",\"scheme\":\"");
	out_z(o, e->scheme);
	out_z(o, "\",\"user\":\"");
	out_z(o, e->user);
	out_z(o, "\"},\"kind\":\"");
	out_z(o, e->kind);
	out_z(o, "\",\"name\":\"");
	out_z(o, e->name);
	out_z(o, "\",\"secret\":\"");
	out_secret(o, secret_str(e->secret));
	if (e->set_s != 0) {
		out_z(o, "\",\"set\":");
		out_number(o, (uint64_t)e->set_s);
		out_z(o, ",\"version\":");
	} else {
		out_z(o, "\",\"version\":");
	}
	out_number(o, e->version);
	out_z(o, "}");
}

static void
out_vault(struct out *o, const struct vault *v)
{
	out_z(o, "{\"credentials\":[");
	for (size_t i = 0; i < v->n; i++) {
		if (i != 0)
			out_z(o, ",");
		out_entry(o, &v->e[i]);
	}
	out_z(o, "]}");
}

static bool
take(struct str *s, const char *z)
{
	if (!str_has_prefix(*s, z))
		return false;
	s->p += strlen(z);
	s->n -= strlen(z);
	return true;
}

/* A string without escapes: up to the next quote, which stays. */
static struct str
take_text(struct str *s)
{
	const char *q = s->n != 0 ? memchr(s->p, '"', s->n) : NULL;
	struct str r = {s->p, q != NULL ? (size_t)(q - s->p) : 0};

	s->p += r.n;
	s->n -= r.n;
	return r;
}

static uint64_t
take_number(struct str *s, uint64_t max)
{
	struct str d = {s->p, 0};
	uint64_t v = 0;

	while (d.n < s->n && s->p[d.n] >= '0' && s->p[d.n] <= '9')
		d.n++;
	s->p += d.n;
	s->n -= d.n;
	return str_to_u64(d, max, &v) ? v : 0;
}

static struct secret *
secret_decode(struct str b64)
{
	AUTO(secret) struct secret *tmp = secret_new(b64.n / 4 * 3 + 3);
	size_t n = 0;

	if (sodium_base642bin(secret_bytes(tmp), b64.n / 4 * 3 + 3, b64.p, b64.n, NULL, &n, NULL,
		sodium_base64_VARIANT_ORIGINAL) != 0)
		return NULL;
	return secret_copy(str_mem(secret_bytes(tmp), n));
}

/* The text that stands before the first quote, behind `before`. */
static bool
take_member(struct str *s, const char *before, struct str *ret)
{
	if (!take(s, before))
		return false;
	*ret = take_text(s);
	return true;
}

struct entry_text {
	struct vault_bind bind;
	struct str secret; /* base64 */
	uint64_t version;
};

/* Exactly what out_entry writes; `field` and `set` may be missing, but not be empty or 0. */
static bool
entry_text_take(struct str *s, struct entry_text *t)
{
	struct vault_bind *b = &t->bind;
	const char *host = "\"host\":\"";

	*t = (struct entry_text){0};
	if (!take(s, "{\"bind\":{"))
		return false;
	if (take_member(s, "\"field\":\"", &b->field)) {
		if (b->field.n == 0)
			return false;
		host = "\",\"host\":\"";
	}
	if (!take_member(s, host, &b->host) || !take(s, "\",\"port\":"))
		return false;
	b->port = (uint16_t)take_number(s, 65535);
	if (!take_member(s, ",\"scheme\":\"", &b->scheme) ||
	    !take_member(s, "\",\"user\":\"", &b->user) ||
	    !take_member(s, "\"},\"kind\":\"", &b->kind) ||
	    !take_member(s, "\",\"name\":\"", &b->name) ||
	    !take_member(s, "\",\"secret\":\"", &t->secret) || !take(s, "\","))
		return false;
	if (take(s, "\"set\":")) {
		b->set_s = (int64_t)take_number(s, INT64_MAX);
		if (b->set_s == 0 || !take(s, ","))
			return false;
	}
	if (!take(s, "\"version\":"))
		return false;
	t->version = take_number(s, UINT32_MAX);
	return t->version != 0 && take(s, "}");
}

static int
entry_read(struct vault *v, struct str *s, struct err *err)
{
	AUTO(secret) struct secret *secret = NULL;
	struct entry_text t;
	bool found;
	size_t at;

	if (entry_text_take(s, &t))
		secret = secret_decode(t.secret);
	if (secret == NULL)
		return err_set(err, ERR_TAMPER, "vault: entry %zu is not of the form", v->n);
	at = position(v, t.bind.name, &found);
	if (found || at != v->n)
		return err_set(err, ERR_TAMPER, "vault: entry %zu is out of order", v->n);
	if (vault_put(v, &t.bind, secret, err) != 0)
		return err_wrap(err, "vault");
	(void)TAKE_PTR(secret);
	v->e[at].version = t.version;
	return 0;
}

static int
vault_read(struct str s, struct vault **ret, struct err *err)
{
	AUTO(vault) struct vault *v = vault_new();

	if (!take(&s, "{\"credentials\":["))
		return err_set(err, ERR_TAMPER, "vault: not a list of credentials");
	while (!str_has_prefix(s, "]")) {
		int rc;

		if (v->n != 0 && !take(&s, ","))
			return err_set(err, ERR_TAMPER, "vault: no comma after entry %zu", v->n);
		rc = entry_read(v, &s, err);
		if (rc != 0)
			return rc;
	}
	if (!take(&s, "]}") || s.n != 0)
		return err_set(err, ERR_TAMPER, "vault: bytes after the last entry");
	*ret = TAKE_PTR(v);
	return 0;
}

/* --- the seal -------------------------------------------------------------------- */

#define RESTORE "restore vault and keys/vault.key from the same backup"

static int
key_check(const struct secret *key, struct err *err)
{
	if (secret_str(key).n != VAULT_KEY_LEN)
		return err_set(err, ERR_CONFIG,
		    "keys/vault.key must have %d bytes, has %zu: " RESTORE, VAULT_KEY_LEN,
		    secret_str(key).n);
	return 0;
}

int
vault_open(struct str file, const struct secret *key, struct vault **ret, struct err *err)
{
	AUTO(secret) struct secret *plain = NULL;
	const uint8_t *p = (const uint8_t *)file.p;
	unsigned long long n = 0;
	int rc = key_check(key, err);

	if (rc != 0)
		return rc;
	if (file.n < MAGIC_LEN + NONCE_LEN + TAG_LEN || memcmp(p, MAGIC, MAGIC_LEN) != 0)
		return err_set(err, ERR_TAMPER, "vault: not a vault of version 1: " RESTORE);
	plain = secret_new(file.n);
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(secret_bytes(plain), &n, NULL,
		p + MAGIC_LEN + NONCE_LEN, file.n - MAGIC_LEN - NONCE_LEN, p, MAGIC_LEN,
		p + MAGIC_LEN, (const uint8_t *)secret_str(key).p) != 0)
		return err_set(err, ERR_TAMPER,
		    "vault: not sealed under keys/vault.key, or changed since: " RESTORE);
	return vault_read(str_mem(secret_bytes(plain), (size_t)n), ret, err);
}

int
vault_seal(const struct vault *v, const struct secret *key, struct buf *out, struct err *err)
{
	AUTO(secret) struct secret *plain = NULL;
	struct out o = {0};
	uint8_t nonce[NONCE_LEN], *p;
	unsigned long long n = 0;
	int rc = key_check(key, err);

	if (rc != 0)
		return rc;
	out_vault(&o, v); /* the size */
	plain = secret_new(o.n + 1);
	o = (struct out){.p = secret_bytes(plain), .cap = o.n + 1};
	out_vault(&o, v);
	rand_bytes(nonce, sizeof(nonce));
	buf_put(out, MAGIC, MAGIC_LEN);
	buf_put(out, nonce, sizeof(nonce));
	p = buf_grow(out, o.n + TAG_LEN);
	if (p == NULL)
		return err_set(err, ERR_TOO_LARGE, "vault is over %zu bytes", out->max);
	if (crypto_aead_xchacha20poly1305_ietf_encrypt(p, &n, o.p, o.n, (const uint8_t *)MAGIC,
		MAGIC_LEN, NULL, nonce, (const uint8_t *)secret_str(key).p) != 0)
		return err_set(err, ERR_CRYPTO, "vault: sealing failed");
	return 0;
}
